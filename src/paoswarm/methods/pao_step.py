"""One step of a PAO swarm, drawn from its exact law.

One generation of every element of every particle::

    a = sum_r k_r alpha_r / k          y = x - a                                          (3)
    (y, v) <- A (y, v) + s H D,        s = sqrt(q nu),     x = y + a                      (12)

and then the walls. ``A`` and ``H`` are the exact transition of `paoswarm.core.dynamics`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.arrays import Array, namespace
from paoswarm.core.attractors import Attractor, RandomSource, is_random
from paoswarm.core.dynamics import checked_transition
from paoswarm.core.noise import Dense, correlate, spread, square_root
from paoswarm.core.swarm import Proposal, Swarm, read_only, unrolled
from paoswarm.core.walls import Wall
from paoswarm.methods import schedules
from paoswarm.methods.schedules import Hyperparameter, is_constant


class Coefficients(NamedTuple):
    """The coefficients of one step: numbers, or arrays ``(..., n, 1)`` if particles differ."""

    weights: tuple[Any, ...]  # k_r / k
    a11: Any
    a12: Any
    a21: Any
    a22: Any
    h11: Any  # entries of sqrt(q) H
    h21: Any
    h22: Any


def coefficients(m: Any, zeta: Any, q: Any, dt: Any, *k: Any) -> Coefficients:
    """Return the coefficients of one step, equations (2), (3) and (8), for numbers or for arrays over the particles."""
    m, zeta, q, dt, *springs = np.broadcast_arrays(*(np.asarray(p, dtype=float) for p in (m, zeta, q, dt, *k)))
    total = sum(springs[1:], start=springs[0])
    for name, number in (("mass", m), ("damping", zeta), ("noise", q), ("dt", dt), ("stiffness", total)):
        positive = name in ("mass", "stiffness")
        if not np.all(np.isfinite(number) & ((number > 0) if positive else (number >= 0))):
            must = "positive" if positive else "zero or positive"
            raise ValueError(f"{name} became {np.min(number)} during the run; it must stay {must} and finite")
    law = checked_transition(m, zeta, total, dt)
    with np.errstate(over="ignore"):
        size = np.sqrt(q)[..., None, None] * law.cholesky
    if not np.isfinite(size).all():
        raise ValueError(f"noise={q} makes a step that is too large for floating-point numbers; use a smaller value")
    entries = [law.A[..., i, j] for i in (0, 1) for j in (0, 1)]
    entries += [size[..., i, j] for i, j in ((0, 0), (1, 0), (1, 1))]
    return Coefficients(tuple(_per_element(spring / total) for spring in springs), *map(_per_element, entries))


# Remembered: every run with the same numbers needs the same ones.
_constant_coefficients = lru_cache(maxsize=64)(coefficients)


def _per_element(parameter: Any) -> Any:
    """Turn a single number into a float; give an array with one number per particle an axis for the elements."""
    return float(parameter) if np.ndim(parameter) == 0 else parameter[..., None]


_ROUNDING = 1e-8  # of a covariance, against its largest entry


def fitting(array: Any, state: Swarm, kind: str, source: Any, *, trusted: bool, least: float = -math.inf) -> Array:
    """Numbers for every element of every particle, ``(*batch, n, d)``."""
    shape = state.position.shape
    if trusted and getattr(array, "shape", None) == shape:
        return array
    name = f"{kind} {name_of(source)}"
    fits = _broadcast(array, shape, state)
    if fits is None:
        raise ValueError(
            f"{name} returned {_describe(array)}; it must return real numbers that broadcast to the swarm's {shape}"
        )
    xp = namespace(fits)
    wrong = None if trusted else ~(xp.isfinite(fits) & (fits >= least))
    if wrong is not None and bool(xp.any(wrong)):
        what = "NaN or infinite numbers" if least < 0 else "NaN, infinite or negative numbers"
        first = xp.argmax(xp.astype(xp.reshape(wrong, (-1,)), xp.int8))
        raise ValueError(f"{name} returned {what}, for example {float(xp.reshape(fits, (-1,))[first])}")
    return fits


def root_of_noise(nu: Any, state: Swarm, source: Any, *, trusted: bool) -> tuple[Array, Array | None]:
    """The square root of nu, or of dense noise a factor ``(..., n or 1, d, d)``."""
    xp = namespace(state.position)
    if not isinstance(nu, Dense):
        return xp.sqrt(fitting(nu, state, "the noise scale", source, trusted=trusted, least=0.0)), None
    covariance, strength = nu if trusted else _checked(nu, state, f"the noise scale {name_of(source)}")
    factor = square_root(covariance)
    *batch, n, d = state.position.shape
    if covariance.shape != (*batch, n, d, d):  # one covariance for the whole swarm
        factor = factor[..., None, :, :]
    if strength is not None:
        factor = xp.sqrt(strength)[..., None, None] * factor
    return xp.zeros_like(state.position), factor


def _checked(nu: Dense, state: Swarm, name: str) -> Dense:
    *batch, n, d = state.position.shape
    covariance = nu.covariance
    if isinstance(state.position, np.ndarray):
        covariance = np.asarray(covariance, dtype=float)
    xp = namespace(covariance)
    if covariance.shape not in ((d, d), (*batch, d, d), (*batch, n, d, d)):
        must = f"{(*batch, d, d)} or one each"
        raise ValueError(f"{name} returned a covariance of shape {covariance.shape}; it must be {must}")
    if not bool(xp.all(xp.isfinite(covariance))):
        raise ValueError(f"{name} returned a covariance with NaN or infinite numbers")
    rounding = _ROUNDING * float(xp.max(xp.abs(covariance)))
    if float(xp.max(xp.abs(covariance - covariance.mT))) > rounding:
        raise ValueError(f"{name} returned a covariance that is not symmetric: {covariance}")
    smallest = float(xp.min(xp.linalg.eigvalsh(covariance)))
    if smallest < -d * rounding:
        raise ValueError(f"{name} returned a matrix that is not a covariance: it has the eigenvalue {smallest:.3g}")
    if nu.strength is None:
        return Dense(covariance)
    strength = _broadcast(nu.strength, (*batch, n), state)
    if strength is None:
        shape = _describe(nu.strength)
        raise ValueError(f"{name} returned a strength of {shape}; it must broadcast to the particles' {(*batch, n)}")
    if not bool(xp.all(xp.isfinite(strength) & (strength >= 0))):
        raise ValueError(f"{name} returned a strength with NaN, infinite or negative numbers")
    return Dense(covariance, strength)


def _broadcast(array: Any, shape: tuple[int, ...], state: Swarm) -> Array | None:
    """The numbers in this shape; None if they do not fit or are not numbers."""
    if array is None:
        return None
    if getattr(array, "shape", None) == shape and getattr(array, "dtype", None) == state.position.dtype:
        return array
    try:
        if not isinstance(state.position, np.ndarray):
            return namespace(state.position).broadcast_to(array, shape)
        numbers = np.asarray(array)
        return np.broadcast_to(numbers.astype(float), shape) if numbers.dtype.kind in "fiub" else None
    except (TypeError, ValueError):
        return None


def name_of(function: Any) -> str:
    """A short name for a user's or our own function."""
    return getattr(function, "__name__", None) or repr(function)


def _describe(given: Any) -> str:
    """An array by its shape, anything else by its repr."""
    return f"shape {given.shape}" if hasattr(given, "shape") else repr(given)


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
        self, hyperparameters: tuple[Hyperparameter, ...], attractors: Sequence[Attractor], noise_scale: Any, wall: Wall
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
        return _constant_coefficients(*map(float, hyperparameters))
    return coefficients(*hyperparameters)


def takes_batches(functions: Sequence[Any], hyperparameters: Sequence[Hyperparameter]) -> bool:
    """Whether all functions of the swarm can take several runs at once: ours can, a user's if it says so."""
    learnt = [h.of_swarm for h in hyperparameters if isinstance(h, schedules.Adaptive)]

    def takes(function: Any) -> bool:
        ours = str(getattr(function, "__module__", "")).startswith("paoswarm.")
        return bool(getattr(function, "takes_batches", ours))

    return all(map(takes, (*functions, *learnt)))
