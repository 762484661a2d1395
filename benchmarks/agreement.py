"""How often the default search is right when it says that it has found the minimum, and what the claim costs.

    python benchmarks/agreement.py measure --instances 101 --dims 2,3,5,10      # what is done already is not run again
    python benchmarks/agreement.py table                                        # prints the tables of the docs

A run may use 2000 evaluations for each unknown. It *claims* the minimum if it ends before, because its searches agree.
The value is *right* if it is at most 1e-6 above the minimum (of classic functions times the size of the minimum, if
that is larger: the literature rounds). The *cost* of a right claim is the evaluations of the run over those until the
first right value. Instances to 100 are for choosing rules, others for reporting. Of the classic functions, every
second is for either.

Every run is a line of JSON in ``benchmarks/results/agreement.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from classics import HELD_OUT, TUNING

import paoswarm as ps
from paoswarm.problems.bbob import bbob

RESULTS = Path(__file__).parent / "results" / "agreement.jsonl"
MOST = 2000  # evaluations for each unknown
LAST_TUNED = 100  # instance
BBOB = ("bbob separable", 5), ("bbob moderate", 9), ("bbob ill", 14), ("bbob many minima", 19), ("bbob weak", 24)


class Known(NamedTuple):
    """A function with its minimum."""

    family: str
    name: str
    fun: Callable[[np.ndarray], np.ndarray]
    bounds: np.ndarray
    minimum: float
    near: float = 1e-6  # to the minimum, for a value to be right

    @property
    def d(self) -> int:
        """Number of unknowns."""
        return len(self.bounds)


def from_bbob(instance: int, d: int) -> Iterator[Known]:
    """COCO's 24 functions."""
    for number in range(1, 25):
        family = next(name for name, last in BBOB if number <= last)
        one = bbob(number, d, [instance]).instance(0)
        yield Known(family, f"f{number}", one, one.bounds, one.minimum)


def from_classics(instance: int, d: int) -> Iterator[Known]:
    """Half of the classic functions; they have no instances, only seeds."""
    for one in TUNING if instance <= LAST_TUNED else HELD_OUT:
        if one.dim == d:
            many = one.function.__module__.endswith("many_minima") or one.function.__module__.endswith("fits")
            family = "classics, many minima" if many else "classics, valleys"
            yield Known(family, one.name, one, one.bounds, one.minimum, 1e-6 * max(1.0, abs(one.minimum)))


def hierarchical(instance: int, d: int) -> Iterator[Known]:
    """Funnels of different widths and depths with ripples: the widest funnel is not the deepest."""
    for n_funnels in (2, 4):
        rng = np.random.default_rng([instance, d, n_funnels])
        centres = rng.uniform(0.15, 0.85, (n_funnels, d))
        depth = np.append(0.0, rng.uniform(0.05, 0.5, n_funnels - 1))
        width = np.append(rng.uniform(0.7, 1.0), rng.uniform(0.8, 1.5, n_funnels - 1))
        for ripple in (0.0, 0.02):

            def fun(x, centres=centres, depth=depth, width=width, ripple=ripple):
                away = x[:, None] - centres
                bowls = np.square(away).mean(axis=2) / width**2 * 4 + depth
                waves = ripple * (1 - np.cos(8 * np.pi * away)).mean(axis=2)
                return (bowls + waves).min(axis=1)

            name = f"{n_funnels} funnels, ripples {ripple:g}"
            yield Known("hierarchical", name, fun, np.array([(0.0, 1.0)] * d), 0.0)


def holes(instance: int, d: int) -> Iterator[Known]:
    """A deep hole in a bowl; its standard deviation is a share of the bounds."""
    for width in (0.01, 0.03, 0.1):
        rng = np.random.default_rng([instance, d])
        bowl, hole = rng.uniform(0.3, 0.45, d), rng.uniform(0.6, 0.9, d)

        def fun(x, width=width, bowl=bowl, hole=hole):
            deep = np.exp(-0.5 * np.square((x - hole) / width).sum(axis=-1))
            return np.square(x - bowl).sum(axis=-1) * (1 - deep) - deep

        yield Known("hole in a bowl", f"hole {width:g}", fun, np.array([(0.0, 1.0)] * d), -1.0)


SETS = from_bbob, from_classics, hierarchical, holes


def run(problem: Known, seed: int, most: int = MOST) -> dict:
    """One run of the default search."""
    n_evaluated, hit = 0, None

    def watched(x):
        nonlocal n_evaluated, hit
        values = problem.fun(x)
        is_right = values - problem.minimum <= problem.near
        if hit is None and is_right.any():
            hit = n_evaluated + 1 + int(np.argmax(is_right))
        n_evaluated += len(x)
        return values

    began = time.process_time()
    result = ps.minimize(watched, problem.bounds, vectorized=True, rng=seed, maxfev=most * problem.d)
    return {
        "is_claimed": result.status is ps.results.Status.CONVERGED,
        "gap": float(result.fun - problem.minimum),
        "near": problem.near,
        "hit": hit,
        "evaluations": result.nfev,
        "seconds": round(time.process_time() - began, 2),
        "said": result.message,
    }


def read(path: Path) -> dict[str, dict]:
    """The runs in a file, by their keys."""
    return {row["key"]: row for row in map(json.loads, path.read_text().splitlines())} if path.exists() else {}


def measure(instances: list[int], dims: list[int], path: Path) -> None:
    """Run what is missing."""
    known = read(path)
    path.parent.mkdir(exist_ok=True)
    for instance in instances:
        for problem in (one for d in dims for problems in SETS for one in problems(instance, d)):
            key = f"{problem.family}|{problem.name}|{problem.d}|{instance}"
            if key not in known:
                row = {"key": key, "family": problem.family, "d": problem.d, "instance": instance}
                with path.open("a") as file:
                    file.write(json.dumps(row | run(problem, instance)) + "\n")


def line(name: str, rows: list[dict]) -> str:
    """Claims, false ones, and right values without a claim; median and third quartile of the cost."""
    claims = [row for row in rows if row["is_claimed"]]
    false = sum(row["gap"] > row["near"] for row in claims)
    missed = sum(row["gap"] <= row["near"] and not row["is_claimed"] for row in rows)
    cost = [row["evaluations"] / row["hit"] for row in claims if row["hit"] and row["gap"] <= row["near"]]
    middle, third = np.quantile(cost, [0.5, 0.75]) if cost else (np.nan, np.nan)
    return f"| {name} | {len(rows)} | {len(claims)} | {false} | {missed} | {middle:.1f} | {third:.1f} |"


def table(path: Path) -> None:
    """The tables: by family, and all but the holes."""
    for name, is_reported in (("for choosing rules", False), ("for reporting", True)):
        rows = [row for row in read(path).values() if (row["instance"] > LAST_TUNED) is is_reported]
        print(f"\nInstances {name}\n| problems | runs | claims | false | missed | cost | third quartile |")
        print("|---" * 7 + "|")
        for family in dict.fromkeys(row["family"] for row in rows):
            print(line(family, [row for row in rows if row["family"] == family]))
        print(line("all but holes", [row for row in rows if not row["family"].startswith("hole")]))


def numbers(text: str) -> list[int]:
    """Numbers such as 1,2,5-7."""
    parts = [part.split("-") for part in text.split(",")]
    return [number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["measure", "table"])
    parser.add_argument("--instances", type=numbers, default=[101])
    parser.add_argument("--dims", type=numbers, default=[2, 3, 5, 10])
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.task == "measure":
        measure(given.instances, given.dims, given.results)
    table(given.results)
