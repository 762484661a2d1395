"""Studies that never ran: results that look like real ones, made from random numbers, and cells written by hand."""

from dataclasses import replace

import numpy as np

from paoswarm.study.results import Key, Results, Trace


def synthetic(
    problems=("sphere", "rosenbrock", "rastrigin"),
    dims=(2, 5),
    methods=("PAO", "PSO", "DE"),
    runs=10,
    seed=1,
    population=10,
    generations=20,
):
    """Errors that fall at random, each cell at its own pace; some runs get stuck. The first method is the reference.

    A cell depends on its own place and the seed alone: more problems, dimensions or methods change no other cell, and
    fewer runs are the first of many.
    """
    evaluations = population * np.arange(1, generations + 1)
    traces = {}
    for i, problem in enumerate(problems):
        for dim in dims:
            for j, method in enumerate(methods):
                cell, *each = np.random.SeedSequence((seed, i, dim, j)).spawn(runs + 1)
                pace = np.random.default_rng(cell).uniform(0.1, 0.8) / np.sqrt(dim)  # decades per generation
                error = np.stack([_falling(np.random.default_rng(s), pace, dim, generations) for s in each])
                traces[Key(problem, dim, method)] = Trace(evaluations, error)
    return Results(
        title="A synthetic study",
        reference=methods[0],
        problems=tuple(problems),
        dims=tuple(dims),
        methods=tuple(methods),
        groups={"All": tuple(methods)},
        titles={problem: problem[:1].upper() + problem[1:].replace("_", " ") for problem in problems},
        descriptions={method: f"{method}, number {j} of {len(methods)}" for j, method in enumerate(methods, start=1)},
        facts={"runs": str(runs), "population": str(population), "generations": str(generations), "seed": str(seed)},
        traces=traces,
    )


def _falling(rng, pace, dim, generations):
    """Best error so far of one run; one in five gets stuck on the way."""
    steps = rng.exponential(pace, generations) * (rng.random(generations) < 0.8)
    steps[0] = 0.0
    if rng.random() < 0.2:
        steps[rng.integers(1, generations + 1) :] = 0.0
    return dim * 10 ** (rng.normal(1.0, 0.3) - steps.cumsum())


def with_cell(results, problem, dim, method, error, evaluations=None):
    """The same study with the errors ``(runs, g)`` of one cell replaced."""
    error = np.array(error, dtype=float)
    key = Key(problem, dim, method)
    if evaluations is None:
        evaluations = results.traces[key].evaluations[-error.shape[1] :]
    cell = Trace(np.array(evaluations, dtype=np.int64), error)
    return replace(results, traces={**results.traces, key: cell})


def study_of(final, *, dims=(2,), reference=None):
    """A study of one evaluation per run: ``final[problem][method]`` are the final errors, alike in every dimension."""
    problems, methods = tuple(final), tuple(next(iter(final.values())))
    traces = {
        Key(problem, dim, method): Trace(np.array([1]), np.array(errors, dtype=float)[:, None])
        for problem, cells in final.items()
        for dim in dims
        for method, errors in cells.items()
    }
    return replace(
        synthetic(problems, dims, methods, runs=1),
        reference=reference or methods[0],
        facts={},
        traces=traces,
    )
