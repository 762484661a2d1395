"""Variables: numbers to coordinates and back, exactly where that is possible."""

import math

import numpy as np
import pytest

import paoswarm as ps
from paoswarm.core.walls import Axes, clip
from paoswarm.space.space import Fixed

VARIABLES = [
    ps.Real(-5, 5),
    ps.Real(1e-6, 1e3, log=True),
    ps.Integer(1, 8),
    ps.Integer(-3, -2),
    ps.Choice(["rbf", "matern"]),
    ps.Choice(["rbf", "matern", "periodic", None]),
    ps.Periodic(-1, 5),
    Fixed(3.0),
]


def numbers_of(variable, rng, m=200):
    """Random numbers that a variable can have, by their definition."""
    if isinstance(variable, ps.Integer):
        return rng.integers(variable.low, variable.high + 1, m).astype(float)
    if isinstance(variable, ps.Choice):
        return rng.integers(len(variable.entries), size=m).astype(float)
    if isinstance(variable, Fixed):
        return np.full(m, variable.fixed)
    return rng.uniform(variable.low, variable.high, m)


@pytest.mark.parametrize("variable", VARIABLES, ids=repr)
def test_decoding_undoes_encoding(variable):
    numbers = numbers_of(variable, np.random.default_rng(1))
    again = variable.decode(variable.encode(numbers))
    if getattr(variable, "log", False):
        np.testing.assert_allclose(again, numbers, rtol=1e-14)  # log and exp round
    else:
        np.testing.assert_array_equal(again, numbers)


@pytest.mark.parametrize("variable", VARIABLES, ids=repr)
def test_coordinates_of_numbers_lie_in_the_box_and_the_box_holds_nothing_else(variable):
    rng = np.random.default_rng(2)
    low, high = map(np.array, variable.box)
    z = variable.encode(numbers_of(variable, rng))
    assert ((z >= low) & (z <= high)).all()
    anywhere = rng.uniform(low, high, (500, len(low)))
    for number in np.concatenate([variable.decode(anywhere), variable.decode(np.stack([low, high]))]):
        assert variable.checked(float(number)) == number


def test_the_ends_of_a_logarithmic_range_are_exact():
    rate = ps.Real(1e-6, 1e3, log=True)
    assert rate.decode(rate.encode(np.array([1e-6, 1e3]))).tolist() == [1e-6, 1e3]


def test_whole_numbers_and_choices_are_equally_likely():
    """A uniform design gives every value the same share; false alarms below 1e-6 (five standard deviations)."""
    rng, m = np.random.default_rng(3), 60_000
    for variable, k in [(ps.Integer(1, 8), 8), (ps.Choice("abc"[i] for i in range(3)), 3), (ps.Choice([0, 1]), 2)]:
        low, high = map(np.array, variable.box)
        numbers = variable.decode(rng.uniform(low, high, (m, len(low))))
        _, counts = np.unique(numbers, return_counts=True)
        assert len(counts) == k
        assert np.abs(counts - m / k).max() < 5 * math.sqrt(m / k)


def test_permuted_entries_are_permuted_coordinates():
    entries, turned = ["a", "b", "c", "d"], ["c", "a", "d", "b"]
    z = np.random.default_rng(4).uniform(size=(100, 4))
    order = [entries.index(entry) for entry in turned]
    first = ps.Choice(entries).values(ps.Choice(entries).decode(z))
    second = ps.Choice(turned).values(ps.Choice(turned).decode(z[:, order]))
    assert (first == second).all()


def test_chance_of_an_entry_under_a_round_gaussian_step_from_a_corner():
    """The chance of each other entry is the normal integral of docs/spaces.md; five standard errors."""
    from scipy.integrate import quad
    from scipy.stats import norm

    k, s, m = 4, 0.6, 200_000
    kept, _ = quad(lambda t: norm.pdf(t) * norm.cdf(t + 1 / s) ** (k - 1), -8, 8)
    z = np.eye(k)[0] + s * np.random.default_rng(5).standard_normal((m, k))
    shares = np.bincount(ps.Choice("abcd"[i] for i in range(k)).decode(z).astype(int), minlength=k) / m
    expected = np.array([kept, *[(1 - kept) / (k - 1)] * (k - 1)])
    assert (np.abs(shares - expected) < 5 * np.sqrt(expected / m)).all()


