"""The paper's claims: every verdict flips with the numbers, the numbers are the study's, and the targets are met."""

import pathlib
import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers import small
from synthetic import synthetic, with_cell

import paoswarm as ps
from paoswarm.study import presets
from paoswarm.study.presets import LITERATURE, PAPER
from paoswarm.study.results import Key, Trace

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import paper_claims as claims
from paper_claims import FAILS, HOLDS, OTHERS, PARTLY, UNIMODAL, check, paper_sections

GROUPS = presets.paper().groups
METHODS = tuple(presets.paper().methods)
PROBLEMS = ps.problems.names


def usual(problem, dim, method):
    """Final errors of three runs, so that every claim holds: SADE leads on easy functions in 2-D, PAO elsewhere."""
    base = method.partition(" ")[0]
    if problem in UNIMODAL and dim == 2:
        level = {"SADE": 1e-9, "PAO": 1e-6}.get(base, 1e-3)
    elif problem in UNIMODAL:
        level = 1e-9 if base == "PAO" else 1e-3
    elif dim == 2:
        level = {"rastrigin": 0.0, "ackley": 1e-15}.get(problem, 1e-6) if base == "PAO" else 1e-3
    else:
        level = 1.0 if base == "PAO" else 2.0
    return np.array([0.5, 1.0, 1.5]) * level


def main_study(changes=()):
    """Results of the paper's study; ``changes`` give some cells other errors."""
    cells = {Key(p, d, m): usual(p, d, m) for d in (2, 8) for p in PROBLEMS for m in METHODS} | dict(changes)
    traces = {key: Trace(np.array([1]), np.array(errors)[:, None]) for key, errors in cells.items()}
    results = synthetic(PROBLEMS, (2, 8), METHODS, runs=1, generations=1)
    return replace(results, groups=GROUPS, reference="PAO", traces=traces)


def variants(**changes):
    """PAO with one hyperparameter changed at a time on the 8-D sphere: (early, final) median errors of each."""
    names = ("default", "mass 4", "stiffness 4", "damping 2", "noise 16", "random search")
    results = synthetic(("sphere",), (8,), names, runs=3)
    medians = {"default": (1e-1, 1e-5), "mass_4": (1.0, 1e-2), "stiffness_4": (1e-2, 1e-9)}
    medians |= {"damping_2": (1.0, 1e-2), "noise_16": (9.0, 8.0), "random_search": (9.5, 7.0)} | changes
    for name, (early, final) in medians.items():
        error = np.full((3, 20), 10.0)
        error[:, 2:] = early * np.array([[0.5], [1.0], [5.0]])  # a tenth of the way
        error[:, 19] = final * np.array([0.5, 1.0, 5.0])
        results = with_cell(results, "sphere", 8, name.replace("_", " "), error)
    return results


def claim(fragment, changes=(), **changed_variants):
    """The one claim whose text holds the fragment."""
    (found,) = [c for c in check(main_study(changes), variants(**changed_variants)) if fragment in c.claim]
    return found


def in_literature(method):
    return next(name for name in GROUPS[LITERATURE] if name.partition(" ")[0] == method)


def cells(problems, dim, method, errors):
    return {(problem, dim, method): errors for problem in problems}


# Verdicts


def test_every_claim_holds_where_the_numbers_are_as_claimed():
    verdicts = [found.verdict for found in check(main_study(), variants())]
    assert verdicts[:13] == [HOLDS] * 13
    assert verdicts[13:] == [PARTLY, claims.OUTSIDE]  # the first is measured, whatever the study says
    brackets = [found.with_literature_defaults for found in check(main_study(), variants())]
    assert all(text.endswith("(holds)") for text in brackets[:8])
    assert brackets[8:] == ["the same"] * 7


ONLY_SADE = "only SADE is better"
IN_LINE_2, IN_LINE_8 = "In 2-D, on the other functions", "In 8-D, on the other functions"
EXACT, AHEAD, TRAPPED = "optima of Rastrigin and Ackley exactly", "clearly ahead", "avoids poor minima"
NOBODY, BETTER = "almost no method", "better than PSO on every problem"

