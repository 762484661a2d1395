"""The search for spaces with whole numbers and choices: swarms with covariance noise, and element-wise ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from paoswarm.core import noise
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.swarm import Swarm
from paoswarm.methods.adaptive_pao import Shrinking
from paoswarm.methods.agreement import Search
from paoswarm.methods.method import check_parallel
from paoswarm.methods.pao import PAO
from paoswarm.methods.searches import Searches, Series
from paoswarm.methods.sharing import Start

_FEWEST, _PER_UNKNOWN = 20, 6  # particles; covariance noise needs a few for each coordinate
_PATIENCE = 60  # generations in which no particle has improved its best
_LONGEST = 300.0  # evaluations of the first search for each coordinate: later, element-wise swarms gain more


class Contracting(PAO):
    """A swarm with covariance noise that ends when no particle makes progress: its bests may share a whole number."""

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the swarm is a point, or has stopped improving."""
        return np.asarray((spread < tol) | (state.age.min(axis=-1) >= _PATIENCE))

    def tolerant_for(self, n_unknowns: int, n_particles: int) -> float:
        """40 generations: four fifths of the first search."""
        return 40.0 * n_particles


@dataclass(frozen=True)
class Lengthening:
    """Swarms with covariance noise, all of the same size; each may last twice as long as the one before."""

    method: PAO

    def following(self, own: tuple[Search, ...], past: tuple[Search, ...], d: int, uniform: Floats) -> Start:
        """The next search."""
        most = _LONGEST * d * 2.0 ** len(own)
        return Start(self.method, max(_FEWEST, _PER_UNKNOWN * d), most=most, kind="covariance")


_CONTRACTING = Contracting(noise_scale=noise.covariance)


@dataclass(frozen=True)
class MixedPAO(Searches):
    """Swarms that take turns and start again, for spaces with whole numbers and choices.

    - `PAO` with covariance noise: the bests that it remembers lie on whole numbers, and their differences carry it
      from one to the next. This is quick in the beginning. The first search is cut short after 300 evaluations for
      each coordinate, and each one after it may last twice as long.
    - Element-wise swarms (`ElementPAO`) that double their size and horizon: one variable may change alone.

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
        return Lengthening(_CONTRACTING), Shrinking()
