"""Particle Attractor Optimisation (Champneys and Rogers 2023): what a swarm is made of, and how it behaves.

Every element of every particle is a damped spring, pulled by attractors and shaken by noise. How a swarm is moved
is in `paoswarm.methods.pao_step`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from paoswarm._checks import positive_number
from paoswarm.core.attractors import Attractor, RandomSource, global_best, local_best
from paoswarm.core.laws import StepLaw
from paoswarm.core.noise import spread
from paoswarm.core.random import Draw, Seed, generator
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.core.walls import WALLS
from paoswarm.methods import behaviour, pao_step, schedules
from paoswarm.methods.method import Method, check_hyperparameter, check_walls
from paoswarm.methods.schedules import Adaptive, Hyperparameter, is_constant


def _of_behaviour(name: str, what: str) -> Any:
    return property(lambda method: getattr(method.behaviour(), name), doc=what)


@dataclass(frozen=True, repr=False, eq=False)
class PAO(Method):
    r"""Particle Attractor Optimisation.

    Parameters
    ----------
    mass : float
        Inertia. A heavy particle moves slowly and explores.
    damping : float
        Damping ratio :math:`\zeta`: below one particles swing around their attractors, above one they creep.
    stiffness : tuple of float, or float
        How strongly each attractor pulls; or one number for all.
    noise : float
        :math:`q`, the strength of the shaking, :math:`\sigma^2 = q\,\nu`.
    dt : float
        Time between two evaluations. The motion is exact for any value.
    attractors : tuple of callables
        Functions of the swarm; see `paoswarm.attractors`.
    noise_scale : callable
        :math:`\nu` as a function of the swarm; see `paoswarm.noise`.
    walls : {"clip", "reflect", "periodic", "none"}
        What happens to a particle that leaves the bounds.

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
    moves_singly: ClassVar[bool] = True
    step: pao_step.PAOStep = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: Any = self.attractors
        pulls = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
        if not pulls:
            raise ValueError("attractors is empty: give at least one")
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
                f"{self.stiffness!r}{' (the default)' if self.stiffness is PAO.stiffness else ''}; give one number for "
                "all, or one for each"
            )
        if not callable(self.noise_scale):
            raise TypeError(f"noise_scale must be a function of the swarm, got {self.noise_scale!r}")
        check_walls(self.walls)
        object.__setattr__(self, "attractors", tuple(pulls))
        object.__setattr__(self, "stiffness", tuple(springs))
        _check(self._named)
        self._prepare()  # raises if a function is not an attractor, or a step would be too large for floating point
        behaviour.warn_if_unhealthy(self)

    @property
    def smallest_swarm(self) -> int:
        """Two, or what an attractor needs."""
        return max(2, *(getattr(pull, "smallest_swarm", 2) for pull in self.attractors))

    @property
    def takes_batches(self) -> bool:
        """Whether its functions of the swarm can take several runs at once: ours can, yours if they say so."""
        return pao_step.takes_batches((*self.attractors, self.noise_scale), self.hyperparameters)

    @property
    def hyperparameters(self) -> tuple[Hyperparameter, ...]:
        """Mass, damping, noise, dt and the stiffnesses, as given."""
        return (self.mass, self.damping, self.noise, self.dt, *self.stiffness)

    @property
    def _named(self) -> dict[str, Hyperparameter]:
        names = ("mass", "damping", "noise", "dt", *(f"stiffness[{r}]" for r in range(len(self.stiffness))))
        return dict(zip(names, self.hyperparameters, strict=True))

    @classmethod
    def paper(cls) -> PAO:
        """The hyperparameters of Champneys and Rogers' study, which are the defaults."""
        return cls()

    def check_swarm(self, shape: tuple[int, ...]) -> None:
        """Raise if there are too few particles, or if a hyperparameter is an array that does not fit them."""
        super().check_swarm(shape)
        _check_shapes(self._named, shape)

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
            positive_number(name, number)
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
        frozen._prepare()
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

    natural_frequency = _of_behaviour("natural_frequency", r":math:`\omega = \sqrt{k/m}`, radians per unit of time.")
    phase = _of_behaviour("phase", r":math:`\omega\,dt`, radians per step.")
    period = _of_behaviour("period", "Steps per swing of the damped spring; infinite when it does not swing.")
    regime = _of_behaviour("regime", "``undamped``, ``underdamped``, ``critical`` or ``overdamped``.")
    half_life = _of_behaviour("half_life", "Steps in which a displacement, or its envelope, halves in the long run.")
    stationary_spread = _of_behaviour(
        "stationary_spread",
        r":math:`\rho = \sqrt{q / (4 \zeta \omega^3)}`, the size of the cloud in distances between bests.",
    )

    def summary(self) -> str:
        """The hyperparameters and what they mean, in a few lines."""
        return behaviour.summary(self)

    __str__ = summary

    def __repr__(self) -> str:
        return behaviour.representation(self)

    # The step

    def _prepare(self) -> None:
        step = pao_step.PAOStep(self.hyperparameters, self.attractors, self.noise_scale, self.wall)
        object.__setattr__(self, "step", step)

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """The next positions and velocities, drawn from the exact law of the step."""
        return self.step(state, draw, progress)

    def step_law(self, state: Swarm, progress: float = 0.0, rng: Seed = None) -> StepLaw:
        """Closed-form law of the next step of a swarm, given its attractors; see `StepLaw`.

        Stochastic attractors are drawn with ``rng``, and the law is the one for that draw.
        """
        batch = state.position.shape[:-2]
        if batch and not self.takes_batches:
            raise ValueError("your functions take one run at a time: use many.run(r).step_law()")
        _check_shapes(self._named, state.position.shape[:-1])
        drift = self.step.drift(state, Draw([generator(rng)] * math.prod(batch), batch), progress)
        scale = drift.scale if drift.factor is None else np.sqrt(np.square(drift.factor).sum(axis=-1))
        h11, h21, h22 = (np.asarray(h)[..., 0] if np.ndim(h) else np.asarray(h) for h in drift.by[-3:])
        columns = np.stack(np.broadcast_arrays(h11, np.zeros_like(h11), h21, h22), axis=-1)
        return StepLaw(
            mean_position=drift.position,
            mean_velocity=drift.velocity,
            scale=np.broadcast_to(scale, state.position.shape),
            cholesky=columns.reshape(*columns.shape[:-1], 2, 2),
            factor=drift.factor,
            wall=self.wall if state.axes is None or not state.axes.is_round.any() else WALLS["none"],
            lower=state.lower[0],
            upper=state.upper[0],
        )


