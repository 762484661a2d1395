"""Directions and step lengths of a fit from points that its run has evaluated anyway.

A parabola through the points near the minimum says roughly how far one standard error is, and in which directions. It
is not good enough for the errors themselves: points lie where the search went. As the start of the differences it
saves the evaluations that look for step lengths, and changes no digit of what is reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.blas import on_one_thread
from paoswarm.fits.fitted_variables import FittedVariables

_NEAREST, _FARTHEST = 1e-4, 0.25  # rises of the points that are used, in units of that at one standard error
_ENOUGH = 2.0  # how many times as many points as a parabola has coefficients
_LEAST = 1e-4  # ratio of curvatures, for points of unit spread: less may be rounding
_SAME = 1e-9  # relative difference of values that makes the function of the fit another one than that of the run


def points_of_run(result: Any, value: float, variables: FittedVariables | None) -> tuple[Floats, Floats] | None:
    """Coordinates ``(m, d)`` and values ``(m,)`` that a run has evaluated; None if they are not those of the fit.

    ``value`` is that of the fitted function at the result: the run may have minimised something else.
    """
    kept = getattr(result, "evaluations", None)
    if kept is None or not kept.is_complete:
        return None
    rows, values = kept.points
    is_same = np.isclose(value, float(result.fun), rtol=_SAME, atol=0.0)
    if not is_same or values.ndim != 1 or len(values) == 0:  # with constraints they are rows
        return None
    if variables is None:
        return rows, values
    is_fitted = variables.is_fitted
    has_held = (rows[:, ~is_fitted] == variables.row[~is_fitted]).all(axis=1)
    return variables.coordinates(rows[has_held][:, is_fitted]), values[has_held]


@on_one_thread
def known_directions(points: Floats, values: Floats, x: Floats, value: float, unit: float) -> Floats | None:
    """A basis ``(d, d)`` of directions of about one standard error at ``x``; None if the points do not show it."""
    d = len(x)
    if not unit > 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        rises = (values - value) / unit
    is_near = (rises > _NEAREST) & (rises < _FARTHEST)
    if is_near.sum() < _ENOUGH * (d + 1) * (d + 2) / 2:
        return None
    apart, rises = points[is_near] - x, rises[is_near]
    sizes = np.abs(apart).max(axis=0)
    if not (sizes > 0).all():
        return None
    spread, axes = np.linalg.eigh((apart / sizes).T @ (apart / sizes) / len(apart))
    if spread[0] <= np.finfo(float).eps * spread[-1]:
        return None
    root = sizes[:, None] * axes * np.sqrt(spread)  # the points have unit spread along its columns
    z = np.linalg.solve(root, apart.T).T
    first, second = np.triu_indices(d)
    columns = np.concatenate([np.ones((len(z), 1)), z, z[:, first] * z[:, second]], axis=1)
    found = np.linalg.lstsq(columns, rises)[0][1 + d :]
    m = np.zeros((d, d))
    m[first, second] = found / 2
    curvatures, turn = np.linalg.eigh(m + m.T)
    if curvatures[0] <= _LEAST * curvatures[-1]:
        return None
    basis: Floats = root @ turn / np.sqrt(curvatures)
    return basis
