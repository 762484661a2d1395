"""What a finished swarm shows about its problem, and what to try next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paoswarm.algorithms.pao import PAO
from paoswarm.core import noise
from paoswarm.core.swarm import Swarm

if TYPE_CHECKING:
    from paoswarm.optimize.result import Result

# Smallest eigenvalue of the correlation matrix of the better half of the bests. After 100 generations of 100 particles
# it is above 0.1 on separable functions, rotated or not, and mostly below 0.03 on regressions (NIST StRD) and in
# Rosenbrock's valley, where `noise.covariance` is better by decades.
_NARROW = 0.05
_PER_UNKNOWN = 8  # particles, for correlations that mean something
_STILL = 1e-9  # of its value: what a run that has arrived may have gained in its last fifth


def advice(result: Result) -> str:
    """One sentence, or nothing."""
    method, swarm = result.method, result.swarm
    if not isinstance(method, PAO) or swarm.position.ndim > 2:
        return ""
    n, d = swarm.n_particles, swarm.n_dimensions
    if method.noise_scale is noise.covariance:
        few = f"noise.covariance wants more than six particles per unknown: n_particles={6 * d + 6}, say"
        return few if n < 6 * d else ""
    if d > 1 and n >= _PER_UNKNOWN * d and is_in_a_valley(swarm) and not _has_arrived(result):
        return (
            "the better half of the swarm lies along a narrow valley: method=PAO(noise_scale=noise.covariance) "
            "follows it, and polish=True finishes a smooth function"
        )
    return ""


def is_in_a_valley(swarm: Swarm) -> bool:
    """Whether the better half of the bests is much thinner in some oblique direction than along the axes."""
    order = np.argsort(swarm.best_value)[: swarm.n_particles // 2]
    bests = swarm.best_position[order]
    size = bests.std(axis=0)
    if not np.isfinite(swarm.best_value[order]).all() or not (size > 1e-12 * np.abs(bests).max(axis=0)).all():
        return False  # failed points, or a cloud that rounding has collapsed
    return bool(np.linalg.eigvalsh(np.corrcoef(bests.T))[0] < _NARROW)


def _has_arrived(result: Result) -> bool:
    """Whether its end brought nothing, or a local search has taken over."""
    best = result.history.best
    if len(best) == 0:
        return False
    gain = best[-1 - len(best) // 5] - best[-1]
    return bool(gain <= _STILL * abs(best[-1]) or result.fun < best[-1])
