"""The centre-bias audit: by hand on made-up errors, honest methods acquitted, biased ones caught."""

import numpy as np
import pytest
from helpers import random_search
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.study.audit import FACTOR, LEVEL, PROBLEMS, SHIFTS, audit_study, centre_bias, centre_biases, judge
from paoswarm.study.results import Key
from paoswarm.study.statistics import FLOOR

SMALL = {"dim": 4, "population": 30, "generations": 60, "runs": 30}


def errors(**cells):
    """Final errors by key: for each function those with the optimum at the centre, and those of the three others."""
    found = {}
    for problem, (centred, *moved) in cells.items():
        found[Key(problem, 8, "it")] = np.array(centred, dtype=float)
        for number, values in enumerate(moved, start=1):
            found[Key(f"{problem}-shifted{number}", 8, "it")] = np.array(values, dtype=float)
    return found


def verdict(**cells):
    return judge(errors(**cells), "it", "It", list(cells))


# By hand


def test_a_clear_advantage_worked_by_hand():
    """Two centred runs, six moved ones, all of them worse: one of the 28 ways to choose two places among eight."""
    got = verdict(sphere=([1.0, 4.0], [20.0, 50.0], [25.0, 80.0], [30.0, 40.0]))
    (one,) = got.advantages
    assert one.problem == "sphere"
    assert_allclose(one.p_holm, 1 / 28, rtol=1e-12)
    assert one.share == 1.0
    # Medians of logarithms: sqrt(1 * 4) = 2, and of 20 25 30 40 50 80 sqrt(30 * 40).
    assert_allclose(one.factor, np.sqrt(1200) / 2, rtol=1e-12)
    assert not got.profits  # p is above 0.01: too few runs to tell


def test_shares_and_probabilities_without_order_worked_by_hand():
    """Ranks 2 and 7 of eight: of the 12 pairs the centred run wins 5 + 1."""
    (one,) = verdict(sphere=([2.0, 7.0], [1.0, 3.0], [4.0, 5.0], [6.0, 8.0])).advantages
    assert_allclose(one.share, 6 / 12, rtol=1e-12)
    # Of the 28 pairs of ranks, those whose sum is at most 2 + 7 = 9: sums 3 to 9 occur 1 1 2 2 3 3 4 times.
    assert_allclose(one.p_holm, 16 / 28, rtol=1e-12)
    assert_allclose(one.factor, np.sqrt(4 * 5) / np.sqrt(2 * 7), rtol=1e-12)


def test_a_disadvantage_is_no_bias():
    """Two moved runs better than all: one-sided, so p is near one and the factor below it."""
    (one,) = verdict(sphere=([7.0, 8.0], [1.0, 2.0], [3.0, 4.0], [5.0, 6.0])).advantages
    assert one.share == 0.0
    assert_allclose(one.p_holm, 1.0, rtol=1e-12)
    assert one.factor < 1


def test_ties_count_half():
    (one,) = verdict(sphere=([1.0], [1.0], [2.0], [0.5])).advantages
    assert_allclose(one.share, 1.5 / 3, rtol=1e-12)


def test_several_functions_are_corrected_by_holm():
    """1/28 three times becomes 3/28, and the later ones are no less; beside 16/28 it is doubled, and 16/28 stays."""
    low = ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0])
    middle = ([2.0, 7.0], [1.0, 3.0], [4.0, 5.0], [6.0, 8.0])
    got = verdict(sphere=low, ackley=low, griewank=low).advantages
    assert_allclose([one.p_holm for one in got], 3 / 28, rtol=1e-12)
    got = verdict(sphere=low, ackley=middle).advantages
    assert_allclose([one.p_holm for one in got], [2 / 28, 16 / 28], rtol=1e-12)


@pytest.mark.parametrize(
    ("factor", "runs", "profits"),
    [(1.99 * FACTOR, 10, True), (0.99 * FACTOR, 10, False), (1e6, 10, True), (1e6, 2, False), (1e-6, 10, False)],
)
def test_an_advantage_must_be_large_and_significant(factor, runs, profits):
    base = np.linspace(1.0, 1.001, runs)
    got = verdict(sphere=(base, *[factor * (base + 1e-5 * number) for number in range(1, 4)]))
    (one,) = got.advantages
    assert_allclose(one.factor, factor, rtol=1e-2)
    assert (one.p_holm < LEVEL) == (runs == 10 and factor > 1)
    assert got.profits == profits


def test_one_function_is_enough():
    clear = (np.linspace(1, 2, 10), *[np.linspace(100, 200, 10) + number for number in range(3)])
    even = (np.linspace(1, 2, 10), *[np.linspace(1, 2, 10) + 1e-3 * number for number in range(-1, 2)])
    got = verdict(sphere=even, ackley=clear)
    assert got.profits
    assert [one.p_holm < LEVEL for one in got.advantages] == [False, True]


def test_errors_below_the_floor_are_all_equal():
    """Otherwise exact zeros at the centre and 1e-300 elsewhere would count as an advantage of 300 decades."""
    zeros = np.zeros(12)
    (one,) = verdict(sphere=(zeros, zeros, zeros + FLOOR / 10, zeros + FLOOR)).advantages
    assert (one.factor, one.share) == (1.0, 0.5)
    assert one.p_holm == pytest.approx(1.0)
    (one,) = verdict(sphere=(zeros, *[zeros + 100 * FLOOR] * 3)).advantages
    assert_allclose(one.factor, 100.0, rtol=1e-12)


def test_only_the_method_in_question_is_judged():
    found = errors(sphere=([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]))
    found |= {key._replace(method="other"): 1e9 * value for key, value in found.items()}
    assert judge(found, "it", "It", ["sphere"]) == judge(
        errors(sphere=([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0])), "it", "It", ["sphere"]
    )


