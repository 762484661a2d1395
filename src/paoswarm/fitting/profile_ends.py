"""Profile intervals: where the function has risen too far, whatever the other unknowns do.

The end of an interval is the value of one unknown at which the function, minimised over all others, has risen by
``q^2`` units above its minimum, with a quantile ``q`` of Student's or the normal distribution. For a parabola this is
``q`` standard errors. Otherwise the two ends differ. They do not depend on how the unknowns are written: the ends for
the logarithm of an unknown are the logarithms of its ends.

All ends are sought at once, so that workers share the points.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.fitting.derivatives import FitFunction
from paoswarm.run.read_input import Box

_CLOSE = 0.005  # of the root of the wanted rise
_LOW = 0.002  # units: how far a minimum over the others may still fall
_DIFFERENCE = 0.05  # conditional standard errors
_FARTHER = 2.5  # how much farther away the next try may be
_SHORTEST = 0.02  # of the distance: shorter steps are not tried
_LONGEST = 3.0  # conditional standard errors: a longer step is shortened
_SHARES = np.array([1.0, 0.5, 0.2, 0.05])  # of a step, all of them tried

_MOST_TRIES, _MOST_STEPS = 40, 12  # for the end of an interval; for the minimum over the others

Search = Generator[Floats, Floats, float]


class ProfiledMinimum(NamedTuple):
    """The minimum from which the profiles start."""

    x: Floats
    value: float
    unit: float  # rise at one standard error
    root: Floats  # (d, k), root of the covariance
    box: Box


def profile_ends(fun: FitFunction, around: ProfiledMinimum, unknowns: list[int], q: float) -> tuple[Floats, float]:
    """Lower and upper ends (d, 2) for these unknowns, NaN for others; and the lowest value that was seen."""
    ends = np.full((len(around.x), 2), np.nan)
    searches = {(i, side): _end(around, i, 2 * side - 1, q) for i in unknowns for side in (0, 1)}
    asked = {key: next(search) for key, search in searches.items()}
    lowest = around.value
    while asked:
        found = fun(np.concatenate(list(asked.values())))
        lowest = min(lowest, float(np.nanmin(found, initial=np.inf)))
        row = 0
        for key, points in list(asked.items()):
            rows = slice(row, row + len(points))
            row += len(points)
            try:
                asked[key] = searches[key].send(found[rows])
            except StopIteration as end:
                ends[key] = end.value
                del asked[key]
    return ends, lowest


def _end(around: ProfiledMinimum, i: int, sign: int, q: float) -> Search:
    """Yield points, be sent their values, and return one end of the interval of unknown ``i``."""
    x, root, bound = around.x, around.root, around.box[(sign + 1) // 2][i]
    error = float(np.linalg.norm(root[i]))
    line = sign * root @ root[i] / error  # where the others are at their best, for a parabola
    others = root @ np.linalg.svd(root[i : i + 1])[2][1:].T  # directions that leave unknown `i` as it is
    farthest = abs(bound - x[i]) / error
    q_low, low, high = 0.0, 0.0, (np.inf, np.inf)  # roots of the rise, and distances in standard errors
    distance, stride = min(q, farthest), np.inf
    known = [(1.0, np.zeros(others.shape[1]))]  # where the others are, over squared distances
    curvature = 2 * np.eye(others.shape[1])
    for _ in range(_MOST_TRIES):
        z, bent, rise, is_sure = yield from _best_others(
            around, x + distance * line, others, _ahead(known, distance), curvature
        )
        tall = float(np.sqrt(max(rise, 0.0)))
        if tall > q and not is_sure:  # the others were not followed so far: go there in shorter steps
            stride = (distance - low) / 3
            if stride < _SHORTEST * q:
                return np.nan
            distance = low + stride
            continue
        if abs(tall - q) <= _CLOSE * q:
            return float(x[i] + sign * distance * error)
        if tall < q and distance >= farthest:
            return float(bound)
        if tall < q:
            low, q_low, curvature = distance, tall, bent
            known = [known[-1], (distance, z / distance**2)]
        else:
            high = (distance, tall)
        if np.isinf(high[0]):
            distance *= min(q / max(tall, q / _FARTHER), _FARTHER)
        else:
            share = (q - q_low) / (high[1] - q_low) if np.isfinite(high[1]) else 0.5
            distance = low + min(max(share, 0.1), 0.9) * (high[0] - low)
        distance = min(distance, low + 2 * stride, farthest)
    return np.nan


def _ahead(known: list[tuple[float, Floats]], distance: float) -> Floats:
    """Extrapolate the other unknowns along the profile: quadratic in the distance, then cubic."""
    bend = known[-1][1]
    if len(known) > 1 and known[0][1].any():
        (first, before), (second, last) = known
        bend = last + (last - before) * (distance - second) / (second - first)
    return bend * distance**2


def _best_others(
    around: ProfiledMinimum, base: Floats, others: Floats, z: Floats, curvature: Floats
) -> Generator[Floats, Floats, tuple[Floats, Floats, float, bool]]:
    """The minimum over the other unknowns: ``z`` there, the curvature, the rise, and whether it is surely a minimum."""
    rise = np.inf
    earlier: tuple[Floats, Floats] | None = None
    for _ in range(_MOST_STEPS):
        centre = base + others @ z
        moves = _DIFFERENCE * others.T
        found = yield np.clip(np.concatenate([centre[None], centre + moves, centre - moves]), *around.box)
        rises = (found - around.value) / around.unit
        rise = float(rises[0]) if np.isfinite(rises[0]) else np.inf
        if not len(z):
            return z, curvature, rise, True
        if np.isnan(rises).any():
            break
        forward, backward = np.split(rises[1:], 2)
        slope = (forward - backward) / (2 * _DIFFERENCE)
        if earlier is not None:
            curvature = _updated(curvature, z - earlier[0], slope - earlier[1])
        earlier = z, slope
        step = -np.linalg.lstsq(curvature, slope)[0]
        gain = float(-slope @ step / 2)
        if gain < _LOW * max(1.0, rise):
            return z, curvature, rise - max(gain, 0.0), True
        step = step * min(1.0, _LONGEST / float(np.linalg.norm(step)))
        tried = yield np.clip(base + (z + _SHARES[:, None] * step) @ others.T, *around.box)
        values = np.where(np.isnan(tried), np.inf, tried)
        best = int(values.argmin())
        if not values[best] < found[0]:
            break
        z = z + _SHARES[best] * step
    return z, curvature, rise, False


def _updated(curvature: Floats, step: Floats, change: Floats) -> Floats:
    """The curvature after a step over which the slope has changed (Broyden, Fletcher, Goldfarb, Shanno)."""
    along, old = float(step @ change), curvature @ step
    if along <= 1e-3 * float(step @ old):  # it must remain positive
        return curvature
    updated: Floats = curvature - np.outer(old, old) / (step @ old) + np.outer(change, change) / along
    return updated
