"""Moments of weighted points."""

from __future__ import annotations

from paoswarm.core.arrays import Floats


def weighted_variance(points: Floats, weights: Floats) -> Floats:
    """Variance of each coordinate of points (n, d) with weights (n,) that sum to one, ``(d,)``."""
    return weights @ (points - weights @ points) ** 2


def scatter_matrix(offsets: Floats, weights: Floats) -> Floats:
    """Weighted sum of the outer products of offsets (n, d) from a centre, ``(d, d)``."""
    return (offsets * weights[:, None]).T @ offsets
