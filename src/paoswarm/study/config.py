"""A study from a TOML file.

.. code-block:: toml

    title = "Two swarms"
    problems = ["sphere", "rastrigin-shifted"]
    dims = [2, 8]
    runs = 30

    [methods.PAO]

    [methods."damped PAO"]
    kind = "PAO"
    damping = 0.3
    dt = { linear = [1.5, 0.8] }

    [methods.PSO]
    preset = "paper"

    [methods."SciPy DE"]
    kind = "SciPyDE"

Without ``kind`` the method is the one that the table is named after. All other keys are those of `Study`, and those of
the method.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paoswarm.algorithms import schedules
from paoswarm.algorithms.de import DE
from paoswarm.algorithms.pao import PAO
from paoswarm.algorithms.pso import PSO
from paoswarm.algorithms.qpso import QPSO
from paoswarm.algorithms.sade import SADE
from paoswarm.core import attractors, noise
from paoswarm.study.adapters import CMAES, Freelunch, SciPyDE
from paoswarm.study.study import Study

KINDS: dict[str, Any] = {kind.__name__: kind for kind in (PAO, PSO, QPSO, DE, SADE, SciPyDE, CMAES, Freelunch)}
_SCHEDULES: dict[str, Any] = {
    "linear": schedules.linear,
    "geometric": schedules.geometric,
    "piecewise": schedules.piecewise,
}
_ATTRACTORS = (
    attractors.local_best,
    attractors.global_best,
    attractors.average_local_best,
    attractors.average_particle,
    attractors.weighted_average_particle,
)
_NOISES = (noise.spread, noise.mean_to_best, noise.covariance)


class ConfigurationError(ValueError):
    """A configuration that cannot be used; the message names the key."""


def read_study(path: str | os.PathLike[str]) -> Study:
    """The study that a TOML file describes."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the configuration {path}: {error}") from error
    try:
        return study_from(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def study_from(given: Mapping[str, Any]) -> Study:
    """The study that a mapping describes, as TOML would give it."""
    known = [field.name for field in dataclasses.fields(Study) if field.init]
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{key}: no such key; {_meant(key, known)}")
    for key in ("problems", "methods"):
        if key not in given:
            raise ConfigurationError(f"{key}: missing; a study needs problems and methods")
    if not isinstance(given["methods"], Mapping):
        raise ConfigurationError(f"methods: must be tables [methods.NAME], got {given['methods']!r}")
    methods = {name: _method(name, table) for name, table in given["methods"].items()}
    try:
        return Study(**{**given, "methods": methods})
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from error


def method_named(name: str) -> Any:
    """A method or adapter by the name of its kind, with its defaults; ``PSO:paper`` has the paper's."""
    kind, _, preset = name.partition(":")
    return _method(name, {"kind": kind, **({"preset": preset} if preset else {})})


def _method(name: str, table: Any) -> Any:
    where = f"methods.{name}"
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{where}: must be a table of hyperparameters, got {table!r}")
    options = dict(table)
    kind_name = options.pop("kind", name)
    if not isinstance(kind_name, str) or kind_name not in KINDS:
        raise ConfigurationError(f"{where}: unknown method {kind_name!r}; {_meant(str(kind_name), list(KINDS))}")
    kind = KINDS[kind_name]
    preset = options.pop("preset", None)
    if preset is not None:
        if preset != "paper" or not hasattr(kind, "paper") or options:
            have = ", ".join(name for name, one in KINDS.items() if hasattr(one, "paper"))
            got = f"{preset!r} of {kind_name}" + (f" with {', '.join(options)}" if options else "")
            raise ConfigurationError(f"{where}.preset: {have} have 'paper', without other keys; got {got}")
        return kind.paper()
    known = [field.name for field in dataclasses.fields(kind) if field.init]
    for key in options:
        if key not in known:
            raise ConfigurationError(f"{where}.{key}: {kind_name} has no such hyperparameter; {_meant(key, known)}")
    try:
        return kind(**{key: _value(f"{where}.{key}", key, value) for key, value in options.items()})
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {error}") from error


def _value(where: str, key: str, value: Any) -> Any:
    """What TOML cannot say: schedules, and functions by their names."""
    if key == "attractors":
        if not isinstance(value, list):
            raise ConfigurationError(f"{where}: must be a list of names, got {value!r}")
        return tuple(_function(where, name, _ATTRACTORS) for name in value)
    if key == "noise_scale":
        return _function(where, value, _NOISES)
    if isinstance(value, Mapping):
        if len(value) != 1 or next(iter(value)) not in _SCHEDULES:
            raise ConfigurationError(f"{where}: a schedule is {{ linear = [0.9, 0.1] }} or so, got {dict(value)!r}")
        ((shape, numbers),) = value.items()
        try:
            return _SCHEDULES[shape](*numbers)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{where}: {shape} = {numbers!r}: {error}") from error
    return tuple(value) if isinstance(value, list) else value


def _function(where: str, name: Any, known: tuple[Any, ...]) -> Any:
    for function in known:
        if function.__name__ == name:
            return function
    raise ConfigurationError(f"{where}: unknown {name!r}; {_meant(str(name), [f.__name__ for f in known])}")


def _meant(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"known are {', '.join(known)}" + (f"; did you mean {close[0]}?" if close else "")
