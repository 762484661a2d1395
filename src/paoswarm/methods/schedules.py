"""Hyperparameters that change during a run.

A hyperparameter may be a number, a function of the run's progress in [0, 1], or `Adaptive`, a function of the swarm.
The motion is exact for any time step, so ``dt`` may differ between steps and between particles.

>>> import paoswarm as ps
>>> method = ps.PAO(damping=ps.schedules.linear(0.1, 0.3), dt=lambda progress: 1.0 + progress)
>>> float(ps.schedules.piecewise((0.0, 1.0), (0.5, 0.8), (1.0, 0.2))(0.75))
0.5
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from paoswarm._checks import real_number
from paoswarm.core.arrays import Array, namespace
from paoswarm.core.swarm import Swarm

Schedule = Callable[[float], float]
Hyperparameter = Any  # float, array broadcastable to (*batch, n), Schedule or Adaptive


@dataclass(frozen=True)
class Adaptive:
    """A hyperparameter that is a function of the swarm.

    The function returns a number, or an array broadcastable to ``(*batch, n)``.
    """

    of_swarm: Callable[[Swarm], Array]

    def __post_init__(self) -> None:
        if not callable(self.of_swarm):
            raise TypeError(f"Adaptive needs a function of the swarm, got {self.of_swarm!r}")


@dataclass(frozen=True)
class _Stretched:
    """The rule of `patient_step`."""

    dt: float
    growth: float
    oldest: float  # the age at which the longest step is reached

    def __call__(self, swarm: Swarm) -> Array:
        xp = namespace(swarm.age)
        return self.dt * self.growth ** xp.clip(swarm.age, 0.0, self.oldest)


def patient_step(dt: float = 1.0, growth: float = 1.5, longest: float = math.pi * math.sqrt(2)) -> Adaptive:
    r"""A time step that grows for a particle that has stopped improving.

    :math:`dt_i = \max(dt, \min(dt\,g^{\text{age}_i}, \text{longest}))`, where :math:`g` is ``growth`` and the age is
    the number of generations since the particle last improved. A particle that improves keeps the step ``dt``. One that
    does not takes longer steps, up to a whole natural period; after that it has forgotten where it was. (The default
    ``longest`` is :math:`2\pi/\omega` of the default swarm.) This corrects a ``dt`` that is far too small, and speeds
    up convergence at the default ``dt``.
    """
    for name, number, bound in (("dt", dt, 0), ("longest", longest, 0), ("growth", growth, 1)):
        real_number(name, number, bound, may_equal=False)
    return Adaptive(_Stretched(dt, growth, math.log(max(longest / dt, 1.0)) / math.log(growth)))


@dataclass(frozen=True)
class Lines:
    """Linear interpolation between knots; of the logarithms if ``geometric``."""

    where: tuple[float, ...]
    value: tuple[float, ...]
    geometric: bool = False

    def __call__(self, progress: float) -> float:
        """Return the value at this progress of the run."""
        if self.geometric:
            return float(np.exp(np.interp(progress, self.where, np.log(self.value))))
        return float(np.interp(progress, self.where, self.value))

    def __repr__(self) -> str:
        if self.where == (0.0, 1.0):
            return f"{'geometric' if self.geometric else 'linear'}({self.value[0]!r}, {self.value[1]!r})"
        return f"piecewise({', '.join(map(repr, zip(self.where, self.value, strict=True)))})"


def linear(first: float, last: float) -> Schedule:
    """Change from ``first`` to ``last`` linearly."""
    return piecewise((0.0, first), (1.0, last))


def geometric(first: float, last: float) -> Schedule:
    """Change from ``first`` to ``last`` by equal factors; both must be positive."""
    if not (first > 0 and last > 0):
        raise ValueError(f"a geometric schedule needs two positive numbers, got {first!r} and {last!r}")
    return Lines((0.0, 1.0), (float(first), float(last)), geometric=True)


def piecewise(*knots: tuple[float, float]) -> Schedule:
    """Interpolate linearly between ``(progress, value)`` knots; constant outside them.

    Two knots at the same progress make a jump.
    """
    if len(knots) < 1 or any(len(knot) != 2 for knot in knots):
        raise ValueError(f"piecewise needs (progress, value) pairs, got {knots!r}")
    where, value = (tuple(float(entry) for entry in column) for column in zip(*knots, strict=True))
    if any(later < earlier for earlier, later in zip(where, where[1:], strict=False)):
        raise ValueError(f"the knots of a piecewise schedule must be in ascending order of progress, got {knots!r}")
    return Lines(where, value)


def is_constant(parameter: Hyperparameter) -> bool:
    """Whether a hyperparameter is a number or an array, neither a schedule nor adaptive."""
    return not (callable(parameter) or isinstance(parameter, Adaptive))


def evaluate(parameter: Hyperparameter, progress: float, swarm: Swarm | None) -> Any:
    """Return the current value of a hyperparameter; an adaptive one needs the swarm."""
    if isinstance(parameter, Adaptive):
        if swarm is None:
            raise ValueError("an adaptive hyperparameter needs a swarm to be evaluated")
        value, particles = parameter.of_swarm(swarm), swarm.value.shape
        shape = np.shape(value) if not hasattr(value, "shape") else value.shape
        if len(shape) > len(particles) or any(
            a not in (1, b) for a, b in zip(shape[::-1], particles[::-1], strict=False)
        ):
            name = getattr(parameter.of_swarm, "__name__", None) or repr(parameter.of_swarm)
            raise ValueError(
                f"{name} returned an array of shape {shape}; it must return a number, or an array of shape {particles} "
                "with one number per particle"
            )
        return value
    return parameter(progress) if callable(parameter) else parameter
