"""Sixty posteriors with known evidence and moments, to measure how far the verdict of `sample` can be believed.

References are formulas or quadrature in one, two or three dimensions, and weighted draws for ``labels``. ``PROBLEMS``
is a list in which neighbours are alike: the remarks and their limits were chosen on those at even places, and those at
odd places were held out. Functions that make noise start anew with each call of ``load``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import minimize
from scipy.special import i0e, logsumexp, ndtr

import paoswarm as ps

Function = Callable[[np.ndarray], np.ndarray]


class Problem(NamedTuple):
    """A log likelihood (vectorised), a prior, and the truth; an infinite entry is a moment that does not exist."""

    log_likelihood: Function
    prior: list[Any]
    log_evidence: float
    mean: np.ndarray
    sd: np.ndarray


def box(d: int, low: float, high: float) -> list[Any]:
    return [(low, high)] * d


# Truths by formula.


def normals(weights: Sequence[float], means: Any, roots: Any, low: float, high: float) -> Problem:
    """Normal laws, mixed, far inside a box; ``roots`` are standard deviations, or matrices A with covariance A A^T."""
    w, m = np.asarray(weights, dtype=float), np.asarray(means, dtype=float)
    d = m.shape[1]
    a = np.array([root * np.eye(d) if np.ndim(root) < 2 else root for root in roots], dtype=float)
    inverse, log_det = np.linalg.inv(a), np.linalg.slogdet(a)[1]

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        white = np.einsum("kij,mkj->mki", inverse, x[:, None] - m)
        return logsumexp(np.log(w) - log_det - 0.5 * d * math.log(2 * math.pi) - 0.5 * (white**2).sum(axis=2), axis=1)

    mean = w @ m
    variance = w @ ((a**2).sum(axis=2) + (m - mean) ** 2)
    return Problem(log_likelihood, box(d, low, high), -d * math.log(high - low), mean, np.sqrt(variance))


def spike(d: int, wide: float, narrow: float, at: Sequence[float], share: float, half: float) -> Problem:
    """A narrow peak inside a wide one."""
    return normals([1 - share, share], [[0.0] * d, list(at)], [wide, narrow], -half, half)


def permuted(means: Sequence[float], sd: float, low: float, high: float) -> Problem:
    """Every order of the components is a mode, as in mixture models."""
    centres = np.array(list(permutations(means)))
    return normals(np.full(len(centres), 1 / len(centres)), centres, [sd] * len(centres), low, high)


def random_normals(d: int, k: int, seed: int, half: float = 10.0) -> Problem:
    rng = np.random.default_rng(seed)
    roots = [0.3 * np.exp(rng.uniform(0, 1.2)) * np.tril(rng.normal(size=(d, d)) * 0.3 + np.eye(d)) for _ in range(k)]
    return normals(rng.dirichlet(np.full(k, 3.0)), rng.uniform(-0.6 * half, 0.6 * half, (k, d)), roots, -half, half)


def correlated(d: int, rho: float, scale: float, half: float) -> Problem:
    return normals([1], np.zeros((1, d)), [scale * np.linalg.cholesky((1 - rho) * np.eye(d) + rho)], -half, half)


def conjugate(d: int, prior_sd: float, noise: float, seed: int) -> Problem:
    """A normal prior, and one normal measurement of each parameter."""
    y = np.random.default_rng(seed).normal(0, prior_sd, d)
    total, precision = prior_sd**2 + noise**2, prior_sd**-2 + noise**-2
    return Problem(
        lambda x: stats.norm.logpdf(x, y, noise).sum(axis=1),
        [stats.norm(0, prior_sd)] * d,
        float(stats.norm.logpdf(y, 0, math.sqrt(total)).sum()),
        y / noise**2 / precision,
        np.full(d, precision**-0.5),
    )


def ball(d: int, radius: float, half: float) -> Problem:
    """A likelihood that is one in a ball and zero elsewhere."""
    centre = np.linspace(-1, 1, d)
    volume = math.pi ** (d / 2) / math.gamma(d / 2 + 1) * radius**d
    return Problem(
        lambda x: np.where(((x - centre) ** 2).sum(axis=1) < radius**2, 0.0, -np.inf),
        box(d, -half, half),
        math.log(volume / (2 * half) ** d),
        centre,
        np.full(d, radius / math.sqrt(d + 2)),
    )


# Truths by quadrature.


def weighted(log_f: np.ndarray, x: np.ndarray, log_cell: np.ndarray | float) -> tuple[float, float, float]:
    """Log integral, mean and standard deviation of ``exp(log_f)`` on a grid ``x`` with cells of a given log size."""
    log_w = log_f + log_cell
    total = float(logsumexp(log_w))
    w = np.exp(log_w - total)
    mean = float(w @ x)
    return total, mean, math.sqrt(float(w @ (x - mean) ** 2))


def separate(
    parts: Sequence[tuple[Any, Function]], infinite: Sequence[int] = (), no_mean: Sequence[int] = ()
) -> Problem:
    """Independent parameters, each with a prior and a log likelihood; some have no variance, or no mean."""
    truths = []
    for law, log_f in parts:
        if isinstance(law, tuple):
            edge = np.linspace(*law, 1_000_001)
            x, log_cell = 0.5 * (edge[1:] + edge[:-1]), -math.log(1_000_000)
        else:
            z = np.linspace(-12, 12, 400_001)
            x = np.where(z < 0, law.ppf(ndtr(z)), law.isf(ndtr(-z)))
            log_cell = stats.norm.logpdf(z) + math.log(z[1] - z[0])
        truths.append(weighted(log_f(x), x, log_cell))
    mean, sd = np.array([t[1] for t in truths]), np.array([t[2] for t in truths])
    mean[list(no_mean)], sd[list(infinite) + list(no_mean)] = np.inf, np.inf
    return Problem(
        lambda x: sum(log_f(column) for (_, log_f), column in zip(parts, x.T, strict=True)),
        [law for law, _ in parts],
        sum(t[0] for t in truths),
        mean,
        sd,
    )


def chain(d: int, low: float, high: float, log_own: Function, curve: Function, sd: float, n: int = 4000) -> Problem:
    """A curved ridge: the height is the sum of ``log_own(x_i)``, and of normal steps from ``curve(x_i)`` to x_i+1.

    The last parameter has no height of its own. Sums over a grid, one parameter after the other, give the truth.
    """
    edge = np.linspace(low, high, n + 1)
    x, cell = 0.5 * (edge[1:] + edge[:-1]), (high - low) / n
    step = np.exp(-0.5 * ((x[None] - curve(x)[:, None]) / sd) ** 2)  # from row to column
    own = np.exp(log_own(x))
    scale, after = 0.0, [np.ones(n)]
    for _ in range(d - 1):
        message = own * (step @ after[0]) * cell
        scale += math.log(message.max())
        after.insert(0, message / message.max())
    before, mean, spread = np.ones(n), [], []
    for i in range(d):
        w = before * after[i]
        w /= w.sum()
        mean.append(w @ x)
        spread.append(math.sqrt(w @ (x - mean[-1]) ** 2))
        before = (before * own) @ step
        before /= before.max()
    total = scale + math.log(after[0].sum() * cell) - d * math.log(high - low)

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        return log_own(x[:, :-1]).sum(axis=1) - 0.5 * (((x[:, 1:] - curve(x[:, :-1])) / sd) ** 2).sum(axis=1)

    return Problem(log_likelihood, box(d, low, high), total, np.array(mean), np.array(spread))


def on_a_grid(log_f: Function, bounds: Sequence[tuple[float, float]], inner: Sequence[tuple[float, float]]) -> Problem:
    """Two or three parameters; ``inner`` is the part of the box that holds the mass."""
    n = {2: 1000, 3: 100}[len(bounds)]
    axes = [low + (np.arange(n) + 0.5) * (high - low) / n for low, high in inner]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(bounds))
    log_cell = sum(math.log((b - a) / n / (high - low)) for (a, b), (low, high) in zip(inner, bounds, strict=True))
    height = np.concatenate([log_f(part) for part in np.array_split(points, 50)])
    truths = [weighted(height, column, log_cell) for column in points.T]
    mean, sd = np.array([t[1] for t in truths]), np.array([t[2] for t in truths])
    return Problem(log_f, list(bounds), truths[0][0], mean, sd)


def shell(d: int, radius: float, sd: float, half: float) -> Problem:
    """A thin shell around (1, 0, 0, ...)."""
    r = np.linspace(max(1e-9, radius - 12 * sd), radius + 12 * sd, 100_001)
    log_area = math.log(2) + d / 2 * math.log(math.pi) - math.lgamma(d / 2) + (d - 1) * np.log(r)
    log_w = -0.5 * ((r - radius) / sd) ** 2 + log_area + math.log(r[1] - r[0])
    total = float(logsumexp(log_w))
    square = float(np.exp(log_w - total) @ r**2)
    centre = np.eye(d)[0]
    return Problem(
        lambda x: -0.5 * ((np.linalg.norm(x - centre, axis=1) - radius) / sd) ** 2,
        box(d, -half, half),
        total - d * math.log(2 * half),
        centre,
        np.full(d, math.sqrt(square / d)),
    )


def funnel(d: int, sd: float, low: float, half: float) -> Problem:
    """Neal's funnel: ``v`` has a normal law, and sets the scale of the others; box (low, half) for v."""
    v = np.linspace(low, half, 400_001)
    scale = np.exp(v / 2)
    inside = 1 - 2 * stats.norm.sf(half / scale)
    log_w = stats.norm.logpdf(v, 0, sd) + (d - 1) * np.log(inside) + math.log(v[1] - v[0])
    total, mean, spread = weighted(log_w, v, 0.0)
    cut = scale**2 * (1 - 2 * half / scale * stats.norm.pdf(half / scale) / inside)  # variance within the box
    square = float(np.exp(log_w - total) @ cut)

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(x[:, 0], 0, sd) + stats.norm.logpdf(x[:, 1:], 0, np.exp(x[:, :1] / 2)).sum(axis=1)

    log_volume = math.log(half - low) + (d - 1) * math.log(2 * half)
    return Problem(
        log_likelihood,
        [(low, half), *box(d - 1, -half, half)],
        total - log_volume,
        np.array([mean] + [0.0] * (d - 1)),
        np.array([spread] + [math.sqrt(square)] * (d - 1)),
    )


