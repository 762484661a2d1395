"""``lmfit.Parameters`` as a space: functions written for lmfit work unchanged, and lmfit agrees with what is found."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import LinearConstraint

import paoswarm as ps

lmfit = pytest.importorskip("lmfit", reason="lmfit is not installed")

TIME = np.linspace(0, 10, 40)
TRUTH = {"amplitude": 5.0, "decay": 4.0, "omega": 3.3}


def model(amplitude, decay, omega, offset):
    return amplitude * np.exp(-TIME / decay) * np.sin(omega * TIME) + offset


DATA = model(**TRUTH, offset=1.0) + np.random.default_rng(0).normal(0, 0.1, len(TIME))


def residual(params, data=DATA):
    values = params.valuesdict()
    return model(*(values[name] for name in ("amplitude", "decay", "omega", "offset"))) - data


def squares(p):
    return float(((model(p["amplitude"], p["decay"], p["omega"], p["offset"]) - DATA) ** 2).sum())


def chi_square(params, data=DATA):
    return float((residual(params, data) ** 2).sum())


def parameters(**more):
    params = lmfit.Parameters()
    params.add("amplitude", 2.0, min=0.1, max=10)
    params.add("decay", 6.0, min=0.1, max=50)
    params.add("omega", 2.0, min=0.1, max=9)
    params.add("offset", 1.0, vary=False)
    params.add("ratio", expr="amplitude / decay")
    params.add("twice", expr="2 * ratio")
    for name, settings in more.items():
        params.add(name, **settings)
    return params


SPACE = {"amplitude": (0.1, 10), "decay": (0.1, 50), "omega": (0.1, 9), "offset": 1.0}
GUESS = {"amplitude": 2.0, "decay": 6.0, "omega": 2.0}


@pytest.fixture(scope="module")
def result():
    return ps.minimize(chi_square, parameters(), maxfev=1200, polish=True, rng=1)


def test_the_run_is_that_of_the_same_space_by_name_from_the_parameters_values(result):
    by_name = ps.minimize(squares, SPACE, x0=GUESS, maxfev=1200, polish=True, rng=1)
    assert_array_equal(result.x, by_name.x)
    assert result.nfev == by_name.nfev
    for mine, theirs in zip(result.evaluations.points, by_name.evaluations.points, strict=True):
        assert_allclose(mine, theirs, rtol=1e-12)


def test_lmfit_finds_nothing_better_from_there_and_has_the_same_errors(result):
    assert isinstance(result.best, lmfit.Parameters)
    fit = lmfit.minimize(residual, result.best)
    assert result.fun == pytest.approx(fit.chisqr, rel=1e-9)
    sure = ps.fit(residual, result.best, rng=1)
    for name, one in sure.parameters.items():
        assert one.value == pytest.approx(fit.params[name].value, rel=1e-4)
        if one.expr or one.vary:
            assert one.stderr == pytest.approx(fit.params[name].stderr, rel=1e-3)
    assert sure.parameters["omega"].correl["decay"] == pytest.approx(fit.params["omega"].correl["decay"], abs=2e-3)
    assert "ratio" in lmfit.fit_report(sure.parameters)


def test_expressions_follow_in_every_call_and_in_the_result():
    seen = []

    def fun(params):
        assert isinstance(params, lmfit.Parameters)
        seen.append((params["twice"].value, 2 * params["amplitude"].value / params["decay"].value))
        return chi_square(params)

    found = ps.minimize(fun, parameters(), maxfev=60, rng=1)
    mine, exact = np.array(seen).T
    assert_allclose(mine, exact, rtol=1e-15)
    assert found.best["ratio"].value == found.best["amplitude"].value / found.best["decay"].value
    assert "'twice'" in str(found)
    assert "twice" in found._repr_html_()


def test_what_was_given_does_not_change_and_results_do_not_share(result):
    given = parameters()
    before = given.dumps()
    one, other = (ps.minimize(chi_square, given, maxfev=40, rng=seed) for seed in (1, 2))
    assert given.dumps() == before
    kept = one.best.dumps()
    other.best["omega"].value = 1.0
    residual(other.space.given(other.x))
    assert one.best.dumps() == kept


@pytest.mark.parametrize("answer", [squares, lambda p: np.float64(squares(p)), lambda p: np.array([squares(p)])])
def test_a_function_that_returns_one_number_is_minimised_as_it_is(answer):
    def fun(params):
        return answer(params.valuesdict())

    plain = ps.minimize(chi_square, parameters(), maxfev=60, rng=1)
    assert ps.minimize(fun, parameters(), maxfev=60, rng=1).fun == pytest.approx(plain.fun, rel=1e-12)


@pytest.mark.parametrize("shape", [np.asarray, np.ndarray.tolist, lambda r: r * 1j, lambda r: r[:, None]])
def test_a_residual_function_is_refused_and_told_what_to_write(shape):
    with pytest.raises(TypeError, match=r"write ps\.fit\(fun, bounds\)"):
        ps.minimize(lambda params: shape(residual(params)), parameters(), maxfev=40, rng=1)
    with pytest.raises(TypeError, match=r"write ps\.fit\(fun, bounds\)"):
        ps.minimize_many(lambda params: shape(residual(params)), parameters(), runs=2, maxfev=40, rng=1)


@pytest.fixture(scope="module")
def fit():
    return ps.fit(residual, parameters(), args=(DATA,), rng=1)


def test_a_fit_takes_the_function_as_it_is_and_agrees_with_lmfit(fit):
    theirs = lmfit.minimize(residual, fit.best, args=(DATA,))
    assert fit.fun == pytest.approx(theirs.chisqr, rel=1e-6)
    assert fit.degrees_of_freedom == theirs.nfree
    for name, one in fit.parameters.items():
        assert one.value == pytest.approx(theirs.params[name].value, rel=1e-4)
        if one.expr or one.vary:
            assert one.stderr == pytest.approx(theirs.params[name].stderr, rel=1e-3)
    assert fit.parameters["omega"].correl["decay"] == pytest.approx(theirs.params["omega"].correl["decay"], abs=2e-3)
    assert "ratio" in lmfit.fit_report(fit.parameters)


def test_complex_residuals_and_lists_count_as_in_lmfit(fit):
    def turned(params):
        return residual(params) * (0.6 + 0.8j)

    found = ps.fit(turned, parameters(), rng=1)
    assert found.fun == pytest.approx(fit.fun, rel=1e-9)
    theirs = lmfit.minimize(turned, found.best)
    assert (theirs.ndata, theirs.chisqr) == (found.uncertainty.n_data, pytest.approx(found.fun, rel=1e-6))
    assert found.parameters["omega"].stderr == pytest.approx(theirs.params["omega"].stderr, rel=1e-3)
    listed = ps.fit(lambda params: residual(params).tolist(), parameters(), rng=1)
    assert_array_equal(listed.x, fit.x)


def test_a_fit_of_predictions_has_parameters_too(fit):
    def predictions(params):
        return residual(params, 0.0)

    found = ps.fit(predictions, parameters(), DATA, rng=1)
    assert_allclose(found.x, fit.x, rtol=1e-6)
    assert found.parameters["twice"].stderr == pytest.approx(fit.parameters["twice"].stderr, rel=1e-4)
    assert ps.fit(lambda p: p["a"] * TIME, {"a": (0, 2)}, TIME + 0.1 * DATA, rng=1).parameters is None


def test_threads_do_not_see_each_others_values():
    def fun(params, data):
        values = [params[name].value for name in TRUTH]
        for _ in range(20):
            chi_square(params, data)
        assert values == [params[name].value for name in TRUTH]
        return chi_square(params, data)

    alone = ps.minimize(chi_square, parameters(), args=(DATA,), method=ps.AdaptivePAO(parallel=4), maxfev=80, rng=1)
    with ThreadPoolExecutor(4) as pool:
        threaded = ps.minimize(
            fun, parameters(), args=(DATA,), method=ps.AdaptivePAO(parallel=4), maxfev=80, rng=1, workers=pool
        )
    assert threaded.n_failed == 0
    assert_array_equal(threaded.x, alone.x)


def test_spaces_travel_between_processes():
    space = ps.minimize(chi_square, parameters(), maxfev=20, rng=1).space
    again = pickle.loads(pickle.dumps(space))
    row = np.array([3.0, 2.0, 1.0, 1.0])
    assert again == space
    assert hash(again) == hash(space)
    assert again.given(row).valuesdict() == space.given(row).valuesdict()


def test_starting_points_may_be_parameters_too():
    seen = []

    def fun(params):
        seen.append(params["omega"].value)
        return chi_square(params)

    start = parameters()
    start["omega"].value = 7.125
    ps.minimize(fun, parameters(), x0=start, maxfev=30, rng=1)
    ps.minimize(fun, parameters(), x0=[start, start], maxfev=30, rng=1)
    assert 7.125 in seen
    assert 2.0 not in seen  # x0 takes the place of the values


def test_parameters_without_a_value_bring_no_starting_point():
    params = lmfit.Parameters()
    params.add("a", min=-1, max=2)
    found = ps.minimize(lambda p: p["a"].value ** 2, params, maxfev=30, rng=1)  # lmfit puts it on its lower bound
    assert_array_equal(found.x, ps.minimize(lambda p: p["a"] ** 2, {"a": (-1, 2)}, maxfev=30, rng=1).x)


def test_constraints_get_parameters():
    def slow(params):
        return params["ratio"].value - 1.0

    found = ps.minimize(chi_square, parameters(), constraints=slow, maxfev=300, rng=1)
    assert found.feasible
    assert found.best["ratio"].value <= 1.0
    with pytest.raises(ValueError, match="ratio is an expression"):
        ps.minimize(chi_square, parameters(), constraints=LinearConstraint(np.eye(4), -1, 1))


def test_the_optimizer_asks_for_parameters():
    optimizer = ps.Optimizer(parameters(), rng=1)
    for _ in range(3):
        asked = optimizer.ask()
        assert all(isinstance(one, lmfit.Parameters) for one in asked)
        optimizer.tell([squares(one.valuesdict()) for one in asked])
    assert isinstance(optimizer.result.best, lmfit.Parameters)
    many = ps.minimize_many(chi_square, parameters(), runs=2, maxfev=40, rng=1)
    assert isinstance(many.run(1).best, lmfit.Parameters)


def test_a_store_repeats_the_run_and_notices_another_expression(tmp_path):
    file = tmp_path / "run.paoswarm"
    first = ps.minimize(chi_square, parameters(), maxfev=60, rng=1, store=file)
    calls = []
    again = ps.minimize(chi_square, parameters(), maxfev=60, rng=1, store=file, callback=calls.append)
    assert_array_equal(first.x, again.x)
    assert not calls
    longer = ps.resume(file, chi_square, bounds=parameters(), maxfev=90)
    assert longer.nfev == 90
    assert list(ps.Store(file).to_dataframe())[:4] == list(SPACE)
    with pytest.warns(RuntimeWarning, match="has changed"):
        ps.minimize(chi_square, parameters(ratio={"expr": "decay / amplitude"}), maxfev=60, rng=1, store=file)


def test_they_are_uniform_priors_and_the_likelihood_gets_parameters():
    def log_likelihood(params):
        assert params["twice"].value == 2 * params["ratio"].value
        return -0.5 * float((residual(params) ** 2).sum()) / 0.01

    known = {"decay": 4.0, "omega": 3.3}
    params = parameters(**{name: {"value": value, "vary": False} for name, value in known.items()})
    settings = {"n_effective": 100, "n_particles": 100, "maxfev": 900, "rng": 1}
    posterior = ps.sample(log_likelihood, params, **settings)
    assert posterior.names == ["amplitude"]
    by_name = ps.sample(lambda p: -0.5 * squares(p) / 0.01, SPACE | known, **settings)
    assert_allclose(posterior.mean(), by_name.mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"gain": {"value": 1.0, "min": 0}}, r"'gain' has the bounds \(0, inf\): both must be finite"),
        ({"gain": {"value": np.inf, "vary": False}}, "'gain' is fixed at inf"),
    ],
)
def test_parameters_that_cannot_be_searched_are_refused(more, text):
    with pytest.raises(ValueError, match=text):
        ps.minimize(chi_square, parameters(**more))


def test_other_input_that_cannot_work_is_refused():
    with pytest.raises(ValueError, match="empty"):
        ps.minimize(chi_square, lmfit.Parameters())
    with pytest.raises(ValueError, match="one point: leave out vectorized"):
        ps.minimize(chi_square, parameters(), vectorized=True)
    with pytest.raises(TypeError, match="give the result of minimize"):
        ps.uncertainty(parameters(), sum_of_squares=chi_square, n_data=20)
