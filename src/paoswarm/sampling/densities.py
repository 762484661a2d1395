r"""Densities to draw from: mixtures of Student-t or normal distributions, on the line, in a box, on a circle.

.. math:: \varphi(z) = \sum_c w_c\, t_\nu(z; a_c, L_c L_c^T), \qquad \nu = \infty: \text{ normal} \tag{S8}

**Periodic coordinates.** A density :math:`\varphi` on the line becomes a density on the circle by summing its images,

.. math:: \sum_s \varphi(z + s), \tag{S12}

over the present turn and its two neighbours. A draw on any other turn counts as a draw outside the circle. The sum is
then exactly the density of the draws on the circle, and it integrates to the probability of the three turns.

**Bounds.** A normal distribution fits badly to mass that ends at a bound. The map
:math:`y = \Phi^{-1}\big(\tfrac{1 + z}{2}\big)` takes the interval :math:`[-1, 1]` to the whole line and a uniform
distribution to a normal one. A density :math:`q_y` on the line becomes a density of :math:`z` by
:math:`dz = 2 \phi(y)\,dy`:

.. math:: q(z) = \frac{q_y(y)}{2 \phi(y)}. \tag{S13}

`choose_warped` decides from the points, without a likelihood call, which coordinates to map.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from paoswarm.core.arrays import Array, Floats, namespace, special, with_columns
from paoswarm.core.blas import on_one_thread
from paoswarm.core.weights import log_sum_exp, systematic

_CHUNK = 2_000_000  # numbers per block of whitened points: 16 MB
FIT_POINTS = 2000  # at most; more hardly change a fit
SIZES = (1, 2, 3, 5, 8, 12, 20, 32)  # numbers of components to try
_GAIN = 0.1  # mean log density by which a normal distribution must fit better on the line
FARTHEST = 8.2  # beyond this y, z rounds to 1


def weighted_variance(points: Floats, weights: Floats) -> Floats:
    """Variance of each coordinate of points (n, d) with weights (n,) that sum to one, ``(d,)``."""
    return weights @ (points - weights @ points) ** 2


def scatter_matrix(offsets: Floats, weights: Floats) -> Floats:
    """Weighted sum over n of the outer products of offsets (..., d, n) from a centre, ``(..., d, d)``."""
    return (offsets * weights[..., None, :]) @ np.swapaxes(offsets, -1, -2)


class Mixture(NamedTuple):
    """Mixture of Student-t components with common degrees of freedom (infinite: normal), (S8)."""

    weight: Floats  # (k,)
    mean: Floats  # (k, d)
    factor: Floats  # (k, d, d), lower Cholesky factors of the scale matrices
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
    ones, which separate distant modes. The fit with the higher likelihood is returned. The weights need not sum to one.
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


class Circle(NamedTuple):
    """Which coordinates are periodic; each circle is centred at zero."""

    width: Floats  # (d,), circumferences; infinite if a coordinate is not periodic
    shifts: Floats  # (r, d), to the images; r is 3 to the power of the number of circles

    @classmethod
    def of(cls, width: Floats) -> Circle:
        """Make circles with the given circumferences (d,)."""
        turns = [(-w, 0.0, w) if np.isfinite(w) else (0.0,) for w in width]
        return cls(np.asarray(width), np.stack(np.meshgrid(*turns, indexing="ij"), axis=-1).reshape(-1, len(width)))

    def wrap(self, y: Array) -> Array:
        """Move points onto the circle; NaN for points on a turn without an image."""
        return namespace(y).where(self.has_image(y)[:, None], self.nearest(y), np.nan)

    def has_image(self, y: Array) -> Array:
        """Whether each point lies on a turn that has an image, ``(n,)``."""
        return namespace(y).all(abs(self._turns(y)) <= 1, axis=1)

    def nearest(self, y: Array) -> Array:
        """Move points onto the circle, from any turn."""
        return y - self._turns(y) * np.where(np.isfinite(self.width), self.width, 0.0)

    def gathered(self, z: Floats, weights: Floats) -> Floats:
        """Shift every periodic coordinate by whole turns to within half a turn of its weighted circular mean."""
        is_round = np.isfinite(self.width)
        angle = 2 * np.pi / np.where(is_round, self.width, 1.0)
        centre = np.where(is_round, np.angle(weights @ np.exp(1j * angle * z)) / angle, 0.0)
        return self.nearest(z - centre) + centre

    def _turns(self, y: Array) -> Array:
        """Number of whole turns of each coordinate; zero if it is not periodic."""
        xp, is_round = namespace(y), np.isfinite(self.width)
        return xp.where(is_round, xp.round(y / np.where(is_round, self.width, 1.0)), 0.0)


class Wrapped(NamedTuple):
    """A density wrapped around a circle.

    Draws on turns without images stay off the circle. The prior is zero there, so their weight is zero.
    """

    density: Density
    circle: Circle

    def log_density(self, z: Array) -> Array:
        """Log density at points of the circle, (S12)."""
        xp = namespace(z)
        total = xp.full(len(z), -np.inf)
        for shift in self.circle.shifts:
            total = xp.logaddexp(total, self.density.log_density(z + shift))
        return total

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws; those on turns without images stay off the circle."""
        y = self.density.sample(n, rng, stratified)
        return np.where(self.circle.has_image(y)[:, None], self.circle.nearest(y), y)


Mask = NDArray[np.bool_]


class Warped(NamedTuple):
    """A density that lives on the line in some coordinates, as a density of ``z``."""

    density: Density
    which: Mask

    def log_density(self, z: Array) -> Array:
        """Log density at the rows of ``z``, (S13); the density is zero outside the bounds."""
        xp = namespace(z)
        inside = xp.all(abs(z[:, self.which]) < 1, axis=1)
        y = to_line(xp.where(inside[:, None], z, 0.0), self.which)
        return xp.where(inside, self.density.log_density(y) - _log_slope(y[:, self.which]).sum(axis=1), -np.inf)

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` draws; those that would round to a bound stay outside, where the density is zero."""
        z = self.density.sample(n, rng, stratified)
        y = z[:, self.which]
        z[:, self.which] = np.where(np.abs(y) < FARTHEST, ndtr(y) - ndtr(-y), y)
        return z


def to_line(z: Array, which: Mask) -> Array:
    """Map the coordinates selected by ``which`` from [-1, 1] to the line."""
    xp, bounded = namespace(z), z[:, which]
    tail = 0.5 * (1 - abs(bounded))  # the smaller tail: it keeps its digits near a bound
    return with_columns(z, which, xp.clip(-xp.sign(bounded) * special(z).ndtri(tail), -FARTHEST, FARTHEST))


def choose_warped(points: Floats, weights: Floats, walled: Mask) -> Mask:
    """Select the bounded coordinates in which one normal distribution fits clearly better on the line."""
    if not walled.any():
        return walled
    share = weights / weights.sum()
    y = to_line(points, walled)
    in_box = -np.log(_spread(points, share))
    on_line = -np.log(_spread(y, share))
    on_line[walled] -= share @ _log_slope(y[:, walled])
    return walled & np.asarray(on_line > in_box + _GAIN)


def _spread(points: Floats, share: Floats) -> Floats:
    """Standard deviations; never zero."""
    return np.sqrt(weighted_variance(points, share)) + 1e-300


def _log_slope(y: Array) -> Array:
    """Logarithm of dz/dy, the denominator of (S13)."""
    return math.log(2) - 0.5 * y**2 - 0.5 * math.log(2 * math.pi)
