"""Where to climb from: of all draws the highest, and those that the peaks known so far do not explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from paoswarm.core.arrays import Floats
from paoswarm.sampling.modes import Mode, distance
from paoswarm.sampling.periodic_coordinates import Circle
from paoswarm.sampling.target import Target

_LOOKS = np.array([0.03, 0.1, 0.3, 0.6])  # on the way from a start to a mode
_STRANGE = 8.0  # times the usual surprise, from which on a point is strange
_PIECES = 20  # of the curve along which heights drop
_ENOUGH = 10_000  # points to compare others with


def choose_starts(z: Floats, value: Floats, n: int) -> NDArray[np.intp]:
    """Indices of the most promising points of a pool: in turns the highest, and those that most exceed a global trend.

    The trend is a quadratic in ``z``, fitted robustly. A narrow mode in the skirts of a wide one is low, but higher
    than the wide one explains. Points closer to a chosen one than half the pool's typical spacing are passed over.
    """
    finite = np.flatnonzero(np.isfinite(value))
    if len(finite) == 0:
        return finite
    points, height = z[finite], value[finite]
    d = points.shape[1]
    highest = spread_out(points, height, (n + 1) // 2)
    if len(finite) <= 2 * (d + 1) * (d + 2):  # too few for a trend
        return finite[highest]
    both = spread_out(points, height - _trend(points, height), n // 2, highest)
    surprising = both[len(highest) :]
    turns = [i for pair in zip_longest(highest, surprising) for i in pair if i is not None]
    return finite[turns]


def spread_out(points: Floats, score: Floats, n: int, chosen: Sequence[int] = ()) -> list[int]:
    """Up to ``n`` indices in falling order of score after those that are chosen, none close to another."""
    sd = points.std(axis=0)
    scaled = points / np.where(sd > 0, sd, 1.0)
    spacing = 0.5 * math.sqrt(scaled.shape[1]) * len(points) ** (-1 / scaled.shape[1])
    found = list(chosen)
    for i in np.argsort(-score, kind="stable")[:2000].tolist():
        if n == 0:
            break
        if (((scaled[found] - scaled[i]) ** 2).sum(axis=1) > spacing**2).all():
            found.append(i)
            n -= 1
    return found


def unexplained(
    z: Floats, value: Floats, modes: list[Mode], n: int, circle: Circle | None
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Indices of points of a pool that exceed what the modes explain, in turns of each mode; and which are strange.

    A point belongs to the mode that explains the greatest height there. What is left of its height is compared with
    what is left at the nearest points: where a mode explains a slope badly, it does so for all of them. Strange is what
    exceeds them by far more than is usual.
    """
    finite = np.flatnonzero(np.isfinite(value))
    points, height = z[finite], value[finite]
    owner, left = _left_over(points, height, modes, circle)
    looked_at = np.argsort(-left, kind="stable")[:_ENOUGH]
    tree = KDTree(points[:_ENOUGH])
    near = tree.query(points[looked_at], k=min(2 * points.shape[1] + 1, tree.n))[1]
    surprise = np.full(len(points), -np.inf)
    surprise[looked_at] = left[looked_at] - np.median(left[near.reshape(len(looked_at), -1)], axis=1)
    strange = np.zeros(len(points), dtype=bool)
    each = []
    for k in range(len(modes)):
        own = looked_at[owner[looked_at] == k]
        if len(own):
            strange[own] = surprise[own] > max(1.0, _STRANGE * float(np.median(np.abs(surprise[own]))))
            each.append(own[spread_out(points[own], surprise[own], n)].tolist())
    turns = [i for several in zip_longest(*each) for i in several if i is not None][:n]
    return finite[turns], strange[turns]


def _left_over(
    points: Floats, height: Floats, modes: list[Mode], circle: Circle | None
) -> tuple[NDArray[np.intp], Floats]:
    """To which mode every point belongs, and how far it lies above what the mode explains.

    From its top the height drops with the squared distance, in standard deviations of the mode. How fast, is the median
    of all points that belong to it, and in the end a curve of such medians, in logarithms: no other mode bends it.
    """
    away = np.stack([distance(points, mode.z, mode.factor, circle) ** 2 for mode in modes]) + 1e-100  # not at the top
    top = np.array([[mode.height] for mode in modes])
    drop = np.maximum(top - height, 1e-3)
    rate = np.full((len(modes), 1), 0.5)
    for _ in range(4):
        owner = np.argmax(top - rate * away, axis=0)
        for k in np.unique(owner):
            own = owner == k
            rate[k] = np.median(drop[k, own] / away[k, own])
    left = height - (top - rate * away)[owner, np.arange(len(points))]
    for k in np.unique(owner):
        own = np.flatnonzero(owner == k)
        if len(own) > 10 * _PIECES:
            pieces = np.array_split(own[np.argsort(away[k, own], kind="stable")], _PIECES)
            knots = np.log([[np.median(a[k, piece]) for piece in pieces] for a in (away, drop)])
            left[own] = height[own] - (top[k] - np.exp(_curve(np.log(away[k, own]), *knots)))
    return owner, left


def _curve(x: Floats, knots: Floats, values: Floats) -> Floats:
    """Straight pieces between the knots, the outer ones continued, but not far."""
    piece = np.clip(np.searchsorted(knots, x), 1, len(knots) - 1)
    slope = np.diff(values) / (np.diff(knots) + 1e-100)
    return np.clip(values[piece] + slope[piece - 1] * (x - knots[piece]), values.min() - 3, values.max() + 3)


def _trend(points: Floats, height: Floats) -> Floats:
    """Quadratic regression of height on place with Cauchy weights, so that no mode bends it."""
    known, seen = _quadratic(points[:_ENOUGH]), height[:_ENOUGH]
    least = 1e-12 * np.ptp(seen) + 1e-100  # an exact quadratic leaves nothing
    trend = np.full(len(seen), np.median(seen))
    for _ in range(6):
        away = seen - trend
        root = 1 / np.sqrt(1 + (away / (1.5 * np.median(np.abs(away)) + least)) ** 2)
        coefficients = np.linalg.lstsq(known * root[:, None], seen * root, rcond=None)[0]
        trend = known @ coefficients
    more = [_quadratic(points[i : i + _ENOUGH]) @ coefficients for i in range(_ENOUGH, len(points), _ENOUGH)]
    return np.concatenate([trend, *more])


def _quadratic(points: Floats) -> Floats:
    """Terms of a quadratic, a row for every point."""
    rows, columns = np.triu_indices(points.shape[1])
    return np.concatenate([np.ones((len(points), 1)), points, points[:, rows] * points[:, columns]], axis=1)


def beyond_valleys(target: Target, starts: Floats, value: Floats, modes: list[Mode]) -> NDArray[np.bool_]:
    """Which starts are separated from the nearest mode by lower ground, at a few places on the straight way.

    They are likely to lead elsewhere. Of the others nobody knows: from afar a valley may not be seen.
    """
    if len(starts) == 0:
        return np.zeros(0, dtype=bool)
    ways = np.stack([mode.z for mode in modes]) - starts[:, None]
    ways = ways if target.circle is None else target.circle.nearest(ways)
    way = ways[np.arange(len(starts)), np.argmin((ways**2).sum(axis=2), axis=1)]
    looks = starts[:, None] + _LOOKS[:, None] * way[:, None]
    heights = target.height(looks.reshape(-1, target.dim)).reshape(len(starts), -1)
    return heights.min(axis=1) < value


def screening_cost(n: int) -> int:
    """Likelihood evaluations that `beyond_valleys` takes for ``n`` starts."""
    return n * len(_LOOKS)
