r"""Bends and necks: a triangular map that makes a posterior straighter, so that few normal components fit it.

A mixture of normal distributions needs very many components for a bent ridge in several pairs of parameters, and for
the neck of a hierarchy, where the scale of some parameters depends on another one. The map

.. math:: y_i = \frac{z_i - m_i(z_{<i})}{e^{s_i(z_{<i})}}, \qquad q(z) = q_y(y) \, e^{-\sum_i s_i} \tag{S24}

takes out what the *leading* parameters say about location and scale of the others. Here :math:`<i` means earlier in an
order that begins with the leading parameters, :math:`m_i` is linear in all but the leading ones, and :math:`s_i`
depends on leading ones alone. Each coordinate is monotone in itself, so the map is a bijection with a known
determinant, and a density of :math:`y` gives a density of :math:`z`, whatever :math:`m` and :math:`s` are.

A leading parameter is found by what it says about the squares of the others. Terms of :math:`m` and :math:`s` are added
one by one, as long as they raise the likelihood of the points by more than chance would.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from paoswarm.core.arrays import Array, Floats
from paoswarm.core.blas import on_one_thread
from paoswarm.sampling.densities import Density, scatter_matrix

_TERMS = 12  # of a coordinate, at most, beside the linear ones
_LEADERS = 8  # leading parameters, at most
_BEYOND = 0.25  # widths of the points by which the terms follow a parameter beyond them
_OUTLIER = 9.0  # squared deviations above this count as this: single points should not make a neck
_CHANCE = 1e-4  # of a leading parameter among normal points
_STEEP = 0.5  # largest change of a coefficient of the log scale in one step
_TURNS = 3  # least squares and scoring steps after each new term
_KNOTS = (0.05, 0.2, 0.4, 0.6, 0.8)  # quantiles of a leading parameter between which its ramps rise

Term = tuple[int, int, int]  # (j, k, p): t_j f_p(t_k); t_-1 is one, and f are 1, t, t^2, and ramps from 0 to 1


class Row(NamedTuple):
    """How one coordinate depends on earlier ones: location and log scale are sums of terms."""

    coordinate: int
    location: tuple[Term, ...]
    location_factors: Floats
    log_scale: tuple[Term, ...]
    log_scale_factors: Floats
    constants: tuple[float, float]  # of location and log scale

    def at(self, t: Floats, knots: Floats) -> tuple[Floats, Floats]:
        """Location and log scale for standard coordinates ``(n, d + 1)``."""
        location, log_scale = self.constants
        return (
            location + _columns(t, self.location, knots) @ self.location_factors,
            log_scale + _columns(t, self.log_scale, knots) @ self.log_scale_factors,
        )


class Bends(NamedTuple):
    """The map (S24); coordinates without a row stay as they are."""

    centre: Floats
    unit: Floats
    low: Floats  # limits of the standard coordinates in the terms
    high: Floats
    knots: Floats  # (d, 5), in standard coordinates
    rows: tuple[Row, ...]  # each depends on coordinates without a row, and on those of rows before it

    def straightened(self, z: Floats) -> tuple[Floats, Floats]:
        """The points ``y`` of (S24), and the logarithm of the determinant."""
        y, log_det, t = z.copy(), np.zeros(len(z)), self.standard(z)
        for row in self.rows:
            location, log_scale = row.at(t, self.knots)
            y[:, row.coordinate] = (z[:, row.coordinate] - location) * np.exp(-log_scale)
            log_det -= log_scale
        return y, log_det

    def bent(self, y: Floats) -> Floats:
        """The points ``z`` of (S24), one coordinate after the other."""
        z = y.copy()
        for row in self.rows:
            location, log_scale = row.at(self.standard(z), self.knots)
            z[:, row.coordinate] = location + np.exp(log_scale) * y[:, row.coordinate]
        return z

    def standard(self, z: Floats) -> Floats:
        """Standard coordinates ``(n, d + 1)`` for the terms; the last is one."""
        return _with_one(np.clip((z - self.centre) / self.unit, self.low, self.high))


class Bent(NamedTuple):
    """A density of the straightened points, as a density of ``z``."""

    density: Density
    bends: Bends

    def log_density(self, z: Array) -> Array:
        """Log density at the rows of ``z``, (S24)."""
        y, log_det = self.bends.straightened(np.asarray(z))
        return self.density.log_density(y) + log_det

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws."""
        return self.bends.bent(self.density.sample(n, rng, stratified))


