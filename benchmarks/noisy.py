"""Compare searches of noisy objectives: the tables of ``docs/noisy.md``.

``suite``: the noise models of COCO's bbob-noisy with their constants (Finck, Hansen, Ros & Auger 2010), on the
functions of bbob that it is made from: 6 with moderate noise, 15 with severe noise and one minimum, 9 with severe noise
and many minima. A third of each is Gaussian (multiplicative), uniform (multiplicative, and worse near the minimum) and
Cauchy (rare outliers). ``added``: Gaussian noise of standard deviation 1 on four functions whose minima are 0.

The returned point counts, by its value without noise. Peers run with the settings that their authors recommend for
noise. ``python -m benchmarks noisy [added|suite] [unknowns] [evaluations per unknown] [repeats]``
"""

from __future__ import annotations

import math
import sys
import warnings

import numpy as np

import paoswarm as ps
from paoswarm.problems.bbob import bbob

FIRST_INSTANCE = 101
TARGETS = 10.0 ** np.arange(2, -8.1, -0.2)
MODERATE = {1: "sphere", 8: "Rosenbrock"}
SEVERE = {1: "sphere", 8: "Rosenbrock", 7: "step ellipsoid", 10: "ellipsoid", 14: "different powers"}
MANY_MINIMA = {17: "Schaffer F7", 19: "Griewank-Rosenbrock", 21: "Gallagher"}


def gaussian(gap, d, is_severe, rng):
    return gap * np.exp((1.0 if is_severe else 0.01) * rng.normal(size=len(gap)))


def uniform(gap, d, is_severe, rng):
    beta, alpha = (1.0, 0.49 + 1 / d) if is_severe else (0.01, 0.01 * (0.49 + 1 / d))
    high = (1e9 / (gap + 1e-99)) ** (alpha * rng.uniform(size=len(gap)))
    return gap * rng.uniform(size=len(gap)) ** beta * np.maximum(1.0, high)


def cauchy(gap, d, is_severe, rng):
    alpha, share = (1.0, 0.2) if is_severe else (0.01, 0.05)
    outlier = (rng.uniform(size=len(gap)) < share) * rng.normal(size=len(gap)) / np.abs(rng.normal(size=len(gap)))
    return gap + alpha * np.maximum(0.0, 1000 + outlier)


class Noisy:
    """A function with a budget; after that it fails."""

    def __init__(self, exact, bounds, noise, budget, seed):
        self.exact, self.bounds, self.left = exact, np.asarray(bounds, dtype=float), budget
        self._noise, self._rng = noise, np.random.default_rng(seed)

    def __call__(self, x):
        """Noisy values at points."""
        self.left -= len(x)
        return self._noise(self.exact(x), x.shape[1], self._rng)

    def one(self, x):
        """The noisy value at one point."""
        return float(self(np.clip(x, *self.bounds.T)[None])[0])


def _ours(**options):
    def search(f, seed):
        return ps.minimize(f, f.bounds, maxfev=f.left, tol=0, vectorized=True, rng=seed, **options).x

    return search


def bipop_cma(f, seed):
    """BIPOP-CMA-ES of pycma with its handler of noise: the favourite point of the last restart."""
    import cma

    low, width = f.bounds[:, 0], f.bounds[:, 1] - f.bounds[:, 0]
    rng = np.random.default_rng(seed)
    options = {"verbose": -9, "bounds": [0, 1], "maxfevals": f.left, "seed": seed + 1}
    _, strategy = cma.fmin2(
        lambda u: f.one(low + np.asarray(u) * width),
        lambda: rng.uniform(0.1, 0.9, len(low)),
        0.2,
        options,
        restarts=9,
        bipop=True,
        noise_handler=cma.NoiseHandler(len(low)),
    )
    return low + np.clip(strategy.result.xfavorite, 0, 1) * width


def _nevergrad(name):
    def search(f, seed):
        import nevergrad

        parameter = nevergrad.p.Array(shape=(len(f.bounds),), lower=f.bounds[:, 0], upper=f.bounds[:, 1])
        parameter.random_state.seed(seed)
        optimizer = nevergrad.optimizers.registry[name](parameter, budget=f.left)
        while f.left > 0:
            candidate = optimizer.ask()
            optimizer.tell(candidate, f.one(candidate.value))
        return optimizer.recommend().value

    return search


