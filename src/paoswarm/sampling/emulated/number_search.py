"""Searches for modes by one number from few points: trust-region climbs by quadratic models, side by side."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from paoswarm.core.arrays import Floats
from paoswarm.core.random import latin_hypercube
from paoswarm.methods.model_search import ModelSearch, promised
from paoswarm.run.optimizer import Optimizer
from paoswarm.sampling.adapt import PriorDensity
from paoswarm.sampling.climbs import log_volume
from paoswarm.sampling.emulated.emulator import Frame
from paoswarm.sampling.emulated.simulations import Simulations
from paoswarm.sampling.target import Target

_REACH = 4.0  # |z| up to which coordinates with a normal prior are climbed in; the emulator goes farther
_RADIUS = 0.1  # of the first region, in widths
_STILL = 0.5  # gain of log height, over the latest evaluations, with which a climb ends
_AHEAD = 2.0  # radii of the region within which the model must promise less
_CURVED = 0.5  # curvature, in units of the prior's, below which a direction is not determined
_WIDEST = 0.6, 1.0  # standard deviation along directions without curvature: in a box, otherwise
_LIGHT = 7.0  # log height, and one more for each unknown, below the top from which on an end does not matter
_DIP = 3.0  # log height by which a point between two ends of one mode may be lower
_TWICE, _ON_PLATEAU = 2, 5  # climbs to the top with which it is believed; many come to a plateau that miss a peak
ENOUGH = 9  # climbs after which no more begin if the top was reached twice
_FEWEST = 3  # with which the search may end where its budget is small


class ClimbEnd(NamedTuple):
    """Where climbs have ended."""

    row: int  # of the simulations
    frame: Frame
    is_determined: bool  # whether the log posterior is curved along all directions
    log_mass: float  # Laplace: log height and the logarithm of the volume
    n_climbs: int = 1

    @classmethod
    def at(cls, known: Simulations, row: int, factor: Floats, *, is_determined: bool) -> ClimbEnd:
        """The end at a simulation, with a scale there."""
        log_mass = float(known.height[row]) + float(log_volume(factor))
        return cls(row, Frame(known.z[row], factor), is_determined, log_mass)


class FoundEnds(NamedTuple):
    """All ends that matter, the heaviest first."""

    ends: list[ClimbEnd]
    n_climbs: int
    is_sure: bool  # whether enough have come to the heaviest end
    doubt: str = ""  # another reason to doubt the top

    @property
    def n_top(self) -> int:
        """How many climbs have come to the heaviest end."""
        return self.ends[0].n_climbs if self.ends else 0


def first_draws(n: int, target: Target, rng: np.random.Generator) -> Floats:
    """Draws from the prior, one in each slice of every coordinate."""
    slices = np.argsort(rng.random((target.dim, n)), axis=-1).T
    u = latin_hypercube(slices, rng.random((n, target.dim)))
    return np.where(PriorDensity(target).bounded, 2 * u - 1, ndtri(np.clip(u, 1e-6, 1 - 1e-6)))


class Climb:
    """One climb, in the sampler's coordinates."""

    def __init__(self, known: Simulations, start: int, rng: np.random.Generator) -> None:
        target, self._known = known.target, known
        self._flat = PriorDensity(target).bounded
        reach = np.where(self._flat, 1.0, _REACH)
        self._width = 2 * reach
        lower = np.flatnonzero(np.isfinite(known.height) & (known.height < known.height[start]))
        beside = np.linalg.norm(known.z[lower] - known.z[start], axis=1)
        two = [start, int(lower[np.argmin(beside)]) if len(lower) else start]  # a swarm has two particles at least
        self._optimizer = Optimizer(
            np.column_stack([-reach, reach]),
            method=ModelSearch(_RADIUS),
            n_particles=2,
            x0=(np.clip(known.z[two], -reach, reach), -known.height[two]),
            rng=rng,
        )
        self.row, self.values = start, [float(known.height[start])]
        self._pending: Floats = np.empty((0, target.dim))

    @property
    def is_done(self) -> bool:
        """Whether it has converged; or has gained little and its model promises little, on a plateau for longer."""
        swarm = self._optimizer.swarm
        if swarm is None or swarm.memory is None:
            return False
        d = len(self._width)
        best = np.maximum.accumulate(self.values)
        window = (2 * d + 4) * (1 if self.is_determined else 2)
        if swarm.memory.end or len(best) <= max(3 * d + 6, window) or best[-1] - best[-window] > _STILL:
            return bool(swarm.memory.end)
        return promised(swarm.memory, np.zeros(d), np.ones(d), _AHEAD) < _STILL

    @property
    def is_determined(self) -> bool:
        """Whether the model is curved along all directions: then it is no plateau."""
        widest = np.where(self._flat, *_WIDEST)
        return float(np.linalg.eigvalsh(self._precision() * np.outer(widest, widest))[0]) > _CURVED

    def _precision(self) -> Floats:
        """The curvature of the last model."""
        memory = self._optimizer.swarm.memory if self._optimizer.swarm is not None else None
        if memory is None:
            return np.zeros((len(self._width), len(self._width)))
        found: Floats = memory.hessian / np.outer(self._width, self._width)
        return found

    def ask(self) -> Floats:
        """The next points."""
        self._pending = np.atleast_2d(self._optimizer.ask())
        return self._pending

    def tell(self, first: int) -> None:
        """Take the simulations from this row on."""
        n = len(self._pending)
        heights = self._known.height[first : first + n]
        self._optimizer.tell(np.where(np.isfinite(heights), -heights, np.nan))
        best = int(np.argmax(heights))
        if heights[best] > self._known.height[self.row]:
            self.row = first + best
        self.values += heights.tolist()

    def end(self) -> ClimbEnd:
        """Where it is, with the normal law that has the curvature of the last model."""
        factor = factor_of(self._precision(), self._flat)
        return ClimbEnd.at(self._known, self.row, factor, is_determined=self.is_determined)


