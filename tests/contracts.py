"""What every method must do, whatever it is: one class of checks, each of them a function of the method alone.

`tests/methods/test_methods.py` applies it to every method of the package and to one of a user, and shows that each
check fails for a method that is broken in its way. A method is expected to be a frozen dataclass with ``walls``.
"""

import dataclasses
import pickle
from functools import partial
from unittest import mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.core import swarm as kernels
from paoswarm.core.random import Draw, generator
from paoswarm.run import solve as many_module

LOWER, UPPER = np.array([-4.0, -600.0, 0.25]), np.array([5.0, 300.0, 0.5])  # widths 9, 900 and 1/4
CENTRE = np.array([1.25, -390.0, 0.4375])
BOX = np.column_stack([LOWER, UPPER])
N = 12
BOUNDED = ("clip", "reflect", "periodic")


def valley(x, centre=CENTRE):
    """A curved valley without symmetry; a polynomial, so that every row has the same bits in any company."""
    z = (x - centre) / (UPPER - LOWER)
    return (z * z * [1.0, 3.0, 5.0]).sum(axis=-1) + (z[..., 0] * z[..., 1] - z[..., 2]) ** 2


class Swarms(list[ps.Swarm]):
    """A callback that keeps the swarm of every generation."""

    def __call__(self, intermediate_result):
        self.append(intermediate_result.swarm)


class Counting:
    """An objective that keeps every point it was given and every value it returned."""

    def __init__(self, fun):
        self.fun, self.points, self.values = fun, [], []

    def __call__(self, x):
        self.points.extend(np.array(x, ndmin=2))
        value = self.fun(x)
        self.values.extend(np.atleast_1d(value))
        return value


def run(method, fun=valley, box=BOX, **changes):
    settings = {"n_particles": N, "maxiter": 8, "vectorized": True, "tol": 0, "rng": 3}
    return ps.minimize(fun, box, method=method, **(settings | changes))


def run_many(method, fun=valley, box=BOX, **changes):
    settings = {"runs": 6, "n_particles": N, "maxiter": 8, "vectorized": True, "tol": 0, "rng": 4}
    return ps.minimize_many(fun, box, method=method, **(settings | changes))


def with_walls(method, walls):
    return dataclasses.replace(method, walls=walls)


def source(seed, batch=()):
    return Draw([np.random.default_rng([seed, r]) for r in range(int(np.prod(batch)))], batch)


def speeding(fun):
    """A first swarm that does not start at rest but would leave the box."""
    rng = np.random.default_rng(6)
    points = LOWER + (UPPER - LOWER) * rng.random((N, 3))
    return kernels.start(points, fun(points), LOWER, UPPER, velocity=(UPPER - LOWER) * rng.normal(size=(N, 3)))


def leaves(tree):
    """The arrays of a nested tuple, each with its path."""
    if not isinstance(tree, tuple):
        return [("", tree)]
    names = getattr(tree, "_fields", range(len(tree)))
    return [(f".{name}{path}", leaf) for name, part in zip(names, tree, strict=True) for path, leaf in leaves(part)]


def assert_same_swarm(one, other):
    """Bit for bit, and what the method has learnt with it."""
    for (path, mine), (other_path, theirs) in zip(leaves(one), leaves(other), strict=True):
        assert path == other_path
        assert_array_equal(mine, theirs, err_msg=f"swarm{path}", strict=mine is not None)


def assert_same_run(one, other):
    for name in ("x", "fun", "status", "nit", "nfev", "n_failed"):
        assert_array_equal(one[name], other[name], err_msg=name)
    assert_array_equal(one.history.best, other.history.best)
    assert_same_swarm(one.swarm, other.swarm)


def assert_same_particles(one, other, which):
    for name in ("position", "velocity", "value", "best_position", "best_value", "age"):
        assert_array_equal(getattr(one, name)[which], getattr(other, name)[which], err_msg=name)


