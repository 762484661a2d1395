"""Methods that start again, grow and shrink."""

from typing import NamedTuple

import numpy as np

import paoswarm as ps


class Count(NamedTuple):
    generations: int
    restarts: int


class Restarting(ps.Method):
    """Contracts towards its best for a few generations, then forgets everything and starts anew.

    Each new swarm is larger than the last one; on the way every generation loses its worst particle.
    """

    def __init__(self, generations=4, most_restarts=None):
        self.generations, self.most_restarts = generations, most_restarts

    def begin(self, state):
        return state._replace(memory=Count(0, 0))

    def _starts_again(self, state):
        return state.memory.generations >= self.generations

    def ask(self, state, draw, progress=0.0):
        n, d = state.position.shape
        if self._starts_again(state):
            n = 6 + 3 * state.memory.restarts
            x = state.lower[0] + draw.uniform(n, d) * (state.upper[0] - state.lower[0])
        else:
            x = state.global_best + 0.7 * np.abs(state.position - state.global_best) * draw.normal(n, d)
        return ps.Proposal(x, np.zeros_like(x))

    def tell(self, state, proposal, value, evaluated=None):
        generations, restarts = state.memory
        if not self._starts_again(state):
            after = super().tell(state, proposal, value, evaluated)
            survivors = np.sort(np.argsort(after.best_value)[: max(3, after.n_particles - 1)])
            return after.reduced_to(survivors)._replace(memory=Count(generations + 1, restarts))
        return state.renewed(proposal.position, value)._replace(memory=Count(0, restarts + 1))

    def has_converged(self, state, spread, tol):
        return self.most_restarts is not None and state.memory.restarts >= self.most_restarts


class Growing(ps.classic.PSO):
    """A swarm that new particles join in every generation."""

    def ask(self, state, draw, progress=0.0):
        moved = super().ask(state, draw, progress)
        new = state.lower[:2] + draw.uniform(2, state.n_dimensions) * (state.upper[:2] - state.lower[:2])
        join = [np.concatenate([part, more]) for part, more in zip(moved[:2], (new, 0 * new), strict=True)]
        return ps.Proposal(*join)

    def tell(self, state, proposal, value, evaluated=None):
        n = state.n_particles
        first = ps.Proposal(proposal.position[:n], proposal.velocity[:n])
        after = super().tell(state, first, value[:n], None if evaluated is None else evaluated[:n])
        new = slice(n, None if evaluated is None else n + int(evaluated[n:].sum()))
        return after.joined_by(proposal.position[new], value[new])
