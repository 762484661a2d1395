"""Optuna's distributions as variables of a swarm, and trials as points with values."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.trial import FrozenTrial, TrialState

from paoswarm import Choice, Integer, Real
from paoswarm.helpers import Variable

Floats = NDArray[np.float64]
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of functions; it differs between processes
_CLOSE = 1e-9  # relative difference of numbers that are the same, but for the last digits of another computer
_CONSTRAINTS = "constraints"  # attributes of trials under which Optuna keeps their constraints


class TrialSpace:
    """The parameters that a search chooses, and the constraints that it knows.

    Parameters
    ----------
    distributions : dict of str to BaseDistribution
        The parameters. None of them has a single value only.
    constraints : sequence of str
        Names of the constraints.
    sign : float
        1 if the study minimises, -1 if it maximises.
    method : str
        A text that tells the method from others.

    Attributes
    ----------
    key : str
        The same for all workers, and another one for other parameters, constraints or methods.
    """

    def __init__(
        self, distributions: Mapping[str, BaseDistribution], constraints: tuple[str, ...], sign: float, method: str = ""
    ) -> None:
        self.distributions = dict(distributions)
        self.constraints = constraints
        self.sign = sign
        parts = [[name, distribution_to_json(one)] for name, one in self.distributions.items()]
        text = json.dumps([parts, constraints, sign, _ADDRESS.sub("", method)])
        self.key = hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def variables(self) -> dict[str, Variable]:
        """The parameters as the swarm's variables."""
        return {name: _variable(one) for name, one in self.distributions.items()}

    def params(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a trial at a point of the swarm."""
        return {name: _param(one, point[name]) for name, one in self.distributions.items()}

    def point(self, trial: FrozenTrial) -> dict[str, Any] | None:
        """The parameters of a trial as a point of the swarm; None if it has not got all of them, within their range."""
        for name, one in self.distributions.items():
            if name not in trial.params or not _contains(one, trial.params[name]):
                return None
        return {name: _value(one, trial.params[name]) for name, one in self.distributions.items()}

    def is_at(self, trial: FrozenTrial, params: Mapping[str, Any]) -> bool:
        """Return whether the parameters that a trial has are these."""
        return all(_is_same(trial.params[name], value) for name, value in params.items() if name in trial.params)

    def answer(self, trial: FrozenTrial) -> Floats:
        """The value of a trial, to be minimised, and its constraints; NaN if it was pruned or has failed."""
        value = self.sign * _number(trial.value) if trial.state == TrialState.COMPLETE else math.nan
        numbers = constraints_of(trial)
        return np.array([value, *(_number(numbers.get(name)) for name in self.constraints)])

    def last_report(self, trial: FrozenTrial) -> float:
        """The last intermediate value of a trial, to be minimised; NaN if there is none."""
        reports = trial.intermediate_values
        return self.sign * _number(reports[max(reports)]) if reports else math.nan


def constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """The constraints of a trial, by name or by number; see ``optuna.trial.Trial.set_constraint``."""
    listed = trial.system_attrs.get(_CONSTRAINTS) or ()
    found = {str(i): number for i, number in enumerate(listed)}
    prefix = f"{_CONSTRAINTS}:"
    return found | {k.removeprefix(prefix): v for k, v in trial.system_attrs.items() if k.startswith(prefix)}


def constraint_names(trials: Iterable[FrozenTrial]) -> tuple[str, ...]:
    """The names of the constraints of a study, as far as trials have set any."""
    return tuple(sorted({name for trial in trials for name in constraints_of(trial)}))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _variable(one: BaseDistribution) -> Variable:
    if isinstance(one, CategoricalDistribution):
        return Choice(range(len(one.choices)))  # by number: entries may be equal, as 1 and True are
    assert isinstance(one, FloatDistribution | IntDistribution)
    if _has_steps(one):
        return Integer(0, _steps(one))
    # Half a unit more at both ends, so that the first and the last whole number are as likely as others.
    room = 0.5 if isinstance(one, IntDistribution) else 0.0
    return Real(one.low - room, one.high + room, log=one.log)


def _param(one: BaseDistribution, value: Any) -> Any:
    if isinstance(one, CategoricalDistribution):
        return one.choices[value]
    assert isinstance(one, FloatDistribution | IntDistribution)
    if _has_steps(one):
        assert one.step is not None
        value = one.low + value * one.step
    if isinstance(one, IntDistribution):
        value = round(value)
    return type(one.low)(min(max(value, one.low), one.high))


def _value(one: BaseDistribution, param: Any) -> Any:
    if isinstance(one, CategoricalDistribution):
        return int(one.to_internal_repr(param))
    assert isinstance(one, FloatDistribution | IntDistribution)
    if _has_steps(one):
        assert one.step is not None
        return min(max(round((param - one.low) / one.step), 0), _steps(one))
    return float(param)


def _has_steps(one: FloatDistribution | IntDistribution) -> bool:
    """Return whether the numbers of a range have equal distances."""
    return one.step is not None and not one.log


def _steps(one: FloatDistribution | IntDistribution) -> int:
    assert one.step is not None
    return round((one.high - one.low) / one.step)


def _contains(one: BaseDistribution, param: Any) -> bool:
    if isinstance(one, CategoricalDistribution):
        return any(param is choice or param == choice for choice in one.choices)
    assert isinstance(one, FloatDistribution | IntDistribution)
    return isinstance(param, int | float) and one.low <= param <= one.high


def _is_same(param: Any, other: Any) -> bool:
    if isinstance(param, float) and isinstance(other, float):
        return math.isclose(param, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
    return bool(param == other)