def groups(y: Sequence[float], noise: float) -> Problem:
    """Groups around a common mean, with an unknown spread: parameters mean, spread, and a deviate for each group."""
    seen = np.asarray(y)
    mu, tau = np.linspace(-25, 25, 601), (np.arange(1000) + 0.5) * 50 / 1000
    grid_mu, grid_tau = (a.ravel() for a in np.meshgrid(mu, tau, indexing="ij"))
    total_sd = np.sqrt(grid_tau**2 + noise**2)
    log_w = stats.norm.logpdf(grid_mu, 0, 5) + stats.halfnorm.logpdf(grid_tau, 0, 10)
    log_w += sum(stats.norm.logpdf(value, grid_mu, total_sd) for value in seen)
    log_w += math.log((mu[1] - mu[0]) * (tau[1] - tau[0]))
    total, mean_mu, sd_mu = weighted(log_w, grid_mu, 0.0)
    _, mean_tau, sd_tau = weighted(log_w, grid_tau, 0.0)
    w = np.exp(log_w - total)
    precision = 1 + (grid_tau / noise) ** 2
    means, sds = [mean_mu, mean_tau], [sd_mu, sd_tau]
    for value in seen:
        centre = grid_tau * (value - grid_mu) / noise**2 / precision
        means.append(w @ centre)
        sds.append(math.sqrt(w @ (centre**2 + 1 / precision) - means[-1] ** 2))

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        return stats.norm.logpdf(seen, x[:, :1] + x[:, 1:2] * x[:, 2:], noise).sum(axis=1)

    prior = [stats.norm(0, 5), stats.halfnorm(0, 10)] + [stats.norm(0, 1)] * len(seen)
    return Problem(log_likelihood, prior, total, np.array(means), np.array(sds))


