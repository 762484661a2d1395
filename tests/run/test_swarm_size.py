"""The size of the first swarm if the user gives none, and a warning if the user's leaves no generations."""

import warnings
from functools import partial

import numpy as np
import pytest

import paoswarm as ps

BOX = [(-5.0, 5.0)] * 3
METHODS = [
    ps.PAO(),
    ps.classic.PSO(),
    ps.classic.QPSO(),
    ps.classic.DE(),
    ps.classic.DE(strategy="rand/2"),
    ps.classic.SADE(),
    ps.classic.RandomSearch(),
]


def sphere(x):
    return (x**2).sum(axis=-1)


def test_without_a_budget_the_swarm_has_a_hundred_particles():
    assert ps.minimize(sphere, BOX, method=ps.PAO(), maxiter=2, vectorized=True, rng=1).swarm.n_particles == 100
    assert ps.Optimizer(BOX, method=ps.PAO(), rng=1).ask().shape == (100, 3)


@pytest.mark.parametrize("maxfev", [40, 100, 1000, 5000])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_budget_is_spent_on_generations(method, maxfev):
    result = ps.minimize(sphere, BOX, method=method, maxfev=maxfev, tol=0, vectorized=True, rng=1)
    assert result.nit >= 5
    assert result.nfev == maxfev  # maxiter=100 does not end it before


def test_a_small_budget_beats_the_latin_hypercube_that_it_was():
    budget = {"runs": 20, "maxfev": 100, "vectorized": True, "rng": 1}
    chosen = ps.minimize_many(sphere, BOX, method=ps.PAO(), **budget)
    with pytest.warns(RuntimeWarning, match="leaves 0 generations"):
        hypercube = ps.minimize_many(sphere, BOX, method=ps.PAO(), n_particles=100, **budget)
    assert np.median(chosen.fun) < 0.1 * np.median(hypercube.fun)


def test_the_size_grows_with_the_budget_and_stays_within_limits():
    sizes = [ps.PAO().default_particles(5, maxfev, None) for maxfev in (1, 50, 100, 1000, 10_000, 10**6)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (6, 100)
    assert ps.PAO().default_particles(5, 1000, 19) == 50  # twenty swarms use the budget


def test_the_method_has_the_say():
    class Own(ps.classic.RandomSearch):
        def default_particles(self, n_unknowns, maxfev, maxiter):
            return 10 * n_unknowns

    assert ps.minimize(sphere, BOX, method=Own(), maxiter=1, rng=1).swarm.n_particles == 30
    assert ps.minimize_many(sphere, BOX, method=Own(), runs=2, maxiter=1, rng=1).swarm.n_particles == 30
    assert len(ps.Optimizer(BOX, method=Own(), rng=1).ask()) == 30


def test_the_users_points_have_room():
    x0 = np.random.default_rng(1).uniform(-5, 5, (30, 3))
    assert ps.minimize(sphere, BOX, method=ps.PAO(), x0=x0, maxfev=200, rng=1).swarm.n_particles == 30


@pytest.mark.parametrize("start", [{"n_particles": 50}, {"init": np.random.default_rng(1).uniform(-5, 5, (50, 3))}])
@pytest.mark.parametrize(
    "function", [ps.minimize, partial(ps.minimize_many, runs=2)], ids=["minimize", "minimize_many"]
)
def test_fewer_than_five_generations_are_a_warning(function, start):
    with pytest.warns(RuntimeWarning, match="leaves 4 generations") as caught:
        function(sphere, BOX, maxfev=250, vectorized=True, rng=1, **start)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(sphere, BOX, maxfev=300, vectorized=True, rng=1, **start)


def test_maxiter_says_how_many_generations_are_wanted():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = ps.minimize(
            sphere, BOX, method=ps.PAO(), n_particles=50, maxiter=1, maxfev=1000, vectorized=True, rng=1
        )
    assert result.nfev == 100


def test_a_stored_run_keeps_its_size_when_the_budget_grows(tmp_path):
    store = ps.Store(tmp_path / "run.paoswarm", fsync="never")
    first = ps.minimize(sphere, BOX, method=ps.PAO(), maxfev=100, rng=1, store=store)
    longer = ps.minimize(sphere, BOX, method=ps.PAO(), maxfev=400, rng=1, store=store)
    assert longer.swarm.n_particles == first.swarm.n_particles
    assert longer.nfev == 400


@pytest.mark.parametrize("whole", [1e3, np.float64(1000), np.int64(1000), 1000])
def test_a_whole_number_may_be_written_as_a_float(whole):
    assert ps.minimize(sphere, BOX, method=ps.PAO(), maxfev=whole, vectorized=True, rng=1).nfev == 1000


@pytest.mark.parametrize("name", ["maxfev", "maxiter", "n_particles"])
@pytest.mark.parametrize("broken", [10.5, np.nan, np.inf, "10", True])
def test_other_numbers_are_errors(name, broken):
    with pytest.raises(ValueError, match=f"{name} must be a whole number"):
        ps.minimize(sphere, BOX, method=ps.PAO(), **{name: broken})


@pytest.mark.parametrize("name", ["PSO", "pso", "Pao", "sade", "de", "qpso", "RANDOMSEARCH"])
def test_methods_have_names(name):
    assert type(ps.minimize(sphere, BOX, method=name, maxiter=1, rng=1).method).__name__.lower() == name.lower()


def test_an_unknown_method_names_those_there_are():
    with pytest.raises(ValueError, match="PAO, PSO, QPSO, DE, SADE"):
        ps.minimize(sphere, BOX, method="cmaes")
