"""Ready-made studies: the paper's comparison, and the bbob suite of COCO; and studies from TOML files.

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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paoswarm import PAO, AdaptivePAO, DensePAO, ElementPAO, Method, MixedPAO, attractors, noise, schedules
from paoswarm.classic import DE, PSO, QPSO, SADE, RandomSearch
from paoswarm.helpers import choices
from paoswarm.problems import names
from paoswarm.study.adapters import CMAES, Adapter, Freelunch, SciPyDE
from paoswarm.study.study import Study

PEERS = "Searches in use today"
PAPER = "Paper presets"
LITERATURE = "Literature defaults"

_SOLVED = 1e-8  # COCO's last target; differences below it are of no practical use
_FEWER = 12  # runs of methods that take a hundred times as long: the fewest with which their tests can be significant


def paper_methods() -> dict[str, Method | Adapter]:
    """Return PAO and its comparators with the paper's hyperparameters, and with the literature's where those differ.

    With them are the default search of `minimize` and the best-known optimisers of other libraries.
    """
    return {
        "PAO": PAO.paper(),
        "AdaptivePAO": AdaptivePAO(),
        "SciPy DE": SciPyDE(),
        "CMA-ES": CMAES(),
        "PSO": PSO.paper(),
        "QPSO": QPSO.paper(),
        "DE": DE.paper(),
        "SADE": SADE.paper(),
        "PSO (literature)": PSO(),
        "DE (literature)": DE(),
        "SADE (literature)": SADE(),
    }


def paper(**options: Any) -> Study:
    """Return the comparison of Champneys and Rogers (2023), with the searches that people use today.

    It has nine functions in 2 and 8 dimensions, with 100 runs of 100 generations of 100 particles. `AdaptivePAO`,
    SciPy's differential evolution and CMA-ES have the same budget and 12 runs. Errors below 1e-8 count as equal.
    ``options`` replace fields of the `Study`.
    """
    methods = options.get("methods", paper_methods())
    return Study(
        **{
            "problems": list(names),
            "methods": methods,
            "dims": [2, 8],
            "precision": _SOLVED,
            "fewer_runs": {name: _FEWER for name in ("AdaptivePAO", "SciPy DE", "CMA-ES") if name in methods},
            "title": "PAO and its comparators on nine functions",
            "groups": {
                PEERS: ("PAO", "AdaptivePAO", "SciPy DE", "CMA-ES"),
                PAPER: ("PAO", "PSO", "QPSO", "DE", "SADE"),
                LITERATURE: ("PAO", "PSO (literature)", "QPSO", "DE (literature)", "SADE (literature)"),
            },
            **options,
        }
    )


def bbob(dims: Sequence[int] = (2, 5, 10), *, peers: bool = False, **options: Any) -> Study:
    """Return a study of the 24 functions of COCO's bbob suite.

    It has 15 instances of each function, 1000 evaluations per unknown, and populations of 50. With ``peers``, SciPy's
    differential evolution and CMA-ES take part.
    """
    methods: dict[str, Method | Adapter] = {
        "PAO": PAO(),
        "PAO (covariance)": PAO(noise_scale=noise.covariance),
        "PSO": PSO(),
        "QPSO": QPSO(),
        "DE": DE(),
        "SADE": SADE(),
    }
    if peers:
        methods |= {"SciPy DE": SciPyDE(), "CMA-ES": CMAES()}
    return Study(
        **{
            "problems": [f"bbob-f{number}" for number in range(1, 25)],
            "methods": methods,
            "dims": list(dims),
            "runs": 15,
            "population": 50,
            "evaluations_per_unknown": 1000,
            "title": "The bbob suite of COCO",
            **options,
        }
    )


# From a file


_OURS = (PAO, AdaptivePAO, DensePAO, ElementPAO, MixedPAO)
_OTHERS = (PSO, QPSO, DE, SADE, RandomSearch, SciPyDE, CMAES, Freelunch)
KINDS: dict[str, Any] = {one.__name__: one for one in (*_OURS, *_OTHERS)}
_SCHEDULES: dict[str, Any] = {one.__name__: one for one in (schedules.linear, schedules.geometric, schedules.piecewise)}
_AVERAGES = (attractors.average_local_best, attractors.average_particle, attractors.weighted_average_particle)
_ATTRACTORS = (attractors.local_best, attractors.global_best, *_AVERAGES)
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
    _check_keys(given, Study, "{key}: no such key")
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


def method_named(name: str) -> Any:
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
    if "preset" in options:
        return _preset(where, kind, options.pop("preset"), options)
    _check_keys(options, kind, f"{where}.{{key}}: {kind_name} has no such hyperparameter")
    try:
        return kind(**{key: _value(f"{where}.{key}", key, value) for key, value in options.items()})
    except ConfigurationError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {error}") from error


def _check_keys(given: Mapping[str, Any], kind: Any, mistake: str) -> None:
    known = [field.name for field in dataclasses.fields(kind) if field.init]
    for key in given:
        if key not in known:
            raise ConfigurationError(f"{mistake.format(key=key)}; {choices(key, known)}")


def _preset(where: str, kind: Any, preset: Any, others: Mapping[str, Any]) -> Any:
    if preset != "paper" or not hasattr(kind, "paper") or others:
        have = ", ".join(name for name, one in KINDS.items() if hasattr(one, "paper"))
        got = f"{preset!r} of {kind.__name__}" + (f" with {', '.join(others)}" if others else "")
        raise ConfigurationError(
            f"{where}.preset: the only preset is 'paper', of {have}, and it takes no other keys; got {got}"
        )
    return kind.paper()


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
    by_name = {function.__name__: function for function in known}
    if str(name) not in by_name:
        raise ConfigurationError(f"{where}: unknown {name!r}; {choices(str(name), by_name)}")
    return by_name[str(name)]
