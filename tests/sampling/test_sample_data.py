"""`sample` takes a simulator and data as `fit` does: its likelihoods are those of the laws, and outputs are kept.

Moments and evidences are compared within 4.5 standard errors: a comparison is wrong with a probability below 1e-5.
"""

import json
import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, stats

import paoswarm as ps
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.fitting import sample_fit
from paoswarm.sampling.likelihood import BatchLikelihood, read_function

WRONG = 4.5
TIMES = np.linspace(0.5, 6.0, 12)
DESIGN = np.stack([np.ones(12), TIMES], axis=1)
PRIOR = {"level": (-20, 20), "slope": (-9, 9)}
NOISE = np.random.default_rng(0).normal(size=12)
STRAIGHT = 3.0 + 1.5 * TIMES + 0.3 * NOISE
ONE_LOST = np.where(np.arange(12) == 4, np.nan, STRAIGHT)


def line(p):
    return p["level"] + p["slope"] * TIMES


def normal(x, sigma=0.3):
    return stats.norm(0, sigma).logpdf(STRAIGHT - x @ DESIGN.T)


LAWS = {
    "normal": ({"sigma": 0.3}, lambda x: normal(x).sum(axis=1)),
    "each its own sigma": ({"sigma": np.linspace(0.2, 0.5, 12)}, lambda x: normal(x, np.linspace(0.2, 0.5, 12)).sum(1)),
    "unknown sigma": ({}, lambda x: -6 * np.log(np.pi * ((STRAIGHT - x @ DESIGN.T) ** 2).sum(1)) + math.log(60)),
    "relative": (
        {"likelihood": ps.likelihoods.Normal(0.3, relative=0.1)},
        lambda x: normal(x, np.sqrt(0.09 + 0.01 * (x @ DESIGN.T) ** 2)).sum(1),
    ),
    "lognormal": (
        {"likelihood": "lognormal", "sigma": 0.1},
        lambda x: stats.lognorm(0.1, scale=x @ DESIGN.T).logpdf(STRAIGHT).sum(1),
    ),
    "poisson": (
        {"likelihood": "poisson", "data": np.rint(STRAIGHT)},
        lambda x: stats.poisson(x @ DESIGN.T).logpmf(np.rint(STRAIGHT)).sum(1),
    ),
    "student": (
        {"likelihood": ps.likelihoods.StudentT(0.3, df=5)},
        lambda x: stats.t(5, scale=0.3).logpdf(STRAIGHT - x @ DESIGN.T).sum(1),
    ),
    "a lost datum": ({"data": ONE_LOST, "sigma": 0.3}, lambda x: np.delete(normal(x), 4, axis=1).sum(1)),
}
OTHERS = [
    {"likelihood": "huber"},
    {"likelihood": "student-t"},
    {"data": ps.Scaled(STRAIGHT, offset=True)},
    {"data": ps.Scaled(STRAIGHT), "sigma": 0.3},
    {"data": ps.Scaled(STRAIGHT), "likelihood": "lognormal"},
    {"data": ps.Scaled(STRAIGHT), "likelihood": ps.likelihoods.Normal(0.3, relative=0.1)},
    {"data": ps.Scaled(STRAIGHT, scale=False, offset=True), "sigma": np.linspace(0.2, 0.5, 12)},
]
POINTS = np.array([[3.0, 1.5], [2.0, 1.4], [4.0, 2.0], [3.5, 1.0]])


def in_batches(x, simulate=line, data=STRAIGHT, sigma=None, likelihood="normal", known=None):
    called = read_function(simulate, PRIOR, data, sigma, likelihood, None, ())
    with Evaluator(called.fun, minus_inf_fails=False, n_details=called.n_outputs) as evaluate:
        batches = BatchLikelihood(evaluate, list(PRIOR), None, called.of_outputs, known)
        return batches, np.concatenate([batches(x[:1]), batches(x[1:])])


@pytest.mark.parametrize("name", LAWS)
def test_likelihoods_are_those_of_the_laws(name):
    given, exact = LAWS[name]
    assert_allclose(in_batches(POINTS, **given)[1], exact(POINTS), rtol=1e-12)


