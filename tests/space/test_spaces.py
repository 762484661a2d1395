"""Runs in spaces: what users give is what they get, whatever the method."""

import itertools
import math

import numpy as np
import pytest

import paoswarm as ps
from paoswarm.run.read_input import read_space
from paoswarm.sampling.read_prior import as_given, read_prior

SPACE = {
    "rate": ps.Real(1e-6, 1e3, log=True),
    "order": ps.Integer(1, 8),
    "kernel": ps.Choice(["rbf", "matern", "periodic"]),
    "phase": ps.Periodic(0, 8),
    "offset": (-5, 5),
    "gain": 3.0,
}
COST = {"rbf": 1.0, "matern": 0.0, "periodic": 2.0}
BEST = {"rate": 0.01, "order": 3, "kernel": "matern", "phase": 0.0, "offset": 1.0, "gain": 3.0}
METHODS = [
    ps.PAO(),
    ps.AdaptivePAO(),
    ps.DensePAO(),
    ps.ElementPAO(),
    ps.classic.DE(),
    ps.classic.SADE(),
    ps.classic.QPSO(),
]


def cost(rate, order, kernel, phase, offset, gain):
    wave = 1 - math.cos(math.pi / 4 * phase)
    return (math.log10(rate) + 2) ** 2 + (order - 3.2) ** 2 + COST[kernel] + wave + (offset - 1) ** 2 + gain - 3


def by_name(p):
    assert list(p) == list(SPACE)
    assert type(p["order"]) is int
    assert type(p["rate"]) is float
    return cost(**p)


def by_number(x):
    assert x.shape == (6,)
    rate, order, kernel, phase, offset, gain = x.tolist()
    return cost(rate, order, SPACE["kernel"].entries[int(kernel)], phase, offset, gain)


def many_by_name(p):
    assert p["order"].dtype == np.int64
    rows = zip(*(p[name].tolist() for name in SPACE if name != "gain"), strict=True)
    return np.array([cost(*row, p["gain"]) for row in rows])


@pytest.mark.parametrize("method", METHODS, ids=lambda one: type(one).__name__)
def test_every_method_finds_the_minimum_on_a_seam(method):
    result = ps.minimize(by_name, SPACE, method=method, maxfev=4000, rng=1)
    best = result.best
    assert by_name(best) == result.fun == pytest.approx(0.04, abs=1e-6)
    assert (best["order"], best["kernel"], best["gain"]) == (3, "matern", 3.0)
    assert min(best["phase"], 8 - best["phase"]) < 1e-2
    assert result.hint == "" or "on its bound" not in result.hint


def test_names_numbers_and_arrays_give_the_same_run():
    how = {"method": ps.AdaptivePAO(parallel=1), "maxfev": 200, "rng": 2}
    named = ps.minimize(by_name, SPACE, **how)
    numbered = ps.minimize(by_number, list(SPACE.values()), **how)
    together = ps.minimize(many_by_name, SPACE, vectorized=True, **how)
    parallel = ps.minimize(by_name, SPACE, workers=2, **how)
    for other in (numbered, together, parallel):
        np.testing.assert_array_equal(other.history.best, named.history.best)
        np.testing.assert_array_equal(other.x, named.x)
    assert numbered.best == list(named.best.values())
    assert named.x[2] == SPACE["kernel"].entries.index(named.best["kernel"])


def test_plain_numbers_keep_their_bits_in_a_space():
    def sphere(x):
        return float(((x - 0.3) ** 2).sum())

    plain = ps.minimize(sphere, [(-5, 5)] * 3, maxiter=30, rng=1)
    reals = ps.minimize(sphere, [ps.Real(-5, 5)] * 3, maxiter=30, rng=1)
    named = ps.minimize(lambda p: sphere(np.array([*p.values()])), dict.fromkeys("abc", (-5, 5)), maxiter=30, rng=1)
    for other in (reals, named):
        np.testing.assert_array_equal(other.x, plain.x)
        np.testing.assert_array_equal(other.swarm.position, plain.swarm.position)
    assert "space" not in reals
    assert named.best == dict(zip("abc", plain.x.tolist(), strict=True))


