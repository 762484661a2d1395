"""The page: names are text, numbers are the study's, nothing is loaded, and the same study gives the same bytes."""

import hashlib
import json
import os
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from numpy.testing import assert_allclose
from synthetic import study_of, synthetic, with_cell

from paoswarm.study import report, statistics
from paoswarm.study.report import Section, render, write
from paoswarm.study.sentences import findings, standings, verdict

pytest.importorskip("jinja2")
plotly = pytest.importorskip("plotly.offline")
pytest.importorskip("matplotlib")


def tiny(seed=1):
    return synthetic(("sphere",), (2,), ("PAO", "PSO"), runs=2, generations=3, seed=seed)


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a & b",
    "\"double\" 'single'",
    "$x$",
    "{{ 7 * 7 }}",
    "line\u2028separator",
]
LOADING = {"src", "href", "xlink:href", "srcset", "action", "formaction", "poster", "data", "background", "cite"}


class Page(HTMLParser):
    """The page as a browser would take it apart: elements, their text, and what could run or load."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.text, self.raw = [], [], {}
        self.inside = None
        self.feed(source)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside in ("script", "style"):
            self.raw.setdefault(self.inside, []).append(data)
        else:
            self.text.append(data)

    @property
    def data(self):
        return json.loads(self.raw["script"][0])

    def loads(self):
        """What the page would fetch."""
        found = [a[k] for _, a in self.elements for k in LOADING & set(a) if not a[k].startswith(("#", "data:"))]
        for css in [*self.raw.get("style", []), *(a.get("style", "") for _, a in self.elements)]:
            found += re.findall(r"@import|url\(", css)
        return found

    def handlers(self):
        return [k for _, a in self.elements for k in a if k.startswith("on")]


def hostile():
    """A study whose every name wants to be markup. One problem has all the names: each would be one more picture."""
    problem = "".join(HOSTILE)
    first = synthetic(problems=[problem], dims=(2,), methods=HOSTILE, runs=2, generations=3)
    return replace(
        first,
        title=f"Title {HOSTILE[0]}",
        groups={f"Group {name}": first.methods[: i + 1] for i, name in enumerate(HOSTILE[:3])},
        titles={problem: f"Problem {problem}"},
        descriptions={name: f"Description {name}" for name in HOSTILE},
        facts={f"Fact {HOSTILE[0]}": HOSTILE[1]},
    )


SECTIONS = [
    Section(
        "The paper's claims",
        ["Words."],
        ["Claim", "Verdict"],
        [["fast", "holds"], ["holds", "partly"], ["easy", "does not hold"]],
    )
]


@pytest.fixture(scope="module")
def results():
    first = synthetic(methods=("PAO", "PSO", "DE", "Random"), runs=6, generations=200)
    final = np.full((6, 3), np.inf)
    final[:5] = [3.0, 2.0, 0.0]
    first = with_cell(first, "sphere", 2, "PSO", final, evaluations=[10, 20, 30])
    return with_cell(first, "sphere", 2, "DE", np.zeros((6, 2)))


@pytest.fixture(scope="module")
def source(results):
    return render(results, sections=SECTIONS)


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


@pytest.fixture(scope="module")
def hostile_page():
    return Page(render(hostile(), sections=[Section(f"Section {HOSTILE[0]}", HOSTILE, HOSTILE, [HOSTILE])]))


@pytest.fixture
def pictures_are_empty(monkeypatch):
    """Pictures take most of the time of a page; this is for tests of what is not in them."""
    monkeypatch.setattr(report, "_image", lambda figure: "data:image/svg+xml;base64,")
    for name in ("convergence_grid", "rank_plot"):
        monkeypatch.setattr(report.figures, name, lambda *_: None)


class TestHostileNames:
    @pytest.mark.parametrize(
        "name", ["Problem " + "".join(HOSTILE), *(f"Description {name}" for name in HOSTILE), *HOSTILE]
    )
    def test_they_are_shown_as_text(self, hostile_page, name):
        assert any(name in text for text in hostile_page.text)

    def test_title_facts_groups_and_sections_too(self, hostile_page):
        for start in ("Title ", "Fact ", "Group ", "Section "):
            assert any(start + HOSTILE[0] in text for text in hostile_page.text)

    def test_they_make_no_element_and_no_handler(self, hostile_page):
        assert hostile_page.handlers() == []
        assert sum(tag == "script" for tag, _ in hostile_page.elements) == 3
        images = [a["src"] for tag, a in hostile_page.elements if tag == "img"]
        assert len(images) == 6  # convergence and ranks, one dimension, three groups
        assert all(src.startswith("data:image/svg+xml;base64,") for src in images)

    def test_they_survive_json_without_markup(self, hostile_page):
        raw = hostile_page.raw["script"][0]
        assert not re.search("[<>&\u2028\u2029]", raw)
        assert [method["name"] for method in hostile_page.data["methods"]] == HOSTILE
        assert [problem["title"] for problem in hostile_page.data["problems"]] == ["Problem " + "".join(HOSTILE)]

    def test_they_cannot_leave_their_address(self, hostile_page):
        links = [a["href"] for tag, a in hostile_page.elements if tag == "a"]
        assert all(re.fullmatch(r"#[\w\-.~%+=&]+", link) for link in links)

    def test_the_checks_would_notice(self):
        bad = Page(
            '<p>x<img src=x onerror=alert(1)><link href="https://a.b/c"><style>@import "d"; e { color: url(f) }</style>'
        )
        assert bad.handlers() == ["onerror"]
        assert bad.loads() == ["x", "https://a.b/c", "@import", "url("]


class TestOnePage:
    def test_it_loads_nothing(self, page):
        assert page.loads() == []

    def test_its_policy_forbids_the_network_and_names_its_scripts(self, page):
        (policy,) = (a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
        assert "default-src 'none'" in policy
        assert "http" not in policy
        _, *scripts = page.raw["script"]
        digests = [b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
        assert re.findall("'sha256-([^']*)'", policy) == digests

    @pytest.mark.slow
    def test_the_same_results_give_the_same_bytes_in_another_process(self):
        code = (
            "import hashlib; from test_report import tiny; from paoswarm.study.report import render;"
            "print(hashlib.sha256(render(tiny()).encode()).hexdigest())"
        )
        here = hashlib.sha256(render(tiny()).encode()).hexdigest()
        path = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path}
        there = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        assert there.stdout.strip() == here
        assert hashlib.sha256(render(tiny(seed=2)).encode()).hexdigest() != here

    @pytest.mark.slow
    def test_a_study_of_18_tasks_and_8_methods_stays_small(self):
        nine = tuple(f"problem {i}" for i in range(9))
        big = synthetic(nine, (10, 30), tuple("ABCDEFGH"), runs=3, generations=400)
        assert len(render(big).encode()) - len(plotly.get_plotlyjs().encode()) < 3e6

    def test_every_table_has_a_caption_and_every_control_a_label(self, source):
        assert source.count("<table") == source.count("<caption")
        controls = re.findall(r"<(?:select|input)\b", source.split("<script")[0])
        labels = re.findall(r"<label>(?:(?!</label>).)*<(?:select|input)\b", source.split("<script")[0], re.S)
        assert len(controls) == len(labels) > 10

    def test_the_findings_are_on_it(self, page, results):
        text = " ".join(page.text)
        assert all(paragraph in text for paragraph in findings(results))


class TestNumbers:
    def test_the_lines_are_the_bands(self, page, results):
        data = page.data
        for i, dim in enumerate(results.dims):
            for j, problem in enumerate(results.problems):
                for k, method in enumerate(results.methods):
                    cell, band = data["cells"][i][j][k], statistics.band(results, problem, dim, method)
                    grid = data["grids"][cell["grid"]]
                    assert len(grid) <= report.POINTS
                    assert (grid[0], grid[-1]) == (band.evaluations[0], band.evaluations[-1])
                    kept = np.isin(band.evaluations, grid)
                    for name in ("mean", "median", "low", "high"):
                        drawn = np.array([float(value) for value in cell[name]])
                        assert_allclose(drawn, getattr(band, name)[kept], rtol=1e-4)

    def test_final_errors_and_running_times(self, page, results):
        cell = page.data["cells"][0][0][1]  # sphere in 2 dimensions, PSO: five zeros and one run that never was finite
        assert cell["final"] == {
            "mean": "Infinity", "median": 0.0, "low": 0.0, "high": "Infinity", "best": 0.0, "worst": "Infinity",
            "interval": cell["final"]["interval"],
        }  # fmt: skip
        assert cell["success"][-1] == [0.83333, 36.0]  # five runs need 30 evaluations each, the sixth spends 30 in vain
        for k, method in enumerate(results.methods):
            for target, found in zip(report.TARGETS, page.data["cells"][1][2][k]["success"], strict=True):
                wanted = statistics.success(results, "rastrigin", 5, method, float(target))
                assert_allclose([float(value) for value in found], wanted, rtol=1e-4)

    def test_runtime_distributions(self, page, results):
        for dims, curves in zip([(2,), (5,), (2, 5)], page.data["runtimes"], strict=True):
            for method, curve in zip(results.methods, curves, strict=True):
                ecdf = statistics.ecdf(results, method, dims)
                assert len(curve["x"]) <= report.POINTS
                kept = np.searchsorted(ecdf.evaluations, np.multiply(curve["x"], 1 - 2e-5))
                assert_allclose(curve["x"], ecdf.evaluations[kept], rtol=1e-4)
                assert_allclose(curve["y"], ecdf.share[kept], rtol=1e-4)
                assert kept[0] == 0
                assert kept[-1] == len(ecdf.evaluations) - 1

    def test_infinity_and_zero_in_the_table(self, page):
        cells = [a for tag, a in page.elements if tag == "td" and "data-mean" in a]
        assert (cells[1]["data-mean"], cells[1]["data-median"]) == ("Infinity", "0.0")
        assert "∞" in page.text

    @pytest.mark.usefixtures("pictures_are_empty")
    def test_nan_is_a_dash(self):
        source = render(tiny())  # no Friedman test of two methods
        assert "<td>–</td>" in source
        assert "<td>nan</td>" not in source

    @pytest.mark.usefixtures("pictures_are_empty")
    def test_the_best_of_a_row_is_marked(self):
        final = {
            "tie": {"PAO": [1.0], "PSO": [1.0], "DE": [2.0]},
            "tiny": {"PAO": [1e-60], "PSO": [0.0], "DE": [1e-40]},
            "never": {"PAO": [np.inf], "PSO": [np.inf], "DE": [np.inf]},
        }
        page = Page(render(study_of(final)))
        marks = [bool(a["class"]) for tag, a in page.elements if tag == "td" and "data-mean" in a]
        assert marks == [True, True, False, True, True, False, False, False, False]

    @pytest.mark.usefixtures("pictures_are_empty")
    def test_mean_and_median_have_their_own_best(self):
        page = Page(render(study_of({"sphere": {"PAO": [1.0, 1.0, 1.0], "PSO": [0.0, 0.0, 9.0]}})))
        assert [a["class"] for tag, a in page.elements if "data-mean" in a] == ["best-mean", "best-median"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"methods": ("PAO",), "problems": ("sphere", "ackley")},
            "1 method was run 10 times on 2 problems in 2 and 5 dimensions, with 200 evaluations",
        ),
        (
            {"runs": 1, "dims": (1,), "problems": ("sphere",)},
            "3 methods were run once on 1 problem in 1 dimension, with",
        ),
        ({"methods": ("PAO",), "runs": 1, "dims": (3,), "problems": ("f",), "generations": 1}, "with 10 evaluations"),
    ],
)
def test_small_studies(options, said):
    page = Page(render(synthetic(**options)))
    assert any(said in text for text in page.text)
    cells = page.data["cells"]
    results = synthetic(**options)
    assert (len(cells), len(cells[0]), len(cells[0][0])) == (
        len(results.dims),
        len(results.problems),
        len(results.methods),
    )


def test_the_verdict_is_first_and_the_facts_and_hyperparameters_are_last(page, results):
    words = [text for text in page.text if text.strip()]
    assert words[words.index(results.title, 1) + 1] == verdict(results)[0]
    settings = words[len(words) - 1 - words[::-1].index("Methods and settings") :]
    assert settings[1:9] == ["runs", "6", "population", "10", "generations", "200", "seed", "1"]
    assert all(description in settings for description in results.descriptions.values())


def test_the_first_picture_is_that_of_the_first_group_in_the_largest_dimension(page, results):
    (title,) = (
        a["aria-label"] for tag, a in page.elements[: _index(page, "nav")] if "aria-label" in a and tag == "div"
    )
    assert title.startswith(f"Mean error in {max(results.dims)} dimensions")


def _index(page, tag):
    return next(i for i, (name, _) in enumerate(page.elements) if name == tag)


def test_the_standings_are_those_of_the_verdict(page, results):
    text = " ".join(" ".join(page.text).split())
    for row in standings(results):
        assert f"{row.method} {row.rank:.2f} {100 * row.solved:.0f} %" in text.replace(" reference ", " ")


@pytest.mark.usefixtures("pictures_are_empty")
def test_without_facts_the_lead_stands_alone():
    (lead,) = (text for text in Page(render(study_of({"f": {"PAO": [1.0]}}))).text if "was run" in text)
    assert lead == "1 method was run once on 1 problem in 2 dimensions, with 1 evaluation per run."


def test_figures_are_pictures_of_every_dimension_and_group(page, results):
    images = [a for tag, a in page.elements if tag == "img"]
    assert len(images) == len(results.dims) * len(results.groups) + len(results.groups)
    assert all(a["alt"] for a in images)
    assert all(b64decode(a["src"].partition(",")[2]).lstrip().startswith(b"<?xml") for a in images)


def test_badges_stand_under_verdict_only(page):
    badges = [a["class"] for tag, a in page.elements if tag == "span" and a.get("class", "").startswith("badge")]
    assert badges[-3:] == ["badge good", "badge fair", "badge bad"]  # "holds" as a claim is no verdict
    assert badges[:-3].count("badge fair") == 0


def test_a_row_of_the_wrong_length_is_refused():
    section = Section("Claims", [], ["Claim", "Verdict"], [["fast"]])
    with pytest.raises(ValueError, match=r"'Claims': .*\['fast'\] has 1 cells.* 2"):
        render(tiny(), sections=[section])


@pytest.mark.usefixtures("pictures_are_empty")
class TestWrite:
    def test_the_file_is_the_page(self, tmp_path):
        path = write(tiny(), tmp_path / "new" / "report.html", sections=SECTIONS)
        assert path == tmp_path / "new" / "report.html"
        assert path.read_bytes() == render(tiny(), sections=SECTIONS).encode()
        assert [*path.parent.iterdir()] == [path]

    def test_a_failure_leaves_the_old_file_and_nothing_else(self, tmp_path, monkeypatch):
        path = tmp_path / "report.html"
        path.write_text("old")

        def broken(*_):
            raise OSError("disk full")

        monkeypatch.setattr(report.os, "replace", broken)
        with pytest.raises(OSError, match="disk full"):
            write(tiny(), path)
        assert path.read_text() == "old"
        assert [*tmp_path.iterdir()] == [path]


def test_a_missing_library_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"jinja2.*pip install 'paoswarm\[study\]'"):
        render(tiny())