SEARCHES = {
    "default, which notices noise": _ours(),
    "`reevaluate=0.2`": _ours(reevaluate=0.2),
    "one swarm, `PAO`, `reevaluate=0.2`": _ours(reevaluate=0.2, method=ps.PAO()),
    "BIPOP-CMA-ES with noise handling": bipop_cma,
    "TBPSA": _nevergrad("TBPSA"),
    "SPSA": _nevergrad("SPSA"),
}


def gap_of(name, exact, bounds, noise, budget, seed):
    """How far above the minimum the point lies that a search returns."""
    f = Noisy(exact, bounds, noise, budget, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = SEARCHES[name](f, seed)
    return max(0.0, float(exact(np.clip(x, *f.bounds.T)[None])[0]))


def added(d, budget, repeats):
    """Geometric means of the true value at the returned point, with noise of standard deviation 1."""

    def rastrigin(x):
        return (np.square(x - 1.3) - 10 * np.cos(2 * np.pi * (x - 1.3)) + 10).sum(axis=1)

    def rosenbrock(x):
        return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1)

    functions = {
        "sphere": lambda x: np.square(x - 1.3).sum(axis=1),
        "Rosenbrock": rosenbrock,
        "Rastrigin": rastrigin,
        "sum of absolute values": lambda x: np.abs(x + 0.7).sum(axis=1),
    }
    print("| | " + " | ".join(functions) + " |\n|" + "---|" * (1 + len(functions)))
    for name in SEARCHES:
        cells = []
        for exact in functions.values():
            gaps = [
                gap_of(name, exact, [(-5, 5)] * d, lambda v, _, rng: v + rng.normal(size=len(v)), budget, 100 + r)
                for r in range(repeats)
            ]
            cells.append(f"{math.exp(np.mean(np.log(np.maximum(gaps, 1e-12)))):.2g} ({max(gaps):.2g})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def suite(d, budget, repeats):
    """The share of targets, 100 to 1e-8, that the returned point reaches, by group and by noise."""
    groups = {"moderate": (MODERATE, False), "severe": (SEVERE, True), "severe, many minima": (MANY_MINIMA, True)}
    noises = (gaussian, uniform, cauchy)
    titles = [*groups, *(one.__name__ for one in noises), "all", "solved to 1e-3"]
    print("| | " + " | ".join(titles) + " |\n|" + "---|" * (1 + len(titles)))
    for name in SEARCHES:
        reached, solved, keys = [], [], []
        for group, (functions, is_severe) in groups.items():
            for number in functions:
                for noise in noises:
                    for r in range(repeats):
                        problem = bbob(number, d, [FIRST_INSTANCE + r]).instance(0)

                        def exact(x, problem=problem):
                            return np.maximum(problem(x) - problem.minimum, 0.0)

                        def noisy(gap, d, rng, noise=noise, is_severe=is_severe):
                            values = noise(gap, d, is_severe, rng) + 1.01e-8
                            return np.where(gap >= 1e-8, values, gap)

                        gap = gap_of(name, exact, problem.bounds, noisy, budget, 100 + r)
                        reached.append(float((gap <= TARGETS).mean()))
                        solved.append(gap <= 1e-3)
                        keys.append((group, noise.__name__))
        share = [np.mean([v for v, key in zip(reached, keys, strict=True) if title in key]) for title in titles[:-2]]
        cells = [f"{100 * v:.0f} %" for v in (*share, np.mean(reached))]
        print(f"| {name} | " + " | ".join(cells) + f" | {sum(solved)} of {len(solved)} |", flush=True)


if __name__ == "__main__":
    given = sys.argv[1:] or ["added"]
    numbers = [int(n) for n in given[1:]]
    d, each, repeats = [*numbers, *(5, 2000, 5)[len(numbers) :]]
    {"added": added, "suite": suite}[given[0]](d, each * d, repeats)
