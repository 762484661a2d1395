"""Checks of what attractors and noise scales return: arrays of the right form, or an error that names the function.

Built-in functions are trusted: they never return NaN, and a check takes longer than a step of a small swarm.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paoswarm.core.arrays import Array, namespace
from paoswarm.core.noise import Dense, square_root
from paoswarm.core.swarm import Swarm

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
