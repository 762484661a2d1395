"""The page in a browser, opened from disk: what a reader picks, sorts and filters is what the study has found."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from synthetic import synthetic, with_cell

from paoswarm.study import statistics
from paoswarm.study.report import TARGETS, Section, write

selenium = pytest.importorskip("selenium", reason="needs selenium")
pytest.importorskip("jinja2")
pytest.importorskip("plotly")
pytest.importorskip("matplotlib")

from selenium.common.exceptions import NoAlertPresentException  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

pytestmark = pytest.mark.slow  # a minute, for a page that changes seldom

METHODS = ("PAO", "PSO", "DE", "Random search")
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a & b",
    "\"q\" 'q' <b>b</b>",
    "$x$ %{x}",
)


@pytest.fixture(scope="module")
def results():
    """Three problems in two dimensions; on the sphere DE falls to zero, and one run of Random search never counts."""
    first = synthetic(methods=METHODS, runs=8, generations=60)
    falling = np.where(np.arange(60) < 30, first.trace("sphere", 2, "DE").error, 0.0)
    lost = first.trace("sphere", 2, "Random search").error.copy()
    lost[0] = np.inf
    first = with_cell(first, "sphere", 2, "DE", falling)
    first = with_cell(first, "sphere", 2, "Random search", lost)
    return replace(first, groups={"All": METHODS, "Swarms": METHODS[:2]})


@pytest.fixture(scope="module")
def address(results, tmp_path_factory):
    return write(results, tmp_path_factory.mktemp("report") / "report.html").as_uri()


@pytest.fixture
def page(browser, address):
    """A fresh page; whatever a test did with it, no error may have reached the console."""
    opened(browser, address)
    yield browser
    assert errors(browser) == []


@pytest.fixture(scope="class")
def shared_page(browser, address):
    """A page for a whole class, because loading takes longest; no test of the class disturbs those after it."""
    opened(browser, address)
    yield browser
    assert errors(browser) == []


def opened(browser, address, width=1280):
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    browser.get("about:blank")  # otherwise another hash would not load the page anew
    browser.get(address)


def errors(browser):
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def requests(browser):
    """Addresses that the page asked for, other than its own file and data that it carries.

    ``chrome:`` addresses are those of the browser's own first page, which it may still be loading.
    """
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    asked = (m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent")
    return [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:", "chrome:"))]


def control(page, name, form="picker"):
    return page.find_element(By.CSS_SELECTOR, f"#{form} [name={name}]")


def pick(page, name, text, form="picker"):
    Select(control(page, name, form)).select_by_visible_text(text)


def tick(page, method, form="picker"):
    page.find_element(By.CSS_SELECTOR, f"#{form} .legend input[value='{METHODS.index(method)}']").click()


def show(page, statistic, form="picker"):
    page.find_element(By.CSS_SELECTOR, f"#{form} input[value={statistic}]").click()


def lines(page, chart="convergence-chart"):
    """What is drawn, by method, without the bands."""
    traces = page.execute_script(
        "return document.getElementById(arguments[0]).data.filter((t) => !t.fill)"
        ".map(({ name, x, y, customdata }) => ({ name, x, y, customdata }))",
        chart,
    )
    return {trace["name"]: trace for trace in traces}


def column(page, table, number):
    """The visible texts of one column, from top to bottom."""
    return page.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].filter((row) => !row.hidden)"
        ".map((row) => row.cells[arguments[1]].innerText.trim())",
        table,
        number,
    )


def head(page, table, number):
    return page.find_elements(By.CSS_SELECTOR, f"#{table} thead th")[number]


def number(text):
    return {"∞": np.inf, "–": np.nan}.get(text) or float(text)


def assert_drawn(line, results, problem, dim, method, statistic):
    band = statistics.band(results, problem, dim, method)
    kept = np.isin(band.evaluations, line["x"])
    assert kept.sum() == len(line["x"]) > 50
    assert_allclose(line["y"], getattr(band, statistic)[kept], rtol=1e-4)


class TestAtRest:
    @pytest.fixture
    def page(self, shared_page):
        return shared_page

    def test_it_asks_for_nothing(self, page):
        assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
        assert requests(page) == []

    def test_no_button_sends_the_chart_away(self, page):
        titles = {b.get_attribute("data-title") for b in page.find_elements(By.CSS_SELECTOR, ".modebar-btn")}
        assert titles == {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}

    def test_a_fact_stands_beside_its_name(self, page):
        texts = (
            "return [...document.querySelectorAll('.facts ' + arguments[0])].map(e => e.getBoundingClientRect().top)"
        )
        names, facts = (page.execute_script(texts, kind) for kind in ("dt", "dd"))
        assert_allclose(names, facts, atol=1)
        assert len(names) > 2

    def test_charts_follow_the_colour_scheme(self, page):
        paper = "return document.getElementById('convergence-chart').layout.paper_bgcolor"
        assert page.execute_script(paper) == "#ffffff"
        for scheme, colour in (("dark", "#14171b"), ("light", "#ffffff")):
            media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
            WebDriverWait(page, 5).until(lambda page, colour=colour: page.execute_script(paper) == colour)


def test_a_request_would_be_noticed(browser, tmp_path):
    (tmp_path / "bad.html").write_text('<img src="http://127.0.0.1:9/x.png">')
    opened(browser, (tmp_path / "bad.html").as_uri())
    assert requests(browser) == ["http://127.0.0.1:9/x.png"]
    assert errors(browser)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_does_not_scroll_sideways(browser, address, width):
    opened(browser, address, width)
    wide = "return document.scrollingElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.execute_script(wide) <= 0
    browser.execute_script("document.querySelector('main').append(Object.assign(document.createElement('pre'), "
                           "{ textContent: 'x'.repeat(500) }))")  # fmt: skip
    assert browser.execute_script(wide) > 0


class TestConvergence:
    def test_the_picked_cell_is_drawn(self, page, results):
        pick(page, "problem", "Rastrigin")
        pick(page, "dim", "5")
        for statistic in ("mean", "median"):
            show(page, statistic)
            drawn = lines(page)
            assert set(drawn) == set(METHODS)
            for method in METHODS:
                assert_drawn(drawn[method], results, "rastrigin", 5, method, statistic)
            assert page.find_element(By.ID, "picked").text == f"Rastrigin in 5 dimensions, {statistic} error"

    @pytest.mark.slow  # what is drawn for a choice: the test above
    def test_another_choice_is_another_line(self, page):
        before = lines(page)["PAO"]["y"]
        pick(page, "dim", "5")
        after = lines(page)["PAO"]["y"]
        pick(page, "problem", "Rastrigin")
        assert before != after != lines(page)["PAO"]["y"] != before

    def test_methods_and_groups(self, page):
        tick(page, "DE")
        assert set(lines(page)) == {"PAO", "PSO", "Random search"}
        assert Select(control(page, "group")).first_selected_option.text == "custom"
        pick(page, "group", "Swarms")
        assert set(lines(page)) == {"PAO", "PSO"} == set(column(page, "final", 0))
        tick(page, "DE")
        tick(page, "Random search")
        assert Select(control(page, "group")).first_selected_option.text == "All"

    def test_zeros_are_drawn_on_a_line_of_their_own(self, page, results):
        zero = lines(page)["DE"]
        mark = page.execute_script("return document.getElementById('convergence-chart').layout.shapes")
        assert [m["y0"] for m in mark] == [zero["y"][-1]]
        assert zero["customdata"][-1] == "0  (0 to 0)"
        bands = [statistics.band(results, "sphere", 2, method) for method in METHODS]
        smallest = min(v[v > 0].min() for band in bands for v in (band.mean, band.low))
        assert 0.01 * smallest < zero["y"][-1] <= 0.1001 * smallest
        pick(page, "problem", "Rosenbrock")
        assert page.execute_script("return document.getElementById('convergence-chart').layout.shapes ?? []") == []

    def test_an_infinite_mean_is_not_drawn_but_its_median_is(self, page, results):
        assert set(lines(page)["Random search"]["y"]) == {None}
        show(page, "median")
        assert_drawn(lines(page)["Random search"], results, "sphere", 2, "Random search", "median")

    def test_final_values_and_targets(self, page, results):
        pick(page, "problem", "Rosenbrock")
        for target in TARGETS:
            pick(page, "target", target, form="aim")
            for k, method in enumerate(METHODS):
                summary = statistics.summary(results, "rosenbrock", 2, method)
                success = statistics.success(results, "rosenbrock", 2, method, float(target))
                row = [column(page, "final", c)[k] for c in range(10)]
                interval = [number(end) for end in row[2].split(" to ")]
                assert row[0] == method
                found = [number(row[c]) for c in (1, 3, 4, 5, 6, 7)]
                assert_allclose(found, [*summary[:6]], rtol=0.006)
                assert_allclose(interval, summary.mean_interval, rtol=0.006)
                assert float(row[8].removesuffix(" %")) == pytest.approx(100 * success.rate, abs=0.06)
                assert number(row[9]) == pytest.approx(success.ert, rel=0.006)


class TestAddress:
    def test_a_link_restores_the_choice(self, page, address):
        pick(page, "problem", "Rastrigin")
        pick(page, "dim", "5")
        tick(page, "PSO")
        show(page, "median")
        pick(page, "target", "1e-3", form="aim")
        drawn, link = lines(page), page.current_url
        assert link.startswith(f"{address}#")
        opened(page, link)
        assert lines(page) == drawn
        assert Select(control(page, "target", "aim")).first_selected_option.text == "1e-3"
        assert page.find_element(By.ID, "picked").text == "Rastrigin in 5 dimensions, median error"

    @pytest.mark.slow
    def test_no_method_at_all_can_be_linked_to(self, page):
        for method in METHODS:
            tick(page, method)
        opened(page, page.current_url)
        assert lines(page) == {}

    @pytest.mark.slow
    def test_a_wrong_address_changes_nothing(self, page, address):
        drawn = lines(page)
        for wrong in ("#tasks", "#problem", "#%%%&=&dim=", "#problem=nothing&dim=3&show=mode&target=7"):
            page.get(address + wrong)  # the same page: only its hash changes
            assert lines(page) == drawn
        opened(page, page.current_url)
        assert lines(page) == drawn

    def test_a_task_in_a_table_leads_to_its_chart(self, page):
        page.find_element(By.CSS_SELECTOR, "#task-table tbody tr:last-child a").click()
        assert page.find_element(By.ID, "picked").text == "Rastrigin in 5 dimensions, mean error"


class TestTables:
    @pytest.fixture
    def page(self, shared_page):
        return shared_page

    def test_a_click_sorts_by_value_and_another_reverses_the_order(self, page, results):
        means = [statistics.summary(results, *task, "Random search").mean for task in results.tasks()]
        values = sorted(means)
        assert values != means
        assert values[-1] == np.inf
        button = head(page, "task-table", 5).find_element(By.TAG_NAME, "button")
        button.click()
        assert_allclose([number(text) for text in column(page, "task-table", 5)], values, rtol=0.006)
        assert head(page, "task-table", 5).get_attribute("aria-sort") == "ascending"
        button.click()
        assert_allclose([number(text) for text in column(page, "task-table", 5)], values[::-1], rtol=0.006)
        assert head(page, "task-table", 5).get_attribute("aria-sort") == "descending"
        assert head(page, "task-table", 4).get_attribute("aria-sort") == "none"

    def test_zero_is_the_smallest(self, page):
        head(page, "task-table", 4).find_element(By.TAG_NAME, "button").click()
        assert column(page, "task-table", 4)[0] == "0"

    def test_nan_is_last_in_both_directions(self, page):
        page.execute_script("document.querySelector('#task-table tbody tr').cells[2].dataset.mean = 'NaN'")
        for _ in range(2):
            head(page, "task-table", 2).find_element(By.TAG_NAME, "button").click()
            assert (column(page, "task-table", 0)[-1], column(page, "task-table", 1)[-1]) == (
                "Sphere",
                "2",
            )

    def test_the_keyboard_sorts_too(self, page):
        head(page, "task-table", 0).find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
        assert column(page, "task-table", 0) == sorted(column(page, "task-table", 0))
        assert column(page, "task-table", 0)[0] == "Rastrigin"

    def test_switching_to_the_median_sorts_anew(self, page, results):
        head(page, "task-table", 5).find_element(By.TAG_NAME, "button").click()
        page.find_element(By.CSS_SELECTOR, "[data-filters=task-table] input[value=median]").click()
        medians = sorted(statistics.summary(results, *task, "Random search").median for task in results.tasks())
        assert_allclose([number(text) for text in column(page, "task-table", 5)], medians, rtol=0.006)

    def test_filters(self, page):
        form = page.find_element(By.CSS_SELECTOR, "[data-filters=task-table]")
        Select(form.find_element(By.NAME, "dim")).select_by_visible_text("5")
        assert set(column(page, "task-table", 1)) == {"5"}
        form.find_element(By.NAME, "text").send_keys("  ROSEN")
        assert column(page, "task-table", 0) == ["Rosenbrock"]
        assert form.find_element(By.TAG_NAME, "output").text == "1 of 6 tasks"
        form.find_element(By.NAME, "text").send_keys("x")
        assert column(page, "task-table", 0) == []

    def test_comparisons_are_sorted_by_size_of_p(self, page, results):
        head(page, "pairs-1", 4).find_element(By.TAG_NAME, "button").click()
        wanted = sorted(c.p for c in statistics.compare(results, METHODS))
        assert_allclose([number(text) for text in column(page, "pairs-1", 4)], wanted, rtol=0.006)

    def test_average_ranks_are_those_of_the_statistics(self, page, results):
        rows = page.execute_script(
            "return [...document.querySelectorAll('[aria-labelledby=ranks-1] tbody tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.innerText))"
        )
        for column_, dims in enumerate([(2,), (5,), (2, 5)], start=1):
            wanted = statistics.average_ranks(results, METHODS, dims).average
            assert {row[0]: row[column_] for row in rows} == {m: f"{wanted[m]:.2f}" for m in METHODS}

    def test_comparisons_are_filtered_by_method(self, page):
        form = page.find_element(By.CSS_SELECTOR, "[data-filters=pairs-1]")
        form.find_element(By.NAME, "text").send_keys("random")
        assert column(page, "pairs-1", 2) == ["Random search"] * 6


class TestRuntimes:
    def test_the_picked_dimension_is_drawn(self, page, results):
        tick(page, "DE", form="runtime-picker")
        for choice, dims in (("5 dimensions", (5,)), ("all tasks", (2, 5))):
            pick(page, "dim", choice, form="runtime-picker")
            drawn = lines(page, "runtime-chart")
            assert set(drawn) == {"PAO", "PSO", "Random search"}
            for method, line in drawn.items():
                ecdf = statistics.ecdf(results, method, dims)
                assert_allclose([line["x"][0], line["x"][-1]], ecdf.evaluations[[0, -1]], rtol=1e-4)
                assert_allclose([line["y"][0], line["y"][-1]], ecdf.share[[0, -1]], rtol=1e-4)


@pytest.mark.slow  # in short, without a browser: test_report.py::TestHostileNames
class TestHostileNames:
    @pytest.fixture(scope="class")
    @classmethod
    def hostile(cls, browser, tmp_path_factory):
        first = synthetic(problems=HOSTILE, dims=(2,), methods=HOSTILE, runs=2, generations=3)
        first = replace(first, title=HOSTILE[0], titles={name: name for name in HOSTILE}, groups={HOSTILE[1]: HOSTILE})
        section = Section(HOSTILE[1], HOSTILE, HOSTILE, [HOSTILE])
        path = write(first, tmp_path_factory.mktemp("hostile") / "report.html", sections=[section])
        opened(browser, path.as_uri(), width=390)
        return browser

    def test_nothing_runs(self, hostile):
        with pytest.raises(NoAlertPresentException):
            _ = hostile.switch_to.alert.text
        assert hostile.execute_script("return document.images.length") == 2  # one dimension, one group
        assert errors(hostile) == []
        assert requests(hostile) == []

    def test_they_are_read_literally_in_page_and_controls(self, hostile):
        assert hostile.title == HOSTILE[0]
        assert hostile.find_element(By.TAG_NAME, "h1").text == HOSTILE[0]
        assert [option.text for option in Select(control(hostile, "problem")).options] == list(HOSTILE)
        assert column(hostile, "final", 0) == list(HOSTILE)

    def test_they_are_read_literally_in_the_chart(self, hostile):
        hover = """
            const node = document.getElementById("convergence-chart");
            const line = node.data.map((trace, i) => i).filter((i) => !node.data[i].fill)[arguments[0]];
            Plotly.Fx.unhover(node);
            Plotly.Fx.hover(node, [{ curveNumber: line, pointNumber: 0 }]);
            return node.querySelector(".hoverlayer").textContent;
            """
        for i, name in enumerate(HOSTILE):
            text = WebDriverWait(hostile, 5).until(lambda page, i=i: page.execute_script(hover, i))
            assert text.startswith(f"{name}  ")

    def test_and_in_the_box_that_lists_them_all(self, hostile):
        opened(hostile, hostile.current_url, width=1280)
        hover = """
            const node = document.getElementById("convergence-chart");
            Plotly.Fx.hover(node, { xval: node._fullLayout.xaxis.d2c(20), yval: 1 }, "xy");
            return node.querySelector(".hoverlayer").textContent;
            """
        text = WebDriverWait(hostile, 5).until(lambda page: page.execute_script(hover))
        assert text.startswith("20 evaluations")
        assert all(f"{name}  " in text for name in HOSTILE)

    def test_a_link_to_them_works(self, hostile):
        pick(hostile, "problem", HOSTILE[2])
        opened(hostile, hostile.current_url, width=390)
        assert hostile.find_element(By.ID, "picked").text == f"{HOSTILE[2]} in 2 dimensions, mean error"

    def test_long_names_do_not_push_the_page_sideways(self, browser, tmp_path):
        long = tuple(letter * 45 for letter in "ABC")
        first = synthetic(problems=long, dims=(2,), methods=long, runs=2, generations=3)
        first = replace(first, title="T" * 90, titles={name: name for name in long}, groups={"G" * 90: long})
        section = Section("S" * 90, ["P" * 90], ["H" * 90], [["C" * 90]])
        opened(browser, write(first, tmp_path / "report.html", sections=[section]).as_uri(), width=390)
        assert browser.execute_script("return document.scrollingElement.scrollWidth") <= 390
