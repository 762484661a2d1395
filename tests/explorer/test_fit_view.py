"""What the page shows of a stored fit is what `fit` returned, and the page never simulates."""

import json
import urllib.request

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from waiting import until

import paoswarm as ps
from paoswarm.explorer.run_room import RunRoom

T = np.arange(1.0, 9.0)
LIGHT_NAME = "<i>light</i>"
SPACE = {"a": (0.5, 10), "k": ps.Real(0.01, 10, log=True)}
NOISE = 0.03 * np.sin(40 * T)
LIGHT = np.stack([40 * np.exp(-0.5 * T) + 7, 4 * np.exp(-0.5 * T) + 7], axis=1) + np.stack([NOISE, NOISE[::-1]], axis=1)
Y = 3 * np.exp(-0.5 * T) + NOISE
Y[2] = np.nan
CALLED = []


def simulate(t, a, k):
    CALLED.append(a)
    if a > 8:
        raise ValueError("too hot")
    y = a * np.exp(-k * t)
    return {"y": y, LIGHT_NAME: np.stack([10 * y / a, y / a], axis=1)}


def pull(p):
    return (p["k"] - 0.5) * np.ones(2)


HOW = {"xdata": T[::-1], "penalty": pull, "sigma": {"y": 0.5}, "rng": 1}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("fit") / "fit.paoswarm"
    reverse = {"y": Y[::-1], LIGHT_NAME: ps.Scaled(LIGHT[::-1], offset=True)}
    with pytest.warns(RuntimeWarning, match="too hot"):
        fit = ps.fit(simulate, SPACE, reverse, **HOW, store=ps.Store(path, "never"))
    return path, fit


def shown(path, **given):
    room = RunRoom(path)
    room.show({})
    until(lambda: not room.fit({})["busy"])
    return room, room.fit(given)


def test_the_page_shows_the_fit(fitted):
    path, fit = fitted
    before, called = path.read_bytes(), len(CALLED)
    room, answer = shown(path)
    assert answer["state"] == "ready"
    x, errors, low, high = answer["estimates"]
    assert_array_equal(x, fit.x)
    assert_array_equal(errors, fit.standard_errors)
    assert_array_equal([low, high], fit.interval())
    assert answer["remarks"] == list(fit.remarks)
    assert dict(answer["facts"])[f"scale {LIGHT_NAME}"] == fit.factors[LIGHT_NAME][0]
    assert [one["value"] for one in answer["searches"]] == [one.value for one in fit.searches]
    assert [one["place"] for one in answer["searches"]] == list(fit.searches.places)
    y, first, second = answer["curves"]
    assert [one["name"] for one in answer["curves"]] == ["y", f"{LIGHT_NAME} 0", f"{LIGHT_NAME} 1"]
    assert y["label"] == "x"
    assert_array_equal(y["x"], T)  # in order, though the data are not
    assert_array_equal(y["data"], Y)
    assert_array_equal(y["prediction"], fit.predictions["y"][::-1])
    assert_allclose(y["residual"], fit.predictions["y"][::-1] - Y, rtol=0, atol=1e-15)
    assert_array_equal(first["prediction"], fit.predictions[LIGHT_NAME][::-1, 0])  # with scale and offset
    assert_array_equal(second["band"], np.stack([side[LIGHT_NAME][::-1, 1] for side in fit.band()]))
    assert len(CALLED) == called
    assert path.read_bytes() == before
    again = room.fit({"had": answer["had"], "evaluations": answer["evaluations"]})
    assert "curves" not in again  # the page has them


def test_a_fit_that_goes_on_is_followed(fitted, tmp_path):
    whole, path = fitted[0].read_bytes().splitlines(keepends=True), tmp_path / "part.paoswarm"
    path.write_bytes(b"".join(whole[:2]))
    room = RunRoom(path)
    room.show({})
    assert room.fit({})["message"] == "No simulation has succeeded yet."
    known = None
    for count in (12, 30, len(whole)):
        path.write_bytes(b"".join(whole[:count]))
        room.show({})
        answer = room.fit({})
        assert answer["had"] != known
        known = answer["had"]
        _, f = ps.Store(path).read()
        best = ps.Store(path).outputs()[np.nanargmin(f)]
        assert_allclose(answer["curves"][0]["prediction"], best[7::-1], rtol=1e-15)  # at once, before any repetition
    _, answer = shown(path)
    assert answer["evaluations"] == fitted[1].nfev


