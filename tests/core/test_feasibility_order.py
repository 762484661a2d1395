"""The order of points with constraints, as one number."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from paoswarm.core import order

NAN, INF = np.nan, np.inf
VALUES = st.one_of(st.floats(-1e150, 1e150), st.just(INF))
VIOLATIONS = st.one_of(st.just(0.0), st.floats(1e-30, 1e30))
POINTS = st.lists(st.tuples(VALUES, VIOLATIONS), min_size=3, max_size=3)


def scores(points):
    value, violation = np.array(points, dtype=float).T
    return order.feasible_first(value, violation)


def rule(one, other):
    """Feasible first; then by value; infeasible ones by violation."""
    (f, v), (g, w) = one, other
    if v == 0 and w == 0:
        return f < g
    return v < w


@settings(max_examples=60)
@given(POINTS)
def test_one_number_says_which_of_two_points_is_better(points):
    found = scores(points)
    for (i, one), (j, other) in itertools.permutations(enumerate(points), 2):
        if one[0] == INF and one[1] == 0 and other[1] > 0:  # a feasible point without a value is a failed one
            continue
        if other[0] == INF and other[1] == 0 and one[1] > 0:
            continue
        assert bool(order.is_better(found[i], found[j])) == rule(one, other)


@settings(max_examples=60)
@given(POINTS)
def test_the_order_is_total_and_transitive(points):
    a, b, c = scores(points)
    assert (a < b) + (b < a) + (a == b) == 1
    assert not (a < b and b < c) or a < c


def test_small_violations_keep_their_digits():
    value, tiny = np.zeros(2), np.array([1e-12, 1e-12 * (1 + 1e-15)])
    first, second = order.feasible_first(value, tiny)
    assert first < second
    constant_plus_violation = 1e9 + tiny  # the control: a large constant swallows them
    assert constant_plus_violation[0] == constant_plus_violation[1]


def test_violations_come_back_and_failed_points_are_last():
    found = order.feasible_first(np.array([3.0, 3.0, NAN, 3.0, INF]), np.array([0.0, 0.25, 0.0, NAN, 0.0]))
    assert_array_equal(np.isnan(found), [False, False, True, True, False])
    assert_array_equal(order.is_feasible(found), [True, False, False, False, False])
    np.testing.assert_allclose(order.violation(order.failed_last(found)), [0.0, 0.25, INF, INF, INF])


def test_levelled_scores_keep_the_order_and_are_of_one_size():
    found = order.feasible_first(np.array([1.0, 3.0, 9.0, 9.0, 2.0]), np.array([0.0, 0.0, 0.5, 7.0, 0.0]))
    level = order.levelled(found)
    assert_array_equal(order.ranked(level), order.ranked(found))
    assert_array_equal(level[[0, 1, 4]], [1.0, 3.0, 2.0])
    assert level.max() < 10
    plain = np.array([5.0, -2.0, INF])
    assert_array_equal(order.levelled(plain[:2]), plain[:2])  # nothing to do without constraints
