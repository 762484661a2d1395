"""The phases of the search for modes: each transition, its budget, and what is said about missing modes."""

import numpy as np
import pytest
from scipy.special import logsumexp

from paoswarm.sampling import search as search_module
from paoswarm.sampling.climbs import Mode, climb_cost
from paoswarm.sampling.search import (
    Phase,
    SearchState,
    SearchTask,
    _choose_next,
    climbs_for,
    explore,
    explore_again,
    states,
)
from paoswarm.sampling.starts import Draws
from paoswarm.sampling.target import Target

KNOWN, FIRST, RIDGE, DOUBTFUL, BESIDE, SWARMS, DONE = Phase
ALLOWED = {
    KNOWN: {FIRST},
    FIRST: {RIDGE, BESIDE, DOUBTFUL, DONE},
    RIDGE: {RIDGE, BESIDE, DOUBTFUL, SWARMS, DONE},
    DOUBTFUL: {RIDGE, BESIDE, DOUBTFUL, SWARMS, DONE},
    BESIDE: {BESIDE, SWARMS, DONE},
    SWARMS: {SWARMS, DONE},
}


def one_peak(x):
    return -50 * (x**2).sum(axis=1)


def ring(x):
    return -0.5 * ((np.linalg.norm(x, axis=1) - 0.5) / 0.005) ** 2


def flat(x):
    return np.zeros(len(x))


def bumps(x):
    """A hundred peaks or so, the highest in the middle."""
    return -40 * (x**2).sum(axis=1) + 20 * np.cos(30 * x).sum(axis=1)


def two_peaks(x):
    return logsumexp([-200 * ((x - a) ** 2).sum(axis=1) for a in (-0.5, 0.5)], axis=0)


def searched(log_likelihood, dim=2, budget=15_000, maxfev=60_000, n=1000, known=()):
    target = Target(log_likelihood, [(-1, 1)] * dim, maxfev)
    z = target.draw_prior(n, np.random.default_rng(1))
    draws = Draws(z, target.height(z))
    before = target.n_evaluations
    known = np.array(known, dtype=float).reshape(-1, dim)
    passed = list(states(target, draws, known, budget, np.random.default_rng(2)))
    return passed, target.n_evaluations - before


def names(passed):
    """The phases, each once if it was repeated."""
    return [phase for i, phase in enumerate(s.phase for s in passed) if i == 0 or passed[i - 1].phase is not phase]


@pytest.mark.parametrize("budget", [0, 30, 1000, 15_000])
@pytest.mark.parametrize("log_likelihood", [one_peak, two_peaks, ring, flat, bumps])
def test_phases_follow_the_table_and_climbs_keep_to_their_budget(log_likelihood, budget):
    passed, _ = searched(log_likelihood, budget=budget)
    for before, after in zip(passed, passed[1:], strict=False):
        assert after.phase in ALLOWED[before.phase]
    climbs = [state for state in passed if state.phase in (FIRST, RIDGE, DOUBTFUL, BESIDE)]
    after_climbs = passed[passed.index(climbs[-1]) + 1]
    assert after_climbs.begun - passed[0].begun <= budget


def test_one_peak_is_settled_by_the_first_climbs_and_one_look_at_the_draws():
    passed, _ = searched(one_peak)
    assert names(passed) == [KNOWN, FIRST, DOUBTFUL, DONE]
    assert passed[-1].doubt == ""
    assert len(passed[-1].modes) == 1


def test_a_ridge_is_followed_and_then_left_for_good():
    passed, _ = searched(ring)
    assert names(passed)[:4] == [KNOWN, FIRST, RIDGE, BESIDE]
    assert not {RIDGE, DOUBTFUL} & {state.phase for state in passed[names(passed).index(BESIDE) + 5 :]}


def test_a_plateau_is_no_ridge_to_follow():
    passed, _ = searched(flat)
    assert names(passed) == [KNOWN, FIRST, BESIDE, DONE]