def test_snapping_is_exact_and_done_once():
    axes = Axes(np.array([False] * 5), np.array([True, False, False, False, False]), ((1, 4),))
    low, high = np.array([0.5, 0, 0, 0, -1]), np.array([4.5, 1, 1, 1, 1])
    x = np.array([[2.49, 0.2, 0.9, 0.3, 0.123], [4.5, 0.7, 0.1, 0.7, -1.0], [0.5, 0.0, 0.0, 0.0, 1.0]])
    snapped = axes.snapped(x, low, high)
    assert snapped.tolist() == [[2, 0, 1, 0, 0.123], [4, 1, 0, 0, -1.0], [1, 1, 0, 0, 1.0]]
    np.testing.assert_array_equal(axes.snapped(snapped, low, high), snapped)
    assert axes.is_continuous.tolist() == [False, False, False, False, True]


def test_a_round_coordinate_has_no_wall_and_the_others_keep_theirs():
    axes = Axes(np.array([True, False]), np.array([False, False]))
    low, high = np.zeros((3, 2)), np.full((3, 2), 8.0)
    x, v = np.array([[9.0, 9.0], [-1.0, -1.0], [4.0, 4.0]]), np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0]])
    position, velocity = axes.wall(clip).apply(x, v, low, high)
    assert position.tolist() == [[1, 8], [7, 0], [4, 4]]
    assert velocity.tolist() == [[1, -0.1], [-1, 0.1], [1, 1]]
    near = axes.wall(clip).unroll(np.array([[7.5, 7.5]]), np.array([[0.5, 0.5]]), low[:1], high[:1])
    assert near.tolist() == [[-0.5, 7.5]]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ps.Real(3, 1), "reversed"),
        (lambda: ps.Real(3, 3), "write 3 to fix it"),
        (lambda: ps.Real(0, np.inf), "finite ends"),
        (lambda: ps.Real("a", 1), "finite ends"),
        (lambda: ps.Real(0, 1, log=True), "above zero"),
        (lambda: ps.Real(-1, 1, log=True), "above zero"),
        (lambda: ps.Real(0, 1, log=1), "log must be True or False"),
        (lambda: ps.Integer(0.2, 0.8), "no whole number"),
        (lambda: ps.Integer(0.5, 1.5), "only one whole number: write 1"),
        (lambda: ps.Integer(5, 2), "reversed"),
        (lambda: ps.Integer(0, 2**60), r"2\*\*50"),
        (lambda: ps.Choice(["one"]), "fewer than two entries"),
        (lambda: ps.Choice([1, 1.0]), "given twice"),
        (lambda: ps.Choice([[1], [2]]), "cannot be hashed"),
        (lambda: ps.Choice("rbf"), "list of entries"),
        (lambda: ps.Choice({"a", "b"}), "a set has no order"),
        (lambda: ps.Choice("a", "b"), "write ps.Choice.*one list of entries"),
        (lambda: ps.Real(0, 1, name=5), "'name'; names are the keys"),
        (lambda: ps.Real(0, 1, prior="log-uniform"), "'prior'; for a logarithmic range give log=True"),
        (lambda: ps.Real((0, 1)), r"write ps.Real\(low, high\): missing.*'high'"),
        (lambda: ps.Integer(5), r"write ps.Integer\(low, high\): missing.*'high'"),
        (lambda: ps.Periodic(1, 1), "both ends are equal"),
        (lambda: ps.Periodic(-1e200, 1e200), "too wide"),
    ],
)
def test_bad_variables_are_refused_in_a_sentence(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()