@on_one_thread
def fit_bends(points: Floats, counts: Floats) -> Bends | None:
    """Fit the map to weighted points; None if nothing is bent."""
    share = counts / counts.sum()
    size = float(1 / (share**2).sum())
    centre = share @ points
    unit = np.sqrt(share @ (points - centre) ** 2)
    if size < 8 * points.shape[1] or not (unit > 0).all():
        return None
    t = (points - centre) / unit
    frame = Bends(centre, unit, *_reach(t), _knots(t, share), ())
    leaders: list[int] = []
    while len(leaders) < _LEADERS:
        straight = frame.straightened(points)[0]
        leader = _leader(straight, share, size, leaders)
        if leader is None:
            break
        leaders.append(leader)
        frame = frame._replace(rows=_rows(frame, points, share, size, leaders))
    return frame if frame.rows else None


def _reach(t: Floats) -> tuple[Floats, Floats]:
    """Limits of the standard coordinates in the terms."""
    beyond = _BEYOND * np.ptp(t, axis=0)
    return t.min(axis=0) - beyond, t.max(axis=0) + beyond


def _knots(t: Floats, share: Floats) -> Floats:
    """Quantiles of each coordinate."""
    order = np.argsort(t, axis=0)
    below = np.cumsum(share[order], axis=0)
    ranked = np.take_along_axis(t, order, axis=0)
    return np.stack([np.interp(_KNOTS, b, r) for b, r in zip(below.T, ranked.T, strict=True)])


def _rows(frame: Bends, points: Floats, share: Floats, size: float, leaders: list[int]) -> tuple[Row, ...]:
    """Fit all coordinates, the leading ones first."""
    order = leaders + [i for i in range(points.shape[1]) if i not in leaders]
    t = frame.standard(points)
    found = []
    for n, i in enumerate(order[1:], start=1):
        value = (points[:, i] - frame.centre[i]) / frame.unit[i]
        row = _fit_row(value, t, frame.knots, share, size, i, order[:n], leaders)
        if row is not None:
            location, log_scale = row.constants
            constants = (frame.centre[i] + frame.unit[i] * location, log_scale + math.log(frame.unit[i]))
            found.append(row._replace(location_factors=frame.unit[i] * row.location_factors, constants=constants))
    return tuple(found)


def _with_one(t: Floats) -> Floats:
    return np.concatenate([t, np.ones((len(t), 1))], axis=1)


def _columns(t: Floats, terms: Sequence[Term], knots: Floats) -> Floats:
    """The terms, a column each."""
    if not terms:
        return np.empty((len(t), 0))
    kinds = list(dict.fromkeys((k, p) for _, k, p in terms))
    shapes = np.stack([_shape(t[:, k], p, knots[k]) for k, p in kinds])
    which = [kinds.index((k, p)) for _, k, p in terms]
    return (t.T[[j for j, _, _ in terms]] * shapes[which]).T


def _shape(u: Floats, p: int, knots: Floats) -> Floats:
    if p < 3:
        return u**p
    return np.clip((u - knots[p - 3]) / (knots[p - 2] - knots[p - 3]), 0.0, 1.0)


def _leader(points: Floats, share: Floats, size: float, known: list[int]) -> int | None:
    """The coordinate on which location or scale of the rest depends most otherwise than linearly; None if none does.

    The rest is what is left of the whitened points across the coordinate. Its correlations with the square of the
    coordinate, and those of its squares with the coordinate and its square, are zero for normal points, and the sum of
    their squares has a chi-square law.
    """
    n, d = points.shape
    t = points - share @ points
    t /= np.sqrt(share @ t**2)
    factor = np.linalg.cholesky(scatter_matrix(t.T, share) + 1e-10 * np.eye(d))
    white = np.linalg.solve(factor, t.T).T
    strength = np.zeros(d)
    for j in set(range(d)) - set(known):
        along = factor[j] / np.linalg.norm(factor[j])
        rest = white @ np.linalg.svd(along[None])[2][1:].T  # an orthonormal basis of the other directions
        own = t[:, [j]]
        bowl = _without(own**2, np.concatenate([own, np.ones((n, 1))], axis=1), share)
        spread = np.minimum(rest**2, _OUTLIER)
        pairs = ((bowl, rest), (bowl, spread), (own, spread))
        strength[j] = size * sum((_correlations(f, values, share) ** 2).sum() for f, values in pairs)
    best = int(strength.argmax())
    return best if strength[best] > chdtri(3 * (d - 1), _CHANCE / d) else None


