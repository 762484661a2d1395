"""Checks of hyperparameters, made when a method is created."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from paoswarm.methods.schedules import Adaptive, Hyperparameter, is_constant

_TRIED = 21  # values of progress at which a schedule is looked at


class HyperparameterWarning(UserWarning):
    """A choice of hyperparameters that is legal but will disappoint."""


def check_hyperparameter(
    name: str,
    parameter: Hyperparameter,
    low: float = 0.0,
    high: float = math.inf,
    *,
    may_equal: bool = True,
    may_differ: bool = False,
) -> None:
    """Raise unless a number, or every value of a function of progress, is finite and in ``[low, high]``.

    ``may_equal=False`` excludes ``low`` itself. With ``may_differ`` the number may be an array, one for each particle,
    and the function one of the swarm, `Adaptive`.
    """
    kinds = "a number, an array or a function of progress" if may_differ else "a number or a function of progress"
    if isinstance(parameter, Adaptive):
        if may_differ:
            return  # its values show during the run
        raise TypeError(f"{name} must be {kinds} in [0, 1]; only PAO takes Adaptive ones")
    try:
        tried = [parameter(i / (_TRIED - 1)) for i in range(_TRIED)] if callable(parameter) else [parameter]
    except Exception as error:
        hint = "; a function of the swarm goes into ps.schedules.Adaptive(...)" if may_differ else ""
        raise TypeError(
            f"{name} as a function of progress in [0, 1] failed: {type(error).__name__}: {error}{hint}"
        ) from error
    for given in tried:
        numbers = np.asarray(given) if not isinstance(given, bool) else np.asarray(None)
        if not _is_numeric(numbers, may_differ):
            raise TypeError(f"{name} must be {kinds}, got {given!r}")
        is_high_enough = numbers >= low if may_equal else numbers > low
        if not np.all(np.isfinite(numbers) & is_high_enough & (numbers <= high)):
            raise ValueError(f"{name} must {_allowed(low, high, may_equal)}, got {given!r}")


def _is_numeric(values: Any, may_differ: bool) -> bool:
    """Whether an array holds a real number, or several if these may differ between particles."""
    return values.dtype.kind in "fiu" and values.size > 0 and (may_differ or not values.ndim)


def _allowed(low: float, high: float, may_equal: bool) -> str:
    if math.isfinite(high):
        return f"lie between {low:g} and {high:g}"
    return f"be {'zero or positive' if may_equal else 'positive'} and finite"


def check(named: Mapping[str, Hyperparameter]) -> None:
    """Raise if a hyperparameter of PAO is out of range, or if no attractor pulls at all."""
    for name, parameter in named.items():  # one spring may be slack
        check_hyperparameter(name, parameter, may_equal=name != "mass", may_differ=True)
    stiffness = [parameter for name, parameter in named.items() if name.startswith("stiffness")]
    for progress in (0.0, 1.0):
        springs = [k(progress) if callable(k) else k for k in stiffness if not isinstance(k, Adaptive)]
        if len(springs) == len(stiffness) and np.any(sum(np.asarray(k, dtype=float) for k in springs) <= 0):
            raise ValueError(f"stiffness is zero for every attractor: at least one must pull, got {stiffness!r}")


def check_shapes(named: Mapping[str, Hyperparameter], shape: tuple[int, ...]) -> None:
    """Raise if a hyperparameter is an array that does not fit particles of shape ``(*batch, n)``."""
    for name, parameter in named.items():
        given: Any = np.shape(parameter) if is_constant(parameter) else ()
        try:
            fits = np.broadcast_shapes(given, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"{name} has shape {given}, which does not broadcast to the particles' {shape}")
