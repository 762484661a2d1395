"""Measure when runs end and what they say: the tables of "When does a run end?" in ``docs/tutorial.md``.

It takes a few minutes. The functions have 2, 5 and 10 unknowns and belong to six families. In
the first two parts, runs have 100 particles and ``6 d + 6`` of them, in turn.

1. **Convergence.** A run goes on to the end of its budget (60,000 evaluations) without any tolerance. Where would it
   have stopped? *Stops*: in that share of runs. *Too early*: the run gained more than 1e-6 of its first swarm's range
   afterwards. *Missed*: the run had gained all that it would, but 1e-9 of that range, in the first half of the budget,
   and did not stop. *Cost*: evaluations per unknown, median. This is given for the rule of positions alone, a spread
   below 1e-12, and for all rules.
2. **Is the end a minimum?** Runs that have converged are examined by a local search with a thousand times as many
   evaluations. If it gains more than 1e-9 of the first swarm's range, the point was no minimum.
3. **Hints** after 100 generations. *Needed*: the excess over the minimum is above 1e-8 of the first swarm's range, and
   `noise.covariance` with the same seed makes it ten times smaller. *Harmful*: given where that makes the excess
   larger.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from posterior_problems import KIRBY2, KIRBY2_CERTIFIED, rational

import paoswarm as ps
from paoswarm.run.stopping import judge_convergence as judge

Objective = Callable[[np.ndarray], np.ndarray]
COVARIANCE = ps.PAO(noise_scale=ps.noise.covariance)
DIMENSIONS = (2, 5, 10)


class Case(NamedTuple):
    """A function with its bounds and, if it is known, its minimum."""

    name: str
    family: str
    fun: Objective
    bounds: list[tuple[float, float]]
    minimum: float | None = 0.0


def cases(d: int) -> list[Case]:
    """The functions of ``d`` unknowns, shifted, in (-5, 5)."""
    centre = 3.0 * np.random.default_rng(d).uniform(-1, 1, d)
    rotation = np.linalg.qr(np.random.default_rng(100 + d).normal(size=(d, d)))[0]
    rng = np.random.default_rng(5)
    steps = np.arange(d) / (d - 1)

    def sphere(x):
        return ((x - centre) ** 2).sum(axis=1)

    def ellipsoid(condition, turn):
        return lambda x: (((x - centre) @ turn) ** 2 * condition**steps).sum(axis=1)

    def rosenbrock(x):
        return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1)

    def ridge(x):
        z = (x - 1.3) @ rotation
        return z[:, 0] ** 2 + 100 * np.sqrt((z[:, 1:] ** 2).sum(axis=1))

    def cigar(x):
        z = (x - centre) @ rotation
        return z[:, 0] ** 2 + 1e6 * (z[:, 1:] ** 2).sum(axis=1)

    def zakharov(x):
        z = x - centre
        s = (0.5 * np.arange(1, d + 1) * z).sum(axis=1)
        return (z**2).sum(axis=1) + s**2 + s**4

    def rastrigin(x):
        z = x - centre
        return (z**2 - 10 * np.cos(2 * np.pi * z) + 10).sum(axis=1)

    def ackley(x):
        z = x - centre
        waves = np.exp(np.cos(2 * np.pi * z).mean(axis=1))
        return -20 * np.exp(-0.2 * np.sqrt((z**2).mean(axis=1))) - waves + 20 + np.e

    def griewank(x):
        z = 40 * (x - centre)
        return (z**2).sum(axis=1) / 4000 - np.cos(z / np.sqrt(np.arange(1, d + 1))).prod(axis=1) + 1

    def schwefel(x):
        return 418.9828872724338 * d - (100 * x * np.sin(np.sqrt(np.abs(100 * x)))).sum(axis=1)

    def styblinski(x):
        return 0.5 * (x**4 - 16 * x**2 + 5 * x).sum(axis=1)

    functions: list[tuple[str, str, Objective, float | None]] = [
        ("sphere", "one minimum", sphere, 0.0),
        ("ellipsoid 1e6", "one minimum", ellipsoid(1e6, np.eye(d)), 0.0),
        ("powers", "one minimum", lambda x: (np.abs(x - centre) ** (2 + 4 * steps)).sum(axis=1), 0.0),
        ("absolute", "one minimum", lambda x: np.abs(x - centre).sum(axis=1), 0.0),
        ("cone", "one minimum", lambda x: np.sqrt(sphere(x)), 0.0),
        ("double sum", "one minimum", lambda x: (np.cumsum(x - centre, axis=1) ** 2).sum(axis=1), 0.0),
        *((f"turned {c:.0e}", "oblique valley", ellipsoid(c, rotation), 0.0) for c in (1e2, 1e4, 1e6)),
        ("Rosenbrock", "oblique valley", rosenbrock, 0.0),
        ("ridge", "oblique valley", ridge, 0.0),
        ("cigar", "oblique valley", cigar, 0.0),
        ("Zakharov", "oblique valley", zakharov, 0.0),
        ("Rastrigin", "many minima", rastrigin, 0.0),
        ("Ackley", "many minima", ackley, 0.0),
        ("Griewank", "many minima", griewank, 0.0),
        ("Schwefel", "many minima", schwefel, 0.0),
        ("Styblinski-Tang", "many minima", styblinski, -39.16616570377142 * d),
        ("sphere + 1", "offset", lambda x: sphere(x) + 1, 1.0),
        ("sphere + 1e4", "offset", lambda x: sphere(x) + 1e4, 1e4),
        ("Rosenbrock + 1", "offset", lambda x: rosenbrock(x) + 1, 1.0),
        ("turned 1e2 + 1", "offset", lambda x: ellipsoid(1e2, rotation)(x) + 1, 1.0),
        ("Rastrigin - 330", "offset", lambda x: rastrigin(x) - 330, -330.0),
        ("floor of sphere", "rounded", lambda x: np.floor(sphere(x)), 0.0),
        ("sphere to 6 places", "rounded", lambda x: np.round(sphere(x), 6), 0.0),
        ("Ackley to 2 places", "rounded", lambda x: np.round(ackley(x), 2), 0.0),
        ("sphere + noise", "noise", lambda x: sphere(x) + 0.1 * rng.normal(size=len(x)), None),
        ("Ackley, 5 % noise", "noise", lambda x: ackley(x) * np.exp(0.05 * rng.normal(size=len(x))), None),
        ("sphere + 1, 1e-9", "noise", lambda x: (sphere(x) + 1) * (1 + 1e-9 * rng.normal(size=len(x))), None),
    ]
    return [Case(name, family, fun, [(-5.0, 5.0)] * d, minimum) for name, family, fun, minimum in functions]


def size(d: int, seed: int) -> int:
    return 100 if seed % 2 == 0 else 6 * d + 6


def stops(case: Case, seed: int, generations: int) -> tuple[float, ...]:
    """One run without a tolerance: stops, too early, missed and cost, by positions alone and by all rules."""
    d = len(case.bounds)
    n = size(d, seed)
    optimizer = ps.Optimizer(case.bounds, method=ps.PAO(), n_particles=n, rng=seed)
    best, ends, middle = [], [None, None], 0.0
    for generation in range(generations * 100 // n + 1):
        optimizer.tell(case.fun(optimizer.ask()))
        swarm, value = optimizer.swarm, float(optimizer.best.value)
        best.append(value)
        middle = middle if generation else float(np.median(swarm.value))
        rules = judge(swarm, optimizer.spread, optimizer.stale, 1e-12)
        for i, holds in enumerate((optimizer.spread < 1e-12, rules is not None and bool(rules))):
            if holds and ends[i] is None:
                ends[i] = generation
        if ends[0] is not None and ends[1] is not None and optimizer.spread < 1e-13:
            break  # nothing more happens
    scale = middle - best[-1]
    is_settled = best[len(best) // 2] - best[-1] <= 1e-9 * scale
    row: list[float] = []
    for end in ends:
        last = len(best) - 1 if end is None else end
        is_early = case.family != "noise" and best[last] - best[-1] > 1e-6 * scale
        row += [end is not None, is_early, end is None and is_settled, (last + 1) * n / d]
    return tuple(row)


def is_minimum(case: Case, result: ps.results.Result) -> bool:
    """Whether a thorough local search around the end of a run gains nothing."""
    x, value, d = result.x, result.fun, len(result.x)
    for reach in (0.05, 0.005):
        near = np.stack([np.maximum(x - reach, -5.0), np.minimum(x + reach, 5.0)], axis=1)
        settings = {"vectorized": True, "n_particles": 8 * d + 8, "maxiter": 150, "tol": 0, "rng": 0, "x0": x}
        found = ps.minimize(case.fun, near, method=COVARIANCE, **settings)
        x, value = (found.x, found.fun) if found.fun < value else (x, value)
    return result.fun - value <= 1e-9 * (result.history.mean[0] - value)


def convergence_table(runs: int) -> None:
    print("\nConvergence: stops / too early / missed in % / evaluations per unknown; by positions, then by all rules")
    rows: dict[str, list[tuple[float, ...]]] = {}
    for d in DIMENSIONS:
        for case in cases(d):
            rows.setdefault(case.family, []).extend(stops(case, seed, 600) for seed in range(runs))
    rows["all"] = [row for family in rows.values() for row in family]
    for family, found in rows.items():
        share, cost = 100 * np.mean(found, axis=0), np.median(found, axis=0)
        before, after = (
            f"{share[i]:.0f} / {share[i + 1]:.1f} / {share[i + 2]:.1f} / {cost[i + 3]:.0f}" for i in (0, 4)
        )
        print(f"| {family} | {len(found)} | {before} | {after} |", flush=True)


def minimum_table(runs: int) -> None:
    caught = missed = false = right = 0
    for d in DIMENSIONS:
        for case in cases(d):
            if case.family in ("noise", "rounded"):
                continue
            for seed in range(10, 10 + runs):
                result = ps.minimize(
                    case.fun,
                    case.bounds,
                    method=ps.PAO(),
                    vectorized=True,
                    n_particles=size(d, seed),
                    maxiter=800,
                    rng=seed,
                )
                if result.status not in (ps.results.Status.CONVERGED, ps.results.Status.STALLED):
                    continue
                says, is_right = result.status is ps.results.Status.CONVERGED, is_minimum(case, result)
                right, false = right + (says and is_right), false + (not says and is_right)
                caught, missed = caught + (not says and not is_right), missed + (says and not is_right)
    print(f"\nEnds that are no minimum: {caught} found, {missed} not found; minima: {right}, {false} of them doubted")


def kirby2() -> Case:
    y, x = np.array(KIRBY2.split(), dtype=float).reshape(2, -1)
    bounds = [(0.0, 10.0), (-1.0, 0.0), (0.0, 0.1), (-0.1, 0.0), (0.0, 1e-3)]

    def residual(b):
        return ((rational(b, x) - y) ** 2).sum(axis=1)

    return Case("Kirby2", "calibration", residual, bounds, float(residual(np.array([KIRBY2_CERTIFIED]))[0]))


def lotka_volterra() -> Case:
    """Two rates, two couplings and two initial values, from noisy data; the minimum is that of many runs."""

    def simulate(p):
        prey, hunters, out = p[:, 4], p[:, 5], []

        def rates(u, v):
            return p[:, 0] * u - p[:, 1] * u * v, p[:, 3] * u * v - p[:, 2] * v

        with np.errstate(all="ignore"):
            for step in range(151):
                if step % 5 == 0:
                    out.append(np.log(np.maximum(np.stack([prey, hunters], axis=1), 1e-12)))
                a = rates(prey, hunters)
                b = rates(prey + 0.05 * a[0], hunters + 0.05 * a[1])
                c = rates(prey + 0.05 * b[0], hunters + 0.05 * b[1])
                e = rates(prey + 0.1 * c[0], hunters + 0.1 * c[1])
                prey, hunters = (
                    u + 0.1 / 6 * (a[i] + 2 * b[i] + 2 * c[i] + e[i]) for i, u in enumerate((prey, hunters))
                )
        return np.stack(out, axis=1)

    data = simulate(np.array([[1.1, 0.4, 0.4, 0.1, 10.0, 5.0]]))[0]
    data = data + 0.05 * np.random.default_rng(0).normal(size=data.shape)

    def misfit(p):
        with np.errstate(all="ignore"):
            square = ((simulate(p) - data) ** 2).sum(axis=(1, 2))
        return np.where(np.isfinite(square), square, 1e6)

    bounds = [(0.1, 3.0), (0.05, 2.0), (0.05, 2.0), (0.01, 1.0), (1.0, 30.0), (1.0, 30.0)]
    return Case("Lotka-Volterra", "calibration", misfit, bounds, None)


def hint_table(runs: int) -> None:
    print("\nHints after 100 generations: runs, given where needed, given where not needed, harmful")
    found: dict[str, list[tuple[bool, bool, bool]]] = {}
    everything = [case for d in DIMENSIONS for case in cases(d)] + [kirby2(), lotka_volterra()]
    for case in everything:
        n_runs = runs if case.family != "calibration" else 2 * runs
        settings = {"vectorized": True, "n_particles": 100, "maxiter": 60 if case.minimum is None else 100}
        pairs = [
            [
                ps.minimize(case.fun, case.bounds, rng=seed, method=method, **settings)
                for method in (ps.PAO(), COVARIANCE)
            ]
            for seed in range(20, 20 + n_runs)
        ]
        lowest = min(one.fun for pair in pairs for one in pair) if case.minimum is None else case.minimum
        for plain, dense in pairs:
            excess, with_noise = plain.fun - lowest, dense.fun - lowest
            is_bad = excess > 1e-8 * (plain.history.mean[0] - lowest)
            is_needed = bool(is_bad and with_noise < 0.1 * excess and case.family != "noise")
            is_given = "noise.covariance" in plain.hint
            found.setdefault(case.family, []).append((is_needed, is_given, with_noise > excess))
    found["all"] = [row for family in found.values() for row in family]
    for family, rows in found.items():
        needed, given, worse = np.array(rows).T
        print(
            f"| {family} | {len(rows)} | {given[needed].sum()} of {needed.sum()} "
            f"| {given[~needed].sum()} of {(~needed).sum()} | {(given & worse).sum()} |",
            flush=True,
        )


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    convergence_table(runs)
    minimum_table(runs)
    hint_table(runs)


if __name__ == "__main__":
    main()
