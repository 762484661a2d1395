r"""The dense adaptive swarm: every particle is pulled by the best ones and shaken by noise that the swarm has learnt.

One generation:

1. The particles move: :math:`x_i \sim N(a, \sigma^2 C)`, a complete relaxation toward the mean :math:`a` of the best.
2. If a quadratic model of the evaluated points has proved that it orders new points rightly, one particle is pulled to
   the model's minimum instead (the *scout*), and only the most promising third is evaluated. The others get the
   model's prediction. If the model fails this test, the others are evaluated after all.
3. The ranks of the values teach the next :math:`a, \sigma, C` (`paoswarm.methods.dense_learning`).

Particles may leave the bounds; the objective is evaluated at the nearest point inside, and the way outside counts
against them. Everything is computed in widths of the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from paoswarm._checks import flag
from paoswarm.core import order, swarm
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.attractors import RandomSource
from paoswarm.core.laws import StepLaw
from paoswarm.core.random import Seed
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.core.walls import WALLS
from paoswarm.methods import averaging, quadratic_model
from paoswarm.methods.averaging import Averaging, Contraction
from paoswarm.methods.dense_learning import (
    EVALUATED,
    GOES_ON,
    GREW,
    DenseProgress,
    Law,
    after_generation,
    asked_of,
    completed,
    draws,
    end_of,
    first_law,
    first_progress,
    is_rounding,
    longest,
    rates_of,
)
from paoswarm.methods.low_rank import first_low_rank_law, has_many
from paoswarm.methods.method import Method, Standing, check_hyperparameter, check_parallel, in_rounds
from paoswarm.methods.quadratic_model import (
    QuadraticModel,
    Trust,
    after_test,
    generations_between_fits,
    is_due,
    is_trusted,
    n_coefficients,
    points_for,
    untested,
)


class Generation(NamedTuple):
    """A generation between the draw of its particles and the last of its values. Points are in widths of the bounds."""

    x: Floats  # (n, d), may lie outside the bounds
    predicted: Floats | None  # (n,) by the model
    is_led: bool  # whether the last particle is the scout and only some are evaluated
    values: Floats  # (n,) measured so far; NaN where not
    asked: Any  # (m,) numbers of the particles whose values are asked for
    model: QuadraticModel | None = None  # behind the predictions


class DenseMemory(NamedTuple):
    """What a dense swarm remembers."""

    law: Law
    x: Floats  # (m, d) recently evaluated points, in widths of the bounds
    f: Floats  # (m,) their values
    trust: Trust
    model: QuadraticModel | None  # the latest
    open: Generation | None  # a generation whose other particles have to be evaluated after all
    progress: DenseProgress
    averaging: Averaging | None = None  # of a noisy objective
    contraction: Contraction = Contraction()  # while nobody knows whether it is noisy
    is_limited: bool = False  # whether points have broken constraints: the mean of the centres may do so, too


class Guess(NamedTuple):
    """The law with which a search begins, and points for its model, in widths of the bounds."""

    law: Law
    x: Floats  # (m, d)
    f: Floats  # (m,)


def first_points(state: Swarm, guess: Guess, normal: Floats) -> Floats:
    """The first swarm of a search that begins with a guess."""
    return _outside(state, draws(guess.law, normal))


@dataclass(frozen=True)
class DensePAO(Method):
    r"""A swarm with dense noise that learns its shape, step by step, from the ranks of the values.

    With up to 50 unknowns it does not depend on how the axes are turned, nor on increasing transformations of the
    objective (without the model). Use it for narrow, bent or rotated valleys. It ends by itself when it has converged
    or makes no progress; `Restarts` starts it again with more particles.

    Parameters
    ----------
    spread : float
        Standard deviation of the first cloud, in widths of the bounds. The cloud begins around the best point of the
        first swarm.
    model : bool
        Whether to use a quadratic model of the points evaluated so far. On smooth functions it saves half of the
        evaluations; on others it finds out that it is of no use.
    parallel : int or None
        How many points are evaluated at once. The size of the swarm is a multiple of it, unless you choose it, and so
        is the number of particles that are evaluated if the model replaces the others. None: as many as `minimize`
        has workers, else one.

    Notes
    -----
    Every step is the limit of a long time step of the exact transition, with the best half of the swarm as attractors
    and dense noise. In this limit sampling and learning are those of CMA-ES (Hansen 2016, with negative weights). The
    model with its test is related to lq-CMA-ES (Hansen 2019). With more than 50 unknowns the noise has a width for each
    coordinate and four longer directions, as in VkD-CMA-ES (Akimoto and Hansen 2016): learning a dense covariance
    would take too many evaluations.

    Examples
    --------
    >>> import paoswarm as ps
    >>> def rosenbrock(x):
    ...     return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1)
    >>> result = ps.minimize(
    ...     rosenbrock, [(-5, 10)] * 5, method=ps.DensePAO(), n_particles=8, maxiter=1000, vectorized=True, rng=1
    ... )
    >>> bool(result.fun < 1e-9 and result.nfev < 3000)
    True
    """

    applies_walls: ClassVar[bool] = True
    spread: float = 0.2
    model: bool = True
    parallel: int | None = None

    def __post_init__(self) -> None:
        check_hyperparameter("spread", self.spread, 0.0, 10.0)
        flag("model", self.model)
        check_parallel(self.parallel)

    def default_particles(self, n_unknowns: int, maxfev: int | None = None, maxiter: int | None = None) -> int:
        """Hansen's size, 4 + 3 ln d, or the next multiple of ``parallel``."""
        return in_rounds(4 + int(3 * math.log(n_unknowns)), self.parallel)

    def default_limits(self, n_unknowns: int) -> tuple[int | None, int | None]:
        """Ten thousand evaluations for each unknown; most searches end by themselves long before."""
        return None, 10_000 * n_unknowns

    def tolerant_for(self, n_unknowns: int, n_particles: int) -> float:
        """300 evaluations for each unknown."""
        return 300.0 * n_unknowns

    def begin(self, state: Swarm) -> Swarm:
        """Return the swarm with a round cloud around its best point; unchanged if it has learnt already."""
        if isinstance(state.memory, DenseMemory):
            return state
        x = _inside(state, state.best_position)
        first = first_low_rank_law if has_many(x.shape[-1]) else first_law
        law = first(x[int(order.best(state.best_value))], self.spread)
        guess = state.memory or Guess(law, x[:0], state.value[:0])
        progress = first_progress(state.best_value)
        memory = DenseMemory(guess.law, guess.x, guess.f, Trust(), None, None, progress)
        return state._replace(memory=_with_points(memory, x, state.best_value))

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose the particles of a new generation, or those that were left out of the last one."""
        memory: DenseMemory = state.memory
        generation = memory.open
        if generation is None:
            generation = self._moved(state, draw.normal(*state.position.shape))
        position = _outside(state, generation.x[generation.asked])
        if state.repeats is not None and not memory.is_limited:
            answer = memory.law.centre if memory.averaging is None else memory.averaging.x
            position = np.concatenate((position, _outside(state, answer[None])))
        return Proposal(position, np.zeros_like(position), notes=generation)

    def _moved(self, state: Swarm, normal: Floats) -> Generation:
        """Draw the particles of a generation, and choose those to evaluate."""
        memory: DenseMemory = state.memory
        law, trust = memory.law, memory.trust
        x = draws(law, normal)
        n, d = x.shape
        blank = Generation(x, None, False, np.full(n, np.nan), np.arange(n))
        if not self.model or not is_due(trust):
            return blank
        model, is_new = memory.model, False
        if model is None or law.generation - model.generation >= generations_between_fits(d):
            model, is_new = quadratic_model.fit(law, _seen(state, memory.x, law.centre), memory.f), True
        if not len(model.coefficients):
            return blank
        is_led = is_trusted(trust)
        if is_led and is_new:
            x[-1] = quadratic_model.minimum(model, law)  # the scout
        predicted = quadratic_model.predict(model, _within(state, x))
        if is_led:
            count = min(n, in_rounds(max(2, math.ceil(EVALUATED * n)), self.parallel))
            blank = blank._replace(asked=asked_of(predicted, count, is_new))
        return blank._replace(predicted=predicted, is_led=is_led, model=model)

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """Complete the generation, or open it again if the model was wrong; then learn."""
        if evaluated is not None:  # the budget has ended inside this generation
            return state
        generation: Generation = proposal.notes
        average = None
        if state.repeats is not None and not state.memory.is_limited:
            average = state.memory.averaging or Averaging(state.memory.law.centre)
            average = averaging.with_trial(average, state, proposal.position[-1], float(value[-1]))
            proposal, value = proposal._replace(position=proposal.position[:-1]), value[:-1]
        values = generation.values.copy()
        values[generation.asked] = order.failed_last(value)
        memory: DenseMemory = state.memory
        after = _recorded(state, proposal.position, value, generation.asked)
        x, inside = generation.x, _within(state, generation.x)
        memory = _with_points(memory, inside[generation.asked], value)
        trust, is_measured = memory.trust, ~np.isnan(values)
        if generation.predicted is None:
            trust = untested(trust)
        elif memory.open is None:
            trust = after_test(trust, generation.predicted[generation.asked], values[generation.asked])
            if not is_trusted(trust) and not is_measured.all():
                again = generation._replace(values=values, asked=np.flatnonzero(~is_measured), model=None)
                after = after if average is None else averaging.with_answer(after, average)
                return after._replace(memory=memory._replace(trust=trust, open=again, averaging=average))
        if generation.predicted is not None and not is_measured.all():
            values = completed(values, generation.predicted, generation.asked)
        with np.errstate(invalid="ignore"):  # if whole generations have failed
            by = rates_of(memory.law, len(x))
            law, progress = after_generation(memory.law, by, memory.progress, x, values, x - inside)
        violated = order.violation(values)
        if ((violated > 0) & np.isfinite(violated)).any():
            average, memory = None, memory._replace(is_limited=True)
        if average is not None:
            average = averaging.with_particles(average, values) if is_measured.all() else average
            law = averaging.widened(average, law, memory.law)
            average = averaging.with_centre(average, law.centre)
            after = averaging.grown(after, average, self.default_particles(x.shape[1]))
            after = averaging.with_answer(after, average)
        memory = memory._replace(
            law=law, trust=trust, open=None, model=generation.model, progress=progress, averaging=average
        )
        return after._replace(memory=memory._replace(contraction=_contraction(memory)))

    def joined(
        self, state: Swarm, latest: Proposal, came: Sequence[tuple[Proposal, int]], value: Floats
    ) -> tuple[Proposal, Floats]:
        """The latest generation with the points that are back in place of those that were asked for."""
        generation: Generation = latest.notes
        x, predicted = generation.x.copy(), generation.predicted
        x[generation.asked] = [proposal.notes.x[proposal.notes.asked[i]] for proposal, i in came]
        if generation.model is not None:
            predicted = quadratic_model.predict(generation.model, _within(state, x))
        position = np.array([proposal.position[i] for proposal, i in came])
        notes = generation._replace(x=x, predicted=predicted)
        return Proposal(position, np.zeros_like(position), notes), value

    def has_converged(self, state: Swarm, spread: Array, tol: float) -> Array:
        """Whether the search is over; see `paoswarm.methods.dense_learning`."""
        return np.asarray(self.standing(state, tol).is_over)

    def standing(self, state: Swarm, tol: float) -> Standing:
        """By the values of the last generation, and the law of the next one.

        If the cloud has grown too wide, a swarm that begins elsewhere will do better.
        """
        memory: DenseMemory = state.memory
        progress, law = memory.progress, memory.law
        end = end_of(law, progress, state.n_particles, self.spread, self.model and is_trusted(memory.trust))
        lowest, apart = (float(progress.bests[-1]), progress.spread) if progress.generations else (math.inf, math.inf)
        is_over = end != GOES_ON or (memory.averaging is not None and memory.averaging.is_settled)
        return Standing(lowest, apart, law.centre, longest(law), is_over, has_arrived=end != GREW)

    def suspects_noise(self, state: Swarm) -> bool:
        """Whether the cloud has contracted and its values have not."""
        memory: DenseMemory = state.memory
        return memory.contraction.is_strange

    def checked_for_noise(self, state: Swarm, is_noisy: bool) -> Swarm:
        """After a point was measured again."""
        state = super().checked_for_noise(state, is_noisy)
        return state._replace(memory=state.memory._replace(contraction=Contraction()))

    def answering(self, state: Swarm) -> Swarm:
        """The swarm itself: it remembers the answer."""
        return state

    def step_law(self, state: Swarm, progress: float = 0.0, rng: Seed = None) -> StepLaw:
        """Closed-form law of the next positions, before they are brought inside the bounds; see `StepLaw`.

        It is the law of all particles but the scout. The velocity is that of a spring with unit mass and stiffness.
        """
        width = state.upper[0] - state.lower[0]
        memory: DenseMemory = state.memory
        shape = state.position.shape
        factor = width[:, None] * memory.law.factor
        return StepLaw(
            mean_position=np.broadcast_to(state.lower[0] + width * memory.law.centre, shape),
            mean_velocity=np.zeros(shape),
            scale=np.broadcast_to(np.sqrt(np.square(factor).sum(axis=-1)), shape),
            cholesky=np.eye(2),
            factor=factor[None],
            wall=WALLS["none"],
            lower=state.lower[0],
            upper=state.upper[0],
        )


def _contraction(memory: DenseMemory) -> Contraction:
    """After a generation; values that are equal but for rounding are not apart."""
    progress = memory.progress
    apart = 0.0 if is_rounding(progress.spread, progress) else progress.spread
    return memory.contraction.after(apart, longest(memory.law))


def _inside(state: Swarm, position: Floats) -> Floats:
    """Positions in widths of the bounds."""
    inside: Floats = (position - state.lower[0]) / (state.upper[0] - state.lower[0])
    return inside


def _outside(state: Swarm, x: Floats) -> Floats:
    """The points of the box nearest to ``x``, which is in widths of the bounds."""
    low, high = state.lower[0], state.upper[0]
    x = low + x * (high - low)
    nearest: Floats = np.clip(x, low, high)
    return nearest if state.axes is None else state.axes.wrapped(x, nearest, low, high)


def _within(state: Swarm, x: Floats) -> Floats:
    """The nearest points inside the bounds, in widths of them; a round coordinate has none."""
    nearest: Floats = np.clip(x, 0, 1)
    return nearest if state.axes is None else np.where(state.axes.is_round, x, nearest)


def _seen(state: Swarm, x: Floats, centre: Floats) -> Floats:
    """Points in widths of the bounds as seen from the centre, the short way round."""
    return x if state.axes is None else state.axes.unrolled(x, centre, 1.0)


def _with_points(memory: DenseMemory, x: Floats, f: Floats) -> DenseMemory:
    """The memory with feasible points for the model; as many as it needs are kept."""
    known = order.is_feasible(f)
    d = x.shape[-1]
    kept = max(3 * points_for(n_coefficients(d)), 4 * len(x))
    return memory._replace(
        x=np.concatenate([memory.x, x[known]])[-kept:], f=np.concatenate([memory.f, f[known]])[-kept:]
    )


def _recorded(state: Swarm, position: Floats, value: Floats, particles: Any) -> Swarm:
    """The swarm after some of its particles were evaluated."""
    everywhere, values = state.position.copy(), np.full_like(state.value, np.nan)
    everywhere[particles], values[particles] = position, value
    evaluated = np.zeros(len(values), dtype=bool)
    evaluated[particles] = True
    return swarm.record(state, Proposal(everywhere, np.zeros_like(everywhere)), values, evaluated)
