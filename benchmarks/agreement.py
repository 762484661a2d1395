"""How often the default search is right when it says that it has found the minimum.

    python benchmarks/agreement.py measure bbob --seeds 1-2      # what is done already is not run again
    python benchmarks/agreement.py table                         # prints the tables of docs/adaptive_theory.md

A run goes on to 10,000 evaluations for each unknown, or until h >= 5 + 2 sqrt(m), and every search is recorded. So any
weaker rule about the end can be replayed afterwards, see `agreement_rules.py`. A value is *right* if it is at most
1e-6 max(1, |f*|) above the minimum f*. Half of the problems are for choosing rules, half for reporting them.

Every run is a line of JSON in ``benchmarks/results/agreement.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from pathlib import Path

import numpy as np
from agreement_problems import PROBLEMS
from agreement_rules import is_right, tables

import paoswarm as ps
from paoswarm.core.swarm import spread
from paoswarm.methods.dense_learning import longest
from paoswarm.methods.dense_pao import DenseMemory
from paoswarm.methods.sharing import NOBODY, laid_open

RESULTS = Path(__file__).parent / "results" / "agreement.jsonl"
MOST = 10_000  # evaluations for each unknown
NEAR = 1e-3  # root mean square distance within which two ends are the same place
EXTENTS = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5)  # of swarms that could be recognised as going to a known place


class Watch:
    """Notes when each search could have been recognised as one that goes to a known place."""

    def __init__(self, low, width):
        self.low, self.width = low, width
        self.notes: dict[int, dict[str, list]] = {}

    def look(self, lane, ended):
        """Note it, for a search under way; ``ended`` are the searches before it."""
        notes = self.notes.setdefault(lane.search, {})
        if not ended or len(notes) == len(EXTENTS):
            return
        swarm, memory = lane.swarm, lane.swarm.memory
        if isinstance(memory, DenseMemory):
            extent, centre = longest(memory.law), memory.law.centre
        else:
            extent, centre = float(spread(swarm, ps.PAO().wall.unroll)), (swarm.global_best[0] - self.low) / self.width
        new = [one for one in EXTENTS if extent < one and str(one) not in notes]
        if not new:
            return
        places = np.array([(one.x - self.low) / self.width for one in ended])
        apart = np.sqrt(np.mean((places - np.ravel(centre)) ** 2, axis=1))
        nearest = int(np.argmin(apart))
        if apart[nearest] < NEAR:
            for one in new:
                notes[str(one)] = [lane.used, lane.value, nearest]


def _is_certain(optimizer):
    """Whether every rule that is compared has ended the run."""
    known = None if optimizer.swarm is None else optimizer.agreement
    return known is not None and known.n_here >= 5 + 2 * math.sqrt(known.n_places)


def run(problem, seed, most=MOST):
    """One run to the end of its budget: its searches, and when the minimum was reached first."""
    bounds = np.asarray(problem.bounds, dtype=float)
    d = len(bounds)
    method = ps.AdaptivePAO()
    optimizer = ps.Optimizer(bounds, method=method, n_particles=method.default_particles(d), rng=seed)
    watch = Watch(bounds[:, 0], bounds[:, 1] - bounds[:, 0])
    first: dict[int, list[float]] = {}  # best and median of the first swarm of each search
    searches, hit, began = [], None, time.process_time()
    while optimizer.nfev < most * d and not _is_certain(optimizer):
        known, number = (), 0  # searches that have ended, and the one that moves now
        if optimizer.swarm is not None:
            before = optimizer.swarm.memory
            known = before.searches
            number = before.n_begun if before.shown == NOBODY else before.lanes[before.shown].search
        x = optimizer.points()
        values = problem.fun(x)
        if hit is None and is_right(np.nanmin(values), problem.minimum):
            hit = optimizer.nfev + 1 + int(np.nanargmin(values))
        optimizer.take(values)
        sharing = laid_open(optimizer.swarm)
        if number not in first:
            first[number] = [float(np.nanmin(values)), float(np.nanmedian(values))]
        for lane in sharing.lanes:
            if lane.search == number:
                watch.look(lane, known)
        if len(sharing.searches) > len(known):
            one = sharing.searches[-1]
            place = ((one.x - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])).round(9).tolist()
            searches.append(
                {
                    "series": one.series,
                    "n": one.n_particles,
                    "evaluations": one.evaluations,
                    "at": optimizer.nfev,
                    "value": one.value,
                    "ending": one.ending,
                    "x": place,
                    "first": first[number],
                    "contracted": watch.notes[number],
                }
            )
    return {
        "d": d,
        "minimum": problem.minimum,
        "value": float(optimizer.best.value),
        "hit": hit,
        "evaluations": optimizer.nfev,
        "searches": searches,
        "seconds": round(time.process_time() - began, 2),
    }


def in_order(sets):
    """All problems, few unknowns first, then in an order that makes the first half of a measurement representative."""
    found = [(name, one) for name in sets for one in PROBLEMS[name]()]
    return sorted(found, key=lambda pair: (len(pair[1].bounds), zlib.crc32(f"{pair[1].name}".encode()[::-1])))


def read(path=RESULTS):
    lines = path.read_text().splitlines() if path.exists() else []
    return {row["key"]: row for row in map(json.loads, lines)}


def measure(sets, seeds, path=RESULTS):
    """Run what is missing."""
    known = read(path)
    path.parent.mkdir(exist_ok=True)
    for seed in seeds:
        for name, problem in in_order(sets):
            label = f"{name}|{problem.name}|{len(problem.bounds)}|{seed}"
            if label in known:
                continue
            kind = "many" if problem.is_multimodal else "one"
            row = {"key": label, "set": name, "function": problem.family, "minima": kind} | run(problem, seed)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(f"seed {seed}", flush=True)


def numbers(text):
    """Numbers such as 1,2,5-7."""
    parts = [part.split("-") for part in text.split(",")]
    return [number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["measure", "table"])
    parser.add_argument("sets", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--seeds", type=numbers, default=[1])
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.task == "measure":
        measure(given.sets, given.seeds, given.results)
    else:
        tables(given.results)
