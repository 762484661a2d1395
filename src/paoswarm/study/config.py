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

Without ``kind``, the name of the table is the name of the method. All other keys are the fields of `Study` and the
hyperparameters of the method.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paoswarm._checks import choices
from paoswarm.algorithms import schedules
from paoswarm.algorithms.registry import METHODS
from paoswarm.core import attractors, noise
from paoswarm.study.adapters import CMAES, Freelunch, SciPyDE
from paoswarm.study.study import Study

KINDS: dict[str, Any] = METHODS | {adapter.__name__: adapter for adapter in (SciPyDE, CMAES, Freelunch)}
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
    """An invalid configuration; the message names the key."""


def read_study(path: str | os.PathLike[str]) -> Study:
    """Return the study that a TOML file describes."""
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
    """Return the study that a mapping describes, in the form that TOML is parsed to."""
    known = [field.name for field in dataclasses.fields(Study) if field.init]
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{key}: no such key; {choices(key, known)}")
    for key in ("problems", "methods"):
        if key not in given:
            raise ConfigurationError(f"{key}: missing key; a study needs problems and methods")
    if not isinstance(given["methods"], Mapping):
        raise ConfigurationError(f"methods: write one table [methods.NAME] for each method, got {given['methods']!r}")
    methods = {name: _method(name, table) for name, table in given["methods"].items()}
    try:
        return Study(**{**given, "methods": methods})
    except (TypeError, ValueError) as error:
        raise ConfigurationError(str(error)) from error


def method_or_adapter(name: str) -> Any:
    """Return a method or adapter with its defaults, or with the paper's hyperparameters: ``PSO`` or ``PSO:paper``."""
    kind, _, preset = name.partition(":")
    return _method(name, {"kind": kind, **({"preset": preset} if preset else {})})


def _method(name: str, table: Any) -> Any:
    where = f"methods.{name}"
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{where}: must be a table of hyperparameters, got {table!r}")
    options = dict(table)
    kind_name = options.pop("kind", name)
    if not isinstance(kind_name, str) or kind_name not in KINDS:
        raise ConfigurationError(f"{where}: unknown method {kind_name!r}; {choices(str(kind_name), KINDS)}")
    kind = KINDS[kind_name]
    preset = options.pop("preset", None)
    if preset is not None:
        if preset != "paper" or not hasattr(kind, "paper") or options:
            have = ", ".join(name for name, one in KINDS.items() if hasattr(one, "paper"))
            got = f"{preset!r} of {kind_name}" + (f" with {', '.join(options)}" if options else "")
            raise ConfigurationError(
                f"{where}.preset: the only preset is 'paper', of {have}, and it takes no other keys; got {got}"
            )
        return kind.paper()
    known = [field.name for field in dataclasses.fields(kind) if field.init]
    for key in options:
        if key not in known:
            raise ConfigurationError(f"{where}.{key}: {kind_name} has no such hyperparameter; {choices(key, known)}")
    try:
        return kind(**{key: _value(f"{where}.{key}", key, value) for key, value in options.items()})
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {error}") from error


def _value(where: str, key: str, value: Any) -> Any:
    """Return the hyperparameter that a TOML value stands for: a schedule, a function by its name, or a plain value."""
    if key == "attractors":
        if not isinstance(value, list):
            raise ConfigurationError(f"{where}: must be a list of names, got {value!r}")
        return tuple(_function(where, name, _ATTRACTORS) for name in value)
    if key == "noise_scale":
        return _function(where, value, _NOISES)
    if isinstance(value, Mapping):
        if len(value) != 1 or next(iter(value)) not in _SCHEDULES:
            kinds = " or ".join(_SCHEDULES)
            raise ConfigurationError(f"{where}: write a schedule as {{ {kinds} = [...] }}, got {dict(value)!r}")
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
    raise ConfigurationError(f"{where}: unknown {name!r}; {choices(str(name), [f.__name__ for f in known])}")
