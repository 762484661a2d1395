r"""The likelihood of data for the outputs of a model, without what is not asked for.

Unknown standard deviations, scales and offsets are integrated out. With the prior :math:`1 / \sigma` and flat priors of
the factors, an output with :math:`n` data and normal noise, whose best factors leave the sum of squares :math:`S`, has
the likelihood

.. math:: L = \tfrac12 \Gamma\left(\tfrac{\nu}{2}\right) (\pi S)^{-\nu/2} \, |D' D|^{-1/2}, \qquad \nu = n - j
          \tag{F11}

with the slopes :math:`D` of the outputs with respect to the :math:`j` factors. For known noise it is the maximum over
the factors times :math:`|D' D / 2 \pi|^{-1/2}`, with slopes in standard deviations. For other laws than the normal and
log-normal both are approximations, by a normal law around the best factors.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.likelihoods import Likelihood, Normal
from paoswarm.least_squares.loss import Group, Loss

_PART = 2**20  # numbers that are looked at together, so that temporary arrays stay small


def log_marginal_likelihoods(loss: Loss, outputs: Floats) -> Floats:
    """The log likelihoods (F11) of vectors of outputs ``(k, m)``; NaN where the law or the factors have none."""
    rows = max(1, _PART // max(1, outputs.shape[1]))
    parts = [_log_marginal_likelihoods(loss, outputs[i : i + rows]) for i in range(0, len(outputs), rows)]
    return np.concatenate([np.empty(0), *parts])


def _log_marginal_likelihoods(loss: Loss, outputs: Floats) -> Floats:
    total = np.zeros(len(outputs))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for group in loss.groups:
            data = loss.own(group, loss.data)
            mu = np.ascontiguousarray(loss.own(group, outputs.T).T)  # sums of a row are then those of the row alone
            n_factors = group.has_scale + group.has_offset
            if n_factors:
                best, columns = _best_factors(loss, group, mu)
                mu = best[:, 0] * mu + best[:, 1]
                total -= 0.5 * np.linalg.slogdet(columns.transpose(0, 2, 1) @ columns / (2 * math.pi))[1]
            total += group.law.log_densities(mu, data).sum(axis=-1)
            if group.law.estimates_sigma:
                n, nu = len(data), len(data) - n_factors
                # What the integral over sigma has besides the highest likelihood; none with too few data.
                total += gammaln(nu / 2) - math.log(2) + nu / 2 * math.log(2 / n) + n / 2 if nu > 0 else math.nan
    return np.where(np.isfinite(total), total, np.nan)


def _best_factors(loss: Loss, group: Group, mu: Floats) -> tuple[Floats, Floats]:
    """Scale and offset ``(k, 2, 1)`` that fit best, and slopes ``(k, j, n_factors)`` of residuals; NaN if none do."""
    data, law = loss.own(group, loss.data), group.law
    if not isinstance(law, Normal) or law.relative:
        k, n_factors = len(mu), group.has_scale + group.has_offset
        found = [loss.factors(group, row) if np.isfinite(row).all() else None for row in mu]
        n_residuals = len(law.scored(data, data).residuals) * len(data)
        blank = (math.nan, math.nan), np.full((n_residuals, n_factors), math.nan)
        best, columns = zip(*(one or blank for one in found), strict=True) if k else ((), ())
        return np.reshape(best, (k, 2, 1)), np.reshape(columns, (k, -1, n_factors))
    weights = np.broadcast_to(1.0 if law.sigma is None else 1 / np.square(law.sigma), data.shape)

    def mean(rows: Floats) -> Floats:
        return np.asarray((rows * weights).sum(axis=1) / weights.sum())

    x, y = mu, np.broadcast_to(data, mu.shape)
    if group.has_offset:
        x, y = (one - mean(one)[:, None] for one in (x, y))
    a = mean(x * y) / mean(x * x) if group.has_scale else np.ones(len(mu))
    b = mean(data - a[:, None] * mu) if group.has_offset else np.zeros(len(mu))
    sigma = law.scored(a[:, None] * mu + b[:, None], data).sigma
    design = np.stack([mu] * group.has_scale + [np.ones_like(mu)] * group.has_offset, axis=2)
    return np.stack([a, b], axis=1)[:, :, None], design / sigma[:, :, None]


def draw_nuisances(loss: Loss, outputs: Floats, rng: np.random.Generator) -> tuple[Floats, list[Likelihood]]:
    r"""Draw what (F11) integrates out, for vectors of outputs ``(k, m)``.

    Predictions ``(k, m)`` with scales and offsets, and the law of each group with known standard deviations. For normal
    noise :math:`S / \sigma^2` has the law :math:`\chi^2_\nu`, and the factors are normal around the best ones with the
    covariance :math:`\sigma^2 (D' D)^{-1}`.
    """
    predicted, laws = outputs[:, : len(loss.data)].copy(), []
    for group in loss.groups:
        data, law = loss.own(group, loss.data), group.law
        mu = np.ascontiguousarray(loss.own(group, outputs.T).T)
        n_factors = group.has_scale + group.has_offset
        best, slopes = np.array([[1.0], [0.0]])[None], None
        if n_factors:
            best, slopes = _best_factors(loss, group, mu)
        spread = np.ones(len(mu))  # of the standard deviation, in units of its estimate
        if law.estimates_sigma:
            estimate = law.scored(best[:, 0] * mu + best[:, 1], data).sigma[:, :1]
            spread = np.sqrt(len(data) / rng.chisquare(len(data) - n_factors, len(mu)))
            law = law.with_sigma(estimate * spread[:, None])
        if slopes is not None:
            free = [0] * group.has_scale + [1] * group.has_offset
            roots = np.linalg.cholesky(np.linalg.inv(slopes.transpose(0, 2, 1) @ slopes))
            apart = (roots @ rng.standard_normal((len(mu), n_factors, 1)))[:, :, 0]
            best[:, free, 0] += spread[:, None] * apart
            predicted[:, group.rows] = best[:, 0] * predicted[:, group.rows] + best[:, 1]
        laws.append(law)
    return predicted, laws