SADE_BEHIND = {(p, 2, "SADE"): [1.0, 1.0, 1.0] for p in UNIMODAL}
FLIPS = [
    # Claim, cells of the paper's group that are changed, verdict then.
    (ONLY_SADE, SADE_BEHIND, PARTLY),
    (ONLY_SADE, cells(["sphere"], 2, "DE", [1e-7] * 3), FAILS),
    (ONLY_SADE, {**SADE_BEHIND, ("power_sum", 2, "SADE"): [1e-7] * 3}, HOLDS),
    (IN_LINE_2, cells(OTHERS, 2, "PAO", [5.0] * 3), FAILS),
    (IN_LINE_2, {**cells(OTHERS, 2, "PAO", [5.0] * 3), ("schwefel", 2, "PAO"): [0.0] * 3}, PARTLY),
    (IN_LINE_2, cells(OTHERS[:2], 2, "PAO", [5.0] * 3), HOLDS),  # ranks 5 5 1 1 1, on average 2.6 of 5
    (IN_LINE_8, cells(OTHERS, 8, "PAO", [5.0] * 3), FAILS),
    (IN_LINE_8, {**cells(OTHERS, 8, "PAO", [5.0] * 3), ("schwefel", 8, "PAO"): [0.0] * 3}, PARTLY),
    (EXACT, {("rastrigin", 2, "PAO"): [0.0, 0.0, 1e-300]}, PARTLY),
    (EXACT, {("rastrigin", 2, "PAO"): [1e-15] * 3}, FAILS),
    (EXACT, {("ackley", 2, "PAO"): [0.0, 0.0, 1e-12]}, PARTLY),
    (EXACT, {("ackley", 2, "PAO"): [0.0, 0.0, 2.9e-13]}, HOLDS),
    (AHEAD, cells(["sphere"], 8, "QPSO", [9e-9] * 3), PARTLY),
    (AHEAD, cells(["sphere"], 8, "QPSO", [1.1e-8] * 3), HOLDS),
    (AHEAD, cells(UNIMODAL, 8, "QPSO", [9e-9] * 3), FAILS),
    (AHEAD, cells(UNIMODAL, 8, "QPSO", [1e-12] * 3), FAILS),
    (TRAPPED, cells(["rastrigin"], 8, "DE", [0.9] * 3), PARTLY),
    (TRAPPED, cells(["rastrigin", "griewank"], 8, "PAO", [3.0] * 3), FAILS),
    (TRAPPED, cells(["rastrigin", "griewank"], 8, "QPSO", [0.0] * 3), HOLDS),  # not among those named
    (NOBODY, cells(["ackley"], 8, "PAO", [0.009] * 3), PARTLY),
    (NOBODY, cells(["ackley"], 8, "PAO", [0.0, 0.011, 0.011]), HOLDS),  # one run is not more than half
    (NOBODY, cells(["schwefel"], 8, "DE", [0.0] * 3), HOLDS),  # almost: one may
    (NOBODY, {("schwefel", 8, "DE"): [0.0] * 3, ("schwefel", 8, "SADE"): [0.0] * 3}, PARTLY),
    (NOBODY, cells(["schwefel", "ackley"], 8, "PAO", [0.0] * 3), FAILS),
    (BETTER, {("sphere", 2, "PSO"): [1e-7] * 3}, PARTLY),
    (BETTER, {("sphere", 2, "PSO"): usual("sphere", 2, "PAO")}, PARTLY),  # equal is not better
    (BETTER, {**cells(PROBLEMS, 2, "PSO", [0.0] * 3)}, PARTLY),
    (BETTER, {**cells(PROBLEMS, 2, "PSO", [0.0] * 3), ("schwefel", 8, "PSO"): [0.0] * 3}, FAILS),
]


@pytest.mark.parametrize(("fragment", "changes", "verdict"), FLIPS)
def test_a_verdict_flips_with_the_numbers(fragment, changes, verdict):
    found = claim(fragment, changes)
    assert found.verdict == verdict
    if not any(method in ("PAO", "QPSO") for _, _, method in changes):  # those belong to both groups
        assert found.with_literature_defaults.endswith("(holds)")


@pytest.mark.parametrize(("fragment", "changes", "verdict"), FLIPS)
def test_the_verdict_for_the_literature_s_presets_flips_with_theirs(fragment, changes, verdict):
    found = claim(fragment, {(p, d, in_literature(m)): errors for (p, d, m), errors in changes.items()})
    assert found.with_literature_defaults.endswith(f"({verdict})")
    if not any(method in ("PAO", "QPSO") for _, _, method in changes):
        assert found.verdict == HOLDS


@pytest.mark.parametrize(
    ("fragment", "name", "early", "final", "verdict"),
    [
        ("large mass slows", "mass_4", 1.0, 1e-6, PARTLY),
        ("large mass slows", "mass_4", 1e-2, 1e-2, PARTLY),
        ("large mass slows", "mass_4", 1e-2, 1e-6, FAILS),
        ("large stiffness accelerates", "stiffness_4", 1e-2, 1e-4, PARTLY),
        ("large stiffness accelerates", "stiffness_4", 1.0, 1e-4, FAILS),
        ("damping ratio above one", "damping_2", 1e-2, 1e-6, FAILS),
        ("damping ratio above one", "damping_2", 1.0, 1e-6, PARTLY),
        ("Strong noise", "noise_16", 1e-2, 1e-6, FAILS),
        ("Strong noise", "noise_16", 1e-2, 8.0, PARTLY),
    ],
)
def test_a_verdict_on_a_hyperparameter_flips_with_the_medians(fragment, name, early, final, verdict):
    assert claim(fragment).verdict == HOLDS
    assert claim(fragment, **{name: (early, final)}).verdict == verdict


