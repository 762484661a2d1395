"""What a problem with integers, constraints or both is in the benchmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

EQUALITY_TOLERANCE = 1e-4  # of Liang et al. (2006): an equality holds if |h| <= 1e-4


@dataclass(frozen=True)
class ConstrainedProblem:
    """Minimise ``fun`` subject to ``inequalities <= 0`` and ``equalities = 0`` within bounds.

    Every function takes points as rows ``(m, d)``. Numbers of integer variables are rounded to the nearest integer, so
    that a point between two integers is the integer.

    Attributes
    ----------
    name : str
        The name, such as ``g01`` or ``pressure vessel``.
    bounds : (d, 2) array
        The smallest and the largest value of each variable.
    evaluate : callable
        ``rows -> (values (m,), inequalities (m, k), equalities (m, l))``, for integers that are rounded already.
    best_value : float
        The best known value where equalities hold exactly.
    best_point : (d,) array
        A point that has it: inside the bounds, with integers, and feasible.
    integrality : (d,) bool array
        True where a variable is an integer.
    logarithmic : (d,) bool array
        True where a variable is positive and known by its order of magnitude only.
    """

    name: str
    bounds: np.ndarray
    evaluate: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
    best_value: float
    best_point: np.ndarray
    integrality: np.ndarray = field(default=None)
    logarithmic: np.ndarray = field(default=None)

    def __post_init__(self):
        set_ = object.__setattr__
        set_(self, "bounds", np.asarray(self.bounds, float))
        set_(self, "best_point", np.asarray(self.best_point, float))
        for name in ("integrality", "logarithmic"):
            given = getattr(self, name)
            set_(self, name, np.zeros(self.dim, bool) if given is None else np.asarray(given, bool))

    @property
    def dim(self):
        """The number of variables."""
        return len(self.bounds)

    def rounded(self, x):
        """The points with integers rounded, halves up, and everything clipped to the bounds."""
        x = np.atleast_2d(np.asarray(x, float))
        return np.clip(np.where(self.integrality, np.floor(x + 0.5), x), self.bounds[:, 0], self.bounds[:, 1])

    def fun(self, x):
        """The values of the objective ``(m,)`` at points ``(m, d)``."""
        return self.evaluate(self.rounded(x))[0]

    def inequalities(self, x):
        """The numbers ``(m, k)`` that must not be positive."""
        return self.evaluate(self.rounded(x))[1]

    def equalities(self, x):
        """The numbers ``(m, l)`` that must be zero."""
        return self.evaluate(self.rounded(x))[2]

    def is_feasible(self, x):
        """Whether no inequality is positive, not even by rounding, and equalities hold within their tolerance."""
        _, g, h = self.evaluate(self.rounded(x))
        return feasible(g, h)


def feasible(g, h):
    """Whether the constraints hold at each of ``m`` points, given inequalities ``(m, k)`` and equalities ``(m, l)``."""
    return np.all(g <= 0, axis=1) & np.all(np.abs(h) <= EQUALITY_TOLERANCE, axis=1)


def stacked(function):
    """Turn ``x1, x2, ... -> (value, [inequalities], [equalities])`` into a function of rows."""

    def evaluate(x):
        value, g, h = function(*x.T)
        one = np.ones(len(x))
        columns = [np.stack([one * c for c in part], axis=1) if part else np.empty((len(x), 0)) for part in (g, h)]
        return one * value, *columns

    return evaluate
