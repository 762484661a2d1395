"""Ready-made studies: the paper's comparison, and the bbob suite of COCO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paoswarm import PAO, AdaptivePAO, Method, noise
from paoswarm.classic import DE, PSO, QPSO, SADE
from paoswarm.problems import names
from paoswarm.study.adapters import CMAES, Adapter, SciPyDE
from paoswarm.study.study import Study

PEERS = "Searches in use today"
PAPER = "Paper presets"
LITERATURE = "Literature defaults"

_SOLVED = 1e-8  # COCO's last target; differences below it are of no practical use
_FEWER = 12  # runs of methods that take a hundred times as long: the fewest with which their tests can be significant


def paper_methods() -> dict[str, Method | Adapter]:
    """Return PAO and its comparators with the paper's hyperparameters, and with the literature's where those differ.

    With them are the default search of `minimize` and the best-known optimisers of other libraries.
    """
    return {
        "PAO": PAO.paper(),
        "AdaptivePAO": AdaptivePAO(),
        "SciPy DE": SciPyDE(),
        "CMA-ES": CMAES(),
        "PSO": PSO.paper(),
        "QPSO": QPSO.paper(),
        "DE": DE.paper(),
        "SADE": SADE.paper(),
        "PSO (literature)": PSO(),
        "DE (literature)": DE(),
        "SADE (literature)": SADE(),
    }


def paper(**options: Any) -> Study:
    """Return the comparison of Champneys and Rogers (2023), with the searches that people use today.

    It has nine functions in 2 and 8 dimensions, with 100 runs of 100 generations of 100 particles. `AdaptivePAO`,
    SciPy's differential evolution and CMA-ES have the same budget and 12 runs. Errors below 1e-8 count as equal.
    ``options`` replace fields of the `Study`.
    """
    methods = options.get("methods", paper_methods())
    return Study(
        **{
            "problems": list(names),
            "methods": methods,
            "dims": [2, 8],
            "precision": _SOLVED,
            "fewer_runs": {name: _FEWER for name in ("AdaptivePAO", "SciPy DE", "CMA-ES") if name in methods},
            "title": "PAO and its comparators on nine functions",
            "groups": {
                PEERS: ("PAO", "AdaptivePAO", "SciPy DE", "CMA-ES"),
                PAPER: ("PAO", "PSO", "QPSO", "DE", "SADE"),
                LITERATURE: ("PAO", "PSO (literature)", "QPSO", "DE (literature)", "SADE (literature)"),
            },
            **options,
        }
    )


def bbob(dims: Sequence[int] = (2, 5, 10), *, peers: bool = False, **options: Any) -> Study:
    """Return a study of the 24 functions of COCO's bbob suite.

    It has 15 instances of each function, 1000 evaluations per unknown, and populations of 50. With ``peers``, SciPy's
    differential evolution and CMA-ES take part.
    """
    methods: dict[str, Method | Adapter] = {
        "PAO": PAO(),
        "PAO (covariance)": PAO(noise_scale=noise.covariance),
        "PSO": PSO(),
        "QPSO": QPSO(),
        "DE": DE(),
        "SADE": SADE(),
    }
    if peers:
        methods |= {"SciPy DE": SciPyDE(), "CMA-ES": CMAES()}
    return Study(
        **{
            "problems": [f"bbob-f{number}" for number in range(1, 25)],
            "methods": methods,
            "dims": list(dims),
            "runs": 15,
            "population": 50,
            "evaluations_per_unknown": 1000,
            "title": "The bbob suite of COCO",
            **options,
        }
    )