@pytest.mark.parametrize("given", [one for one, _ in LAWS.values()] + OTHERS)
def test_outputs_are_kept_and_give_the_same_values(given):
    batches, values = in_batches(POINTS, **given)
    assert np.isfinite(values).all()
    assert_array_equal(batches.points, POINTS)
    lost = np.isnan(given["data"]) if isinstance(given.get("data"), np.ndarray) else np.zeros(12, dtype=bool)
    assert_array_equal(batches.outputs[:, ~lost], [line({"level": a, "slope": b})[~lost] for a, b in POINTS])
    assert_array_equal(batches.log_likelihood_of(batches.outputs, batches.points), values)
    assert_array_equal(batches.log_likelihood_of(batches.outputs[1:3], POINTS[1:3]), values[1:3])
    one_failed = np.vstack([batches.outputs[:1], np.full((1, 12), np.nan)])
    assert_array_equal(batches.log_likelihood_of(one_failed, POINTS[:2]), [values[0], np.nan])


def test_failures_leave_nan_and_known_points_come_first():
    def fails(p):
        if p["level"] > 3.2:
            raise RuntimeError("no")
        return line(p)

    known = POINTS[:1] + 1, (POINTS[:1] + 1) @ DESIGN.T
    batches, values = in_batches(POINTS, fails, sigma=0.3, known=known)
    assert_array_equal(np.isnan(values), [False, False, True, True])
    assert_array_equal(np.isnan(batches.outputs).all(axis=1), [False, False, False, True, True])
    assert batches.n_known == 1
    assert_array_equal(batches.points[:1], known[0])
    assert_allclose(batches.log_likelihood_of(batches.outputs, batches.points)[1:], values, rtol=1e-14)


def test_a_log_likelihood_keeps_no_outputs():
    called = read_function(lambda x: -x @ x, PRIOR, None, None, "normal", None, ())
    with Evaluator(called.fun, minus_inf_fails=False) as evaluate:
        batches = BatchLikelihood(evaluate, list(PRIOR), None, called.of_outputs)
        assert_array_equal(batches(POINTS), -(POINTS**2).sum(1))
    assert batches.outputs is None
    assert batches.log_likelihood_of is None


def test_a_line_has_its_normal_posterior():
    covariance = np.linalg.inv(DESIGN.T @ DESIGN) * 0.09
    best = np.linalg.lstsq(DESIGN, STRAIGHT)[0]
    exact = normal(best).sum() + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1] - math.log(40 * 18)
    posterior = ps.sample(line, PRIOR, STRAIGHT, sigma=0.3, n_effective=1000, rng=1)
    assert abs(posterior.log_evidence - exact) < WRONG * posterior.log_evidence_error < 0.1
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(posterior.mean() - best) < WRONG * sd / math.sqrt(1000)).all()
    assert_allclose(posterior.log_likelihood, normal(posterior.draws).sum(1), rtol=1e-6, atol=1e-6)  # emulated


def test_priors_are_free_and_the_posterior_of_a_fit_agrees():
    prior = {"level": stats.norm(3, 1), "slope": (-9, 9), "gain": 2.0}

    def gained(p):
        return p["gain"] * (p["level"] + p["slope"] * TIMES)

    data = {"y": 2 * STRAIGHT}
    mine = ps.sample(lambda p: {"y": gained(p)}, prior, data, n_effective=1000, rng=1)
    assert mine.names == ["level", "slope"]
    fit = ps.fit(lambda p: {"y": gained(p)}, {"level": (-20, 20), "slope": (-9, 9), "gain": 2.0}, data,
                 priors={"level": stats.norm(3, 1)}, rng=1)  # fmt: skip
    other = fit.sample(n_effective=1000, rng=2)
    assert (np.abs(mine.mean() - other.mean()) < WRONG * np.sqrt(2 / 1000) * mine.std()).all()
    error = math.hypot(mine.log_evidence_error, other.log_evidence_error)
    assert abs(mine.log_evidence - other.log_evidence) < WRONG * error


