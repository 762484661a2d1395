"""The search for spaces with whole numbers and choices: swarms with covariance noise, and element-wise ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paoswarm.algorithms.agreement import Search
from paoswarm.algorithms.element_pao import ElementPAO
from paoswarm.algorithms.method import check_parallel
from paoswarm.algorithms.pao import PAO
from paoswarm.algorithms.restarts import Growing
from paoswarm.algorithms.searches import Searches, Series, Start
from paoswarm.core import noise
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.swarm import Swarm

_FEWEST, _PER_UNKNOWN = 20, 6  # particles; covariance noise needs a few for each coordinate
_PATIENCE = 60  # generations in which no particle has improved its best


class Contracting(PAO):
    """A swarm with covariance noise that ends when no particle makes progress: its bests may share a whole number."""

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the swarm is a point, or has stopped improving."""
        return np.asarray((spread < tol) | (state.age.min(axis=-1) >= _PATIENCE))


@dataclass(frozen=True)
class Steady:
    """Swarms with covariance noise, all of the same size."""

    method: PAO

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        return Start(self.method, max(_FEWEST, _PER_UNKNOWN * d), kind="covariance")


_CONTRACTING = Contracting(noise_scale=noise.covariance)


@dataclass(frozen=True)
class MixedPAO(Searches):
    """Swarms that take turns and start again, for spaces with whole numbers and choices.

    - `PAO` with covariance noise: the bests that it remembers lie on whole numbers, and their differences carry it
      from one to the next.
    - Element-wise swarms (`ElementPAO`): one variable may change alone.

    It is the default if a variable is an `Integer` or a `Choice`. Dense swarms, which `AdaptivePAO` begins with, lose
    their spread along whole numbers.

    Parameters
    ----------
    parallel : int or None
        How many points are evaluated at once, as in `AdaptivePAO`.

    Examples
    --------
    >>> import paoswarm as ps
    >>> space = {"order": ps.Integer(1, 40), "width": (0, 5)}
    >>> result = ps.minimize(lambda p: (p["order"] - 7 * p["width"]) ** 2 + (p["width"] - 2) ** 2, space, rng=1)
    >>> result.best["order"], round(result.best["width"], 6), type(result.method).__name__
    (14, 2.0, 'MixedPAO')
    """

    parallel: int | None = None

    def __post_init__(self) -> None:
        check_parallel(self.parallel)

    @property
    def series(self) -> tuple[Series, ...]:
        """Swarms with covariance noise, then element-wise ones."""
        return Steady(_CONTRACTING), Growing(ElementPAO(), 1.0)
