"""Where to climb from: the most promising of many draws, and points that a proposal covers badly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.blas import on_one_thread
from paoswarm.core.weights import normalise
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.mixture import Density
from paoswarm.sampling.modes import Mode, is_near
from paoswarm.sampling.target import Target

_SPACING = 0.5  # least distance between starts, in typical distances between draws
_SORTED = 2000  # best draws among which starts are chosen
_TREND_DRAWS = 4  # draws per coefficient of the trend, below which there is no trend
_TREND_FITTED = 10_000  # draws to which the trend is fitted, at most
_TREND_ROUNDS = 6  # rounds of reweighting in the fit of the trend
_CAUCHY = 1.5  # median deviations from the trend at which a draw has half the weight
_HEAVY = 0.1  # share of E[posterior / proposal] from which on a point is badly covered
_EXPLAINED = 3.0  # standard deviations of a higher mode within which it is not climbed from


class Draws(NamedTuple):
    """Points in the sampler's coordinates, and their log posterior up to a constant."""

    z: Floats  # (n, d)
    height: Floats  # (n,); -inf where the likelihood is zero or failed


def choose_starts(draws: Draws, n: int) -> NDArray[np.intp]:
    """Indices of the ``n`` most promising draws: by turns the highest, and those that most exceed a global trend.

    The trend is a quadratic in ``z``, fitted robustly. A narrow mode in the tails of a wide one is low, but higher than
    the wide one explains. Draws that are close to a chosen one are passed over.
    """
    finite = np.flatnonzero(np.isfinite(draws.height))
    if len(finite) == 0:
        return finite
    z, height = draws.z[finite], draws.height[finite]
    highest = spread_out(z, height, (n + 1) // 2)
    n_coefficients = (z.shape[1] + 1) * (z.shape[1] + 2) // 2
    if len(finite) <= _TREND_DRAWS * n_coefficients:
        return finite[highest]
    both = spread_out(z, height - trend(z, height), n // 2, highest)
    surprising = both[len(highest) :]
    turns = [i for pair in zip_longest(highest, surprising) for i in pair if i is not None]
    return finite[turns]


def spread_out(points: Floats, score: Floats, n: int, chosen: Sequence[int] = ()) -> list[int]:
    """The indices ``chosen``, then up to ``n`` more in falling order of score, none close to another."""
    sd = points.std(axis=0)
    scaled = points / np.where(sd > 0, sd, 1.0)
    spacing = _SPACING * math.sqrt(scaled.shape[1]) * len(points) ** (-1 / scaled.shape[1])
    found = list(chosen)
    for i in np.argsort(-score, kind="stable")[:_SORTED].tolist():
        if n == 0:
            break
        if (((scaled[found] - scaled[i]) ** 2).sum(axis=1) > spacing**2).all():
            found.append(i)
            n -= 1
    return found


@on_one_thread
def trend(z: Floats, height: Floats) -> Floats:
    """Quadratic regression of height on place. Cauchy weights keep single modes from bending it."""
    terms, seen = _quadratic_terms(z[:_TREND_FITTED]), height[:_TREND_FITTED]
    least = 1e-12 * np.ptp(seen) + 1e-100  # an exact quadratic leaves no deviation to divide by
    trend = np.full(len(seen), np.median(seen))
    for _ in range(_TREND_ROUNDS):
        away = seen - trend
        root = 1 / np.sqrt(1 + (away / (_CAUCHY * np.median(np.abs(away)) + least)) ** 2)
        coefficients = np.linalg.lstsq(terms * root[:, None], seen * root, rcond=None)[0]
        trend = terms @ coefficients
    rest = range(_TREND_FITTED, len(z), _TREND_FITTED)
    return np.concatenate([trend, *(_quadratic_terms(z[i : i + _TREND_FITTED]) @ coefficients for i in rest)])


def _quadratic_terms(z: Floats) -> Floats:
    """Terms of a quadratic, a row for every point."""
    rows, columns = np.triu_indices(z.shape[1])
    return np.concatenate([np.ones((len(z), 1)), z, z[:, rows] * z[:, columns]], axis=1)


def badly_covered(target: Target, pool: Pool, proposal: Density, modes: list[Mode]) -> Floats:
    r"""Points ``(m, d)`` that dominate :math:`E_\pi[\gamma/q]` and have no higher mode nearby; often none."""
    height = pool.log_prior + pool.log_likelihood
    score = pool.log_weight(1.0) + height - proposal.log_density(pool.z)
    if not np.isfinite(score).any():
        return pool.z[:0]
    share = normalise(score)
    heavy = [i for i in np.argsort(-share)[: int(1 / _HEAVY)].tolist() if share[i] > _HEAVY]

    def is_explained(i: int) -> bool:
        higher = [mode for mode in modes if mode.height > height[i]]
        return is_near(pool.z[i], higher, target.circle, _EXPLAINED)

    return pool.z[[i for i in heavy if not is_explained(i)]]
