import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from objectives import Recording, assert_same_run, sphere
from scipy.optimize import Bounds

import paoswarm as ps

BOX = [(-4, 5), (-6, 3), (0, 1)]
inf, nan = np.inf, np.nan


def assert_refused(error, text, bounds=BOX, solve=ps.minimize, **arguments):
    """The call raises, says why, and has not evaluated anything."""
    fun = Recording(sphere)
    with pytest.raises(error, match=text):
        solve(fun, bounds, **arguments)
    assert fun.calls == 0


@pytest.mark.parametrize("solve", [ps.minimize, ps.minimize_many])
@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ([(0, 1), (3, 2)], r"bounds\[1\] is \(3.0, 2.0\).*reversed"),
        ([(0, 1), (2, 2)], r"bounds\[1\] is \(2.0, 2.0\).*both ends are equal"),
        ([(0, inf)], r"bounds\[0\] is \(0.0, inf\).*finite"),
        ([(-inf, inf)], r"bounds\[0\] is \(-inf, inf\).*finite"),
        ([(0, 1), (0, nan)], r"bounds\[1\] is \(0.0, nan\).*NaN"),
        ([(0, 1), (-1e150, 1e150)], r"bounds\[1\] is .*: too wide"),
        ((-5, 5), r"for one unknown write"),
        (([-5, -5], [5, 5]), r"scipy.optimize.Bounds\(low, high\)"),
        ([[0, 0, 0], [1, 1, 1]], r"shape \(2, 3\).*two arrays"),
        (np.zeros((4, 3)), r"\(low, high\) pairs.*got an array of shape \(4, 3\)"),
        ([], r"got an array of shape \(0,\)"),
        (np.empty((0, 2)), r"got an array of shape \(0, 2\)"),
        ((0, 1), r"got an array of shape \(2,\)"),
        (5.0, r"got an array of shape \(\)"),
        (None, "numbers; got None"),
        ("box", "pairs.*got 'box'"),
        ([(0, 1), (0, 1, 2)], r"pairs.*got \[\(0, 1\), \(0, 1, 2\)\]"),
        (Bounds(0, inf), "finite"),
        (Bounds([0, 3], [1, 2]), "reversed"),
    ],
)
def test_a_box_that_is_none_is_refused_with_its_reason(bounds, text, solve):
    assert_refused(ValueError, text, bounds, solve)


@pytest.mark.parametrize("solve", [ps.minimize, ps.minimize_many])
@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ([(None, 1)], r"bounds\[0\] is \(None, 1\); both ends must be finite numbers"),
        ([(0, 1), ("0", "5")], r"bounds\[1\] is .*for a range write a pair"),
        ([("a", "b")], r"bounds\[0\] is .*ps.Choice\(\['a', 'b'\]\)"),
    ],
)
def test_a_pair_that_is_none_is_refused_by_its_place(bounds, text, solve):
    assert_refused(TypeError, text, bounds, solve)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 4), max_size=3).filter(lambda s: len(s) != 2 or s[1] != 2 or s[0] == 0))
def test_bounds_of_any_wrong_shape_are_refused(shape):
    assert_refused(ValueError, "bounds must be a sequence of", np.ones(shape))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(arrays(float, (3, 2), elements=st.one_of(st.floats(-1e300, 1e300), st.sampled_from([inf, -inf, nan]))))
def test_any_pairs_are_either_a_box_or_refused(pairs):
    if np.isfinite(pairs).all() and np.all((pairs[:, 0] < pairs[:, 1]) & (pairs[:, 1] - pairs[:, 0] <= 1e150)):
        assert ps.Optimizer(pairs, method=ps.PAO(), n_particles=2, rng=1).ask().shape == (2, 3)
    else:
        assert_refused(ValueError, r"bounds\[\d\] is \(", pairs)


@pytest.mark.parametrize(
    "bounds",
    [np.array(BOX), tuple(map(list, BOX)), Bounds([-4, -6, 0], [5, 3, 1]), [*BOX[:2], (np.float32(0), np.int8(1))]],
)
def test_every_way_to_write_a_box_means_the_same(bounds):
    assert_same_run(
        ps.minimize(sphere, bounds, method=ps.PAO(), maxiter=5, rng=1),
        ps.minimize(sphere, BOX, method=ps.PAO(), maxiter=5, rng=1),
    )


NOT_WHOLE = st.one_of(
    st.floats().filter(lambda number: not number.is_integer()),
    st.text(max_size=3),
    st.booleans(),
    st.complex_numbers(max_magnitude=10),
    st.lists(st.integers(), max_size=2),
)
LEAST = {"maxiter": 0, "maxfev": 1, "n_particles": 2}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(name=st.sampled_from(sorted(LEAST)), given=NOT_WHOLE, below=st.one_of(st.none(), st.integers(1, 10**6)))
def test_counts_that_are_not_whole_or_too_small_are_refused(name, given, below):
    given = given if below is None else LEAST[name] - below
    assert_refused(ValueError, f"{name} must be .*{LEAST[name]}, got ", **{name: given})


@pytest.mark.parametrize("name", ["vectorized", "progress", "polish"])
@pytest.mark.parametrize("given", ["no", 1, None])
def test_a_switch_is_true_or_false(name, given):
    assert_refused(TypeError, f"{name} must be True or False", **{name: given})


def test_a_batch_has_the_same_switches():
    for name in ("vectorized", "progress"):
        assert_refused(TypeError, f"{name} must be True or False, got 'no'", solve=ps.minimize_many, **{name: "no"})
    with pytest.raises(TypeError, match="vectorized must be True or False, got 'no'"):
        ps.sample(sphere, BOX, vectorized="no")


