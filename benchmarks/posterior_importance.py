"""Reference values of a posterior by importance sampling from Student-t mixtures around modes found by SciPy.

The method is simple and uses many evaluations: many climbs, components fitted to weighted draws, then millions of draws
from each of two seeds. It prints how well the seeds agree, the Pareto k of the weights, and the effective sample size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import posterior_problems as pp
from scipy import optimize, stats
from scipy.special import logsumexp

Known = tuple[float, np.ndarray, np.ndarray]  # log evidence, mean, sd


def from_grid(log_weights: np.ndarray, x: np.ndarray, spread: np.ndarray | float = 0.0) -> Known:
    """Return evidence and moments of weighted points ``(n, d)``; each may be a law with variances ``spread``."""
    w = np.exp(log_weights - logsumexp(log_weights))
    mean = w @ x
    return float(logsumexp(log_weights)), mean, np.sqrt(w @ ((x - mean) ** 2 + spread))


def second_differences(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return minus the second derivatives of a vectorised function, along the columns of ``root``."""
    d = len(at)
    pairs = list(itertools.combinations_with_replacement(range(d), 2))
    signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    value = function(np.array([at + s * root[:, i] + t * root[:, j] for i, j in pairs for s, t in signs]))
    value = np.maximum(value, function(at[None]) - 1e3)  # points outside the bounds
    found = np.zeros((d, d))
    for (i, j), (a, b, c, e) in zip(pairs, value.reshape(-1, 4), strict=True):
        found[i, j] = found[j, i] = -(a - b - c + e) / 4
    return found


