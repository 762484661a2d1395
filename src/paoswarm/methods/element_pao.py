r"""The element-wise adaptive swarm: particles at rest, attractors made of differences, time steps learnt from success.

One generation of particle i, which starts at rest from its best point :math:`l_i`:

.. math:: \alpha_i = l_p + l_r - l_s, \qquad
          x_{ij} = \alpha_{ij} + A_{11}(dt_i)\,(l_{ij} - \alpha_{ij}) + \sqrt{q\,\Sigma_{11}(dt_i)}\,|l_{ij} - g_j|\,z

Here :math:`l_p` is one of the best bests, and :math:`l_r, l_s` are random ones (:math:`l_s` may also be a replaced
best). Element j moves with probability :math:`c_i` and stays otherwise; at least one moves. From rest, a step of length
dt covers the fraction :math:`F = 1 - A_{11}(dt)` of the way (A3). So this is differential evolution's
current-to-pbest/1 with success history (Tanabe and Fukunaga 2014), whose factor F is a time step.

The functions are written in the part of NumPy that numba compiles: compiled engines use the same text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from paoswarm._checks import whole_number
from paoswarm.core import order, swarm
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.attractors import RandomSource
from paoswarm.core.dynamics import NODES, WEIGHTS
from paoswarm.core.order import is_feasible
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.methods import moves
from paoswarm.methods.method import Method, check_hyperparameter

_DAMPING, _FREQUENCY = 0.2, 2.0**0.5  # the paper's spring
_LONGEST = 1.33  # A11 is -0.05: a particle slightly overshoots, as with F = 1.05
_FIRST_STEP, _FIRST_RATE = 0.85, 0.5  # F = 0.55; share of elements that move
_STEP_WIDTH, _RATE_WIDTH = 0.13, 0.1  # widths of the distributions around what was learnt
PERIODS = 6  # learnt values that are remembered
_BEST = 0.11  # share of the swarm from which l_p is chosen
_REPLACED = 2.0  # replaced bests that are kept, in sizes of the swarm
_SMALLEST = 4
_DELTA = math.sqrt((1 - _DAMPING) * (1 + _DAMPING))
_EPS = float(np.finfo(float).eps)
TRIES = 8  # draws of a time step; all are negative once in 1e8 for the first step


class ElementMemory(NamedTuple):
    """What an element-wise swarm remembers."""

    steps: Floats  # (PERIODS,) learnt time steps
    rates: Floats  # (PERIODS,) learnt probabilities of moving
    period: int  # which of them is replaced next
    replaced: Floats  # (m, d) bests that were replaced
    evaluations: int
    n_first: int  # particles at the start
    stalled: int  # generations without a better best


class Chances(NamedTuple):
    """The random numbers of one generation, in the order in which they are drawn."""

    period: Floats  # (n,) uniform: which of the learnt values is taken
    rate: Floats  # (n,) normal
    step: Floats  # (TRIES, n) uniform
    which: Floats  # (3, n) uniform: the particles of the attractor
    shaking: Floats  # (n, d) normal
    moves: Floats  # (n, d) uniform
    always: Floats  # (n,) uniform: the element that moves anyway


class ElementSteps(NamedTuple):
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
    joined = staticmethod(moves.one_for_each)
    smallest_swarm = _SMALLEST
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
        if isinstance(state.memory, ElementMemory):
            return state
        return state._replace(memory=first_memory(state.n_particles, state.n_dimensions))

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose one point for each particle."""
        near = self.unrolled(state)
        bests = near.best_position
        n, d = bests.shape
        memory: ElementMemory = state.memory
        if state.axes is not None:  # what was replaced, the short way round
            width = state.upper[0] - state.lower[0]
            memory = memory._replace(replaced=state.axes.unrolled(memory.replaced, state.global_best[0], width))
        chances = Chances(
            *(draw.uniform(n), draw.normal(n), draw.uniform(TRIES, n), draw.uniform(3, n)),
            *(draw.normal(n, d), draw.uniform(n, d), draw.uniform(n)),
        )
        ranking = order.ranked(order.score(near.best_value, near.repeats))
        x, steps = proposed(memory, bests, state.global_best[0], ranking, chances, self.noise)
        inside = brought_inside(x, bests, state.lower, state.upper)
        x = inside if state.axes is None else state.axes.wrapped(x, inside, state.lower, state.upper)
        return Proposal(x, np.zeros_like(x), notes=steps)

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """Keep the better of each pair, learn from the gains, and shrink."""
        after = swarm.record(state, proposal, value, evaluated)
        is_better = bool(order.is_better(after.global_value, state.global_value))
        with np.errstate(invalid="ignore"):  # a first finite value gains infinitely
            memory = learnt(
                state.memory, proposal.notes, after.age == 0, state.best_position, state.best_value, after.best_value,
                is_better,
            )  # fmt: skip
        n_now = size(memory, self.horizon, state.n_dimensions)
        if n_now < after.n_particles:
            after = after.reduced_to(order.ranked(order.score(after.best_value, after.repeats))[:n_now])
        return after._replace(memory=shortened(memory, after.n_particles))

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the bests are equal, or progress has ended."""
        reach, d = float(spread), state.n_dimensions
        with np.errstate(invalid="ignore"):
            return np.asarray(is_over(state.memory, state.best_value, reach, self.horizon, d))


def first_memory(n: int, d: int) -> ElementMemory:
    """Nothing is learnt yet by ``n`` particles."""
    return ElementMemory(np.full(PERIODS, _FIRST_STEP), np.full(PERIODS, _FIRST_RATE), 0, np.empty((0, d)), n, n, 0)


def proposed(
    memory: ElementMemory, bests: Floats, leader: Floats, ranking: Any, by: Chances, noise: float
) -> tuple[Floats, ElementSteps]:
    """One point for each particle (A7), which may lie outside the bounds; ``leader`` is the best point of all."""
    d = bests.shape[1]
    chosen = _integers(by.period, PERIODS)
    rate = np.minimum(np.maximum(memory.rates[chosen] + _RATE_WIDTH * by.rate, 0.0), 1.0)
    step = _positive(memory.steps[chosen] + _STEP_WIDTH * np.tan(np.pi * (by.step - 0.5)))
    attractor = _attractors(bests, ranking, memory.replaced, by.which)
    stays, shaken = law_from_rest(step)
    moved = attractor + stays[:, None] * (bests - attractor)
    moved = moved + math.sqrt(noise) * shaken[:, None] * np.abs(bests - leader) * by.shaking
    moves = (by.moves < rate[:, None]) | (np.arange(d) == _integers(by.always, d)[:, None])
    return np.where(moves, moved, bests), ElementSteps(step, rate)


def brought_inside(x: Floats, bests: Floats, lower: Floats, upper: Floats) -> Floats:
    """Beyond a bound, halfway between it and the best: so that a bound stays reachable but is no trap."""
    return np.where(x < lower, (lower + bests) / 2, np.where(x > upper, (upper + bests) / 2, x))


def law_from_rest(step: Floats) -> tuple[Floats, Floats]:
    r""":math:`A_{11}` and :math:`\sqrt{\Sigma_{11}}` of `paoswarm.core.dynamics.exact_transition` for short steps."""
    tau = _FREQUENCY * step
    stays = _propagated(tau)[0]
    reach = _propagated(tau[:, None] * NODES)[1]
    variance = tau * np.sum(WEIGHTS * (reach * reach), axis=1)
    return stays, np.sqrt(variance / _FREQUENCY**3)


def _propagated(tau: Floats) -> tuple[Floats, Floats]:
    """The first row of equation (8) for a frequency of one."""
    x = _DELTA * tau
    envelope = np.exp(-tau * _DAMPING)
    is_zero = x == 0
    sine = tau * (np.sin(x) / (x + is_zero) + is_zero)
    return envelope * (np.cos(x) + _DAMPING * sine), envelope * sine


def _integers(uniform: Floats, n: int) -> Any:
    """Integers below ``n``."""
    return (uniform * n).astype(np.int64)


def _positive(tries: Floats) -> Floats:
    """The first positive of several draws, no longer than the longest step; the last column if there is none."""
    step = tries[-1]
    for c in range(len(tries) - 2, -1, -1):
        step = np.where(tries[c] > 0, tries[c], step)
    return np.where(step > 0, np.minimum(step, _LONGEST), _FIRST_STEP)


def _attractors(bests: Floats, ranking: Any, replaced: Floats, uniform: Floats) -> Floats:
    n = len(bests)
    me = np.arange(n)
    leaders = bests[ranking[_integers(uniform[0], max(2, round(_BEST * n)))]]
    other = (me + 1 + _integers(uniform[1], n - 1)) % n
    # The third is neither the particle nor the second: number those that are left.
    pool = np.concatenate((bests, replaced))
    third = _integers(uniform[2], len(pool) - 2)
    third = third + (third >= np.minimum(me, other))
    third = third + (third >= np.maximum(me, other))
    return leaders + bests[other] - pool[third]


def learnt(
    memory: ElementMemory,
    made: ElementSteps,
    improved: Any,
    bests: Floats,
    before: Floats,
    after: Floats,
    is_better: bool,
) -> ElementMemory:
    """Gain-weighted Lehmer means of what succeeded.

    The particles that ``improved`` had these ``bests``; their values were ``before`` and are ``after``. A smaller
    violation counts as the largest gain in value.
    """
    done, stalled = memory.evaluations + len(bests), 0 if is_better else memory.stalled + 1
    steps, rates, period, replaced = memory.steps.copy(), memory.rates.copy(), memory.period, memory.replaced
    if improved.any():
        was = before[improved]
        gain = was - after[improved]
        gain = np.where(np.isfinite(gain), gain, 0.0)
        is_value = is_feasible(was)
        if not is_value.all():
            largest = np.where(is_value, gain, 0.0).max()
            gain = np.where(is_value | (gain == 0), gain, largest if largest > 0 else 1.0)
        total = gain.sum()
        weight = gain / total if total > 0 else np.full(len(gain), 1 / len(gain))
        steps[period], rates[period] = _lehmer(weight, made.step[improved]), _lehmer(weight, made.rate[improved])
        replaced, period = np.concatenate((replaced, bests[improved])), (period + 1) % PERIODS
    return ElementMemory(steps, rates, period, replaced, done, memory.n_first, stalled)


def _lehmer(weight: Floats, x: Floats) -> float:
    """Weighted Lehmer mean (A8): larger values count more."""
    mean = float(weight @ x)
    return float(weight @ np.square(x)) / mean if mean > 0 else 0.0


def size(memory: ElementMemory, horizon: float, d: int) -> int:
    """How many particles there should be: a linear decrease over the horizon."""
    done = memory.evaluations / (horizon * d)
    return max(_SMALLEST, round(memory.n_first + (_SMALLEST - memory.n_first) * done))


def shortened(memory: ElementMemory, n: int) -> ElementMemory:
    """The memory with as many replaced bests as a swarm of ``n`` particles keeps."""
    replaced = memory.replaced[-int(_REPLACED * n) :]
    return ElementMemory(
        memory.steps, memory.rates, memory.period, replaced, memory.evaluations, memory.n_first, memory.stalled
    )


def is_over(memory: ElementMemory, best_values: Floats, reach: float, horizon: float, d: int) -> bool:
    """Whether the bests are equal, or progress has ended; ``reach`` is the spread of the swarm."""
    lowest = best_values.min()
    if best_values.max() - lowest <= 16 * _EPS * abs(lowest) or reach < 1e-11:
        return True
    return memory.stalled > 100 + 10 * d or memory.evaluations > 1.1 * horizon * d