@pytest.mark.parametrize("runs", [0, -1, 2.5, "3", None, True])
def test_the_number_of_runs_must_be_whole_and_positive(runs):
    assert_refused(ValueError, "runs must be .*1, got ", solve=ps.minimize_many, runs=runs)


@pytest.mark.parametrize("runs", [1_000_001, 10**30])
def test_more_runs_than_memory_can_hold_are_refused(runs):
    assert_refused(ValueError, "runs must be at most 1000000, got ", solve=ps.minimize_many, runs=runs)


@pytest.mark.parametrize("rng", ["", "12", b"", b"12"])
def test_text_is_no_list_of_seeds(rng):
    with pytest.raises(TypeError, match="rng must be an int"):
        ps.Optimizer(BOX, method=ps.PAO(), rng=rng)


@pytest.mark.parametrize("rng", [[], (), range(0)])
def test_a_batch_needs_seeds(rng):
    with pytest.raises(ValueError, match="rng is an empty list"):
        ps.Optimizer(BOX, method=ps.PAO(), rng=rng)
    for solve in (ps.minimize, ps.minimize_many, ps.sample):
        with pytest.raises(TypeError, match="rng must be an int"):
            solve(sphere, BOX, rng=rng)


def test_bounds_and_points_may_be_whole_numbers_of_any_size():
    assert ps.minimize(sphere, [(0, 2**70)] * 2, method=ps.PAO(), n_particles=4, maxiter=1, rng=1).nfev == 8
    assert_refused(ValueError, "x0 must be numbers", x0=[10**400, 0, 0])
    assert_refused(ValueError, "the values of x0 must be 1 real", x0=([0, 0, 0], 10**400))
    with pytest.raises(ValueError, match="bounds must be"):
        ps.minimize(sphere, [(0, 10**400)] * 2, method=ps.PAO())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"tol": -1e-9}, "tol .* -1e-09"),
        ({"tol": nan}, "tol .* nan"),
        ({"tol": "small"}, "tol .* 'small'"),
        ({"tol": None}, "tol .* None"),
        ({"target": nan}, "target .* nan"),
        ({"target": "low"}, "target .* 'low'"),
        ({"target": [0.0]}, r"target .* \[0.0\]"),
        ({"time_limit": 0}, "time_limit .* got 0"),
        ({"time_limit": -1.0}, "time_limit .* -1.0"),
        ({"reevaluate": -0.1}, "reevaluate .* -0.1"),
        ({"reevaluate": 1.5}, "reevaluate .* got 1.5"),
        ({"reevaluate": True}, "reevaluate .* True"),
        ({"init": "latinhyperube"}, "got 'latinhyperube'; did you mean latinhypercube"),
        ({"init": "Sobel"}, "got 'Sobel'; did you mean sobol"),
        ({"init": "grid"}, "init .* got 'grid'; choose from latinhypercube, sobol"),
        ({"init": np.zeros((5, 2))}, r"init must have shape .* got \(5, 2\)"),
        ({"init": np.full((5, 3), 9.0)}, "init must lie inside the bounds"),
        ({"init": [[0, 0, 0.5]]}, "points in init .* got 1"),
        ({"init": None}, "init must have shape"),
        ({"init": 7}, "init must have shape"),
        ({"init": np.zeros((4, 3)), "x0": [0, 0, 0]}, "x0 or as init"),
        ({"x0": [0.0, 0.0]}, r"x0 must have shape .* got \(2,\)"),
        ({"x0": 1.0}, "x0 must have shape"),
        ({"x0": np.zeros((2, 2, 3))}, r"x0 must have shape \(3,\).*got \(2, 2, 3\)"),
        ({"x0": np.zeros((0, 3))}, r"x0 must have shape"),
        ({"x0": "start"}, "x0 must be numbers .* 'start'"),
        ({"x0": [0, 0, 1.5]}, r"element 2 of point 0 is 1.5, bounds \(0.0, 1.0\)"),
        ({"x0": [[0, 0, 0], [0, -7, 0]]}, r"element 1 of point 1 is -7.0, bounds \(-6.0, 3.0\)"),
        ({"x0": [0, nan, 0]}, "element 1 of point 0 is nan"),
        ({"x0": np.zeros((7, 3)), "n_particles": 6}, "x0 has 7 points .*n_particles=6"),
        ({"x0": ([[0, 0, 0]], [1.0, 2.0])}, r"values of x0 .* 1 points, got shape \(2,\)"),
        ({"x0": ([0, 0, 0], "good")}, "values of x0 .* got"),
    ],
)
@pytest.mark.parametrize("solve", [ps.minimize, ps.minimize_many])
def test_a_wrong_argument_is_named_with_its_value_and_its_rule(arguments, text, solve):
    assert_refused(ValueError, text, solve=solve, **arguments)


@pytest.mark.parametrize("solve", [ps.minimize, ps.minimize_many])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"method": 3}, "method must be .* got 3"),
        ({"method": ps.PAO}, "method must be a paoswarm method"),
        ({"rng": "seed"}, "rng must be .*, got str"),
        ({"rng": 1.5}, "rng must be .*, got float"),
        ({"rng": np.random}, "rng must be .*, got module"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_refused(arguments, text, solve):
    assert_refused(TypeError, text, solve=solve, **arguments)


@pytest.mark.parametrize("fun", [None, 3.0, "sphere", [sphere]])
def test_an_objective_must_be_callable(fun):
    for solve in (ps.minimize, ps.minimize_many):
        with pytest.raises(TypeError, match="fun must be callable, got "):
            solve(fun, BOX)


def test_options_are_keywords_and_misspelt_ones_are_refused():
    assert_refused(TypeError, "max_iter", max_iter=3)
    with pytest.raises(TypeError):
        ps.minimize(sphere, BOX, ps.PAO(), method=ps.PAO())
