"""Experiments of other platforms: COCO's suites for ``cocopp``, and IOHexperimenter's problems for IOHanalyzer.

Each logs the runs itself. A run uses its budget to the end, one evaluation after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from paoswarm import AdaptivePAO, Constraint, Integer, Method, MixedPAO, Portfolio, Restarts, minimize
from paoswarm.helpers import ProgressBar, need, whole_number

Seed = int | np.random.Generator | np.random.SeedSequence | None


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
    budget_multiplier = whole_number("budget_multiplier", budget_multiplier, 1)
    if isinstance(suite, str):
        if suite not in cocoex.known_suite_names:
            raise ValueError(f"COCO has no suite {suite!r}; it has {', '.join(cocoex.known_suite_names)}")
        suite = cocoex.Suite(suite, "", "")
    first, every = batch
    if not 0 <= first < every:
        raise ValueError(f"batch must be (i, n) with 0 <= i < n, got {batch!r}")
    label = name or _name_of(method)
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
    seeds = np.random.default_rng(rng).spawn(len(suite))
    with ProgressBar(progress, len(numbers), unit="problem") as bar:
        for number in numbers:
            problem = suite.get_problem(number, observer)
            try:
                _run_coco_problem(problem, method, budget_multiplier, seeds[number])
            finally:
                problem.free()  # writes the end of its data
            bar.count()
    return Path(observer.result_folder)


def _run_coco_problem(problem: Any, method: Method | str | None, budget_multiplier: int, seed: Any) -> None:
    """One run on one problem."""
    if problem.number_of_objectives != 1:
        raise ValueError(f"{problem.id} has {problem.number_of_objectives} objectives; only one can be minimised")
    d = problem.dimension
    whole = problem.number_of_integer_variables  # the first ones
    ends = list(zip(problem.lower_bounds, problem.upper_bounds, strict=True))
    bounds = [*(Integer(low, high) for low, high in ends[:whole]), *ends[whole:]]
    limits = Constraint(problem.constraint, name="COCO") if problem.number_of_constraints else ()

    def is_done() -> bool:
        return bool(problem.final_target_hit)

    _spend(problem, bounds, method, budget_multiplier * d, rng=seed, is_done=is_done, constraints=limits)


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
    method, budget_multiplier, name, out, progress
        As in `run_coco`.
    runs : int
        Independent runs of each problem.
    store_positions : bool
        Whether to write the points, too.
    rng : int, Generator, SeedSequence or None
        Seed. Each run of each problem has a stream of its own.

    Returns
    -------
    Path
        The folder with the data. Compress it and upload it to IOHanalyzer, or read it with ``iohinspector``.
    """
    ioh = need("ioh", extra="ioh", user="run_ioh")
    budget_multiplier = whole_number("budget_multiplier", budget_multiplier, 1)
    several = list(problems) if isinstance(problems, Iterable) else [problems]
    _check_ids(several)
    runs = whole_number("runs", runs, 1)
    label = name or _name_of(method)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    logger = ioh.logger.Analyzer(
        root=str(folder),
        folder_name=label,
        algorithm_name=label,
        algorithm_info="paoswarm" if method is None else repr(method).replace('"', "'"),  # it is not escaped
        store_positions=store_positions,
    )
    seeds = np.random.default_rng(rng).spawn(len(several) * runs)
    try:
        with ProgressBar(progress, len(seeds), unit="run") as bar:
            for number, problem in enumerate(several):
                problem.attach_logger(logger)
                for run in range(runs):
                    _run_ioh_problem(problem, ioh, method, budget_multiplier, seeds[number * runs + run])
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


def _run_ioh_problem(problem: Any, ioh: Any, method: Method | str | None, budget_multiplier: int, seed: Any) -> None:
    """One run on one problem; IOH maximises some of its problems."""
    d = problem.meta_data.n_variables
    bounds = np.stack([problem.bounds.lb, problem.bounds.ub], axis=1).astype(float)
    is_whole = isinstance(problem, ioh.problem.IntegerSingleObjective)
    sign = -1.0 if problem.meta_data.optimization_type == ioh.OptimizationType.MAX else 1.0

    def fun(x: Any) -> float:
        return sign * float(problem(np.rint(x).astype(int) if is_whole else x))

    def is_done() -> bool:
        return bool(problem.state.optimum_found)

    where = [Integer(low, high) for low, high in bounds] if is_whole else bounds
    _spend(fun, where, method, budget_multiplier * d, rng=seed, is_done=is_done)


def _spend(
    fun: Callable[..., Any],
    bounds: Any,
    method: Method | str | None,
    budget: int,
    *,
    rng: np.random.Generator,
    is_done: Callable[[], bool],
    constraints: Any = (),
) -> None:
    """Minimise ``fun`` with exactly ``budget`` evaluations, or until ``is_done()``.

    A method that starts again by itself is not stopped when its searches agree. Any other method is started again,
    independently, whenever it has converged.
    """

    def stop(intermediate_result: Any) -> None:
        if is_done():
            raise StopIteration

    starts_again = method is None or isinstance(method, AdaptivePAO | MixedPAO | Portfolio | Restarts)
    options: dict[str, Any] = {"tol": 0.0} if starts_again else {}
    spent = 0
    while spent < budget and not is_done():
        with warnings.catch_warnings():  # the last restart may be short
            warnings.filterwarnings("ignore", message="maxfev=[0-9]+ leaves", category=RuntimeWarning)
            result = minimize(
                fun,
                bounds,
                method=method,
                maxfev=budget - spent,
                constraints=constraints,
                callback=stop,
                rng=rng.spawn(1)[0],
                **options,
            )
        spent += result.nfev


def _name_of(method: Method | str | None) -> str:
    """Return what an algorithm is called in the data."""
    return "AdaptivePAO" if method is None else method if isinstance(method, str) else type(method).__name__
