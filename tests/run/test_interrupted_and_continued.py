"""Drivers keep what was evaluated: after interrupts at bad moments, in continued runs, and if methods misbehave."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import paoswarm as ps

BOX = [(-5, 5), (-3, 7)]


def bowl(x):
    return ((np.asarray(x) - [1.0, 2.5]) ** 2).sum(axis=-1)


class Forgetting(ps.Method):
    """Random points in every generation; the swarm knows the last ones only."""

    def ask(self, state, draw, progress=0.0):
        x = state.lower + draw.uniform(*state.position.shape[-2:]) * (state.upper - state.lower)
        return ps.Proposal(x, 0 * x)

    def tell(self, state, proposal, value, evaluated=None):
        return state.renewed(proposal.position, value)


class ForgettingBatches(Forgetting):
    takes_batches = True


class Interrupting(Forgetting):
    """An interrupt comes while values are told."""

    def tell(self, state, proposal, value, evaluated=None):
        raise KeyboardInterrupt


def test_an_interrupt_inside_tell_keeps_the_best_of_the_values_that_came():
    values = []

    def fun(x):
        values.extend(bowl(x))
        return bowl(x)

    for solve in (ps.minimize, lambda *a, **k: ps.minimize_many(*a, runs=3, **k)):
        values.clear()
        result = solve(fun, BOX, method=Interrupting(), n_particles=8, vectorized=True, rng=1)
        assert np.all(result.status == ps.results.Status.INTERRUPTED)
        assert np.min(result.fun) == min(values)
        assert np.sum(result.nfev) == len(values)


def test_a_method_that_writes_to_the_values_does_not_change_the_result():
    class Scribbling(Forgetting):
        def tell(self, state, proposal, value, evaluated=None):
            value[:] = -1.0
            proposal.position[:] = 4.0
            return super().tell(state, proposal, value, evaluated)

    result = ps.minimize(bowl, BOX, method=Scribbling(), n_particles=8, maxiter=10, rng=1)
    assert result.fun == bowl(result.x) > 0


@pytest.mark.parametrize("method", [Forgetting(), ForgettingBatches()], ids=["one by one", "batches"])
def test_runs_that_are_continued_keep_their_best(method):
    settings = {"method": method, "vectorized": True, "rng": 1}
    many = ps.minimize_many(bowl, BOX, runs=6, n_particles=8, maxiter=30, **settings)
    assert any(many.run(r).swarm.global_value > many.fun[r] for r in range(6))
    again = ps.minimize_many(bowl, BOX, runs=6, init=many, maxiter=0, **settings)
    assert_array_equal(again.fun, many.fun)
    assert_array_equal(again.x, many.x)
    one = ps.minimize(bowl, BOX, init=many.run(2), maxiter=0, **settings)
    assert one.fun == many.fun[2]
    with pytest.raises(ValueError, match=r"init=many\.run\(r\)"):
        ps.minimize(bowl, BOX, init=many, **settings)


def test_a_best_point_outside_narrower_bounds_is_not_kept():
    first = ps.minimize(bowl, BOX, method=Forgetting(), n_particles=8, maxiter=30, rng=1)
    tight = np.stack([first.swarm.position.min(axis=0), first.swarm.position.max(axis=0)], axis=1)
    away = first.x.copy()
    away[0] = tight[0, 1] + 1.0
    moved = ps.results.Result(**{**first, "x": away, "fun": -1.0})
    later = ps.minimize(bowl, tight, init=moved, maxiter=0)
    assert later.fun == first.swarm.global_value
    assert ((later.x >= tight[:, 0]) & (later.x <= tight[:, 1])).all()


def test_a_method_that_takes_batches_keeps_its_size():
    class Growing(ForgettingBatches):
        takes_batches = True

        def ask(self, state, draw, progress=0.0):
            x = state.lower[:1] + draw.uniform(state.n_particles + 1, 2) * (state.upper - state.lower)[:1]
            return ps.Proposal(x, 0 * x)

    with pytest.raises(ValueError, match="Growing changes the size"):
        ps.minimize_many(bowl, BOX, runs=3, method=Growing(), n_particles=8, vectorized=True, rng=1)


def test_an_interrupt_in_the_first_move_of_one_run_ends_all():
    asked = []

    class Once(Forgetting):
        def ask(self, state, draw, progress=0.0):
            asked.append(1)
            if len(asked) == 2:
                raise KeyboardInterrupt
            return super().ask(state, draw, progress)

    settings = {"runs": 4, "vectorized": True, "rng": 1}
    many = ps.minimize_many(bowl, BOX, method=Forgetting(), n_particles=8, maxiter=3, **settings)
    later = ps.minimize_many(bowl, BOX, method=Once(), init=many, maxiter=50, **settings)
    assert (later.status == ps.results.Status.INTERRUPTED).all()
    assert_array_equal(later.fun, many.fun)


def test_an_interrupt_before_the_first_record_is_survived():
    class Late(Forgetting):
        def has_converged(self, state, spread, tol):
            raise KeyboardInterrupt

    many = ps.minimize_many(bowl, BOX, runs=3, method=Late(), n_particles=8, vectorized=True, rng=1)
    assert (many.status == ps.results.Status.INTERRUPTED).all()
    assert np.isfinite(many.fun).all()


class TestAsynchronous:
    @pytest.mark.parametrize("method", [ps.PAO(), ps.classic.SADE()], ids=["particles", "generations"])
    @pytest.mark.parametrize(("at", "nit", "recorded"), [(15, 1, [8, 14]), (5, 0, [4])], ids=["later", "first swarm"])
    def test_after_an_interrupt_nothing_is_evaluated_any_more(self, method, at, nit, recorded):
        calls = []

        def fun(x):
            calls.append(x)
            if len(calls) == at:
                raise KeyboardInterrupt
            return bowl(x)

        result = ps.minimize(fun, BOX, method=method, n_particles=8, workers=ps.Workers(asynchronous=True), rng=1)
        assert result.status is ps.results.Status.INTERRUPTED
        assert (len(calls), result.nfev, result.nit) == (at, at - 1, nit)
        assert result.fun == min(bowl(x) for x in calls[:-1])
        assert_array_equal(result.history.nfev, recorded)

    def test_a_generation_that_is_cut_short_may_still_reach_the_target(self):
        settings = {"method": ps.classic.SADE(), "n_particles": 8, "maxiter": None, "maxfev": 45}
        runs = [(seed, ps.minimize(bowl, BOX, rng=seed, **settings)) for seed in range(20)]
        seed, far = next((seed, one) for seed, one in runs if one.fun < one.history.best[-2])  # the cut one improved
        for asynchronous in (False, True):
            result = ps.minimize(
                bowl, BOX, target=far.fun, workers=ps.Workers(asynchronous=asynchronous), rng=seed, **settings
            )
            assert (result.status, result.nfev) == (ps.results.Status.TARGET, 45)


def test_injected_points_count_as_an_improvement():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=5, rng=1)
    for _ in range(4):
        optimizer.tell(np.full(len(optimizer.ask()), 7.0))
    assert optimizer.stale == 3
    optimizer.inject([[1.0, 2.5]], [3.0])
    assert optimizer.stale == 0
    assert optimizer.result.fun == 3.0
    optimizer.inject([[1.0, 2.0]], [4.0])
    assert (optimizer.stale, optimizer.result.fun) == (0, 3.0)


class TestMemoryAndFlags:
    @pytest.mark.parametrize("memory", [(1, "two"), (np.zeros(3),), [np.zeros(2), np.zeros(3)], {"a": 1}, "text"])
    @pytest.mark.parametrize("runs", [1, 3])
    def test_a_memory_may_be_anything(self, memory, runs):
        seen = []

        class Remembering(Forgetting):
            def begin(self, state):
                return state._replace(memory=memory)

            def ask(self, state, draw, progress=0.0):
                seen.append(state.memory)
                return super().ask(state, draw, progress)._replace(notes=memory)

            def tell(self, state, proposal, value, evaluated=None):
                assert proposal.notes is memory
                return super().tell(state, proposal, value, evaluated)

        many = ps.minimize_many(bowl, BOX, runs=runs, method=Remembering(), n_particles=5, maxiter=3, rng=1)
        assert all(one is memory for one in seen)
        assert many.run(0).swarm.memory is memory

    def test_begin_must_return_a_swarm(self):
        class Empty(Forgetting):
            def begin(self, state):
                pass

        for solve in (ps.minimize, ps.minimize_many):
            with pytest.raises(TypeError, match=r"Empty\.begin must return a Swarm"):
                solve(bowl, BOX, method=Empty(), n_particles=5, rng=1)

    def test_swarms_of_a_users_tell_are_checked(self):
        class Mismatched(Forgetting):
            def tell(self, state, proposal, value, evaluated=None):
                return state._replace(value=value[:2])

        class Silent(Forgetting):
            def tell(self, state, proposal, value, evaluated=None):
                return super().tell(state, proposal, value, evaluated)._replace(repeats=None)

        with pytest.raises(ValueError, match=r"Mismatched\.tell .*different numbers"):
            ps.minimize(bowl, BOX, method=Mismatched(), n_particles=5, rng=1)
        with pytest.raises(ValueError, match=r"Silent\.tell .*repeats"):
            ps.minimize(bowl, BOX, method=Silent(), n_particles=5, reevaluate=0.5, rng=1)

    def test_a_subclass_with_its_own_functions_is_checked_like_any_users_method(self):
        class Wild(ps.classic.PSO):
            def ask(self, state, draw, progress=0.0):
                moved = super().ask(state, draw, progress)
                return moved._replace(position=moved.position + 100.0)

        class Learning(ps.PAO):
            def tell(self, state, proposal, value, evaluated=None):
                return super().tell(state, proposal, value, evaluated)

        class Plain(ps.PAO):
            pass

        assert (Wild.applies_walls, Wild.moves_singly, Wild.takes_batches) == (False, False, False)
        for kind in (Learning, Plain):
            assert (kind.applies_walls, kind.moves_singly, kind.takes_batches) == (False, False, False)
        seen = []
        ps.minimize(lambda x: seen.append(x) or bowl(x), BOX, method=Wild(), n_particles=5, maxiter=5, rng=1)
        assert (np.array(seen) <= np.array(BOX)[:, 1]).all()

    def test_a_named_memory_is_stacked(self):
        class Kept(NamedTuple):
            n: np.ndarray

        class Counting(Forgetting):
            def begin(self, state):
                return state._replace(memory=Kept(np.zeros(())))

        many = ps.minimize_many(bowl, BOX, runs=3, method=Counting(), n_particles=5, maxiter=3, rng=1)
        assert many.swarm.memory.n.shape == (3,)
