"""Gauss-Newton searches that share their points: linear models are exact, failures and noise end nothing."""

import heapq
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import lsq_linear

from paoswarm.least_squares.descent import (
    ACTIVE,
    CONVERGED,
    CUT_SHORT,
    HOPELESS,
    KNOWN,
    Descent,
    Precision,
)
from paoswarm.least_squares.descents import Descents
from paoswarm.least_squares.ends import SearchEnds
from paoswarm.least_squares.likelihoods import Normal
from paoswarm.least_squares.loss import Group, Loss
from paoswarm.least_squares.pool import Pool

X = np.linspace(0, 3, 25)


def squares(data):
    return Loss(data, (Group("", slice(0, len(data)), Normal()),))


def linear(n, m=20, seed=1):
    """A linear model with noisy data."""
    rng = np.random.default_rng(seed)
    design = rng.normal(size=(m, n)) * np.geomspace(0.1, 10, n)
    data = design @ rng.uniform(0.3, 0.7, n) + 0.01 * rng.normal(size=m)
    return design, data


def decay(x):
    """Two exponentials: the unknowns can be exchanged."""
    return np.exp(-5 * x[0] * X) + np.exp(-5 * x[1] * X)


def ran(searches, model, most=2000):
    """Take searches to their end; how many points were evaluated."""
    count = 0
    while requests := searches.ask(searches.at_once):
        for request in requests:
            point = searches.pool.inside(request.point)
            answer = np.asarray(model(point), dtype=float)
            searches.tell(request, answer if np.isfinite(answer).all() else np.empty(0))
            count += 1
        if count >= most:
            searches.finish()
    return count


def searches_of(data, n, *, seed=1, at_once=1, **options):
    return Descents(squares(data), np.zeros(n, dtype=bool), np.random.default_rng(seed), at_once, **options)


# One search


@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_slope_of_a_linear_model_is_exact_after_n_differences(n):
    design, data = linear(n)
    pool = Pool(np.zeros(n, dtype=bool))
    loss = squares(data)

    def add(x):
        return pool.add(x, design @ x, loss.value(design @ x))

    one = Descent(0, pool, add(np.full(n, 0.5)), loss, Precision())
    while np.isnan((step := one.ask(1)[0]).gain):  # a difference
        one.tell([add(step.point)], [step])
    assert one.spent == n
    assert one.is_known
    assert_allclose(one.jacobian, design, atol=1e-6 * np.abs(design).max())
    there = lsq_linear(design, data, (0, 1)).x
    assert_allclose(step.gain, one.value - loss.value(design @ step.point), rtol=1e-5)
    one.tell([add(step.point)], [step])
    while one.state == ACTIVE and (trials := one.ask(1)):
        one.tell([add(trial.point) for trial in trials], trials)
    assert one.state == CONVERGED
    assert_allclose(one.x, there, atol=1e-5)
    assert one.spent <= 3 * n + 5


def test_a_search_learns_from_the_points_of_others():
    design, data = linear(4)
    pool, loss = Pool(np.zeros(4, dtype=bool)), squares(data)
    rng = np.random.default_rng(2)
    for x in 0.5 + 0.1 * rng.normal(size=(12, 4)):
        pool.add(x, design @ x, loss.value(design @ x))
    one = Descent(0, pool, int(np.argmin(pool.values)), loss, Precision())
    assert_allclose(one.jacobian, design, atol=1e-4 * np.abs(design).max())
    assert not np.isnan(one.ask(1)[0].gain)  # a step at once


# All searches of a fit


@pytest.mark.parametrize("at_once", [1, 4, 16])
@pytest.mark.parametrize("n", [2, 6])
def test_a_linear_model_is_solved_with_its_slope(n, at_once):
    design, data = linear(n)
    data = data + design[:, 0]  # the first unknown ends on its wall
    searches = searches_of(data, n, at_once=at_once)
    ran(searches, lambda x: design @ x)
    assert searches.is_done
    assert searches.is_settled
    assert_allclose(searches.pool.points[searches.pool.best], lsq_linear(design, data, (0, 1)).x, atol=1e-5)
    assert_allclose(searches.jacobian, design, atol=1e-9 * np.abs(design).max())


def test_workers_stay_busy_although_some_points_take_long():
    """Sixteen workers and log-normal times: whoever is idle begins another search."""
    data, rng = decay([0.3, 0.9]), np.random.default_rng(2)
    searches = searches_of(data, 2, at_once=16, fills=True)
    clock, busy, count, under_way = 0.0, 0.0, 0, []
    while count < 300:
        for request in searches.ask(16 - len(under_way)):
            seconds = rng.lognormal()
            under_way.append((clock + seconds, count, request))
            busy, count = busy + seconds, count + 1
        clock, _, request = heapq.heappop(under_way)
        searches.tell(request, decay(searches.pool.inside(request.point)))
        heapq.heapify(under_way)
    assert busy > 0.85 * 16 * clock
    assert searches.pool.least < 1e-9


