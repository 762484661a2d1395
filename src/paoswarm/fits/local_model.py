"""The quadratic model around a point, in coordinates in which all directions are alike.

With ``x + B z`` and the rise ``u`` of the function one standard error away from the minimum, the model is
``f = f0 + u (z' M z + 2 g' z)``. The basis ``B`` is chosen so that ``M`` is nearly the unit matrix: then a step of one
half is half a standard error in every direction, the narrow and the wide ones, and nothing is lost to rounding however
much the unknowns are correlated. The covariance is ``B inv(M) B'``.

All differences are central, so their errors are even powers of the step, and two steps give Richardson's
extrapolation. How far two steps disagree shows kinks and noise.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.fits.fit_function import FitFunction, Measured
from paoswarm.fits.step_lengths import STEP

_MOST_FAILURES = 5  # how often the step is halved because points fail
_MOST_HALVINGS = 6
_AGREE = 0.03  # in units of M, which is about one
ROUGH = 0.1  # the same: more than this is no smooth function


class Model(NamedTuple):
    """Second and first derivatives in the coordinates ``z``."""

    m: Floats
    g: Floats


class Differences(Protocol):
    """A way to measure a model; both below are linear in what is measured, so levels can be combined."""

    def points(self, x: Floats, steps: Floats) -> Floats:
        """Points around ``x``; the rows of ``steps`` are vectors along the basis."""

    def derivatives(self, at: Measured, found: Measured, rise: float, h: float) -> Floats:
        """Derivatives from what was found at these points and at ``x`` itself."""

    def model(self, derivatives: Floats, at: Measured, rise: float) -> Model:
        """The model that these derivatives give."""


class SecondDifferences:
    """Second differences of the value: ``k (k + 1)`` points for ``k`` directions."""

    def points(self, x: Floats, steps: Floats) -> Floats:
        """Steps to both sides along each direction, and along the sum of each pair."""
        first, second = np.triu_indices(len(steps), 1)
        moves = np.concatenate([steps, steps[first] + steps[second]])
        return np.concatenate([x + moves, x - moves])

    def derivatives(self, at: Measured, found: Measured, rise: float, h: float) -> Floats:
        """``M`` and, as a last row, ``g``."""
        rises = (found.values.reshape(2, -1) - at.values[0]) / rise
        k = int((np.sqrt(8 * rises.shape[1] + 1) - 1) / 2)
        both, difference = rises.sum(axis=0), rises[0] - rises[1]
        first, second = np.triu_indices(k, 1)
        m = np.diag(both[:k] / (2 * h * h))
        m[first, second] = m[second, first] = (both[k:] - both[first] - both[second]) / (4 * h * h)
        return np.concatenate([m, difference[None, :k] / (4 * h)])

    def model(self, derivatives: Floats, at: Measured, rise: float) -> Model:
        """Split the rows."""
        return Model(derivatives[:-1], derivatives[-1])


class ResidualDifferences:
    """First differences of the residuals: ``2 k`` points. The model is that of Gauss and Newton."""

    def points(self, x: Floats, steps: Floats) -> Floats:
        """Steps to both sides along each direction."""
        return np.concatenate([x + steps, x - steps])

    def derivatives(self, at: Measured, found: Measured, rise: float, h: float) -> Floats:
        """The Jacobian ``A`` (m, k) of the residuals, divided by the square root of the rise."""
        assert found.residuals is not None
        forward, backward = np.split(found.residuals, 2)
        jacobian: Floats = (forward - backward).T / (2 * h * np.sqrt(rise))
        return jacobian

    def model(self, derivatives: Floats, at: Measured, rise: float) -> Model:
        """``M = A' A``, and ``g = A' r``."""
        assert at.residuals is not None
        return Model(derivatives.T @ derivatives, derivatives.T @ at.residuals[0] / np.sqrt(rise))


class Extrapolated(NamedTuple):
    """A model from several steps, and how well they agree."""

    model: Model
    disagreement: Floats  # of M, by element, between the two steps that agree best
    halvings: int  # of the first step, until two agreed
    growth: float  # of the disagreement when the step is halved: 1/4 if smooth, 2 with a kink, 4 with noise


def measured(
    fun: FitFunction, how: Differences, x: Floats, at: Measured, basis: Floats, rise: float, h: float = STEP
) -> tuple[Floats, float]:
    """Derivatives with one step, and the step, which is halved as long as points fail."""
    for _ in range(_MOST_FAILURES):
        found = fun(how.points(x, h * basis.T))
        if np.isfinite(found.values).all():
            return how.derivatives(at, found, rise, h), h
        h /= 2
    raise fun.explain_failure(
        "the function failed within 0.02 standard errors of the minimum (if there is a limit, give bounds)"
    )


def extrapolated(
    fun: FitFunction, how: Differences, x: Floats, at: Measured, basis: Floats, rise: float, first: tuple[Floats, float]
) -> Extrapolated:
    """Go on from derivatives with one step: halve it until two agree, or until they agree less and less."""
    levels, h = [first[0]], first[1]
    models = [how.model(first[0], at, rise)]
    apart: list[Floats] = []
    sizes: list[float] = []
    for _ in range(_MOST_HALVINGS):
        more, h = measured(fun, how, x, at, basis, rise, h / 2)
        levels.append(more)
        models.append(how.model(more, at, rise))
        apart.append(np.abs(models[-1].m - models[-2].m))
        sizes.append(float(apart[-1].max()))
        if sizes[-1] <= _AGREE or (len(sizes) > 2 and sizes[-1] > sizes[-2] > sizes[-3]):
            break
    best = int(np.argmin(sizes))
    growth = sizes[-1] / sizes[-2] if len(sizes) > 1 and sizes[-2] > 0 else 0.0
    better = (4 * levels[best + 1] - levels[best]) / 3
    if best == 0 and growth > 1:  # a kink or noise, which the extrapolation would amplify
        better = levels[0]
    return Extrapolated(how.model(better, at, rise), apart[best], best, growth)
