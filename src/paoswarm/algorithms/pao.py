"""Particle Attractor Optimisation (Champneys and Rogers 2023), moved by its exact law.

Every element of every particle is a damped spring, pulled by attractors and shaken by noise. One generation::

    a = sum_r k_r alpha_r / k          y = x - a                                          (3)
    (y, v) <- A (y, v) + s H D,        s = sqrt(q nu),     x = y + a                      (12)

and then the walls. ``A`` and ``H`` are the exact transition of `paoswarm.core.dynamics`.
"""

from __future__ import annotations

import copy
import math
import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from paoswarm.algorithms import behaviour, schedules
from paoswarm.algorithms.coefficients import Coefficients, coefficients
from paoswarm.algorithms.method import Method, check_walls
from paoswarm.algorithms.schedules import Hyperparameter
from paoswarm.algorithms.validate_forces import fitting, root_of_noise
from paoswarm.core import fused
from paoswarm.core.arrays import Array, namespace
from paoswarm.core.attractors import Attractor, RandomSource, global_best, is_random, local_best
from paoswarm.core.bounds import RESTITUTION
from paoswarm.core.density import StepLaw
from paoswarm.core.noise import correlate, spread
from paoswarm.core.random import Draw, Seed, generator
from paoswarm.core.swarm import Proposal, Swarm, read_only


class Drift(NamedTuple):
    """One step without its deviates: where it leads, and how the deviates are scaled. Its arrays are its own."""

    position: Array
    velocity: Array
    scale: Array  # sqrt(nu)
    factor: Array | None  # of dense noise, instead of the scale
    by: Coefficients


