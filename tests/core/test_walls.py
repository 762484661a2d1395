"""What each wall rule does to a position and a velocity."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from paoswarm.core import walls

RULES = list(walls.WALLS.values())
LOWER, UPPER = np.array([-1.0, 0.1, 1e5]), np.array([2.0, 0.3, 3e5])


def scattered(widths, size=2000, seed=1):
    rng = np.random.default_rng(seed)
    unit = rng.uniform(-widths, widths + 1, (size, 3))
    return LOWER + unit * (UPPER - LOWER), rng.normal(size=(size, 3))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
class TestEveryRule:
    def test_inside_nothing_changes_not_even_a_bit(self, rule):
        x, v = scattered(0)
        after = rule.apply(np.concatenate([x, [LOWER, UPPER]]), np.concatenate([v, v[:2]]), LOWER, UPPER)
        assert_array_equal(after[0], np.concatenate([x, [LOWER, UPPER]]))
        assert_array_equal(after[1], np.concatenate([v, v[:2]]))

    def test_the_result_lies_in_the_box(self, rule):
        after, _ = rule.apply(*scattered(7), LOWER, UPPER)
        assert ((after >= LOWER) & (after <= UPPER)).all() == rule.is_bounded

    def test_a_step_beyond_the_last_bit_stays_in_the_box(self, rule):
        for x in (np.nextafter(LOWER, -np.inf), np.nextafter(UPPER, np.inf), LOWER - 1e300, UPPER + 1e300):
            after, _ = rule.apply(x, np.ones(3), LOWER, UPPER)
            assert ((after >= LOWER) & (after <= UPPER)).all() == rule.is_bounded

    def test_a_second_application_changes_nothing(self, rule):
        once = rule.apply(*scattered(7), LOWER, UPPER)
        twice = rule.apply(*once, LOWER, UPPER)
        assert_array_equal(twice[0], once[0])
        assert_array_equal(twice[1], once[1])

    def test_inputs_are_left_alone(self, rule):
        x, v = scattered(7)
        before = x.copy(), v.copy()
        x.flags.writeable = v.flags.writeable = False
        rule.apply(x, v, LOWER, UPPER)
        assert_array_equal(x, before[0])
        assert_array_equal(v, before[1])

    def test_it_commutes_with_a_change_of_units(self, rule):
        x, v = scattered(3)
        for scale, shift in ((4.0, 0.0), (0.5, 2.0), (-1.0, 0.0)):  # a mirrored box has mirrored particles
            ends = np.sort([scale * LOWER + shift, scale * UPPER + shift], axis=0)
            moved = rule.apply(scale * x + shift, scale * v, *ends)
            kept = rule.apply(x, v, LOWER, UPPER)
            assert_allclose(moved[0], scale * kept[0] + shift, rtol=1e-12, atol=1e-11)
            assert_allclose(moved[1], scale * kept[1], rtol=1e-15)

    def test_its_images_are_free_points_that_end_at_the_point(self, rule):
        x, v = scattered(0, size=20)
        for sign, offset in rule.images(LOWER, UPPER, 4):
            after = rule.apply(sign * x + offset, sign * v, LOWER, UPPER)
            assert_allclose(after[0], x, rtol=1e-12)
            assert_array_equal(after[1], v)

    def test_its_images_are_complete(self, rule):
        x, v = scattered(3, size=500)
        inside, _ = rule.apply(x, v, LOWER, UPPER)
        images = np.array([sign * inside + offset for sign, offset in rule.images(LOWER, UPPER, 4)])
        nearest = np.abs(images - x).min(axis=0) / (UPPER - LOWER)
        on_an_atom = rule.has_atoms & ((inside == LOWER) | (inside == UPPER))
        assert nearest[~on_an_atom].max() < 1e-12


@pytest.mark.parametrize(
    ("rule", "x", "v", "x_after", "v_after"),
    [
        ("clip", 3.0, 2.0, 2.0, -0.2),  # into the wall: a tenth comes back
        ("clip", 3.0, -2.0, 2.0, -2.0),  # already on the way home: kept
        ("clip", -1.5, -4.0, -1.0, 0.4),
        ("clip", -1.5, 4.0, -1.0, 4.0),
        ("reflect", 2.5, 2.0, 1.5, -2.0),
        ("reflect", -1.25, -2.0, -0.75, 2.0),
        ("reflect", 5.5, 2.0, -0.5, 2.0),  # off the upper wall, then off the lower one
        ("reflect", -7.5, 2.0, -0.5, -2.0),  # three reflections
        ("reflect", 11.5, 2.0, -0.5, 2.0),  # four
        ("periodic", 2.5, 2.0, -0.5, 2.0),
        ("periodic", -1.25, -2.0, 1.75, -2.0),
        ("periodic", 8.75, 2.0, -0.25, 2.0),  # three times around
        ("none", 17.0, 2.0, 17.0, 2.0),
    ],
)
def test_a_rule_worked_by_hand_in_the_box_from_minus_one_to_two(rule, x, v, x_after, v_after):
    after = walls.WALLS[rule].apply(*map(np.asarray, (x, v, -1.0, 2.0)))
    assert_allclose(after, (x_after, v_after), rtol=1e-15)


def test_clipping_never_sends_a_velocity_into_the_wall():
    x, v = scattered(3)
    after, left = walls.clip.apply(x, v, LOWER, UPPER)
    assert (left[(after == LOWER) & (x < LOWER)] > 0).all()
    assert (left[(after == UPPER) & (x > UPPER)] < 0).all()


def test_reflection_is_bouncing_one_wall_at_a_time():
    def bounce(x, v):
        while not -1 <= x <= 2:
            x, v = (-2 - x if x < -1 else 4 - x), -v
        return x, v

    x, v = scattered(9, size=300)
    expected = np.array([bounce(*pair) for pair in zip(x[:, 0], v[:, 0], strict=True)]).T
    after = walls.reflect.apply(x[:, 0], v[:, 0], LOWER[0], UPPER[0])
    assert_allclose(after, expected, rtol=0, atol=1e-13)
