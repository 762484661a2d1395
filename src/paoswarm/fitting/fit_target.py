r"""The posterior of a fit as a target for a sampler: its prior on the cube, and the likelihood without nuisances.

Unknown standard deviations, scales and offsets are integrated out. With the prior :math:`1 / \sigma` and flat priors of
the factors, an output with :math:`n` data and normal noise, whose best factors leave the sum of squares :math:`S`, has

.. math:: L = \tfrac12 \Gamma\left(\tfrac{\nu}{2}\right) (\pi S)^{-\nu/2} \, |D' D|^{-1/2}, \qquad \nu = n - j
          \tag{F11}

with the slopes :math:`D` of the outputs with respect to the :math:`j` factors. For known noise it is the maximum over
the factors times :math:`|D' D / 2 \pi|^{-1/2}`, with slopes in standard deviations. For other laws than the normal and
log-normal both are approximations, by a normal law around the best factors.

Without factors (F11) is :math:`S^{-n/2}`, as for the best :math:`\sigma`: it does not matter which one is taken. The
posterior of a linear model is then Student's t with :math:`n` less the unknowns as its degrees of freedom, and the
covariance (F9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from paoswarm.core.arrays import Array, Floats
from paoswarm.evaluate.calls import Failed, Objective
from paoswarm.fitting.comparison import Comparison
from paoswarm.fitting.cube import Cube
from paoswarm.fitting.read_fit import FittedVariables
from paoswarm.least_squares.loss import Loss
from paoswarm.least_squares.trust_region import Region
from paoswarm.sampling.prior import UniformBox


def log_marginal_likelihood(loss: Loss, y: Floats) -> float:
    """The log likelihood of the data (F11) for a vector of outputs; NaN where the factors are not determined."""
    total = -0.5 * loss.minus_two_log_likelihood(y)
    for group, score in zip(loss.groups, loss.around(y).groups, strict=True):
        n = len(loss.own(group, loss.data))
        nu = n - group.has_scale - group.has_offset
        if score.columns is not None:
            total -= 0.5 * float(np.linalg.slogdet(score.columns.T @ score.columns / (2 * math.pi))[1])
        if group.law.estimates_sigma:
            if nu <= 0:
                return math.nan
            total += float(gammaln(nu / 2)) - math.log(2) + nu / 2 * math.log(2 / n) + n / 2
    return total if math.isfinite(total) else math.nan


class CubePrior(UniformBox):
    """Uniform on the cube of a fit, with laws of the user on some of its axes as part of the likelihood.

    Parameters
    ----------
    cube : Cube
    variables : FittedVariables
    comparison : Comparison
        Its beliefs have the laws.
    """

    def __init__(self, cube: Cube, variables: FittedVariables, comparison: Comparison) -> None:
        super().__init__(variables.names, cube.low, cube.low + cube.width, cube.is_round.tolist())
        self._variables = variables
        keys = list(variables.names) if cube.space.names is not None else np.flatnonzero(variables.is_fitted).tolist()
        self._laws = [(keys.index(one.key), one.law) for one in comparison.beliefs.priors]
        ends = variables.numbers(np.stack([cube.low, cube.low + cube.width]))
        self._masses = [math.log(law.cdf(ends[1, i]) - law.cdf(ends[0, i])) for i, law in self._laws]

    def parameters(self, z: Array) -> Array:
        """The user's numbers."""
        return self._variables.numbers(super().parameters(z))

    def coordinates(self, x: Floats) -> Floats:
        """The sampler's coordinates of the user's numbers."""
        return super().coordinates(self._variables.coordinates(x))

    def parameter_log_density(self, x: Floats) -> Floats:
        """Log density of the user's numbers, with the user's laws."""
        x = np.atleast_2d(x)
        density = super().parameter_log_density(self._variables.coordinates(x))
        return density - np.log(np.where(self._variables.is_log, x, 1.0)).sum(axis=1) + self.excess(x)

    def excess(self, x: Floats) -> Floats:
        """By how much the laws of the user exceed the uniform ones: logarithms of the ratios, for rows of ``x``."""
        total = np.zeros(len(x))
        for (i, law), mass in zip(self._laws, self._masses, strict=True):
            uniform = -np.log(2 * self._half[i]) - (np.log(x[:, i]) if self._variables.is_log[i] else 0.0)
            total += law.logpdf(x[:, i]) - mass - uniform
        return total


@dataclass(frozen=True)
class FitLikelihood:
    """The log likelihood at the user's continuous numbers, with the user's priors. It can be sent between processes."""

    simulate: Objective
    comparison: Comparison
    variables: FittedVariables
    prior: CubePrior
    region: Region

    def __call__(self, x: Floats) -> Any:
        """Simulate at a point, unless it is not allowed there."""
        u = self.variables.coordinates(x)
        if not self.region.allows((u - self.prior.low) / (self.prior.high - self.prior.low)):
            return -math.inf
        point = self.variables.point(u)
        answer = self.simulate(point)
        if isinstance(answer, Failed):
            return answer
        beliefs = self.comparison.beliefs.residuals(point)
        vector = np.concatenate([self.comparison.vector(answer), beliefs])
        return self.at(x, vector)

    def at_point(self, point: Floats, vector: Floats) -> float:
        """The same at a point of the cube where the vector of outputs and beliefs is known; minus infinity for NaN."""
        found = self.at(self.variables.numbers(self.prior.low + point * (self.prior.high - self.prior.low)), vector)
        return found if math.isfinite(found) else -math.inf

    def at(self, x: Floats, vector: Floats) -> float:
        """The same at the user's numbers."""
        beliefs = self.comparison.beliefs
        penalty = vector[len(vector) - beliefs.count + len(beliefs.priors) :]
        likelihood = log_marginal_likelihood(self.comparison.loss(len(vector)), vector)
        return likelihood - 0.5 * float(penalty @ penalty) + float(self.prior.excess(x[None])[0])
