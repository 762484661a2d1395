"""The order of points with constraints, as one number."""

import numpy as np
from numpy.testing import assert_array_equal

from paoswarm.core import order

NAN, INF = np.nan, np.inf
VALUES = np.array([-1e150, -3.0, 0.0, 1e-300, 2.0, 1e150, INF])
VIOLATIONS = np.array([0.0, 1e-30, 1e-12, 0.5, 7.0, 1e30])
F, V = (grid.ravel() for grid in np.meshgrid(VALUES, VIOLATIONS))  # every combination
SCORES = order.feasible_first(F, V)


def rule(f, v, g, w):
    """Feasible first; then by value; infeasible ones by violation. A feasible point without a value has failed."""
    if (v == 0 and f == INF) or (w == 0 and g == INF):
        return w == 0 and g == INF and not (v == 0 and f == INF)
    return f < g if v == 0 and w == 0 else v < w


def test_one_number_says_which_of_two_points_is_better():
    for i in range(len(F)):
        expected = [rule(F[i], V[i], F[j], V[j]) for j in range(len(F))]
        assert_array_equal(order.is_better(SCORES[i], SCORES), expected)


def test_the_order_is_total_and_transitive():
    less = SCORES[:, None] < SCORES
    equal = SCORES[:, None] == SCORES
    assert (less + less.T + equal == 1).all()
    through = (less[:, :, None] & less[None, :, :]).any(axis=1)  # a < b < c for some b
    assert not (through & ~less).any()
    assert not less.diagonal().any()


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
