"""Batches for methods that know nothing of them: every run is moved as if it were alone.

Whoever writes ``swarm.position.mean(axis=0)`` means the particles. In a batch the first axis are the runs, and nothing
would be heard of it but a wrong result. So code that does not say that it ``takes_batches`` never meets one.
"""

from __future__ import annotations

import numpy as np

from paoswarm.algorithms.method import Method
from paoswarm.core.arrays import Array
from paoswarm.core.random import Draw
from paoswarm.core.swarm import Proposal, Swarm, map_runs


class RunByRun(Method):
    """A method that moves the runs of a batch one after the other."""

    takes_batches = True

    def __init__(self, method: Method) -> None:
        self._method = method

    def begin(self, state: Swarm) -> Swarm:
        """Every run with the memory that the method needs."""
        return _together([self._method.begin(run) for run in _apart(state)])

    def ask(self, state: Swarm, draw: Draw, progress: float = 0.0) -> Proposal:  # type: ignore[override]
        """Where the particles of every run want to go, walls minded."""
        runs = enumerate(_apart(state))
        moves = [self._method.propose(run, draw.alone(r), progress) for r, run in runs]
        position, velocity = (np.stack(arrays) for arrays in list(zip(*moves, strict=True))[:2])
        return Proposal(position, velocity, [move.notes for move in moves])

    propose = ask  # type: ignore[assignment]

    def tell(self, state: Swarm, proposal: Proposal, value: Array, evaluated: Array | None = None) -> Swarm:
        """Every run after its values were measured."""
        told = []
        for r, run in enumerate(_apart(state)):
            move = Proposal(proposal.position[r], proposal.velocity[r], proposal.notes[r])
            told.append(self._method.tell(run, move, value[r], None if evaluated is None else evaluated[r]))
        return _together(told)


def _apart(state: Swarm) -> list[Swarm]:
    return [map_runs(lambda array, r=r: array[r], state) for r in range(len(state.value))]


def _together(runs: list[Swarm]) -> Swarm:
    return map_runs(lambda *arrays: np.stack(arrays), *runs)