def test_the_motion_is_exact_and_a_wrong_one_would_be_noticed(monkeypatch):
    assert claim("exact for any time step").verdict == HOLDS
    exact = ps.laws.transition

    def rough(mass, damping, stiffness, dt):
        whole = exact(mass, damping, stiffness, dt)
        return whole._replace(A=whole.A * (1 + 1e-6 * dt[:, None, None]))

    monkeypatch.setattr(ps.laws, "transition", rough)
    assert claim("exact for any time step").verdict == FAILS


# Numbers


def test_the_numbers_are_those_of_the_study():
    changes = {
        ("sphere", 2, "DE"): [1e-7, 2e-7, 3e-7],
        ("rastrigin", 8, "PAO"): [10.0, 20.0, 33.0],  # 21 in the mean
        ("griewank", 8, "PSO"): [0.5, 0.6, 0.7],
        ("schwefel", 8, "QPSO"): [0.001, 0.009, 0.011],  # two of three
        ("ackley", 2, "PAO"): [1e-14, 2e-14, 6e-14],  # 3e-14 in the mean
        ("rastrigin", 2, "PAO"): [0.0, 0.0, 7.0],
        ("ellipsoid", 8, "SADE"): [1e-4] * 3,
        ("power_sum", 8, "PSO"): [1e-12] * 3,
        ("rosenbrock", 2, "PSO"): [1e-9] * 3,
    }
    said = {found.claim: found.with_paper_presets for found in check(main_study(changes), variants())}

    def about(fragment):
        (text,) = [numbers for words, numbers in said.items() if fragment in words]
        return text

    assert "DE on sphere" in about(ONLY_SADE)
    assert "SADE on power_sum" in about(ONLY_SADE)
    assert "PSO on" not in about(ONLY_SADE)
    # PAO's ranks: second to PSO on Rosenbrock, and last on Rastrigin with 7/3 in the mean.
    assert "rosenbrock 2, griewank 1, rastrigin 5, ackley 1, schwefel 1; on average 2" in about(IN_LINE_2)
    assert "among 5" in about(IN_LINE_2)
    assert "exactly 0 in 2 of 3 runs" in about(EXACT)
    mean, worst = (float(word) for word in about(EXACT).split() if word.endswith("e-14"))
    assert (mean, worst) == (3e-14, 6e-14)
    assert "sphere 6 " in about(AHEAD)
    assert "ellipsoid 5 (next: SADE)" in about(AHEAD)
    assert "power_sum -3 (next: PSO)" in about(AHEAD)
    assert "rastrigin PAO 21, PSO 2, DE 2" in about(TRAPPED)
    assert "griewank PAO 1, PSO 0.6, DE 2" in about(TRAPPED)
    assert "schwefel PAO 0%, PSO 0%, QPSO 67%, DE 0%, SADE 0%" in about(NOBODY)
    lost = "rosenbrock 2-D, rastrigin 2-D, power_sum 8-D, griewank 8-D, rastrigin 8-D"
    assert about(BETTER) == f"smaller mean on 13 of 18, not on {lost}"


def test_the_numbers_of_the_other_group_are_its_own():
    found = claim(TRAPPED, {("rastrigin", 8, "PSO (literature)"): [3.0, 4.0, 5.0]})
    assert "rastrigin PAO 1, PSO 4, DE 2" in found.with_literature_defaults
    assert "rastrigin PAO 1, PSO 2, DE 2" in found.with_paper_presets


def test_the_medians_of_the_hyperparameters_are_those_of_the_study():
    text = claim("large mass slows", default=(0.125, 3e-5), mass_4=(0.75, 2e-3)).with_paper_presets
    assert "mass 4 on the 8-D sphere" in text
    words = text.replace(";", " ").replace(",", " ").split()
    numbers = [float(word) for word in words if word[0].isdigit() and not word.endswith("-D") and word != "4"]
    np.testing.assert_allclose(numbers, [0.75, 0.125, 2e-3, 3e-5], rtol=0.05)


# The report's sections


def test_a_study_that_is_not_the_paper_s_has_no_such_sections(tmp_path):
    study = small(dims=[2])
    assert paper_sections(study.run(tmp_path), study, tmp_path) == []
    assert not (tmp_path / "hyperparameters").exists()


TINY = {"runs": 2, "population": 8, "generations": 3}


