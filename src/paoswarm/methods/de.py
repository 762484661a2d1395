"""Differential evolution (Storn and Price 1997)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from paoswarm.core.attractors import RandomSource
from paoswarm.core.differences import STRATEGIES, crossover, partners, rows
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.methods import schedules
from paoswarm.methods.hyperparameters import check_hyperparameter
from paoswarm.methods.method import Method, check_walls
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

    def check_swarm(self, shape: tuple[int, ...]) -> None:
        """Raise if there are too few individuals for the strategy."""
        check_enough(self, shape[-1], (self.strategy,))

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


def check_enough(method: Method, n: int, names: tuple[str, ...]) -> None:
    """Raise if a strategy needs more partners than there are."""
    needed = 1 + max(STRATEGIES[name].n_partners for name in names)
    if n < needed:
        raise ValueError(f"{type(method).__name__} with {', '.join(names)} needs n_particles >= {needed}, got {n}")
