r"""The numbers of equations that the code refers to exist on the theory pages.

`docs/theory.md` numbers its labelled equations in order: (1), (2), ... Other pages have explicit tags: (S1), (S2), ...
in `docs/sampling_theory.md`, (A1), ... in `docs/adaptive_theory.md`, (C1), ... in `docs/constraints.md`, (F1), ... in
`docs/least_squares.md`. A comment or docstring refers to an equation in one of these ways:

- ``(S7)`` or ``(A7)``, anywhere in the package;
- ``equation (7)``, or ``equations (2), (3) and (8)``, anywhere in the package;
- ``(7)`` after a space, or ``\tag{7}``, in `core` and `algorithms`, the packages that implement `docs/theory.md`. There
  a number of one or two digits in brackets, after a space, means nothing else.
"""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

import paoswarm

PACKAGE = Path(paoswarm.__file__).parent
DOCS = Path(__file__).parents[1] / "docs"
STATEMENTS = {"S2", "S3", "S6", "S10", "S16", "E6"}  # used in proofs; no code evaluates them

TAGGED = re.compile(r"\(([SACFE]\d+)\)|\\tag\{([SACFE]\d+)\}")
NAMED = re.compile(r"\b[Ee]quations?((?:[\s,]|and|to|-)*\(\d+\))+")
BARE = re.compile(r"(?<![^\s-])\((\d{1,2})\)(?=[\s,.;:-]|$)|\\tag\{(\d+)\}", re.MULTILINE)


def numbers(page):
    """The numbers of the displayed equations of a page, in order: a tag, or the rank among labelled equations."""
    found = []
    labelled = 0
    for equation, label in re.findall(r"^\$\$\n(.*?)^\$\$( \([\w-]+\))?$", page, re.MULTILINE | re.DOTALL):
        tags = re.findall(r"\\tag\{(\w+)\}", equation)
        assert len(tags) + bool(label) <= 1, f"more than one number: {equation}"
        labelled += bool(label)
        found += [str(labelled)] if label else tags
    return found


