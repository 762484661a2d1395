"""Options that several commands share, and the unknowns that ``--space`` and ``--bounds`` describe."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

BOUND = "[NAME=]LOW,HIGH[,log|,integer|,periodic]"


def given_of(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return those of the named options that were given."""
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


_FLAG: dict[str, Any] = {"action": "store_true", "default": None}
_FILE, _SECONDS = {"metavar": "FILE"}, {"type": float, "metavar": "SECONDS"}
_INTEGER, _NUMBER = {"type": int, "metavar": "N"}, {"type": float, "metavar": "N"}
_EACH, _OBJECT = {"action": "append"}, {"metavar": "FILE.py:NAME"}
_OUTPUTS: dict[str, Any] = {"action": "append", "default": []}
# The options of commands that run something, and what argparse needs to know of them; see `add`.
_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "function": ({"nargs": "?"}, "FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION"),
    "--vectorized": (_FLAG, "the function takes many points at once"),
    "--command": ({"metavar": "TEXT"}, "its call, with {name} in the place of a value; no shell runs"),
    "--folder": (
        {"nargs": "?", "const": True, "metavar": "CASE"},
        "run each call in a temporary folder of its own, a copy of CASE if given",
    ),
    "--template": (
        _EACH | _FILE,
        "input file with {name} in the place of values, written to that folder without its .in",
    ),
    "--value-from": (_FILE, "read the value from this file, not from the output"),
    "--pattern": (
        {"metavar": "REGEX"},
        "what stands before the value, or has it as its first group (default: the last number of the last line)",
    ),
    "--shell": (_FLAG, "let the shell run it; values are quoted"),
    "--keep": ({"metavar": "FOLDER"}, "keep the folders of all calls here"),
    "--limit": (
        _EACH | {"metavar": "REGEX<=NUMBER"},
        'a constraint: a number that the program writes, as in "stress<=250"; also >=',
    ),
    "--factor": ({"type": float, "metavar": "NUMBER"}, "multiply the value by it: -1 to maximise"),
    "--maxfev": (_NUMBER, "most evaluations"),
    "--timeout": (_SECONDS, "kill an evaluation after this time"),
    "--maxiter": (_NUMBER, "most generations"),
    "--time-limit": (_SECONDS, "stop after this time"),
    "--target": ({"type": float, "metavar": "VALUE"}, "stop when the value is at or below it"),
    "--tol": ({"type": float}, "when a single swarm has converged (default: 1e-12)"),
    "--n-effective": (_INTEGER, "wanted effective sample size (default: 2000)"),
    "--workers": (_INTEGER, "number of processes; -1: one per core"),
    "--store": (_FILE, "keep every evaluation here; a run that was stopped can go on"),
    "--seed": (_INTEGER, "seed of the random numbers"),
    "--trust": ({"action": "store_true"}, "use the values in the store even if the function has changed"),
    "--json": (_FILE, "write the result as JSON; - for stdout, without the summary"),
    "--quiet": ({"action": "store_true"}, "no progress bar"),
    "--method": ({"metavar": "NAME"}, "PAO, DE, PSO, ... or your own, FILE.py:NAME"),
    "--particles": (_INTEGER | {"dest": "n_particles"}, "size of the first swarm"),
    "--constraints": (_EACH | _OBJECT, "what a point must satisfy"),
    "--polish": (_FLAG, "finish with a local search"),
    "--asynchronous": (_FLAG, "do not wait for whole generations"),
    "--draws": (_FILE, "write draws of equal weight, as .csv or .npz"),
    "--data": (_FILE | {"required": True}, "a table with names in its first line, as CSV"),
    "--outputs": ({"nargs": "+", "metavar": "COLUMN"}, "columns of it to fit (default: all others)"),
    "--x": (
        {"metavar": "COLUMN"},
        "column of places, such as a time: a function is called as f(x, *values), a program's table has it too",
    ),
    "--sigma": (
        _OUTPUTS | {"metavar": "[OUTPUT=]WHAT"},
        "standard deviation, a number or a column (default: a column sigma_OUTPUT; without one it is estimated)",
    ),
    "--likelihood": (
        _OUTPUTS | {"metavar": "[OUTPUT=]LAW"},
        "law of the noise: normal, lognormal, poisson, student-t, huber",
    ),
    "--scale": (_OUTPUTS | {"metavar": "OUTPUT"}, "its unit is unknown: fit a factor, too"),
    "--offset": (_OUTPUTS | {"metavar": "OUTPUT"}, "its zero is unknown: fit an offset, too"),
    "--penalty": (_OBJECT, "a function of the unknowns: more residuals"),
    "--estimates": (_FILE, "unknowns with errors, intervals and correlations"),
    "--predictions": (_FILE, "data, predictions, 95 %% bands and residuals"),
}
_GROUPS = {
    "an external program, instead of a function": "--command --folder --template --value-from --pattern --shell --keep",
    "running": "--workers --store --seed --trust",
    "output": "--json --quiet",
    "tables of a fit, as CSV": "--estimates --predictions",
}
PROGRAM, RUNNING, OUTPUT, TABLES = _GROUPS