def test_rugged_ground_is_left_to_swarms():
    passed, _ = searched(bumps)
    assert names(passed)[-2:] == [SWARMS, DONE]
    assert len(passed[-1].swarm_ends) > 0
    assert passed[-1].doubt == ""
    np.testing.assert_allclose(passed[-1].modes[0].z, 0, atol=1e-3)


def test_without_room_for_swarms_the_result_is_not_trusted():
    passed, _ = searched(bumps, budget=1500)
    assert names(passed)[-2:] == [SWARMS, DONE]
    assert passed[-1].swarm_ends == []
    assert "maxfev is too small" in passed[-1].doubt
    target = Target(bumps, [(-1, 1)] * 2, 60_000)
    z = target.draw_prior(1000, np.random.default_rng(1))
    found = explore(target, Draws(z, target.height(z)), np.empty((0, 2)), 1500, np.random.default_rng(2))
    assert (found.incomplete, found.is_trusted) == (passed[-1].doubt, False)


def test_swarms_that_disagree_are_a_doubt(monkeypatch):
    monkeypatch.setattr(search_module, "_OFTEN", 10**6)
    passed, _ = searched(bumps, maxfev=None)
    assert [state.phase for state in passed].count(SWARMS) == 4  # three rounds, and the one that finds no budget
    assert "did not agree" in passed[-1].doubt


def test_known_points_lead_to_modes_but_count_for_nothing():
    passed, _ = searched(two_peaks, known=[[0.45, 0.5], [-0.5, -0.45]])
    after = passed[1]
    assert (after.phase, len(after.modes), after.n_climbs) == (FIRST, 2, 0)
    assert {mode.n_climbs for mode in after.modes} == {0}
    assert after.begun > passed[0].begun
    assert passed[-1].n_climbs >= climbs_for(2)


def test_known_points_leave_half_of_the_budget():
    known = np.random.default_rng(3).uniform(-1, 1, (200, 2))
    passed, _ = searched(bumps, known=known, budget=3000)
    assert climb_cost(2) < passed[1].begun - passed[0].begun <= 1500


def test_without_a_finite_draw_there_is_nothing_to_climb_from():
    passed, n_evaluations = searched(lambda x: np.full(len(x), -np.inf))
    assert names(passed) == [KNOWN, FIRST, DONE]
    assert n_evaluations == 0
    assert "too few climbs" in passed[-1].doubt


def mode(at, is_peak, log_mass=0.0, n_climbs=1):
    return Mode(np.array([float(at)]), 0.01 * np.eye(1), log_mass, True, is_peak, n_climbs)


def chosen(phase, known, found, n_rounds=2):
    """The next phase and doubt after a round in ``phase`` that found modes in addition to the known ones."""
    target = Target(one_peak, [(-1, 1)])
    draws = Draws(np.zeros((1, 1)), np.zeros(1))
    task = SearchTask(target, draws, np.empty((0, 1)), 1000, 1000, np.random.default_rng(0), [0], [0])
    before = SearchState(phase, 0, known, known, frozenset(), 0, n_rounds - 1, [], "")
    after = before._replace(modes=known + found, places=known + found, n_rounds=n_rounds)
    state = _choose_next(task, before, after, found)
    return state.phase, bool(state.doubt)


PEAK = [mode(0, True, n_climbs=20)]
FLATS = [mode(i, False, n_climbs=3) for i in range(1, 6)]