def test_failing_points_end_no_search():
    """A third of the box fails, next to the minimum."""
    data = np.exp(-5 * 0.4 * X) + 0.5

    def model(x):
        return np.exp(-5 * x[0] * X) + x[1] if x[0] + 0.2 * x[1] < 0.53 else np.full(25, np.nan)

    searches = searches_of(data, 2)
    ran(searches, model)
    assert (~np.isfinite(searches.pool.values)).sum() > 3
    assert searches.is_settled
    assert_allclose(searches.pool.points[searches.pool.best], [0.4, 0.5], atol=1e-5)


def test_if_all_points_fail_nothing_is_found_and_nothing_hangs():
    searches = searches_of(np.zeros(25), 2)
    assert ran(searches, lambda x: np.full(25, np.nan), most=50) >= 50
    assert searches.is_done
    assert searches.jacobian is None
    assert not searches.contradiction


@pytest.mark.parametrize("level", [1e-4, 1e-2])
def test_noise_of_the_simulator_is_measured_and_respected(level):
    rng = np.random.default_rng(3)
    data = decay([0.2, 0.7]) + 0.1 * rng.normal(size=25)
    shaken = np.random.default_rng(4)

    def model(x):
        mu = decay(x)
        return mu + (mu - data) * level * shaken.normal(size=25)

    searches = searches_of(data, 2)
    ran(searches, model)
    assert 0.6 * level < searches.precision.relative < 1.5 * level  # chi with 25 numbers: 14 % standard deviation
    assert searches.precision.floor > 0
    best = np.sort(searches.pool.points[searches.pool.best])
    quiet = searches_of(data, 2)
    ran(quiet, decay)
    assert quiet.precision == Precision()
    value = squares(data).value
    assert value(decay(best)) <= value(decay(quiet.pool.points[quiet.pool.best])) * (1 + 20 * level)


def test_known_points_take_the_place_of_simulations():
    rng = np.random.default_rng(5)
    data = decay([0.2, 0.7]) + 0.05 * rng.normal(size=25)
    first = searches_of(data, 2)
    count = ran(first, decay)
    known = list(zip(first.pool.points, first.pool.outputs, strict=True))
    second = searches_of(data, 2, seed=2, known=[*known, (np.array([0.1, 0.1]), np.empty(0))])
    assert len(second.pool) == count + 1
    assert_allclose(second.pool.values[second.pool.best], first.pool.values[first.pool.best])
    for _ in range(12):  # at the end at once: nothing better is far away
        for request in second.ask(1):
            second.tell(request, decay(request.point))
    assert second.ends[0].value <= first.pool.values[first.pool.best] * (1 + 1e-9)
    assert second.ends[0].spent < 8


def test_starts_come_first_and_on_circles_they_are_wrapped():
    searches = Descents(
        squares(np.zeros(3)),
        np.array([True, False]),
        np.random.default_rng(1),
        starts=[np.array([1.2, 0.5]), np.array([0.3, 1.5])],
    )
    (first,) = searches.ask(1)
    assert_allclose(first.point, [0.2, 0.5])


def test_the_same_numbers_give_the_same_searches():
    data = decay([0.2, 0.7])
    a, b = (searches_of(data, 2, seed=7, at_once=3) for _ in range(2))
    ran(a, decay)
    ran(b, decay)
    assert (a.pool.points == b.pool.points).all()


def test_a_budget_leaves_time_to_measure_the_slope():
    searches = searches_of(decay([0.2, 0.7]) + 0.1, 2)
    ran(searches, decay, most=10)
    assert searches.is_done
    assert searches.jacobian is not None


# Ends


def end(number, x, value, residuals, *, state=CONVERGED, first_value=1e3, spent=10):
    """A search that has ended."""
    return SimpleNamespace(
        number=number, x=np.array(x), value=value, residuals=np.array(residuals), state=state,
        first_value=first_value, spent=spent,
    )  # fmt: skip


def ends_of(*found, n=2):
    ends = SearchEnds(Pool(np.zeros(n, dtype=bool)))
    for one in found:
        ends.note(one)
    return ends


R, OTHER = [1.0, 2.0, -1.0], [3.0, -2.0, 1.0]


def test_ends_are_counted_in_the_order_of_starts():
    """Quick searches end first; if these counted at once, wrong minima would agree first."""
    wrong = [end(k, [0.1, 0.1], 14.0, OTHER) for k in (1, 2, 3)]
    ends = ends_of(*wrong)
    assert ends.agreement(0).n_searches == 0
    assert ends.agreement(4).is_settled
    ends.note(end(0, [0.9, 0.9], 6.0, R))
    found = ends.agreement(4)
    assert (found.n_searches, found.n_here, found.n_places) == (4, 1, 2)
    assert not found.is_settled
    for k in (4, 5, 6):
        ends.note(end(k, [0.9, 0.9], 6.0, R))
    assert not ends.agreement(6).is_settled  # 3 of 2 places
    assert ends.agreement(7).is_settled


