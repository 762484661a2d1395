r"""Mixtures of multivariate Student-t or normal laws, and their weighted fit.

.. math:: q(z) = \sum_c w_c\, t_\nu(z; a_c, L_c L_c^T), \qquad \nu = \infty: \text{ normal}
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import log_sum_exp, systematic

_CHUNK = 2_000_000  # numbers per block of whitened points: 16 MB
SIZES = (1, 2, 3, 5, 8, 12, 20, 32)  # numbers of components that are tried


class Mixture(NamedTuple):
    """Mixture of Student-t components with a common number of degrees of freedom (inf: normal).

    ``weight (k,)``, ``mean (k, d)``, ``factor (k, d, d)`` lower Cholesky factors of the scale matrices, ``freedom``.
    """

    weight: Floats
    mean: Floats
    factor: Floats
    freedom: float = math.inf

    def log_parts(self, z: Floats) -> Floats:
        """``log(w_c p_c(z))`` of every point and component, ``(m, k)``."""
        d = self.mean.shape[1]
        diagonal = np.diagonal(self.factor, axis1=1, axis2=2)
        with np.errstate(divide="ignore"):
            constant = np.log(self.weight) - np.log(diagonal).sum(axis=1)
        square = self.distances(z)
        nu = self.freedom
        if math.isinf(nu):
            return constant - 0.5 * d * math.log(2 * math.pi) - 0.5 * square
        height = math.lgamma((nu + d) / 2) - math.lgamma(nu / 2) - 0.5 * d * math.log(nu * math.pi)
        return constant + height - 0.5 * (nu + d) * np.log1p(square / nu)

    def log_density(self, z: Floats) -> Floats:
        """Log density at the rows of ``z``."""
        density: Floats = log_sum_exp(self.log_parts(z), axis=1)
        return density

    def distances(self, z: Floats) -> Floats:
        """Squared Mahalanobis distance of every point to every component, ``(m, k)``."""
        k, d = self.mean.shape
        inverse = np.linalg.inv(self.factor)
        to_white = inverse.reshape(k * d, d).T
        origin = np.einsum("kij,kj->ki", inverse, self.mean)
        out = np.empty((len(z), k))
        rows = max(1, _CHUNK // (k * d))
        for start in range(0, len(z), rows):
            white = (z[start : start + rows] @ to_white).reshape(-1, k, d) - origin
            np.einsum("mkd,mkd->mk", white, white, out=out[start : start + rows])
        return out

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws ``(n, d)``; stratified ones take from each component its share, to within one draw."""
        k, d = self.mean.shape
        share = self.weight / self.weight.sum()
        chosen = systematic(share, n, rng) if stratified else rng.choice(k, size=n, p=share)
        noise = rng.standard_normal((n, d))
        if not math.isinf(self.freedom):
            noise /= np.sqrt(rng.chisquare(self.freedom, n) / self.freedom)[:, None]
        return self.mean[chosen] + np.einsum("nij,nj->ni", self.factor[chosen], noise)

    def widened(self, scale: float, freedom: float) -> Mixture:
        """The same mixture with every factor scaled and another tail."""
        return self._replace(factor=scale * self.factor, freedom=freedom)