def labels(centres: Sequence[float], each: int, seed: int, half: float) -> Problem:
    """Means of the components of a mixture, with all orders of the labels; 300,000 weighted draws in order."""
    rng, k = np.random.default_rng(seed), len(centres)
    data = rng.normal(np.repeat(centres, each), 1.0)

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        parts = stats.norm.logpdf(data[:, None], x[:, None, :], 1.0) - math.log(k)
        return logsumexp(parts, axis=2).sum(axis=1)

    best = minimize(lambda x: -log_likelihood(x[None])[0], np.sort(centres))
    law = stats.multivariate_t(best.x, 1.5 * best.hess_inv, df=8, seed=1)
    x = law.rvs(300_000)
    x = x[(np.diff(x, axis=1) > 0).all(axis=1) & (np.abs(x) < half).all(axis=1)]
    log_w = np.concatenate([log_likelihood(part) for part in np.array_split(x, 200)]) - law.logpdf(x)
    total = logsumexp(log_w)
    w = np.exp(log_w - total)
    mean = np.mean(w @ x)
    sd = math.sqrt(np.mean(w @ (x - mean) ** 2))
    log_evidence = total - math.log(300_000) + math.lgamma(k + 1) - k * math.log(2 * half)
    return Problem(log_likelihood, box(k, -half, half), float(log_evidence), np.full(k, mean), np.full(k, sd))


