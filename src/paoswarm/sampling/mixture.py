r"""Mixtures of multivariate Student-t or normal distributions, and their fit to weighted points.

.. math:: \varphi(z) = \sum_c w_c\, t_\nu(z; a_c, L_c L_c^T), \qquad \nu = \infty: \text{ normal} \tag{S8}
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from paoswarm.core.arrays import Array, Floats, namespace
from paoswarm.core.blas import on_one_thread
from paoswarm.core.weights import log_sum_exp, systematic
from paoswarm.sampling.moments import scatter_matrix

_CHUNK = 2_000_000  # numbers per block of whitened points: 16 MB
SIZES = (1, 2, 3, 5, 8, 12, 20, 32)  # numbers of components to try


class Mixture(NamedTuple):
    """Mixture of Student-t components with common degrees of freedom (infinite: normal), (S8).

    Attributes
    ----------
    weight : array (k,)
    mean : array (k, d)
    factor : array (k, d, d)
        Lower Cholesky factors of the scale matrices.
    freedom : float
        Degrees of freedom.
    """

    weight: Floats
    mean: Floats
    factor: Floats
    freedom: float = math.inf

    def log_parts(self, z: Array) -> Array:
        """The logarithms of the terms of (S8), for every point and component, ``(m, k)``."""
        d = self.mean.shape[1]
        of_parts, xp = namespace(self.factor), namespace(z)
        diagonal = of_parts.linalg.diagonal(self.factor)
        with np.errstate(divide="ignore"):
            constant = of_parts.log(self.weight) - of_parts.log(diagonal).sum(axis=1)
        square = self.distances(z)
        nu = self.freedom
        if math.isinf(nu):
            return constant - 0.5 * d * math.log(2 * math.pi) - 0.5 * square
        log_peak = math.lgamma((nu + d) / 2) - math.lgamma(nu / 2) - 0.5 * d * math.log(nu * math.pi)
        return constant + log_peak - 0.5 * (nu + d) * xp.log1p(square / nu)

    def log_density(self, z: Array) -> Array:
        """Log density at the rows of ``z``."""
        return log_sum_exp(self.log_parts(z), axis=1)

    @on_one_thread
    def distances(self, z: Array) -> Array:
        """Squared Mahalanobis distance of every point to every component, ``(m, k)``."""
        k, d = self.mean.shape
        of_parts = namespace(self.factor)
        inverse = of_parts.linalg.inv(self.factor)
        to_white = inverse.reshape(k * d, d)
        origin = of_parts.einsum("kij,kj->ki", inverse, self.mean)[..., None]
        if type(z) is not np.ndarray:  # compiled, with batches that fit
            white = (to_white @ z.T).reshape(k, d, -1) - origin
            return (white * white).sum(axis=1).T
        out = np.empty((k, len(z)))  # points lie next to each other: there are many more of them than components
        columns = max(1, _CHUNK // (k * d))
        for start in range(0, len(z), columns):
            white = (to_white @ z[start : start + columns].T).reshape(k, d, -1)
            white -= origin
            np.einsum("kdm,kdm->km", white, white, out=out[:, start : start + columns])
        return out.T

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws ``(n, d)``; if stratified, each component gives its share to within one draw."""
        k, d = self.mean.shape
        share = self.weight / self.weight.sum()
        chosen = systematic(share, n, rng) if stratified else rng.choice(k, size=n, p=share)
        noise = rng.standard_normal((n, d))
        if not math.isinf(self.freedom):
            noise /= np.sqrt(rng.chisquare(self.freedom, n) / self.freedom)[:, None]
        return self.mean[chosen] + np.einsum("nij,nj->ni", self.factor[chosen], noise)

    def widened(self, scale: float, freedom: float) -> Mixture:
        """The same mixture with scaled factors and other degrees of freedom."""
        return self._replace(factor=scale * self.factor, freedom=freedom)


