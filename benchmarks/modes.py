"""How small a basin may be for `sample` to find its mode, on random posteriors with several modes.

Every posterior has two to five modes of random place, width, shape and mass, in a box of
two to ten dimensions. There are three families:

- ``normal``: normal modes,
- ``bent``: curved modes, some of them with Student's tails,
- ``tails``: wide normal modes, and a narrow one with tails that fill much of the box.

The basin of a mode is where its component has the highest density; it is measured with half a million points. ``n``
draws from the prior hit a basin of the share ``b`` with ``n b`` draws on average. The table counts by this number the
modes that hold at least 3 % of the mass. A mode is missed if the result has less than a fifth of its mass.

`sample` says that modes with a basin below ``30 / n`` may be missing. The last line counts the runs that missed a mode
with a larger basin, and how many of these claim success. The constants of the search were chosen with ``--first-seed``
0, 1000 and 5000.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

import paoswarm as ps

HALF = 10.0  # half width of the box
SEEN = 30  # first draws expected in the smallest basin that `sample` claims to have seen
EDGES = (0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, np.inf)
FAMILIES = ["normal", "bent", "tails"]
NORMAL = 1e6  # degrees of freedom


class Posed(NamedTuple):
    """A random posterior with normalised components."""

    dim: int
    log_parts: Callable[[np.ndarray], np.ndarray]  # (m, d) -> (m, k)
    draw: Callable[[int, np.random.Generator], np.ndarray]


def pose(family: str, rng: np.random.Generator) -> Posed:
    d, k = int(rng.integers(2, 11)), int(rng.integers(2, 6))
    log_weight = np.log(rng.dirichlet(np.full(k, 2.0)))
    centre = rng.uniform(-0.8 * HALF, 0.8 * HALF, (k, d))
    size = 10 ** rng.uniform(-1.3, 0.3, k)[:, None] * 10 ** (rng.uniform(-0.5, 0.5, (k, d)) * rng.integers(2))
    axes = np.linalg.qr(rng.standard_normal((k, d, d)))[0]
    freedom = rng.choice([4.0, 10.0, NORMAL], k) if family == "bent" else np.full(k, NORMAL)
    if family == "tails":
        freedom[-1] = rng.choice([3.0, 5.0, 10.0])
        size = np.concatenate(
            [10 ** rng.uniform(-0.5, 0.3, (k - 1, d)), np.full((1, d), 10 ** rng.uniform(-1.3, -0.3))]
        )
    bend = rng.uniform(-0.06, 0.06, (k, d)) if family == "bent" else np.zeros((k, d))
    bend[:, 0] = 0.0  # the others are bent along the first, which keeps volumes
    factor = axes * size[:, None, :]
    inverse = np.linalg.inv(factor)
    constant = log_weight - np.log(size).sum(axis=1) - 0.5 * d * np.log(freedom * np.pi)
    constant += gammaln((freedom + d) / 2) - gammaln(freedom / 2)

    def log_parts(x: np.ndarray) -> np.ndarray:
        away = x[:, None] - centre
        away = away + bend * away[:, :, :1] ** 2
        squared = (np.einsum("kij,mkj->mki", inverse, away) ** 2).sum(axis=2)
        return constant - 0.5 * (freedom + d) * np.log1p(squared / freedom)

    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        which = rng.choice(k, n, p=np.exp(log_weight))
        tail = np.sqrt(freedom[which] / rng.chisquare(freedom[which]))
        away = np.einsum("mij,mj->mi", factor[which], rng.standard_normal((n, d))) * tail[:, None]
        return centre[which] + away - bend[which] * away[:, :1] ** 2

    return Posed(d, log_parts, draw)


class Run(NamedTuple):
    """The modes of one posterior that matter: first draws expected in each basin, and whether the mode was found."""

    expected: np.ndarray
    is_found: np.ndarray
    n_evaluations: int
    success: bool


def shares(posed: Posed, x: np.ndarray) -> np.ndarray:
    parts = posed.log_parts(x)
    return np.bincount(parts.argmax(axis=1), minlength=parts.shape[1]) / len(x)


def run(family: str, seed: int, n_particles: int | None) -> Run:
    rng = np.random.default_rng([77, seed])
    posed = pose(family, rng)
    basin = np.mean([shares(posed, rng.uniform(-HALF, HALF, (50_000, posed.dim))) for _ in range(10)], axis=0)
    drawn = posed.draw(50_000, rng)
    mass = shares(posed, drawn[(np.abs(drawn) < HALF).all(axis=1)])
    found = ps.sample(
        lambda x: logsumexp(posed.log_parts(x), axis=1),
        [(-HALF, HALF)] * posed.dim,
        vectorized=True,
        n_particles=n_particles,
        maxfev=60_000 if n_particles is None else None,
        rng=seed,
    )
    n = SEEN / found.diagnostics["unseen"]
    matters = mass > 0.03
    is_found = shares(posed, found.resample(4000, rng=seed)) > 0.2 * mass
    return Run(n * basin[matters], is_found[matters], found.n_evaluations, found.success)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--posteriors", type=int, default=100, help="of each family")
    parser.add_argument("--first-seed", type=int, default=20000)
    parser.add_argument("--particles", type=int, help="number of first draws, instead of the default")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.posteriors)
    for family in options.families:
        # a fresh process after fifty runs, so that memory does not grow
        with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=50) as pool:
            tasks = [pool.submit(run, family, seed, options.particles) for seed in seeds]
            runs = [task.result() for task in tasks]
        expected = np.concatenate([one.expected for one in runs])
        is_found = np.concatenate([one.is_found for one in runs])
        print(
            f"\n{family}: {len(runs)} posteriors, {np.mean([one.n_evaluations for one in runs]):.0f} evaluations each"
        )
        print(f"{'draws expected in the basin':<30}{'modes':>7}{'missed':>8}")
        for low, high in zip(EDGES, EDGES[1:], strict=False):
            inside = (expected >= low) & (expected < high)
            label = f"{low:g} to {high:g}" if high < np.inf else f"{low:g} or more"
            print(f"{label:<30}{inside.sum():>7}{(inside & ~is_found).sum():>8}")
        wrong = [one for one in runs if (one.expected[~one.is_found] >= SEEN).any()]
        print(f"runs that missed a mode with {SEEN} or more: {len(wrong)} of {len(runs)}", end="; ")
        print(f"{sum(one.success for one in wrong)} of them claim success", flush=True)


if __name__ == "__main__":
    main()