def factor_of(precision: Floats, is_flat: NDArray[np.bool_]) -> Floats:
    """A lower factor of the covariance; along directions without curvature as wide as the prior."""
    widest = np.where(is_flat, *_WIDEST)
    scaled = precision * np.outer(widest, widest)
    curvature, axes = np.linalg.eigh((scaled + scaled.T) / 2)
    root = axes / np.sqrt(np.maximum(curvature, 1.0))
    found: Floats = np.linalg.cholesky((root @ root.T) * np.outer(widest, widest) + 1e-24 * np.eye(len(widest)))
    return found


def search_by_number(known: Simulations, budget: tuple[int, int], abreast: int, rng: np.random.Generator) -> FoundEnds:
    """Climb from the simulations so far, by turns from the best and from those far from earlier starts.

    The smaller ``budget`` is for a search that is sure of its top, the larger for all others; ``abreast`` climbs go on
    side by side.
    """
    target, d = known.target, known.target.dim
    height = known.height
    waiting = [i for i in np.argsort(-height, kind="stable").tolist() if np.isfinite(height[i])]
    soft_end, end = (target.n_evaluations + one for one in budget)
    found, starts, active = FoundEnds([], 0, is_sure=False), list[int](), list[Climb]()
    while True:
        is_late = found.n_climbs >= _FEWEST and target.n_evaluations >= soft_end
        is_enough = found.is_sure and (found.n_climbs >= ENOUGH or is_late)
        while waiting and len(active) < abreast and not is_enough and target.n_evaluations + 2 * d < end:
            starts.append(_next_start(known, waiting, starts))
            active.append(Climb(known, starts[-1], rng))
        if not active:
            if not found.ends:  # there was no room for a climb
                best, anywhere = int(np.argmax(height)), factor_of(np.zeros((d, d)), PriorDensity(target).bounded)
                found = found._replace(
                    ends=[ClimbEnd.at(known, best, anywhere, is_determined=False)._replace(n_climbs=0)]
                )
            return found._replace(ends=_that_matter(known, found.ends))
        points = [climb.ask() for climb in active]
        is_spent = sum(map(len, points)) > end - target.n_evaluations
        if not is_spent:
            first = len(known)
            known.evaluate(np.concatenate(points))
            for climb, asked in zip(active, points, strict=True):
                climb.tell(first)
                first += len(asked)
        for climb in [climb for climb in active if climb.is_done or is_spent]:
            active.remove(climb)
            ends = _noted(known, found.ends, climb.end())
            is_sure = ends[0].n_climbs >= (_TWICE if ends[0].is_determined else _ON_PLATEAU)
            found = FoundEnds(ends, found.n_climbs + 1, is_sure)


def _next_start(known: Simulations, waiting: list[int], starts: list[int]) -> int:
    """The best draw that is left; every second time one of the better half, far from earlier starts."""
    if len(starts) % 2 == 0:
        return waiting.pop(0)
    half = waiting[: max(3, len(waiting) // 2)]
    apart = np.linalg.norm(known.z[half][:, None] - known.z[starts], axis=-1).min(axis=1)
    return waiting.pop(int(np.argmax(apart)))


def _noted(known: Simulations, ends: list[ClimbEnd], new: ClimbEnd) -> list[ClimbEnd]:
    """Count a climb to an end that is known, or add a new one; the heaviest end comes first."""
    home = next((i for i, old in enumerate(ends) if _are_same(known, old, new)), None)
    if home is not None:
        higher = max(ends[home], new, key=lambda one: known.height[one.row])
        new = higher._replace(n_climbs=ends[home].n_climbs + 1)
        ends = ends[:home] + ends[home + 1 :]
    return sorted([*ends, new], key=lambda one: -one.log_mass)


def _are_same(known: Simulations, a: ClimbEnd, b: ClimbEnd) -> bool:
    """Whether two ends belong to one mode: by its scale, else by a point half way."""
    heights, circle, d = known.height, known.target.circle, known.target.dim
    if abs(heights[a.row] - heights[b.row]) > _LIGHT + d:
        return False
    za, zb = known.z[a.row], known.z[b.row]
    away = min(np.linalg.norm(one.frame.inner(other[None], circle)) for one, other in ((a, zb), (b, za)))
    if away < 1.0:
        return True
    if known.target.n_left < 1:
        return False
    apart = zb - za if circle is None else circle.nearest((zb - za)[None])[0]
    middle = za + apart / 2
    middle = middle if circle is None else circle.nearest(middle[None])[0]
    known.evaluate(middle[None])
    return bool(known.height[-1] > min(heights[a.row], heights[b.row]) - _DIP)


def _that_matter(known: Simulations, ends: list[ClimbEnd]) -> list[ClimbEnd]:
    least = max((known.height[one.row] for one in ends), default=math.inf) - _LIGHT - known.target.dim
    return [one for one in ends if known.height[one.row] > least]
