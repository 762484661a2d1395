import functools
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from objectives import Recording, assert_same_run, noisy, sphere

import paoswarm as ps

BOX = [(-4, 5), (-6, 3)]


def run(callback=None, **changes):
    return ps.minimize(
        sphere, BOX, method=ps.PAO(), callback=callback, **({"n_particles": 8, "maxiter": 6, "rng": 1} | changes)
    )


def arrays_of(swarm):
    return [a for a in (*swarm, *(swarm.repeats or ())) if isinstance(a, np.ndarray)]


def test_callback_is_called_after_every_generation_with_the_state_of_the_run():
    seen = []
    result = run(lambda intermediate_result: seen.append(intermediate_result))
    assert [r.nit for r in seen] == list(range(7))
    assert_array_equal([r.nfev for r in seen], result.history.nfev)
    assert_array_equal([r.fun for r in seen], result.history.best)
    assert_array_equal(seen[-1].x, result.x)
    for r in seen:
        assert sphere(r.x) == r.fun == r.swarm.best_value.min()


def test_callback_with_any_other_parameter_name_receives_the_point():
    seen = []
    result = run(lambda xk: seen.append(xk))
    assert_array_equal([sphere(x) for x in seen], result.history.best)


def test_callbacks_may_be_keyword_only_methods_and_partial_functions():
    class Log:
        def __init__(self):
            self.values = []

        def add(self, label, *, intermediate_result):
            self.values.append((label, intermediate_result.fun))

    log = Log()
    result = run(functools.partial(log.add, "a"))
    assert log.values == [("a", best) for best in result.history.best]


@pytest.mark.parametrize("reevaluate", [0.0, 0.5])
def test_nothing_in_the_swarm_that_a_callback_gets_can_be_written_to(reevaluate):
    refused = []

    def vandal(intermediate_result):
        for array in arrays_of(intermediate_result.swarm):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0
            refused.append(array)

    run(vandal, reevaluate=reevaluate)
    assert len(refused) >= 7 * (9 if reevaluate == 0 else 10)  # numbers cannot be written to anyway


def test_a_callback_cannot_change_the_run_by_what_it_does_with_its_argument():
    def vandal(intermediate_result):
        intermediate_result.x = intermediate_result.x * 0
        intermediate_result.fun = -1.0
        intermediate_result.clear()

    def overwrite(x):
        x = np.array(x)
        x[:] = 99.0

    assert_same_run(run(vandal), run())
    assert_same_run(run(overwrite), run())


def test_points_handed_to_a_callback_do_not_change_later():
    points, copies = [], []

    def keep(xk):
        points.append(xk)
        copies.append(xk.copy())

    run(keep)
    assert_array_equal(points, copies)


@pytest.mark.parametrize("by", ["StopIteration", "True", "numpy True"])
def test_a_callback_can_end_the_run(by):
    def enough(intermediate_result):
        if intermediate_result.nit == 3:
            if by == "StopIteration":
                raise StopIteration
            return True if by == "True" else np.True_
        return None

    result = run(enough)
    assert (result.status, result.success, result.nit) == (ps.results.Status.CALLBACK, True, 3)
    assert "callback" in result.message
    assert_array_equal(result.history.best, run().history.best[:4])


@pytest.mark.parametrize("answer", [None, False, 0, 1, "go on", np.ones(3)])
def test_other_answers_of_a_callback_mean_nothing(answer):
    assert run(lambda x: answer).nit == 6


def test_an_error_in_a_callback_is_the_users_to_see():
    def broken(x):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        run(broken)


def test_what_is_not_callable_is_refused_before_the_first_evaluation():
    fun = Recording(sphere)
    with pytest.raises(TypeError, match="callback must be callable, got 3"):
        ps.minimize(fun, BOX, method=ps.PAO(), callback=3)
    assert fun.calls == 0


def keyword_only(*, x):
    pass


def two_results(intermediate_result, other):
    pass


@pytest.mark.parametrize("callback", [lambda: None, lambda x, y: None, keyword_only, two_results])
def test_a_callback_that_cannot_be_called_is_refused_before_the_first_evaluation(callback):
    fun = Recording(sphere)
    with pytest.raises(TypeError, match="callback must take one argument"):
        ps.minimize(fun, BOX, method=ps.PAO(), callback=callback)
    assert fun.calls == 0


@pytest.mark.parametrize("callback", [lambda x, y=1: None, lambda *anything: None, [].append])
def test_a_callback_may_take_more_than_it_is_given(callback):
    assert ps.minimize(sphere, BOX, method=ps.PAO(), maxiter=2, callback=callback, rng=1).nit == 2


def test_an_interrupt_in_a_callback_returns_the_generation_it_saw():
    def interrupt(intermediate_result):
        if intermediate_result.nit == 2:
            raise KeyboardInterrupt

    result = run(interrupt)
    assert (result.status, result.nit, len(result.history)) == (ps.results.Status.INTERRUPTED, 2, 3)


def test_history_has_one_entry_per_generation_and_says_what_was_true_then():
    fun = Recording(sphere)
    swarms = []
    result = ps.minimize(
        fun,
        BOX,
        method=ps.PAO(),
        n_particles=8,
        maxiter=6,
        callback=lambda intermediate_result: swarms.append(intermediate_result.swarm),
        rng=1,
    )
    history, values = result.history, np.array(fun.values)
    assert len(history) == 7
    assert_array_equal(history.nfev, 8 * np.arange(1, 8))
    assert_array_equal(history.best, np.minimum.accumulate(values)[history.nfev - 1])
    assert np.all(np.diff(history.best) <= 0)
    np.testing.assert_allclose(history.mean, values.reshape(7, 8).mean(axis=1), rtol=1e-14)
    for swarm, spread in zip(swarms, history.spread, strict=True):
        apart = (swarm.position - swarm.global_best) / 9
        assert spread == pytest.approx(np.sqrt(np.mean(apart**2)))


def test_mean_in_the_history_leaves_failed_points_out():
    fun = Recording(lambda x: np.nan if x[0] > 0 else (np.inf if x[1] > 0 else sphere(x)))
    history = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=20, maxiter=3, rng=1).history
    values = np.array(fun.values).reshape(4, 20)
    np.testing.assert_allclose(history.mean, [row[np.isfinite(row)].mean() for row in values])


def test_a_callback_can_keep_the_swarms_of_all_generations():
    fun, swarms = Recording(sphere), []
    keep = lambda intermediate_result: swarms.append(intermediate_result.swarm)  # noqa: E731
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=8, maxiter=6, callback=keep, rng=1)
    assert_array_equal(np.concatenate([s.position for s in swarms]), fun.points)
    assert_same_run(run(), result)


@pytest.mark.parametrize("reevaluate", [0.0, 0.2])
def test_memory_does_not_grow_with_the_number_of_generations(reevaluate):
    def peak(maxiter):
        settings = {"maxiter": maxiter, "reevaluate": reevaluate}
        tracemalloc.start()
        ps.minimize(
            noisy(sphere, 0.1, 1),
            [(-4, 5)] * 5,
            method=ps.PAO(),
            n_particles=50,
            tol=0,
            vectorized=True,
            rng=1,
            **settings,
        )
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(5)  # imports
    bytes_per_generation = (peak(300) - peak(100)) / 200
    evaluations = 8 * (5 + 1) * 50 * (1 + reevaluate)  # points and values are kept for `to_dataframe`
    assert bytes_per_generation < evaluations + 1500  # four numbers more, the objects around them, some not yet freed
