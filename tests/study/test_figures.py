"""Figures show the numbers they claim to show, are the same every time, and leave matplotlib as they found it."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.legend import Legend
from numpy.testing import assert_allclose, assert_array_equal
from synthetic import study_of, synthetic, with_cell

from paoswarm.study import figures, statistics
from paoswarm.study.results import Trace

METHODS = ("PAO", "PSO", "DE")
HOSTILE = ("<b>$x_1$</b>", "_hidden", r"50 % & \$ \alpha_$", "$", r"$\frac{1}{2")


@pytest.fixture(autouse=True)
def _nothing_global_changes():
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before


@pytest.fixture(scope="module")
def nine():
    return synthetic(problems=tuple(f"problem_{i}" for i in range(9)), runs=7)


@pytest.fixture(scope="module")
def small():
    return synthetic(problems=("sphere",), runs=3)


@pytest.fixture
def as_drawn(monkeypatch):
    """Figures without their layout, which takes most of the time: for tests of what does not depend on it."""
    monkeypatch.setattr(figures, "_laid_out", lambda figure: figure)


def line_of(ax, method):
    (line,) = (line for line in ax.lines if line.get_label() == method)
    return line


def legend_of(figure):
    (legend,) = figure.findobj(Legend)
    return legend


def names_in(legend):
    return [text.get_text() for text in legend.get_texts()]


def triangles(ax):
    return [line for line in ax.lines if line.get_marker() == "v"]


def edited(study, change):
    return replace(study, traces={k: Trace(t.evaluations, change(t.error)) for k, t in study.traces.items()})


# Colours


@pytest.mark.usefixtures("as_drawn")
@pytest.mark.parametrize("chosen", [METHODS, ("DE", "PSO")])
def test_a_method_keeps_its_look_in_every_figure(small, chosen):
    grid, steps = figures.convergence_grid(small, 2, chosen), figures.ecdf_plot(small, 2, chosen)
    whole, ranks = figures.ecdf_plot(small), figures.rank_plot(small, chosen)
    for method in chosen:
        colour = figures.colour_of(small, method)
        assert re.fullmatch(r"#[0-9A-F]{6}", colour)
        for figure in (grid, steps):
            line = line_of(figure.axes[0], method)
            assert to_hex(line.get_color()).upper() == colour
            assert line._dash_pattern == line_of(whole.axes[0], method)._dash_pattern
        assert colour in [line.get_color() for line in ranks.axes[0].lines if line.get_marker() == "o"]
    assert names_in(legend_of(grid)) == list(chosen)


@pytest.mark.usefixtures("as_drawn")
def test_thirty_six_methods_are_all_different():
    many = synthetic(problems=("p",), dims=(2,), methods=tuple(f"m{i}" for i in range(36)), runs=1, generations=3)
    for figure in (figures.convergence_grid(many, 2), figures.ecdf_plot(many)):
        looks = [(line.get_color(), line._dash_pattern) for line in figure.axes[0].lines if line.get_label()[0] == "m"]
        assert len(looks) == len({str(look) for look in looks}) == 36
        assert len({colour for colour, _ in looks}) == len(figures.PALETTE)
        assert all(a[0] != b[0] and a[1] != b[1] for a, b in zip(looks, looks[1:], strict=False))  # neighbours, twice
        assert sorted(names_in(legend_of(figure))) == sorted(many.methods)


def linear(colours):
    c = np.array([to_rgb(colour) for colour in colours])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def smallest_difference(light):
    """Between any two colours, as distance in the perceptual space Oklab."""
    cones = [
        [0.41222147, 0.53633254, 0.05144599],
        [0.21190350, 0.68069955, 0.10739696],
        [0.08830246, 0.28171884, 0.6299787],
    ]
    axes = [
        [0.21045426, 0.79361779, -0.00407205],
        [1.9779985, -2.4285922, 0.4505937],
        [0.0259040, 0.7827718, -0.8086758],
    ]
    lab = np.cbrt(np.clip(light, 0, 1) @ np.transpose(cones)) @ np.transpose(axes)
    distance = np.linalg.norm(lab[:, None] - lab, axis=-1)
    return distance[~np.eye(len(lab), dtype=bool)].min()


# What is left of red, green and blue to eyes without one kind of cones (Machado, Oliveira and Fernandes 2009).
BLIND = {
    "nothing": np.eye(3),
    "red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


@pytest.mark.parametrize("kind", BLIND)
def test_colours_differ_to_colour_blind_eyes(kind):
    see = np.transpose(BLIND[kind])
    assert smallest_difference(linear(figures.PALETTE) @ see) > 0.1
    usual = linear([f"C{i}" for i in range(8)])  # what matplotlib would have used
    assert kind in ("nothing", "blue") or smallest_difference(usual @ see) < 0.06


def test_colours_stand_out_on_white_and_on_dark_paper():
    luminance = linear([*figures.PALETTE, "#ffffff", "#16181c"]) @ [0.2126, 0.7152, 0.0722] + 0.05
    assert (luminance[-2] / luminance[:-2] > 2.2).all()
    assert (luminance[:-2] / luminance[-1] > 2.2).all()


# Convergence


@pytest.mark.usefixtures("as_drawn")
def test_lines_and_bands_are_those_of_the_statistics(nine):
    figure = figures.convergence_grid(nine, 5)
    assert len(figure.axes) == 9
    for ax, problem in zip(figure.axes, nine.problems, strict=True):
        assert ax.get_title() == nine.titles[problem]
        assert ax.get_yscale() == "log"
        assert ax.get_xscale() == "linear"
        for method, fill in zip(METHODS, ax.collections, strict=True):
            band = statistics.band(nine, problem, 5, method)
            line = line_of(ax, method)
            assert_array_equal(line.get_xdata(), band.evaluations)
            assert_array_equal(line.get_ydata(), band.mean)
            (path,) = fill.get_paths()
            for edge in (band.low, band.high):
                corners = np.stack([band.evaluations, edge], axis=-1)
                assert all(np.isclose(path.vertices, corner, rtol=1e-12).all(axis=1).any() for corner in corners)
            bottom, top = ax.get_ylim()
            assert bottom < band.low.min()
            assert top > band.high.max()


@pytest.mark.usefixtures("as_drawn")
def test_a_grid_has_one_legend_and_shared_labels(nine):
    figure = figures.convergence_grid(nine, 2)
    assert names_in(legend_of(figure)) == list(METHODS)
    assert legend_of(figure).get_title().get_text() == "2 dimensions, 7 runs"
    assert figure.get_supxlabel() == "Evaluations"
    assert figure.get_supylabel() == "Error: mean and 10 % to 90 % band"
    assert [ax.xaxis.get_tick_params()["labelbottom"] for ax in figure.axes] == [False] * 6 + [True] * 3
    alone = synthetic(problems=("p",), dims=(1,), methods=("A",), runs=1)
    assert legend_of(figures.convergence_grid(alone, 1)).get_title().get_text() == "1 dimension, 1 run"


@pytest.mark.usefixtures("as_drawn")
@pytest.mark.parametrize(
    ("problems", "shape"),
    [
        (1, (1, 1)),
        (2, (1, 2)),
        (3, (1, 3)),
        (4, (2, 2)),
        (5, (2, 3)),
        (7, (3, 3)),
        (9, (3, 3)),
        (10, (3, 4)),
        (24, (6, 4)),
    ],
)
def test_the_grid_is_the_nearest_one_and_fits_the_page(problems, shape):
    study = synthetic(
        problems=tuple(f"p{i}" for i in range(problems)), dims=(2,), methods=("A",), runs=1, generations=3
    )
    figure = figures.convergence_grid(study, 2)
    assert len(figure.axes) == problems
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == shape
    assert figure.get_figwidth() <= 180 / 25.4 + 1e-9
    assert figure.get_figheight() <= 310 / 25.4


@pytest.mark.slow
def test_nothing_overlaps_and_nothing_leaves_the_page(nine):
    long = replace(nine, titles=dict.fromkeys(nine.problems, "A rather long title of a problem"))
    for figure in (
        figures.convergence_grid(long, 2),
        figures.ecdf_plot(nine),
        figures.rank_plot(study_of({"p": {"a method with a very long name": [1.0], "B": [2.0]}}), ("B",)),
    ):
        page = figure.bbox
        boxes = [ax.get_tightbbox() for ax in figure.axes] + [
            legend.get_window_extent() for legend in figure.findobj(Legend)
        ]
        boxes += [text.get_window_extent() for text in figure.texts]
        for i, box in enumerate(boxes):
            assert page.x0 <= box.x0 < box.x1 <= page.x1
            assert page.y0 <= box.y0 < box.y1 <= page.y1
            assert not any(box.overlaps(other) for other in boxes[:i])


def test_names_fit_on_the_saved_page(tmp_path):
    # Letters have other widths at other resolutions; on the page as it is saved nothing may touch the border.
    names = tuple(f"differential evolution, variant number {i} of many" for i in range(3))
    study = synthetic(problems=("p",), dims=(2,), methods=names, runs=2)
    for figure in (figures.convergence_grid(study, 2), figures.ecdf_plot(study), figures.rank_plot(study, names)):
        figures.save(figure, tmp_path / "page.png")
        page = matplotlib.image.imread(tmp_path / "page.png")
        assert_allclose(page.shape[:2], figure.get_size_inches()[::-1] * 200, atol=1)
        assert min(edge.min() for edge in (page[:2], page[-2:], page[:, :2], page[:, -2:])) == 1
        assert page.min() < 0.1


def test_letters_are_readable_in_print(small):
    for figure in (figures.convergence_grid(small, 2), figures.ecdf_plot(small), figures.rank_plot(small, METHODS)):
        assert min(text.get_fontsize() for text in figure.findobj(matplotlib.text.Text) if text.get_text()) >= 6


@pytest.mark.usefixtures("as_drawn")
def test_exact_zero_falls_through_the_floor_and_is_marked():
    error = np.array([[1.0, 1e-3, 1e-5, 0.0, 0.0], [1.0, 1e-2, 0.0, 0.0, 0.0]])
    study = with_cell(synthetic(runs=2), "sphere", 2, "PSO", error, [10, 20, 30, 40, 50])
    figure = figures.convergence_grid(study, 2)
    sphere, *others = figure.axes
    (triangle,) = triangles(sphere)
    x, y = triangle.get_transform().transform(triangle.get_xydata()[0])
    assert_allclose(sphere.transData.inverted().transform((x, y))[0], 40)  # the first mean of zero
    assert_allclose(y, sphere.bbox.y0)
    assert triangle.get_color() == figures.colour_of(study, "PSO")
    line = line_of(sphere, "PSO")
    assert_array_equal(line.get_ydata(), [1.0, 5.5e-3, 5e-6, 0.0, 0.0])
    drawn = line.get_transform().transform(line.get_xydata())
    assert (drawn[3:, 1] < sphere.bbox.y0 - 100).all()  # finite, far below the panel: the line is seen to fall
    assert np.isfinite(drawn).all()
    assert names_in(legend_of(figure)) == [*METHODS, "exactly zero from here on"]
    assert not any(triangles(ax) for ax in others)


@pytest.mark.usefixtures("as_drawn")
def test_small_is_not_zero():
    study = edited(synthetic(runs=3), lambda error: error * 1e-150)
    figure = figures.convergence_grid(study, 2)
    assert not any(triangles(ax) for ax in figure.axes)
    assert names_in(legend_of(figure)) == list(METHODS)


@pytest.mark.usefixtures("as_drawn")
def test_a_band_is_open_to_the_top_where_runs_have_failed():
    error = np.array([[np.inf, np.inf, 1.0], [np.inf, 5.0, 1.0], [9.0, 3.0, 1.0]])
    study = with_cell(synthetic(methods=("A",), runs=3), "sphere", 2, "A", error, [10, 20, 30])
    ax = figures.convergence_grid(study, 2).axes[0]
    vertices = ax.collections[0].get_paths()[0].vertices
    assert vertices[np.isclose(vertices[:, 0], 20), 1].max() > ax.get_ylim()[1]
    assert vertices[np.isclose(vertices[:, 0], 30), 1].max() == 1.0
    assert_array_equal(line_of(ax, "A").get_ydata(), [np.inf, np.inf, 1.0])


@pytest.mark.parametrize(
    "value", [0.0, np.inf, 123.456, *(pytest.param(v, marks=pytest.mark.slow) for v in (1e-300, 1e300))]
)
def test_a_study_of_one_value_is_drawn(value):
    study = edited(synthetic(problems=("p",), runs=2), lambda error: np.full_like(error, value))
    grid = figures.convergence_grid(study, 2)
    figures.ecdf_plot(study)  # every figure is drawn once as it is made, and warnings are errors
    (ax,) = grid.axes
    assert [text.get_text() for text in ax.texts] == (["no finite mean"] if value == np.inf else [])
    assert len(triangles(ax)) == (3 if value == 0 else 0)


@pytest.mark.parametrize("low", [-50.0, -3.3, 0.0, 2.08])
def test_error_axes_have_a_few_round_ticks_that_say_what_they_are(low):
    for span in (0.001, 0.1, 0.5, 1.0, 1.9, 2.0, 3.0, 6.0, 11.0, 25.0, 40.0, 60.0):
        assert_round_ticks(low, span)


def assert_round_ticks(low, span):
    bottom, top = 10**low, 10 ** (low + span)
    ticks, labels = figures._error_ticks(bottom, top)
    assert 2 <= len(ticks) <= 7
    assert bottom * (1 - 1e-12) <= ticks[0]
    assert ticks[-1] <= top * (1 + 1e-12)
    said = [float(re.sub(r"\$10\^\{(-?\d+)\}\$", r"1e\1", label)) for label in labels]
    assert_allclose(said, ticks, rtol=1e-9)
    assert len(set(labels)) == len(labels)


# Runtime distributions


@pytest.mark.usefixtures("as_drawn")
@pytest.mark.parametrize("dim", [None, 5])
def test_steps_are_those_of_the_statistics(nine, dim):
    (ax,) = figures.ecdf_plot(nine, dim).axes
    end = max(statistics.ecdf(nine, m, dim and (dim,)).evaluations[-1] for m in METHODS)
    for method in METHODS:
        evaluations, share = statistics.ecdf(nine, method, dim and (dim,))
        line = line_of(ax, method)
        assert line.get_drawstyle() == "steps-post"  # continuous from the right
        assert_array_equal(line.get_xdata(), [evaluations[0], *evaluations, end])
        assert_array_equal(line.get_ydata(), [0, *share, share[-1]])
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == "Evaluations per unknown"
    assert ax.get_ylabel() == "Share of (run, target) pairs solved"
    assert ax.get_title().startswith("All dimensions, 51 targets" if dim is None else "5 dimensions, 51 targets")
    assert_allclose(ax.get_xlim()[1], end)


@pytest.mark.usefixtures("as_drawn")
def test_a_method_that_has_solved_everything_is_drawn_to_the_end():
    study = synthetic(problems=("p",), dims=(2,), methods=("A", "B"), runs=1)
    study = with_cell(study, "p", 2, "B", [[0.0, 0.0]], [10, 20])
    line = line_of(figures.ecdf_plot(study).axes[0], "B")
    assert_array_equal(line.get_xydata(), [[5, 0], [5, 1], [100, 1]])


@pytest.mark.usefixtures("as_drawn")
def test_the_legend_of_runtimes_has_the_best_on_top(nine):
    final = {m: statistics.ecdf(nine, m).share[-1] for m in METHODS}
    assert names_in(legend_of(figures.ecdf_plot(nine))) == sorted(METHODS, key=final.get, reverse=True)


# Ranks


@pytest.mark.usefixtures("as_drawn")
def test_ranks_are_drawn_best_first_with_their_values():
    study = study_of({p: {"A": [3.0], "B": [1.0], "C": [c]} for p, c in (("p", 2.0), ("q", 2.0), ("r", 4.0))})
    (ax,) = figures.rank_plot(study, ("A", "B", "C")).axes
    labels = {round(tick): label.get_text() for tick, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)}
    dots = sorted(
        (line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "o"), key=lambda xy: xy[1]
    )
    assert [(labels[y], x) for x, y in dots] == [("B", 1.0), ("C", pytest.approx(7 / 3)), ("A", pytest.approx(8 / 3))]
    assert [text.get_text() for text in ax.texts] == ["1.00", "2.33", "2.67"]
    bottom, top = ax.get_ylim()
    assert bottom > top  # the first is the highest
    p = statistics.average_ranks(study, ("A", "B", "C")).p
    assert ax.get_xlabel() == f"Average rank over 3 tasks (1 is best; Friedman p = {p:.2g})"
    assert [label.get_fontweight() for label in ax.get_yticklabels()] == ["normal", "normal", "bold"]


@pytest.mark.usefixtures("as_drawn")
def test_a_rank_plot_names_the_dimensions_and_omits_a_missing_friedman_p():
    study = synthetic(problems=("p",), dims=(2, 5, 7))
    assert figures.rank_plot(study, METHODS).axes[0].get_title() == "All dimensions"
    assert figures.rank_plot(study, METHODS, (2, 7)).axes[0].get_title() == "2, 7 dimensions"
    (ax,) = figures.rank_plot(study, METHODS, [5]).axes
    assert (ax.get_title(), ax.get_xlabel()) == ("5 dimensions", "Average rank over 1 task (1 is best)")


@pytest.mark.usefixtures("as_drawn")
def test_a_tiny_friedman_p_is_bounded():
    study = study_of({f"p{i}": {m: [float(j)] for j, m in enumerate("ABCD")} for i in range(40)})
    assert "Friedman p < 0.0001" in figures.rank_plot(study, "ABCD").axes[0].get_xlabel()


# Names


def glyphs(path):
    """The letters of an SVG in which text is drawn as text."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())


