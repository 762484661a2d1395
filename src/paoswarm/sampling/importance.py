r"""Phase B: draws from the frozen proposal, their weights, the evidence and its error.

Given phase A the proposal :math:`q` and the number of draws are constants, so with :math:`w = \pi L / q`

.. math:: E[\hat Z] = E\Big[\frac1n \sum_i w_i\Big] = Z

whatever the quality of the fit; a bad fit costs variance, not bias. (A production that is set aside because of its
weights, and one that is kept in spite of them, are selected: the bias of that is far below the stated error.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import FEWEST, effective_size, log_mean, log_mean_weight_error, pareto_k
from paoswarm.sampling.adapt import Frozen, improve
from paoswarm.sampling.target import MORE, BudgetSpent, Interrupted, Target

_HARMLESS = 10.0  # mean weights that the largest may have
_SHORT = 0.2  # of the effective draws that were predicted
_UNEVEN = 2.0  # times fewer effective draws than were predicted, and something is badly covered
_TRUSTED = 0.7  # Pareto k up to which a mean weight and its error mean something


class Production(NamedTuple):
    """Weighted posterior draws and the evidence."""

    draws: Floats
    log_weights: Floats
    log_likelihood: Floats
    log_evidence: float
    error: float  # standard error of log_evidence, widened
    pareto_k: float
    effective_size: float
    halves: tuple[float, float]  # log evidence from each half of the draws
    widened: float = 1.0  # by which the error is larger than the weights alone would have it
    cut_short: Interrupted | None = None  # where an interrupt came before the last draw
    message: str = ""  # why the error is withheld (inf), where it is


def produce(
    target: Target, frozen: Frozen, n_effective: int, rng: np.random.Generator, *, attempts: int = 2
) -> tuple[Production, Frozen]:
    """Draw until about ``n_effective`` effective draws are there, or the budget is spent.

    Where the weights turn out to have a tail that no error can be read from (Pareto k above 0.7), or to be worth far
    less than predicted, the draws go to the pool, the proposal is fitted and frozen anew, and an independent production
    takes the place of the first, as long as the budget allows one of the same size. The proposal that was used last is
    returned as well.

    Weights that are less even than the pool has predicted, by more than a factor of two, show that some of the
    posterior is badly covered; then there may be more that no draw has met, and the error is widened by that factor,
    five times at most.
    """
    if target.n_left < 1:
        raise BudgetSpent(f"maxfev={target.maxfev} leaves no evaluation for production; allow more")
    for attempt in range(attempts):
        n = min(math.ceil(n_effective / max(frozen.predicted_efficiency, 0.01)), target.n_left)
        production = _measure(target, frozen, n, rng)
        if production.cut_short is not None:
            break
        short = production.effective_size < _SHORT * min(n_effective, n * frozen.predicted_efficiency)
        if not (short or _heavy_tailed(production)) or attempt + 1 == attempts or target.n_left < n:
            break
        frozen = improve(target, frozen, production.draws, production.log_likelihood, n_effective, rng)
    doubt = _doubt(production)
    if doubt:
        return production._replace(error=math.inf, message=doubt), frozen
    uneven = len(production.draws) * frozen.predicted_efficiency / production.effective_size
    if uneven > _UNEVEN:
        widened = min(uneven, 1 / _SHORT)
        production = production._replace(error=widened * production.error, widened=widened)
    return production, frozen


def _heavy_tailed(production: Production) -> bool:
    """Whether the tail of the weights is heavy; weights that are almost all alike have no tail, whatever k says."""
    largest = float(np.max(production.log_weights)) - production.log_evidence  # in units of the mean weight
    alike = largest < math.log(_HARMLESS) and production.effective_size >= FEWEST
    return production.pareto_k > _TRUSTED and not alike


def _doubt(production: Production) -> str:
    """Why the error cannot be trusted; empty where it can."""
    first, second = production.halves
    if production.effective_size < FEWEST:
        return f"{production.effective_size:.1f} effective draws are too few to state an error; {MORE}"
    if _heavy_tailed(production):
        return (
            f"the weights have too heavy a tail to state an error (Pareto k {production.pareto_k:.2f} > {_TRUSTED}): "
            f"{MORE}, or give points near the modes as start="
        )
    if abs(first - second) > 4 * 2 * production.error:  # each half has sqrt(2) of the error, their difference twice
        return f"the halves of the production disagree: log evidence {first:.3f} and {second:.3f}; raise n_effective"
    return ""


def _measure(target: Target, frozen: Frozen, n: int, rng: np.random.Generator) -> Production:
    z = frozen.proposal.sample(n, rng)
    cut_short = None
    try:
        log_likelihood = target.log_likelihood(z)
    except Interrupted as interrupt:  # its time has nothing to do with the values: what is there is unbiased
        n, log_likelihood, cut_short = len(interrupt.values), interrupt.values, interrupt
        z = z[:n]
    log_w = target.log_prior(z) + log_likelihood - frozen.proposal.log_density(z)
    if cut_short is not None and (n == 0 or effective_size(log_w) < FEWEST):
        raise cut_short
    middle = n // 2
    return Production(
        z,
        log_w,
        log_likelihood,
        log_mean(log_w),
        log_mean_weight_error(log_w),
        pareto_k(log_w),
        effective_size(log_w),
        (log_mean(log_w[:middle]), log_mean(log_w[middle:])),
        cut_short=cut_short,
    )
