"""Differential evolution (Storn and Price 1997), and with parameters that adapt (Qin and Suganthan 2005)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from paoswarm._checks import whole_number
from paoswarm.core.arrays import Array, namespace
from paoswarm.core.attractors import RandomSource
from paoswarm.core.differences import STRATEGIES, crossover, partners, rows
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.methods import schedules
from paoswarm.methods.method import Method, check_hyperparameter, check_walls
from paoswarm.methods.schedules import Hyperparameter


@dataclass(frozen=True)
class DE(Method):
    r"""Differential evolution.

    A trial takes each element from the mutant with probability ``crossover``, otherwise from its parent. It replaces
    the parent if it is better. The population is the swarm's ``best_position``; ``position`` holds the last trials.

    Parameters
    ----------
    factor : float or function of progress
        :math:`F`, the weight of the differences.
    crossover : float or function of progress
        :math:`CR`, the probability that an element comes from the mutant.
    strategy : {"rand/1", "rand/2", "best/1", "best/2", "current-to-best/1", "current-to-best/2"}
        How mutants are made; ``rand/1`` is :math:`r_1 + F (r_2 - r_3)`.
    walls : str
        See `PAO`.

    Notes
    -----
    The defaults F = 0.5 and CR = 0.9 are the values that Storn and Price recommend to try first. `paper` has CR = 0.2,
    as in Champneys and Rogers' study. (Their released code keeps the *parent's* element with that probability.)

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 3, method=ps.classic.DE(), rng=1).fun < 1e-9
    True
    """

    applies_walls: ClassVar[bool] = True
    moves_singly: ClassVar[bool] = True
    takes_batches = True

    factor: Hyperparameter = 0.5
    crossover: Hyperparameter = 0.9
    strategy: str = "rand/1"
    walls: str = "clip"

    def __post_init__(self) -> None:
        check_hyperparameter("factor", self.factor, 0.0, 2.0)
        check_hyperparameter("crossover", self.crossover, 0.0, 1.0)
        check_strategies((self.strategy,))
        check_walls(self.walls)

    @classmethod
    def paper(cls) -> DE:
        """Return DE with the hyperparameters of Champneys and Rogers' study."""
        return cls(factor=0.5, crossover=0.2)

    @property
    def smallest_swarm(self) -> int:
        """An individual and its partners."""
        return 1 + STRATEGIES[self.strategy].n_partners

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose one trial for every individual."""
        near = self.unrolled(state)
        n, d = near.position.shape[-2:]
        factor, rate = (schedules.evaluate(p, progress, None) for p in (self.factor, self.crossover))
        strategy = STRATEGIES[self.strategy]
        population = near.best_position
        others = (rows(population, r) for r in partners(draw.uniform(n, strategy.n_partners)))
        mutant = strategy.mutant(population, near.global_best, factor, *others)
        trial = crossover(mutant, population, rate, draw.uniform(n, d), draw.uniform(n, 1))
        return Proposal(*near.wall(self.wall).apply(trial, near.velocity, near.lower, near.upper))


def check_strategies(names: tuple[str, ...]) -> None:
    """Raise for an unknown strategy."""
    for name in names:
        if not isinstance(name, str) or name not in STRATEGIES:
            raise ValueError(f"strategy must be one of {list(STRATEGIES)}, got {name!r}")


_TRIES = 6  # normal deviates per factor; with the defaults, all lie outside (0, 2] once in 1e7 trials
_KEEP_ALIVE = 0.01  # added to success rates so that every strategy keeps being tried (Qin, Huang and Suganthan 2009)


class Learning(NamedTuple):
    """What the population has learnt. The first axes of every array are the runs; ``s`` is the number of strategies."""

    strategies: Array  # (*batch,) checksum of the strategies' names, in their order
    generation: Array  # (*batch,)
    probability: Array  # (*batch, s) of each strategy
    wins: Array  # (*batch, s) trials in this learning period that replaced their parent
    losses: Array  # (*batch, s) trials that did not
    rate: Array  # (*batch, n) current crossover rates
    rate_mean: Array  # (*batch,) mean of the distribution of new rates
    rate_sum: Array  # (*batch,) sum of the successful rates since the mean was last updated
    rate_count: Array  # (*batch,) their number


class TrialRecord(NamedTuple):
    """How the trials of one generation were made."""

    strategy: Array  # (*batch, n) index of the strategy
    rate: Array  # (*batch, n) crossover rate


@dataclass(frozen=True)
class SADE(Method):
    r"""Self-adaptive differential evolution.

    Trials are made and selected as in `DE`, with parameters that adapt:

    - The strategy of a trial is drawn with a probability proportional to its success rate in the last learning period.
    - The factor is drawn anew for each trial.
    - A crossover rate is kept for some generations, then drawn around the mean of the successful rates.

    Parameters
    ----------
    strategies : tuple of str
        Two or more of the strategies of `DE`.
    factor : (mean, sd)
        :math:`F \sim N(\text{mean}, \text{sd}^2)`, truncated to (0, 2].
    crossover : (mean, sd)
        :math:`CR \sim N(\text{mean}, \text{sd}^2)`, clipped to [0, 1]. The mean is the initial value; it is learnt.
    learning_period : int
        Generations between updates of the strategies' probabilities.
    rate_period : int
        Generations for which a crossover rate is kept.
    rate_learning_period : int
        Generations between updates of the mean crossover rate.
    walls : str
        See `PAO`.

    Notes
    -----
    The defaults are those of Qin and Suganthan (2005), without the local search that they run every 200 generations.
    Their second strategy, "current to best/2", is implemented as ``current-to-best/1``: one random difference besides
    the difference from the best. `paper` has the values of Champneys and Rogers' study.

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 3, method=ps.classic.SADE(), rng=1).fun < 1e-9
    True
    """

    applies_walls: ClassVar[bool] = True
    takes_batches = True

    strategies: tuple[str, ...] = ("rand/1", "current-to-best/1")
    factor: tuple[float, float] = (0.5, 0.3)
    crossover: tuple[float, float] = (0.5, 0.1)
    learning_period: int = 50
    rate_period: int = 5
    rate_learning_period: int = 25
    walls: str = "clip"

    def __post_init__(self) -> None:
        if not isinstance(self.strategies, tuple | list) or len(self.strategies) < 2:
            raise ValueError(
                f"strategies must be a tuple of two or more names, got {self.strategies!r}; for one strategy, use DE"
            )
        object.__setattr__(self, "strategies", tuple(self.strategies))
        check_strategies(self.strategies)
        for name, highest in (("factor", 2.0), ("crossover", 1.0)):
            pair = getattr(self, name)
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise ValueError(f"{name} must be a pair (mean, standard deviation), got {pair!r}")
            for i, number in enumerate(pair):
                if callable(number):
                    raise TypeError(
                        f"{name}[{i}] must be a number, not a schedule: SADE adapts by itself; got {number!r}"
                    )
                check_hyperparameter(f"{name}[{i}]", number, 0.0, highest)
            object.__setattr__(self, name, tuple(pair))
        for name in ("learning_period", "rate_period", "rate_learning_period"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1))
        check_walls(self.walls)

    @classmethod
    def paper(cls) -> SADE:
        """Return SADE with the hyperparameters of Champneys and Rogers' study."""
        return cls(
            strategies=("rand/1", "rand/2", "best/1", "best/2", "current-to-best/1"),
            factor=(0.5, 0.2),
            crossover=(0.2, 0.1),
            learning_period=10,
            rate_learning_period=10,
        )

    @property
    def smallest_swarm(self) -> int:
        """An individual and the partners of any strategy."""
        return 1 + max(STRATEGIES[name].n_partners for name in self.strategies)

    def begin(self, state: Swarm) -> Swarm:
        """Return the swarm with an empty memory, or unchanged if it has learnt with these strategies before."""
        xp = namespace(state.position)
        known = state.memory
        s, code = len(self.strategies), float(zlib.crc32(" ".join(self.strategies).encode()))
        if isinstance(known, Learning) and bool(xp.all(known.strategies == code)):
            return state
        nothing = xp.zeros_like(state.global_value)
        none_each = nothing[..., None] + xp.zeros((s,))
        mean = nothing + self.crossover[0]
        return state._replace(
            memory=Learning(
                strategies=nothing + code,
                generation=nothing,
                probability=none_each + 1.0 / s,
                wins=none_each,
                losses=none_each,
                rate=xp.zeros_like(state.best_value) + self.crossover[0],
                rate_mean=mean,
                rate_sum=nothing,
                rate_count=nothing,
            )
        )

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose one trial for every individual."""
        near = self.unrolled(state)
        xp = namespace(near.position)
        n, d = near.position.shape[-2:]
        memory: Learning = near.memory
        population = near.best_position
        made = [STRATEGIES[name] for name in self.strategies]
        others = [rows(population, r) for r in partners(draw.uniform(n, max(one.n_partners for one in made)))]
        factor = self._factors(draw, n, xp)[..., None]
        chosen = self._choose(memory.probability, draw.uniform(n), xp)
        mutant = population
        for number, one in enumerate(made):
            candidate = one.mutant(population, near.global_best, factor, *others[: one.n_partners])
            mutant = xp.where((chosen == number)[..., None], candidate, mutant)
        rate = self._rates(memory, draw.normal(n), xp)
        trial = crossover(mutant, population, rate[..., None], draw.uniform(n, d), draw.uniform(n, 1))
        moved = near.wall(self.wall).apply(trial, near.velocity, near.lower, near.upper)
        return Proposal(*moved, notes=TrialRecord(chosen, rate))

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """Select the better of trial and parent, and learn from the successes."""
        xp = namespace(value)
        after = super().tell(state, proposal, value, evaluated)
        tried = xp.ones_like(state.best_value) if evaluated is None else xp.astype(evaluated, state.best_value.dtype)
        won = tried * xp.astype(after.age == 0, tried.dtype)  # the age of a replaced best is zero
        trial: TrialRecord = proposal.notes
        hit = xp.astype(trial.strategy[..., None] == xp.arange(len(self.strategies)), tried.dtype)
        memory: Learning = state.memory
        memory = memory._replace(
            generation=memory.generation + 1,
            wins=memory.wins + xp.sum(hit * won[..., None], axis=-2),
            losses=memory.losses + xp.sum(hit * (tried - won)[..., None], axis=-2),
            rate=trial.rate,
            rate_sum=memory.rate_sum + xp.sum(won * trial.rate, axis=-1),
            rate_count=memory.rate_count + xp.sum(won, axis=-1),
        )
        return after._replace(memory=self._learnt(memory, xp))

    def _learnt(self, memory: Learning, xp: Any) -> Learning:
        """At the end of a period, update the probabilities or the mean rate, and reset the counters."""
        trials = memory.wins + memory.losses
        success = memory.wins / xp.where(trials > 0, trials, 1.0) + _KEEP_ALIVE
        due = (memory.generation % self.learning_period == 0)[..., None]
        rates_due = memory.generation % self.rate_learning_period == 0
        mean = memory.rate_sum / xp.where(memory.rate_count > 0, memory.rate_count, 1.0)
        return memory._replace(
            probability=xp.where(due, success / xp.sum(success, axis=-1, keepdims=True), memory.probability),
            wins=xp.where(due, 0.0, memory.wins),
            losses=xp.where(due, 0.0, memory.losses),
            rate_mean=xp.where(rates_due & (memory.rate_count > 0), mean, memory.rate_mean),
            rate_sum=xp.where(rates_due, 0.0, memory.rate_sum),
            rate_count=xp.where(rates_due, 0.0, memory.rate_count),
        )

    def _factors(self, draw: RandomSource, n: int, xp: Any) -> Array:
        """Return one factor per trial, normal and truncated to (0, 2]: the first of several draws in that range."""
        mean, sd = self.factor
        tries = mean + sd * draw.normal(_TRIES, n)
        factor = xp.clip(tries[..., -1, :], 1e-3, 2.0)
        for i in reversed(range(_TRIES - 1)):
            candidate = tries[..., i, :]
            factor = xp.where((candidate > 0) & (candidate <= 2), candidate, factor)
        return factor

    def _rates(self, memory: Learning, normal: Array, xp: Any) -> Array:
        """Return crossover rates: new ones at the start of each period, otherwise the current ones."""
        fresh = xp.clip(memory.rate_mean[..., None] + self.crossover[1] * normal, 0.0, 1.0)
        return xp.where((memory.generation % self.rate_period == 0)[..., None], fresh, memory.rate)

    @staticmethod
    def _choose(probability: Array, uniform: Array, xp: Any) -> Array:
        """Choose a strategy for each trial with these probabilities."""
        ends = xp.cumulative_sum(probability, axis=-1)[..., :-1]
        return xp.sum(xp.astype(uniform[..., None] >= ends[..., None, :], xp.int64), axis=-1)
