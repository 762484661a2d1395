"""Attempts to say how far the minimum is from the leader of a swarm, without further evaluations, for ``coverage.py``.

An attempt gives a distance for each unknown. Times a factor for each level, it is the half-width of an interval around
the leader. The factors are chosen on one half of the functions and judged on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import paoswarm as ps

RESOLUTION = 4e-15  # of positions in the box (-5, 5): no distance is smaller


class Trace(NamedTuple):
    """What a run looked like up to a generation."""

    leader: np.ndarray  # the best point after every generation, (t + 1, d)
    apart: np.ndarray  # standard deviation of the better half of the bests, weighted by rank, (t + 1, d)
    newton: np.ndarray  # steps to the minimum of quadratics fitted to the last points, (fits, d)

    @classmethod
    def of(cls, swarms: Sequence[ps.Swarm]) -> Trace:
        """Collect a run."""
        n, d = swarms[0].position.shape
        raw = np.maximum(np.log((n + 1) / 2) - np.log(np.arange(1, n + 1)), 0)
        weights = raw / raw.sum()
        bests = np.array([swarm.best_position[np.argsort(swarm.best_value, kind="stable")] for swarm in swarms])
        centred = bests - np.einsum("i,tij->tj", weights, bests)[:, None]
        variance = np.einsum("i,tij->tj", weights, centred**2)
        return cls(bests[:, 0], np.maximum(np.sqrt(variance), RESOLUTION), np.empty((0, d)))

    def until(self, t: int, newton: np.ndarray) -> Trace:
        """The same up to generation t."""
        return Trace(self.leader[: t + 1], self.apart[: t + 1], newton)


def newton_steps(swarms: Sequence[ps.Swarm], seed: int, last: int = 30, fits: int = 8) -> np.ndarray:
    """Steps from the leader to the minimum of a quadratic through the best of the last points, and of resampled ones.

    Directions in which the quadratic is flat or falls get a small positive curvature.
    """
    recent = swarms[-last:]
    x = np.concatenate([swarm.position for swarm in recent] + [recent[-1].best_position])
    f = np.concatenate([swarm.value for swarm in recent] + [recent[-1].best_value])
    x, first = np.unique(x, axis=0, return_index=True)
    d = x.shape[1]
    best = np.argsort(f[first], kind="stable")[: 2 * (d + 1) * (d + 2)]  # four times as many as coefficients
    x, f = x[best] - x[best[0]], f[first][best]
    size = np.maximum(x.std(axis=0), RESOLUTION)
    variances, axes = np.linalg.eigh((x / size).T @ (x / size) / len(x))
    back = axes * np.sqrt(np.maximum(variances, 1e-14))
    z = np.linalg.solve(back, (x / size).T).T  # the cloud as a sphere
    f = (f - f[0]) / max(float(f.std()), 1e-300)
    i, j = np.triu_indices(d)
    terms = np.column_stack([np.ones(len(z)), z, z[:, i] * z[:, j]])
    rng = np.random.default_rng(seed)
    steps = []
    for fit in range(fits + 1):
        rows = rng.integers(len(z), size=len(z)) if fit else np.arange(len(z))
        coefficients = np.linalg.lstsq(terms[rows], f[rows], rcond=1e-10)[0]
        curvature = np.zeros((d, d))
        curvature[i, j] = coefficients[d + 1 :]
        values, vectors = np.linalg.eigh(curvature + curvature.T)
        values = np.maximum(values, 1e-3 * max(float(values.max()), 1e-12))
        step = -(vectors / values) @ vectors.T @ coefficients[1 : d + 1]
        step *= min(1.0, 10 * np.sqrt(d) / max(float(np.linalg.norm(step)), 1e-300))  # ten sizes of the cloud
        steps.append(back @ step * size)
    return np.array(steps)


def spread(now: Trace) -> np.ndarray:
    """How far apart the particles are."""
    return now.apart[-1]


def drift(now: Trace) -> np.ndarray:
    """How far the leader will still go, if its way shrinks from quarter to quarter of the run as it did."""
    t = len(now.leader) - 1
    start, middle, end = now.leader[[t // 2, (t + t // 2) // 2, t]]
    before, after = np.abs(middle - start), np.abs(end - middle)
    ratio = np.clip(after / np.maximum(before, RESOLUTION), 0.1, 0.9)
    return np.maximum(after * ratio / (1 - ratio), RESOLUTION)


def calibrated(now: Trace) -> np.ndarray:
    """The spread, times how far the leader has gone since the second quarter of the run in units of the spread then."""
    t = len(now.leader) - 1
    then = np.arange(t // 4, t // 2 + 1)
    gone = np.abs(now.leader[-1] - now.leader[then]) / now.apart[then]
    return np.maximum(np.sqrt(np.mean(gone**2)) * now.apart[-1], RESOLUTION)


def quadratic(now: Trace) -> np.ndarray:
    """The distance to the minimum of a quadratic through the best of the last points."""
    return np.maximum(np.sqrt(np.mean(now.newton**2, axis=0)), RESOLUTION)


def largest(now: Trace) -> np.ndarray:
    """The largest of the last three."""
    return np.max([drift(now), calibrated(now), quadratic(now)], axis=0)


ATTEMPTS: dict[str, Callable[[Trace], np.ndarray]] = {
    "spread": spread,
    "leader's drift": drift,
    "spread, self-calibrated": calibrated,
    "quadratic": quadratic,
    "largest of the last three": largest,
}
