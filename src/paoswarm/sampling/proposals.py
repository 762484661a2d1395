r"""Proposals: densities to draw from next, made from all draws of the adaptation and the modes.

A proposal may be chosen in any way, as long as its density is known and it covers the posterior. The draws are weighted
by the mixture of the densities that they came from: with :math:`n_s` draws from each density :math:`q_s`, a point has
the weight

.. math:: w_i(\beta) = \frac{p(z_i)\, L(z_i)^\beta}{\sum_s n_s\, q_s(z_i)} \tag{S21}

at the inverse temperature :math:`\beta`.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, log_sum_exp, normalise
from paoswarm.sampling.bends import Bent, fit_bends
from paoswarm.sampling.climbs import Mode
from paoswarm.sampling.densities import (
    FIT_POINTS,
    SIZES,
    Blend,
    Density,
    Mixture,
    Warped,
    Wrapped,
    choose_warped,
    distinct_draws,
    fit,
    to_line,
)
from paoswarm.sampling.moves import tempered_density
from paoswarm.sampling.target import Target

_LARGEST = 30.0  # log efficiency; only a useless pool gives more
_FEW = (1, 2, 4, 8, 16)  # numbers of components to try for a wider fit, which is only a safeguard
_TAIL = 4.0  # degrees of freedom of the heavy-tailed share
_WIDER = 1.2  # scale of the heavy-tailed share


class DrawPool:
    """Points drawn from known densities, with their log prior and log likelihood."""

    def __init__(self, dim: int) -> None:
        self.z: Floats = np.empty((0, dim))
        self.log_prior: Floats = np.empty(0)
        self.log_likelihood: Floats = np.empty(0)
        self._log_mixed: Floats = np.empty(0)  # log sum_s n_s q_s
        self._sources: list[tuple[int, Density]] = []

    def add(self, source: Density, z: Floats, log_prior: Floats, log_likelihood: Floats) -> None:
        """Add points drawn from ``source``. Points of zero prior count as drawn but are not kept."""
        n = len(z)
        kept = np.isfinite(log_prior)
        z, log_prior, log_likelihood = z[kept], log_prior[kept], log_likelihood[kept]
        if len(self.z):
            self._log_mixed = np.logaddexp(self._log_mixed, math.log(n) + source.log_density(self.z))
        self._sources.append((n, source))
        mixed = [math.log(m) + q.log_density(z) for m, q in self._sources]
        self.z = np.concatenate([self.z, z])
        self.log_prior = np.concatenate([self.log_prior, log_prior])
        self.log_likelihood = np.concatenate([self.log_likelihood, log_likelihood])
        self._log_mixed = np.concatenate([self._log_mixed, np.logaddexp.reduce(mixed, axis=0)])

    @property
    def height(self) -> Floats:
        """Log posterior of the points up to a constant."""
        return self.log_prior + self.log_likelihood

    def log_weight(self, beta: float) -> Floats:
        """Log weights, (S21); the weights' sum estimates the integral of ``p L^beta``."""
        return tempered_density(self.log_prior, self.log_likelihood, beta) - self._log_mixed

    def front(self, size: float) -> float:
        """The largest inverse temperature up to which the effective size is at least ``size`` throughout."""
        reached = 0.0
        for beta in np.concatenate([np.geomspace(1e-12, 0.1, 111), np.linspace(0.1, 1, 31)[1:]]).tolist():
            if effective_size(self.log_weight(beta)) < size:
                break
            reached = beta
        return reached

    def milder(self, beta: float, keep: float) -> float:
        """The inverse temperature from which a step up to ``beta`` keeps the share ``keep`` of the effective size."""
        top = self.log_weight(beta)
        low, high = 0.0, beta
        for _ in range(30):
            middle = 0.5 * (low + high)
            base = self.log_weight(middle)
            with np.errstate(invalid="ignore"):
                ratio = np.where(np.isfinite(top), 2 * top - base, -np.inf)
            left = math.exp(min(float(2 * log_sum_exp(top) - log_sum_exp(ratio) - log_sum_exp(base)), _LARGEST))
            low, high = (middle, high) if left < keep else (low, middle)
        return 0.5 * (low + high)

    def efficiency(self, proposal: Density, first: int = 0, log_w: Floats | None = None) -> float:
        r"""Effective draws per draw from ``proposal``, :math:`Z / E_\pi[\gamma / q]` of (S20); no likelihood call.

        The expectation is over the pool, or over its points from ``first`` on with log weights ``log_w``.
        """
        whole = self.log_weight(1.0)
        if not np.isfinite(whole).any():
            return 0.0
        log_w = whole if log_w is None else log_w
        if not np.isfinite(log_w).any():
            return 0.0
        log_ratio = self.height[first:] - proposal.log_density(self.z[first:])
        log_efficiency = float(log_sum_exp(whole) + log_sum_exp(log_w) - log_sum_exp(log_w + log_ratio))
        return math.exp(min(log_efficiency, _LARGEST))


