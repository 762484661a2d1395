import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from objectives import NoisyByVisit, assert_same_run, assert_same_swarm, sphere

import paoswarm as ps

BOX = [(-4, 5), (-6, 3), (-2, 2)]


def small_run(**changes):
    return ps.minimize(sphere, BOX, **({"method": ps.PAO(), "n_particles": 12, "maxiter": 8, "rng": 3} | changes))


@pytest.mark.parametrize(
    "seed",
    [lambda: 7, lambda: np.int64(7), lambda: np.random.SeedSequence(7), lambda: np.random.default_rng(7)],
    ids=["int", "numpy int", "SeedSequence", "Generator"],
)
def test_every_kind_of_seed_gives_the_same_run_again(seed):
    assert_same_run(small_run(rng=seed()), small_run(rng=7))


def test_different_seeds_give_different_runs():
    assert small_run(rng=1).fun != small_run(rng=2).fun
    assert small_run(rng=None).fun != small_run(rng=None).fun


def test_a_seed_sequence_can_be_used_twice_and_a_generator_moves_on():
    seeds, rng = np.random.SeedSequence(7), np.random.default_rng(7)
    assert_same_run(small_run(rng=seeds), small_run(rng=seeds))
    assert small_run(rng=rng).fun != small_run(rng=rng).fun


def test_many_runs_with_the_same_seed_are_the_same_runs():
    one, two = (
        ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=5, maxiter=5, vectorized=True, rng=4) for _ in range(2)
    )
    assert_array_equal(one.x, two.x)
    assert_array_equal(one.history, two.history)
    seeds = np.random.SeedSequence(4)
    for _ in range(2):
        again = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=5, maxiter=5, vectorized=True, rng=seeds)
        assert_array_equal(one.x, again.x)


def test_fewer_runs_are_the_first_of_many():
    many = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=6, maxiter=5, vectorized=True, rng=4)
    few = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=2, maxiter=5, vectorized=True, rng=4)
    assert_array_equal(few.x, many.x[:2])


def test_global_random_states_are_left_alone():
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = np.random.get_state(), random.getstate()  # noqa: NPY002
    for init in ("latinhypercube", "sobol", "halton", "random"):
        small_run(init=init, rng=None)
    ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=2, maxiter=2, vectorized=True)
    after = np.random.get_state(), random.getstate()  # noqa: NPY002
    assert_array_equal(before[0][1], after[0][1])
    assert before[0][2:] == after[0][2:]
    assert before[1] == after[1]


@pytest.mark.parametrize("vectorized", [False, True])
def test_result_does_not_depend_on_who_evaluates(vectorized):
    alone = small_run(vectorized=vectorized)
    with ThreadPoolExecutor(3) as threads:
        for workers in (2, 3, map, threads.map):
            assert_same_run(small_run(vectorized=vectorized, workers=workers), alone)


def test_vectorised_and_scalar_evaluation_give_the_same_run():
    assert_same_run(small_run(vectorized=True), small_run())


def test_many_runs_do_not_depend_on_workers():
    settings = {"runs": 3, "n_particles": 8, "maxiter": 5, "rng": 2}
    alone = ps.minimize_many(sphere, BOX, method=ps.PAO(), **settings)
    for workers in (2, map):
        assert_array_equal(
            ps.minimize_many(sphere, BOX, method=ps.PAO(), workers=workers, **settings).history, alone.history
        )


METHODS = {
    "default": ps.PAO(),
    "reflecting": ps.PAO(walls="reflect"),
    "Gaussian attractors": ps.PAO(attractors=(ps.attractors.GaussianPoint(), ps.attractors.global_best)),
    "differential evolution": ps.PAO(attractors=(ps.attractors.DifferentialEvolution(), ps.attractors.global_best)),
    "random informants": ps.PAO(
        attractors=(ps.attractors.local_best, ps.attractors.NeighbourhoodBest("random", size=3))
    ),
    "scheduled": ps.PAO(dt=ps.schedules.linear(0.7, 1.4), damping=ps.schedules.geometric(0.15, 0.25)),
    "patient": ps.PAO(dt=ps.schedules.patient_step()),
    "dense noise": ps.PAO(noise_scale=ps.noise.covariance),
    "different particles": ps.PAO(dt=np.linspace(0.8, 1.2, 15)),
}
ENDS = {
    "generations": {"maxiter": 12},
    "evaluations": {"maxiter": None, "maxfev": 187},
    "target": {"maxiter": 60, "target": 0.01},
    "collapse": {"maxiter": 60, "tol": 0.05},
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_the_same_alone_and_in_company(method, end):
    settings = {"method": METHODS[method], "n_particles": 15, **ENDS[end]}
    many = ps.minimize_many(sphere, BOX, runs=6, vectorized=True, rng=8, **settings)
    if end == "target":
        assert len(set(many.nit)) > 1  # otherwise this would be the plain case
    for r in (0, 5):
        alone = ps.minimize(sphere, BOX, vectorized=True, rng=many.seeds[r], **settings)
        run = many.run(r)
        for name in ("x", "fun", "status", "message", "nit", "nfev", "n_failed"):
            assert_array_equal(run[name], alone[name], err_msg=name)
        assert_array_equal(run.history.best, alone.history.best)
        assert_same_swarm(run.swarm, alone.swarm)


@pytest.mark.parametrize("end", ENDS)
def test_a_noisy_run_with_repeated_measurements_is_the_same_alone_and_in_company(end):
    settings = {"n_particles": 15, "reevaluate": 0.2, **ENDS[end]}
    many = ps.minimize_many(NoisyByVisit(sphere, 0.3), BOX, method=ps.PAO(), runs=4, rng=8, **settings)
    assert many.swarm.repeats.sd.min() > 0.1
    for r in (0, 3):
        alone = ps.minimize(NoisyByVisit(sphere, 0.3), BOX, method=ps.PAO(), rng=many.seeds[r], **settings)
        assert (many.fun[r], many.nit[r], many.nfev[r]) == (alone.fun, alone.nit, alone.nfev)
        assert_same_swarm(many.run(r).swarm, alone.swarm)


def test_runs_with_failures_are_the_same_alone_and_in_company():
    def holey(x):
        return np.where(x[..., 0] > 2, np.nan, sphere(x))

    many = ps.minimize_many(holey, BOX, method=ps.PAO(), runs=5, n_particles=15, maxiter=10, vectorized=True, rng=8)
    assert many.n_failed.min() > 0
    for r in range(5):
        alone = ps.minimize(holey, BOX, method=ps.PAO(), n_particles=15, maxiter=10, vectorized=True, rng=many.seeds[r])
        assert (many.fun[r], many.n_failed[r]) == (alone.fun, alone.n_failed)
        assert alone.message == many.message[r].replace("+inf.", f"+inf ({alone.n_failed} returned NaN).")
        assert_same_swarm(many.run(r).swarm, alone.swarm)
