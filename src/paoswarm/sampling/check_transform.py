"""Check a prior's transform of uniform deviates before the first likelihood evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paoswarm.core.arrays import Floats

Transform = Callable[[Floats], ArrayLike]

_ADVICE = (
    "It seems to take one vector of deviates, as in dynesty; here it must take rows (m, d). Write "
    "lambda u: np.array([transform(row) for row in u]), or use u[:, 0] where it has u[0]"
)


def check_transform(transform: Transform, dim: int) -> None:
    """Raise unless the transform maps the rows of ``(m, dim)`` independently, to the same shape.

    A transform of a single vector, as dynesty and other samplers take it, can return an array of the right shape: then
    it has mixed up rows and parameters, and the only symptom would be a wrong prior.
    """
    rows = dim + 1  # an array with as many rows as columns would hide a mix-up of the two
    u = (0.5 + np.arange(rows * dim).reshape(rows, dim)) / (rows * dim)
    try:
        x, alone = (np.asarray(transform(given.copy()), dtype=float) for given in (u, u[-1:]))
    except Exception as error:
        if _takes_one_vector(transform, u[0]):
            raise ValueError(f"the prior's transform raised {error!r} for rows of deviates. {_ADVICE}") from error
        raise
    problem = ""
    if x.shape != u.shape:
        problem = f"the prior's transform must map {u.shape} to the same shape, but it returned {x.shape}"
    elif alone.shape != (1, dim) or not np.allclose(x[-1:], alone, rtol=1e-6, equal_nan=True):
        problem = "the prior's transform must map every row by itself, but a row alone gives another value"
    if problem:
        raise ValueError(f"{problem}. {_ADVICE}" if _takes_one_vector(transform, u[0]) else problem)


def _takes_one_vector(transform: Transform, vector: Floats) -> bool:
    """Whether the transform maps a single vector to as many finite numbers."""
    try:
        x: Any = np.asarray(transform(vector.copy()), dtype=float)
    except Exception:  # whatever goes wrong, it does not take a vector
        return False
    return x.shape == vector.shape and bool(np.isfinite(x).all())
