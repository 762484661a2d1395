"""The coefficients of one step, computed from mass, damping, stiffness, noise and time step."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.dynamics import checked_transition


class Coefficients(NamedTuple):
    """The coefficients of one step: numbers, or arrays ``(..., n, 1)`` if particles differ."""

    weights: tuple[Any, ...]  # k_r / k
    a11: Any
    a12: Any
    a21: Any
    a22: Any
    h11: Any  # entries of sqrt(q) H
    h21: Any
    h22: Any


@lru_cache(maxsize=64)
def constant_coefficients(*numbers: float) -> Coefficients:
    """`coefficients` of plain numbers, remembered: every run with the same method needs the same ones."""
    return coefficients(*numbers)


def coefficients(m: Any, zeta: Any, q: Any, dt: Any, *k: Any) -> Coefficients:
    """Return the coefficients of one step, equations (2), (3) and (8), for numbers or for arrays over the particles."""
    m, zeta, q, dt, *springs = np.broadcast_arrays(*(np.asarray(p, dtype=float) for p in (m, zeta, q, dt, *k)))
    total = sum(springs[1:], start=springs[0])
    for name, number in (("mass", m), ("damping", zeta), ("noise", q), ("dt", dt), ("stiffness", total)):
        positive = name in ("mass", "stiffness")
        if not np.all(np.isfinite(number) & ((number > 0) if positive else (number >= 0))):
            must = "positive" if positive else "zero or positive"
            raise ValueError(f"{name} became {np.min(number)} during the run; it must stay {must} and finite")
    law = checked_transition(m, zeta, total, dt)
    with np.errstate(over="ignore"):
        size = np.sqrt(q)[..., None, None] * law.cholesky
    if not np.isfinite(size).all():
        raise ValueError(f"noise={q} makes a step that is too large for floating-point numbers; use a smaller value")
    entries = [law.A[..., i, j] for i in (0, 1) for j in (0, 1)]
    entries += [size[..., i, j] for i, j in ((0, 0), (1, 0), (1, 1))]
    return Coefficients(tuple(_per_element(spring / total) for spring in springs), *map(_per_element, entries))


def _per_element(parameter: Any) -> Any:
    """Turn a single number into a float; give an array with one number per particle an axis for the elements."""
    return float(parameter) if np.ndim(parameter) == 0 else parameter[..., None]