@dataclass(frozen=True, repr=False, eq=False)
class PAO(Method):
    r"""Particle Attractor Optimisation.

    Parameters
    ----------
    mass : float
        Inertia. A large mass moves slowly and explores.
    damping : float
        Damping ratio :math:`\zeta`: below one particles swing around their attractors, above one they creep.
    stiffness : tuple of float, or float
        One for each attractor, how strongly it pulls; or one number for all.
    noise : float
        :math:`q`, the strength of the shaking, :math:`\sigma^2 = q\,\nu`.
    dt : float
        Time between two evaluations. The motion is exact for any value.
    attractors : tuple of callables
        Functions of the swarm; see `paoswarm.attractors`.
    noise_scale : callable
        :math:`\nu` as a function of the swarm; see `paoswarm.noise`.
    walls : {"clip", "reflect", "periodic", "none"}
        What happens to a particle that leaves the box.

    Notes
    -----
    Every hyperparameter may also be an array broadcastable to ``(n_particles,)``, a function of the run's progress in
    [0, 1], or `paoswarm.schedules.Adaptive`. With frozen attractors a particle's stationary law is
    :math:`N(a, \rho^2 \nu)` with the **stationary spread** :math:`\rho = \sqrt{q / (4 \zeta \omega^3)}`,
    :math:`\omega = \sqrt{k/m}`. Three numbers decide the behaviour: :math:`\zeta`, the phase per step
    :math:`\omega\,dt` and :math:`\rho`. `from_behaviour` sets them, ``print(method)`` shows them.

    Examples
    --------
    >>> import paoswarm as ps
    >>> method = ps.PAO(damping=0.25)
    >>> round(method.stationary_spread, 3)
    0.595
    >>> ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 3, method=method, rng=1).fun < 1e-9
    True
    """

    applies_walls: ClassVar[bool] = True

    mass: Hyperparameter = 1.0
    damping: Hyperparameter = 0.2
    stiffness: Any = (1.0, 1.0)
    noise: Hyperparameter = 1.0
    dt: Hyperparameter = 1.0
    attractors: Sequence[Attractor] = (local_best, global_best)
    noise_scale: Any = spread
    walls: str = "clip"
    has_law: ClassVar[bool] = True
    _random: tuple[bool, ...] = field(init=False, compare=False)
    _takes_batches: bool = field(init=False, compare=False)
    _trusted: bool = field(init=False, compare=False)  # only built-in functions, which never return NaN
    _constant: Coefficients | None = field(init=False, compare=False)  # worked out once where nothing changes
    _fused: Array | None = field(init=False, compare=False)  # its numbers, where `fused.step` moves this swarm

    def __post_init__(self) -> None:
        given: Any = self.attractors
        pulls = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
        if not pulls:
            raise ValueError("attractors is empty: a swarm needs at least one")
        for pull in pulls:
            if not callable(pull):
                hint = f": write attractors.{pull}" if isinstance(pull, str) else ""
                raise TypeError(f"attractors must be functions of the swarm, got {pull!r}{hint}")
        springs = self.stiffness
        if isinstance(springs, np.ndarray) and springs.shape == (len(pulls),):
            springs = springs.tolist()  # one number per attractor, not per particle
        springs = springs if isinstance(springs, tuple | list) else (springs,) * len(pulls)
        if len(springs) != len(pulls):
            raise ValueError(
                f"stiffness needs one entry per attractor: there are {len(pulls)} attractors, but stiffness is "
                f"{self.stiffness!r}{' (the default)' if self.stiffness is PAO.stiffness else ''}; one number would "
                "hold for all"
            )
        if not callable(self.noise_scale):
            raise TypeError(f"noise_scale must be a function of the swarm, got {self.noise_scale!r}")
        check_walls(self.walls)
        object.__setattr__(self, "attractors", tuple(pulls))
        object.__setattr__(self, "stiffness", tuple(springs))
        ours = ("paoswarm.core.attractors", "paoswarm.core.noise")
        functions = (*pulls, self.noise_scale)
        object.__setattr__(self, "_trusted", all(getattr(f, "__module__", None) in ours for f in functions))
        learnt = [h.of_swarm for h in self.hyperparameters if isinstance(h, schedules.Adaptive)]
        object.__setattr__(self, "_takes_batches", all(map(_takes_batches, (*functions, *learnt))))
        object.__setattr__(self, "_random", tuple(is_random(pull) for pull in pulls))
        for name in ("mass", "damping", "noise", "dt"):
            behaviour.check_number(name, getattr(self, name))
        for number, spring in enumerate(springs):
            behaviour.check_number(f"stiffness[{number}]", spring)
        behaviour.check_total(self)
        changing = any(callable(p) or isinstance(p, schedules.Adaptive) for p in self.hyperparameters)
        object.__setattr__(self, "_constant", None if changing else coefficients(*self.hyperparameters))
        behaviour.warn_if_unhealthy(self)
        object.__setattr__(self, "_fused", self._for_one_pass())

    @property
    def takes_batches(self) -> bool:
        """Whether all its functions of the swarm can have a leading axis of runs: ours, and those that say so."""
        return self._takes_batches

    @property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """Mass, damping, noise, dt and the stiffnesses, as given."""
        return (self.mass, self.damping, self.noise, self.dt, *self.stiffness)

    @classmethod
    def paper(cls) -> PAO:
        """The hyperparameters of Champneys and Rogers' study, which are the defaults."""
        return cls()

    def check_swarm(self, shape: tuple[int, ...]) -> None:
        """Raise where a hyperparameter is an array that does not fit the particles."""
        super().check_swarm(shape)
        for pull in self.attractors:
            needed = getattr(pull, "smallest_swarm", 1)
            if shape[-1] < needed:
                raise ValueError(f"PAO with {behaviour.name_of(pull)} needs n_particles >= {needed}, got {shape[-1]}")
        behaviour.check_shapes(self, shape)

    # How it behaves, in words and numbers

    @classmethod
    def from_behaviour(
        cls,
        *,
        damping: float = 0.2,
        phase: float = 2.0**0.5,
        spread: float = 0.665,
        mass: float = 1.0,
        dt: float = 1.0,
        shares: Sequence[float] = (1.0, 1.0),
        **others: Any,
    ) -> PAO:
        r"""A swarm from what it does: damping, phase per step :math:`\omega\,dt`, stationary spread :math:`\rho`.

        ``shares`` divides the stiffness among the attractors; ``others`` are passed on to `PAO`.

        >>> import paoswarm as ps
        >>> method = ps.PAO.from_behaviour(damping=0.3, phase=1.2, spread=0.6)
        >>> round(method.phase, 12), round(method.stationary_spread, 12)
        (1.2, 0.6)
        """
        for name, number in (("damping", damping), ("phase", phase), ("spread", spread), ("dt", dt)):
            if not (isinstance(number, numbers.Real) and math.isfinite(number) and number > 0):
                raise ValueError(f"{name} must be a positive number, got {number!r}")
        omega = phase / dt
        total = sum(shares)
        pulls = others.get("attractors", cls.attractors)
        pulls = pulls if isinstance(pulls, Sequence) else (pulls,)
        if len(shares) != len(pulls):
            raise ValueError(f"shares needs one number per attractor: there are {len(pulls)}, got {shares!r}")
        if others.keys() & {"stiffness", "noise"}:
            raise ValueError("stiffness and noise follow from phase, spread and shares: leave them out")
        if not total > 0:
            raise ValueError(f"shares must be positive numbers, one per attractor, got {shares!r}")
        stiffness = tuple(mass * omega**2 * share / total for share in shares)
        q = spread**2 * 4 * damping * omega**3
        return cls(mass=mass, damping=damping, stiffness=stiffness, noise=q, dt=dt, **others)

    def behaviour(self, progress: float = 0.0) -> behaviour.Behaviour:
        """What the hyperparameters mean at some progress of the run."""
        return behaviour.of(self.at(progress))

    def at(self, progress: float) -> PAO:
        """The same method with every schedule frozen at its value at ``progress``."""
        if not any(callable(p) for p in self.hyperparameters):
            return self
        frozen = copy.copy(self)  # without the checks and warnings of a new one
        for name in ("mass", "damping", "noise", "dt"):
            object.__setattr__(frozen, name, _frozen(getattr(self, name), progress))
        object.__setattr__(frozen, "stiffness", tuple(_frozen(k, progress) for k in self.stiffness))
        object.__setattr__(frozen, "_constant", None)
        object.__setattr__(frozen, "_fused", None)
        return frozen

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PAO):
            return NotImplemented
        numbers = zip(self.hyperparameters, other.hyperparameters, strict=False)
        return (self.attractors, self.noise_scale, self.walls) == (
            other.attractors,
            other.noise_scale,
            other.walls,
        ) and all(np.array_equal(a, b) for a, b in numbers)

    def __hash__(self) -> int:
        return hash((self.attractors, self.noise_scale, self.walls))

    @property
    def natural_frequency(self) -> Any:
        r""":math:`\omega = \sqrt{k/m}`, radians per unit of time."""
        return self.behaviour().natural_frequency

    @property
    def phase(self) -> Any:
        r""":math:`\omega\,dt`, radians per step."""
        return self.behaviour().phase

    @property
    def period(self) -> Any:
        """Steps per swing of the damped spring; infinite when it does not swing."""
        return self.behaviour().period

    @property
    def regime(self) -> str:
        """``undamped``, ``underdamped``, ``critical`` or ``overdamped``."""
        return self.behaviour().regime

    @property
    def half_life(self) -> Any:
        """Steps in which what is left of a displacement halves in the long run (its envelope, when it swings)."""
        return self.behaviour().half_life

    @property
    def stationary_spread(self) -> Any:
        r""":math:`\rho = \sqrt{q / (4 \zeta \omega^3)}`, the size of the cloud in distances between the bests."""
        return self.behaviour().stationary_spread

    def summary(self) -> str:
        """The hyperparameters and what they mean, in a few lines."""
        return behaviour.summary(self)

    __str__ = summary

    def __repr__(self) -> str:
        return behaviour.representation(self)

    # The step

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """The next positions and velocities, drawn from the exact law of the step."""
        normal = draw.normal(2, *state.position.shape[-2:], single=True)
        if self._fused is not None and (moved := fused.step(state, normal, self._fused)) is not None:
            return Proposal(*moved)
        position, velocity, scale, factor, by = self._drift(state, draw, progress)
        d1, d2 = normal[..., 0, :, :], normal[..., 1, :, :]
        if factor is None:
            d1, d2 = scale * d1, scale * d2
        else:
            d1, d2 = correlate(factor, d1), correlate(factor, d2)
        position += by.h11 * d1
        d1 *= by.h21
        d2 *= by.h22
        velocity += d1
        velocity += d2
        return Proposal(*self.wall.apply(position, velocity, state.lower, state.upper))

    def _for_one_pass(self) -> Array | None:
        """The numbers that `fused.step` needs; None for a swarm that it cannot move."""
        functions = (*self.attractors, self.noise_scale)
        expected = (local_best, global_best, spread)
        usual = len(functions) == len(expected) and all(map(operator.is_, functions, expected))
        if self._constant is None or not usual or self.walls != "clip":
            return None
        weights, *entries = self._constant
        numbers = (*weights, *entries, RESTITUTION)
        return np.array(numbers) if all(isinstance(number, float) for number in numbers) else None

    def step_law(self, state: Swarm, progress: float = 0.0, rng: Seed = None) -> StepLaw:
        """Closed-form law of the next step of a swarm, given its attractors; see `StepLaw`.

        Stochastic attractors are drawn with ``rng``, and the law is the one for that draw.
        """
        batch = state.position.shape[:-2]
        if batch and not self.takes_batches:
            raise ValueError("functions of your own are for one run: ask for its law, many.run(r).step_law()")
        behaviour.check_shapes(self, state.position.shape[:-1])
        drift = self._drift(state, Draw([generator(rng)] * math.prod(batch), batch), progress)
        scale = drift.scale if drift.factor is None else np.sqrt(np.square(drift.factor).sum(axis=-1))
        h11, h21, h22 = (np.asarray(h)[..., 0] if np.ndim(h) else np.asarray(h) for h in drift.by[-3:])
        columns = np.stack(np.broadcast_arrays(h11, np.zeros_like(h11), h21, h22), axis=-1)
        return StepLaw(
            mean_position=drift.position,
            mean_velocity=drift.velocity,
            scale=np.broadcast_to(scale, state.position.shape),
            cholesky=columns.reshape(*columns.shape[:-1], 2, 2),
            factor=drift.factor,
            wall=self.wall,
            lower=state.lower[0],
            upper=state.upper[0],
        )

    def _drift(self, state: Swarm, draw: RandomSource, progress: float) -> Drift:
        """Everything of a step but its normal deviates, equations (3) and (12).

        What is written to with ``+=`` and ``*=`` was made here: half of the time of a small swarm is memory traffic.
        """
        state = self.unrolled(state)  # springs and distances take the short way round
        if not (self._trusted and self._takes_batches):  # functions that are not ours
            state = read_only(state)
        by = self._constant
        if by is None:
            by = coefficients(*(schedules.evaluate(p, progress, state) for p in self.hyperparameters))
        centre: Any = None
        for weight, pull, random in zip(by.weights, self.attractors, self._random, strict=True):
            points = pull(state, draw) if random else pull(state)
            pulled = weight * fitting(points, state, "the attractor", pull, trusted=self._trusted)
            if centre is None:
                centre = pulled
            else:
                centre += pulled
        velocity = state.position - centre  # y, for now
        position = by.a11 * velocity
        position += by.a12 * state.velocity
        position += centre
        velocity *= by.a21
        velocity += by.a22 * state.velocity
        return Drift(position, velocity, *self._noise(state), by)

    def _noise(self, state: Swarm) -> tuple[Array, Array | None]:
        """The square root of nu, or of dense noise a factor ``(..., n or 1, d, d)``."""
        if self.noise_scale is spread:  # the square root of a square
            return namespace(state.position).abs(state.best_position - state.global_best), None
        return root_of_noise(self.noise_scale(state), state, self.noise_scale, trusted=self._trusted)


def _takes_batches(function: Any) -> bool:
    ours = str(getattr(function, "__module__", "")).startswith("paoswarm.")
    return bool(getattr(function, "takes_batches", ours))


def _frozen(parameter: Hyperparameter, progress: float) -> Any:
    """The value at ``progress``; an adaptive hyperparameter stays what it is."""
    return parameter if isinstance(parameter, schedules.Adaptive) else schedules.evaluate(parameter, progress, None)