def _correlations(one: Floats, values: Floats, share: Floats) -> Floats:
    one, values = one - share @ one, values - share @ values
    return (share * one[:, 0]) @ values / np.sqrt((share @ one**2) * (share @ values**2) + 1e-300)


def _least_gain(size: float, n_terms: int) -> float:
    """Gain of log likelihood that a term must bring: the Bayesian criterion, and a price for choosing among many."""
    return 0.5 * math.log(size) + math.log(n_terms)


def _without(columns: Floats, design: Floats, weights: Floats) -> Floats:
    """The columns without their weighted regression on the design."""
    root = np.sqrt(weights)[:, None]
    factors = np.linalg.lstsq(root * design, root * columns, rcond=None)[0]
    return columns - design @ factors


def _fit_row(
    values: Floats,
    t: Floats,
    knots: Floats,
    share: Floats,
    size: float,
    i: int,
    earlier: list[int],
    leaders: list[int],
) -> Row | None:
    """Regress a coordinate on earlier ones, location and log scale; None if neither bends."""
    lead = [k for k in earlier if k in leaders]
    shapes = range(1, 2 + len(_KNOTS))
    linear = [(j, -1, 0) for j in earlier]
    bending = [(j, k, p) for j in (-1, *earlier) for k in lead for p in shapes if (j, p) != (-1, 1)]
    of_scale = [(-1, k, p) for k in lead for p in shapes]
    least = _least_gain(size, len(bending) + len(of_scale))
    one = np.ones((len(t), 1))
    flat, curved, wide = (_columns(t, terms, knots) for terms in (linear, bending, of_scale))
    location: list[int] = []
    log_scale: list[int] = []
    slopes = np.zeros(1)
    while True:
        design = np.concatenate([one, flat, curved[:, location]], axis=1)
        scales = np.concatenate([one, wide[:, log_scale]], axis=1)
        factors, slopes, rest = _regress(values, design, scales, slopes, share)
        if len(location) + len(log_scale) == _TERMS:
            break
        weights = share * np.exp(-2 * (scales @ slopes))
        spread = np.minimum(rest**2 * weights / share, _OUTLIER)
        gains = np.concatenate(
            [
                _gains(weights * rest, weights, curved, design) / 2,
                _gains(share * (spread - share @ spread), share, wide, scales) / 4,
            ]
        )
        best = int(gains.argmax())
        if size * gains[best] < least:
            break
        if best < len(bending):
            location.append(best)
        else:
            log_scale.append(best - len(bending))
            slopes = np.append(slopes, 0.0)
    if not location and not log_scale:
        return None
    return Row(
        i,
        (*linear, *(bending[m] for m in location)),
        factors[1:],
        tuple(of_scale[m] for m in log_scale),
        slopes[1:],
        (float(factors[0]), float(slopes[0])),
    )


def _gains(score: Floats, weights: Floats, columns: Floats, design: Floats) -> Floats:
    """Squared score of each column over its information, beside what the design explains of it."""
    beside = _without(columns, design, weights)
    square = weights @ beside**2
    is_new = square > 1e-6 * (weights @ columns**2)
    return np.where(is_new, (score @ beside) ** 2 / np.where(is_new, square, 1.0), 0.0)


def _regress(
    values: Floats, design: Floats, scales: Floats, slopes: Floats, share: Floats
) -> tuple[Floats, Floats, Floats]:
    """Factors of the location, slopes of the log scale, and residuals: by turns least squares and Fisher's scoring."""
    information = 2 * (scales.T * share) @ scales + 1e-10 * np.eye(scales.shape[1])
    for _ in range(_TURNS):
        root = np.sqrt(share) * np.exp(-scales @ slopes)
        factors = np.asarray(np.linalg.lstsq(root[:, None] * design, root * values, rcond=None)[0], dtype=float)
        rest = values - design @ factors
        spread = np.minimum((rest * np.exp(-scales @ slopes)) ** 2, _OUTLIER)
        step = np.linalg.solve(information, (share * (spread - 1)) @ scales)
        slopes = slopes + np.clip(step, -_STEEP, _STEEP)
    return factors, slopes, rest