@pytest.mark.parametrize(
    ("phase", "known", "found", "n_rounds", "expected"),
    [
        (FIRST, [], PEAK, 1, (DOUBTFUL, False)),
        (FIRST, [], FLATS, 1, (RIDGE, False)),
        (FIRST, [], FLATS[:3], 1, (BESIDE, True)),  # nine climbs are too few, even for one mode
        (FIRST, [], [*FLATS[:2], mode(6, False, n_climbs=9)], 1, (BESIDE, False)),
        (RIDGE, FLATS, [], 2, (BESIDE, False)),
        (RIDGE, FLATS, FLATS[:2], 2, (BESIDE, True)),  # two more that matter: there may be others
        (RIDGE, FLATS[:1], FLATS[1:], 2, (RIDGE, False)),
        (RIDGE, FLATS[:1], FLATS[1:], 6, (BESIDE, True)),  # no more rounds on a ridge
        (RIDGE, FLATS[:1], [mode(i, True) for i in range(6, 10)], 2, (DOUBTFUL, False)),
        (DOUBTFUL, PEAK, [], 2, (DONE, False)),
        (DOUBTFUL, PEAK, [mode(1, True)], 2, (DOUBTFUL, False)),
        (DOUBTFUL, PEAK, [mode(1, True, log_mass=-10)], 2, (DONE, False)),  # a light one is no news
        (DOUBTFUL, [mode(0, True)], [], 2, (DOUBTFUL, False)),  # one climb is not enough
        (DOUBTFUL, PEAK, FLATS, 2, (RIDGE, False)),
        (DOUBTFUL, [mode(0, True)], [], 20, (DONE, True)),  # no more rounds
        (BESIDE, FLATS, FLATS[:2], 3, (DONE, False)),  # only peaks are news
        (BESIDE, FLATS, [mode(9, True)], 3, (BESIDE, False)),
        (BESIDE, FLATS, [mode(9, True)], 20, (DONE, True)),
        (DOUBTFUL, [], [mode(i, True, log_mass=-3 * i) for i in range(9)], 20, (SWARMS, True)),
    ],
)
def test_the_next_phase_follows_from_what_a_round_has_found(phase, known, found, n_rounds, expected):
    assert chosen(phase, known, found, n_rounds) == expected


def test_a_mode_that_turns_up_later_is_late_if_it_matters():
    target = Target(lambda x: logsumexp([-200 * (x[:, 0] + 0.5) ** 2, -200 * (x[:, 0] - 0.5) ** 2], axis=0), [(-1, 1)])
    modes, is_late = explore_again(target, [], np.array([[-0.4]]), 1000)
    assert (len(modes), is_late) == (1, True)
    assert explore_again(target, modes, np.array([[-0.45]]), 1000)[1] is False
    both, is_late = explore_again(target, modes, np.array([[0.45]]), 1000)
    assert (len(both), is_late) == (2, True)


@pytest.mark.parametrize("dim", [20, pytest.param(50, marks=pytest.mark.slow)])
def test_one_peak_in_many_dimensions_is_settled_within_the_budget(dim):
    target = Target(lambda x: -2 * ((x - 0.3) ** 2).sum(axis=1), [(-5, 5)] * dim)
    z = target.draw_prior(10_000, np.random.default_rng(1))
    found = explore(target, Draws(z, target.height(z)), np.empty((0, dim)), 10**9, np.random.default_rng(2))
    assert found.incomplete == ""
    np.testing.assert_allclose(target.parameters(found.modes[0].z[None])[0], 0.3, atol=0.05)


def test_climbs_that_end_on_a_plateau_are_enough():
    """A narrow peak with 90 % of the mass in a flat box: most climbs stay where they are."""
    at, sd = 0.3, 0.02

    def log_likelihood(x):
        peak = -0.5 * (((x - at) / sd) ** 2).sum(axis=1) - 3 * np.log(sd * np.sqrt(2 * np.pi))
        return np.logaddexp(np.log(0.9) + peak, np.log(0.1 / 8))

    target = Target(log_likelihood, [(-1, 1)] * 3)
    z = target.draw_prior(3000, np.random.default_rng(0))
    found = explore(target, Draws(z, target.height(z)), np.empty((0, 3)), 10**9, np.random.default_rng(2))
    assert found.incomplete == ""
    np.testing.assert_allclose(target.parameters(found.modes[0].z[None])[0], at, atol=0.01)