def add(parser: argparse.ArgumentParser, title: str, names: str = "", **helps: str) -> None:
    """Add options in a group with this title, with other helps for some; one of the common groups has options already.

    Without a title they are in no group.
    """
    group = parser.add_argument_group(title) if title else parser
    for name in [*_GROUPS.get(title, "").split(), *names.split()]:
        how, what = _OPTIONS[name]
        group.add_argument(name, help=helps.get(name.strip("-").replace("-", "_"), what), **how)


def add_unknowns(parser: argparse.ArgumentParser, file: str) -> None:
    """Add the variables."""
    group = parser.add_argument_group("unknowns (one of these)").add_mutually_exclusive_group(required=True)
    group.add_argument("--space", metavar="FILE.toml", help=file)
    group.add_argument("--bounds", nargs="+", metavar="BOUND", help=BOUND)


class NamedUnknowns(NamedTuple):
    """The variables as `minimize` or `sample` takes them, and what they are called in a command."""

    given: Any
    names: list[str]
    free: list[str]  # those that are not fixed


def read_unknowns(options: argparse.Namespace, *, prior: bool = False) -> NamedUnknowns:
    """Return the variables of ``--space`` or ``--bounds``."""
    from paoswarm import Choice, Integer, Periodic, Real, read_space

    if options.space is None:
        return _read_bounds(options.bounds)
    space = read_space(options.space, prior=prior)
    kinds = (Real, Integer, Choice, Periodic)
    free = [name for name, one in space.items() if isinstance(one, kinds) or hasattr(one, "ppf")]
    if not free:
        raise ValueError(f"{options.space}: every variable is fixed, so nothing is left to search")
    return NamedUnknowns(space, list(space), free)


def _read_bounds(texts: list[str]) -> NamedUnknowns:
    entries = [_read_bound(text.strip()) for text in texts]
    named = {name: variable for name, variable in entries if name}
    if len(named) == len(entries):
        return NamedUnknowns(named, list(named), list(named))
    if named:
        raise ValueError("--bounds: give names to all bounds or to none, and each name once")
    names = [f"x{i}" for i in range(len(entries))]
    return NamedUnknowns([variable for _, variable in entries], names, names)


def _read_bound(text: str) -> tuple[str, Any]:
    """Return name and variable of an entry of ``--bounds``."""
    from paoswarm import read_space

    name, _, ends = text.rpartition("=")
    low, *rest = ends.split(",")
    kind = rest[1] if len(rest) == 2 else ""
    try:
        pair = [float(low), float(rest[0])]
        if len(rest) > 2 or kind not in ("", "log", "integer", "periodic"):
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(f"--bounds: {text!r} must be {BOUND}, for example -5,5 or rate=1e-6,1e3,log") from None
    try:
        (variable,) = read_space({name or "x": {kind: pair} if kind else pair}).values()
    except ValueError as error:
        reason = str(error).removeprefix(f"{name or 'x'}: ")
        raise ValueError(f"--bounds: {text}: {reason}") from None
    return name, variable
