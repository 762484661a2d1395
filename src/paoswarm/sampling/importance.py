r"""Phase B, production: draws from the frozen proposal, their weights, the evidence and its error.

After phase A the proposal :math:`q` and the number of draws :math:`n` are constants. The mean weight

.. math:: \hat Z = \frac1n \sum_i w_i, \qquad w_i = \frac{p(z_i)\,L(z_i)}{q(z_i)} \tag{S19}

is then an unbiased estimate of the evidence, whatever the quality of the fit: a bad fit costs variance, not bias.
(`produce` may repeat a production because of its weights. The bias of that selection is far below the stated error.)

**Does the proposal cover the posterior?** The weights have the variance :math:`\int \gamma^2 / q - Z^2`, with
:math:`\gamma = p\,L`. Where the proposal falls short, :math:`\gamma^2 / q` is large, but if no draw comes there, the
weights do not show it. A climb of :math:`\gamma^2 / q` goes there: along a ridge to where the proposal ends, or from
the foot of a narrow peak to its top. It starts at the draws with the largest weights, and at draws whose weights exceed
those of their neighbours. Draws around the ends of the climbs then measure how much of the posterior is affected.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import (
    FEWEST,
    effective_size,
    log_mean,
    log_mean_weight_error,
    log_sum_exp,
    normalise,
    pareto_k,
)
from paoswarm.sampling.adapt import Frozen, keep, reach_out, refine_again
from paoswarm.sampling.climbs import Mode, climb, merge
from paoswarm.sampling.densities import Density, scatter_matrix
from paoswarm.sampling.proposals import DrawPool
from paoswarm.sampling.starts import by_turns, nearest_of, spread_out, trend
from paoswarm.sampling.target import MORE, BudgetSpent, Interrupted, Target

_HARMLESS = 10.0  # largest weight, in mean weights, up to which a large Pareto k is not a problem
_SHORT = 0.2  # share of the predicted effective draws below which the proposal is fitted again
_VARIANCE = 0.1  # share of a variance that may lie where the proposal has too few draws
_SPREAD = 10.0  # ratio of the mean squared weight to that of the draws, above which the draws do not show it
_UNEVEN = 2.0  # ratio of predicted to actual effective draws above which the error is widened
TRUSTED_K = 0.7  # Pareto k up to which the mean weight and its error can be trusted
_HEAVIEST = 2  # starts among the draws with the largest weights
_FARTHEST = 4  # starts among the draws that are farthest out, in one coordinate each
_FAR_WEIGHT = -2.0  # log weight, in mean weights, that a draw far out must have
_SURPRISING = 6  # starts among the draws whose weights exceed those of their neighbours
_EVEN = 1.0  # log of the largest weight, in mean weights, up to which no climb starts at the largest weights
_STANDS_OUT = 8.0  # median deviations by which a surprising draw exceeds its neighbours
_VISIBLE = 0.003  # log height that is added to these deviations: less is not worth a climb
_NEIGHBOURS = 3  # neighbours per dimension
_COMPARED = 8000  # draws that are compared with their neighbours, at most
_RANKED = 200_000  # draws that are looked at, about; there may be millions
_TOP = 1000  # of the heaviest draws, which are always looked at
_BULK = 1e-3  # share of the posterior that may be lower than the draws that are compared
_FIRST_SCALE = 0.3  # scale with which climbs begin, in standard deviations of the posterior
_BUDGET_SHARE = 0.1  # share of the evaluations so far that climbs may cost
_HIGHER = 1.0  # log ratio by which the end of a climb exceeds all draws, if the proposal falls short there
_PLACES = 3  # places to draw around, at most
_DOMINATES = 0.01  # share of all weight above which a single draw would show that the proposal falls short


class Production(NamedTuple):
    """Weighted posterior draws and the evidence."""

    draws: Floats
    log_weights: Floats
    log_prior: Floats
    log_likelihood: Floats
    log_evidence: float
    error: float  # standard error of log_evidence, after widening
    pareto_k: float
    effective_size: float
    halves: tuple[float, float]  # log evidence from each half of the draws
    widened: float = 1.0  # factor by which the error was widened
    cut_short: Interrupted | None = None  # the interrupt that came before the last draw
    message: str = ""  # why the error is not stated (inf); empty if it is
    missing: float = 0.0  # share of the posterior, or of a variance, that the proposal does not cover


class Missing(NamedTuple):
    """What the proposal does not cover."""

    mass: float  # share of the posterior
    variance: float  # share of the variance of a coordinate
    spread: float  # estimated contribution to the mean squared weight, in squared mean weights

    def matters(self, made: Production) -> bool:
        """Whether the evidence or a standard deviation may be off by more than its error."""
        return self.mass > made.error or self.variance > _VARIANCE

    def is_serious(self, made: Production) -> bool:
        """Whether it is worth another adaptation."""
        return self.matters(made) or self.spread > _SPREAD * len(made.draws) / made.effective_size


def produce(
    target: Target, frozen: Frozen, n_effective: int, rng: np.random.Generator, *, attempts: int = 2
) -> tuple[Production, Frozen]:
    """Draw until there are about ``n_effective`` effective draws, or the budget is spent.

    The weights may have too heavy a tail (Pareto k above 0.7), or be worth far less than predicted. The draws are then
    added to the pool, and the proposal is fitted and frozen again. An independent production replaces the first. This
    needs a budget for a production of the same size. The proposal that was used last is returned as well.

    If there are fewer than half of the predicted effective draws, part of the posterior is poorly covered, and more of
    it may not be covered at all. The error is then widened by the ratio, at most five times.
    """
    if target.n_left < 1:
        raise BudgetSpent(f"maxfev={target.maxfev} leaves no evaluation for the production; raise maxfev")
    missing = Missing(0.0, 0.0, 0.0)
    for attempt in range(attempts):
        n = min(math.ceil(n_effective / max(frozen.predicted_efficiency, 0.01)), target.n_left)
        production = _measure(target, frozen, n, rng)
        if production.cut_short is not None:
            break
        short = production.effective_size < _SHORT * min(n_effective, n * frozen.predicted_efficiency)
        is_last = attempt + 1 == attempts or target.n_left < n
        if short or _heavy_tailed(production):
            if is_last:
                break
            keep(target, frozen, production.draws, production.log_likelihood)
            frozen = refine_again(target, frozen, n_effective, rng)
            continue
        try:
            frozen, missing = _look_around(target, frozen, production, rng)
            if not missing.is_serious(production) or is_last:
                break
            frozen = refine_again(target, frozen, n_effective, rng)
        except Interrupted as interrupt:  # the production is complete
            production = production._replace(cut_short=interrupt)
            break
    problem = _problem(production)
    if problem:
        return production._replace(error=math.inf, message=problem), frozen
    uneven = len(production.draws) * frozen.predicted_efficiency / production.effective_size
    if uneven > _UNEVEN:
        widened = min(uneven, 1 / _SHORT)
        production = production._replace(error=widened * production.error, widened=widened)
    if missing.matters(production):
        error = max(production.error, missing.mass)
        production = production._replace(error=error, missing=max(missing.mass, missing.variance))
    return production, frozen


def _look_around(target: Target, frozen: Frozen, made: Production, rng: np.random.Generator) -> tuple[Frozen, Missing]:
    """Look for places that the proposal does not cover, and measure how much of the posterior lies there.

    If there are any, the production and draws around these places are added to the pool.
    """
    height = made.log_prior + made.log_likelihood
    places = find_uncovered(target, frozen.proposal, frozen.pool, made.draws, height, made.log_weights)
    if not places:
        return frozen, Missing(0.0, 0.0, 0.0)
    keep(target, frozen, made.draws, made.log_likelihood)
    frozen = reach_out(target, frozen, places, rng)
    variance = math.exp(min(max(place.log_mass for place in places) - 2 * made.log_evidence, 700.0))
    return frozen, Missing(*uncovered_share(frozen.pool, frozen.proposal, len(made.draws)), variance)


def _heavy_tailed(production: Production) -> bool:
    """Whether the weights have a heavy tail; weights that are almost equal have none, even if Pareto k is large."""
    largest = float(np.max(production.log_weights)) - production.log_evidence  # in units of the mean weight
    is_even = largest < math.log(_HARMLESS) and production.effective_size >= FEWEST
    return production.pareto_k > TRUSTED_K and not is_even


def _problem(production: Production) -> str:
    """Why the error cannot be trusted; empty if it can."""
    first, second = production.halves
    if production.effective_size < FEWEST:
        return f"Only {production.effective_size:.1f} effective draws, too few for a standard error; {MORE}"
    if _heavy_tailed(production):
        return (
            "The weights are too heavy-tailed for a standard error "
            f"(Pareto k {production.pareto_k:.2f} > {TRUSTED_K}); {MORE}, or give points near the modes (start=)"
        )
    if abs(first - second) > 4 * 2 * production.error:  # four standard errors of the difference
        return f"The two halves of the draws disagree: log evidence {first:.3f} and {second:.3f}; raise n_effective"
    return ""


def _measure(target: Target, frozen: Frozen, n: int, rng: np.random.Generator) -> Production:
    """Draw ``n`` points from the proposal, evaluate and weight them."""
    z, log_prior, log_likelihood, log_proposal, cut_short = target.draw(frozen.proposal, n, rng)
    log_w = log_prior + log_likelihood - log_proposal  # (S19)
    n = len(z)  # the time of an interrupt does not depend on the values, so the draws so far are unbiased
    if cut_short is not None and (n == 0 or effective_size(log_w) < FEWEST):
        raise cut_short
    middle = n // 2
    return Production(
        z,
        log_w,
        log_prior,
        log_likelihood,
        log_mean(log_w),  # (S19)
        log_mean_weight_error(log_w),
        pareto_k(log_w),
        effective_size(log_w),
        (log_mean(log_w[:middle]), log_mean(log_w[middle:])),
        cut_short=cut_short,
    )


def find_uncovered(
    target: Target, proposal: Density, pool: DrawPool, draws: Floats, height: Floats, log_weights: Floats
) -> list[Mode]:
    """Places where the proposal falls far short of the posterior, with the scales of ``gamma^2 / q``; often none.

    The draws, with their heights (log posterior up to a constant), are from the proposal; those of the pool are
    compared with their neighbours as well.
    """
    rows = np.flatnonzero(np.isfinite(log_weights))
    if len(rows) > _RANKED:
        top = np.argpartition(log_weights, -_TOP)[-_TOP:]
        rows = np.unique(np.concatenate([rows[:: len(rows) // _RANKED], top]))
    z, weights = draws[rows], normalise(log_weights[rows])
    log_ratio = log_weights[rows] - (log_sum_exp(log_weights) - math.log(len(draws)))
    some = slice(_RANKED)
    starts = _surprising(target, proposal, pool, draws[some], height[some], log_weights[some])
    if log_ratio.max() > _EVEN:
        heaviest = z[spread_out(z, log_ratio, _HEAVIEST)]
        starts = np.concatenate([starts, heaviest, _farthest(z[log_ratio > _FAR_WEIGHT], z, weights)])
    budget = int(min(_BUDGET_SHARE * target.n_evaluations, 0.25 * target.n_left))
    if len(starts) == 0 or budget <= len(starts):
        return []
    scatter = scatter_matrix((z - weights @ z).T, weights)
    scale = _FIRST_SCALE * np.linalg.cholesky(scatter + 1e-12 * np.trace(scatter) * np.eye(target.dim))

    def shortfall(z: Floats) -> Floats:
        z = target.inside(z)
        return 2 * target.height(z) - proposal.log_density(z)

    found = climb(target, starts, budget, scale, shortfall).ends
    largest = float(np.max(log_weights))

    def excess(mode: Mode) -> float:
        return 0.5 * (mode.height - float(proposal.log_density(mode.z[None])[0])) - largest

    short = merge([mode for mode in found if excess(mode) > _HIGHER], target.circle, keep_negligible=True)
    return sorted(short, key=lambda mode: -mode.height)[:_PLACES]


def uncovered_share(pool: DrawPool, proposal: Density, n: int) -> tuple[float, float]:
    """Shares of the posterior, and of the variance of a coordinate, where ``n`` draws of the proposal are too few.

    There, a single draw would hold 1 % of all weight. The shares are judged by the pool.
    """
    log_w = pool.log_weight(1.0)
    log_ratio = pool.height - proposal.log_density(pool.z) - log_sum_exp(log_w)
    dominates = log_ratio > math.log(_DOMINATES * n)
    weights = normalise(log_w)
    square = (pool.z - weights @ pool.z) ** 2
    of_variance = (weights * dominates) @ square / np.maximum(weights @ square, 1e-300)
    return float(weights[dominates].sum()), float(of_variance.max())


def _farthest(some: Floats, z: Floats, weights: Floats) -> Floats:
    """Of ``some`` draws, those farthest from the mean of all draws ``z`` in one coordinate, in standard deviations."""
    mean = weights @ z
    away = (some - mean) / np.sqrt(np.maximum(weights @ (z - mean) ** 2, 1e-300))
    both = np.concatenate([away, -away], axis=1)
    sides = np.argsort(-both.max(axis=0))[:_FARTHEST]
    return some[np.unique(both.argmax(axis=0)[sides])]


def _surprising(
    target: Target, proposal: Density, pool: DrawPool, draws: Floats, height: Floats, log_weights: Floats
) -> Floats:
    """Draws ``(m, d)`` in the bulk of the posterior whose density exceeds the prediction from their neighbours."""
    order = np.argsort(height)
    below = np.cumsum(normalise(log_weights)[order])
    lowest = height[order][np.searchsorted(below, _BULK)]
    z = np.concatenate([draws, pool.z])
    height = np.concatenate([height, pool.height])
    kept = np.flatnonzero(height >= lowest)[:_COMPARED]
    z, height = z[kept], height[kept]
    if len(z) < 20 * target.dim:
        return z[:0]
    log_ratio = height - proposal.log_density(z)
    scaled = z / np.maximum(z.std(axis=0), 1e-300)
    nearest = nearest_of(scaled, scaled, _NEIGHBOURS * target.dim + 1)  # and the draw itself
    each = [_standing_out(value, nearest) for value in (height - trend(z, height), log_ratio)]
    return z[list(dict.fromkeys(by_turns(*each)))[:_SURPRISING]]


def _standing_out(value: Floats, nearest: NDArray[np.intp]) -> list[int]:
    """Indices of values far above those of their neighbours, the most striking first."""
    surprise = value - np.median(value[nearest], axis=1)
    usual = np.median(np.abs(surprise[nearest]), axis=1) + _VISIBLE
    score = surprise / usual
    best = np.argsort(-score)[:_SURPRISING]
    return [int(i) for i in best if score[i] > _STANDS_OUT]
