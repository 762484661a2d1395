"""Hints: what a finished swarm shows about its problem, and what to try next."""

from __future__ import annotations

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm.algorithms.pao import PAO
from paoswarm.core import noise, order
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.evaluation.calls import MINUS_INF

# Smallest eigenvalue of the correlation matrix of the better half of the bests. After 100 generations of 100 particles
# it is above 0.1 on separable functions, rotated or not. On regressions (NIST StRD) and in Rosenbrock's valley, where
# `noise.covariance` is better by decades, it is usually below 0.03.
_NARROW = 0.05
_PER_UNKNOWN = 8  # particles, below which correlations mean little
_ON, _NEAR = 1e-6, 0.01  # in widths of the bounds: the best point is on one, the better half of the bests near it
_NAMED = 5  # most unknowns that a hint names
_STILL = 1e-9  # relative gain in the last fifth of a run, below which it has arrived


def advice(result: OptimizeResult) -> str:
    """What to try next, in a sentence or two; usually empty."""
    if np.ndim(result.fun):  # several runs
        return ""
    if result.get("failure_kinds", {}).get(MINUS_INF):
        return "fun returned -inf, which counts as failed: if it is a log likelihood, minimise its negative"
    return "; ".join(filter(None, (_on_the_bounds(result), _of_the_noise(result))))


def _on_the_bounds(result: OptimizeResult) -> str:
    """Name the unknowns that ended on a bound: a wider range often has a better point."""
    wall = result.method.wall
    if wall.unroll is not None or not wall.is_bounded:  # nothing stops a particle there
        return ""
    swarm = result.swarm
    lower, width = swarm.lower[0], swarm.upper[0] - swarm.lower[0]
    best, typical = (result.x - lower) / width, (np.median(_better_half(swarm), axis=0) - lower) / width
    at_lower = (best < _ON) & (typical < _NEAR)  # not one lucky point of a swarm on its way
    at_upper = (best > 1 - _ON) & (typical > 1 - _NEAR)
    on = np.flatnonzero(at_lower | at_upper).tolist()
    if not on:
        return ""
    names = ", ".join(f"x[{i}]" for i in on[:_NAMED]) + (f" and {len(on) - _NAMED} more" if len(on) > _NAMED else "")
    lies = "lies on its bound" if len(on) == 1 else "lie on their bounds"
    return f"{names} {lies}: wider bounds, if they make sense, may contain a better point"


def _of_the_noise(result: OptimizeResult) -> str:
    """Advise dense noise in a narrow valley, and enough particles for dense noise."""
    method, swarm = result.method, result.swarm
    if not isinstance(method, PAO):
        return ""
    n, d = swarm.n_particles, swarm.n_dimensions
    if method.noise_scale is noise.covariance:
        few = f"noise.covariance needs more than six particles per unknown, for example n_particles={6 * d + 6}"
        return few if n < 6 * d else ""
    if d > 1 and n >= _PER_UNKNOWN * d and is_in_a_valley(swarm) and not _has_arrived(result):
        return (
            "the swarm lies in a narrow valley: use method=ps.PAO(noise_scale=ps.noise.covariance); if fun is smooth, "
            "add polish=True"
        )
    return ""


def is_in_a_valley(swarm: Swarm) -> bool:
    """Whether the better half of the bests is much thinner in some oblique direction than along the axes."""
    bests = _better_half(swarm)
    size = bests.std(axis=0)
    if not np.isfinite(np.median(swarm.best_value)) or not (size > 1e-12 * np.abs(bests).max(axis=0)).all():
        return False  # failed points, or a cloud no wider than rounding errors
    return bool(np.linalg.eigvalsh(np.corrcoef(bests.T))[0] < _NARROW)


def _better_half(swarm: Swarm) -> Floats:
    bests: Floats = swarm.best_position[order.ranked(swarm.best_value)[: max(1, swarm.n_particles // 2)]]
    return bests


def _has_arrived(result: OptimizeResult) -> bool:
    """Whether the last part of the run gained nothing, or polishing took over."""
    best = result.history.best
    if len(best) == 0:
        return False
    gain = best[-1 - len(best) // 5] - best[-1]
    return bool(gain <= _STILL * abs(best[-1]) or result.fun < best[-1])
