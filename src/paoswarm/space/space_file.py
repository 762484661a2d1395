"""A space from a TOML file, one entry for each variable.

.. code-block:: toml

    offset = [-5, 5]                               # between two ends
    rate = { low = 1e-6, high = 1e3, log = true }  # searched on a logarithmic scale; short: { log = [1e-6, 1e3] }
    order = { integer = [1, 8] }                   # both ends included
    phase = { periodic = [0, 360] }                # both ends are the same point
    kernel = ["rbf", "matern", "periodic"]         # one of several; of numbers: { choice = [1, 2, 4] }
    gain = 3.0                                     # fixed

    [level]                                        # the long form of { ... }
    low = 0
    high = 10
    prior = { normal = [5, 2] }                    # only for `sample`: mean and standard deviation
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paoswarm._checks import choices, of_kind
from paoswarm.space.names import check_name
from paoswarm.space.variables import Choice, Integer, Periodic, Real, Variable

_SHORT = ("integer", "periodic", "log", "choice", "fixed")  # keys that hold the whole variable
_KEYS = ("low", "high", *_SHORT, "prior")
_FORMS = (
    "write [low, high], { log = [low, high] }, { integer = [low, high] }, { periodic = [low, high] }, "
    '{ choice = [...] }, or a number or "text" to fix it'
)


def read_space(given: str | os.PathLike[str] | Mapping[str, Any], *, prior: bool = False) -> dict[str, Any]:
    r"""Read the variables of a TOML file, to be given to `minimize` as ``bounds`` or to `sample` as ``prior``.

    Parameters
    ----------
    given : path or mapping
        The file, or what such a file holds. See the page "Command line" of the documentation for its form.
    prior : bool
        Whether to use the entries ``prior``, for `sample`. Otherwise they are left out, and every variable needs ends.

    Returns
    -------
    dict
        By name: `Real`, `Integer`, `Choice`, `Periodic`, or a fixed value; with ``prior=True`` also distributions of
        `scipy.stats`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import paoswarm as ps
    >>> file = pathlib.Path(tempfile.mkdtemp(), "space.toml")
    >>> _ = file.write_text('rate = { log = [1e-6, 1e3] }\norder = { integer = [1, 8] }\ngain = 3.0')
    >>> ps.read_space(file)
    {'rate': Real(1e-06, 1000, log=True), 'order': Integer(1, 8), 'gain': 3.0}
    """
    if isinstance(given, Mapping):
        return {name: _named("", name, entry, prior) for name, entry in given.items()}
    file = Path(of_kind("the space", given, str | os.PathLike, "a TOML file, or a dict of what such a file holds"))
    try:
        contents = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not valid TOML: {error}") from None
    if not contents:
        raise ValueError(f"{file} holds no variables; write one line for each, for example: rate = [0, 10]")
    return {name: _named(f"{file}: ", name, entry, prior) for name, entry in contents.items()}


def _named(where: str, name: str, entry: Any, prior: bool) -> Any:
    try:
        check_name(name)
    except ValueError as error:
        raise ValueError(f"{where}{error}") from None
    try:
        return _read(entry, prior)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}{name}: {error}") from None


def _read(entry: Any, prior: bool) -> Any:
    """One variable, or its prior."""
    if isinstance(entry, Mapping):
        return _from_table(entry, prior)
    if isinstance(entry, list):
        return _from_list(entry)
    return _fixed(entry)


def _fixed(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"it is fixed at {value}, which is not finite")
    return _plain(value)


def _plain(value: Any) -> Any:
    if not isinstance(value, str | int | float):  # dates and times
        raise ValueError(f"{value!r} cannot be used; {_FORMS}")
    return value


def _choice(entries: list[Any]) -> Choice:
    if any(entry != entry for entry in entries):
        raise ValueError("nan cannot be an entry, because it is not equal to itself")
    return Choice([_plain(one) for one in entries])


def _from_list(entries: list[Any]) -> Any:
    if len(entries) == 2 and all(map(_is_number, entries)):
        return Real(*entries)
    if entries and all(map(_is_number, entries)):
        raise ValueError(f"{entries} has {len(entries)} numbers; write [low, high], or {{ choice = {entries} }}")
    return _choice(entries)


def _from_table(table: Mapping[str, Any], prior: bool) -> Any:
    for key in table:
        if key not in _KEYS:
            raise ValueError(f"there is no key {key!r}; {choices(key, _KEYS)}")
    if prior and "prior" in table:
        return _distribution(table["prior"])
    if not table:
        raise ValueError(f"it is empty; {_FORMS}")
    if not table.keys() - {"prior"}:
        raise ValueError("it has a prior, but no ends, which a minimum needs: add low and high")
    return _between(table) if "low" in table or "high" in table else _from_one_key(table)


def _from_one_key(table: Mapping[str, Any]) -> Any:
    """A variable whose one key holds all of it."""
    short = [key for key in _SHORT if key in table and not isinstance(table[key], bool)]
    if len(short) != 1 or len(table.keys() - {"prior"}) != 1:
        do = "does" if len(table) == 1 else "do"
        raise ValueError(f"{' and '.join(table)} {do} not make a variable; {_FORMS}")
    key, value = short[0], table[short[0]]
    if key == "fixed":
        return _fixed(value)
    if not isinstance(value, list):
        raise ValueError(f"{key} = {value!r}; {_FORMS}")
    if key == "choice":
        return _choice(value)
    if len(value) != 2:
        raise ValueError(f"{key} = {value}: give two ends, [low, high]")
    return RANGES[key](*value)


def _between(table: Mapping[str, Any]) -> Any:
    """A variable with ``low`` and ``high``."""
    missing = [key for key in ("low", "high") if key not in table]
    if missing:
        raise ValueError(f"{missing[0]} is missing beside {'high' if missing == ['low'] else 'low'}")
    kinds = [key for key in table if key not in ("low", "high", "prior")]
    for key in kinds:
        if key not in RANGES:
            raise ValueError(f"{key} does not go with low and high: leave out either {key}, or low and high")
        if not isinstance(table[key], bool):
            raise ValueError(f"{key} = {table[key]!r} beside low and high: write {key} = true, or leave it out")
    chosen = [key for key in kinds if table[key]]
    if len(chosen) > 1:
        raise ValueError(f"{' and '.join(chosen)} exclude each other")
    return (RANGES[chosen[0]] if chosen else Real)(table["low"], table["high"])


def _whole(low: Any, high: Any) -> Integer:
    """Who writes 1.5 in a file expects something else than what `Integer` makes of it, which is 2."""
    for end in (low, high):
        if isinstance(end, float) and math.isfinite(end) and not end.is_integer():
            raise ValueError(f"integer needs whole ends, which are included, got {low} and {high}")
    return Integer(low, high)


# Kinds of variables with two ends, by the words of files and of the command line.
RANGES: dict[str, Callable[[Any, Any], Variable]] = {
    "log": lambda low, high: Real(low, high, log=True),
    "integer": _whole,
    "periodic": Periodic,
}
# What the numbers of a prior are, and the distribution of scipy.stats that they make.
_PRIORS: dict[str, tuple[tuple[str, ...], Callable[..., tuple[str, dict[str, float]]]]] = {
    "normal": (("mean", "sd"), lambda mean, sd: ("norm", {"loc": mean, "scale": sd})),
    "halfnormal": (("sd",), lambda sd: ("halfnorm", {"scale": sd})),
    "lognormal": (("median", "sd of the logarithm"), lambda median, sd: ("lognorm", {"s": sd, "scale": median})),
    "exponential": (("mean",), lambda mean: ("expon", {"scale": mean})),
}


def _distribution(given: Any) -> Any:
    """The distribution of an entry ``prior``."""
    example = "write for example prior = { normal = [mean, sd] }"
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"prior = {given!r}; {example}")
    if "scipy" in given:
        settings = {key: value for key, value in given.items() if key != "scipy"}
        return _of_scipy(given["scipy"], settings)
    name, numbers = next(iter(given.items()))
    if name not in _PRIORS or len(given) > 1:
        known = [*_PRIORS, "scipy"]
        what = choices(name, known) if name not in known else example
        raise ValueError(f"prior: {', '.join(given)} is no distribution; {what}")
    labels, make = _PRIORS[name]
    numbers = numbers if isinstance(numbers, list) else [numbers]
    if len(numbers) != len(labels) or not all(map(_is_finite, numbers)) or not numbers[-1] > 0:
        form = f"[{', '.join(labels)}]" if len(labels) > 1 else labels[0]
        raise ValueError(f"prior: write {name} = {form}, finite and the last above zero; got {given[name]!r}")
    return _of_scipy(*make(*numbers))


def _of_scipy(name: Any, settings: dict[str, Any]) -> Any:
    from scipy import stats  # not at the top: importing it takes half a second

    family = getattr(stats, name, None) if isinstance(name, str) else None
    if not isinstance(family, stats.rv_continuous):
        raise ValueError(f"prior: scipy.stats has no continuous distribution {name!r}")
    for key, value in settings.items():
        if not _is_finite(value):
            raise ValueError(f"prior: {key} = {value!r} is not a finite number")
    try:
        law = family(**settings)
    except TypeError:
        shapes = f"{family.shapes}, " if family.shapes else ""
        raise ValueError(f"prior: {name} takes {shapes}loc and scale, got {', '.join(settings) or 'nothing'}") from None
    if math.isnan(law.median()):
        values = ", ".join(f"{key} = {value}" for key, value in settings.items())
        raise ValueError(f"prior: {name} is no distribution with {values}")
    return law


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)