def make_ladder(modes: list[Mode], target: Target) -> Density:
    """Student-t components around every mode at several scales, from its own to that of the prior."""
    ratio, width = 1 + 3 / math.sqrt(target.dim), 0.6 if target.is_box else 1.0
    if not modes:  # no budget to climb with
        modes = [Mode(np.zeros(target.dim), width * np.eye(target.dim), 0.0)]
    weight, mean, factor = [], [], []
    for mode in modes:
        size = np.linalg.norm(mode.factor, ord=2)
        levels = 1 + min(6, max(0, math.ceil(math.log(width / size) / math.log(ratio))))
        for level in range(levels):
            part = math.exp(0.25 * (mode.log_mass - modes[0].log_mass))  # the Laplace estimate is rough
            weight.append(part * (0.5 if level == 0 else 0.5 / (levels - 1)))
            mean.append(mode.z)
            factor.append(ratio**level * mode.factor)
    share = np.array(weight)
    return wrapped(Mixture(share / share.sum(), np.array(mean), np.array(factor), _TAIL), target)


def _fit(pool: DrawPool, target: Target, beta: float, rng: np.random.Generator, sizes: tuple[int, ...]) -> Density:
    """Fit a normal mixture with a heavy-tailed share to the pool at ``beta``, in suitable coordinates."""
    n = min(FIT_POINTS, 400 + 300 * pool.z.shape[1])
    points, counts = distinct_draws(pool.z, normalise(pool.log_weight(beta)), n, rng)
    if target.circle is not None:
        points = target.circle.gathered(points, counts)
    warped = choose_warped(points, counts, target.walled)
    points = to_line(points, warped)
    fitted: Density
    fitted, score = _fit_mixture(points, counts, rng, sizes)
    bends = fit_bends(points, counts) if target.can_bend else None
    if bends is not None:
        straight, log_det = bends.straightened(points)
        other, other_score = _fit_mixture(straight, counts, rng, sizes)
        if other_score + counts @ log_det / counts.sum() > score:
            fitted = Bent(other, bends)
    return wrapped(Warped(fitted, warped) if warped.any() else fitted, target)


def wrapped(density: Density, target: Target) -> Density:
    """The density on circles, if the target has any."""
    return density if target.circle is None else Wrapped(density, target.circle)


def _fit_mixture(
    points: Floats, counts: Floats, rng: np.random.Generator, sizes: tuple[int, ...]
) -> tuple[Blend, float]:
    """Fit a mixture, and its mean log density in two-fold cross-validation, which chooses the number of components."""
    if len(points) < 4 * (points.shape[1] + 2):  # too few for cross-validation
        return with_heavy_tail(fit(points, counts, 1, rng)), -math.inf
    half = rng.permutation(len(points)) % 2 == 0
    best, best_score, worse = 1, -math.inf, 0
    for k in sizes:
        if k > 1 and k * (points.shape[1] + 2) > 0.5 * len(points):
            break
        score = 0.0
        for train in (half, ~half):
            mixture = fit(points[train], counts[train], k, rng)
            score += float(counts[~train] @ with_heavy_tail(mixture).log_density(points[~train])) / counts.sum()
        if score > best_score:
            best, best_score, worse = k, score, 0
        else:
            worse += 1
            if worse == 2:
                break
    return with_heavy_tail(fit(points, counts, best, rng)), best_score


def with_heavy_tail(mixture: Mixture) -> Blend:
    """A mixture with a tenth of it wider and heavy-tailed."""
    return Blend(np.array([0.9, 0.1]), (mixture, mixture.widened(_WIDER, _TAIL)))


def fit_laws(pool: DrawPool, target: Target, beta: float, front: float, rng: np.random.Generator) -> list[Density]:
    """Fit the pool at ``beta`` and at three smaller inverse temperatures.

    Each step back keeps a quarter of the effective size. The last is taken at ``front`` if that is smaller.
    """
    laws = [_fit(pool, target, beta, rng, SIZES)]
    for step in range(3):
        beta = pool.milder(beta, 0.25)
        laws.append(_fit(pool, target, min(beta, front) if step == 2 else beta, rng, _FEW))
    return laws


def blend(laws: list[Density], shares: tuple[float, ...], ladder: Density, prior: Density) -> Blend:
    """Mix the fits with two safeguards: the modes at all scales, and the prior."""
    share = np.array([*shares, 0.03, 0.01])
    return Blend(share / share.sum(), (*laws, ladder, prior))
