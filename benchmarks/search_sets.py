"""The sets of problems of `search.py`, as cases: a problem, a seed, a budget and targets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from calibrations import CALIBRATIONS
from classics import CLASSICS, TUNING
from regressions import MODELS, read

from paoswarm import problems
from paoswarm.problems.bbob import bbob

BBOB_TARGETS = 10.0 ** (2 - 0.2 * np.arange(51))
PAPER_DIM, PAPER_BUDGET = 8, 10_100  # 100 particles, at first and in 100 generations


class Case(NamedTuple):
    """One problem, to be searched once by each search."""

    kind: str  # name of the set
    function: str
    dim: int
    instance: int  # seed of the search; for bbob the instance of the function
    limit: int  # of evaluations as it stands in the key: for each unknown in bbob, in all elsewhere
    budget: int  # evaluations
    seed: int
    group: str  # of which line of the tables it is part
    make: Any  # -> a problem with bounds, minimum and values
    targets: Any  # distances from the minimum, for a given problem

    def key(self, search):
        """What identifies a run; bbob's has no name of the set in front."""
        kind = "" if self.kind == "bbob" else f"{self.kind}:"
        return f"{kind}{search}|{self.function}|{self.dim}|{self.instance}|{self.limit}"


def bbob_cases(dims, instances, functions, budget):
    """COCO's 24 functions, instance by instance."""
    return [
        Case(
            "bbob", str(f), d, i, budget, budget * d, 1000 * i + f, "",
            lambda f=f, d=d, i=i: bbob(f, d, [i]).instance(0), lambda _: BBOB_TARGETS,
        )  # fmt: skip
        for i in instances for d in dims for f in functions
    ]  # fmt: skip


def classic_cases(seeds):
    """Classic functions, 2000 evaluations for each unknown, to within 1e-6 of the minimum, relative beyond 1."""
    tuning = {id(one) for one in TUNING}
    return [
        Case(
            "classic", one.name, one.dim, seed, 2000 * one.dim, 2000 * one.dim, seed,
            "tuning" if id(one) in tuning else "held out",
            lambda one=one: one, lambda one: [1e-6 * max(1, abs(one.minimum))],
        )  # fmt: skip
        for seed in seeds for one in CLASSICS
    ]  # fmt: skip


def nist_cases(seeds):
    """Regressions, 20,000 evaluations, to within 1e-4 of the certified residual sum of squares."""
    fits = [read(name) for name in MODELS]
    return [
        Case(
            "nist", one.name, len(one.bounds), seed, 20_000, 20_000, seed, one.name,
            lambda one=one: one, lambda one: [1e-4 * one.minimum],
        )  # fmt: skip
        for seed in seeds for one in fits
    ]  # fmt: skip


def ode_cases(seeds):
    """Calibrations, 2000 evaluations for each unknown, to within one percent of the best value that is known."""
    return [
        Case(
            "ode", one.name, len(one.bounds), seed, 2000 * len(one.bounds), 2000 * len(one.bounds), seed, one.name,
            lambda one=one: one, lambda one: [0.01 * one.minimum],
        )  # fmt: skip
        for seed in seeds for one in CALIBRATIONS
    ]  # fmt: skip


def paper_cases(seeds):
    """The paper's nine functions, as printed, moved, and moved and turned."""
    return [
        Case(
            "paper", name + change, PAPER_DIM, seed, PAPER_BUDGET, PAPER_BUDGET, seed, change,
            lambda name=name + change: problems.get(name, PAPER_DIM), lambda _: [1e-8],
        )  # fmt: skip
        for seed in seeds for change in ("", "-shifted1", "-shifted1-rotated1") for name in problems.names
    ]  # fmt: skip


SEEDED = {"classic": classic_cases, "nist": nist_cases, "ode": ode_cases, "paper": paper_cases}
