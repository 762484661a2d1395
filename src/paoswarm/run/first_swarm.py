"""The first swarm: points with known values, the user's own points, and a design that fills the rest of it."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paoswarm._checks import choices, whole_number
from paoswarm.core import order
from paoswarm.core import swarm as swarms
from paoswarm.core.arrays import Floats
from paoswarm.core.random import latin_hypercube
from paoswarm.core.swarm import Swarm
from paoswarm.core.walls import Axes
from paoswarm.methods.method import FEWEST_PARTICLES, Method
from paoswarm.run.read_input import Box, read_points, read_values
from paoswarm.space.space import Space

DESIGNS = ("latinhypercube", "sobol", "halton", "random")


class FirstSwarm:
    """The points of a first swarm, before their values are known; ``x0``, ``f0`` and ``init`` are as in `Optimizer`.

    Points that are given may lie where it is ``allowed``.
    """

    def __init__(
        self,
        box: Box,
        n_particles: int,
        x0: ArrayLike | None,
        f0: ArrayLike | None,
        init: str | ArrayLike,
        allowed: Box,
        axes: Axes | None = None,
    ) -> None:
        nowhere = np.empty((0, len(box[0])))
        self._box = box
        self._axes = axes
        self._known: tuple[Floats, Floats] = nowhere, np.empty(0)
        self._given = nowhere  # values unknown
        self._n_due = 0  # those of them that are evaluated even if more values are known than there are particles
        self._asked: Floats = nowhere
        self._design: str | None = None
        if isinstance(init, str):
            self._design = design_name(init)
            if self._design in ("halton", "sobol"):
                import scipy.stats.qmc  # noqa: F401 (takes half a second: before any clock starts)

            self.n_particles = whole_number("n_particles", n_particles, 2)
        else:
            self._given = read_points("init", init, allowed)
            self.n_particles = whole_number("the number of points in init", len(self._given), 2)
            if x0 is not None:
                raise ValueError("give the points of the first swarm either as x0 or as init, not as both")
        if x0 is not None:
            points = read_points("x0", x0, allowed)
            values = np.full(len(points), np.nan) if f0 is None else read_values("the values of x0", f0, len(points))
            unknown = np.isnan(values)
            if unknown.sum() > self.n_particles:
                raise ValueError(
                    f"x0 has {unknown.sum()} points to evaluate but there are only n_particles={self.n_particles}"
                )
            self._given, self._n_due = points[unknown], int(unknown.sum())
            self.add(points[~unknown], values[~unknown])

    def add(self, points: Floats, values: Floats) -> None:
        """Add points with known values."""
        self._known = np.concatenate([self._known[0], points]), np.concatenate([self._known[1], values])

    @property
    def n_unknown(self) -> int:
        """How many points have to be evaluated."""
        return max(self._n_due, self.n_particles - len(self._known[1]))

    @property
    def has_value(self) -> bool:
        """Whether a value better than +inf is known."""
        return bool((self._known[1] < np.inf).any())

    def points(self, generators: list[np.random.Generator], batch: tuple[int, ...]) -> Floats:
        """The points to evaluate, ``(*batch, m, d)``; if too many values are known, the best are kept."""
        best = order.ranked(order.failed_last(self._known[1]))[: self.n_particles - self._n_due]
        self._known = self._known[0][best], self._known[1][best]
        given = self._given[: self.n_unknown]
        runs = [given] * len(generators)
        if self._design is not None and self.n_unknown > len(given):
            rest = self.n_unknown - len(given)
            runs = [np.concatenate([given, design(self._design, rest, self._box, rng)]) for rng in generators]
        self._asked = np.stack(runs).reshape(*batch, self.n_unknown, len(self._box[0]))
        return self._asked

    def swarm(self, f: Floats, batch: tuple[int, ...], noisy: bool, may_fail: bool = False) -> Swarm:
        """The swarm, from the values ``(*batch, m)`` at those points, NaN where they failed.

        Points with known values come first.
        """
        points, values = self._known
        position = np.concatenate([np.broadcast_to(points, (*batch, *points.shape)), self._asked], axis=-2)
        value = np.concatenate([np.broadcast_to(values, (*batch, len(values))), f], axis=-1)
        if not may_fail and not (value < np.inf).any():  # false for NaN too
            raise ValueError("the first swarm has no finite value: the objective failed at every point")
        return swarms.start(position, value, *self._box, noisy=noisy, axes=self._axes)


def design_name(init: str) -> str:
    """The name of a design, whatever its spelling."""
    name = init.lower().replace(" ", "").replace("-", "").replace("_", "")
    if name not in DESIGNS:
        raise ValueError(
            f"init must be a name, an array of points, or an earlier result, got {init!r}; {choices(name, DESIGNS)}"
        )
    return name


def design(name: str, n: int, box: Box, rng: np.random.Generator) -> Floats:
    """``n`` points of a design, ``(n, d)``."""
    d = len(box[0])
    unit: Any
    if name == "random":
        unit = rng.random((n, d))
    elif name == "latinhypercube":
        unit = _latin_hypercube(n, d, rng)
    else:
        from scipy.stats import qmc

        with warnings.catch_warnings():  # a swarm does not need the balance of Sobol points
            warnings.filterwarnings("ignore", message=".*balance properties of Sobol.*")
            unit = (qmc.Halton if name == "halton" else qmc.Sobol)(d, rng=rng).random(n)
    points: Floats = np.clip(box[0] + unit * (box[1] - box[0]), box[0], box[1])
    return points


def _latin_hypercube(n: int, d: int, rng: np.random.Generator) -> Floats:
    """One point in each of the ``n`` slices of every axis; the same points as ``scipy.stats.qmc.LatinHypercube``."""
    own = rng.spawn(1)[0]
    inside = own.random((n, d))
    slices = np.stack([own.permutation(n) for _ in range(d)], axis=1)
    return latin_hypercube(slices, 1 - inside)


def choose_size(method: Method, space: Space, maxfev: int | None, maxiter: int | None, x0: Any, f0: Any) -> int:
    """The number of particles if the user gives none: what the method says, and room for all of ``x0``.

    A choice counts as many unknowns as it has entries. So a space may have fewer points than that, or ``maxfev`` may be
    smaller; of the budget, half is for the first swarm (of shares from a tenth to a half, the best with long choices).
    """
    n_given = 0 if x0 is None or f0 is not None else len(np.atleast_2d(np.asarray(x0, dtype=object)))
    wanted = method.default_particles(len(space.lower), maxfev, maxiter)
    most = math.inf if space.size is None else space.size
    if maxfev is not None and maxfev < most:
        most = maxfev // 2
    return max(n_given, int(min(wanted, max(most, method.smallest_swarm, FEWEST_PARTICLES))))
