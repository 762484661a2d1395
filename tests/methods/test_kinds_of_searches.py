"""Kinds of searches of the user's own in the default search."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import paoswarm as ps

BOX = [(-5, 5)] * 2
OURS = ps.AdaptivePAO.kinds
HOLE = np.array([1.0, -2.0])


def himmelblau(x):
    return (x[..., 0] ** 2 + x[..., 1] - 11) ** 2 + (x[..., 0] + x[..., 1] ** 2 - 7) ** 2


def with_a_hole(x):
    """The hole is so narrow that a search meets it by chance only."""
    return himmelblau(x) - 200 * np.exp(-50 * np.square(x - HOLE).sum(axis=-1))


def near_a_guess(swarm, draw):
    return HOLE + 0.2 + 0.2 * draw.normal(swarm.n_particles, swarm.n_dimensions)


def step(swarm):
    return 0.01 + 0.0 * swarm.position


class Climbers(ps.Method):
    """Steps that become shorter from generation to generation."""

    def begin(self, state):
        return state._replace(memory=1.0)

    def ask(self, state, draw, progress=0.0):
        shaking = state.memory * draw.normal(state.n_particles, state.n_dimensions)
        return ps.Proposal(state.global_best + shaking, 0 * state.velocity)

    def tell(self, state, proposal, value, evaluated=None):
        return super().tell(state, proposal, value, evaluated)._replace(memory=0.6 * state.memory)


INFORMED = ps.PAO(attractors=(near_a_guess,), stiffness=2.0, noise_scale=step)
RANDOM_NEIGHBOURS = ps.PAO(attractors=(ps.attractors.local_best, ps.attractors.NeighbourhoodBest("random", 3)))


def solve(method, f=himmelblau, **options):
    return ps.minimize(f, BOX, method=method, **({"vectorized": True, "rng": 1} | options))


@pytest.mark.parametrize("seed", range(4))
def test_an_attractor_of_ones_own_finds_what_the_default_search_misses(seed):
    assert abs(solve(None, with_a_hole, rng=seed).fun) < 1e-9
    result = solve(ps.AdaptivePAO(kinds=(INFORMED, *OURS)), with_a_hole, rng=seed, maxfev=4000)
    assert result.fun < -45
    assert {one.kind for one in result.searches} >= {"PAO", "local model", "growing dense"}


def test_the_kinds_of_the_default_may_be_named():
    assert ps.AdaptivePAO(kinds=list(OURS)) == ps.AdaptivePAO()
    space = {"n": ps.Integer(0, 30), "r": (0.0, 5.0)}
    for method, f, box in (
        (ps.AdaptivePAO(kinds=OURS), himmelblau, BOX),
        (ps.MixedPAO(kinds=ps.MixedPAO.kinds), lambda p: (p["n"] - 7 * p["r"]) ** 2 + p["r"], space),
    ):
        options = {"vectorized": isinstance(box, list), "maxfev": 1500, "rng": 2}
        default, named = (ps.minimize(f, box, method=one, **options) for one in (None, method))
        assert type(default.method) is type(named.method)
        assert_array_equal(default.history.best, named.history.best)
        assert_array_equal(default.x, named.x)


@pytest.mark.parametrize("kinds", [("small dense",), ("small dense", "element-wise"), ("small dense", "growing dense")])
def test_small_searches_may_begin(kinds):
    result = solve(ps.AdaptivePAO(kinds=kinds))
    assert result.fun < 1e-9
    assert {one.kind for one in result.searches} == set(kinds)
    small = [one for one in result.searches if one.kind == "small dense"]
    assert small[0].n_particles == ps.DensePAO().default_particles(2)


@pytest.mark.parametrize("own", [Climbers(), ps.classic.DE(), RANDOM_NEIGHBOURS], ids=["own class", "DE", "PAO"])
def test_searches_of_ones_own_end_and_are_counted(own):
    result = solve(ps.AdaptivePAO(kinds=(own, *OURS)))
    first = result.searches[0]
    assert (first.kind, first.began) == (type(own).__name__, 0)
    assert result.status is ps.results.Status.CONVERGED
    assert result.agreement.n_searches == sum(one.ending != "cut short" for one in result.searches)
    assert result.fun < 1e-12


def test_a_search_that_was_cut_short_is_followed_by_a_longer_one_and_one_that_has_converged_by_a_larger_one():
    result = solve(ps.AdaptivePAO(kinds=INFORMED), with_a_hole, tol=0.0, maxfev=12_000)
    n = ps.PAO().default_particles(2, 2000)
    assert [one.n_particles for one in result.searches] == [n, n]
    assert [one.evaluations // 1900 for one in result.searches] == [1, 2]
    assert {one.ending for one in result.searches} == {"cut short"}
    grown = solve(ps.AdaptivePAO(kinds=Climbers()), tol=0.0, maxfev=12_000).searches
    assert [one.n_particles // grown[0].n_particles for one in grown[:2]] == [1, ps.AdaptivePAO.growth]


def test_searches_do_not_agree_while_a_better_point_is_known():
    """The others agree at a value of zero, but the user's search, which was cut short, has seen a better one."""
    result = solve(ps.AdaptivePAO(kinds=(INFORMED, *ps.AdaptivePAO.swarms)), with_a_hole)
    assert result.status is ps.results.Status.MAXFEV
    others = [one for one in result.searches if one.ending != "cut short" and one.value > -1]
    assert len(others) > 8
    assert result.fun < -50
    assert "no search has ended at the best point" in result.message


