"""``scipy.optimize.minimize`` with our method is `paoswarm.minimize`, whatever SciPy passes on."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.optimize
from scipy.optimize import Bounds, LinearConstraint, NonlinearConstraint

import paoswarm as ps

BOX = [(-1.0, 2.0), (-3.0, 1.0)]
START = [0.5, -0.5]


def bowl(x, shift=0.3):
    return float(((np.asarray(x) - shift) ** 2).sum())


def with_gradient(x):
    return bowl(x), 2 * (np.asarray(x) - 0.3)


def through_scipy(fun=bowl, x0=START, bounds=BOX, settings=None, **more):
    search = ps.scipy_method(**({"maxfev": 80, "rng": 1} if settings is None else settings))
    return scipy.optimize.minimize(fun, x0, method=search, bounds=bounds, **more)


def assert_same_run(one, other):
    assert type(one) is ps.results.Result
    np.testing.assert_array_equal(one.x, other.x)
    assert (one.fun, one.nfev, one.nit, one.message) == (other.fun, other.nfev, other.nit, other.message)
    for mine, theirs in zip(one.evaluations.points, other.evaluations.points, strict=True):
        np.testing.assert_array_equal(mine, theirs)


DISC = NonlinearConstraint(lambda x: x[0] ** 2 + x[1] ** 2, -np.inf, 0.05)
LINE = LinearConstraint([[1.0, 1.0]], -np.inf, 0.1)
OLD = {"type": "ineq", "fun": lambda x, most: most - x[0], "args": (0.1,)}


@pytest.mark.parametrize("constraints", [(), DISC, LINE, OLD, [OLD, LINE], ({"type": "eq", "fun": lambda x: x[0]},)])
def test_the_run_is_that_of_minimize_to_the_last_bit(constraints):
    found = through_scipy(constraints=constraints)
    assert_same_run(found, ps.minimize(bowl, BOX, x0=START, maxfev=80, rng=1, constraints=constraints))
    if constraints:
        assert found.feasible


@pytest.mark.parametrize("bounds", [Bounds([-1, -3], [2, 1]), np.array(BOX), tuple(BOX), zip((-1, -3), (2, 1))])  # noqa: B905
def test_every_form_of_the_bounds_is_the_same_run(bounds):
    assert_same_run(through_scipy(bounds=bounds), through_scipy())


def test_arguments_options_and_tol_arrive():
    found = through_scipy(args=(0.7,), options={"maxfev": 90, "method": "PAO", "n_particles": 10})
    assert_same_run(
        found, ps.minimize(bowl, BOX, args=(0.7,), x0=START, maxfev=90, method="PAO", n_particles=10, rng=1)
    )
    loose = through_scipy(settings={"method": "PAO", "n_particles": 10, "rng": 1}, tol=1e-2)
    assert "tol=0.01" in loose.message


def test_the_first_point_is_evaluated():
    seen = []
    through_scipy(lambda x: seen.append(x.tolist()) or bowl(x))
    assert START in seen


def test_a_point_outside_is_moved_to_the_bounds():
    seen = []
    through_scipy(lambda x: seen.append(x.tolist()) or bowl(x), x0=[-9.0, 0.25])
    assert [-1.0, 0.25] in seen


def test_equal_ends_fix_an_unknown():
    found = through_scipy(x0=[0.0, 0.0, 0.0], bounds=[(-1, 1), (0.5, 0.5), (0, 1)])
    assert (found.evaluations.points[0][:, 1] == 0.5).all()
    assert found.x == pytest.approx([0.3, 0.5, 0.3], abs=1e-4)


def test_variables_of_ours_work_as_bounds():
    found = through_scipy(lambda x: x[0] ** 2 + (x[1] - 2.8) ** 2, x0=[0, 2], bounds=[(-1, 1), ps.Integer(1, 8)])
    assert found.x[1] == 3


def test_both_kinds_of_callback_are_called_and_may_stop_the_run():
    points = []
    through_scipy(callback=lambda x: points.append(x))
    assert points[-1].shape == (2,)

    def stop(intermediate_result):
        if intermediate_result.nfev > 30:
            raise StopIteration

    found = through_scipy(callback=stop)
    assert found.status is ps.results.Status.CALLBACK
    assert found.nfev < 60


@pytest.mark.parametrize("more", [{"jac": lambda x: x}, {"hess": lambda x: x}, {"hessp": lambda x, p: p}])
def test_derivatives_are_not_used_and_a_warning_points_at_the_users_line(more):
    with pytest.warns(RuntimeWarning, match=f"no derivatives .{next(iter(more))}") as caught:
        scipy.optimize.minimize(bowl, START, method=ps.scipy_method(maxfev=80, rng=1), bounds=BOX, **more)
    assert caught[0].filename == __file__


def test_a_gradient_returned_with_the_value_is_dropped():
    with pytest.warns(RuntimeWarning, match="no derivatives"):
        found = through_scipy(with_gradient, jac=True)
    assert_same_run(found, through_scipy())


def test_without_derivatives_nothing_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = through_scipy(jac="2-point")  # SciPy drops it for methods of others
    assert_same_run(found, through_scipy())


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"bounds": None}, "give bounds="),
        ({"bounds": [(0, None), (0, 1)]}, "must be finite"),
        ({"options": {"disp": True}}, "use progress="),
        ({"options": {"maxfun": 100}}, "use maxfev="),
        ({"x0": [0, 0, 0]}, "x0 must have shape"),
        ({"callback": lambda x, state: None}, "callback must take one argument"),
    ],
)
def test_what_cannot_work_is_said_before_the_first_evaluation(given, text):
    def never(x):
        raise AssertionError

    with pytest.raises((TypeError, ValueError), match=text):
        through_scipy(never, **given)


def test_settings_are_checked_at_once():
    with pytest.raises(TypeError, match=r"'seed': use rng="):
        ps.scipy_method(seed=1)
    with pytest.raises(TypeError, match="'x0': give it to scipy"):
        ps.scipy_method(x0=START)


def test_forgotten_parentheses_are_named():
    with pytest.raises(TypeError, match=r"write method=ps\.scipy_method\(\), with parentheses"):
        scipy.optimize.minimize(bowl, START, method=ps.scipy_method, bounds=BOX)


def test_it_can_be_pickled_printed_and_used_twice():
    search = pickle.loads(pickle.dumps(ps.scipy_method(maxfev=60, rng=1)))
    assert repr(search) == "scipy_method(maxfev=60, rng=1)"
    runs = [scipy.optimize.minimize(bowl, START, method=search, bounds=BOX) for _ in range(2)]
    assert_same_run(*runs)


def test_it_is_a_local_search_of_basinhopping():
    local = {"method": ps.scipy_method(maxfev=60, rng=1), "bounds": BOX}
    found = scipy.optimize.basinhopping(bowl, START, niter=2, minimizer_kwargs=local, rng=1)  # steps leave the bounds
    assert found.nfev == 3 * 60
    assert found.fun < 1e-6