class Scaled:
    """A posterior, scaled so that the prior has its median at zero and 68 % of its mass within one."""

    def __init__(self, name: str) -> None:
        self.likelihood, self.prior = pp.PROBLEMS[name]()
        self.centre = np.array([law.median() for law in self.prior])
        self.unit = np.array([law.ppf(0.84) - law.ppf(0.16) for law in self.prior]) / 2
        self.low, self.high = (np.array([law.support() for law in self.prior]).T - self.centre) / self.unit

    def log_density(self, u: np.ndarray) -> np.ndarray:
        """Log of prior times likelihood, in these units."""
        x = self.centre + self.unit * u
        prior = np.sum([law.logpdf(column) for law, column in zip(self.prior, x.T, strict=True)], axis=0)
        value = prior + np.log(self.unit).sum()
        inside = np.isfinite(value)
        with np.errstate(all="ignore"):
            value[inside] += self.likelihood(x[inside])
        return np.where(np.isnan(value), -np.inf, value)

    def climb(self, start: np.ndarray) -> np.ndarray:
        """Return the mode that L-BFGS-B finds from a start."""
        step = 1e-6 * np.concatenate([np.zeros((1, len(start))), np.eye(len(start)), -np.eye(len(start))])

        def value_and_slope(u: np.ndarray) -> tuple[float, np.ndarray]:
            value, *others = self.log_density(np.clip(u, self.low + 2e-6, self.high - 2e-6) + step)
            ahead, behind = np.reshape(others, (2, -1))
            return -float(value), -(ahead - behind) / 2e-6

        bounds = list(zip(self.low, self.high, strict=True))
        options = {"maxiter": 1000, "ftol": 1e-13}
        found = optimize.minimize(value_and_slope, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return np.clip(found.x, self.low + 2e-6, self.high - 2e-6)

    def modes(self, starts: int = 60, n: int = 40_000, seed: int = 1) -> list[tuple[np.ndarray, np.ndarray]]:
        """Modes that may hold a millionth of the mass, with covariances. Half the climbs start at the best draws."""
        rng = np.random.default_rng(seed)
        x = np.stack([law.rvs(n, random_state=rng) for law in self.prior], axis=1)
        u = (x - self.centre) / self.unit
        order = np.argsort(self.log_density(u))[::-1]
        found: list[tuple[float, np.ndarray, np.ndarray]] = []
        for start in u[[*order[: starts // 2], *order[rng.integers(0, n // 5, starts // 2)]]]:
            top = self.climb(start)
            root = 1e-4 * np.eye(len(top))
            for _ in range(8):
                values, vectors = np.linalg.eigh(second_differences(self.log_density, top, root))
                root = root @ vectors / np.sqrt(np.clip(values, 0.01, 1e8))
            cov = root @ root.T
            mass = float(self.log_density(top[None])[0]) + 0.5 * np.linalg.slogdet(2 * np.pi * cov)[1]
            apart = [(top - other) @ np.linalg.solve(c + cov, top - other) for _, other, c in found]
            if np.isfinite(mass) and (not apart or min(apart) > 1):
                found.append((mass, top, cov))
        best = max(mass for mass, *_ in found)
        print("  modes, log mass below the best:", np.sort([round(best - mass, 1) for mass, *_ in found])[:8])
        return [(top, cov) for mass, top, cov in found if mass > best - 14]


class Mixture:
    """Student-t laws with five degrees of freedom. A tenth of the draws comes from copies that are twice as wide."""

    def __init__(self, weights: np.ndarray, means: np.ndarray, covs: np.ndarray) -> None:
        self.weights = np.concatenate([0.9 * weights, 0.1 * weights])
        self.laws = [stats.multivariate_t(m, c, df=5) for m, c in zip(means, covs, strict=True)]
        self.laws += [stats.multivariate_t(m, 4 * c, df=5) for m, c in zip(means, covs, strict=True)]

    def draw(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return points, and the weighted log density of each component there."""
        counts = rng.multinomial(n, self.weights)
        u = [law.rvs(k, random_state=rng).reshape(k, -1) for law, k in zip(self.laws, counts, strict=True) if k]
        points = np.concatenate(u)
        return points, np.stack([law.logpdf(points) for law in self.laws], axis=1) + np.log(self.weights)


def adapt(
    target: Scaled, modes: list[tuple[np.ndarray, np.ndarray]], rng: np.random.Generator, copies: int = 4
) -> Mixture:
    """Fit the components to weighted draws (Cappe et al. 2008), tempered while the effective sample size is small."""
    n, rounds = 40_000, 12
    means = np.concatenate([rng.multivariate_normal(top, 0.3 * cov, size=copies) for top, cov in modes])
    covs = np.concatenate([[cov] * copies for _, cov in modes])
    weights = np.full(len(means), 1 / len(means))
    for _ in range(rounds):
        u, parts = Mixture(weights, means, covs).draw(n, rng)
        log_q = logsumexp(parts, axis=1)
        ratio = target.log_density(u) - log_q
        power = 1.0
        while np.exp(2 * logsumexp(power * ratio) - logsumexp(2 * power * ratio)) < 0.05 * n and power > 0.05:
            power *= 0.8
        share = np.exp(power * ratio - logsumexp(power * ratio))[:, None] * np.exp(parts - log_q[:, None])
        share = share[:, : len(means)] + share[:, len(means) :]
        weights = np.maximum(share.sum(axis=0), 1e-3)
        for k in range(len(means)):
            if share[:, k].sum() > 2e-3:
                inner = (u - means[k]) @ np.linalg.inv(np.linalg.cholesky(covs[k])).T
                near = share[:, k] * (5 + u.shape[1]) / (5 + (inner**2).sum(axis=1))
                means[k] = near @ u / near.sum()
                apart = u - means[k]
                covs[k] = (near[:, None] * apart).T @ apart / share[:, k].sum()
        weights /= weights.sum()
    return Mixture(weights, means, covs)


def importance(name: str, n: int = 2_000_000, seeds: tuple[int, ...] = (1, 2)) -> Known:
    """Return the mean over two seeds, each with its own proposal and draws."""
    target, results = Scaled(name), []
    modes = target.modes()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        proposal = adapt(target, modes, rng)
        points, ratios = [], []
        for _ in range(20):
            u, parts = proposal.draw(n // 20, rng)
            points.append(u)
            ratios.append(target.log_density(u) - logsumexp(parts, axis=1))
        ratio = np.concatenate(ratios)
        log_evidence, mean, sd = from_grid(ratio - math.log(len(ratio)), np.concatenate(points))
        size = np.exp(2 * logsumexp(ratio) - logsumexp(2 * ratio))
        tail = np.exp(np.sort(ratio)[-int(3 * math.sqrt(n)) :] - ratio.max())
        k = stats.genpareto.fit(tail[1:] - tail[0], floc=0)[0]
        print(
            f"  seed {seed}: log evidence {log_evidence:.5f}, effective sample size {size:.0f}, Pareto k {k:.2f}",
            flush=True,
        )
        results.append((log_evidence, target.centre + target.unit * mean, target.unit * sd))
    one, two = results
    print(
        f"  difference of the seeds: log evidence {one[0] - two[0]:.5f}, "
        f"mean {np.abs((one[1] - two[1]) / one[2]).max():.5f} sd, sd {np.abs(np.log(one[2] / two[2])).max():.5f}",
        flush=True,
    )
    return tuple(np.mean(column, axis=0) for column in zip(*results, strict=True))  # type: ignore[return-value]
