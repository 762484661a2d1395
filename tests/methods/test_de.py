"""The trials of differential evolution against their formulas, worked out by hand and in a plain loop."""

import math

import by_hand
import numpy as np
import pytest
from by_hand import Given, frozen
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps

# Element j of the mutant of individual i, for partners r = [r1, r2, ...]; x is the population, b its best.
FORMULAS = {
    "rand/1": lambda x, b, F, i, j, r: x[r[0]][j] + F * (x[r[1]][j] - x[r[2]][j]),
    "rand/2": lambda x, b, F, i, j, r: x[r[0]][j] + F * (x[r[1]][j] - x[r[2]][j]) + F * (x[r[3]][j] - x[r[4]][j]),
    "best/1": lambda x, b, F, i, j, r: b[j] + F * (x[r[0]][j] - x[r[1]][j]),
    "best/2": lambda x, b, F, i, j, r: b[j] + F * (x[r[0]][j] - x[r[1]][j]) + F * (x[r[2]][j] - x[r[3]][j]),
    "current-to-best/1": lambda x, b, F, i, j, r: x[i][j] + F * (b[j] - x[i][j]) + F * (x[r[0]][j] - x[r[1]][j]),
    "current-to-best/2": lambda x, b, F, i, j, r: (
        x[i][j] + F * (b[j] - x[i][j]) + F * (x[r[0]][j] - x[r[1]][j]) + F * (x[r[2]][j] - x[r[3]][j])
    ),
}
PARTNERS = {"rand/1": 3, "rand/2": 5, "best/1": 2, "best/2": 4, "current-to-best/1": 2, "current-to-best/2": 4}


def loop(swarm, strategy, F, CR, choice, chance, forced):
    """Partners from a list of the others, binomial crossover with one element certain; one after the other."""
    x, b = swarm.best_position, swarm.global_best[0]
    n, d = x.shape
    trial = np.empty((n, d))
    for i in range(n):
        left = [k for k in range(n) if k != i]
        r = [left.pop(int(u * len(left))) for u in choice[i]]
        for j in range(d):
            crosses = chance[i, j] < CR or j == int(forced[i, 0] * d)
            trial[i, j] = FORMULAS[strategy](x, b, F, i, j, r) if crosses else x[i, j]
    return trial


def test_a_trial_worked_out_by_hand():
    """Four individuals with bests (0, 0), (1, 2), (2, -1), (-0.5, 3); number 1 leads."""
    swarm = by_hand.swarm()
    # The others in ascending order: the first is r1, then the last of those left is r2, and the last one left is r3.
    choice = frozen([(0.1, 0.9, 0.5)] * 4)
    chance = frozen([(0.1, 0.9), (0.9, 0.1), (0.9, 0.9), (0.9, 0.9)])
    forced = frozen([(0.2,), (0.7,), (0.2,), (0.7,)])  # elements 0, 1, 0, 1
    step = ps.classic.DE(factor=0.5, crossover=0.2, walls="none").ask(swarm, Given(uniform=[choice, chance, forced]))
    # 0: r = 1, 3, 2.  (1 + 0.5 (-0.5 - 2), kept 0) = (-0.25, 0)
    # 1: r = 0, 3, 2.  (kept 1, 0 + 0.5 (3 + 1)) = (1, 2)
    # 2: r = 0, 3, 1.  (0 + 0.5 (-0.5 - 1), kept -1) = (-0.75, -1)
    # 3: r = 0, 2, 1.  (kept -0.5, 0 + 0.5 (-1 - 2)) = (-0.5, -1.5)
    assert_array_equal(step.position, [(-0.25, 0.0), (1.0, 2.0), (-0.75, -1.0), (-0.5, -1.5)])
    assert_array_equal(step.velocity, swarm.velocity)


@pytest.mark.parametrize("strategy", FORMULAS)
@pytest.mark.parametrize("progress", [0.0, 0.4])
def test_a_trial_agrees_with_the_loop(strategy, progress):
    swarm, rng = by_hand.drawn(1), np.random.default_rng(2)
    choice, chance, forced = rng.random((7, PARTNERS[strategy])), rng.random((7, 3)), rng.random((7, 1))
    method = ps.classic.DE(ps.schedules.linear(0.5, 1.0), lambda progress: 0.3 + progress / 2, strategy, walls="none")
    step = method.ask(swarm, Given(uniform=[choice, chance, forced]), progress)
    expected = loop(swarm, strategy, 0.5 + 0.5 * progress, 0.3 + progress / 2, choice, chance, forced)
    kept = expected == swarm.best_position
    assert kept.any()
    assert not kept.all(axis=1).any()
    assert_allclose(step.position, expected, rtol=0, atol=1e-14)
    assert_array_equal(step.position[kept], expected[kept])