def test_the_verdict_can_be_read():
    text = str(verdict(sphere=([1.0, 1.0], [19.0, 20.0], [20.0, 20.5], [18.0, 21.0])))
    assert text.splitlines()[0] == "No evidence that It profits from an optimum at the centre."
    assert "sphere       error grows by a factor of 20 when the optimum is moved" in text
    assert "better in 100% of pairs" in text
    clear = np.linspace(1, 2, 20)
    text = str(verdict(sphere=(clear, 9 * clear, 9 * clear, 9 * clear)))
    assert text.startswith("It PROFITS from an optimum at the centre.")


# The study behind it


def test_the_audit_moves_the_optimum_and_nothing_else():
    study = audit_study({"PAO": ps.PAO()}, {"runs": 2})
    assert len(study.problems) == len(PROBLEMS) * (1 + SHIFTS)
    for base in PROBLEMS:
        centred, *moved = (problem for problem in study.problems if problem.split("-")[0] == base)
        one = ps.problems.get(centred, 8)
        assert_array_equal(one.optimum, one.bounds.mean(axis=1))
        others = [ps.problems.get(name, 8) for name in moved]
        assert len({tuple(other.optimum) for other in others}) == SHIFTS
        for other in others:
            assert_array_equal(other.bounds, one.bounds)
            assert other.minimum == one.minimum
            assert np.linalg.norm((other.optimum - one.optimum) / np.ptp(one.bounds, axis=1)) > 0.1


def test_the_call_and_a_stored_study_give_the_same_verdict(tmp_path):
    options = {"population": 10, "generations": 5, "runs": 10, "seed": 3}
    methods = {"x": ps.classic.PSO(), "y": ps.classic.DE()}
    problems = ["sphere", "ackley"]
    found = centre_biases(methods, tmp_path, dim=3, problems=problems, **options)
    for stored, method in zip(found, methods.values(), strict=True):
        called = centre_bias(method, dim=3, problems=["sphere", "ackley"], **options)
        assert stored.advantages == called.advantages
        assert called.method == type(method).__name__


@pytest.mark.parametrize("name", ["sphere-rotated", "sphere-rotated2"])
def test_functions_may_be_rotated(name):
    (one,) = centre_bias(ps.classic.DE(), dim=2, problems=[name], runs=10, generations=1, population=8).advantages
    assert one.problem.startswith("sphere-rotated")


def test_the_error_for_an_unknown_function_lists_the_known_ones():
    with pytest.raises(ValueError, match="unknown problem 'sfere'; did you mean sphere"):
        centre_bias(ps.PAO(), problems=["sfere"])


# Verdicts. At this size 160 audits of honest methods (these four, 40 other seeds) accused nobody, and the biased ones
# below have p < 1e-13 with factors of 9 and more. Adapters run one at a time, so they have fewer generations: 40 audits
# of the random search accused it never, and 40 of the biased one always, with p < 1e-15.
SHORT = SMALL | {"generations": 10}
METHODS = [
    ps.PAO,
    ps.classic.DE,
    *(pytest.param(method, marks=pytest.mark.slow) for method in (ps.classic.PSO, ps.classic.QPSO)),
]


@pytest.mark.parametrize("method", METHODS)
def test_honest_methods_do_not_profit(method):
    assert not centre_bias(method(), **SMALL).profits


def test_random_search_does_not_profit():
    assert not centre_bias(random_search, **SHORT).profits


def pulled(method):
    """The same method with every proposal 2 % nearer to the centre of the box."""

    class Pulled(method):
        takes_batches = True

        def ask(self, state, draw, progress=0.0):
            proposal = super().ask(state, draw, progress)
            centre = (state.lower + state.upper) / 2
            return proposal._replace(position=proposal.position + 0.02 * (centre - proposal.position))

    return Pulled()


@pytest.mark.parametrize("method", METHODS)
def test_a_small_pull_to_the_centre_is_noticed(method):
    got = centre_bias(pulled(method), **SMALL)
    assert got.profits
    assert got.method == "Pulled"


def test_a_swarm_that_follows_its_average_particle_alone_is_noticed():
    """The average of a swarm that fills the box is near its centre."""
    method = ps.PAO(attractors=(ps.attractors.average_particle,), stiffness=(2.0,))
    got = centre_bias(method, **SMALL)
    assert got.profits
    assert all(one.factor > FACTOR for one in got.advantages)


def biased_search(fun, bounds, *, population, seed):
    """An adapter that draws its points around the centre."""
    rng = np.random.default_rng(seed)
    while True:
        fun(
            bounds.mean(axis=1)
            + np.ptp(bounds, axis=1) * np.clip(rng.normal(0, 0.05, (population, len(bounds))), -0.5, 0.5)
        )


def test_a_biased_adapter_is_noticed():
    assert centre_bias(biased_search, **SHORT).profits


def test_an_adapter_is_called_by_its_name():
    got = centre_bias(biased_search, dim=2, problems=["sphere"], runs=10, population=8, generations=1)
    assert got.method == "biased_search"


@pytest.mark.parametrize("name", ["rosenbrock", "schwefel", "sphere-shifted"])
def test_a_function_whose_optimum_is_elsewhere_is_refused(name):
    with pytest.raises(ValueError, match="is not at the centre"):
        centre_bias(ps.PAO(), dim=2, problems=[name])


def test_too_few_runs_are_refused():
    with pytest.raises(ValueError, match="runs must be at least 10 for an audit, got 9"):
        centre_bias(ps.PAO(), dim=2, problems=["sphere"], runs=9)
