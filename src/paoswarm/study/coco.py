"""Experiments on COCO's suites, logged by COCO's own observer, for its post-processing ``cocopp``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paoswarm._extras import ProgressBar, need
from paoswarm.algorithms.method import Method
from paoswarm.core.random import Seed, spawn
from paoswarm.evaluation.constraints import Constraint
from paoswarm.study.whole_budget import name_of, read_budget, spend


def run_coco(
    suite: Any,
    method: Method | str | None = None,
    *,
    budget_multiplier: int = 100,
    name: str | None = None,
    out: str | Path = "exdata",
    batch: tuple[int, int] = (0, 1),
    progress: bool = False,
    rng: Seed = 0,
) -> Path:
    """Run a method on a suite of COCO, and log it with COCO's observer.

    Points are evaluated one at a time, in the order in which the method asks for them. A run ends when the budget is
    spent or COCO's final target is hit. Methods that converge before are started again.

    Parameters
    ----------
    suite : str or cocoex.Suite
        ``"bbob"``, ``"bbob-mixint"``, ``"bbob-constrained"``, ``"bbob-noisy"``, ``"bbob-largescale"``, or part of one:
        ``cocoex.Suite("bbob", "", "dimensions: 2,5")``.
    method : Method, str or None
        As in `minimize`.
    budget_multiplier : int
        Evaluations of a problem, divided by its number of variables.
    name : str, optional
        What the algorithm is called in tables and figures. None: the name of the method.
    out : path
        The folder in which the folder with the data is made.
    batch : (int, int)
        ``(i, n)``: only every n-th problem, beginning with number i. So n processes share an experiment. Each writes a
        folder of its own; give all of them to ``cocopp`` after moving them into one folder.
    progress : bool
        Whether to show a progress bar.
    rng : int, Generator, SeedSequence or None
        Seed. Each problem has a stream of its own, so batches do not change the runs.

    Returns
    -------
    Path
        The folder with the data: ``cocopp.main(str(folder))`` makes tables and figures of it.
    """
    cocoex = need("cocoex", extra="bbob", user="run_coco")
    if isinstance(suite, str):
        if suite not in cocoex.known_suite_names:
            raise ValueError(f"COCO has no suite {suite!r}; it has {', '.join(cocoex.known_suite_names)}")
        suite = cocoex.Suite(suite, "", "")
    first, every = batch
    if not 0 <= first < every:
        raise ValueError(f"batch must be (i, n) with 0 <= i < n, got {batch!r}")
    label = name_of(method, name)
    part = "" if every == 1 else f"_batch{first:03d}of{every}"
    options = {
        "outer_folder": Path(out).as_posix(),
        "result_folder": "".join(c if c.isalnum() or c in "-_." else "_" for c in label) + part,
        "algorithm_name": label.replace(" ", "_"),
    }
    level = cocoex.log_level("warning")  # it would print where the data is
    try:
        observer = cocoex.Observer(suite.name, " ".join(f"{key}: {value}" for key, value in options.items()))
    finally:
        cocoex.log_level(level)
    numbers = range(first, len(suite), every)
    seeds = spawn(rng, len(suite))
    with ProgressBar(progress, len(numbers), unit="problem") as bar:
        for number in numbers:
            problem = suite.get_problem(number, observer)
            try:
                _run(problem, method, budget_multiplier, seeds[number])
            finally:
                problem.free()  # writes the end of its data
            bar.count()
    return Path(observer.result_folder)


def _run(problem: Any, method: Method | str | None, budget_multiplier: int, seed: Any) -> None:
    """One run on one problem."""
    if problem.number_of_objectives != 1:
        raise ValueError(f"{problem.id} has {problem.number_of_objectives} objectives; only one can be minimised")
    d = problem.dimension
    whole = np.arange(d) < problem.number_of_integer_variables
    limits = Constraint(problem.constraint, name="COCO") if problem.number_of_constraints else ()
    spend(
        problem,
        np.stack([problem.lower_bounds, problem.upper_bounds], axis=1),
        method,
        read_budget(budget_multiplier, d),
        rng=seed,
        is_done=lambda: bool(problem.final_target_hit),
        integrality=whole if whole.any() else None,
        constraints=limits,
    )
