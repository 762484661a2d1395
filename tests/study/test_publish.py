"""What people read: all of it is written, the numbers are the study's, and the same results give the same bytes."""

import csv
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import small
from matplotlib.figure import Figure
from synthetic import synthetic, with_cell

from paoswarm.study import figures, statistics
from paoswarm.study import publish as publish_module
from paoswarm.study.publish import publish
from paoswarm.study.report import Section


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def tiny():
    return synthetic(("sphere", "ackley"), (2, 5), ("PAO", "PSO", "DE"), runs=5, generations=6)


def test_everything_is_written_and_the_tables_hold_the_numbers_of_the_study(tiny, tmp_path):
    section = Section("What's more?", ["Some words."], ["A, B", "Verdict"], [['say "x", y', "holds"], ["ä", "partly"]])
    folder = tmp_path / "new" / "folder"
    report = publish(tiny, folder, sections=[section])
    assert report == folder / "report.html"
    assert contents(folder).keys() == {
        "report.html",
        "tables/comparisons.csv",
        "tables/ranks.csv",
        "tables/success.csv",
        "tables/summary.csv",
        "tables/whats-more.csv",
        "figures/convergence-2d.png",
        "figures/convergence-5d.png",
        "figures/runtimes-2d.png",
        "figures/runtimes-5d.png",
        "figures/ranks-1.png",
    }
    for name, content in contents(folder).items():
        assert content.startswith(b"\x89PNG") == name.endswith(".png")
    page = report.read_text(encoding="utf-8")
    assert "A synthetic study" in page
    assert "Some words." in page
    assert page.rstrip().endswith("</html>")
    assert_summary_of(tiny, table(folder / "tables" / "summary.csv"))
    assert_tests_ranks_and_successes_of(tiny, folder / "tables")
    rows = table(folder / "tables" / "whats-more.csv")
    assert rows == [{"A, B": 'say "x", y', "Verdict": "holds"}, {"A, B": "ä", "Verdict": "partly"}]


def assert_tests_ranks_and_successes_of(tiny, tables):
    expected = statistics.compare(tiny, tiny.groups["All"])
    rows = table(tables / "comparisons.csv")
    assert [(r["problem"], int(r["dim"]), r["method"], r["verdict"]) for r in rows] == [
        (c.problem, c.dim, c.method, c.verdict) for c in expected
    ]
    np.testing.assert_allclose([float(r["p_holm"]) for r in rows], [c.p_holm for c in expected], rtol=1e-5)
    ranks = statistics.average_ranks(tiny, tiny.groups["All"]).average
    found = {r["method"]: float(r["average_rank"]) for r in table(tables / "ranks.csv") if r["dim"] == "all"}
    assert found == pytest.approx(ranks, rel=1e-5)
    for row in table(tables / "success.csv"):
        final = tiny.final(row["problem"], int(row["dim"]), row["method"])
        assert float(row["success_rate"]) == pytest.approx(np.mean(final <= float(row["target"])), rel=1e-5)


def assert_summary_of(results, rows):
    assert [(row["problem"], int(row["dim"]), row["method"]) for row in rows] == [
        (problem, dim, method) for problem, dim in results.tasks() for method in results.methods
    ]
    for row in rows:
        final = results.final(row["problem"], int(row["dim"]), row["method"])
        by_hand = {"mean": final.mean(), "median": np.median(final), "best": final.min(), "worst": final.max()}
        for name, value in by_hand.items():
            np.testing.assert_allclose(float(row[name]), value, rtol=1e-5, err_msg=name)
        order = [float(row[name]) for name in ("best", "q10", "median", "q90", "worst")]
        assert order == sorted(order)
        assert float(row["mean_ci_low"]) <= float(row["mean"]) <= float(row["mean_ci_high"])
        assert float(row["median_ci_low"]) <= float(row["median"]) <= float(row["median_ci_high"])
        assert int(row["runs"]) == len(final)