def test_agreement_of_a_fit_waits_for_searches_that_began_earlier():
    searches = searches_of(decay([0.2, 0.7]), 2, at_once=12)
    oldest_first = []
    while not searches.is_done and (requests := searches.ask(12)):
        for request in requests:
            searches.tell(request, decay(searches.pool.inside(request.point)))
        numbers = sorted(one.number for one in searches.ends)
        counted = searches.agreement.n_searches
        in_order = next((k for k, number in enumerate(numbers) if k != number), len(numbers))
        assert counted <= in_order
        oldest_first.append(in_order)
    assert max(oldest_first) >= 3


def test_the_same_fit_is_one_place_wherever_it_is():
    """Data that do not determine the unknowns give many ends with the same residuals."""
    near = [1.0, 2.0, -1.0 + 0.9e-2 * np.sqrt(6)]
    ends = ends_of(end(0, [0.1, 0.1], 6.0, R), end(1, [0.9, 0.2], 6.0 * (1 + 1e-6), near))
    assert [one.state for one in ends.all] == [CONVERGED, KNOWN]
    assert_allclose(ends.all[1].x, [0.1, 0.1])
    for residuals, value in (([1.0, 2.0, -1.0 + 1.1e-2 * np.sqrt(6)], 6.0), (near, 6.0 * (1 + 1e-4))):
        ends = ends_of(end(0, [0.1, 0.1], 6.0, R), end(1, [0.9, 0.2], value, residuals))
        assert [one.state for one in ends.all] == [CONVERGED, CONVERGED]


def test_ends_next_to_each_other_are_one_place():
    ends = ends_of(
        end(0, [0.1, 0.1], 6.0, R),
        end(1, [0.1, 0.1 + 0.9e-3], 6.0, OTHER),
        end(2, [0.1, 0.1 + 0.9e-3], 7.0, OTHER),
        end(3, [0.1 + 1e-4, 0.1], 9.0, OTHER),
        end(4, [0.1, 0.2], 6.0, [0.0, 0.0, 6.0]),
    )
    assert [one.state for one in ends.all] == [CONVERGED, KNOWN, CONVERGED, KNOWN, CONVERGED]


def test_plateaus_and_searches_that_were_given_up_do_not_count():
    ends = ends_of(
        end(0, [0.1, 0.1], 6.0, R),
        end(1, [0.8, 0.1], 6.0, R, first_value=7.0),
        end(2, [0.5, 0.5], 5.0, OTHER, state=HOPELESS),
        end(3, [0.6, 0.6], 4.0, OTHER, state=CUT_SHORT),
    )
    assert [one.state for one in ends.all] == [CONVERGED, CUT_SHORT, HOPELESS, CUT_SHORT]
    assert ends.best == 6.0
    assert ends.agreement(4).n_here == 1


def test_a_search_that_cannot_catch_up_is_hopeless():
    ends = ends_of(end(0, [0.1, 0.1], 1.0, R))
    active = end(1, [0.8, 0.8], 100.0, OTHER, state=ACTIVE)
    active.fall = lambda window: 0.1  # of the logarithm; 46 such windows to catch up
    ends.judge(active)
    assert active.state == HOPELESS
    active.state, active.fall = ACTIVE, lambda window: 1.0
    ends.judge(active)
    assert active.state == ACTIVE
    active.fall = lambda window: None  # too young
    ends.judge(active)
    assert active.state == ACTIVE


def test_searches_on_a_plateau_do_not_convince():
    """Without a longer search there, four of these eight claims would be wrong."""
    t = np.arange(1, 81) / 2
    data = 1 + 5 * np.exp(-0.1 * t) + 0.05 * np.random.default_rng(0).normal(size=80)

    def model(u):
        a, b, k = np.array([-10, -10, 0]) + np.array([20, 20, 400]) * u  # from k = 20 on it has no effect
        return a + b * np.exp(-k * t)

    for seed in range(8):
        searches = searches_of(data, 3, seed=seed)
        ran(searches, model, most=2000)
        assert searches.pool.values.min() < 0.25 or not searches.is_settled


def osborne(u):
    """Osborne's first model in a box in which it grows to exp(636)."""
    x = np.array([-1.5, -1.5, -1.0, -1.99, -1.98]) + 7 * np.array([1, 1.5, 1, 1, 1]) * u
    t = 10 * np.arange(33)
    with np.errstate(over="ignore", invalid="ignore"):
        return x[0] + x[1] * np.exp(-x[3] * t) + x[2] * np.exp(-x[4] * t)


@pytest.mark.parametrize("seed", [5, 28])
def test_only_settled_searches_end_of_their_own(seed):
    """Where some searches begin near overflow, too, and where the last step finds a better point."""
    data = 0.4 + 2 * np.exp(-0.01 * np.arange(0, 330, 10)) - 1.5 * np.exp(-0.02 * np.arange(0, 330, 10))
    searches = searches_of(data + 0.002 * np.random.default_rng(0).normal(size=33), 5, seed=seed)
    spent = ran(searches, osborne, most=600)
    assert spent >= 600 or (searches.is_settled and searches.pool.values.min() < 0.01)
