"""Problems without a feasible point: what is said, and when the search gives up."""

import numpy as np
import pytest

import paoswarm as ps
from paoswarm.core import order
from paoswarm.methods.agreement import CONVERGED, Agreement, Search, agreement, all_placed

BOX = [(-5.0, 5.0)] * 2
LOW, HIGH = np.array([-5.0, -5.0]), np.array([5.0, 5.0])


def spheres(x):
    return (x**2).sum(axis=1)


def bowl(x):
    return spheres(x) + 1  # nowhere below 1


def infeasible(x, violation, first=9.0):
    score, before = order.feasible_first(np.zeros(2), np.array([violation, first]))
    return Search(0, 6, 100, np.asarray(x, dtype=float), float(score), CONVERGED, first_value=float(before))


def test_searches_that_agree_on_the_least_violation_end_the_run():
    never = ps.Constraint(bowl, name="bowl")
    result = ps.minimize(spheres, BOX[:1], constraints=never, vectorized=True, rng=1)
    assert result.nfev < 10_000
    assert not result.success
    assert result.message.startswith("No feasible point was found: at the best one, bowl is violated by 1. Stopped: ")
    assert "independent searches ended at this violation: the constraints may contradict each other." in result.message
    assert "More evaluations" not in result.message


def test_a_few_searches_do_not_end_the_run():
    assert not agreement(all_placed([infeasible([0, 0], 1.0)] * 5, LOW, HIGH)).is_settled
    agreed = agreement(all_placed([infeasible([0, 0], 1.0)] * 12, LOW, HIGH))
    assert agreed.is_settled
    assert (agreed.is_feasible, agreed.is_unique, agreed.is_unanimous) == (False, False, False)


def test_places_with_more_violation_ask_for_more_searches():
    worse = [infeasible([k, 4], 2.0 + k) for k in range(4)]
    needed = next(
        n for n in range(40) if agreement(all_placed([infeasible([0, 0], 1.0)] * n + worse, LOW, HIGH)).is_settled
    )
    alone = next(n for n in range(1, 40) if agreement(all_placed([infeasible([0, 0], 1.0)] * n, LOW, HIGH)).is_settled)
    assert needed > alone


def test_a_plateau_of_violation_is_no_evidence():
    """A constraint that is only true or false: searches end where they began, and know nothing."""
    assert agreement(all_placed([infeasible([k, 0], 1.0, first=1.0) for k in range(5)] * 6, LOW, HIGH)).n_equal == 0
    result = ps.minimize(spheres, BOX, constraints=lambda x: x[:, 0] > 9, maxfev=600, vectorized=True, rng=1)
    assert result.nfev == 600


def test_one_feasible_search_makes_all_infeasible_ones_irrelevant():
    found = Search(0, 6, 100, np.zeros(2), 3.0, CONVERGED, first_value=8.0)
    assert agreement(all_placed([infeasible([1, 1], 1.0)] * 20 + [found], LOW, HIGH)) == Agreement(1, 1, 1, 1)


def test_a_single_swarm_says_nothing_about_values_that_it_does_not_have():
    result = ps.minimize(spheres, BOX, constraints=bowl, vectorized=True, method="PAO", maxiter=5, rng=1)
    assert result.message == "No feasible point was found: at the best one, the constraint is violated by " + (
        f"{result.maxcv:.3g}. Stopped at maxiter=5."
    )


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_hardest_constraint_is_named_if_it_is_another_one(asynchronous):
    often = ps.Constraint(lambda x: abs(x[0]) - 1e-3, name="narrow")  # met at the end, by few points
    never = ps.Constraint(lambda x: 2 - 0.1 * x[0] if x[0] < 1 else -1.0, name="far")
    result = ps.minimize(
        lambda x: x[1],
        BOX,
        constraints=[never, often],
        method="PAO",
        maxiter=10,
        workers=ps.Workers(asynchronous=asynchronous),
        rng=1,
    )
    assert not result.feasible
    assert "far is violated by" in result.message or "narrow is violated by" in result.message
    assert ("; most points, " in result.message) == (f"one, {result.hardest} is" not in result.message)


def test_constraints_violated_together_are_counted():
    three = [lambda x: 1.0, lambda x: 2.0, lambda x: 3.0 + x[0] ** 2]
    result = ps.minimize(lambda x: x[0], BOX, constraints=three, method="PAO", maxiter=3, rng=1)
    assert ", and so are 2 others" in result.message
    two = ps.minimize(lambda x: x[0], BOX, constraints=three[:2], method="PAO", maxiter=3, rng=1)
    assert ", and so is 1 other" in two.message