def test_the_simulator_is_called_as_by_fit():
    seen = []

    def simulate(p, more):
        seen.append(p)
        return p["level"] + p["slope"] * TIMES + more

    prior = {"slope": (-9, 9), "kind": "straight", "level": (-20, 20)}
    whole = ps.sample(simulate, prior, STRAIGHT + 1, sigma=0.3, args=(1.0,), n_effective=100, rng=1)
    assert all(type(p) is dict and list(p) == ["slope", "kind", "level"] for p in seen)
    assert json.dumps(seen[0])

    def curve(x, slope, level, more):
        return level + slope * x + more

    of_curve = ps.sample(curve, {"slope": (-9, 9), "level": (-20, 20)}, STRAIGHT + 1, sigma=0.3, xdata=TIMES,
                         args=(1.0,), n_effective=100, rng=1)  # fmt: skip
    assert_allclose(of_curve.draws, whole.draws, rtol=1e-7)  # sums in another order
    with ThreadPoolExecutor(1) as pool:
        at_once = ps.sample(simulate, prior, STRAIGHT + 1, sigma=0.3, args=(1.0,), n_effective=100, rng=1, workers=pool)
    assert_array_equal(at_once.draws, whole.draws)


def test_a_log_likelihood_takes_args():
    def log_likelihood(x, centre):
        return -0.5 * ((x - centre) ** 2).sum()

    posterior = ps.sample(log_likelihood, [(-5, 5)], args=(1.0,), n_effective=500, rng=1)
    assert abs(posterior.mean()[0] - 1) < WRONG / math.sqrt(500)


class Stop(BaseException):
    pass


def test_a_killed_run_goes_on_with_its_outputs(tmp_path):
    calls, prior = [], {"level": (-20, 20), "slope": 1.5}

    def simulate(p):
        calls.append(p)
        if len(calls) == 40:
            raise Stop
        return line(p)

    store = ps.Store(tmp_path / "run.paoswarm", fsync="never", trust=True)
    about = {"sigma": 0.3, "n_effective": 200}
    with pytest.raises(Stop):
        ps.sample(simulate, prior, STRAIGHT.tolist(), rng=1, store=store, **about)
    resumed = ps.sample(simulate, prior, STRAIGHT, store=store, **about)
    whole = ps.sample(line, prior, STRAIGHT, rng=1, **about)
    assert_array_equal(resumed.draws, whole.draws)
    x, values = store.read()
    assert len(x) == resumed.n_evaluations == len(calls) - 1
    assert_array_equal(store.outputs(), [line({"level": row[0], "slope": 1.5}) for row in x])
    assert_allclose(values, normal(np.column_stack([x, np.full(len(x), 1.5)])).sum(axis=1), rtol=1e-10)
    assert store.constraints().shape == (len(x), 0)
    assert len(store.to_dataframe()) == len(x)
    assert ps.resume(store, line, n_effective=200).draws.shape == whole.draws.shape
    with pytest.raises(ps.errors.StoreError, match="sigma"):
        ps.sample(simulate, prior, STRAIGHT, store=store, **(about | {"sigma": 0.4}))


def test_a_fit_hands_over_all_that_it_has_simulated(monkeypatch):
    handed = []

    def sampled(target, batches, *args):
        handed.append(batches)
        return original(target, batches, *args)

    original = sample_fit.sampled
    monkeypatch.setattr(sample_fit, "sampled", sampled)
    fit = ps.fit(line, PRIOR, STRAIGHT, sigma=0.3, priors={"level": stats.norm(0, 9)}, rng=1)
    posterior = fit.sample(n_effective=200, rng=1)
    (batches,) = handed
    assert batches.n_known == fit.nfev
    assert len(batches.points) == fit.nfev + posterior.n_evaluations
    assert_allclose(batches.outputs[:, :12], batches.points @ DESIGN.T, rtol=1e-10, atol=1e-12)
    values = normal(batches.points).sum(1) + stats.norm(0, 9).logpdf(batches.points[:, 0]) + math.log(40)
    mass = stats.norm(0, 9).cdf(20) - stats.norm(0, 9).cdf(-20)
    assert_allclose(batches.log_likelihood_of(batches.outputs, batches.points), values - math.log(mass), rtol=1e-9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sigma": 0.3}, "sigma needs data="),
        ({"likelihood": "poisson"}, "likelihood needs data="),
        ({"xdata": TIMES}, "xdata needs data="),
        ({"data": STRAIGHT, "vectorized": True}, "simulates one point at a time"),
        ({"data": STRAIGHT, "engine": "jax"}, "engine='numpy' alone"),
        ({"data": STRAIGHT[:5]}, "shape"),
        ({"data": STRAIGHT, "likelihood": "gauss"}, "no likelihood 'gauss'"),
        ({"data": -STRAIGHT, "likelihood": "lognormal"}, "must be above zero"),
    ],
)
def test_bad_arguments_are_named(given, said):
    with pytest.raises((ValueError, TypeError), match=said):
        ps.sample(line, PRIOR, n_effective=100, rng=1, **given)