def angles(kappas: Sequence[float], centres: Sequence[float], share: float | None = None) -> Problem:
    """Periodic parameters with peaks; with ``share``, the first has a second peak on the other side."""
    angle = np.linspace(0, 2 * math.pi, 400_001)[:-1]

    def log_f(i: int, x: np.ndarray) -> np.ndarray:
        one = kappas[i] * (np.cos(x - centres[i]) - 1)
        if share is None or i:
            return one
        return np.logaddexp(one, math.log(share) + kappas[i] * (np.cos(x - centres[i] - 2.0) - 1))

    truths = [weighted(log_f(i, angle), angle, -math.log(len(angle))) for i in range(len(kappas))]
    assert share is not None or abs(truths[0][0] - math.log(i0e(kappas[0]))) < 1e-6
    return Problem(
        lambda x: sum(log_f(i, x[:, i]) for i in range(len(kappas))),
        [ps.Periodic(0, 2 * math.pi)] * len(kappas),
        sum(t[0] for t in truths),
        np.array([t[1] for t in truths]),
        np.array([t[2] for t in truths]),
    )


# Changes of a problem that leave its truth as it is.


def noisy(base: Problem, sd: float, reach: float | None = None) -> Problem:
    """Noise in the log likelihood, everywhere or only within ``reach`` of the peak."""
    rng = np.random.default_rng(12345)

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        near = np.ones(len(x)) if reach is None else ((x - base.mean) ** 2).sum(axis=1) < reach**2
        return base.log_likelihood(x) + sd * near * rng.standard_normal(len(x))

    return base._replace(log_likelihood=log_likelihood)


def on_plateau(base: Problem, value: float, depth: float) -> Problem:
    """Where the log likelihood is more than ``depth`` below its peak, it is ``value``."""
    top = base.log_likelihood(base.mean[None])[0]

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        height = base.log_likelihood(x)
        return np.where(height < top - depth, value, height)

    return base._replace(log_likelihood=log_likelihood)


def student(nu: float, at: float, scale: float) -> Function:
    return lambda x: -0.5 * (nu + 1) * np.log1p(((x - at) / scale) ** 2 / nu)


def power(shape: float, at: float, scale: float) -> Function:
    return lambda x: -(np.abs((x - at) / scale) ** shape)


def waves(depth: float, period: float, sd: float) -> Function:
    return lambda x: depth * (np.cos(2 * math.pi * x / period) - 1) - 0.5 * (x / sd) ** 2


def saturating(at: float, width: float) -> Function:
    """Data that only say that a parameter is large."""
    return lambda x: -np.logaddexp(0, -(x - at) / width)


def decay(x: np.ndarray) -> np.ndarray:
    t = np.array([0.5, 1.0, 2.0, 4.0])
    return stats.norm.logpdf(np.array([4.1, 3.3, 2.4, 1.0]), x[:, :1] * np.exp(-x[:, 1:2] * t), 0.3).sum(axis=1)


def growth(x: np.ndarray) -> np.ndarray:
    t = np.array([0.0, 2.0, 4.0, 6.0, 9.0])
    model = x[:, :1] / (1 + np.exp(-x[:, 1:2] * (t - x[:, 2:])))
    return stats.norm.logpdf(np.array([0.9, 2.1, 4.8, 7.2, 8.8]), model, 0.4).sum(axis=1)