@pytest.mark.parametrize(
    "part", [{"dims": [2]}, {"problems": ["sphere"]}, {"methods": {"PAO": ps.PAO()}, "groups": None}]
)
def test_a_part_of_the_paper_s_study_has_no_such_sections(part, tmp_path):
    study = presets.paper(**TINY, **part)
    assert paper_sections(main_study(), study, tmp_path) == []


def test_the_paper_s_study_without_its_groups_has_no_such_sections(tmp_path):
    """As ``paoswarm study paper --methods`` with all eight names makes it."""
    study = presets.paper(**TINY, groups=None)
    results = replace(main_study(), groups=study.groups)
    assert paper_sections(results, study, tmp_path) == []


def test_the_paper_s_study_has_its_claims_and_its_audit(tmp_path):
    study = presets.paper(**TINY, seed=3, precision=0.0)
    found = paper_sections(main_study(), study, tmp_path, workers=2)
    assert [section.title for section in found] == ["The paper's claims", "Centre bias"]
    listed, audit = found
    assert [list(row) for row in listed.rows[:8]] == [list(c) for c in check(main_study(), variants())[:8]]
    assert len(listed.rows) == 15
    assert [row[0] for row in audit.rows] == [
        name for name in METHODS if name not in ("AdaptivePAO", "SciPy DE", "CMA-ES")
    ]
    assert "10 runs" in audit.paragraphs[0]
    for section in found:
        assert all(len(row) == len(section.header) for row in section.rows)
    # With the study's own budget and seed: the same as by hand.
    methods = {"PSO": ps.classic.PSO.paper()}
    (by_hand,) = ps.study.centre_biases(methods, tmp_path / "by-hand", **TINY | {"runs": 10, "seed": 3})
    factors = [f"{one.factor:.3g}" for one in by_hand.advantages]
    assert list(audit.rows[1][1:5]) == factors


# Targets


def mean(results, problem, dim, method):
    return results.final(problem, dim, method).mean()


def worse_than_pso(results):
    """The tasks on which PAO's mean is not below that of PSO."""
    return {task for task in results.tasks() if not mean(results, *task, "PAO") < mean(results, *task, "PSO")}


def assert_ahead_where_it_is_easy(results):
    """2-D Rastrigin and Ackley are solved, and on the unimodal functions in 8-D PAO has the smallest mean."""
    assert (results.final("rastrigin", 2, "PAO") == 0).all()
    assert mean(results, "ackley", 2, "PAO") < 1e-13
    for problem in UNIMODAL:
        assert min(GROUPS[PAPER], key=lambda method: mean(results, problem, 8, method)) == "PAO", problem


@pytest.mark.slow
def test_ten_runs_of_the_paper_s_study_reach_its_safe_targets(tmp_path):
    """With the seeds 2 to 21 all of them did, too.

    PAO's mean was then below PSO's by a factor of 1.3 at least on these 16 tasks, below all others by 3e4 at least on
    the unimodal functions in 8-D, and below 1e-14 on 2-D Ackley. For Griewank and Schwefel in 2-D ten runs are too few:
    on Griewank PSO's mean was the smaller one with four of these seeds, and on Schwefel they were equal with one.
    """
    both = {name: method for name, method in presets.paper_methods().items() if name in ("PAO", "PSO")}
    group = {name: method for name, method in presets.paper_methods().items() if name in GROUPS[PAPER]}
    all_tasks = presets.paper(runs=10, methods=both, groups=None, precision=0.0).run(tmp_path)
    unimodal = presets.paper(runs=10, methods=group, groups=None, problems=UNIMODAL, dims=[8], precision=0.0).run(
        tmp_path
    )
    results = replace(all_tasks, traces={**all_tasks.traces, **unimodal.traces})
    assert worse_than_pso(results) <= {("griewank", 2), ("schwefel", 2)}
    assert_ahead_where_it_is_easy(results)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_paper_s_study_reaches_its_targets(tmp_path):
    """The closest is Griewank in 2-D: PSO's mean is twice PAO's here, and 1.01 to 2.1 times with the seeds 2 to 30."""
    group = {name: method for name, method in presets.paper_methods().items() if name in GROUPS[PAPER]}
    results = presets.paper(methods=group, groups=None, precision=0.0).run(tmp_path, workers=2)
    assert worse_than_pso(results) == set()
    assert_ahead_where_it_is_easy(results)


def test_the_hyperparameter_study_changes_one_at_a_time():
    study = claims.hyperparameters()
    default = study.methods["default"]
    for name, method in study.methods.items():
        if name == "random search":
            continue
        changed = [f for f in ("mass", "damping", "noise", "dt") if getattr(method, f) != getattr(default, f)]
        changed += ["stiffness"] if sum(method.stiffness) != sum(default.stiffness) else []
        assert changed == ([] if name == "default" else [name.split()[0]])
