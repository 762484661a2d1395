"""Results as tables of pandas and datasets of xarray: every number in its place, by name."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import paoswarm as ps

xarray = pytest.importorskip("xarray", reason="xarray is not installed")

SPACE = {
    "rate": ps.Real(1e-3, 1e3, log=True),
    "order": ps.Integer(1, 8),
    "kernel": ps.Choice(["a", "b", "c"]),
    "c": 2.0,
}
DATA = np.array([1.2, 0.8, 1.9, 1.4])


def cost(p):
    return np.log10(p["rate"]) ** 2 + (p["order"] - 3) ** 2 + (p["kernel"] != "b")


def test_a_result_is_a_dataset_of_its_evaluations(tmp_path):
    result = ps.minimize(cost, SPACE, maxfev=80, rng=1)
    data, frame = result.to_xarray(), result.to_dataframe()
    assert dict(data.sizes) == {"evaluation": 80}
    for name in frame:
        assert data[name].values.tolist() == frame[name].tolist()
    best = data.isel(evaluation=int(data["value"].argmin("evaluation")))
    assert {name: best[name].item() for name in SPACE} == result.best
    assert data["kernel"].dtype.kind == "U"
    assert data.attrs["message"] == result.message
    assert float(data["value"].where(data["kernel"] == "b").min()) == result.fun


def test_failed_points_and_constraints_are_in_it():
    def fails(x):
        return np.nan if x[0] > 1 else float(x @ x)

    limit = ps.Constraint(lambda x: [x[0] + x[1], x[1]], ub=[1.0, 0.5], name="sums")
    result = ps.minimize(fails, [(-2, 2)] * 2, constraints=limit, maxfev=60, rng=1)
    data = result.to_xarray()
    assert list(data["constraint"].values) == ["sums, number 0", "sums, number 1"]
    called = np.isfinite(data["value"])
    exact = xarray.concat([data["x0"] + data["x1"], data["x1"]], dim="constraint").T
    assert_allclose(data["number"].values[called], exact.values[called])
    assert_array_equal(data["violation"] > 0, (data["number"] > [1.0, 0.5]).any("constraint"))
    assert_array_equal(data["failed"], np.isnan(data["value"]))


def test_many_runs_have_a_row_each_and_their_histories():
    many = ps.minimize_many(cost, SPACE, runs=3, maxfev=60, rng=1)
    frame, data = many.to_dataframe(), many.to_xarray()
    assert frame.index.name == "run"
    for r, row in frame.iterrows():
        assert {name: row[name] for name in SPACE} == many.run(r).best
        assert row["fun"] == many.fun[r]
    assert dict(data.sizes) == {"run": 3, "generation": many.history.shape[1]}
    assert_array_equal(data["history"].min("generation"), data["fun"])
    assert_array_equal(data["rate"], frame["rate"])


def test_standard_errors_are_a_table_and_covariances_are_found_by_name():
    fit = ps.uncertainty(
        [1.0, 2.0], negative_log_likelihood=lambda x: x @ x + x[0] * x[1], names=["a", "b"], profile=0.9
    )
    frame, data = fit.to_dataframe(0.9), fit.to_xarray()
    assert_array_equal(frame.loc["b", "standard_error"], fit.standard_errors[1])
    assert_array_equal(frame[["low", "high"]].to_numpy(), np.transpose(fit.interval(0.9)))
    assert_array_equal(frame[["profile_low", "profile_high"]].to_numpy(), fit.profile)
    exact = np.linalg.inv([[2.0, 1.0], [1.0, 2.0]])
    assert float(data["covariance"].sel(parameter="a", other="b")) == pytest.approx(exact[0, 1], rel=1e-6)
    assert float(data["correlation"].sel(parameter="a", other="b")) == pytest.approx(-0.5, rel=1e-6)


def test_a_posterior_is_a_dataset_of_draws():
    def log_likelihood(p):
        return stats.norm.logpdf(DATA, p["level"], 0.5).sum()

    posterior = ps.sample(log_likelihood, {"level": (-5, 5)}, n_effective=100, n_particles=100, maxfev=900, rng=1)
    equal, weighted = posterior.to_xarray(), posterior.to_xarray(weighted=True)
    assert_array_equal(equal["level"], posterior.draws[:, 0])
    assert float(weighted["level"].weighted(weighted["weight"]).mean()) == pytest.approx(posterior.mean()[0], rel=1e-12)
    assert equal.attrs["log_evidence"] == posterior.log_evidence


@pytest.mark.parametrize("name", ["value", "evaluation"])
def test_names_that_the_dataset_needs_are_refused(name):
    with pytest.raises(ValueError, match=f"needs the column '{name}'"):
        ps.minimize(lambda p: p[name] ** 2, {name: (-1, 1)}, maxfev=20, rng=1).to_xarray()


def test_without_xarray_the_error_says_what_to_install(monkeypatch):
    result = ps.minimize(cost, SPACE, maxfev=30, rng=1)
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"pip install 'paoswarm\[xarray\]'"):
        result.to_xarray()
