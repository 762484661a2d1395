"""Functions and methods of one's own, written for one swarm, are right in a batch as well: run r is the run alone."""

from typing import NamedTuple

import numpy as np
import pytest

import paoswarm as ps

BOX = [(-1, 1)] * 3
SMALL = {"n_particles": 15, "maxiter": 8, "vectorized": True}
RUNS = 3


def bowl(x):
    return ((x - [0.3, -0.2, 0.5]) ** 2 * [1, 5, 20]).sum(axis=-1)


def average(swarm):
    return swarm.position.mean(axis=0)


def second_best(swarm):
    return swarm.best_position[np.argsort(swarm.best_value)[1]]


def lottery(swarm, draw):
    return swarm.best_position[int(draw.uniform(1)[0] * swarm.n_particles)]


def variance(swarm):
    return swarm.position.var(axis=0)


def shape(swarm):
    return ps.noise.Dense(np.cov((swarm.best_position - swarm.global_best).T))


def restless(swarm):
    return 1.5 if swarm.age.mean() > 1 else 1.0


class Climbers(ps.Method):
    def ask(self, state, draw, progress=0.0):
        step = state.best_position.std(axis=0) * draw.normal(*state.position.shape)
        return ps.Proposal(state.best_position[np.argmin(state.best_value)] + step, state.velocity)


class Count(NamedTuple):
    successes: np.ndarray


class Learner(ps.Method):
    """Steps get longer with its own successes; notes and memory travel with each run."""

    def begin(self, state):
        return state._replace(memory=Count(np.zeros(())))

    def ask(self, state, draw, progress=0.0):
        size = 0.05 * (1 + state.memory.successes)
        step = size * draw.normal(*state.position.shape)
        return ps.Proposal(state.best_position + step, state.velocity, notes=size)

    def tell(self, state, proposal, value, evaluated=None):
        after = super().tell(state, proposal, value, evaluated)
        assert proposal.notes == 0.05 * (1 + state.memory.successes)
        return after._replace(memory=Count(state.memory.successes + (after.global_value < state.global_value)))


class Subclass(ps.classic.PSO):
    """A built-in method takes batches; what is made of it need not."""

    def ask(self, state, draw, progress=0.0):
        return super().ask(state._replace(velocity=0.9 * state.velocity / (1 + state.age.max())), draw, progress)


LOCAL = ps.attractors.local_best
METHODS = [
    ps.PAO(attractors=(LOCAL, average)),
    ps.PAO(attractors=(LOCAL, second_best)),
    ps.PAO(attractors=(LOCAL, lottery)),
    ps.PAO(noise_scale=variance),
    ps.PAO(noise_scale=shape),
    ps.PAO(dt=ps.schedules.Adaptive(restless)),
    Climbers(),
    Learner(),
    Subclass(),
]
NAMES = ["average", "second best", "lottery", "variance", "dense", "adaptive", "method", "memory", "subclass"]


@pytest.mark.parametrize("method", METHODS, ids=NAMES)
@pytest.mark.parametrize("how", [{}, {"maxfev": 100}, {"reevaluate": 0.2}], ids=["plain", "cut short", "re-evaluated"])
def test_a_run_in_a_batch_is_the_run_alone(method, how):
    assert not method.takes_batches
    many = ps.minimize_many(bowl, BOX, runs=RUNS, method=method, rng=1, **SMALL, **how)
    for r in range(RUNS):
        alone = ps.minimize(bowl, BOX, method=method, rng=many.seeds[r], **SMALL, **how)
        assert np.array_equal(alone.swarm.position, many.swarm.position[r])
        assert np.array_equal(alone.history.best, many.history[r, : len(alone.history)])
        assert (alone.fun, alone.nfev) == (many.fun[r], many.nfev[r])


def test_what_says_that_it_takes_batches_is_believed():
    calls = []

    def aware(swarm):
        calls.append(swarm.position.shape)
        return swarm.position.mean(axis=-2, keepdims=True)

    def mistaken(swarm):
        return swarm.position.mean(axis=0)

    aware.takes_batches = mistaken.takes_batches = True
    many = ps.minimize_many(bowl, BOX, runs=RUNS, method=ps.PAO(attractors=(LOCAL, aware)), rng=1, **SMALL)
    assert calls == [(RUNS, 15, 3)] * 8  # at once
    alone = ps.minimize(bowl, BOX, method=ps.PAO(attractors=(LOCAL, average)), rng=many.seeds[1], **SMALL)
    assert alone.fun == pytest.approx(many.fun[1], rel=1e-9)
    # The mistake that all this is about: the mean over the runs passes for one over the particles.
    wrong = ps.minimize_many(bowl, BOX, runs=RUNS, method=ps.PAO(attractors=(LOCAL, mistaken)), rng=1, **SMALL)
    assert abs(wrong.fun[1] - alone.fun) > 1e-3 * alone.fun


def test_what_is_ours_is_moved_at_once():
    ours = [
        ps.PAO(),
        ps.classic.PSO(),
        ps.classic.QPSO(),
        ps.classic.DE(),
        ps.classic.SADE(),
        ps.classic.RandomSearch(),
    ]
    ours += [ps.PAO(attractors=(ps.attractors.NeighbourhoodBest(), LOCAL), noise_scale=ps.noise.covariance)]
    ours += [ps.PAO(dt=ps.schedules.patient_step(), damping=lambda progress: 0.2 + 0.1 * progress)]
    assert all(method.takes_batches for method in ours)


def test_laws_of_functions_of_ones_own_are_those_of_one_run():
    method = ps.PAO(attractors=(LOCAL, average))
    many = ps.minimize_many(bowl, BOX, runs=RUNS, method=method, rng=1, **SMALL)
    with pytest.raises(ValueError, match=r"many\.run\(r\)\.step_law\(\)"):
        many.step_law()
    alone = ps.minimize(bowl, BOX, method=method, rng=many.seeds[2], **SMALL)
    assert np.array_equal(many.run(2).step_law().mean_position, alone.step_law().mean_position)
