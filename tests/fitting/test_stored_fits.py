"""Stores of fits: the file alone is enough to go on, to the same bits, and nothing is simulated twice."""

import json

import numpy as np
import pytest
from scipy import stats

import paoswarm as ps
from paoswarm.store.log import encode

T = np.arange(1.0, 9.0)
NOISE = 0.03 * np.sin(40 * T)
Y = 3 * np.exp(-0.5 * T) + NOISE
GAPS = np.where(T == 3, np.nan, 40 * np.exp(-0.5 * T) + 7 + 10 * NOISE)
SPACE = {"a": (0.5, 10), "k": ps.Real(0.01, 10, log=True)}


def decay(p):
    return p["a"] * np.exp(-p["k"] * T)


def failing(p):
    return np.full(8, np.nan) if p["a"] > 8 else decay(p)


def two(p):
    return {"y": decay(p), "light": np.exp(-p["k"] * T)}


def residuals(x):
    return x[0] * np.exp(-x[1] * T) - Y


def curve(x, a, k):
    return a * np.exp(-k * x) + (x == 1) * x.dtype.kind.startswith("i")


def of_kind(p):
    return p["a"] * np.exp(-p["k"] * T) if p["kind"] == "decay" else p["a"] * T ** p["n"]


TWO = {"y": Y, "light": ps.Scaled(GAPS, offset=True)}
CALLS = {
    "one output": (failing, SPACE, Y, {}),
    "a law by its name": (decay, SPACE, Y, {"likelihood": "huber", "sigma": 0.02}),
    "two outputs": (two, SPACE, TWO, {"sigma": {"y": np.linspace(0.02, 0.04, 8)}}),
    "laws": (two, SPACE, TWO, {"likelihood": {"y": ps.likelihoods.StudentT(0.03, df=3)}}),
    "priors": (decay, SPACE, Y, {"priors": {"k": stats.norm(0.4, 0.1), "a": stats.gamma(3, scale=1.5)}}),
    "x0 by name": (decay, SPACE, list(Y), {"x0": [{"a": 2, "k": 1}, {"a": 9.0, "k": 0.1}]}),
    "x0": (residuals, [(0.5, 10), (0.01, 10)], None, {"x0": [2, 1]}),
    "places": (curve, SPACE, Y, {"xdata": np.arange(1, 9)}),
    "kinds": (
        of_kind,
        SPACE | {"kind": ps.Choice(["decay", "power"]), "n": ps.Integer(1, 2), "phase": ps.Periodic(0, 6), "c": 3.0},
        Y,
        {"maxfev": 250},
    ),
    "eight at once": (decay, SPACE, Y, {"workers": ps.Workers(map)}),
}


class Counted:
    """A simulator that counts its calls."""

    def __init__(self, simulate):
        self.simulate, self.count = simulate, 0

    def __call__(self, *given):
        self.count += 1
        return self.simulate(*given)

    def to_fingerprint(self):
        return self.simulate


