"""The sets of problems that `mixed_constrained.py` measures: their problems, budgets, instances and searches."""

from __future__ import annotations

import numpy as np
from cec2006 import CEC2006
from coco_suites import FUNCTIONS, coco
from designs import DESIGNS
from exponentials import exponentials
from mixed_searchers import CAPS, SEARCHES

TARGETS = 10.0 ** (1 - 0.5 * np.arange(15))
PER_VARIABLE = 1000  # evaluations, in the suites
IN_ALL = 20_000  # evaluations, for single problems
SOLVED = 1e-3  # of the best known value, for problems that are solved or not
CHOICES = range(1, 4)  # instances on which choices were made
FIGURES = range(4, 16)  # instances that the tables are for
GROUPS = {
    "bbob-mixint": {
        "separable": range(1, 6),
        "moderate": range(6, 10),
        "ill-conditioned": range(10, 15),
        "multimodal": range(15, 20),
        "weak structure": range(20, 25),
    },
    "bbob-constrained": {
        "sphere, slope": [*range(1, 7), *range(13, 19)],
        "ill-conditioned": [*range(7, 13), *range(19, 43)],
        "Rastrigin": range(43, 55),
    },
}


def _without(*names):
    return [name for name in SEARCHES if name not in names]


_NO_CONSTRAINTS = ("CMA-ES with margin", "CatCMA with margin", "pycma")
_NO_INTEGERS = ("pycma fmin_con2", "SLSQP, restarted", "pymoo ISRES")
SETS = {
    "bbob-mixint": {"dims": [5, 10, 20], "searches": _without(*_NO_INTEGERS)},
    "bbob-constrained": {"dims": [2, 5, 10], "searches": _without(*_NO_CONSTRAINTS, "pymoo MixedVariableGA")},
    "designs": {"dims": [0], "searches": _without(*_NO_CONSTRAINTS, "Optuna TPE")},
    "cec2006": {"dims": [0], "searches": _without(*_NO_CONSTRAINTS, "pymoo MixedVariableGA", "Optuna TPE")},
    "exponentials": {
        "dims": [4, 6, 8],
        "searches": _without(*_NO_CONSTRAINTS[:2], "pycma fmin_con2", "pymoo MixedVariableGA"),
    },
}
SINGLE = {"designs": DESIGNS, "cec2006": CEC2006}


def problems(name, dim, instance):
    """Pairs of a label, ``set|problem|variables|instance``, and a function that makes the problem."""
    if name in FUNCTIONS:
        return [
            (f"{name}|{function}|{dim}|{instance}", lambda f=function: coco(name, f, dim, instance))
            for function in FUNCTIONS[name]
        ]
    if name == "exponentials":
        return [(f"{name}|{dim // 2}|{dim}|{instance}", lambda: exponentials(dim // 2, instance))]
    return [(f"{name}|{title}|{one.dim}|{instance}", lambda p=one: p) for title, one in SINGLE[name].items()]


def budget(name, dim, search):
    """The evaluations that a search has for a problem with ``dim`` variables."""
    return IN_ALL if name in SINGLE else dim * min(PER_VARIABLE, CAPS.get(search, PER_VARIABLE))
