"""What the ends of independent searches say about the global minimum."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

import paoswarm as ps
from paoswarm.methods.agreement import agreement

LOWER, UPPER = np.array([-5.0, 0.0]), np.array([5.0, 1e-3])


def search(x, value, ending="converged", first=np.inf):
    return ps.results.Search(0, 8, 100, np.asarray(x, dtype=float), value, ending, first)


def test_places_are_told_apart_in_widths_of_the_bounds():
    ends = [search([1.0, 1e-4], 2.0), search([1.003, 1.003e-4], 2.0), search([1.0, 1.1e-4], 3.0)]
    found = agreement(ends, LOWER, UPPER)
    assert found == ps.results.Agreement(n_searches=3, n_here=2, n_places=2, n_once=1, n_equal=2, n_worse=1)


def test_searches_that_were_cut_short_say_nothing_and_hopeless_ones_have_not_arrived():
    ends = [search([1, 0], 2.0), search([1, 0], 2.0, "cut short"), search([-3, 0], 4.0, "hopeless")]
    found = agreement(ends, LOWER, UPPER)
    assert found == ps.results.Agreement(n_searches=2, n_here=1, n_places=1, n_once=2, n_equal=1, n_worse=0)
    assert not found.is_unanimous
    assert agreement([search([1, 0], 2.0), search([1, 0], 2.5, "known")], LOWER, UPPER).is_unanimous
    assert agreement([], LOWER, UPPER) == ps.results.Agreement()


def ring(n, value=0.0, first=5.0):
    """Ends of equal value at different places."""
    return [search([-4 + 0.5 * i, 0], value, first=first) for i in range(n)]


def test_equal_values_at_different_places_take_twice_as_many_searches():
    assert not agreement(ring(5), LOWER, UPPER).is_settled
    settled = agreement(ring(6), LOWER, UPPER)
    assert settled.is_settled
    assert not settled.is_unique
    assert "not unique" in str(settled)
    worse = search([4.5, 0], 1.0, first=5.0)
    assert not agreement([*ring(6), worse], LOWER, UPPER).is_settled
    assert agreement([*ring(7), worse], LOWER, UPPER).is_settled


def test_plateaus_are_no_agreement():
    """Nothing was better than the first points: a function that is flat here may have a hole elsewhere."""
    assert not agreement(ring(15, first=0.0), LOWER, UPPER).is_settled


def test_values_that_are_zero_but_for_rounding_are_equal():
    ends = [search([i, 0], 1e-30 * 10**i, first=3.0) for i in range(5)]
    assert agreement(ends, LOWER, UPPER).n_equal == 5
    assert agreement([search([i, 0], 1e-6 * 10**i, first=3.0) for i in range(5)], LOWER, UPPER).n_equal == 1


def test_one_search_that_began_near_overflow_does_not_make_different_values_equal():
    ends = [search([0.1 * k], 1.0 + k, first=1e144 if k == 2 else 50.0) for k in range(9)]
    assert not agreement(ends, np.zeros(1), np.ones(1)).is_settled


def test_of_equal_minima_the_one_reached_most_often_counts():
    ends = [search([1, 0], 2.0), search([-1, 0], 2.0 + 1e-9), search([-1, 0], 2.0 + 1e-9), search([4, 0], 9.0)]
    assert agreement(ends, LOWER, UPPER).n_here == 2
    worse = [search([1, 0], 2.0), search([-1, 0], 2.1), search([-1, 0], 2.1), search([4, 0], 9.0)]
    assert agreement(worse, LOWER, UPPER).n_here == 1


@pytest.mark.parametrize(
    ("here", "places", "settled"),
    [(2, 1, False), (3, 1, True), (3, 2, False), (4, 2, True), (4, 4, True), (4, 5, False)],
)
def test_more_places_need_more_agreement(here, places, settled):
    assert ps.results.Agreement(20, here, places, 0).is_settled is settled


@pytest.mark.parametrize(("n", "h"), [(3, 2), (6, 4), (4, 3), (10, 3)])
def test_the_chance_of_a_miss_is_the_integral_over_a_uniform_prior(n, h):
    """The share s of searches that reach a place: uniform prior, h of n seen; another such place missed n times."""
    seen = quad(lambda s: s**h * (1 - s) ** (n - h), 0, 1)[0]
    missed = quad(lambda s: s**h * (1 - s) ** (n - h) * (1 - s) ** n, 0, 1)[0]
    assert_allclose(ps.results.Agreement(n, h, 2, 0).missed, max(0.03, missed / seen), rtol=1e-9)


def test_the_printed_sentence_claims_only_what_is_settled():
    assert "below 3 %" in str(ps.results.Agreement(6, 4, 2, 1))
    assert str(ps.results.Agreement(6, 2, 2, 1)).startswith(
        "Not confirmed: 2 of 6 independent searches ended at this point."
    )
    unlike = ps.results.Agreement(9, 2, 8, 7, 5, 1)
    assert str(unlike).startswith("Not confirmed: 5 of 9 independent searches ended at this value.")
    assert math.isclose(ps.results.Agreement().missed, 1.0)