@pytest.mark.parametrize("method", METHODS, ids=lambda one: type(one).__name__)
def test_turning_a_circle_turns_the_run(method):
    """A quarter turn of the circle, exact in binary, moves every point by a quarter turn."""

    def wave(turn):
        return lambda x: 1 - math.cos(math.pi / 4 * (x[0] - turn)) + x[1] ** 2

    def run(turn):
        start = np.random.default_rng(1).integers(0, 64, (30, 1)) / 8
        points = np.concatenate([(start + turn) % 8, np.linspace(-4, 4, 30)[:, None]], axis=1)
        space = [ps.Periodic(0, 8), (-5, 5)]
        return ps.minimize(wave(turn), space, method=method, init=points, maxiter=12, rng=1)

    still, turned = run(0.0), run(2.0)
    np.testing.assert_allclose(turned.history.best, still.history.best, rtol=1e-6, atol=1e-9)
    apart = (turned.x - still.x - [2, 0]) / [8, 10]
    np.testing.assert_allclose(apart - np.round(apart), 0, atol=1e-6)


def test_bests_lie_on_whole_numbers_and_corners():
    swarm = ps.minimize(by_name, SPACE, method=ps.PAO(), maxiter=10, rng=1).swarm
    bests = swarm.best_position
    np.testing.assert_array_equal(bests[:, 1], np.round(bests[:, 1]))
    assert set(bests[:, 2:5].ravel().tolist()) == {0.0, 1.0}
    assert (bests[:, 2:5].sum(axis=1) == 1).all()
    assert (swarm.position[:, 1] != np.round(swarm.position[:, 1])).any()  # particles move between them


def test_a_stored_run_goes_on_as_if_it_had_never_stopped(tmp_path):
    how = {"method": ps.AdaptivePAO(), "rng": 3}
    whole = ps.minimize(by_name, SPACE, maxfev=300, **how)
    file = tmp_path / "run.paoswarm"
    ps.minimize(by_name, SPACE, maxfev=100, store=ps.Store(file, fsync="never"), **how)
    again = ps.resume(ps.Store(file, fsync="never"), by_name, maxfev=300)
    np.testing.assert_array_equal(again.history.best, whole.history.best)
    assert again.best == whole.best
    x, f = ps.Store(file).read()
    assert x.shape == (300, 6)  # in the user's numbers
    assert f.min() == whole.fun
    assert by_number(x[np.argmin(f)]) == whole.fun
    with pytest.raises(ps.errors.OtherRun, match="order"):
        ps.minimize(by_name, SPACE | {"order": ps.Integer(1, 9)}, maxfev=300, store=file, **how)


def test_a_result_is_continued_and_points_are_taken_in(tmp_path):
    short = ps.minimize(by_name, SPACE, maxiter=20, rng=1, method=ps.PAO())
    longer = ps.minimize(by_name, SPACE, maxiter=20, rng=2, init=short, method=ps.PAO())
    assert longer.fun <= short.fun
    first = ps.minimize(by_name, SPACE, maxiter=0, rng=1, x0=BEST, n_particles=10, method=ps.PAO())
    assert first.best == pytest.approx(BEST) or first.best["kernel"] == "matern"
    assert first.fun == pytest.approx(0.04)
    several = {name: [BEST[name]] * 2 for name in SPACE if name != "gain"}
    for x0 in (several, [BEST, BEST], np.array([[0.01, 3, 1, 0, 1, 3]] * 2)):
        result = ps.minimize(by_name, SPACE, maxiter=0, rng=1, x0=x0, n_particles=10, method=ps.PAO())
        assert result.fun == pytest.approx(0.04)
    with pytest.raises(ValueError, match="another space"):
        ps.minimize(by_name, SPACE | {"offset": (-6, 6)}, init=short, method=ps.PAO())


