"""One step of a PAO swarm, drawn from its exact law.

One generation of every element of every particle::

    a = sum_r k_r alpha_r / k          y = x - a                                          (3)
    (y, v) <- A (y, v) + s H D,        s = sqrt(q nu),     x = y + a                      (12)

and then the walls. ``A`` and ``H`` are the exact transition of `paoswarm.core.dynamics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from paoswarm.core.arrays import Array, namespace
from paoswarm.core.attractors import Attractor, RandomSource, is_random
from paoswarm.core.noise import correlate, spread
from paoswarm.core.swarm import Proposal, Swarm, read_only, unrolled
from paoswarm.core.walls import Wall
from paoswarm.methods import schedules
from paoswarm.methods.coefficients import Coefficients, coefficients, constant_coefficients
from paoswarm.methods.schedules import Hyperparameter, is_constant
from paoswarm.methods.validate_forces import fitting, root_of_noise

_OURS = ("paoswarm.core.attractors", "paoswarm.core.noise")


class Drift(NamedTuple):
    """One step without its deviates: where it leads, and how the deviates are scaled. Its arrays are its own."""

    position: Array
    velocity: Array
    scale: Array  # sqrt(nu)
    factor: Array | None  # of dense noise, instead of the scale
    by: Coefficients


class PAOStep:
    """The step of a swarm with these hyperparameters; what does not change in a run is worked out once.

    Parameters
    ----------
    hyperparameters : tuple
        Mass, damping, noise, dt and the stiffnesses.
    attractors : sequence of callables
    noise_scale : callable
    wall : Wall
    """

    def __init__(
        self,
        hyperparameters: tuple[Hyperparameter, ...],
        attractors: Sequence[Attractor],
        noise_scale: Any,
        wall: Wall,
    ) -> None:
        functions = (*attractors, noise_scale)
        self._hyperparameters = hyperparameters
        self._attractors = [(pull, is_random(pull)) for pull in attractors]
        self._noise_scale = noise_scale
        self._wall = wall
        # Built-in functions never return NaN and never write to the swarm, so they are not checked.
        self._trusted = all(getattr(function, "__module__", None) in _OURS for function in functions)
        self._is_locked = not (self._trusted and takes_batches(functions, hyperparameters))
        self._constant = _constant(hyperparameters) if all(map(is_constant, hyperparameters)) else None

    def __call__(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """The next positions and velocities, drawn from the exact law of the step."""
        normal = draw.normal(2, *state.position.shape[-2:], single=True)
        by = self._coefficients(state, progress)
        return self.moved_by(by, state, draw, normal[..., 0, :, :], normal[..., 1, :, :])

    def moved_by(self, by: Coefficients, state: Swarm, draw: RandomSource, d1: Array, d2: Array) -> Proposal:
        """The next positions and velocities with these coefficients and deviates ``(..., n, d)``, walls applied."""
        position, velocity, scale, factor, by = self._drift(by, state, draw)
        if factor is None:
            d1, d2 = scale * d1, scale * d2
        else:
            d1, d2 = correlate(factor, d1), correlate(factor, d2)
        position += by.h11 * d1  # (12)
        d1 *= by.h21
        d2 *= by.h22
        velocity += d1
        velocity += d2
        return Proposal(*state.wall(self._wall).apply(position, velocity, state.lower, state.upper))

    def drift(self, state: Swarm, draw: RandomSource, progress: float) -> Drift:
        """A step without its normal deviates, equations (3) and (12)."""
        return self._drift(self._coefficients(state, progress), state, draw)

    def _coefficients(self, state: Swarm, progress: float) -> Coefficients:
        if self._constant is not None:
            return self._constant
        state = unrolled(state, self._wall)
        state = read_only(state) if self._is_locked else state
        return coefficients(*(schedules.evaluate(p, progress, state) for p in self._hyperparameters))

    def _drift(self, by: Coefficients, state: Swarm, draw: RandomSource) -> Drift:
        """A step by given coefficients.

        Arrays written to with ``+=`` and ``*=`` were made here: half of the time of a small swarm is memory traffic.
        """
        state = unrolled(state, self._wall)  # springs and distances take the short way round
        if self._is_locked:
            state = read_only(state)
        centre: Any = None
        for weight, (pull, random) in zip(by.weights, self._attractors, strict=True):
            points = pull(state, draw) if random else pull(state)
            pulled = weight * fitting(points, state, "the attractor", pull, trusted=self._trusted)  # (3)
            if centre is None:
                centre = pulled
            else:
                centre += pulled
        velocity = state.position - centre  # y, for now
        position = by.a11 * velocity  # (12)
        position += by.a12 * state.velocity
        position += centre
        velocity *= by.a21
        velocity += by.a22 * state.velocity
        return Drift(position, velocity, *self._root_of_noise(state), by)

    def _root_of_noise(self, state: Swarm) -> tuple[Array, Array | None]:
        """The square root of nu, or of dense noise a factor ``(..., n or 1, d, d)``."""
        if self._noise_scale is spread:  # the square root of a square
            return namespace(state.position).abs(state.best_position - state.global_best), None
        return root_of_noise(self._noise_scale(state), state, self._noise_scale, trusted=self._trusted)


def _constant(hyperparameters: tuple[Hyperparameter, ...]) -> Coefficients:
    if all(isinstance(number, int | float) for number in hyperparameters):
        return constant_coefficients(*map(float, hyperparameters))
    return coefficients(*hyperparameters)


def takes_batches(functions: Sequence[Any], hyperparameters: Sequence[Hyperparameter]) -> bool:
    """Whether all functions of the swarm can take several runs at once: ours can, a user's if it says so."""
    learnt = [h.of_swarm for h in hyperparameters if isinstance(h, schedules.Adaptive)]

    def takes(function: Any) -> bool:
        ours = str(getattr(function, "__module__", "")).startswith("paoswarm.")
        return bool(getattr(function, "takes_batches", ours))

    return all(map(takes, (*functions, *learnt)))