def rotated(d: int, scales: Sequence[float], seed: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0] * np.asarray(scales)


def rosenbrock(x: np.ndarray) -> np.ndarray:
    return -((1 - x) ** 2)


def crossing(shares: Sequence[float], means: Any, first: Sequence[float], second: Sequence[float]) -> Problem:
    """Two thin normal laws that cross."""
    return normals(shares, means, [np.diag(first), np.diag(second)], -12, 12)


def leaning(slope: float) -> Problem:
    """Two parameters that lean against bounds, and one that does not."""
    slopes: list[tuple[Any, Function]] = [((0, 1), lambda x: slope * x), ((-4, 4), lambda x: -0.1 * slope * x)]
    return separate([*slopes, ((0, 9), power(2, 4, 1))])


PROBLEMS: list[tuple[str, Callable[[], Problem]]] = [
    ("spike4", lambda: spike(4, 2.0, 0.1, (1.5, -1, 1, 0.5), 0.5, 12)),
    ("spike5", lambda: spike(5, 1.5, 0.2, (0.5, -0.8, 0.6, 0, 0.4), 0.3, 10)),
    ("spike3", lambda: spike(3, 1.0, 0.04, (0.7, 0.2, -0.6), 0.4, 8)),
    ("spike6", lambda: spike(6, 2.0, 0.3, (1, -1, 1, -1, 0.5, 0), 0.15, 12)),
    ("rosenbrock8", lambda: chain(8, -5, 10, rosenbrock, np.square, math.sqrt(0.005))),
    ("snake3", lambda: chain(3, -6, 6, lambda x: -0.3 * x**2, lambda x: 1.5 * np.cos(1.5 * x), 0.15)),
    ("rosenbrock6", lambda: chain(6, -4, 8, rosenbrock, np.square, 0.1)),
    ("snake4", lambda: chain(4, -6, 6, lambda x: -0.5 * x**2, lambda x: np.sin(2 * x), 0.4)),
    ("noisypeak3", lambda: noisy(normals([1], [[1.0, -1, 0]], [0.3], -8, 8), 1.0, 1.5)),
    ("noisypeak5", lambda: noisy(normals([1], [[0.5] * 5], [0.5], -9, 9), 0.7, 2.5)),
    ("plateau4", lambda: on_plateau(normals([1], [[2.0, 1, -1, 0]], [0.03], -5, 5), -1e6, 18)),
    ("plateau3", lambda: on_plateau(normals([1], [[-2.0, 1, 3]], [0.05], -6, 6), -500, 18)),
    ("plateau2", lambda: on_plateau(normals([1], [[-2.0, 1]], [0.3], -6, 6), -1e6, 30)),
    ("plateau5", lambda: on_plateau(normals([1], [[1.0] * 5], [0.8], -6, 6), -1e5, 40)),
    ("permuted4", lambda: permuted([-4.0, -1.5, 1, 4.5], 0.35, -8, 8)),
    ("permuted3", lambda: permuted([-3.0, 0, 2], 0.3, -7, 7)),
    ("no_variance", lambda: separate([((-5, 5), power(2, 1, 0.5)), (stats.pareto(2), saturating(3, 0.5))], [1])),
    ("no_mean", lambda: separate([((-5, 5), power(2, 0, 1)), (stats.halfcauchy(), saturating(2, 0.4))], (), [1])),
    ("tail4", lambda: separate([(stats.t(4.5), student(5, 1, 2)), (stats.norm(0, 3), power(2, 1, 2))])),
    ("tail5", lambda: separate([(stats.t(5), saturating(0, 1)), ((-30, 30), student(5, 1, 1))])),
    ("wide_box2", lambda: separate([((0, 1000), power(2, 1.2, 0.7)), ((-10, 10), power(2, 0, 1))])),
    (
        "wide_box3",
        lambda: separate([((0, 1e6), power(2, 3, 1)), ((0, 500), power(2, 1, 0.7)), ((0, 9), waves(0, 1, 2))]),
    ),
    ("at_bound2", lambda: separate([((0, 50), lambda x: -x / 0.5), ((0, 1), power(2, 0.5, 0.1))])),
    ("at_bound3", lambda: leaning(30.0)),
    ("normal5", lambda: correlated(5, 0.6, 0.4, 10)),
    ("normal10", lambda: correlated(10, 0.4, 0.5, 10)),
    ("two4", lambda: normals([0.5, 0.5], [[-4.0] * 4, [4.0] * 4], [0.8, 0.8], -10, 10)),
    ("three5", lambda: normals([0.2, 0.3, 0.5], [[-4.0] * 5, [0.0] * 5, [4.5] * 5], [0.9, 0.6, 1.1], -10, 10)),
    ("banana2", lambda: chain(2, -6, 6, lambda x: -0.5 * x**2, lambda x: x**2 - 1, 0.05)),
    ("banana3", lambda: chain(3, -6, 6, lambda x: -0.6 * x**2, lambda x: 0.7 * x**2 - 1, 0.1)),
    ("shell2", lambda: shell(2, 2.5, 0.06, 6)),
    ("shell3", lambda: shell(3, 2.0, 0.15, 6)),
    ("funnel5", lambda: funnel(5, 1.5, -8, 20)),
    ("funnel4", lambda: funnel(4, 1.2, -7, 15)),
    ("student4", lambda: separate([((-40, 40), student(5, i, 0.5)) for i in range(4)])),
    ("student6", lambda: separate([((-30, 30), student(7, -i, 1.0)) for i in range(6)])),
    ("waves2", lambda: separate([((-6, 6), waves(2, 1, 1.0))] * 2)),
    ("waves3", lambda: separate([((-5, 5), waves(1.5, 2, 1.5))] * 3)),
    ("decay", lambda: on_a_grid(decay, [(0, 50), (0, 10)], [(2, 9), (0, 1.5)])),
    ("growth", lambda: on_a_grid(growth, [(0, 40), (0, 8), (-10, 20)], [(6, 16), (0.2, 1.6), (1, 8)])),
    ("conjugate6", lambda: conjugate(6, 3.0, 0.2, 1)),
    ("conjugate9", lambda: conjugate(9, 1.0, 2.0, 2)),
    ("laplace5", lambda: separate([((-8, 8), power(1, i / 2, 0.5)) for i in range(5)])),
    ("cusp3", lambda: separate([((-8, 8), power(0.7, i, 0.3)) for i in range(3)])),
    ("ball3", lambda: ball(3, 1.5, 5)),
    ("ball4", lambda: ball(4, 2.0, 5)),
    ("angles2", lambda: angles([20, 3], [3.0, 3.3])),
    ("angles3", lambda: angles([40, 8, 2], [2.2, 3.0, 3.1], 0.5)),
    ("narrow3", lambda: normals([0.7, 0.3], [[0.0] * 3, [5.0, 4, 5]], [1.2, 0.25], -9, 9)),
    ("narrow4", lambda: normals([0.6, 0.4], [[-1.0] * 4, [4.0, 4, 3, 5]], [1.0, 0.4], -9, 9)),
    ("ridge4", lambda: normals([1], [[0.5] * 4], [rotated(4, (2, 0.5, 0.02, 0.01), 1)], -15, 15)),
    ("ridge8", lambda: normals([1], [[0.5] * 8], [rotated(8, np.geomspace(1.5, 0.02, 8), 2)], -15, 15)),
    ("groups5", lambda: groups([3.0, -1.0, 6.0, 2.0, 0.5], 1.5)),
    ("groups7", lambda: groups([1.0, 0.0, 2.0, 0.5, 1.5, 1.2, -0.5], 1.0)),
    ("cross3", lambda: crossing([0.5, 0.5], [[0.0] * 3] * 2, (2, 0.1, 0.1), (0.1, 2, 0.1))),
    ("cross4", lambda: crossing([0.4, 0.6], [[0.0] * 4, [2.0, 2, 0, 0]], (2, 0.1, 0.2, 0.2), (0.1, 2, 0.2, 0.2))),
    ("random3", lambda: random_normals(3, 7, 3)),
    ("random5", lambda: random_normals(5, 5, 4)),
    ("labels4", lambda: labels((-5.0, -2.0, 1.5, 5.0), 12, 1, 10)),
    ("labels3", lambda: labels((-3.0, 0.0, 3.5), 15, 2, 10)),
]


def load(name: str) -> Problem:
    return dict(PROBLEMS)[name]()