def test_the_same_results_give_the_same_bytes_and_other_results_do_not(tmp_path):
    study = small(problems=["sphere"], dims=[2])
    one = study.run(tmp_path / "one")
    publish(one, tmp_path / "one")
    publish(study.run(tmp_path / "two"), tmp_path / "two")
    first = contents(tmp_path / "one")
    assert contents(tmp_path / "two") == first
    changed = with_cell(one, "sphere", 2, "PSO", 2 * one.trace("sphere", 2, "PSO").error)
    publish(changed, tmp_path / "two")
    now = contents(tmp_path / "two")
    written = {name for name in first if not name.startswith("runs/")}
    assert {name for name in written if now[name] != first[name]} >= {
        "report.html",
        "tables/summary.csv",
        "figures/convergence-2d.png",
    }


def test_each_group_has_its_figures_and_none_stays_open(tiny, tmp_path):
    open_before = plt.get_fignums()
    groups = {"Ours": ("PAO", "PSO"), "All": ("PAO", "PSO", "DE")}
    publish(replace(tiny, groups=groups, dims=(2,)), tmp_path)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "convergence-2d-1.png",
        "convergence-2d-2.png",
        "runtimes-2d.png",
        "ranks-1.png",
        "ranks-2.png",
    }
    assert plt.get_fignums() == open_before


def test_a_section_cannot_replace_the_summary_or_another_section(tmp_path):
    results = synthetic(("sphere",), (2,), ("PAO", "PSO"), runs=3, generations=4)
    titles = ["Summary", "One!", "One?"]
    publish(results, tmp_path, sections=[Section(title, [], ["it"], [[title]]) for title in titles])
    tables = [path.read_text(encoding="utf-8") for path in (tmp_path / "tables").iterdir()]
    assert len(tables) == 4 + 3
    assert sum(text.startswith("problem,dim,method,runs,mean") for text in tables) == 1


def test_runs_that_failed_can_be_published(tmp_path):
    results = synthetic(("sphere",), (2,), ("PAO", "PSO"), runs=3, generations=4)
    results = with_cell(results, "sphere", 2, "PSO", np.full((3, 4), np.inf))
    publish(results, tmp_path)
    pao, pso = table(tmp_path / "tables" / "summary.csv")
    assert float(pso["median"]) == np.inf
    assert np.isfinite(float(pao["median"]))


def test_old_figures_of_another_part_of_the_study_are_removed(tmp_path):
    one = synthetic(("sphere",), (2,), ("PAO", "PSO"), runs=5, generations=6)
    figures = tmp_path / "figures"
    figures.mkdir()
    for name in ("convergence-9d.png", "runtimes-9d.png", "ranks-7.png", "mine.png"):
        (figures / name).touch()
    publish(one, tmp_path)
    assert {path.name for path in figures.iterdir()} == {
        "convergence-2d.png",
        "runtimes-2d.png",
        "ranks-1.png",
        "mine.png",
    }


def test_cells_of_tables_are_no_formulas_and_numbers_stay_numbers(tmp_path):
    odd = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "-1.5e-300", "+inf", "-", "a=b", ""]
    publish_module._write_table(tmp_path / "odd.csv", ["=header"] * len(odd), [odd])
    with (tmp_path / "odd.csv").open(newline="", encoding="utf-8") as file:
        header, cells = csv.reader(file)
    assert header == ["'=header"] * len(odd)
    assert cells == [*(f"'{cell}" for cell in odd[:5]), "-1.5e-300", "+inf", "'-", "a=b", ""]


def test_figures_and_tables_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    """What an earlier call has written stays as it was if a later one dies while it writes."""

    def half(path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    def write():
        figures.save(Figure(), tmp_path / "one.png")
        publish_module._write_table(tmp_path / "one.csv", ["a"], [["1"]])

    write()
    before = contents(tmp_path)
    assert before.keys() == {"one.png", "one.csv"}
    for owner, name in ((publish_module.csv, "writer"), (Figure, "savefig")):
        monkeypatch.setattr(owner, name, lambda *given, **_: half(Path(getattr(given[-1], "name", given[-1]))))
        with pytest.raises(KeyboardInterrupt):
            write()
        assert contents(tmp_path) == before