def assert_same(one, other):
    for name in ("x", "fun", "nfev", "n_failed", "nit", "covariance", "jacobian"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert [search.value for search in one.searches] == [search.value for search in other.searches]
    assert one.remarks == other.remarks


@pytest.mark.parametrize("kind", CALLS)
def test_the_file_alone_repeats_a_fit_without_a_simulation(kind, tmp_path):
    simulate, space, data, given = CALLS[kind]
    store = tmp_path / "f.paoswarm"
    whole = ps.fit(simulate, space, data, rng=1, store=ps.Store(store, "never"), **given)
    assert_same(ps.fit(simulate, space, data, rng=1, **given), whole)
    counted = Counted(simulate)
    again = ps.resume(ps.Store(store, trust=True), counted)
    assert_same(again, whole)
    assert counted.count == 0
    assert again.message.endswith(f"All {whole.nfev} evaluations came from the store.")
    outputs, f = ps.Store(store).outputs(), ps.Store(store).read()[1]
    assert outputs.shape == (whole.nfev, len(whole.solution.outputs))
    np.testing.assert_array_equal(outputs[np.nanargmin(f)], whole.solution.outputs)
    assert ps.Store(store).constraints().shape == (whole.nfev, 0)


@pytest.mark.parametrize("workers", [1, ps.Workers(map), 3])
def test_a_fit_with_a_larger_limit_goes_on_as_if_it_had_had_it(workers, tmp_path):
    how = {"rng": 2, "workers": workers, "sigma": 0.02}
    whole = ps.fit(failing, SPACE, Y, **how)
    store = ps.Store(tmp_path / "f.paoswarm", "never", trust=True)
    for limit in (5, 9, 17, 26, 30):  # the last ones measured the slope before they ended
        part = ps.fit(failing, SPACE, Y, maxfev=limit, store=store, **how)
        assert part.nfev == limit
        assert_same(part, ps.fit(failing, SPACE, Y, maxfev=limit, **how))
    assert_same(ps.resume(store, failing, maxfev=1000), whole)
    short = ps.resume(store, failing, maxfev=17)  # the slope at the end of this limit is no longer in the file
    assert short.nfev <= 17
    assert short.message.endswith("evaluations came from the store.")


@pytest.mark.parametrize("workers", [1, 3])
def test_a_limit_within_what_is_recorded_takes_nothing_away(workers, tmp_path):
    store, how = ps.Store(tmp_path / "f.paoswarm", "never", trust=True), {"rng": 2, "workers": workers}
    ps.fit(failing, SPACE, Y, maxfev=10, store=store, **how)  # too few to set some aside for the slope
    part = ps.fit(failing, SPACE, Y, maxfev=13, store=store, **how)  # of these, four would be
    assert part.nfev == 13
    assert_same(ps.resume(store, failing), part)
    assert_same(ps.resume(store, failing, maxfev=1000), ps.fit(failing, SPACE, Y, **how))


def test_a_fit_that_had_reached_its_target_goes_on(tmp_path):
    store, whole = ps.Store(tmp_path / "f.paoswarm", "never", trust=True), ps.fit(decay, SPACE, Y, rng=2)
    part = ps.fit(decay, SPACE, Y, rng=2, target=1.0, store=store)
    assert part.status == ps.results.Status.TARGET
    assert part.nfev < whole.nfev
    assert_same(ps.resume(store, decay, target=None), whole)
    again = ps.resume(store, decay, target=1.0)
    assert again.success
    assert "evaluations came from the store" in again.message


def test_an_asynchronous_fit_goes_on_from_its_file(tmp_path):
    store = ps.Store(tmp_path / "f.paoswarm", "never", trust=True)
    how = {"rng": 2, "workers": ps.Workers(2, asynchronous=True), "store": store}
    for limit in (10, 13, 20, 1000):
        part = ps.fit(failing, SPACE, Y, maxfev=limit, **how)
        counted = Counted(failing)
        assert_same(ps.resume(store, counted), part)
        assert counted.count == 0
    assert part.success


def pull(p):
    return p["a"] - 3


class Places:
    times = T


def at_places(places, a, k):
    return a * np.exp(-k * places.times)


class Skewed(stats.rv_continuous):
    def _logpdf(self, x):
        return -x

    def _cdf(self, x):
        return -np.expm1(-x)


@pytest.mark.parametrize(
    "given",
    [{"penalty": pull}, {"priors": {"k": Skewed(a=0, name="skewed")()}}, {"xdata": Places()}],
    ids=lambda given: next(iter(given)),
)
def test_what_a_file_cannot_hold_is_named_and_passed_again(given, tmp_path):
    simulate = at_places if "xdata" in given else decay
    store, (name,) = tmp_path / "f.paoswarm", given
    whole = ps.fit(simulate, SPACE, Y, rng=1, maxfev=30, store=store, **given)
    with pytest.raises(TypeError, match=rf"{name} cannot be rebuilt .* pass it again: resume\(\.\.\., {name}=\.\.\.\)"):
        ps.resume(store, simulate)
    assert_same(ps.resume(store, simulate, **given), whole)


def test_lmfit_parameters_are_passed_again(tmp_path):
    lmfit = pytest.importorskip("lmfit")
    params = lmfit.create_params(a={"value": 2, "min": 0.5, "max": 10}, k={"value": 1, "min": 0.01, "max": 10})

    def of_parameters(params):
        return params["a"].value * np.exp(-params["k"].value * T) - Y

    store = tmp_path / "f.paoswarm"
    whole = ps.fit(of_parameters, params, rng=1, store=store)
    assert_same(ps.resume(store, of_parameters, space=params), whole)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"data": Y + 1}, "data"),
        ({"sigma": 0.3}, "sigma"),
        ({"likelihood": "huber"}, "likelihood"),
        ({"priors": {"k": stats.norm(0.4, 0.2)}}, "priors.k"),
        ({"space": SPACE | {"a": (0.5, 11)}}, "bounds.a.high"),
        ({"rng": 2}, "rng"),
    ],
)
def test_another_fit_is_refused_and_what_differs_is_named(change, named, tmp_path):
    given = {"simulate": decay, "space": SPACE, "data": Y, "sigma": 0.02, "priors": {"k": stats.norm(0.4, 0.1)}}
    store = tmp_path / "f.paoswarm"
    ps.fit(**given, rng=1, maxfev=12, store=store)
    before = store.read_bytes()
    with pytest.raises(ps.errors.OtherRun, match=f"with {named}"):
        ps.fit(**{"rng": 1, **given, **change}, maxfev=12, store=store)
    assert store.read_bytes() == before


