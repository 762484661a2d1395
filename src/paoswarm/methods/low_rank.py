r"""The law of a dense swarm with many unknowns: a width for each coordinate, and a few directions that are longer.

The full covariance has :math:`d^2 / 2` numbers. To learn them takes some :math:`d^2` evaluations, and as much work for
each generation. With many unknowns the noise of the next step has the covariance

.. math:: C = D \left(I + V (S^2 - I) V^T\right) D                                         \tag{A18}

with positive lengths on the diagonal of :math:`D` (d, d), orthonormal directions :math:`V` (d, k), and their stretches
:math:`S` (k, k). These numbers are learnt as in VkD-CMA-ES (Akimoto and Hansen 2016): the update of the full covariance
is projected onto such laws. A generation of n particles costs :math:`O(d (k + n)^2)`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.methods.dense_learning import (
    WORST_CONDITION,
    Rates,
    draws,
    followed,
    learn,
    longest,
    placed,
    rates,
    rates_of,
    variances,
    whitening,
)

MANY = 50  # unknowns; see docs/adaptive_theory.md
DIRECTIONS = 4  # 2, 8 and 16 reach worse values or the same: docs/adaptive_theory.md


class LowRankLaw(NamedTuple):
    r"""The law :math:`N(a, \sigma^2 C)` of the next position, with the covariance (A18)."""

    centre: Floats  # a, (d,)
    scale: float  # sigma
    lengths: Floats  # D, (d,); their geometric mean is 1
    directions: Floats  # V, (d, k)
    stretches: Floats  # S, (k,), at least 1
    path_scale: Floats  # (d,)
    path: Floats  # (d,)
    generation: int
    is_singular: bool  # the covariance has become too narrow for floating-point numbers

    @property
    def factor(self) -> Floats:
        """A root of the covariance of the next position, ``(d, d)``."""
        root: Floats = stretched(self, np.eye(len(self.centre)), self.stretches)
        return (self.scale * self.lengths)[:, None] * root


def has_many(d: int) -> bool:
    """Whether this is the law for ``d`` unknowns."""
    return d > MANY


def first_low_rank_law(centre: Floats, scale: float) -> LowRankLaw:
    """The law with which a search begins: a round cloud, whose radius is no larger than with `MANY` unknowns."""
    d = len(centre)
    nothing, scale = np.zeros(d), scale * math.sqrt(min(1.0, MANY / d))
    return LowRankLaw(centre, scale, np.ones(d), np.zeros((d, 0)), np.ones(0), nothing, nothing, 0, False)


def stretched(law: LowRankLaw, u: Floats, by: Floats) -> Floats:
    """Vectors ``u`` (..., d) with their parts along the directions multiplied by the numbers ``by`` (k,)."""
    longer: Floats = u + ((u @ law.directions) * (by - 1)) @ law.directions.T
    return longer


def straightened(law: LowRankLaw, steps: Floats) -> Floats:
    """Steps ``(..., d)`` in units of the scale where the law is standard normal."""
    return stretched(law, steps / law.lengths, 1 / law.stretches)


@draws.register
def _(law: LowRankLaw, normal: Floats) -> Floats:
    x: Floats = law.centre + stretched(law, normal, law.stretches) * (law.scale * law.lengths)
    return x


@longest.register
def _(law: LowRankLaw) -> float:
    """Of the coordinates and the stretched directions."""
    along = np.square(law.lengths) @ np.square(law.directions * law.stretches)
    return float(law.scale * math.sqrt(max(variances(law).max(), along.max(initial=0.0))))


@variances.register
def _(law: LowRankLaw) -> Floats:
    of_each: Floats = np.square(law.lengths) * _share(law.directions, np.square(law.stretches))
    return of_each


@whitening.register
def _(law: LowRankLaw) -> Floats:
    """Of the lengths alone: a model with squares only then fits functions of independent unknowns."""
    return 1 / (law.scale * law.lengths)


@placed.register
def _(law: LowRankLaw, u: Floats) -> Floats:
    return law.centre + law.scale * law.lengths * u


@rates_of.register
def _(law: LowRankLaw, n: int) -> Rates:
    return low_rank_rates(n, len(law.centre), DIRECTIONS)


@lru_cache(maxsize=64)
def low_rank_rates(n: int, d: int, k: int) -> Rates:
    """Constants of learning. Fewer numbers are learnt faster, and negative weights leave the covariance positive."""
    by = rates(n, d)
    faster = (d + 2) / (k + 2)
    one, many = faster * by.rank_one, faster * by.rank_many
    most = (1 - one - many) / (d * many)
    negative = np.where(by.weights < 0, by.weights, 0.0)
    weights = np.maximum(by.weights, 0.0) + negative * min(1.0, most / -negative.sum())
    return by._replace(weights=weights, rank_one=one, rank_many=many, path=math.sqrt(one), patience=1)


@learn.register
def _(law: LowRankLaw, by: Rates, ranked: Floats) -> LowRankLaw:
    steps = (ranked - law.centre) / law.scale
    mean_step = by.pulls @ steps[: len(by.pulls)]  # (A2)
    squared = np.square(straightened(law, steps)).sum(axis=1)
    straight = straightened(law, mean_step)
    path_scale, path, weights, kept, growth = followed(law, by, mean_step, straight, squared)
    rows = np.concatenate((law.directions.T, path[None] / law.lengths, steps / law.lengths))
    generation = law.generation + 1
    if not math.isfinite(np.square(rows).sum()):
        return law._replace(generation=generation, is_singular=True)
    amounts = np.concatenate((kept * (np.square(law.stretches) - 1), [by.rank_one], by.rank_many * weights))
    lengths, directions, stretches = projected(kept, rows.T, amounts, len(law.stretches) or DIRECTIONS)
    lengths = law.lengths * lengths
    size = math.exp(np.log(lengths).mean())
    condition = float((lengths.max() / lengths.min() * stretches.max()) ** 2)
    return LowRankLaw(
        law.centre + law.scale * mean_step,
        law.scale * math.exp(growth) * size,
        lengths / size,
        directions,
        stretches,
        path_scale,
        path / size,
        generation,
        condition >= WORST_CONDITION,
    )


def projected(kept: float, columns: Floats, amounts: Floats, k: int) -> tuple[Floats, Floats, Floats]:
    r"""Lengths, ``k`` directions and stretches of the law (A18) nearest to a positive matrix (A19).

    The matrix is :math:`E = \kappa I + U \mathrm{diag}(w) U^T` with the share ``kept``, ``columns`` U (d, r) and
    ``amounts`` w (r,). The variances of the coordinates are those of :math:`E`, and so are the longest directions, for
    lengths of one.
    """
    d = len(columns)
    basis, inside = np.linalg.qr(columns)
    values, vectors = np.linalg.eigh((inside * amounts) @ inside.T)
    longer = values[-k:]
    rest = kept + (values.sum() - longer.sum()) / (d - len(longer))  # mean of the other eigenvalues of E
    squares, directions = np.maximum((kept + longer) / rest, 1.0), basis @ vectors[:, -k:]
    diagonal = kept + np.square(columns) @ amounts
    return np.sqrt(diagonal / _share(directions, squares)), directions, np.sqrt(squares)


def _share(directions: Floats, squares: Floats) -> Floats:
    """The diagonal of :math:`I + V (S^2 - I) V^T`."""
    diagonal: Floats = 1 + np.square(directions) @ (squares - 1)
    return diagonal
