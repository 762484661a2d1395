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

import paoswarm as ps
from paoswarm.study import figures, statistics
from paoswarm.study import folder as publish_module
from paoswarm.study.folder import publish
from paoswarm.study.report import Section


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


SECTIONS = [
    Section("What's more?", ["Some words."], ["A, B", "Verdict"], [['say "x", y', "holds"], ["ä", "partly"]]),
    *(Section(title, [], ["it"], [[title]]) for title in ("Summary", "One!", "One?")),
]


@pytest.fixture(scope="module")
def tiny():
    return synthetic(("sphere", "ackley"), (2, 5), ("PAO", "PSO", "DE"), runs=5, generations=6)


@pytest.fixture(scope="module")
def published(tiny, tmp_path_factory):
    """A folder with figures of another study, and of somebody else, to which a study was published."""
    folder = tmp_path_factory.mktemp("published") / "new" / "folder"
    (folder / "figures").mkdir(parents=True)
    for name in ("convergence-9d.png", "runtimes-9d.png", "ranks-7.png", "mine.png"):
        (folder / "figures" / name).write_bytes(b"\x89PNG")
    assert publish(tiny, folder, sections=SECTIONS) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def of_two_groups(tiny, tmp_path_factory):
    """A folder with a study of two groups in which all runs of PSO have failed."""
    folder = tmp_path_factory.mktemp("groups")
    failed = with_cell(tiny, "sphere", 2, "PSO", np.full((5, 6), np.inf))
    groups = {"Ours": ("PAO", "PSO"), "All": ("PAO", "PSO", "DE")}
    publish(replace(failed, groups=groups, dims=(2,), problems=("sphere",)), folder)
    return folder


def test_everything_is_written_and_old_figures_of_another_study_are_removed(published):
    assert contents(published).keys() == {
        "report.html",
        "tables/comparisons.csv",
        "tables/ranks.csv",
        "tables/success.csv",
        "tables/summary.csv",
        "tables/whats-more.csv",
        "tables/summary-2.csv",
        "tables/one.csv",
        "tables/one-2.csv",
        "figures/convergence-2d.png",
        "figures/convergence-5d.png",
        "figures/runtimes-2d.png",
        "figures/runtimes-5d.png",
        "figures/ranks-1.png",
        "figures/mine.png",
    }
    for name, content in contents(published).items():
        assert content.startswith(b"\x89PNG") == name.endswith(".png")
    page = (published / "report.html").read_text(encoding="utf-8")
    assert "A synthetic study" in page
    assert "Some words." in page
    assert page.rstrip().endswith("</html>")


def test_the_tables_hold_the_numbers_of_the_study(tiny, published):
    assert_summary_of(tiny, table(published / "tables" / "summary.csv"))
    assert_tests_ranks_and_successes_of(tiny, published / "tables")
    rows = table(published / "tables" / "whats-more.csv")
    assert rows == [{"A, B": 'say "x", y', "Verdict": "holds"}, {"A, B": "ä", "Verdict": "partly"}]


def test_a_section_cannot_replace_the_summary_or_another_section(published):
    for name, title in (("summary-2", "Summary"), ("one", "One!"), ("one-2", "One?")):
        assert table(published / "tables" / f"{name}.csv") == [{"it": title}]


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


@pytest.mark.slow  # in short: test_cli.py::test_a_study_from_a_file_to_its_report, and test_figures.py
def test_the_same_results_give_the_same_bytes_other_results_do_not_and_no_figure_stays_open(tmp_path):
    study = small(problems=["sphere"], dims=[2], methods={"PSO": ps.classic.PSO()})
    one = study.run(tmp_path / "one")
    open_before = plt.get_fignums()
    publish(one, tmp_path / "one")
    assert plt.get_fignums() == open_before
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


def test_each_group_has_its_figures(of_two_groups):
    assert {path.name for path in (of_two_groups / "figures").iterdir()} == {
        "convergence-2d-1.png",
        "convergence-2d-2.png",
        "runtimes-2d.png",
        "ranks-1.png",
        "ranks-2.png",
    }


def test_runs_that_failed_can_be_published(of_two_groups):
    pao, pso, de = table(of_two_groups / "tables" / "summary.csv")
    assert float(pso["median"]) == np.inf
    assert np.isfinite([float(pao["median"]), float(de["median"])]).all()


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
    in_half = (
        (publish_module.csv, "writer", lambda file, **_: half(Path(file.name))),
        (Figure, "savefig", lambda figure, path, **_: half(path)),
    )
    for owner, name, broken in in_half:
        monkeypatch.setattr(owner, name, broken)
        with pytest.raises(KeyboardInterrupt):
            write()
        assert contents(tmp_path) == before