def _frozen(parameter: Hyperparameter, progress: float) -> Any:
    """The value at ``progress``; an adaptive hyperparameter stays what it is."""
    return parameter if isinstance(parameter, schedules.Adaptive) else schedules.evaluate(parameter, progress, None)


def _check(named: Mapping[str, Hyperparameter]) -> None:
    """Raise if a hyperparameter of PAO is out of range, or if no attractor pulls at all."""
    for name, parameter in named.items():  # one spring may be slack
        check_hyperparameter(name, parameter, may_equal=name != "mass", may_differ=True)
    stiffness = [parameter for name, parameter in named.items() if name.startswith("stiffness")]
    for progress in (0.0, 1.0):
        springs = [k(progress) if callable(k) else k for k in stiffness if not isinstance(k, Adaptive)]
        if len(springs) == len(stiffness) and np.any(sum(np.asarray(k, dtype=float) for k in springs) <= 0):
            raise ValueError(f"stiffness is zero for every attractor: at least one must pull, got {stiffness!r}")


def _check_shapes(named: Mapping[str, Hyperparameter], shape: tuple[int, ...]) -> None:
    """Raise if a hyperparameter is an array that does not fit particles of shape ``(*batch, n)``."""
    for name, parameter in named.items():
        given: Any = np.shape(parameter) if is_constant(parameter) else ()
        try:
            fits = np.broadcast_shapes(given, shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(f"{name} has shape {given}, which does not broadcast to the particles' {shape}")