def test_another_simulator_or_penalty_is_noticed(tmp_path):
    store = tmp_path / "f.paoswarm"
    ps.fit(decay, SPACE, Y, penalty=pull, rng=1, maxfev=12, store=store)
    with pytest.raises(ps.errors.OtherRun, match="values of another function"):
        ps.fit(lambda p: decay(p) + 1, SPACE, Y, penalty=pull, rng=1, maxfev=20, store=store)

    def pull_elsewhere(p):
        return p["a"] - 2.0

    pull_elsewhere.__name__ = "pull"
    with pytest.raises(ps.errors.OtherRun, match="values of another function"):
        ps.resume(store, decay, penalty=pull_elsewhere, maxfev=20)


def test_recorded_simulations_begin_another_fit(tmp_path):
    old, store = ps.Store(tmp_path / "old.paoswarm", "never"), tmp_path / "new.paoswarm"
    gaps, more = np.where(T == 3, np.nan, Y), Y + 0.01 * np.cos(T)
    first = ps.fit(failing, SPACE, gaps, priors={"k": stats.norm(0.4, 0.1)}, rng=2, store=old)
    known = old.read()[0], old.outputs()
    counted, space = Counted(failing), SPACE | {"a": (0.5, 20)}
    how = {"priors": {"k": stats.norm(0.5, 0.2), "a": stats.norm(3, 1)}, "rng": 3}
    fit = ps.fit(counted, space, more, x0=known, store=store, **how)
    assert counted.count == fit.nfev < first.nfev
    np.testing.assert_allclose(fit.x, ps.fit(failing, space, more, **how).x, rtol=1e-5)
    counted = Counted(failing)
    assert_same(ps.resume(ps.Store(store, trust=True), counted), fit)
    assert counted.count == 0
    best = first.solution.outputs[:8]
    np.testing.assert_array_equal(ps.fit(decay, SPACE, best, x0=known, rng=1).predictions, best)


@pytest.mark.parametrize(
    ("x0", "data", "said"),
    [
        (([[1, 1]], np.zeros((2, 8))), Y, "x0 has 1 points, but outputs of 2"),
        (([[1, 1]], np.zeros((1, 7))), Y, "x0 has 7 outputs for each point, but data has 8 numbers"),
        (([[1, 1]], np.zeros((1, 8))), None, "x0 with outputs needs data"),
    ],
)
def test_outputs_that_do_not_fit_are_refused(x0, data, said):
    with pytest.raises(ValueError, match=said):
        ps.fit(decay, SPACE, data, x0=x0, priors={"k": stats.norm(0.4, 0.1)})


def test_the_error_for_another_course_says_how_to_keep_the_simulations(tmp_path):
    store = tmp_path / "f.paoswarm"
    ps.fit(decay, SPACE, Y, rng=1, maxfev=12, store=store)
    lines = store.read_bytes().splitlines(keepends=True)
    moved = [json.loads(line) for line in lines]
    for record in moved:
        del record["crc"]
    next(record for record in moved if record.get("i") == 5)["x"][0][0] += 1e-9
    store.write_bytes(b"".join(map(encode, moved)))
    with pytest.raises(
        ps.errors.OtherRun, match=r"use old = Store\(.*\) and x0=\(old\.read\(\)\[0\], old\.outputs\(\)\)"
    ):
        ps.fit(decay, SPACE, Y, rng=1, maxfev=12, store=store)


def test_progress_shows_a_fit(tmp_path):
    store = tmp_path / "f.paoswarm"
    fit = ps.fit(failing, SPACE, Y, rng=2, maxfev=40, store=store)
    text = str(ps.results.Progress(store).update())
    assert f"{store.name}: fit\n" in text
    assert f"evaluations  40 of 40 (100.0%), {fit.n_failed} failed" in text
    assert f"best         {fit.fun:.10g} at a = {fit.best['a']}, k = {fit.best['k']}" in text


def test_nonsense_in_a_file_is_damage(tmp_path):
    store = tmp_path / "f.paoswarm"
    ps.fit(decay, SPACE, Y, rng=1, maxfev=12, store=store)
    first, *rest = store.read_bytes().splitlines(keepends=True)
    header = json.loads(first)
    del header["crc"]
    crafted = {"data": {"array": ["x"]}, "xdata": {"array": [1], "dtype": "nonsense"}, "at_once": 10**9}
    for name, nonsense in crafted.items():
        problem = header["run"]["problem"] | {name: nonsense}
        changed = header | {"run": header["run"] | {"problem": problem}}
        store.write_bytes(b"".join([encode(changed), *rest]))
        with pytest.raises(ps.errors.DamagedStore, match=rf"the recorded {name}(=\d+ is too large| makes no sense)"):
            ps.resume(store, decay)
