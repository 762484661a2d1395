"""The first swarm: designs of ``scipy.stats.qmc`` that fill the box, or the user's own points."""

from __future__ import annotations

import difflib
import warnings
from typing import Any

import numpy as np

from paoswarm.core.walled import Floats
from paoswarm.optimize.problem import Box

DESIGNS = ("latinhypercube", "sobol", "halton", "random")


def design_name(init: str) -> str:
    """The design that a user's spelling means."""
    name = init.lower().replace(" ", "").replace("-", "").replace("_", "")
    if name not in DESIGNS:
        guess = difflib.get_close_matches(name, DESIGNS, n=1)
        hint = f" (did you mean {guess[0]!r}?)" if guess else ""
        raise ValueError(f"init must be one of {', '.join(DESIGNS)} or an array of points, got {init!r}{hint}")
    return name


def load() -> None:
    """Import what designs need, which takes half a second."""
    import scipy.stats.qmc  # noqa: F401


def design(name: str, n: int, box: Box, rng: np.random.Generator) -> Floats:
    """``n`` points of a design, ``(n, d)``."""
    from scipy.stats import qmc  # not at the top: importing it takes half a second

    d = len(box[0])
    unit: Any
    if name == "random":
        unit = rng.random((n, d))
    elif name == "latinhypercube":
        unit = qmc.LatinHypercube(d, rng=rng).random(n)
    elif name == "halton":
        unit = qmc.Halton(d, rng=rng).random(n)
    else:
        with warnings.catch_warnings():  # the balance of Sobol points is of no concern to a swarm
            warnings.filterwarnings("ignore", message=".*balance properties of Sobol.*")
            unit = qmc.Sobol(d, rng=rng).random(n)
    points: Floats = np.clip(box[0] + unit * (box[1] - box[0]), box[0], box[1])
    return points
