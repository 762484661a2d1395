"""What the ends of independent searches say about the global minimum."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

import paoswarm as ps
from paoswarm.methods.agreement import agreement, all_placed

LOWER, UPPER = np.array([-5.0, 0.0]), np.array([5.0, 1e-3])


def search(x, value, ending="converged", first=np.inf, **others):
    return ps.results.Search(0, 8, 100, np.asarray(x, dtype=float), value, ending, first, **others)


def agreed(ends, still=()):
    """How searches agree that have ended in this order."""
    return agreement(all_placed(ends, LOWER, UPPER), still)


def test_places_are_told_apart_in_widths_of_the_bounds():
    ends = [search([1.0, 1e-4], 2.0), search([1.003, 1.003e-4], 2.0), search([1.0, 1.1e-4], 3.0)]
    found = agreed(ends)
    assert found == ps.results.Agreement(n_searches=3, n_here=2, n_places=2, n_equal=2, n_worse=1)
    assert [one.place for one in all_placed(ends, LOWER, UPPER)] == [0, 0, 1]


def test_searches_that_were_cut_short_say_nothing_and_hopeless_ones_are_no_evidence():
    """Nobody knows where hopeless ones would have arrived: they count as one place, and never for a minimum."""
    ends = [search([1, 0], 2.0), search([1, 0], 2.0, "cut short"), search([-3, 0], 4.0, "hopeless")]
    found = agreed(ends)
    assert found == ps.results.Agreement(n_searches=2, n_here=1, n_places=2, n_equal=1, n_worse=1)
    assert not found.is_unanimous
    three = [search([1, 0], 2.0)] * 3
    assert agreed(three).is_settled
    assert not agreed([*three[:2], search([1, 0], 2.0, "hopeless")]).is_settled
    assert not agreed([*three, search([-3, 0], 4.0, "hopeless")]).is_settled
    assert agreed([]) == ps.results.Agreement()


def test_a_search_counts_at_a_place_only_if_its_value_agrees():
    """To a hundred-millionth of what the searches have come down, or to rounding."""
    ends = [search([1, 0], 2.0, first=12.0) for _ in range(2)]
    assert agreed([*ends, search([1, 0], 2.0 + 0.9e-7, first=12.0)]).is_unanimous
    apart = agreed([*ends, search([1, 0], 2.0 + 1.1e-7, first=12.0)])
    assert (apart.n_here, apart.n_places, apart.is_unanimous, apart.is_settled) == (2, 1, False, False)
    better = agreed([*ends, search([1, 0], 2.0 - 1.1e-7, first=12.0)])
    assert (better.n_here, better.n_equal) == (1, 1)
    far = [search([1, 0], 1e9 + noise, first=1e9 + 1e-3) for noise in (0.0, 9e-4)]
    assert agreed(far).n_here == 2  # rounding
    assert agreed([*ends, search([1, 0], 2.1, first=12.0, accuracy=0.2)]).is_unanimous


def test_ends_count_in_the_order_of_starts():
    """A search that began before one that has ended may end elsewhere, whichever is quicker."""
    ends = [search([1, 0], 2.0, began=100 * k) for k in range(3)]
    assert agreed(ends, still=[250]).is_settled
    waiting = agreed(ends, still=[150, 250])
    assert (waiting.n_open, waiting.is_settled) == (1, False)
    assert agreed([*ends, ends[0]], still=[150]).is_settled


def ring(n, value=0.0, first=5.0):
    """Ends of equal value at different places."""
    return [search([-4 + 0.5 * i, 0], value, first=first) for i in range(n)]


def test_equal_values_at_different_places_take_twice_as_many_searches():
    assert not agreed(ring(5)).is_settled
    settled = agreed(ring(6))
    assert settled.is_settled
    assert not settled.is_unique
    assert "not unique" in str(settled)
    worse = search([4.5, 0], 1.0, first=5.0)
    assert not agreed([*ring(6), worse]).is_settled
    assert agreed([*ring(7), worse]).is_settled


def test_plateaus_are_no_agreement():
    """Nothing was better than the first points: a function that is flat here may have a hole elsewhere."""
    assert not agreed(ring(15, first=0.0)).is_settled


def test_values_that_are_zero_but_for_rounding_are_equal():
    ends = [search([i, 0], 1e-30 * 10**i, first=3.0) for i in range(5)]
    assert agreed(ends).n_equal == 5
    assert agreed([search([i, 0], 1e-6 * 10**i, first=3.0) for i in range(5)]).n_equal == 1


def test_one_search_that_began_near_overflow_does_not_make_different_values_equal():
    ends = [search([0.1 * k], 1.0 + k, first=1e144 if k == 2 else 50.0) for k in range(9)]
    assert not agreement(all_placed(ends, np.zeros(1), np.ones(1))).is_settled


def test_of_equal_minima_the_one_reached_most_often_counts():
    others = [search([-1, 0], 2.0 + 1e-9), search([-1, 0], 2.0 + 1e-9), search([4, 0], 9.0)]
    assert agreed([search([1, 0], 2.0), *others]).n_here == 2
    assert agreed([search([1, 0], 1.9), *others]).n_here == 1


def test_a_fall_from_points_that_were_not_feasible_makes_no_values_equal():
    ends = [search([1, 0], 2.0 + k, first=1e240) for k in range(3)]
    assert agreed(ends).n_here == 1


@pytest.mark.parametrize(
    ("here", "places", "settled"),
    [(2, 1, False), (3, 1, True), (3, 2, False), (4, 2, True), (4, 4, True), (4, 5, False)],
)
def test_more_places_need_more_agreement(here, places, settled):
    assert ps.results.Agreement(20, here, places).is_settled is settled


@pytest.mark.parametrize(("n", "h"), [(3, 2), (6, 4), (4, 3), (10, 3)])
def test_the_chance_of_a_miss_is_the_integral_over_a_uniform_prior(n, h):
    """The share s of searches that reach a place: uniform prior, h of n seen; another such place missed n times."""
    seen = quad(lambda s: s**h * (1 - s) ** (n - h), 0, 1)[0]
    missed = quad(lambda s: s**h * (1 - s) ** (n - h) * (1 - s) ** n, 0, 1)[0]
    assert_allclose(ps.results.Agreement(n, h, 2).missed, max(0.03, missed / seen), rtol=1e-9)


def test_the_printed_sentence_claims_only_what_is_settled():
    assert "below 3 %" in str(ps.results.Agreement(6, 4, 2))
    assert str(ps.results.Agreement(6, 2, 2)).startswith(
        "Not confirmed: 2 of 6 independent searches ended at this point."
    )
    unlike = ps.results.Agreement(9, 2, 8, 5, 1)
    assert str(unlike).startswith("Not confirmed: 5 of 9 independent searches ended at this value.")
    assert math.isclose(ps.results.Agreement().missed, 1.0)


@pytest.mark.parametrize("n", [3, 4, 10])
def test_what_is_not_covered_is_more_likely_missed_than_found(n):
    found = ps.results.Agreement(n, n, 1)
    assert_allclose((1 - found.least_share) ** n, 0.5)
    assert f"Not covered: one that attracts less than {math.ceil(100 * found.least_share)} % of the" in str(found)
