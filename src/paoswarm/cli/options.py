"""Options that several commands share, and the unknowns that ``--space`` and ``--bounds`` describe."""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

BOUND = "[NAME=]LOW,HIGH[,log|,integer|,periodic]"


def given_of(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return those of the named options that were given."""
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def add_objective(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the function, or the program that takes its place."""
    add_function(parser, what).add_argument(
        "--vectorized", action="store_true", default=None, help="the function takes many points at once"
    )
    add_command(parser)


def add_function(parser: argparse.ArgumentParser, what: str) -> Any:
    """Add the function; return its group."""
    group = parser.add_argument_group(what)
    group.add_argument("function", nargs="?", help="FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION")
    return group


def add_command(parser: argparse.ArgumentParser) -> None:
    """Add the options of an external program that writes a value."""
    group = add_program(
        parser,
        "read the value from this file, not from the output",
        "what stands before the value, or has it as its first group (default: the last number of the last line)",
    )
    group.add_argument(
        "--limit",
        action="append",
        metavar="REGEX<=NUMBER",
        help='a constraint: a number that the program writes, as in "stress<=250"; also >=',
    )
    group.add_argument("--factor", type=float, metavar="NUMBER", help="multiply the value by it: -1 to maximise")


def add_program(parser: argparse.ArgumentParser, value_from: str, pattern: str) -> Any:
    """Add the options of any external program, with what two of them mean; return their group."""
    group = parser.add_argument_group("an external program, instead of a function")
    group.add_argument("--command", metavar="TEXT", help="its call, with {name} in the place of a value; no shell runs")
    group.add_argument(
        "--folder",
        nargs="?",
        const=True,
        metavar="CASE",
        help="run each call in a temporary folder of its own, a copy of CASE if given",
    )
    group.add_argument(
        "--template",
        action="append",
        metavar="FILE",
        help="input file with {name} in the place of values, written to that folder without its .in",
    )
    group.add_argument("--value-from", metavar="FILE", help=value_from)
    group.add_argument("--pattern", metavar="REGEX", help=pattern)
    group.add_argument("--shell", action="store_true", default=None, help="let the shell run it; values are quoted")
    group.add_argument("--keep", metavar="FOLDER", help="keep the folders of all calls here")
    return group


def add_unknowns(parser: argparse.ArgumentParser, file: str) -> None:
    """Add the variables."""
    group = parser.add_argument_group("unknowns (one of these)").add_mutually_exclusive_group(required=True)
    group.add_argument("--space", metavar="FILE.toml", help=file)
    group.add_argument("--bounds", nargs="+", metavar="BOUND", help=BOUND)


def add_running(parser: argparse.ArgumentParser) -> Any:
    """Add how the function is called, and where evaluations are kept; return the group of limits."""
    limits = parser.add_argument_group("limits")
    limits.add_argument("--maxfev", type=float, metavar="N", help="most evaluations")
    limits.add_argument("--timeout", type=float, metavar="SECONDS", help="kill an evaluation after this time")
    group = parser.add_argument_group("running")
    group.add_argument("--workers", type=int, metavar="N", help="number of processes; -1: one per core")
    group.add_argument("--store", metavar="FILE", help="keep every evaluation here; a run that was stopped can go on")
    group.add_argument("--seed", type=int, metavar="N", help="seed of the random numbers")
    add_trust(group)
    add_output(parser)
    return limits


def add_trust(group: Any) -> None:
    """Add the option that skips comparisons with a stored run."""
    group.add_argument(
        "--trust", action="store_true", help="use the values in the store even if the function has changed"
    )


def add_output(parser: argparse.ArgumentParser) -> Any:
    """Add where results go; return the group."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", metavar="FILE", help="write the result as JSON; - for stdout, without the summary")
    group.add_argument("--quiet", action="store_true", help="no progress bar")
    return group


def add_fit_output(parser: argparse.ArgumentParser) -> None:
    """Add the tables of a fit."""
    group = parser.add_argument_group("tables of a fit, as CSV")
    group.add_argument("--estimates", metavar="FILE", help="unknowns with errors, intervals and correlations")
    group.add_argument("--predictions", metavar="FILE", help="data, predictions, 95 %% bands and residuals")


def add_draws(parser: argparse.ArgumentParser) -> None:
    """Add where draws go."""
    parser.add_argument("--draws", metavar="FILE", help="write draws of equal weight, as .csv or .npz")


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
