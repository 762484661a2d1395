"""How much each constant of the search for modes, and of the adaptation, matters.

Run with ``python benchmarks/constants.py --write docs/sampling_constants.md``. Each constant is halved and doubled, the
others keep their values. A constant of the search is judged by searches for the modes of random mixtures, as in
``modes.py``, and of a few named posteriors. A constant of the adaptation is judged by runs of `sample`. Every number is
relative to the same runs with all constants as they are:

- missed: modes that hold at least 3 % of the mass and are expected to be hit by a first draw, but were not found; or
  for `sample`, log evidences that are off by more than 0.2,
- doubts: searches that say that modes may be missing; or for `sample`, runs that are not a success,
- the ratio of likelihood evaluations.

``--write`` updates the rows of a page: value, meaning (the comment in the source) and effects. It keeps what the page
says about the origin.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import modes
import numpy as np
from evidence import separable
from posterior_problems import load
from scipy.special import logsumexp

import paoswarm as ps
from paoswarm.sampling.search import explore
from paoswarm.sampling.starts import Draws
from paoswarm.sampling.target import Target

SEARCH = ["search", "climbs", "starts"]
FILES = [*SEARCH, "adapt"]
LATE = ["_HEAVY", "_EXPLAINED"]  # of starts.py, but used by the adaptation
MAXFEV = 60_000
MIXTURES = 8  # of each family
LARGEST = 5  # dimensions of a mixture, so that a run takes seconds
SAMPLED = ["misra1a", "spike5", "rosenbrock2", "kirby2", "shells2", "shells5", "funnel10"]
OFF = 0.2  # of a log evidence, beyond which it is wrong


class Case(NamedTuple):
    """A posterior, a label for each point that says to which mode it belongs, and the labels of modes to find."""

    log_likelihood: Callable[[np.ndarray], np.ndarray]
    prior: list[Any]
    label: Callable[[np.ndarray], np.ndarray]
    wanted: set[int]


class Score(NamedTuple):
    """What a set of runs has come to."""

    missed: int
    doubts: int
    evaluations: int


def mixtures() -> Iterator[Case]:
    for family in modes.FAMILIES:
        seed = n = 0
        while n < MIXTURES:
            rng = np.random.default_rng([79, seed])
            posed = modes.pose(family, rng)
            seed += 1
            if posed.dim > LARGEST:
                continue
            n += 1
            basin = modes.shares(posed, rng.uniform(-modes.HALF, modes.HALF, (50_000, posed.dim)))
            drawn = posed.draw(20_000, rng)
            mass = modes.shares(posed, drawn[(np.abs(drawn) < modes.HALF).all(axis=1)])
            wanted = np.flatnonzero((mass > 0.03) & (1000 * posed.dim * basin >= 1))
            yield Case(
                lambda x, posed=posed: logsumexp(posed.log_parts(x), axis=1),
                [(-modes.HALF, modes.HALF)] * posed.dim,
                lambda x, posed=posed: posed.log_parts(x).argmax(axis=1),
                set(wanted.tolist()),
            )


def nearest(places: list[list[float]], reach: float) -> Callable[[np.ndarray], np.ndarray]:
    """Label points by the place that lies within reach, -1 if there is none."""

    def label(x: np.ndarray) -> np.ndarray:
        away = np.abs(x[:, None] - np.array(places)).max(axis=2)
        return np.where(away.min(axis=1) < reach, away.argmin(axis=1), -1)

    return label


def named() -> Iterator[Case]:
    def case(name: str, label: Callable[[np.ndarray], np.ndarray], wanted: set[int]) -> Case:
        problem = separable(name) if name.startswith(("rast", "schw", "peaks")) else load(name)
        return Case(problem.log_likelihood, problem.prior, label, wanted)

    yield case("peaks8", lambda x: (x > 0) @ np.array([1, 2, 4]), set(range(8)))
    yield case("shells2", lambda x: (x[:, 0] > 0).astype(int), {0, 1})
    yield case("rosenbrock2", nearest([[1, 1]], 2.0), {0})
    yield case("three6", nearest([[-6] * 6, [0] * 6, [6] * 6], 2.0), {0, 1, 2})
    yield case("thurber", lambda x: np.zeros(len(x), dtype=int), {0})
    yield case("rastrigin3", nearest([[1.3] * 3], 0.3), {0})
    yield case("schwefel5", nearest([[420.97] * 5], 10.0), {0})


def search(case: Case) -> Score:
    rng = np.random.default_rng(1)
    target = Target(case.log_likelihood, case.prior, MAXFEV)
    z = target.draw_prior(1000 * min(target.dim, 10), rng)
    draws = Draws(z, target.height(z))
    first = target.n_evaluations
    found = explore(target, draws, np.empty((0, target.dim)), MAXFEV // 4, rng)
    places = np.array([mode.z for mode in found.modes if mode.is_settled]).reshape(-1, target.dim)
    labels = set(case.label(target.parameters(places)).tolist())
    return Score(len(case.wanted - labels), bool(found.incomplete), target.n_evaluations - first)


def adaptation(name: str) -> Score:
    problem = load(name)
    found = ps.sample(problem.log_likelihood, problem.prior, vectorized=True, maxfev=MAXFEV, rng=1)
    is_off = not abs(found.log_evidence - problem.log_evidence) < OFF
    return Score(is_off, not found.success, found.n_evaluations)


def run(is_search: bool, cases: list[Case]) -> Score:
    rows = [search(case) for case in cases] if is_search else [adaptation(name) for name in SAMPLED]
    return Score(*map(int, np.sum(rows, axis=0)))


def constants(file: str) -> Iterator[tuple[ModuleType, str, str]]:
    """Module, name and comment of the numeric constants of a file of ``paoswarm.sampling``."""
    module = importlib.import_module(f"paoswarm.sampling.{file}")
    text = Path(module.__file__).read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.strip("_").isupper() and not isinstance(getattr(module, name), str):
                yield module, name, text.splitlines()[node.lineno - 1].partition("  # ")[2]


def scaled(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(scaled(each, factor) for each in value)
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def shown(value: Any) -> str:
    return ", ".join(f"{each:g}" for each in (value if isinstance(value, tuple) else (value,)))


def compared(score: Score, usual: Score) -> str:
    """How a score differs from the usual one."""
    parts = []
    if score.missed != usual.missed:
        parts.append(f"{score.missed - usual.missed:+d} missed")
    if score.doubts != usual.doubts:
        parts.append(f"{score.doubts - usual.doubts:+d} doubts")
    ratio = f"{score.evaluations / usual.evaluations:.2f}"
    return ", ".join(parts + ([f"× {ratio}"] if ratio != "1.00" else [])) or "="


def measure(file: str, only: list[str], cases: list[Case]) -> Iterator[tuple[str, list[str]]]:
    """Names of constants, with the cells of their row: value, meaning, half, double."""
    usual: dict[bool, Score] = {}
    for module, name, meaning in constants(file):
        if only and name not in only:
            continue
        is_search = file in SEARCH and name not in LATE
        if is_search not in usual:
            usual[is_search] = run(is_search, cases)
            print(usual[is_search], flush=True)
        value = getattr(module, name)
        effects = []
        for factor in (0.5, 2.0):
            setattr(module, name, scaled(value, factor))
            try:
                effects.append(compared(run(is_search, cases), usual[is_search]))
            except Exception as error:  # a value that makes no sense fails, and the table says so
                effects.append(f"fails ({type(error).__name__})")
            finally:
                setattr(module, name, value)
        yield f"{file}.{name}", [shown(value), meaning, *effects]


def update(page: Path, name: str, cells: list[str]) -> None:
    """Write the cells into the row of a constant; a new row comes after the last of its file."""
    value, meaning, half, double = cells
    lines = page.read_text().splitlines()
    rows = {m[1]: i for i, line in enumerate(lines) if (m := re.match(r"\| `([\w.]+)` \|", line))}
    origin = lines[rows[name]].split(" | ")[3] if name in rows else "?"
    row = f"| `{name}` | {value} | {meaning} | {origin} | {half} | {double} |"
    if name in rows:
        lines[rows[name]] = row
    else:
        lines.insert(max(i for other, i in rows.items() if other.split(".")[0] == name.split(".")[0]) + 1, row)
    page.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", nargs="+", choices=FILES, default=FILES)
    parser.add_argument("--constants", nargs="+", default=[], help="names, to measure only these")
    parser.add_argument("--write", type=Path, help="page to update")
    options = parser.parse_args()
    cases = [*mixtures(), *named()]
    for file in options.files:
        for name, cells in measure(file, options.constants, cases):
            print(f"{name:<35} {cells[0]:<24} {cells[2]:<30} {cells[3]}", flush=True)
            if options.write is not None:
                update(options.write, name, cells)


if __name__ == "__main__":
    main()
