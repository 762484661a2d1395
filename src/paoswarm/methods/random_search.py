"""Random search, a baseline for the other methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from paoswarm.core.attractors import RandomSource
from paoswarm.core.swarm import Proposal, Swarm
from paoswarm.methods.method import Method


@dataclass(frozen=True)
class RandomSearch(Method):
    """Random search: points drawn uniformly from the box.

    Examples
    --------
    >>> import paoswarm as ps
    >>> ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 2, method=ps.classic.RandomSearch(), rng=1).fun < 0.1
    True
    """

    applies_walls: ClassVar[bool] = True
    moves_singly: ClassVar[bool] = True
    takes_batches = True

    def ask(self, state: Swarm, draw: RandomSource, progress: float = 0.0) -> Proposal:
        """Propose new points."""
        share = draw.uniform(*state.position.shape[-2:])
        return Proposal(state.lower + share * (state.upper - state.lower), state.velocity)
