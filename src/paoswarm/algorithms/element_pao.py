r"""The element-wise adaptive swarm: particles at rest, attractors made of differences, time steps learnt from success.

One generation of particle i, which starts at rest from its best point :math:`l_i`:

.. math:: \alpha_i = l_p + l_r - l_s, \qquad
          x_{ij} = \alpha_{ij} + A_{11}(dt_i)\,(l_{ij} - \alpha_{ij}) + \sqrt{q\,\Sigma_{11}(dt_i)}\,|l_{ij} - g_j|\,z

Here :math:`l_p` is one of the best bests, and :math:`l_r, l_s` are random ones (:math:`l_s` may also be a replaced
best). Element j moves with probability :math:`c_i` and stays otherwise; at least one moves. From rest, a step of length
dt covers the fraction :math:`F = 1 - A_{11}(dt)` of the way (A3). So this is differential evolution's
current-to-pbest/1 with success history (Tanabe and Fukunaga 2014), whose factor F is a time step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from paoswarm._checks import whole_number
from paoswarm.algorithms.hyperparameters import check_hyperparameter
from paoswarm.algorithms.method import Method
from paoswarm.core import order, swarm
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.attractors import RandomSource
from paoswarm.core.dynamics import exact_transition
from paoswarm.core.swarm import Proposal, Swarm

DAMPING, FREQUENCY = 0.2, 2.0**0.5  # the paper's spring
LONGEST = 1.33  # A11 is -0.05: a particle slightly overshoots, as with F = 1.05
FIRST_STEP, FIRST_RATE = 0.85, 0.5  # F = 0.55; share of elements that move
STEP_WIDTH, RATE_WIDTH = 0.13, 0.1  # widths of the distributions around what was learnt
PERIODS = 6  # learnt values that are remembered
BEST = 0.11  # share of the swarm from which l_p is chosen
REPLACED = 2.0  # replaced bests that are kept, in sizes of the swarm
SMALLEST = 4
TRIES = 8  # draws of a time step; all are negative once in 1e8 for the first step


class Element(NamedTuple):
    """What an element-wise swarm remembers."""

    steps: Floats  # (PERIODS,) learnt time steps
    rates: Floats  # (PERIODS,) learnt probabilities of moving
    period: int  # which of them is replaced next
    replaced: Floats  # (m, d) bests that were replaced
    evaluations: int
    n_first: int  # particles at the start
    stalled: int  # generations without a better best


class Trial(NamedTuple):
    """How the points of one generation were made."""

    step: Floats  # (n,)
    rate: Floats  # (n,)


@dataclass(frozen=True)
class ElementPAO(Method):
    """A swarm whose elements move one by one, and which shrinks as it converges.

    Use it if the unknowns act nearly independently, or if there are very many local minima in a regular pattern. It
    ends by itself when its bests are equal or it makes no progress.

    Parameters
    ----------
    horizon : int
        Evaluations for each unknown in which the swarm shrinks from its first size to four particles.
    noise : float
        Strength ``q`` of the shaking. It is small: the differences already carry the randomness.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> def rastrigin(x):
    ...     return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)
    >>> result = ps.minimize(
    ...     rastrigin, [(-4, 5)] * 5, method=ps.ElementPAO(), n_particles=25, maxiter=2000, vectorized=True, rng=1
    ... )
    >>> bool(result.fun < 1e-8 and result.nfev < 6000)
    True
    """

    applies_walls: ClassVar[bool] = True
    smallest_swarm: ClassVar[int] = SMALLEST
    horizon: int = 1000
    noise: float = 1e-4

    def __post_init__(self) -> None:
        whole_number("horizon", self.horizon, 1)
        check_hyperparameter("noise", self.noise, 0.0)

    def default_particles(self, n_unknowns: int, maxfev: int | None = None, maxiter: int | None = None) -> int:
        """Five for each unknown, at least twelve."""
        return max(12, 5 * n_unknowns)

    def default_limits(self, n_unknowns: int) -> tuple[int | None, int | None]:
        """Ten thousand evaluations for each unknown; most searches end by themselves long before."""
        return None, 10_000 * n_unknowns

    def tolerant_for(self, n_unknowns: int, n_particles: int) -> float:
        """Four fifths of the horizon."""
        return 0.8 * self.horizon * n_unknowns

    def begin(self, state: Swarm) -> Swarm:
        """Return the swarm with nothing learnt yet; unchanged if it has learnt already."""
        if isinstance(state.memory, Element):
            return state
        n = state.n_particles
        steps, rates = np.full(PERIODS, FIRST_STEP), np.full(PERIODS, FIRST_RATE)
        return state._replace(memory=Element(steps, rates, 0, state.best_position[:0], n, n, 0))

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose one point for each particle."""
        memory: Element = state.memory
        near = self.unrolled(state)
        bests = near.best_position
        n, d = bests.shape
        chosen = _integers(draw.uniform(n), PERIODS)
        rate = np.clip(memory.rates[chosen] + RATE_WIDTH * draw.normal(n), 0, 1)
        step = _positive(memory.steps[chosen] + STEP_WIDTH * np.tan(np.pi * (draw.uniform(TRIES, n) - 0.5)))
        attractor = _attractors(near, _seen(state, memory.replaced), draw.uniform(3, n))
        law = exact_transition(np.full(n, DAMPING), np.full(n, FREQUENCY), step)
        moved = attractor + law.A[:, 0, 0, None] * (bests - attractor)  # (A7)
        shaken = np.sqrt(self.noise) * law.cholesky[:, 0, 0, None] * np.abs(bests - state.global_best)
        moved += shaken * draw.normal(n, d)
        moves = draw.uniform(n, d) < rate[:, None]
        moves[np.arange(n), _integers(draw.uniform(n), d)] = True
        x = np.where(moves, moved, bests)
        # Beyond a bound: halfway between it and the best, so that a bound stays reachable but is no trap.
        inside = np.where(
            x < state.lower, (state.lower + bests) / 2, np.where(x > state.upper, (state.upper + bests) / 2, x)
        )
        x = inside if state.axes is None else state.axes.wrapped(x, inside, state.lower, state.upper)
        return Proposal(x, np.zeros_like(x), notes=Trial(step, rate))

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """Keep the better of each pair, learn from the gains, and shrink."""
        after = swarm.record(state, proposal, value, evaluated)
        memory = self._learnt(state, after, proposal.notes)
        n_now = self._size(memory, state.n_dimensions)
        if n_now < after.n_particles:
            after = after.reduced_to(order.ranked(order.score(after.best_value, after.repeats))[:n_now])
        memory = memory._replace(replaced=memory.replaced[-int(REPLACED * after.n_particles) :])
        return after._replace(memory=memory)

    def _learnt(self, before: Swarm, after: Swarm, trial: Trial) -> Element:
        """Gain-weighted Lehmer means of what succeeded."""
        memory: Element = before.memory
        improved = after.age == 0
        memory = memory._replace(
            evaluations=memory.evaluations + before.n_particles,
            stalled=0 if order.is_better(after.global_value, before.global_value) else memory.stalled + 1,
        )
        if not improved.any():
            return memory
        with np.errstate(invalid="ignore"):  # a first finite value gains infinitely
            gain = before.best_value[improved] - after.best_value[improved]
        gain = np.where(np.isfinite(gain), gain, 0.0)
        is_value = order.is_feasible(before.best_value[improved])
        if not is_value.all():  # a smaller violation counts as the largest gain in value
            gain = np.where(is_value | (gain == 0), gain, gain[is_value].max(initial=0.0) or 1.0)
        weight = gain / gain.sum() if gain.sum() > 0 else np.full(len(gain), 1 / len(gain))
        steps, rates = memory.steps.copy(), memory.rates.copy()
        steps[memory.period] = _lehmer(weight, trial.step[improved])
        rates[memory.period] = _lehmer(weight, trial.rate[improved])
        replaced = np.concatenate([memory.replaced, before.best_position[improved]])
        return memory._replace(steps=steps, rates=rates, period=(memory.period + 1) % PERIODS, replaced=replaced)

    def _size(self, memory: Element, d: int) -> int:
        """How many particles there should be: a linear decrease over the horizon."""
        done = memory.evaluations / (self.horizon * d)
        return max(SMALLEST, round(memory.n_first + (SMALLEST - memory.n_first) * done))

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the bests are equal, or progress has ended."""
        memory: Element = state.memory
        d = state.n_dimensions
        bests = state.best_value
        with np.errstate(invalid="ignore"):
            apart = float(bests.max() - bests.min())
        is_flat = apart <= 16 * np.finfo(float).eps * abs(float(state.global_value))
        is_over = memory.evaluations > 1.1 * self.horizon * d
        return np.asarray(is_flat or bool(spread < 1e-11) or memory.stalled > 100 + 10 * d or is_over)


def _seen(state: Swarm, points: Floats) -> Floats:
    """Points as seen from the best one, the short way round."""
    if state.axes is None:
        return points
    return state.axes.unrolled(points, state.global_best[0], state.upper[0] - state.lower[0])


def _integers(uniform: Floats, n: int) -> Any:
    """Integers below ``n``."""
    return (uniform * n).astype(np.int64)


def _positive(tries: Floats) -> Floats:
    """The first positive of several draws, no longer than the longest step; the last column if there is none."""
    first = np.argmax(tries > 0, axis=0)
    step = np.take_along_axis(tries, first[None], axis=0)[0]
    return np.where(step > 0, np.minimum(step, LONGEST), FIRST_STEP)


def _attractors(state: Swarm, replaced: Floats, uniform: Floats) -> Floats:
    bests = state.best_position
    n = len(bests)
    me = np.arange(n)
    ranked = order.ranked(order.score(state.best_value, state.repeats))
    leaders = bests[ranked[_integers(uniform[0], max(2, round(BEST * n)))]]
    other = (me + 1 + _integers(uniform[1], n - 1)) % n
    # The third is neither the particle nor the second: number those that are left.
    pool = np.concatenate([bests, replaced])
    third = _integers(uniform[2], len(pool) - 2)
    low, high = np.minimum(me, other), np.maximum(me, other)
    third += third >= low
    third += third >= high
    attractors: Floats = leaders + bests[other] - pool[third]
    return attractors


def _lehmer(weight: Floats, x: Floats) -> float:
    """Weighted Lehmer mean (A8): larger values count more."""
    mean = float(weight @ x)
    return float(weight @ np.square(x)) / mean if mean > 0 else 0.0