def test_given_points_are_evaluated_to_the_last_bit_on_a_logarithmic_scale(tmp_path):
    x0 = 10 ** np.random.default_rng(1).uniform(-6, 3, (40, 2))
    assert (np.exp(np.log(x0)) != x0).sum() > 20
    space = {"a": ps.Real(1e-6, 1e3, log=True), "n": ps.Integer(0, 3), "b": ps.Real(1e-6, 1e3, log=True)}
    given = [{"a": a, "n": 1, "b": b} for a, b in x0.tolist()]
    seen = []

    def record(p):
        seen.append(p)
        return abs(p["a"] - given[7]["a"]) + abs(p["b"] - given[7]["b"]) + abs(p["n"] - 1)

    how = {"method": ps.PAO(), "n_particles": 40, "rng": 1}
    result = ps.minimize(record, space, x0=given, maxiter=2, store=tmp_path / "run", **how)
    assert seen[:40] == given
    assert (result.best, result.fun) == (given[7], 0.0)
    resumed = ps.resume(tmp_path / "run", record, maxiter=3)
    whole = ps.minimize(record, space, x0=given, maxiter=3, **how)
    np.testing.assert_array_equal(resumed.swarm.position, whole.swarm.position)
    assert ps.minimize(record, space, init=result, maxiter=1, rng=1).best == given[7]
    many = ps.minimize_many(record, space, runs=2, x0=given, maxiter=1, **how)
    assert [many.run(r).best for r in range(2)] == [given[7]] * 2
    optimizer = ps.Optimizer(space, x0=given, **how)
    assert optimizer.ask() == given
    optimizer.tell(np.ones(40))
    optimizer.inject(given[3], [0.0])
    assert optimizer.result.best == given[3]


def test_an_optimizer_asks_for_points_by_name():
    optimizer = ps.Optimizer(SPACE, n_particles=12, rng=1)
    for _ in range(5):
        optimizer.tell([by_name(p) for p in optimizer.ask()])
    optimizer.inject([BEST], [0.04])
    assert optimizer.result.best["kernel"] == "matern"
    assert optimizer.best.x[1] == 3


def test_many_runs_in_a_space_are_the_runs_alone():
    many = ps.minimize_many(by_name, SPACE, runs=3, maxiter=15, rng=1, method=ps.PAO())
    alone = ps.minimize(by_name, SPACE, maxiter=15, rng=many.seeds[1], method=ps.PAO())
    assert many.best[1] == many.run(1).best == alone.best


def test_asynchronous_runs_and_polishing_speak_the_same_language():
    result = ps.minimize(
        by_name, SPACE, method=ps.PAO(), n_particles=20, maxfev=300, workers=ps.Workers(asynchronous=True), rng=1
    )
    assert by_name(result.best) == result.fun
    polished = ps.minimize(by_name, SPACE, x0=BEST | {"offset": 1.1}, maxfev=400, n_particles=20, polish=True, rng=1)
    assert by_name(polished.best) == polished.fun == pytest.approx(0.04, abs=1e-9)
    with pytest.raises(ValueError, match="continuous variable"):
        ps.minimize(by_name, {"order": ps.Integer(1, 8)}, polish=True)


def test_known_points_are_recalled_and_a_small_space_is_known_for_sure():
    calls = []

    def gears(p):
        calls.append(tuple(p.values()))
        return (1 / 6.931 - p["a"] * p["b"] / (p["c"] * p["d"])) ** 2

    space = {name: ps.Integer(12, 60) for name in "abcd"}
    result = ps.minimize(gears, space, method=ps.PAO(), maxfev=800, rng=1)
    assert len(calls) == len(set(calls)) == result.nfev <= 800
    assert result.n_recalled > 0
    calls.clear()
    small = {"a": ps.Integer(12, 14), "b": ps.Choice([12, 13, 16]), "c": 40, "d": 53}
    complete = ps.minimize(gears, small, tol=0, maxfev=10_000, rng=1)
    assert (complete.nfev, complete.message) == (9, "Converged: every point of the space was evaluated.")
    assert complete.fun == min(gears({"a": a, "b": b, "c": 40, "d": 53}) for a in (12, 13, 14) for b in (12, 13, 16))


def test_a_space_lists_all_of_its_points_once():
    space = read_space({"a": ps.Integer(-1, 2), "b": ps.Choice(["x", "y", "z"]), "c": 7.0})
    points = [tuple(space.point(row).values()) for row in space.rows(space.every_point())]
    assert sorted(points) == sorted(itertools.product(range(-1, 3), "xyz", [7.0]))
    assert space.size == len(points) == 12