def prose(source):
    """Comments and docstrings of a module, without the code of examples."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield re.sub(r"^\s*(>>>|\.\.\. ).*$", "", text, flags=re.MULTILINE)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@cache
def references(source, package=""):
    """The numbers of equations that a module of a package refers to."""
    found = set()
    for text in prose(source):
        found |= {tag for pair in TAGGED.findall(text) for tag in pair if tag}
        for match in NAMED.finditer(text):
            found |= set(re.findall(r"\((\d+)\)", match[0]))
        if package in ("core", "methods"):
            found |= {number for pair in BARE.findall(text) for number in pair if number}
    return found


THEORY = numbers((DOCS / "theory.md").read_text())
SAMPLING = numbers((DOCS / "sampling_theory.md").read_text())
ADAPTIVE = numbers((DOCS / "adaptive_theory.md").read_text())
CONSTRAINTS = numbers((DOCS / "constraints.md").read_text())
FITS = numbers((DOCS / "least_squares.md").read_text())
EMULATED = numbers((DOCS / "emulated_theory.md").read_text())
MODULES = {path.relative_to(PACKAGE): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def test_numbers_are_consecutive():
    assert [str(i + 1) for i in range(len(THEORY))] == THEORY
    assert [f"S{i + 1}" for i in range(len(SAMPLING))] == SAMPLING
    assert [f"A{i + 1}" for i in range(len(ADAPTIVE))] == ADAPTIVE
    assert [f"C{i + 1}" for i in range(len(CONSTRAINTS))] == CONSTRAINTS
    assert [f"F{i + 1}" for i in range(len(FITS))] == FITS
    assert [f"E{i + 1}" for i in range(len(EMULATED))] == EMULATED
    assert len(THEORY) > 10
    assert len(SAMPLING) > 10


def test_every_equation_that_the_code_refers_to_exists():
    known = {*THEORY, *SAMPLING, *ADAPTIVE, *CONSTRAINTS, *FITS, *EMULATED}
    unknown = {str(module): references(source, module.parts[0]) - known for module, source in MODULES.items()}
    assert {module: numbers for module, numbers in unknown.items() if numbers} == {}


def referred_to(*packages):
    """The numbers of equations that the modules of packages refer to."""
    found = (references(source, module.parts[0]) for module, source in MODULES.items() if module.parts[0] in packages)
    return set().union(*found)


def test_the_exact_step_carries_its_numbers():
    used = referred_to("core", "methods")
    assert used >= {"3", "7", "8", "12"}  # attractors, covariance, transition, and the step of a whole swarm


def test_every_equation_that_the_sampler_evaluates_is_referred_to():
    used = referred_to("sampling")
    assert {*SAMPLING, *EMULATED} >= STATEMENTS
    assert {*SAMPLING, *EMULATED} - STATEMENTS - used == set()


def test_every_equation_of_the_adaptive_search_is_referred_to():
    assert set(ADAPTIVE) <= referred_to("methods")


def test_every_equation_about_constraints_is_referred_to():
    assert set(CONSTRAINTS) <= referred_to("core", "methods", "run")


def test_every_equation_about_fits_is_referred_to():
    assert set(FITS) <= referred_to("least_squares", "evaluate", "fitting")


@pytest.mark.parametrize(
    ("name", "tags", "fewest"),
    [("sampling_theory", SAMPLING, 10), ("adaptive_theory", ADAPTIVE, 2), ("least_squares", FITS, 2)],
)
def test_links_on_the_page_lead_to_their_equations(name, tags, fewest):
    page = (DOCS / f"{name}.md").read_text()
    targets = re.findall(
        r"^\(eq-([saf]\d+)\)=\n\$\$\n(?:(?!^\$\$).*\n)*?\\tag\{([SAF]\d+)\}\n\$\$$", page, re.MULTILINE
    )
    assert [target.upper() for target, _ in targets] == [tag for _, tag in targets] == tags
    links = re.findall(r"\[\(([SAF]\d+)\)\]\(#eq-([saf]\d+)\)", page)
    assert all(text == target.upper() and text in tags for text, target in links)
    assert len(links) > fewest


def test_no_tag_stands_beside_line_breaks():
    r"""Sphinx wraps an equation with ``\\`` in a split environment, in which MathJax refuses ``\tag``."""
    page = (DOCS / "sampling_theory.md").read_text()
    for equation in re.findall(r"^\$\$\n(.*?)^\$\$", page, re.MULTILINE | re.DOTALL):
        assert r"\\" not in equation


@pytest.mark.parametrize(
    ("source", "package", "expected"),
    [
        ("x = 1  # (S99)", "run", {"S99"}),
        ('"""The evidence, (S14) and (S15)."""', "sampling", {"S14", "S15"}),
        ('r"""Formula.\n\n.. math:: a = b \\tag{S99}\n"""', "sampling", {"S99"}),
        ('"""Equations (2), (3) and (77) for numbers."""', "study", {"2", "3", "77"}),
        ('def f():\n    """The mean, equation (77)."""', "study", {"77"}),
        (
            '"""The closed form (10)-(77) of the covariance, the integral (7), and (5)."""',
            "core",
            {"10", "77", "7", "5"},
        ),
        ('"""Steps.\n\n    y = x - a            (77)\n"""', "methods", {"77"}),
        ("position += h * d  # (77)", "methods", {"77"}),
    ],
)
def test_a_reference_is_noticed(source, package, expected):
    assert references(source, package) == expected
    assert "77" not in THEORY
    assert "S99" not in SAMPLING


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ('"""Of `Study`: ``runs`` (30), ``population`` (10)."""', "study"),
        ('x = f(3)  # not f(4), and not (2, 3)\ny = "(S98) (5) equation (5)"', "core"),
        ('"""Draw.\n\n>>> round(3.5) + (3)\n... # (4)\n7\n"""', "core"),
        ('"""Kennedy and Eberhart (1995); arrays (n,), (100)."""', "methods"),
    ],
)
def test_other_brackets_are_no_references(source, package):
    assert references(source, package) == set()
