"""COCO's suites with integers and with constraints as problems of the benchmarks.

``bbob-mixint``: the 24 functions of bbob, where four of five variables are integers 0 to 1, 3, 7 and 15.
``bbob-constrained``: 54 functions, nine objectives with six numbers of inequalities each. The optimum is known.
"""

from __future__ import annotations

import contextlib
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
from constrained_problem import ConstrainedProblem

FUNCTIONS = {"bbob-mixint": range(1, 25), "bbob-constrained": range(1, 55)}


@lru_cache
def suite(name, dim, instance):
    """The problems of one size and instance."""
    import cocoex

    return cocoex.Suite(name, f"instances: {instance}", f"dimensions: {dim}")


def best_point(problem):
    """The optimum. COCO only writes it into a file of the working folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        problem._best_parameter("print")
        return np.array(Path("._bbob_problem_best_parameter.txt").read_text().split(), float)


def coco(name, function, dim, instance):
    """Return one instance of a function of ``bbob-mixint`` or ``bbob-constrained``."""
    problem = suite(name, dim, instance).get_problem_by_function_dimension_instance(function, dim, instance)
    count = problem.number_of_constraints

    def evaluate(x):
        rows = [np.array(row, order="C") for row in x]
        values = np.array([problem(row) for row in rows])
        constraints = [problem.constraint(row) for row in rows] if count else []
        return values, np.array(constraints, float).reshape(len(x), count), np.empty((len(x), 0))

    best = best_point(problem)
    return ConstrainedProblem(
        name=f"{name} f{function}, {dim} variables, instance {instance}",
        bounds=np.stack([problem.lower_bounds, problem.upper_bounds], axis=1),
        evaluate=evaluate,
        best_value=float(problem(best)),
        best_point=best,
        integrality=np.arange(dim) < problem.number_of_integer_variables,
    )
