"""How often the swarm's next step contains the minimum, and whether anything better can be said: ``docs/theory.md``.

It takes about two minutes. Every run of every function has its own minimum, away from the
middle of the box, and its own rotation. Coverage is counted per coordinate. Runs that converge before a budget is
reached are judged by their last swarm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from coverage_attempts import ATTEMPTS, Trace, newton_steps
from coverage_functions import FUNCTIONS, Function

import paoswarm as ps

RUNS = 20
BUDGETS = (10, 20, 40, 100, 200)  # generations of 100 particles
METHODS = {"default": ps.PAO(), "noise.covariance": ps.PAO(noise_scale=ps.noise.covariance)}
LEVELS = (0.5, 0.95)
TOLERANCE = 0.1  # ten points


class Cell(NamedTuple):
    """One function at one budget: where the minima lie, coordinate by coordinate of all runs."""

    places: np.ndarray  # values of the distribution function of the next step
    distances: dict[str, np.ndarray]  # from the leader, in units of what each attempt expects


def cells(function: Function, method: ps.PAO) -> dict[int, Cell]:
    """Run a function and look at it at every budget."""
    seen: dict[int, list[Cell]] = {budget: [] for budget in BUDGETS}
    for seed in range(RUNS):
        fun, minimum = function.instance(seed)
        bounds = [(-5, 5)] * function.d
        swarms: list[ps.Swarm] = []
        keep = lambda intermediate_result: swarms.append(intermediate_result.swarm)  # noqa: B023, E731
        ps.minimize(fun, bounds, method=method, maxiter=max(BUDGETS), vectorized=True, rng=seed, callback=keep)
        trace = Trace.of(swarms)
        for budget in BUDGETS:
            t = min(budget, len(swarms) - 1)
            law = ps.laws.NextStep(method.step_law(swarms[t]), swarms[t])
            now = trace.until(t, newton_steps(swarms[: t + 1], seed))
            away = np.abs(minimum - trace.leader[t])
            seen[budget].append(
                Cell(law.cdf(minimum), {name: away / attempt(now) for name, attempt in ATTEMPTS.items()})
            )
    return {
        budget: Cell(
            np.concatenate([run.places for run in runs]),
            {name: np.concatenate([run.distances[name] for run in runs]) for name in ATTEMPTS},
        )
        for budget, runs in seen.items()
    }


def table(results: dict[str, dict[int, Cell]]) -> None:
    """Print the share of minima inside the central 50 and 95 % of the next step."""
    print(f"{'% inside the central 50 / 95 %':<32}" + "".join(f"{budget:>12}" for budget in BUDGETS))
    right = []
    for name, by_budget in results.items():
        row = f"{name:<32}"
        for cell in by_budget.values():
            inside = np.array([np.mean(np.abs(cell.places - 0.5) <= level / 2) for level in LEVELS])
            row += f"{'{:.0f} / {:.0f}'.format(*100 * inside):>12}"
            right.append((np.abs(inside - LEVELS) <= TOLERANCE).all())
        print(row)
    print(f"within ten points at both levels: {sum(right)} of {len(right)}")


def judge(results: dict[str, dict[int, Cell]]) -> None:
    """Print how the attempts do on every second function, with factors chosen on the others."""
    names = list(results)
    chosen_on, held_out = ([c for name in part for c in results[name].values()] for part in (names[::2], names[1::2]))
    print(f"\n{'attempt (functions held out)':<30}{'factors':>18}{'mean':>12}{'50 % from-to':>14}{'within ten':>12}")
    for attempt in ATTEMPTS:
        factors = [factor(chosen_on, attempt, level) for level in LEVELS]
        inside = np.array([[np.mean(cell.distances[attempt] <= k) for k in factors] for cell in held_out])
        is_right = (np.abs(inside - LEVELS) <= TOLERANCE).all(axis=1)
        low, high = np.quantile(inside[:, 0], [0.1, 0.9])
        mean = inside.mean(axis=0)
        print(
            f"{attempt:<30}{f'{factors[0]:.2g}, {factors[1]:.2g}':>18}{f'{mean[0]:.0%} / {mean[1]:.0%}':>12}"
            f"{f'{low:.0%}-{high:.0%}':>14}{is_right.mean():>12.0%}"
        )
    print(f"{'an exact interval would have':<30}{exact_share(held_out):>56.0%}")


def factor(cells: list[Cell], attempt: str, level: float) -> float:
    """The factor that makes the mean coverage of some cells right."""
    sorted_distances = [np.sort(cell.distances[attempt]) for cell in cells]
    factors = np.geomspace(1e-3, 1e9, 2000)
    inside = np.mean([np.searchsorted(d, factors, side="right") / len(d) for d in sorted_distances], axis=0)
    return float(factors[min(np.searchsorted(inside, level), len(factors) - 1)])


def exact_share(cells: list[Cell]) -> float:
    """The share of cells that an exact interval would have within ten points, if coordinates were independent."""
    rng = np.random.default_rng(1)
    shares = []
    for cell in cells:
        places = rng.random((2000, len(cell.places)))
        inside = np.stack([np.mean(np.abs(places - 0.5) <= level / 2, axis=1) for level in LEVELS], axis=-1)
        shares.append(np.mean((np.abs(inside - LEVELS) <= TOLERANCE).all(axis=1)))
    return float(np.mean(shares))


def main() -> None:
    """Run everything and print the tables."""
    for label, method in METHODS.items():
        print(f"\nPAO, {label}: {RUNS} runs, budgets in generations of 100 particles")
        results = {function.name: cells(function, method) for function in FUNCTIONS}
        table(results)
        judge(results)


if __name__ == "__main__":
    main()
