r"""A search by quadratic models from the first points on, for budgets that a swarm would need to find its bearings.

1. Steps along every axis from the best of a few points, then back or farther.
2. A model of the nearest values (`paoswarm.methods.local_model`); the point where it is lowest in the region.
3. The fall of the value over the fall that the model had promised decides about the region: larger, smaller; or first a
   point in a direction about which the points near by say nothing.

It converges at a local minimum, or yields when the model's promises are not kept: on rugged functions swarms do better.
With several workers the same rounds have more points: minima in larger and smaller regions, and points far from
all known ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from paoswarm._checks import real_number
from paoswarm.core import order
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.attractors import RandomSource
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.methods.dense_learning import law_with
from paoswarm.methods.dense_pao import Guess
from paoswarm.methods.local_model import LocalModel, TrustRegion, fitted, in_widths, lowest, shaped, unspanned
from paoswarm.methods.low_rank import has_many
from paoswarm.methods.method import Method, Standing, check_parallel, in_rounds

MOST_UNKNOWNS = 20  # with 20 it is ahead of a swarm up to 50 evaluations for each unknown, with 10 up to 200
_FIRST = 5  # random points; the search begins at the best
_MOST_FITTED = 150  # points of a model: with more, solving (A17) takes longer than simulators that are called quick
_PER_COEFFICIENT = 1.5
_GOOD, _FAIR = 0.7, 0.1  # shares of the promised fall
_FULL = 0.8  # radii: only a good step of this length says that the region is too small
_LARGEST = 0.5  # radius in widths of the bounds
_SMALLEST = 1e-10
_ROUNDING = 16 * float(np.finfo(float).eps)
_NEGLIGIBLE = 1e-15  # of the fall since the beginning
_SMALL_PROMISES = 3  # in a row: converged
_PATIENCE = 7.0  # evaluations for each coefficient before a search may yield
_IDLE = 2  # windows of recent steps without a better point, after which it does too
_YIELDS = 0.1  # share of the recent steps that kept their promise, below which it does
_FAR = 1e-4  # widths: a narrower region is a minimum, from which a swarm would not get away
_NO_STEP = 1e-8  # squared length in radii
_TRIED = 10  # random points for each unknown, of which the farthest from known ones is taken
_FURTHER = 3  # minima in regions of other radii, if workers are idle
_SMALLEST_OF_THEM, _RATIO = 0.25, 16.0  # radii are between a quarter and four times that of the region


Box = tuple[Floats, Floats]


class ModelMemory(NamedTuple):
    """What a search by models remembers. Points are in widths of the bounds."""

    region: TrustRegion
    hessian: Floats  # (d, d)
    x: Floats  # (m, d), the latest
    f: Floats  # (m,)
    first: Floats  # (d,) where it began
    first_value: float
    fell: Any = None  # (d,) whether the value fell at the first step along each axis
    is_designed: bool = False  # whether all steps along the axes are known
    is_bad: bool = False  # whether the last step was: is it the model's geometry or its size?
    kept: tuple[bool, ...] = ()  # whether recent steps kept their promise
    idle: int = 0  # rounds since the best value fell
    small: int = 0  # promises in a row that were too small to see
    used: int = 0  # evaluations
    end: str = ""


class Round(NamedTuple):
    """Points between the choice and their values, and the memory that chose them."""

    x: Floats  # (m, d) in widths of the bounds
    memory: ModelMemory
    promise: float = math.nan  # fall at the first point, if it is the model's minimum
    known: float = math.nan  # the best value when it was promised


CONVERGED, YIELDED = "converged", "yielded"


@dataclass(frozen=True)
class ModelSearch(Method):
    """A trust-region search by quadratic models of least change; see `paoswarm.methods.model_search`.

    Parameters
    ----------
    radius : float
        Of the first region, in widths of the bounds.
    parallel : int or None
        How many points are evaluated at once.
    """

    applies_walls: ClassVar[bool] = True
    takes_noise: ClassVar[bool] = False  # a small fall of one value is what it steps by
    radius: float = 0.15
    parallel: int | None = None

    def __post_init__(self) -> None:
        real_number("radius", self.radius, 0.0, may_equal=False)
        check_parallel(self.parallel)

    def default_particles(self, n_unknowns: int, maxfev: int | None = None, maxiter: int | None = None) -> int:
        """Five random points, or as many as there are workers."""
        return in_rounds(_FIRST, self.parallel)

    def default_limits(self, n_unknowns: int) -> tuple[int | None, int | None]:
        """It ends by itself."""
        return None, 10_000 * n_unknowns

    def begin(self, state: Swarm) -> Swarm:
        """The search around the best point of the first swarm."""
        if isinstance(state.memory, ModelMemory):
            return state
        x, f = _within(state, state.best_position), state.best_value
        best = int(order.best(f))
        if state.axes is not None:  # on a circle, on the side of the best one
            x = x - np.where(state.axes.is_round, np.round(x - x[best]), 0.0)
        d = x.shape[1]
        region = TrustRegion(x[best], float(f[best]), self.radius, np.eye(d), np.eye(d))
        known = order.is_feasible(f)
        end = "" if known.any() else YIELDED
        memory = ModelMemory(region, np.zeros((d, d)), x[known], f[known], x[best], float(f[best]), end=end)
        return state._replace(memory=memory)

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose points along the axes at first, then the model's minimum and others that improve the model."""
        memory: ModelMemory = state.memory
        box = _box(state)
        chosen = (self._by_model if memory.is_designed else self._along_axes)(memory, box, draw)
        width = state.upper[0] - state.lower[0]
        position = state.lower[0] + chosen.x * width
        nearest: Floats = np.clip(position, state.lower[0], state.upper[0])
        if state.axes is not None:
            nearest = state.axes.wrapped(position, nearest, state.lower[0], state.upper[0])
        return Proposal(nearest, np.zeros_like(nearest), notes=chosen)

    def _along_axes(self, memory: ModelMemory, box: Box, draw: RandomSource) -> Round:
        """A step along each axis; then one to the other side, or twice as far where the value fell.

        With several workers both sides at once, and a point elsewhere at least: idle workers may ask again.
        """
        x, (low, high) = memory.first, box
        first = np.where((x <= 0.5) | np.isinf(low), self.radius, -self.radius)  # a circle has no middle
        far = x + 2 * first
        other = -first if memory.fell is None else np.where(memory.fell, 2 * first, -first)
        has_room = (x + other >= low) & (x + other <= high)
        other = np.where(has_room, other, np.where((far >= low) & (far <= high), 2 * first, first / 2))
        is_alone = (self.parallel or 1) == 1
        is_last = memory.fell is not None or not is_alone
        steps = [np.diag(first)] * (memory.fell is None) + [np.diag(other)] * is_last
        memory = memory._replace(is_designed=is_last)
        x = x + np.concatenate(steps)
        return Round(self._filled(x, memory, None, box, draw, least=len(x) + (not is_alone)), memory)

    def _by_model(self, memory: ModelMemory, box: Box, draw: RandomSource) -> Round:
        """The model's minimum, or a point that improves the model; with several workers, more of both."""
        memory, model = _modelled(memory)
        if memory.is_bad:
            direction = unspanned(memory.region, memory.x)
            if direction is not None:
                return self._to_span(memory, model, direction, box, draw)
            memory, model = _modelled(memory._replace(region=_resized(memory.region, 0.5)))
        d, region = len(memory.first), memory.region
        if model is None:
            return self._to_span(memory, None, _unit(draw, d), box, draw)
        further = _SMALLEST_OF_THEM * _RATIO ** draw.uniform(min(_FURTHER, (self.parallel or 1) - 1))
        steps = [lowest(region, model, *box, radius) for radius in (1.0, *further.tolist())]
        promise = -float(model.change(steps[0][None])[0])
        is_small = len(memory.f) >= _coefficients(d) and not promise > _visible(memory)
        memory = memory._replace(small=memory.small + 1 if is_small else 0)
        if memory.small >= _SMALL_PROMISES:
            memory = memory._replace(end=CONVERGED)
        if steps[0] @ steps[0] >= _NO_STEP and promise > _ROUNDING * abs(region.value):
            x = _on_walls(region.outer(np.array(steps)), *box)
            x = x[np.sort(np.unique(x, axis=0, return_index=True)[1])]
            return Round(self._filled(x, memory, model, box, draw), memory, promise, region.value)
        direction = unspanned(region, memory.x)  # there is nothing to gain at this scale
        if direction is None:
            memory = memory._replace(region=_resized(region, 0.25))
            direction = _unit(draw, d)
        return self._to_span(memory, model, direction, box, draw)

    def _to_span(self, memory: ModelMemory, model: LocalModel | None, u: Floats, box: Box, draw: RandomSource) -> Round:
        """A point at the edge of the region in a direction, on the side that the model prefers, if it has room."""
        region = memory.region
        if model is not None and model.slope @ u > 0:
            u = -u
        x = np.clip(region.outer(np.array([u, -u])), *box)
        has_room = np.square(region.inner(x[:1])).sum() >= 0.25
        x = x[:1] if has_room else x[1:]
        return Round(self._filled(x, memory, model, box, draw), memory._replace(is_bad=False))

    def _filled(
        self, x: Floats, memory: ModelMemory, model: LocalModel | None, box: Box, draw: RandomSource, least: int = 0
    ) -> Floats:
        """Points filled up to whole rounds of the workers: the better half of random ones, far from all known ones."""
        region, d = memory.region, x.shape[1]
        while len(x) < least or len(x) % (self.parallel or 1):
            u = draw.normal(2 * _TRIED * d, d)
            u *= np.sqrt(draw.uniform(2 * _TRIED * d, 1) / np.square(u).sum(axis=1, keepdims=True))
            tried = np.clip(region.outer(u), *box)
            u = region.inner(tried)
            if model is not None:
                better = np.argsort(model.change(u), kind="stable")[: _TRIED * d]
                tried, u = tried[better], u[better]
            known = region.inner(np.concatenate((memory.x[-6 * d :], x)))
            distance = np.square(u[:, None] - known).sum(axis=-1).min(axis=1)
            x = np.concatenate((x, tried[[int(np.argmax(distance))]]))
        return x

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """Compare the promise with what came, and resize the region."""
        if evaluated is not None:  # the budget has ended inside this round
            return state
        chosen: Round = proposal.notes
        memory = chosen.memory
        value = np.where(order.is_feasible(value), value, np.inf)
        is_known = np.isfinite(value)
        before, best = memory.region, int(np.argmin(value))
        d = len(before.centre)
        kept = points_kept(d)
        memory = memory._replace(
            x=np.concatenate((memory.x, chosen.x[is_known]))[-kept:],
            f=np.concatenate((memory.f, value[is_known]))[-kept:],
            used=memory.used + len(value),
        )
        if memory.fell is None:
            memory = memory._replace(fell=value[:d] < memory.first_value)
        rounds_without = memory.idle + 1
        if value[best] < before.value:
            memory = memory._replace(region=before._replace(centre=chosen.x[best], value=float(value[best])))
            rounds_without = 0
        memory = memory._replace(idle=rounds_without)
        recent = max(10, 3 * d // (self.parallel or 1))
        if not math.isnan(chosen.promise):
            share = (chosen.known - value[best]) / chosen.promise if is_known[best] else -1.0
            has_kept = share >= _FAIR
            u = before.inner(chosen.x[[best if has_kept else 0]])[0]
            region = _resized(memory.region, _growth(share, math.sqrt(u @ u), before.radius))
            memory = memory._replace(region=region, is_bad=not has_kept, kept=(*memory.kept, has_kept)[-recent:])
        elif not is_known.any():  # the region is too large for the part that does not fail
            memory = memory._replace(region=_resized(memory.region, 0.5))
        is_due = memory.used >= _PATIENCE * _coefficients(d)
        if is_due and (sum(memory.kept) < _YIELDS * recent or memory.idle >= _IDLE * recent):
            memory = memory._replace(end=memory.end or YIELDED)
        if memory.region.radius < _SMALLEST:
            memory = memory._replace(end=CONVERGED)
        return _recorded(state, proposal, value)._replace(memory=memory)

    def joined(
        self, state: Swarm, latest: Proposal, came: Sequence[tuple[Proposal, int]], value: Floats
    ) -> tuple[Proposal, Floats]:
        """The points that are back as a round; the latest minimum of a model among them comes first."""
        ranks = [i == 0 and not math.isnan(proposal.notes.promise) for proposal, i in came]
        first = len(ranks) - 1 - ranks[::-1].index(True) if any(ranks) else 0
        places = [first, *(k for k in range(len(came)) if k != first)]
        own: Round = came[first][0].notes
        promise, known = (own.promise, own.known) if ranks[first] else (math.nan, math.nan)
        x = np.array([came[k][0].notes.x[came[k][1]] for k in places])
        position = np.array([came[k][0].position[came[k][1]] for k in places])
        notes = Round(x, latest.notes.memory, promise, known)
        return Proposal(position, np.zeros_like(position), notes=notes), value[places]

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the model promises nothing any more, or was wrong too often."""
        return np.asarray(bool(state.memory.end))

    def standing(self, state: Swarm, tol: float) -> Standing:
        """The best value and the region. It has no swarm whose values could be accurate enough."""
        memory: ModelMemory = state.memory
        region = memory.region
        has_arrived = memory.end == CONVERGED
        return Standing(region.value, math.inf, region.centre, region.reach, bool(memory.end), has_arrived)


def guess_of(lane: Any) -> Guess | None:
    """What a search that has yielded far from any minimum tells the swarm after it."""
    memory = None if lane is None else lane.swarm.memory
    if not isinstance(memory, ModelMemory) or memory.end == CONVERGED or has_many(len(memory.first)):
        return None
    if memory.region.reach < _FAR:
        return None
    region = memory.region
    law = law_with(region.centre, np.square(region.radius) * region.shape @ region.shape)
    return Guess(law, memory.x, memory.f)


def _coefficients(d: int) -> int:
    return 1 + d + d * (d + 1) // 2


def points_fitted(d: int) -> int:
    """How many of the nearest points a model takes."""
    return max(2 * d + 1, min(int(_PER_COEFFICIENT * _coefficients(d)), _MOST_FITTED))


def points_kept(d: int) -> int:
    """How many of the latest points are remembered."""
    return 4 * points_fitted(d)


def _modelled(memory: ModelMemory) -> tuple[ModelMemory, LocalModel | None]:
    """The model of the nearest points; the region gets its shape as soon as there are enough."""
    region, d = memory.region, len(memory.hessian)
    distance = np.square(region.inner(memory.x)).sum(axis=1)
    near = np.argsort(distance, kind="stable")[: points_fitted(d)]
    model = fitted(region, memory.hessian, memory.x[near], memory.f[near])
    if model is None:
        return memory._replace(hessian=np.zeros((d, d))), None
    hessian = in_widths(region, model)
    if len(memory.f) >= min(_coefficients(d), 6 * d if d > 6 else _coefficients(d)):
        new = shaped(region, hessian)
        turned = region.inverse @ new.shape
        model = LocalModel(turned.T @ model.slope, turned.T @ model.hessian @ turned)
        region = new
    return memory._replace(hessian=hessian, region=region), model


def promised(memory: ModelMemory, low: Floats, high: Floats, radius: float) -> float:
    """How far the value falls in the latest model, within so many radii of the region; infinite without a model."""
    memory, model = _modelled(memory)
    if model is None:
        return math.inf
    step = lowest(memory.region, model, low, high, radius)
    return -float(model.change(step[None])[0])


def _on_walls(x: Floats, low: Floats, high: Floats) -> Floats:
    """The points inside, exactly on a wall where only rounding keeps them away."""
    x = np.where(x < low + _ROUNDING, low, x)
    return np.where(x > high - _ROUNDING, high, x)


def _growth(share: float, length: float, radius: float) -> float:
    """The factor of the radius after a step of this length that kept this share of its promise."""
    if share >= _GOOD:
        return max(1.0, min(2 * length, _LARGEST / radius)) if length > _FULL else 1.0
    if share >= _FAIR:
        return max(0.5, min(1.0, length))
    return max(length, 0.1) if length < 0.5 else 1.0


def _resized(region: TrustRegion, times: float) -> TrustRegion:
    return region._replace(radius=region.radius * times)


def _visible(memory: ModelMemory) -> float:
    """The least fall that can be seen in the values."""
    value = memory.region.value
    return max(_ROUNDING * abs(value), _NEGLIGIBLE * max(0.0, memory.first_value - value))


def _unit(draw: RandomSource, d: int) -> Floats:
    u = draw.normal(1, d)[0]
    unit: Floats = u / math.sqrt(u @ u)
    return unit


def _box(state: Swarm) -> Box:
    """The bounds in their own widths; round coordinates have none."""
    d = state.n_dimensions
    low, high = np.zeros(d), np.ones(d)
    if state.axes is not None:
        low, high = np.where(state.axes.is_round, -np.inf, low), np.where(state.axes.is_round, np.inf, high)
    return low, high


def _within(state: Swarm, position: Floats) -> Floats:
    x: Floats = (position - state.lower[0]) / (state.upper[0] - state.lower[0])
    return x


def _recorded(state: Swarm, proposal: Proposal, value: Any) -> Swarm:
    """The swarm of the best points: as many as it had."""
    n = state.n_particles
    joined = state.joined_by(proposal.position, value)
    return joined.reduced_to(np.sort(np.argsort(joined.best_value, kind="stable")[:n]))