@pytest.mark.parametrize("strategy", FORMULAS)
def test_a_batch_of_trials_is_its_runs(strategy):
    swarm, rng = by_hand.drawn(3, batch=(2,)), np.random.default_rng(4)
    draws = rng.random((2, 7, PARTNERS[strategy])), rng.random((2, 7, 3)), rng.random((2, 7, 1))
    step = ps.classic.DE(strategy=strategy, walls="none").ask(swarm, Given(uniform=draws))
    for r in range(2):
        expected = loop(by_hand.one_run(swarm, r), strategy, 0.5, 0.9, *(draw[r] for draw in draws))
        assert_allclose(step.position[r], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("rate", "crossed"), [(0.0, 1), (1.0, 3)])
def test_at_the_limits_one_element_crosses_or_all_do(rate, crossed):
    swarm, rng = by_hand.drawn(5), np.random.default_rng(6)
    draws = rng.random((7, 3)), rng.random((7, 3)), rng.random((7, 1))
    step = ps.classic.DE(crossover=rate, walls="none").ask(swarm, Given(uniform=draws))
    assert_array_equal((step.position != swarm.best_position).sum(axis=1), crossed)


def test_only_a_better_trial_replaces_its_parent(swarm):
    """The parents' values are 3, 1, 2 and none; an equal or a failed trial does not count."""
    method = ps.classic.DE()
    rng = np.random.default_rng(7)
    step = method.ask(swarm, Given(uniform=[rng.random((4, 3)), rng.random((4, 2)), rng.random((4, 1))]))
    after = method.tell(swarm, step, frozen([2.5, 1.0, np.nan, 50.0]))
    replaced = np.array([True, False, False, True])
    assert_array_equal(after.best_position, np.where(replaced[:, None], step.position, swarm.best_position))
    assert_array_equal(after.best_value, [2.5, 1.0, 2.0, 50.0])
    assert_array_equal(after.position, step.position)
    next_draws = [np.full((4, 3), 0.5), np.ones((4, 2)), np.zeros((4, 1))]  # only element 0 crosses
    again = method.ask(after, Given(uniform=next_draws))
    assert_array_equal(again.position[:, 1], after.best_position[:, 1])


def test_walls_act_on_the_trial(swarm):
    draws = [np.random.default_rng(8).random(shape) for shape in ((4, 3), (4, 2), (4, 1))]
    free = ps.classic.DE(factor=2.0, walls="none").ask(swarm, Given(uniform=draws))
    for walls in ("clip", "reflect"):
        method = ps.classic.DE(factor=2.0, walls=walls)
        step = method.ask(swarm, Given(uniform=draws))
        assert not np.array_equal(free.position, step.position)
        assert_array_equal(step.position, method.wall.apply(*free[:2], swarm.lower, swarm.upper)[0])


def test_the_values_of_the_study_and_of_storn_and_price():
    assert ps.classic.DE.paper() == ps.classic.DE(factor=0.5, crossover=0.2, strategy="rand/1", walls="clip")
    assert ps.classic.DE() == ps.classic.DE(factor=0.5, crossover=0.9, strategy="rand/1", walls="clip")


@pytest.mark.parametrize("wrong", ["rand/3", "rand/1/bin", "Best/1", "", None, 1, ("rand/1",), ["rand/1"]])
def test_an_unknown_strategy_is_refused(wrong):
    with pytest.raises(ValueError, match=r"strategy must .*rand/1.*, got "):
        ps.classic.DE(strategy=wrong)


@pytest.mark.parametrize(("name", "high"), [("factor", 2.0), ("crossover", 1.0)])
def test_a_number_out_of_range_is_refused(name, high):
    for fine in (0.0, high, lambda progress: high * progress):
        ps.classic.DE(**{name: fine})
    for wrong in (-0.1, high + 0.1, np.nan, math.inf, lambda progress: 2 * high * progress):
        with pytest.raises(ValueError, match=f"{name} must .* 0 and {high:g}, got"):
            ps.classic.DE(**{name: wrong})
    for wrong in ("much", None, True, [0.5], ps.schedules.patient_step()):
        with pytest.raises(TypeError, match=f"{name} must be a number"):
            ps.classic.DE(**{name: wrong})
