"""The sets of problems of `search.py`, as cases: a problem, a seed, a budget and targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from calibrations import CALIBRATIONS
from classics import CLASSICS, TUNING
from regressions import MODELS, read
from searchers import TOLD

from paoswarm import problems
from paoswarm.problems.bbob import bbob

LIMITS = (200, 2000, 10_000)  # of bbob: evaluations for each unknown
BBOB_TARGETS = 10.0 ** (2 - 0.2 * np.arange(51))
PAPER_DIM, PAPER_BUDGET = 8, 10_100  # 100 particles, at first and in 100 generations
PAPER_CHANGES = ("", "-shifted1", "-shifted1-rotated1")


class Case(NamedTuple):
    """One problem, to be searched once by each search."""

    kind: str  # name of the set
    function: str
    dim: int
    instance: int  # seed of the search; for bbob the instance of the function
    limit: int  # of evaluations as it stands in the key: for each unknown in bbob, in all elsewhere
    group: str  # the part of the tables to which it belongs
    targets: Sequence[float]  # distances from the minimum, falling
    make: Callable[[], Any]  # the problem: it has bounds, a minimum and values

    def key(self, search):
        """What identifies a run; bbob's has no name of the set in front."""
        kind = "" if self.kind == "bbob" else f"{self.kind}:"
        return f"{kind}{search}|{self.function}|{self.dim}|{self.instance}|{self.limit}"

    def run(self, search, known):
        """The run of a search that is there, or None; in bbob, one with a larger limit will do, unless it was told."""
        is_prefix = self.kind == "bbob" and search not in TOLD
        limits = [one for one in LIMITS if one > self.limit] if is_prefix else []
        keys = (self._replace(limit=limit).key(search) for limit in (self.limit, *limits))
        return next((known[key] for key in keys if key in known), None)

    @property
    def budget(self):
        """Evaluations."""
        return self.limit * self.dim if self.kind == "bbob" else self.limit

    @property
    def seed(self):
        """Seed of the search."""
        return 1000 * self.instance + int(self.function) if self.kind == "bbob" else self.instance


def bbob_cases(dims, instances, functions, limits):
    """COCO's 24 functions, instance by instance."""
    return [
        Case("bbob", str(f), d, i, limit, "", BBOB_TARGETS, partial(_bbob, f, d, i))
        for i in instances
        for d in dims
        for f in functions
        for limit in limits
    ]


def _bbob(function, dim, instance):
    return bbob(function, dim, [instance]).instance(0)


def classic_cases(seeds):
    """Classic functions, 2000 evaluations for each unknown, to within 1e-6 of the minimum, relative beyond 1."""
    tuning = {id(one) for one in TUNING}
    cases = []
    for seed in seeds:
        for one in CLASSICS:
            half = "tuning" if id(one) in tuning else "held out"
            targets = [1e-6 * max(1, abs(one.minimum))]
            cases.append(Case("classic", one.name, one.dim, seed, 2000 * one.dim, half, targets, partial(_same, one)))
    return cases


def nist_cases(seeds):
    """Regressions, 20,000 evaluations, to within 1e-4 of the certified residual sum of squares."""
    return _fits("nist", [read(name) for name in MODELS], seeds, lambda dim: 20_000, 1e-4)


def ode_cases(seeds):
    """Calibrations, 2000 evaluations for each unknown, to within one percent of the best value that is known."""
    return _fits("ode", CALIBRATIONS, seeds, lambda dim: 2000 * dim, 0.01)


def _fits(kind, fits, seeds, budget, tolerance):
    cases = []
    for seed in seeds:
        for one in fits:
            dim = len(one.bounds)
            targets = [tolerance * one.minimum]
            cases.append(Case(kind, one.name, dim, seed, budget(dim), one.name, targets, partial(_same, one)))
    return cases


def _same(problem):
    return problem


def paper_cases(seeds):
    """The paper's nine functions, as printed, moved, and moved and turned."""
    return [
        Case(
            "paper",
            name + change,
            PAPER_DIM,
            seed,
            PAPER_BUDGET,
            change,
            [1e-8],
            partial(problems.get, name + change, PAPER_DIM),
        )
        for seed in seeds
        for change in PAPER_CHANGES
        for name in problems.names
    ]


SEEDED = {"classic": classic_cases, "nist": nist_cases, "ode": ode_cases, "paper": paper_cases}
