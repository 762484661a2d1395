"""Hyperparameters that change during a run.

Every hyperparameter may be a number, a function of the run's progress in [0, 1], or `Adaptive`, a function of the swarm
itself. The motion is exact for any time step, so ``dt`` may change freely, from step to step and from particle to
particle.

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

from paoswarm.core.arrays import Array, namespace
from paoswarm.core.swarm import Swarm

Schedule = Callable[[float], float]
Hyperparameter = Any  # float, array broadcastable to (*batch, n), Schedule or Adaptive


@dataclass(frozen=True)
class Adaptive:
    """A hyperparameter that is a function of the swarm: a number, or an array broadcastable to ``(*batch, n)``."""

    of_swarm: Callable[[Swarm], Array]

    def __post_init__(self) -> None:
        if not callable(self.of_swarm):
            raise TypeError(f"Adaptive takes a function of the swarm, got {self.of_swarm!r}")


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

    :math:`dt_i = \max(dt, \min(dt\,g^{\text{age}_i}, \text{longest}))` with the particle's generations since its last
    improvement. A particle that succeeds is left to swing; one that does not takes longer steps, up to a whole natural
    period (the default ``longest`` is :math:`2\pi/\omega` of the default swarm), after which it forgets where it was.
    It rescues a ``dt`` that was chosen far too small and speeds up convergence at the default.
    """
    for name, number in (("dt", dt), ("longest", longest), ("growth", growth - 1)):
        if not number > 0:
            raise ValueError(f"{name} must be {'above one' if name == 'growth' else 'positive'}")
    return Adaptive(_Stretched(dt, growth, math.log(max(longest / dt, 1.0)) / math.log(growth)))


@dataclass(frozen=True)
class Lines:
    """Straight lines between knots; of logarithms, where ``geometric``."""

    where: tuple[float, ...]
    value: tuple[float, ...]
    geometric: bool = False

    def __call__(self, progress: float) -> float:
        """The value at some progress of the run."""
        if self.geometric:
            return float(np.exp(np.interp(progress, self.where, np.log(self.value))))
        return float(np.interp(progress, self.where, self.value))

    def __repr__(self) -> str:
        if self.where == (0.0, 1.0):
            return f"{'geometric' if self.geometric else 'linear'}({self.value[0]!r}, {self.value[1]!r})"
        return f"piecewise({', '.join(map(repr, zip(self.where, self.value, strict=True)))})"


def linear(first: float, last: float) -> Schedule:
    """From ``first`` to ``last`` in a straight line."""
    return piecewise((0.0, first), (1.0, last))


def geometric(first: float, last: float) -> Schedule:
    """From ``first`` to ``last`` by equal factors; both positive."""
    if not (first > 0 and last > 0):
        raise ValueError(f"a geometric schedule needs two positive numbers, got {first!r} and {last!r}")
    return Lines((0.0, 1.0), (float(first), float(last)), geometric=True)


def piecewise(*knots: tuple[float, float]) -> Schedule:
    """Straight lines between ``(progress, value)`` knots, constant outside them. Two knots at one place make a jump."""
    if len(knots) < 1 or any(len(knot) != 2 for knot in knots):
        raise ValueError(f"piecewise takes (progress, value) pairs, got {knots!r}")
    where, value = (tuple(float(entry) for entry in column) for column in zip(*knots, strict=True))
    if any(later < earlier for earlier, later in zip(where, where[1:], strict=False)):
        raise ValueError(f"the knots of a piecewise schedule must be in ascending order, got {knots!r}")
    return Lines(where, value)


def is_constant(parameter: Hyperparameter) -> bool:
    """Whether a hyperparameter is a number or an array, neither a schedule nor adaptive."""
    return not (callable(parameter) or isinstance(parameter, Adaptive))


def evaluate(parameter: Hyperparameter, progress: float, swarm: Swarm | None) -> Any:
    """The present value of a hyperparameter; an adaptive one needs the swarm."""
    if isinstance(parameter, Adaptive):
        if swarm is None:
            raise ValueError("an adaptive hyperparameter has a value only for a swarm")
        value, particles = parameter.of_swarm(swarm), swarm.value.shape
        shape = np.shape(value) if not hasattr(value, "shape") else value.shape
        if len(shape) > len(particles) or any(
            a not in (1, b) for a, b in zip(shape[::-1], particles[::-1], strict=False)
        ):
            name = getattr(parameter.of_swarm, "__name__", None) or repr(parameter.of_swarm)
            raise ValueError(f"{name} returned shape {shape}; it must return a number or one for each of {particles}")
        return value
    return parameter(progress) if callable(parameter) else parameter
