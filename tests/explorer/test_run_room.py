"""What the run room says about a store is what the store holds, however the page came to know it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from written_stores import evaluation, header, opened, write

import paoswarm as ps
from paoswarm.explorer import run_views as views
from paoswarm.explorer.run_room import RunRoom
from paoswarm.explorer.server import Answers

MESSAGE = '<script>alert(1)</script> & "quotes" at 4.25'


def valley(x):
    if x[0] > 4:
        raise ValueError(MESSAGE)
    return float(((x - 1) ** 2).sum())


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.paoswarm"
    with pytest.warns(RuntimeWarning, match="raised"):
        result = ps.minimize(
            valley,
            [(-5, 5), (-4, 6)],
            method=ps.PAO(),
            n_particles=20,
            maxiter=20,
            rng=1,
            store=ps.Store(path, "never"),
        )
    return path, result


class Page:
    """A page that keeps what it has and asks for the rest, as the script does."""

    def __init__(self, room, **more):
        self.room, self.more, self.points, self.known = room, more, {}, {"epoch": -1, "since": 0}

    def ask(self):
        answer = self.room.show({**self.known, **self.more})
        if "rows" in answer:
            if answer["epoch"] != self.known["epoch"]:
                self.points = {}
            kept = {row: point for row, point in self.points.items() if row % answer["stride"] == 0}
            rows = answer["rows"]
            self.points = kept | {
                int(row): (f, *x) for row, f, x in zip(rows["row"], rows["f"], rows["x"], strict=True)
            }
            self.answer = answer
        self.known = {"epoch": answer["epoch"], "since": answer["total"]}
        return answer


def test_rows_and_best_are_those_of_the_store(stored):
    path, result = stored
    answer, (x, f) = RunRoom(path).show({}), ps.Store(path).read()
    assert_array_equal(answer["rows"]["x"], x)
    assert_array_equal(answer["rows"]["f"], f)
    assert answer["state"]["best"] == result.fun
    assert answer["state"]["where"] == result.x.tolist()
    assert answer["state"]["evaluations"] == answer["total"] == len(f) == result.nfev
    assert answer["state"]["word"] == "ended"
    assert answer["top"]["f"][0] == result.fun
    assert answer["lines"][0]["value"][-1] == result.fun
    assert_array_equal(answer["lower"], [-5, -4])
    assert_array_equal(answer["upper"], [5, 6])
    assert answer["names"] == ["x0", "x1"]


def test_the_line_is_the_running_minimum(stored):
    _, f = ps.Store(stored[0]).read()
    line = RunRoom(stored[0]).show({})["lines"][0]
    best, rows = np.inf, []
    for row, value in enumerate(f):
        if value < best:
            best = value
            rows.append(row)
    assert_array_equal(line["row"], rows)
    assert_array_equal(line["value"], f[rows])


def test_profiles_and_pairs_hold_the_lowest_value_of_each_interval(stored):
    room, (x, f) = RunRoom(stored[0]), ps.Store(stored[0]).read()
    profiles = room.show({})["profiles"]
    for j, (low, high) in enumerate([(-5, 5), (-4, 6)]):
        for k in range(profiles.shape[1]):
            width = (high - low) / profiles.shape[1]
            inside = (x[:, j] >= low + k * width) & (x[:, j] < low + (k + 1) * width) & ~np.isnan(f)
            if inside.any() and k < profiles.shape[1] - 1:
                assert abs(profiles[j, k] - f[inside].min()) < 1e-12 or np.isclose(x[inside, j], low + k * width).any()
    pair = room.pair({"across": 1, "up": 0})
    assert np.nanmin(pair["best"]) == np.nanmin(f)
    best = x[np.nanargmin(f)]
    i, j = (int((best[k] - low) / 10 * len(pair["best"])) for k, low in ((0, -5), (1, -4)))
    assert pair["best"][i, j] == np.nanmin(f)


def test_views_zoom_to_the_best_share(stored):
    room, (x, f) = RunRoom(stored[0]), ps.Store(stored[0]).read()
    answer = room.show({"share": 0.1})
    (low, high), (first, last) = answer["window"], answer["range"]
    assert ((answer["lower"] <= low) & (low < first) & (last < high) & (high <= answer["upper"])).all()
    inside = np.isfinite(f) & (x[:, 0] >= low[0]) & (x[:, 0] <= high[0])
    assert np.nanmin(answer["profiles"][0]) == f[inside].min()
    assert np.nanmax(answer["profiles"][0]) <= f[inside].max()
    pair = room.pair({"share": 0.1})
    assert_array_equal([pair["lower"], pair["upper"]], answer["window"])
    both = inside & (x[:, 1] >= low[1]) & (x[:, 1] <= high[1])
    assert np.isfinite(pair["best"]).sum() <= both.sum()
    assert np.nanmin(pair["best"]) == f[both].min()


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1, 0.001])
def test_the_best_share_is_that_share(stored, share):
    answer, (x, f) = RunRoom(stored[0]).show({"share": share}), ps.Store(stored[0]).read()
    good = f <= answer["threshold"]
    assert good.sum() == max(1, np.ceil(share * np.isfinite(f).sum()))
    assert_array_equal(answer["range"], [x[good].min(axis=0), x[good].max(axis=0)])


def test_failures_are_counted_by_kind_and_shown_as_they_are(stored):
    failures, f = RunRoom(stored[0]).show({})["failures"], ps.Store(stored[0]).read()[1]
    assert failures["count"] == np.isnan(f).sum() > 0
    assert [(count, example) for _, count, example in failures["kinds"]] == [
        (failures["count"], f"raised ValueError: {MESSAGE}")
    ]
    assert_array_equal(np.sort(failures["number"]), np.flatnonzero(np.isnan(f)))


def test_messages_that_differ_in_numbers_are_one_kind():
    why = {0: "too hot at 4.25", 1: "too hot at -1e-7", 2: "too cold at 3"}
    rows, kinds = views.failures(np.array([True] * 4), why)
    assert rows.tolist() == [3, 2, 1, 0]
    assert kinds == [
        ("too hot at #", 2, "too hot at 4.25"),
        ("too cold at #", 1, "too cold at 3"),
        ("returned NaN", 1, "returned NaN"),
    ]


@pytest.mark.parametrize("cut", [1, 2, 3, 50, 300])
def test_a_growing_file_is_followed(stored, tmp_path, cut):
    lines = stored[0].read_bytes().splitlines(keepends=True)
    path = tmp_path / "growing.paoswarm"
    path.write_bytes(b"".join(lines[:cut]) + lines[cut][:10])  # an unfinished record at the end
    page = Page(RunRoom(path))
    assert page.ask()["total"] == max(0, cut - 2)
    with path.open("r+b") as file:
        file.truncate(sum(map(len, lines[:cut])))
    for first in range(cut, len(lines), 37):
        with path.open("ab") as file:
            file.write(b"".join(lines[first : first + 37]))
        page.ask()
    fresh = Page(RunRoom(stored[0]))
    fresh.ask()
    assert page.points.keys() == fresh.points.keys()
    assert all(np.array_equal(page.points[row], fresh.points[row], equal_nan=True) for row in fresh.points)
    assert page.answer["state"]["best"] == fresh.answer["state"]["best"]
    assert page.answer["failures"]["count"] == fresh.answer["failures"]["count"]


def test_rows_are_thinned_out_and_the_best_are_kept(stored, monkeypatch, tmp_path):
    monkeypatch.setattr(views, "_MOST_ROWS", 60)
    lines = stored[0].read_bytes().splitlines(keepends=True)
    path = tmp_path / "growing.paoswarm"
    path.write_bytes(b"".join(lines[:40]))
    page = Page(RunRoom(path))
    page.ask()
    assert len(page.points) == 38
    with path.open("ab") as file:
        file.write(b"".join(lines[40:]))
    answer = page.ask()
    assert answer["stride"] == 8
    assert sorted(page.points) == list(range(0, 420, 8))
    assert answer["top"]["f"][0] == answer["state"]["best"]
    assert "rows" not in page.ask()  # nothing is sent twice


def test_many_runs_have_a_line_each(tmp_path):
    path = tmp_path / "many.paoswarm"
    many = ps.minimize_many(
        lambda x: float((x**2).sum()), [(-5, 5)] * 2, runs=3, n_particles=10, maxiter=5, rng=1, store=path
    )
    lines = RunRoom(path).show({})["lines"]
    assert [line["value"][-1] for line in lines] == many.fun.tolist()


def test_polishing_that_was_set_aside_is_gone(tmp_path):
    path, options = tmp_path / "run.paoswarm", {"n_particles": 10, "rng": 1, "polish": True, "method": ps.PAO()}

    def bowl(x):
        return float(((x - 0.3) ** 2).sum())

    ps.minimize(bowl, [(-5, 5)] * 2, maxiter=5, store=path, **options)
    room = RunRoom(path)
    page = Page(room)
    page.ask()
    ps.minimize(bowl, [(-5, 5)] * 2, maxiter=9, store=path, **options)
    page.ask()
    x, f = ps.Store(path).read()
    assert_array_equal([page.points[row][0] for row in sorted(page.points)], f)
    assert_array_equal([page.points[row][1:] for row in sorted(page.points)], x)
    assert page.known["epoch"] > 0


def test_names_are_read_where_there_are_any(tmp_path):
    records = [opened(), evaluation(0, 1.0, 2.0)]
    named = write(tmp_path / "a", header(names=["<b>k</b>", "rate"]), records)
    assert RunRoom(named).show({})["names"] == ["<b>k</b>", "rate"]
    for i, wrong in enumerate((["only one"], [1, 2], "ab", None)):
        path = write(tmp_path / f"wrong{i}", header(names=wrong), records)
        assert RunRoom(path).show({})["names"] == ["x0", "x1"]


def test_names_and_bounds_of_a_space_are_read(tmp_path):
    head = header()
    entries = [["rate", [1e-3, 1e3]], ["kind", {"paoswarm": "Choice", "with": {"entries": ["a", "b", "c"]}}]]
    head["run"]["problem"]["bounds"] = {"items": entries}
    path = write(tmp_path / "space", head, [opened(), evaluation(0, 1.0, 2.0, (5.0, 2.0))])
    answer = RunRoom(path).show({})
    assert answer["names"] == ["rate", "kind"]
    assert_array_equal([answer["lower"], answer["upper"]], [[1e-3, -0.5], [1e3, 2.5]])
    assert (answer["entries"], answer["is_log"]) == ([None, ["a", "b", "c"]], [False, False])
    entries[0][1] = {"paoswarm": "Real", "with": {"low": 2, "high": 7, "log": True}}
    entries[1][1] = {"own": "something"}
    path = write(tmp_path / "other", head, [opened(), *(evaluation(i, 1.0, 2.0, (5.0, i)) for i in range(4))])
    answer = RunRoom(path).show({})
    assert_array_equal([answer["lower"], answer["upper"]], [[2, 0], [7, 3]])  # the range of the points
    assert (answer["entries"], answer["is_log"]) == ([None, None], [True, False])
    path = write(tmp_path / "crafted", head, [opened(), evaluation(0, 1.0, 2.0, (-5.0, 0.0))])  # no logarithm
    assert RunRoom(path).show({})["is_log"] == [False, False]


@pytest.fixture(scope="module")
def in_a_space(tmp_path_factory):
    """Values over six decades of a rate, for three kernels."""
    path = tmp_path_factory.mktemp("space") / "run.paoswarm"
    space = {"rate": ps.Real(1e-3, 1e3, log=True), "kernel": ps.Choice(["rbf", "matern", max])}
    cost = {"rbf": 1.0, "matern": 0.0, max: 2.0}
    how = {"method": ps.PAO(), "n_particles": 30, "maxiter": 8, "rng": 1, "store": ps.Store(path, "never")}
    ps.minimize(lambda p: (np.log10(p["rate"]) - 1) ** 2 + cost[p["kernel"]], space, **how)
    return path


@pytest.mark.parametrize("share", [1.0, 0.2, 0.001])
def test_logarithmic_scales_have_equal_factors_and_choices_one_value_each(in_a_space, share):
    room, (x, f) = RunRoom(in_a_space), ps.Store(in_a_space).read()
    answer = room.show({"share": share})
    assert answer["is_log"] == [True, False]
    assert answer["entries"] == [None, ["rbf", "matern", "max"]]
    (low, first), (high, last) = answer["window"]
    n = answer["profiles"].shape[1]
    place = np.log(x[:, 0] / low) / np.log(high / low) * n
    for k in range(n):
        inside = np.floor(place) == k
        if inside.any() and not np.isclose(place, k).any() and not np.isclose(place, k + 1).any():  # on an edge
            assert_allclose(answer["profiles"][0, k], f[inside].min(), rtol=1e-12)
    assert {first % 1, last % 1} == {0.5}  # whole entries
    middle = first + (np.arange(n) + 0.5) * (last - first) / n
    is_inside = (x[:, 0] >= low) & (x[:, 0] <= high)
    for entry in range(3):
        drawn = answer["profiles"][1][np.round(middle) == entry]
        if first < entry < last:
            assert_array_equal(drawn, f[x[:, 1] == entry].min())
        else:
            assert drawn.size == 0
    pair = room.pair({"share": share, "across": 0, "up": 1})
    assert_array_equal([pair["lower"], pair["upper"]], answer["window"])
    assert np.nanmin(pair["best"]) == f.min() == f[is_inside].min()
    up = first + (np.arange(len(pair["best"])) + 0.5) * (last - first) / len(pair["best"])
    for entry in np.unique(np.round(up)):
        rows = pair["best"][np.round(up) == entry]
        assert_array_equal(rows, np.broadcast_to(rows[0], rows.shape))


def test_values_without_sense_do_no_harm(tmp_path):
    records = [
        opened(),
        evaluation(0, 1.0, "inf"),
        evaluation(1, 1.0, None, ("nan", "inf"), why={"0": "x" * 10_000}),
        evaluation(2, 0.5, 1e308, (1e308, -1e308)),
        evaluation(3, 2.0, -1e308),
    ]
    path = write(tmp_path / "odd", header(bounds=((5, -5), (0, 0)), runs=0), records)
    answer = Answers([path]).answer("run", {"share": 0.5, "since": -5, "epoch": "x", "run": 0})
    assert answer["total"] == 4
    assert answer["failures"]["count"] == 1
    assert len(answer["failures"]["why"][0]) <= 500
    assert (answer["lower"] < answer["upper"]).all()


class TestTrouble:
    def test_a_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            ps.explore(tmp_path / "nothing.paoswarm")

    def test_a_file_of_another_program(self, tmp_path):
        path = tmp_path / "notes.txt"
        path.write_text("hello")
        with pytest.raises(ps.errors.StoreError, match="is not a paoswarm store"):
            ps.explore(path)

    def test_a_folder(self, tmp_path):
        with pytest.raises(ps.errors.StoreError, match="is not a regular file"):
            ps.explore(tmp_path)

    def test_a_damaged_file(self, stored, tmp_path):
        path = tmp_path / "damaged.paoswarm"
        content = stored[0].read_bytes()
        path.write_bytes(content.replace(b'"f":', b'"g":', 5))
        with pytest.raises(ps.errors.StoreError, match="is damaged in line"):
            ps.explore(path)

    def test_damage_that_comes_later_is_said_and_what_was_read_stays(self, stored, tmp_path):
        path = tmp_path / "run.paoswarm"
        path.write_bytes(stored[0].read_bytes())
        room = RunRoom(path)
        before = room.show({})
        with path.open("ab") as file:
            file.write(b'{"i":0,"crc":"00000000"}\n{"i":1}\n')
        after = room.show({})
        assert "is damaged in line" in after["state"]["trouble"]
        assert after["total"] == before["total"]

    def test_a_file_that_is_removed_or_replaced(self, stored, tmp_path):
        path = write(tmp_path / "run.paoswarm", header(), [opened(), evaluation(0, 1.0, 2.0)])
        room = RunRoom(path)
        page = Page(room)
        page.ask()
        path.unlink()
        assert "No such file" in page.ask()["state"]["trouble"]
        path.write_bytes(stored[0].read_bytes())
        answer = page.ask()
        assert answer["state"]["trouble"] == ""
        assert answer["total"] == len(page.points) == 420

    def test_a_run_that_has_not_started(self, tmp_path):
        path = tmp_path / "empty.paoswarm"
        path.touch()
        room = RunRoom(path)
        assert room.show({})["state"]["word"] == "empty"
        write(path, header(), [opened(), evaluation(0, 1.0, 2.0)])
        answer = room.show({})
        assert (answer["total"], answer["state"]["word"]) == (1, "running")

    def test_only_samples_have_a_posterior(self, stored):
        with pytest.raises(ValueError, match="holds no run of sample"):
            RunRoom(stored[0]).posterior({})