def interrupted(after):
    """An objective that ends the program after some evaluations."""
    left = [after]

    def f(x):
        left[0] -= len(x)
        if left[0] < 0:
            raise SystemExit
        return with_a_hole(x)

    return f


@pytest.mark.parametrize("own", [Climbers(), INFORMED], ids=["own class", "PAO"])
def test_a_stored_run_is_resumed(own, tmp_path):
    method = ps.AdaptivePAO(kinds=(*OURS, own))
    whole = solve(method, with_a_hole, maxfev=3000, tol=0.0)
    assert type(own).__name__ in {one.kind for one in (*whole.searches, *whole.swarm.memory.lanes)}
    with pytest.raises(SystemExit):
        solve(method, interrupted(2400), maxfev=3000, tol=0.0, store=tmp_path / "run")
    resumed = solve(method, with_a_hole, maxfev=3000, tol=0.0, store=ps.Store(tmp_path / "run", trust=True))
    assert_array_equal(resumed.history.best, whole.history.best)
    assert_array_equal(resumed.x, whole.x)
    again = ps.resume(ps.Store(tmp_path / "run", trust=True), with_a_hole, method=method, maxfev=3200, tol=0.0)
    assert again.nfev == 3200


def test_workers_and_constraints_and_noise_go_with_searches_of_ones_own():
    method = ps.AdaptivePAO(kinds=(Climbers(), *OURS), local=False)
    result = solve(method, workers=ps.Workers(4), vectorized=False, maxfev=600)
    assert result.method.parallel == 4
    assert result.nfev == 600
    circle = {"type": "eq", "fun": lambda x: x[..., 0] ** 2 + x[..., 1] ** 2 - 8}
    result = solve(method, constraints=[circle], maxfev=2500)
    assert result.feasible
    assert result.searches[0].kind == "Climbers"
    assert solve(method, reevaluate=0.2, maxfev=600).nfev == 600
    many = ps.minimize_many(himmelblau, BOX, runs=2, method=method, maxfev=500, vectorized=True, rng=3)
    alone = solve(method, rng=many.seeds[1], maxfev=500)
    assert_array_equal(alone.x, many.x[1])


def test_what_is_no_kind_of_search_is_named():
    for wrong, error, text in (
        (3, TypeError, "kinds must be one or more"),
        ([], TypeError, "kinds must be one or more"),
        ([3], TypeError, r"kinds must be methods, PAO\(\) for example, or names of searches, got 3"),
        ([ps.PAO], TypeError, r"write PAO\(\)"),
        ([near_a_guess], TypeError, "kinds must be methods"),
        ("element", ValueError, "unknown kind of search 'element'; did you mean element-wise"),
    ):
        with pytest.raises(error, match=text):
            ps.AdaptivePAO(kinds=wrong)
        with pytest.raises(error, match="kind"):
            ps.MixedPAO(kinds=wrong)


def test_a_search_that_cannot_be_made_is_refused_before_the_first_evaluation():
    with pytest.raises(ValueError, match=r"DE.* needs n_particles >= 4, got 3"):
        solve(ps.Restarts(ps.classic.DE()), lambda x: 1 / 0, n_particles=3)
