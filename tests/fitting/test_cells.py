"""Whole numbers and choices: the map to cells, and the best cell by brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.fitting.cube import Cube
from paoswarm.run.read_input import read_space

T = np.linspace(0, 4, 20)
MIXED = {
    "a": (2.0, 6.0),
    "order": ps.Integer(1, 4),
    "kind": ps.Choice(["exp", "power", "line"]),
    "fixed": 7.0,
    "rate": ps.Real(0.01, 1.0, log=True),
    "phase": ps.Periodic(0.0, 1.0),
}


def test_every_combination_is_a_cell_once():
    space = read_space(MIXED)
    cube = Cube(space)
    assert cube.n == 3
    assert len(cube.cells) == 12
    assert_array_equal(cube.is_round, [False, False, True])
    seen = set()
    for cell in range(12):
        p = space.given(cube.row(np.array([0.25, 0.5, 0.75]), cell))
        assert_allclose([p["a"], p["rate"], p["phase"], p["fixed"]], [3.0, 0.1, 0.75, 7.0])
        seen.add((p["order"], p["kind"]))
    assert seen == {(n, kind) for n in (1, 2, 3, 4) for kind in ("exp", "power", "line")}


def test_rows_are_placed_where_they_come_from():
    cube = Cube(read_space(MIXED))
    rng = np.random.default_rng(1)
    points, cells = rng.random((60, 3)), rng.integers(0, 12, 60)
    rows = np.array([cube.row(point, cell) for point, cell in zip(points, cells.tolist(), strict=True)])
    found, places = cube.place(rows)
    assert_allclose(found, points, atol=1e-12)
    assert_array_equal(places, cells)


def test_spaces_without_whole_numbers_have_one_cell():
    cube = Cube(read_space([(0, 1), (2, 4)]))
    assert cube.cells.shape == (1, 2)
    assert_allclose(cube.row(np.array([0.5, 0.5])), [0.5, 3.0])


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(ValueError, match="needs a continuous unknown"):
        Cube(read_space({"n": ps.Integer(0, 3)}))
    with pytest.raises(ValueError, match="have 65 combinations"):
        Cube(read_space({"x": (0, 1), "n": ps.Integer(1, 13), "m": ps.Integer(1, 5)}))


def simulate(p):
    shapes = {"exp": np.exp(-p["rate"] * T), "power": (1 + T) ** -p["rate"], "line": 1 - 0.3 * p["rate"] * T}
    return p["a"] * shapes[p["kind"]] ** p["order"]


SPACE = {"a": (0.5, 9.0), "order": ps.Integer(1, 3), "kind": ps.Choice(["exp", "power", "line"]), "rate": (0.05, 1.0)}
TRUTH = {"a": 5.0, "order": 2, "kind": "power", "rate": 0.8}
DATA = simulate(TRUTH) + 0.02 * np.random.default_rng(2).normal(size=20)


def brute_force():
    """The best fit of each combination."""
    found = {}
    for order in (1, 2, 3):
        for kind in ("exp", "power", "line"):
            space = SPACE | {"order": order, "kind": kind}
            found[order, kind] = ps.fit(simulate, space, DATA, rng=1).fun
    return found


def test_the_best_combination_is_that_of_brute_force():
    each = brute_force()
    fit = ps.fit(simulate, SPACE, DATA, rng=1)
    best = min(each, key=each.get)
    assert_allclose(fit.fun, each[best], rtol=1e-6)
    # (1 + t) ** -(rate * order): orders of the power law are equally good as far as rates allow
    assert_allclose(each[fit.best["order"], fit.best["kind"]], each[best], rtol=1e-6)
    assert fit.best["kind"] == "power"
    ended = {}
    for search in fit.searches:
        ended[tuple(np.round(search.x[1:-1], 3))] = ended.get(tuple(np.round(search.x[1:-1], 3)), 0) + 1
    assert len(ended) == 9
    assert min(ended.values()) >= 2  # no combination is dismissed after one search
    single = ps.fit(simulate, SPACE | {"order": fit.best["order"], "kind": fit.best["kind"]}, DATA, rng=1)
    assert_allclose(fit.standard_errors, single.standard_errors, rtol=1e-3)
    assert fit.uncertainty.held == {"order": fit.best["order"], "kind": fit.best["kind"]}


def test_starts_are_searched_in_their_own_combination():
    seen = []

    def watched(p):
        seen.append((p["order"], p["kind"]))
        return simulate(p)

    ps.fit(watched, SPACE, DATA, x0={"a": 5.0, "order": 3, "kind": "line", "rate": 0.5}, rng=1, maxfev=9)
    assert (3, "line") in seen[:9]
    fit = ps.fit(simulate, SPACE, DATA, x0=TRUTH, rng=1, maxfev=200)
    assert fit.fun <= ((simulate(TRUTH) - DATA) ** 2).sum()


def test_a_combination_that_always_fails_is_left():
    def broken(p):
        return np.full(20, np.nan) if p["kind"] == "exp" else simulate(p)

    fit = ps.fit(broken, SPACE | {"order": 2}, DATA, rng=1, maxfev=600)
    assert fit.best["kind"] == "power"
    assert_allclose(fit.fun, ps.fit(simulate, SPACE | {"order": 2, "kind": "power"}, DATA, rng=1).fun, rtol=1e-6)