def test_a_simulator_is_given_first():
    with pytest.raises(TypeError, match="give the simulator first"):
        ps.sample(simulate=line, prior=PRIOR, data=STRAIGHT)


def test_too_few_data_for_an_unknown_sigma():
    with pytest.warns(RuntimeWarning, match="there are 2 data for 2 parameters"), pytest.raises(ps.errors.StoreError):
        ps.sample(lambda p: line(p)[:2], PRIOR, STRAIGHT[:2], store=__file__, rng=1)


class Clock:
    """Time that passes by a second with each evaluation."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def slowly(self, function):
        def called(x):
            self.now += 1
            return function(x)

        return called


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_time_limit_ends_a_run_with_what_it_has(monkeypatch, vectorized):
    def log_likelihood(x):
        return -0.5 * (x**2).sum(axis=-1)

    clock = Clock(monkeypatch)
    if vectorized:
        posterior = ps.sample(clock.slowly(log_likelihood), [(-5, 5)], vectorized=True, time_limit=12, rng=1)
        assert clock.now == 12
    else:
        whole = ps.sample(log_likelihood, [(-5, 5)], n_effective=1000, rng=1)
        limit = whole.n_evaluations - 300
        posterior = ps.sample(clock.slowly(log_likelihood), [(-5, 5)], n_effective=1000, time_limit=limit, rng=1)
        assert posterior.n_evaluations == limit
    assert posterior.method == "interrupted"
    assert "time_limit=" in posterior.message


def test_a_time_limit_may_be_too_short(monkeypatch):
    clock = Clock(monkeypatch)
    with pytest.raises(ValueError, match=r"time_limit=5.*interrupted after 5 evaluations, too early"):
        ps.sample(clock.slowly(lambda x: -x @ x), [(-5, 5)], time_limit=5, rng=1)
    with pytest.raises(ValueError, match="time_limit must be a positive number"):
        ps.sample(lambda x: -x @ x, [(-5, 5)], time_limit=-1)


def test_a_run_goes_on_after_its_time_limit(monkeypatch, tmp_path):
    prior, store = {"level": (-20, 20), "slope": 1.5}, tmp_path / "run.paoswarm"
    clock = Clock(monkeypatch)
    about = {"sigma": 0.3, "n_effective": 100, "store": ps.Store(store, fsync="never", trust=True)}
    with pytest.raises(ValueError, match="they are stored in"):
        ps.sample(clock.slowly(line), prior, STRAIGHT, rng=1, time_limit=20, **about)
    resumed = ps.sample(clock.slowly(line), prior, STRAIGHT, rng=1, **about)
    assert clock.now == resumed.n_evaluations


def test_a_fit_may_be_the_start():
    fit = ps.fit(line, PRIOR, STRAIGHT, sigma=0.3, rng=1)
    posterior = ps.sample(line, PRIOR, STRAIGHT, sigma=0.3, start=fit, n_effective=100, rng=1)
    assert (np.abs(posterior.mean() - fit.x) < WRONG * posterior.std() / math.sqrt(100)).all()
    with pytest.raises(ValueError, match="no unknown 'height'"):
        ps.sample(line, {"height": (0, 1)}, STRAIGHT, start=fit)
    theirs = optimize.minimize(lambda x: (x - 1) @ (x - 1), np.zeros(2))
    found = ps.sample(lambda x: -((x - 1) @ (x - 1)), [(-5, 5)] * 2, start=theirs, n_effective=100, rng=1)
    assert np.abs(found.mean() - 1).max() < WRONG * math.sqrt(0.5 / 100)