def test_what_the_file_does_not_hold_is_a_sentence_and_the_data_are_shown(tmp_path):
    path = tmp_path / "own.paoswarm"

    class Own(ps.likelihoods.Normal):
        pass

    def decay(p):
        return p["a"] * np.exp(-p["k"] * T)

    space = {"a": (0.5, 10), "k": (0.1, 3)}
    constraint = ps.Constraint(lambda p: p["a"] * p["k"], ub=4)
    ps.fit(decay, space, np.nan_to_num(Y), constraints=constraint, maxfev=20, rng=1, store=ps.Store(path, "never"))
    _, answer = shown(path)
    assert answer["state"] == "none"
    assert answer["message"].startswith("own.paoswarm: the functions of constraints are not stored")
    assert len(answer["curves"][0]["prediction"]) == 8
    assert "band" not in answer["curves"][0]
    own = tmp_path / "law.paoswarm"
    ps.fit(decay, space, np.nan_to_num(Y), likelihood=Own(), maxfev=20, rng=1, store=ps.Store(own, "never"))
    _, answer = shown(own)
    assert answer["curves"] == []
    assert "Own" in answer["trouble"]


def test_residuals_have_no_data(tmp_path):
    path = tmp_path / "residuals.paoswarm"
    fit = ps.fit(lambda x: x[0] * T - 3 - NOISE, [(0.1, 5)], rng=1, store=ps.Store(path, "never"))
    _, answer = shown(path)
    (one,) = answer["curves"]
    assert (one["name"], one["label"], len(one["prediction"])) == ("", "number", 0)
    assert_array_equal(one["residual"], fit.residuals)
    assert np.isnan(one["data"]).all()
    assert "band" not in one


def test_many_data_are_thinned_out(tmp_path):
    t = np.linspace(0, 1, 10_000)
    path = tmp_path / "many.paoswarm"
    ps.fit(lambda p: p["a"] * t, {"a": (0.1, 5)}, 2 * t, sigma=1.0, rng=1, maxfev=8, store=ps.Store(path, "never"))
    _, answer = shown(path)
    (one,) = answer["curves"]
    assert len(one["x"]) == 2500
    assert_array_equal(one["data"], 2 * t[::4])


def test_the_answers_are_json_and_belong_to_fits(fitted, tmp_path):
    other = tmp_path / "other.paoswarm"
    ps.minimize(lambda x: float(x @ x), [(-1, 1)], maxfev=20, rng=1, store=ps.Store(other, "never"))

    def ask(page, **given):
        body = json.dumps(given).encode()
        request = urllib.request.Request(f"{page.address}api/fit", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read())

    with ps.explore([fitted[0], other]) as page:
        until(lambda: ask(page, run=0)["state"] == "ready")
        answer = ask(page, run=0)
        assert answer["names"] == ["a", "k"]
        assert answer["curves"][0]["prediction"]["shape"] == [8]
        with pytest.raises(urllib.error.HTTPError, match="422"):
            ask(page, run=1)


def test_the_terminal_names_the_places(tmp_path, monkeypatch):
    from paoswarm import cli

    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("day,cases\n1,2.1\n3,5.9\n2,4.0\n")
    command = ["--command", "printf 'day cases\\n0 0\\n4 %s\\n' {top}", "--bounds", "top=1,20", "--x", "day"]
    cli.main(["fit", *command, "--data", "d.csv", "--seed", "1", "--store", "f.paoswarm", "--maxfev", "20"])
    _, answer = shown(tmp_path / "f.paoswarm")
    (one,) = answer["curves"]
    assert (one["name"], one["label"]) == ("cases", "day")
    assert_array_equal(one["x"], [1, 2, 3])
    assert_array_equal(one["data"], [2.1, 4.0, 5.9])


def test_the_description_has_the_latest_limits(tmp_path):
    path = tmp_path / "f.paoswarm"
    for limit in (6, 9):
        ps.fit(lambda p: p["a"] * T, {"a": (0.1, 5)}, 2 * T, rng=1, maxfev=limit, store=ps.Store(path, trust=True))
    assert RunRoom(path).show({})["state"]["limits"]["maxfev"] == "9"