class Density(Protocol):
    """A distribution with a known, normalised density that can be drawn from."""

    def log_density(self, z: Array) -> Array:
        """Log density at the rows of ``z``, an array of NumPy or JAX."""

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws; if stratified, parts of a mixture give their shares to within one draw."""


class Blend(NamedTuple):
    """Mixture of any densities: ``q(z) = sum_j share_j q_j(z)``."""

    share: Floats
    parts: tuple[Density, ...]

    def log_density(self, z: Array) -> Array:
        """Log density at the rows of ``z``."""
        parts = namespace(z).stack([part.log_density(z) for part in self.parts], axis=1)
        return log_sum_exp(parts + np.log(self.share), axis=1)

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = True) -> Floats:
        """``n`` draws in random order; each part gives its share to within one draw."""
        counts = np.bincount(systematic(self.share, n, rng), minlength=len(self.share))
        drawn = [part.sample(m, rng, stratified) for part, m in zip(self.parts, counts.tolist(), strict=True) if m]
        return rng.permutation(np.concatenate(drawn))


def distinct_draws(points: Floats, weights: Floats, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw ``n`` of the points by weight; return the distinct ones and how often each was drawn."""
    rows, counts = np.unique(systematic(weights, n, rng), return_counts=True)
    return points[rows], counts.astype(float)


@on_one_thread
def fit(
    points: Floats,
    weights: Floats,
    k: int,
    rng: np.random.Generator,
    freedom: float = math.inf,
    *,
    iterations: int = 40,
) -> Mixture:
    """Fit a mixture of at most ``k`` components to weighted points by expectation-maximisation.

    Covariances are shrunk towards the pooled shape, scaled to the component's own volume, with the weight of ``d + 2``
    points: small clusters stay proper and narrow ones stay narrow. Components with too little weight are dropped.

    There are two starts, both by k-means++: in whitened coordinates, which account for correlation, and in standardised
    ones, which separate distant modes. The fit with the higher likelihood is returned.

    Parameters
    ----------
    points, weights : arrays (n, d), (n,)
        The weights need not sum to one.
    k : int
        Number of components at the start.
    """
    used = weights > 0
    points, share = points[used], weights[used] / weights[used].sum()
    centre = share @ points
    spread = scatter_matrix((points - centre).T, share)
    variance = np.diagonal(spread)  # each coordinate has its own floor, because scales may differ by many decades
    floor = np.diag(1e-12 * np.where(variance > 0, variance, variance.mean() or 1.0))
    if k == 1:
        return _improve(points, share, np.ones((len(points), 1)), freedom, floor, iterations)[0]
    whole = np.linalg.cholesky(spread + floor)
    white = np.linalg.solve(whole, (points - centre).T).T
    standard = (points - centre) / np.sqrt(np.diagonal(spread + floor))
    fits = [
        _improve(points, share, _partition(scaled, share, k, rng), freedom, floor, iterations)
        for scaled in (white, standard)
    ]
    return max(fits, key=lambda fitted: fitted[1])[0]


def _improve(
    points: Floats, share: Floats, member: Floats, freedom: float, floor: Floats, iterations: int
) -> tuple[Mixture, float]:
    """Alternate memberships and moments until the mean log density settles; return the mixture and that mean."""
    d = points.shape[1]
    columns = np.ascontiguousarray(points.T)
    size = float(1 / (share**2).sum())  # effective number of points
    mass = member * share[:, None]  # weight of each point in each component
    pull = mass  # for Student-t components, distant points count less for mean and scale
    last = -math.inf
    for _ in range(iterations):
        held = mass.sum(axis=0)
        keep = held * size > 0.5 * d + 1
        if not keep.any():
            keep[np.argmax(held)] = True
        if not keep.all():
            mass, pull, held = mass[:, keep], pull[:, keep], held[keep]
        mean = (pull.T @ points) / pull.sum(axis=0)[:, None]
        scatter = scatter_matrix(columns - mean[..., None], pull.T)
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


def _shrunk(scatter: Floats, held: Floats, size: float, floor: Floats) -> Floats:
    """Covariances shrunk towards the pooled one, which is scaled to each component's volume."""
    d = scatter.shape[-1]
    pooled = scatter.sum(axis=0) + floor
    own = scatter / held[:, None, None] + floor
    volume = np.linalg.slogdet(own)[1] - np.linalg.slogdet(pooled)[1]
    scale = np.exp(np.minimum(volume, 0.0) / d)[:, None, None]
    scale = np.where((held * size > 2 * d)[:, None, None], scale, 1.0)
    pull = (d + 2) / size
    return (scatter + pull * scale * pooled) / (held[:, None, None] + pull) + floor


def _partition(points: Floats, share: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Memberships ``(n, k)``, zero or one, by k-means++ and five rounds of k-means."""
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
