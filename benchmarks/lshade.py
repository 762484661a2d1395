"""L-SHADE of Tanabe and Fukunaga (2014, CEC), written from the paper with its constants.

Differential evolution (current-to-pbest/1 with an archive) that learns its two parameters from success, and whose
population shrinks linearly while the budget is spent. It has to know the budget. A coordinate that would leave the
bounds is put halfway between the parent and the bound, as in the paper.
"""

from __future__ import annotations

import numpy as np

FIRST, LAST = 18, 4  # population: 18 for each unknown at first, 4 at last
ARCHIVE = 2.6  # times the population
P_BEST = 0.11  # share of the population among which the leader is drawn
MEMORY = 6  # pairs of remembered means
SPREAD = 0.1


def minimise(f, bounds, budget, rng):
    """Minimise ``f`` ``(m, d) -> (m,)``, until the budget is spent."""
    low, high = np.asarray(bounds, float).T
    d = len(low)
    first = n = FIRST * d
    x = rng.uniform(low, high, (n, d))
    values = f(x)
    spent = n
    archive = np.empty((0, d))
    means = np.full((2, MEMORY), 0.5)  # of the scale F and of the crossover rate CR; NaN: CR is zero from now on
    oldest = 0
    while spent < budget:
        scale, crossover = _parameters(means[:, rng.integers(MEMORY, size=n)], rng)
        trial = _trials(x, values, archive, scale, crossover, low, high, rng)
        tried = f(trial)
        spent += n
        gain = values - tried
        won = gain > 0
        if won.any():
            archive = _shortened(np.concatenate([archive, x[won]]), int(ARCHIVE * n), rng)
            means[:, oldest] = _learnt(scale[won], crossover[won], gain[won], means[1, oldest])
            oldest = (oldest + 1) % MEMORY
        kept = gain >= 0
        x[kept], values[kept] = trial[kept], tried[kept]
        n = max(LAST, round(first + (LAST - first) * spent / budget))
        if n < len(x):
            best = np.argsort(values, kind="stable")[:n]
            x, values = x[best], values[best]
            archive = _shortened(archive, int(ARCHIVE * n), rng)


def _parameters(means, rng):
    """Scales from Cauchy's law, drawn again while not positive and at most 1; crossover rates from normal laws."""
    n = means.shape[1]
    scale = np.zeros(n)
    while (missing := scale <= 0).any():
        scale[missing] = means[0, missing] + SPREAD * rng.standard_cauchy(missing.sum())
    crossover = np.clip(rng.normal(np.nan_to_num(means[1]), SPREAD), 0, 1)
    return np.minimum(scale, 1), np.where(np.isnan(means[1]), 0, crossover)


def _trials(x, values, archive, scale, crossover, low, high, rng):
    """Mutants around a good particle, crossed with their parents."""
    n, d = x.shape
    own = np.arange(n)
    leaders = np.argsort(values, kind="stable")[: max(2, round(P_BEST * n))]
    leader = leaders[rng.integers(len(leaders), size=n)]
    one = (own + rng.integers(1, n, n)) % n  # not the parent
    everything = np.concatenate([x, archive])
    two = rng.integers(len(everything), size=n)
    while (same := (two == own) | (two == one)).any():
        two[same] = rng.integers(len(everything), size=same.sum())
    mutant = x + scale[:, None] * (x[leader] - x + x[one] - everything[two])
    mutant = np.where(mutant < low, (low + x) / 2, np.where(mutant > high, (high + x) / 2, mutant))
    crossed = rng.random((n, d)) < crossover[:, None]
    crossed[own, rng.integers(d, size=n)] = True
    return np.where(crossed, mutant, x)


def _learnt(scale, crossover, gain, before):
    """Weighted Lehmer means of what has succeeded."""
    weights = gain / gain.sum()
    mean_scale = (weights @ scale**2) / (weights @ scale)
    if np.isnan(before) or crossover.max() == 0:
        return mean_scale, np.nan
    return mean_scale, (weights @ crossover**2) / (weights @ crossover)


def _shortened(archive, most, rng):
    """The archive without chance members beyond its size."""
    return archive if len(archive) <= most else archive[rng.permutation(len(archive))[:most]]
