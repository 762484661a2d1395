"""Moments that may not exist: parameters whose mean or standard deviation rests on a few draws far in a tail."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import pareto_k
from paoswarm.sampling.verdict import SHAPE, Remark

_HEAVY = 0.7  # Pareto k of a moment's terms, above which their mean is not reliable
_FAR = 5.0  # widths of the central 68 % beyond which a draw is far in a tail
_SHARE = 0.2  # share of the moment that comes from there


def tail_remarks(names: list[str], x: Floats, weights: Floats) -> list[Remark]:
    """Remarks on parameters without a reliable mean or standard deviation.

    The terms of a moment, weight times a power of the distance from the median, have the tail of the weights and of the
    posterior together. A heavy tail of the posterior itself lies far out; that of the weights alone need not.
    """
    remarks = []
    for name, column in zip(names, x.T, strict=True):
        order = np.argsort(column)
        below = np.cumsum(weights[order])
        low, middle, high = column[order][np.searchsorted(below, (0.16, 0.5, 0.84))]
        away = np.abs(column - middle)
        is_far = away > _FAR * (high - low)
        if not is_far.any():
            continue
        lost = [power for power in (1, 2) if _is_heavy(weights, away, is_far, power)]
        if lost:
            which = "mean and standard deviation" if 1 in lost else "standard deviation"
            text = f"The {which} of {name} may not exist: a few draws far in a tail decide them; use interval()"
            remarks.append(Remark(SHAPE, text if 1 in lost else text.replace("them", "it")))
    return remarks


def _is_heavy(weights: Floats, away: Floats, is_far: NDArray[np.bool_], power: int) -> bool:
    scaled = away / away.max()  # powers of huge numbers overflow
    terms = weights * scaled**power
    if not terms[is_far].sum() > _SHARE * terms.sum():
        return False
    with np.errstate(divide="ignore"):
        return pareto_k(np.log(terms)) > _HEAVY