class Density(Protocol):
    """Anything that can be drawn from and whose normalised density is known."""

    def log_density(self, z: Floats) -> Floats:
        """Log density at the rows of ``z``."""

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws."""


class Blend(NamedTuple):
    """Densities in fixed shares: ``q(z) = sum_j share_j q_j(z)``."""

    share: Floats
    parts: tuple[Density, ...]

    def log_density(self, z: Floats) -> Floats:
        """Log density at the rows of ``z``."""
        parts = np.stack([part.log_density(z) for part in self.parts], axis=1)
        density: Floats = log_sum_exp(parts + np.log(self.share), axis=1)
        return density

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = True) -> Floats:
        """``n`` draws, each part giving its share to within one draw; in random order."""
        counts = np.bincount(systematic(self.share, n, rng), minlength=len(self.share))
        drawn = [part.sample(m, rng, stratified) for part, m in zip(self.parts, counts.tolist(), strict=True) if m]
        return rng.permutation(np.concatenate(drawn))


def fit(
    points: Floats,
    weights: Floats,
    k: int,
    rng: np.random.Generator,
    freedom: float = math.inf,
    *,
    iterations: int = 40,
) -> Mixture:
    """Mixture of at most ``k`` components for weighted points, by expectation and maximisation.

    Each covariance is drawn, with the force of ``d + 2`` points, to the pooled shape at the component's own volume, so
    that small clusters stay proper and narrow ones stay narrow. Components that hold too little are dropped. It begins
    twice, with k-means++ in whitened coordinates (which see correlation) and in standardised ones (which see that
    modes are far apart), and keeps the likelier end.

    Parameters
    ----------
    points, weights : arrays (n, d), (n,)
        Weights need not sum to one.
    k : int
        Components to begin with.
    """
    used = weights > 0
    points, share = points[used], weights[used] / weights[used].sum()
    centre = share @ points
    spread = _covariance(points - centre, share)
    variance = np.diagonal(spread)  # each coordinate has a floor of its own: scales may differ by many decades
    floor = np.diag(1e-12 * np.where(variance > 0, variance, variance.mean() or 1.0))
    if k == 1:
        return _improve(points, share, np.ones((len(points), 1)), freedom, floor, iterations)[0]
    whole = np.linalg.cholesky(spread + floor)
    white = np.linalg.solve(whole, (points - centre).T).T
    standard = (points - centre) / np.sqrt(np.diagonal(spread + floor))
    ends = [
        _improve(points, share, _partition(scaled, share, k, rng), freedom, floor, iterations)
        for scaled in (white, standard)
    ]
    return max(ends, key=lambda end: end[1])[0]


def _improve(
    points: Floats, share: Floats, member: Floats, freedom: float, floor: Floats, iterations: int
) -> tuple[Mixture, float]:
    """Alternate memberships and moments until the mean log density settles; both are returned."""
    d = points.shape[1]
    size = float(1 / (share**2).sum())  # what the points are worth
    mass = member * share[:, None]  # of each point in each component
    pull = mass  # in a Student-t law far points count less for the place and the scale
    last = -math.inf
    for _ in range(iterations):
        held = mass.sum(axis=0)
        keep = held * size > 0.5 * d + 1
        if not keep.any():
            keep[np.argmax(held)] = True
        mass, pull, held = mass[:, keep], pull[:, keep], held[keep]
        mean = (pull.T @ points) / pull.sum(axis=0)[:, None]
        scatter = np.stack([_covariance(points - a, p) for a, p in zip(mean, pull.T, strict=True)])
        factor = np.linalg.cholesky(_shrunk(scatter, held, size, floor)).astype(np.float64, copy=False)
        mixture = Mixture(held / held.sum(), mean, factor, freedom)
        parts = mixture.log_parts(points)
        log_density = log_sum_exp(parts, axis=1)
        mass = np.exp(parts - log_density[:, None]) * share[:, None]
        pull = mass if math.isinf(freedom) else mass * (freedom + d) / (freedom + mixture.distances(points))
        now = float(share @ log_density)
        if now - last < 1e-3:
            break
        last = now
    return mixture, now


def _covariance(offset: Floats, weight: Floats) -> Floats:
    return (offset * weight[:, None]).T @ offset


def _shrunk(scatter: Floats, held: Floats, size: float, floor: Floats) -> Floats:
    """Covariances drawn to the pooled one, scaled to each component's own volume."""
    d = scatter.shape[-1]
    pooled = scatter.sum(axis=0) + floor
    own = scatter / held[:, None, None] + floor
    volume = np.linalg.slogdet(own)[1] - np.linalg.slogdet(pooled)[1]
    scale = np.exp(np.minimum(volume, 0.0) / d)[:, None, None]
    scale = np.where((held * size > 2 * d)[:, None, None], scale, 1.0)
    force = (d + 2) / size
    return (scatter + force * scale * pooled) / (held[:, None, None] + force) + floor


def _partition(points: Floats, share: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Memberships ``(n, k)`` of 0 and 1: k-means++ and five rounds of k-means."""
    centres = points[[rng.choice(len(points), p=share)]]
    nearest = ((points - centres[0]) ** 2).sum(axis=1)
    for _ in range(k - 1):
        chance = share * nearest
        total = chance.sum()
        if total <= 0:
            break
        centres = np.concatenate([centres, points[[rng.choice(len(points), p=chance / total)]]])
        nearest = np.minimum(nearest, ((points - centres[-1]) ** 2).sum(axis=1))
    for _ in range(5):
        label = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        member = np.eye(len(centres))[label]
        held = share @ member
        moved = (member * share[:, None]).T @ points / np.maximum(held, 1e-300)[:, None]
        centres = np.where(held[:, None] > 0, moved, centres)
    return member