def assert_inside(points, lower=LOWER, upper=UPPER):
    points = np.asarray(points)
    assert np.all((points >= lower) & (points <= upper)), "a point lies outside the box, or is NaN"


def smallest_swarm(method):
    """The fewest particles with which the method says it can work."""
    for n in range(1, 100):
        try:
            method.check_swarm((n,))
        except ValueError:
            continue
        return n
    raise AssertionError("the method refuses every swarm")


class MethodContract:
    """Subclass it, parametrise ``method``, and every method is held to all of it."""

    # Seeds

    def test_the_same_seed_is_the_same_run_and_another_seed_another(self, method):
        assert_same_run(run(method), run(method))
        assert not np.array_equal(run(method).swarm.position, run(method, rng=5).swarm.position)

    def test_the_first_swarm_is_that_of_every_method(self, method):
        fun, reference = Counting(valley), Counting(valley)
        run(method, fun)
        run(ps.PAO(), reference, maxiter=0)
        assert_array_equal(fun.points[:N], reference.points)
        assert_same_swarm(run(method, maxiter=0).swarm._replace(memory=None), run(ps.PAO(), maxiter=0).swarm)

    def test_global_random_numbers_play_no_part(self, method):
        before = np.random.get_state()  # noqa: NPY002
        try:
            one = run(method)
            assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
            np.random.seed(99)  # noqa: NPY002
            assert_same_run(one, run(method))
        finally:
            np.random.set_state(before)  # noqa: NPY002

    # Batches

    def test_a_run_alone_is_the_run_in_a_batch_that_others_leave_earlier(self, method):
        target = float(np.median(run_many(method).history[:, 5]))
        batch = run_many(method, target=target)
        assert len(set(batch.nit.tolist())) > 1
        for r in range(6):
            assert_same_run(batch.run(r), run(method, rng=batch.seeds[r], target=target))

    def test_a_run_alone_is_the_run_in_a_block(self, method):
        together = run_many(method, runs=5)
        with mock.patch.object(many_module, "_BLOCK", 2 * N * 3):  # two runs, two more, and one
            blocks = run_many(method, runs=5)
        assert_same_swarm(blocks.swarm, together.swarm)
        for r in (0, 3, 4):
            assert_same_run(blocks.run(r), run(method, rng=blocks.seeds[r]))

    def test_a_run_alone_is_the_run_in_a_large_batch(self, method):
        """So large that deviates are no longer drawn ahead."""
        batch = run_many(method, runs=60, n_particles=30, maxiter=4)
        for r in (0, 59):
            assert_same_run(batch.run(r), run(method, n_particles=30, maxiter=4, rng=batch.seeds[r]))

    def test_a_run_alone_is_the_run_in_a_batch_with_one_unknown(self, method):
        def parabola(x):
            return (x[..., 0] - 0.7) ** 2

        batch = run_many(method, parabola, [(-2, 5)], runs=3, n_particles=40)
        for r in range(3):
            assert_same_run(batch.run(r), run(method, parabola, [(-2, 5)], n_particles=40, rng=batch.seeds[r]))

    # Walls

    @pytest.mark.parametrize("walls", BOUNDED)
    def test_the_box_is_kept_at_every_generation(self, method, walls):
        """Optima in a corner, on an edge, and far outside; ``place`` in widths of the box."""
        method = with_walls(method, walls)
        for place in ([0.0, 1.0, 1.0], [1.0, 0.0, 0.5], [30.0, -2.0, 0.3]):
            fun = Counting(partial(valley, centre=LOWER + place * (UPPER - LOWER)))
            for init in ("latinhypercube", speeding(fun)):
                swarms = Swarms()
                run(method, fun, init=init, callback=swarms)
                assert_inside(fun.points)
                for swarm in swarms:
                    for points in (swarm.position, swarm.best_position, swarm.global_best):
                        assert_inside(points)

    def test_without_walls_the_box_is_left(self, method):
        """Otherwise the check above would show nothing."""
        fun = Counting(partial(valley, centre=LOWER + [30.0, -2.0, 0.3] * (UPPER - LOWER)))
        run(with_walls(method, "none"), fun, init=speeding(fun))
        with pytest.raises(AssertionError, match="outside"):
            assert_inside(fun.points)

    def test_periodic_walls_have_no_seam(self, method):
        """Turning the circle, seam and all, turns the step with it."""
        method = with_walls(method, "periodic")
        lower, width, turn = np.array([0.0, -3.0]), np.array([1.0, 8.0]), np.array([0.37, 2.9])
        rng = np.random.default_rng(3)
        x, v = lower + width * rng.random((9, 2)), width * rng.normal(size=(9, 2))
        steps = []
        for by in (0.0, turn):
            at = lower + (x - lower + by) % width
            state = method.begin(kernels.start(at, np.arange(9.0) % 7, lower, lower + width, velocity=v))
            steps.append(method.ask(state, source(8)))
        apart = (steps[1].position - steps[0].position - turn) / width
        assert_allclose(apart - np.round(apart), 0, atol=1e-13)
        assert_allclose(steps[1].velocity, steps[0].velocity, atol=1e-13)

    def test_an_unknown_wall_is_refused(self, method):
        with pytest.raises(ValueError, match=r"walls must be .* got 'b"):
            with_walls(method, "bounce")

    # Budgets

    @pytest.mark.parametrize("share", [0.0, 0.2])
    def test_the_budget_is_spent_exactly(self, method, share):
        """Of 12 particles, with 2 bests measured again where there is a share: cut at every kind of place."""
        for maxfev in (N, N + 1, 2 * N - 1, 2 * N, 2 * N + 1, 3 * N + 7):
            settings = {"maxiter": None, "maxfev": maxfev, "reevaluate": share}
            fun, swarms = Counting(valley), Swarms()
            result = run(method, fun, callback=swarms, **settings)
            assert result.nfev == len(fun.points) == maxfev
            assert result.status == ps.results.Status.MAXFEV
        last = maxfev - int(result.history.nfev[-2])
        assert 0 < last < N
        assert_same_particles(result.swarm, swarms[-2], slice(last, None))
        fun = Counting(valley)
        assert run(method, fun, vectorized=False, **settings).nfev == len(fun.points) == maxfev
        fun = Counting(valley)
        batch = run_many(method, fun, runs=3, **settings)
        assert batch.nfev.tolist() == [maxfev] * 3
        assert len(fun.points) == 3 * maxfev

    def test_whoever_was_not_evaluated_stays_as_he_was(self, method):
        state = run(method).swarm
        evaluated = np.arange(N) < 5
        proposal = method.ask(state, source(1), 0.5)
        after = method.tell(state, proposal, np.where(evaluated, -1.0, np.nan), evaluated)
        assert_same_particles(after, state, slice(5, None))
        assert_array_equal(after.best_position[:5], proposal.position[:5])
        assert_array_equal(after.best_value[:5], [-1.0] * 5)

    # Invariances

    @pytest.mark.parametrize("walls", BOUNDED)
    def test_a_shifted_problem_is_solved_by_the_shifted_run(self, method, walls):
        method, shift = with_walls(method, walls), np.array([64.0, -1024.0, 2.0])
        here, there = run(method), run(method, lambda x: valley(x - shift), BOX + shift[:, None])
        # Rounding errors of 1e-16 grow by less than a factor of ten a generation.
        width = UPPER - LOWER
        assert_allclose((there.swarm.position - shift) / width, here.swarm.position / width, rtol=0, atol=1e-9)
        assert_allclose(there.history.best, here.history.best, rtol=1e-9)

    @pytest.mark.parametrize("walls", BOUNDED)
    def test_every_unknown_may_have_its_own_unit(self, method, walls):
        """Powers of two change no digit, so nothing may differ at all."""
        method, unit = with_walls(method, walls), np.array([2.0**10, 2.0**-7, 2.0**3])
        here, there = run(method), run(method, lambda x: valley(x / unit), BOX * unit[:, None])
        for name in ("position", "velocity", "best_position"):
            assert_array_equal(getattr(there.swarm, name), unit * getattr(here.swarm, name), err_msg=name)
        assert_array_equal(there.history.best, here.history.best)

    def test_only_the_order_of_values_matters(self, method):
        plain, bent = run(method), run(method, lambda x: np.exp(valley(x)))
        assert_array_equal(bent.swarm.position, plain.swarm.position)
        assert_array_equal(bent.swarm.best_position, plain.swarm.best_position)
        assert_allclose(bent.history.best, np.exp(plain.history.best), rtol=1e-14)

    # Memory

    def test_a_best_never_gets_worse_and_is_what_was_measured(self, method):
        fun, swarms = Counting(valley), Swarms()
        result = run(method, fun, callback=swarms)
        assert_array_equal(result.history.best, np.minimum.accumulate(fun.values)[result.history.nfev - 1])
        bests = np.array([swarm.best_value for swarm in swarms])
        assert np.all(np.diff(bests, axis=0) <= 0)
        assert np.any(np.diff(bests, axis=0) < 0)
        for swarm in swarms:
            assert_array_equal(valley(swarm.best_position), swarm.best_value)
            assert swarm.global_value == swarm.best_value.min()
        assert result.fun == valley(result.x) == min(fun.values)

    def test_a_step_changes_nothing_that_it_was_given(self, method):
        state = run(method).swarm
        before = pickle.dumps(state)
        proposal = method.ask(state, source(1), 0.5)
        asked = pickle.dumps(proposal)
        method.tell(state, proposal, valley(proposal.position))
        method.begin(state)
        assert pickle.dumps(state) == before
        assert pickle.dumps(proposal) == asked

    def test_the_swarm_is_all_that_is_remembered(self, method):
        """A copy of the method that has seen nothing goes on from the state as the driver does."""
        fresh = pickle.loads(pickle.dumps(method))
        first = run(method)
        state = fresh.begin(pickle.loads(pickle.dumps(first.swarm)))
        assert_same_swarm(state, first.swarm)
        assert_same_swarm(run(method, init=first.swarm, maxiter=0).swarm, first.swarm)
        continued = run(method, init=first, maxiter=4, rng=8)
        draw = Draw([generator(8)], ())
        for done in range(4):
            proposal = fresh.ask(state, draw, done / 4)
            state = fresh.tell(state, proposal, valley(proposal.position))
        assert_same_swarm(state, continued.swarm)

    def test_methods_may_take_turns_with_one_swarm(self, method):
        batch = run_many(method, runs=3, maxiter=3)
        for other in (ps.classic.SADE(), method, ps.PAO(), method, ps.classic.SADE.paper(), ps.classic.SADE(), method):
            later = run_many(other, runs=3, maxiter=3, init=batch.swarm)
            assert np.all(later.fun <= batch.fun)
            assert later.nfev.tolist() == [3 * N] * 3
            alone = run(other, init=batch.run(1).swarm, maxiter=3, rng=later.seeds[1])
            assert_same_run(later.run(1), alone)
            batch = later

    # Failures

    def test_points_that_fail_are_survived(self, method):
        def full_of_holes(x):
            what = int(1e6 * abs(x[0])) % 3
            if what == 1:
                raise FloatingPointError("a hole")
            return valley(x) if what else np.nan

        counted = []

        def fun(x):
            counted.append(x.copy())
            return full_of_holes(x)

        with pytest.warns(RuntimeWarning, match="the function raised an exception at"):
            result = run(method, fun, vectorized=False, maxiter=15)
        assert_inside(counted)
        worked = [int(1e6 * abs(x[0])) % 3 == 2 for x in counted]
        assert result.n_failed == len(counted) - sum(worked)
        assert result.fun == valley(result.x) == min(valley(np.array(counted)[worked]))

    def test_one_point_that_works_is_enough(self, method):
        """All others of the first swarm fail; a generation later everybody has a value."""
        fun = Counting(lambda x: np.nan if len(fun.points) < N else valley(x))
        result = run(method, fun, vectorized=False, maxiter=1)
        assert_inside(fun.points)
        assert result.n_failed == N - 1
        assert np.all(np.isfinite(result.swarm.best_value))

    # Drivers

    def test_ask_and_tell_is_minimize(self, method):
        optimizer = ps.Optimizer(BOX, method=method, n_particles=N, rng=3)
        optimizer.tell(valley(optimizer.ask()))
        for done in range(8):
            optimizer.tell(valley(optimizer.ask(done / 8)))
        result = run(method)
        assert_same_swarm(optimizer.swarm, result.swarm)
        assert_array_equal(optimizer.result.history.best, result.history.best)

    def test_callbacks_and_history_see_every_generation(self, method):
        seen = []

        def callback(intermediate_result):
            seen.append(intermediate_result)
            if intermediate_result.nit == 5:
                raise StopIteration

        result = run(method, callback=callback)
        assert result.status == ps.results.Status.CALLBACK
        assert [one.nit for one in seen] == list(range(6))
        assert [one.nfev for one in seen] == result.history.nfev.tolist() == [N * (i + 1) for i in range(6)]
        assert [one.fun for one in seen] == result.history.best.tolist()
        for one in seen:
            assert not any(leaf.flags.writeable for _, leaf in leaves(one.swarm) if leaf is not None)
        assert_same_swarm(seen[-1].swarm, result.swarm)

    def test_too_few_particles_are_refused_before_the_first_evaluation(self, method):
        needed = smallest_swarm(method)
        assert run(method, n_particles=max(2, needed), maxiter=3).nit == 3
        fun = Counting(valley)
        if needed > 2:  # one particle is refused by the driver
            few = LOWER + (UPPER - LOWER) * np.random.default_rng(1).random((needed - 1, 3))
            swarm = kernels.start(few, np.arange(needed - 1.0), LOWER, UPPER)
            for init in ({"n_particles": needed - 1}, {"init": few}, {"init": swarm}):
                with pytest.raises(ValueError, match=f"{type(method).__name__}.*n_particles >= {needed}, got"):
                    run(method, fun, **init)
        with pytest.raises(ValueError, match="n_particles"):
            run(method, fun, n_particles=1)
        assert fun.points == []

    def test_the_law_of_the_next_step_is_there_where_steps_have_one(self, method):
        result, of_many = run(method), run_many(method, runs=2).run(1)
        for one in (result, of_many):
            if method.step_law is not None:
                assert_inside(one.next_step.mean)
                assert one.step_law().mean_position.shape == (N, 3)
            else:
                assert one.next_step is None
                with pytest.raises(ValueError, match=f"{type(method).__name__} has no closed-form law"):
                    one.step_law()
                assert "next_step" not in repr(one)

    # The object

    def test_a_copy_from_a_pickle_is_the_same_method(self, method):
        copy = pickle.loads(pickle.dumps(method))
        assert copy == method
        assert hash(copy) == hash(method)
        assert repr(copy) == repr(method)
        assert_same_run(run(copy), run(method))

    def test_a_method_cannot_be_changed(self, method):
        for field in dataclasses.fields(method):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(method, field.name, getattr(method, field.name))
        with pytest.raises(dataclasses.FrozenInstanceError):
            method.something_new = 1

    def test_a_method_is_shown_as_it_is_written(self, method):
        names = {**vars(ps.attractors), **vars(ps.noise), **vars(ps.schedules), type(method).__name__: type(method)}
        assert eval(repr(method), names) == method
        assert "0x" not in repr(method)  # no addresses