def test_a_space_smaller_than_a_swarm_is_evaluated_point_by_point():
    for method in (None, ps.PAO(), ps.classic.DE()):
        small = {"a": ps.Integer(0, 6), "b": ps.Choice(["x", "y"])}
        result = ps.minimize(lambda p: abs(p["a"] - 4) + (p["b"] == "x"), small, method=method, rng=1)
        assert (result.nit, result.nfev, result.best) == (0, 14, {"a": 4, "b": "y"})


def test_no_hint_of_a_bound_on_a_logarithmic_scale():
    def far(p):
        return (math.log10(p["a"]) - 1) ** 2 + (math.log10(p["b"]) - 1) ** 2

    bounds = {"a": (1e-6, 1e9), "b": (1e-6, 1e9)}
    logarithmic = {name: ps.Real(1e-6, 1e9, log=True) for name in bounds}
    assert "bound" not in ps.minimize(far, logarithmic, rng=1).hint
    on = ps.minimize(lambda p: p["n"] + p["rate"], {"n": ps.Integer(2, 9), "rate": ps.Real(0.1, 1)}, rng=1).hint
    assert on.startswith("n, rate lie on their bounds")


def test_failures_are_told_by_name():
    def fails(p):
        if p["order"] > 2:
            raise ArithmeticError("too stiff")
        return p["offset"] ** 2

    with pytest.warns(RuntimeWarning, match="first at rate = .*order = .*too stiff"):
        ps.minimize(fails, SPACE, maxiter=3, rng=1)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({}, "empty"),
        ({"a b": (0, 1)}, "'a b' is not an identifier"),
        ({"lambda": (0, 1)}, "'lambda' is a keyword of Python; write 'lambda_'"),
        ({1: (0, 1)}, "must be a string, got 1"),
        ({"rate": None}, "'rate' is None; give a pair"),
        ({"rate": {0, 1}}, "'rate' is {0, 1}; a set has no order"),
        ({"rate": (0, None)}, r"'rate' is \(0, None\); both ends must be finite"),
        ({"rate": {"low": 0, "high": 1}}, "'rate' is .*give a pair"),
        ({"rate": (i for i in (0, 1))}, "'rate' is .*give a pair"),
        ([None, (0, 1)], r"bounds\[0\] is None; give a pair"),
        ([(0, 1), (0, None)], r"bounds\[1\] is \(0, None\); both ends"),
        ([("a", "b"), (0, 1)], r"bounds\[0\].*write|ps.Choice\(\['a', 'b'\]\)"),
        (ps.Real(0, 1), r"one variable, Real\(0, 1\); write \[Real\(0, 1\)\]"),
        ({"rate": (3, 1)}, "'rate'.*reversed"),
        ({"rate": (1, 1)}, "'rate'.*both ends are equal"),
        ({"kernel": ["rbf", "matern"]}, r"'kernel'.*one of several entries ps.Choice\(\['rbf', 'matern'\]\)"),
        ({"rate": (1, 2, 3)}, "'rate' is .*write a pair"),
        ({"rate": np.inf}, "'rate' is fixed at inf"),
        ({"rate": 3.0}, "every variable is fixed"),
        ([ps.Integer(1, 2), (2, 1)], r"bounds\[1\].*reversed"),
    ],
)
@pytest.mark.parametrize("drive", [ps.minimize, ps.minimize_many, lambda fun, space: ps.Optimizer(space)])
def test_bad_spaces_are_refused_in_a_sentence_that_names_the_variable(space, words, drive):
    with pytest.raises((ValueError, TypeError), match=words):
        drive(by_name, space)


@pytest.mark.parametrize(
    ("x0", "words"),
    [
        ({"rate": 1.0}, "the value of 'order' is missing"),
        (BEST | {"oder": 1}, "no variable 'oder'; did you mean order"),
        (BEST | {"order": 2.5}, "order is 2.5, not a whole number"),
        (BEST | {"order": 9}, r"order is 9, outside \(1, 8\)"),
        (BEST | {"kernel": "cubic"}, "kernel is 'cubic', which is none of"),
        (BEST | {"gain": 2.0}, "gain is 2.0, but it is fixed at 3.0"),
        (BEST | {"rate": [1.0, 2.0], "order": [1, 2, 3]}, "equally many"),
        ([1, 2, 3], "a dict with the names"),
    ],
)
def test_bad_points_are_refused_in_a_sentence_that_names_the_variable(x0, words):
    with pytest.raises(ValueError, match=words):
        ps.minimize(by_name, SPACE, x0=x0)


