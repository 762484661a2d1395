"""What results look like in a notebook: short, complete HTML without foreign tags."""

from html.parser import HTMLParser

import numpy as np
import pytest

import paoswarm as ps
from paoswarm._text import MOST_ROWS, block, first_rows, remark, table

HOSTILE = "<script>alert('x')</script>&<b>"


class Page(HTMLParser):
    """Collects tags and text, and raises if tags are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.cells = set(), [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.cells[-1] += data


OUR_TAGS = {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}


def bowl(x):
    return float(((x - 0.25) ** 2).sum())


def posterior(d, name="parameter", message=""):
    rng = np.random.default_rng(1)
    return ps.results.Posterior(
        names=[f"{name}{i}" for i in range(d)],
        weighted=ps.results.WeightedDraws(rng.standard_normal((200, d)), np.zeros(200)),
        log_evidence=-1.0,
        log_evidence_error=0.1,
        n_evaluations=200,
        n_failed=0,
        method="importance",
        diagnostics={"climbs": [3, 2]},
        message=message,
    )


@pytest.fixture(scope="module")
def result():
    return ps.minimize(bowl, [(-1, 1)] * 3, method=ps.PAO(), n_particles=10, maxiter=20, rng=1)


def test_everything_is_escaped(result):
    hostile = ps.results.Result(**dict(result) | {"message": HOSTILE})
    pages = [
        block(HOSTILE, table([(HOSTILE, HOSTILE)], (HOSTILE, HOSTILE)), remark(HOSTILE)),
        hostile._repr_html_(),
        posterior(2, HOSTILE, HOSTILE)._repr_html_(),
    ]
    for html in pages:
        page = Page(html)
        assert page.tags <= OUR_TAGS
        assert any(HOSTILE in cell for cell in page.cells)  # it is shown, as text


def test_a_result_shows_point_value_and_message(result):
    page = Page(result._repr_html_())
    assert page.tags <= OUR_TAGS
    assert result.message in page.cells
    assert {f"{result.fun:.10g}", str(result.nfev), *(f"{value:.10g}" for value in result.x)} <= set(page.cells)


def test_a_hint_is_shown():
    on_the_bound = ps.minimize(
        lambda x: float(x.sum()), [(0, 1)] * 2, method=ps.PAO(), n_particles=10, maxiter=60, rng=1
    )
    assert on_the_bound.hint
    assert f"Hint: {on_the_bound.hint}" in Page(on_the_bound._repr_html_()).cells


def test_many_results_show_the_best_run_and_the_spread_of_all():
    many = ps.minimize_many(bowl, [(-1, 1)] * 3, method=ps.PAO(), runs=5, n_particles=10, maxiter=10, rng=1)
    page = Page(many._repr_html_())
    assert page.tags <= OUR_TAGS
    best = int(np.argmin(many.fun))
    assert {f"run {best}", f"{many.fun.min():.6g}", f"{np.median(many.fun):.6g}"} <= set(page.cells)
    assert {f"{value:.10g}" for value in many.x[best]} <= set(page.cells)
    assert str(many).splitlines()[0] in page.cells


def test_a_posterior_shows_every_parameter_and_its_message():
    known = posterior(3, message="look here")
    page = Page(known._repr_html_())
    assert page.tags <= OUR_TAGS
    assert {*known.names, "look here", str(known).splitlines()[0]} <= set(page.cells)
    row = str(known).splitlines()[1].split()  # the same digits as in print
    assert {row[1], row[3], row[6], row[8]} <= set(page.cells)


@pytest.mark.parametrize("d", [MOST_ROWS, MOST_ROWS + 1, 400])
def test_many_dimensions_do_not_fill_pages(d):
    with_swarm = ps.minimize(bowl, [(-1, 1)] * d, method=ps.PAO(), n_particles=5, maxiter=2, rng=1)
    many = ps.minimize_many(bowl, [(-1, 1)] * d, method=ps.PAO(), runs=3, n_particles=5, maxiter=2, rng=1)
    for shown in (with_swarm, many, posterior(d)):
        html = shown._repr_html_()
        assert html.count("<tr>") < MOST_ROWS + 8
        assert (f"... and {d - MOST_ROWS + 2} more" in html) == (d > MOST_ROWS)


def test_short_tables_are_left_alone():
    rows = [(str(i), i) for i in range(MOST_ROWS)]
    assert first_rows(rows, "rows") == (rows, "")
