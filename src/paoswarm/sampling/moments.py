"""Moments of weighted points."""

from __future__ import annotations

import numpy as np

from paoswarm.core.arrays import Floats


def weighted_variance(points: Floats, weights: Floats) -> Floats:
    """Variance of each coordinate of points (n, d) with weights (n,) that sum to one, ``(d,)``."""
    return weights @ (points - weights @ points) ** 2


def scatter_matrix(offsets: Floats, weights: Floats) -> Floats:
    """Weighted sum over n of the outer products of offsets (..., d, n) from a centre, ``(..., d, d)``."""
    return (offsets * weights[..., None, :]) @ np.swapaxes(offsets, -1, -2)