@pytest.mark.parametrize("draw", ["grid", "ecdf", "ranks"])
def test_names_are_drawn_as_they_are_written(draw, tmp_path):
    study = synthetic(problems=("p",), dims=(2,), methods=HOSTILE, runs=3)
    study = replace(study, titles={"p": HOSTILE[0]})
    figure = {
        "grid": lambda: figures.convergence_grid(study, 2),
        "ecdf": lambda: figures.ecdf_plot(study),
        "ranks": lambda: figures.rank_plot(study, HOSTILE),
    }[draw]()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(tmp_path / "names.svg")
    written = glyphs(tmp_path / "names.svg")
    for name in HOSTILE:
        escaped = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        assert written.count(escaped) == (2 if draw == "grid" and name == HOSTILE[0] else 1)


def test_without_care_such_a_name_would_be_a_formula(tmp_path):
    figure = matplotlib.figure.Figure()
    figure.text(0.5, 0.5, HOSTILE[0])
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(tmp_path / "names.svg")
    assert "&lt;b&gt;$x_1$&lt;/b&gt;" not in glyphs(tmp_path / "names.svg")


# Files


@pytest.mark.parametrize(
    ("draw", "ending"),
    [
        (lambda s: figures.convergence_grid(s, 2), "svg"),
        (figures.ecdf_plot, "PNG"),
        (lambda s: figures.rank_plot(s, METHODS), "PNG"),
    ],
)
def test_files_are_the_same_every_time(draw, ending, small, tmp_path):
    figure = draw(small)
    paths = [tmp_path / f"{name}.{ending}" for name in ("first", "again", "anew")]
    figures.save(figure, paths[0])
    figures.save(figure, str(paths[1]))
    figures.save(draw(synthetic(problems=small.problems, runs=3)), paths[2])
    first, again, anew = (path.read_bytes() for path in paths)
    assert first == again == anew
    assert first.startswith(b"\x89PNG" if ending == "PNG" else b"<?xml")
    assert not re.search(rb"20\d\d-\d\d-\d\d|Matplotlib v|Software", first)
    other = tmp_path / f"other.{ending}"
    figures.save(draw(synthetic(problems=small.problems, runs=3, seed=2)), other)
    assert other.read_bytes() != first


