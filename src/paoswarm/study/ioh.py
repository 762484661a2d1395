"""Experiments that are logged by IOHexperimenter, for IOHanalyzer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from paoswarm._checks import whole_number
from paoswarm._extras import ProgressBar, need
from paoswarm.algorithms.method import Method
from paoswarm.core.random import Seed, spawn
from paoswarm.study.whole_budget import name_of, read_budget, spend


def run_ioh(
    problems: Any,
    method: Method | str | None = None,
    *,
    budget_multiplier: int = 100,
    runs: int = 5,
    name: str | None = None,
    out: str | Path = "ioh_data",
    store_positions: bool = False,
    progress: bool = False,
    rng: Seed = 0,
) -> Path:
    """Run a method on problems of IOHexperimenter, and log it with its ``Analyzer``.

    Points are evaluated one at a time, in the order in which the method asks for them. A run ends when the budget is
    spent or the optimum is found. Methods that converge before are started again.

    Parameters
    ----------
    problems : ioh problem, or several
        Made by ``ioh.get_problem``, a suite of ``ioh.suite``, or your own function from ``ioh.wrap_problem``.
    method : Method, str or None
        As in `minimize`.
    budget_multiplier : int
        Evaluations of a run, divided by the number of variables.
    runs : int
        Independent runs of each problem.
    name : str, optional
        What the algorithm is called in tables and figures. None: the name of the method.
    out : path
        The folder in which the folder with the data is made.
    store_positions : bool
        Whether to write the points, too.
    progress : bool
        Whether to show a progress bar.
    rng : int, Generator, SeedSequence or None
        Seed. Each run of each problem has a stream of its own.

    Returns
    -------
    Path
        The folder with the data. Compress it and upload it to IOHanalyzer, or read it with ``iohinspector``.
    """
    ioh = need("ioh", extra="ioh", user="run_ioh")
    several = list(problems) if isinstance(problems, Iterable) else [problems]
    _check_ids(several)
    runs = whole_number("runs", runs, 1)
    label = name_of(method, name)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    logger = ioh.logger.Analyzer(
        root=str(folder),
        folder_name=label,
        algorithm_name=label,
        algorithm_info="paoswarm" if method is None else repr(method).replace('"', "'"),  # it is not escaped
        store_positions=store_positions,
    )
    seeds = spawn(rng, len(several) * runs)
    try:
        with ProgressBar(progress, len(seeds), unit="run") as bar:
            for number, problem in enumerate(several):
                problem.attach_logger(logger)
                for run in range(runs):
                    _run(problem, ioh, method, budget_multiplier, seeds[number * runs + run])
                    problem.reset()  # ends a run in the data
                    bar.count()
                problem.detach_logger()
    finally:
        logger.close()
    return Path(logger.output_directory)


def _check_ids(problems: list[Any]) -> None:
    """Raise if two functions have the same number: IOH's logger would mix their data."""
    names: dict[int, str] = {}
    for problem in problems:
        number, name = problem.meta_data.problem_id, problem.meta_data.name
        if names.setdefault(number, name) != name:
            raise ValueError(f"{names[number]} and {name} both have the id {number}: run them one after the other")


def _run(problem: Any, ioh: Any, method: Method | str | None, budget_multiplier: int, seed: Any) -> None:
    """One run on one problem; IOH maximises some of its problems."""
    d = problem.meta_data.n_variables
    bounds = np.stack([problem.bounds.lb, problem.bounds.ub], axis=1).astype(float)
    is_whole = isinstance(problem, ioh.problem.IntegerSingleObjective)
    sign = -1.0 if problem.meta_data.optimization_type == ioh.OptimizationType.MAX else 1.0

    def fun(x: Any) -> float:
        return sign * float(problem(np.rint(x).astype(int) if is_whole else x))

    spend(
        fun,
        bounds,
        method,
        read_budget(budget_multiplier, d),
        rng=seed,
        is_done=lambda: bool(problem.state.optimum_found),
        integrality=np.ones(d, bool) if is_whole else None,
    )