def test_walls_none_needs_plain_numbers():
    with pytest.raises(ValueError, match="walls='none'"):
        ps.minimize(by_name, SPACE, method=ps.PAO(walls="none"))


def test_one_model_serves_minimize_and_sample():
    t = np.linspace(0, 1, 30)
    data = 3 * np.exp(-5 * t) + 0.1 * np.random.default_rng(1).standard_normal(30)

    def misfit(p):
        return float(((data - p["gain"] * np.exp(-p["rate"] * t)) ** 2).sum() / 0.02)

    space = {"rate": ps.Real(1e-2, 1e3, log=True), "gain": 3.0}
    best = ps.minimize(misfit, space, rng=1)
    posterior = ps.sample(lambda p: -misfit(p), space, start=best, n_effective=100, maxfev=2000, rng=1)
    assert posterior.names == ["rate"]
    assert abs(posterior.mean()[0] - best.best["rate"]) < posterior.std()[0]
    numbered = read_prior([*space.values()])
    assert numbered.dim == 1
    whole = as_given(lambda x: x, [*space.values()])(np.array([[0.1], [0.2]]))
    assert whole.tolist() == [[0.1, 3.0], [0.2, 3.0]]
    with pytest.raises(TypeError, match=r"'order' is Integer.*discrete"):
        ps.sample(misfit, {"order": ps.Integer(1, 3)})


def test_a_logarithmic_variable_is_a_log_uniform_prior():
    from scipy import stats

    from paoswarm.sampling.laws import LogUniform

    ours, theirs = LogUniform(1e-3, 10.0), stats.loguniform(1e-3, 10)
    x, u = np.geomspace(1e-3, 10, 50), np.linspace(0, 1, 50)
    for name, where in [("cdf", x), ("sf", x), ("logpdf", x), ("ppf", u), ("isf", u)]:
        np.testing.assert_allclose(getattr(ours, name)(where), getattr(theirs, name)(where), rtol=1e-12, atol=1e-14)


def test_all_evaluations_are_a_table_with_names_and_types(tmp_path):
    pytest.importorskip("pandas")

    def fails(p):
        return math.nan if p["order"] > 6 else by_name(p)

    store = ps.Store(tmp_path / "run.paoswarm", fsync="never")
    result = ps.minimize(fails, SPACE, maxfev=300, rng=1, store=store)
    here, there = result.to_dataframe(), store.to_dataframe()
    assert list(here) == [*SPACE, "value", "failed"]
    assert list(there) == [*SPACE, "value", "failed", "reason", "time"]
    assert here.equals(there[list(here)])
    assert len(here) == result.nfev
    assert here["failed"].sum() == result.n_failed == (there["reason"] == "returned NaN").sum()
    best = here.loc[here["value"].idxmin(), list(SPACE)].to_dict()
    assert best == result.best
    with pytest.raises(ValueError, match="column 'value'"):
        ps.minimize(lambda p: p["value"], {"value": (0, 1)}, maxiter=1, rng=1).to_dataframe()
    many = ps.minimize_many(by_name, SPACE, runs=2, maxiter=1, rng=1)
    assert many.to_dataframe().loc[1, list(SPACE)].to_dict() == many.run(1).best


def test_plots_and_the_progress_of_a_store_speak_in_names(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    store = ps.Store(tmp_path / "run.paoswarm", fsync="never")
    result = ps.minimize(by_name, SPACE, method=ps.PAO(), n_particles=20, maxiter=5, rng=1, store=store)
    ax = ps.plot.swarm(result, by_name, dims=(0, 1), points=5)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("ln rate", "order")
    assert ps.plot.swarm(result, dims=(3, 5)).get_xlabel() == "kernel: matern"
    plt.close("all")
    kernel = result.best["kernel"]
    assert f"kernel = {kernel!r}" in str(ps.results.Progress(store.path).update())
    assert f"'kernel': {kernel!r}" in repr(result)
    assert f"<td>{kernel}</td>" in result._repr_html_() or kernel in result._repr_html_()