def test_the_file_does_not_depend_on_what_else_was_saved_or_on_the_format(small, tmp_path):
    here, there = figures.ecdf_plot(small), figures.ecdf_plot(small)
    figures.save(here, tmp_path / "a.png")
    figures.save(here, tmp_path / "a.svg")
    figures.save(there, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_positions_are_rounded_so_that_they_are_reproducible(small, tmp_path):
    for figure in (figures.convergence_grid(small, 2), figures.ecdf_plot(small), figures.rank_plot(small, METHODS)):
        figures.save(figure, tmp_path / "figure.svg")
        places = [ax.get_position().bounds for ax in figure.axes] + [text.get_position() for text in figure.texts]
        for place in places:
            assert_allclose(place, np.round(place, 5), rtol=0, atol=1e-15)


def test_another_ending_is_refused(small, tmp_path):
    with pytest.raises(ValueError, match=r"'figure\.pdf'.*\.svg or \.png"):
        figures.save(figures.rank_plot(small, METHODS), tmp_path / "figure.pdf")
    assert not list(tmp_path.iterdir())


# Mistakes


@pytest.mark.parametrize(
    "call",
    [
        lambda s: figures.convergence_grid(s, 2, ("PAO", "XYZ")),
        lambda s: figures.ecdf_plot(s, methods=("XYZ",)),
        lambda s: figures.rank_plot(s, ("PAO", "XYZ")),
        lambda s: figures.colour_of(s, "XYZ"),
    ],
)
def test_an_unknown_method_is_named(call, small):
    with pytest.raises(ValueError, match="no method 'XYZ'"):
        call(small)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: figures.convergence_grid(s, 3),
        lambda s: figures.ecdf_plot(s, 3),
        lambda s: figures.rank_plot(s, METHODS, [2, 3]),
    ],
)
def test_an_unknown_dimension_is_named(call, small):
    with pytest.raises(ValueError, match=r"no dimension 3; .*\[2, 5\]"):
        call(small)


def test_without_matplotlib_the_error_says_what_to_install(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"matplotlib.*pip install 'paoswarm\[study\]'"):
        figures.rank_plot(small, METHODS)


@pytest.mark.slow
def test_another_process_draws_the_same_and_neither_needs_pyplot(small, tmp_path):
    code = """
import sys
from paoswarm.study import figures
assert "matplotlib" not in sys.modules
sys.path.insert(0, sys.argv[1])
from synthetic import synthetic
study = synthetic(problems=("sphere",), runs=3)
figures.save(figures.convergence_grid(study, 2), sys.argv[2] + "/grid.svg")
figures.save(figures.ecdf_plot(study), sys.argv[2] + "/steps.svg")
figures.save(figures.rank_plot(study, study.methods), sys.argv[2] + "/ranks.svg")
assert "matplotlib.pyplot" not in sys.modules
"""
    (tmp_path / "there").mkdir()
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path / "there")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    figures.save(figures.convergence_grid(small, 2), tmp_path / "grid.svg")
    figures.save(figures.ecdf_plot(small), tmp_path / "steps.svg")
    figures.save(figures.rank_plot(small, METHODS), tmp_path / "ranks.svg")
    for name in ("grid.svg", "steps.svg", "ranks.svg"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
