import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from objectives import NoisyByVisit, Recording, assert_same_run, assert_same_swarm, sphere
from scipy.stats import qmc

import paoswarm as ps

BOX = [(-4, 5), (-6, 3)]


def first_points(**start):
    fun = Recording(sphere)
    ps.minimize(fun, BOX, method=ps.PAO(), maxiter=0, rng=start.pop("rng", 1), **start)
    return np.array(fun.points)


def in_unit_box(points):
    return (points - [-4, -6]) / 9


def test_latin_hypercube_puts_one_point_into_every_slice():
    strata = np.floor(in_unit_box(first_points(n_particles=17)) * 17)
    assert_array_equal(np.sort(strata, axis=0), np.tile(np.arange(17.0)[:, None], 2))


def test_latin_hypercube_is_the_one_of_scipy():
    expected = qmc.LatinHypercube(2, rng=np.random.default_rng(1)).random(17)
    np.testing.assert_allclose(in_unit_box(first_points(n_particles=17)), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("init", ["sobol", "Sobol", "halton", "HALTON"])
def test_low_discrepancy_designs_fill_every_half_and_quarter_evenly(init):
    first = in_unit_box(first_points(n_particles=16, init=init))[:, 0]
    assert_array_equal(np.bincount((first * 16).astype(int)), np.ones(16))


def test_random_start_is_not_stratified():
    strata = np.floor(in_unit_box(first_points(n_particles=64, init="random"))[:, 0] * 64)
    assert len(set(strata)) < 60  # all different has a chance of 1e-26


@pytest.mark.parametrize("init", ["latinhypercube", "latin hypercube", "sobol", "halton", "random"])
def test_designs_stay_in_the_box_and_depend_on_the_seed(init):
    one, two = first_points(n_particles=50, init=init), first_points(n_particles=50, init=init, rng=2)
    assert np.all((one >= [-4, -6]) & (one <= [5, 3]))
    assert not np.isin(one, two).any()


def test_own_points_are_the_first_swarm_in_their_order():
    own = np.array([[0.0, 0.0], [1.0, 2.0], [-4.0, 3.0], [5.0, -6.0], [2.5, -1.0]])
    kept = own.copy()
    fun = Recording(sphere)
    result = ps.minimize(fun, BOX, method=ps.PAO(), init=own, maxiter=4, rng=1)
    assert_array_equal(fun.points[:5], kept)
    assert_array_equal(own, kept)
    assert result.nfev == 5 * 5


@pytest.mark.parametrize("x0", [[1.0, 1.0], [[1.0, 1.0], [2.0, -6.0], [5.0, 3.0]]])
def test_starting_points_are_in_the_first_swarm_and_the_design_fills_the_rest(x0):
    points = first_points(n_particles=8, x0=x0)
    given = np.atleast_2d(x0)
    assert len(points) == 8
    assert_array_equal(points[: len(given)], given)
    strata = np.floor(in_unit_box(points[len(given) :]) * (8 - len(given)))
    assert_array_equal(np.sort(strata, axis=0)[:, 0], np.arange(8 - len(given)))


def test_a_good_starting_point_is_never_lost():
    best = np.array([1.3, -2.1 + 1e-9])
    result = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=8, maxiter=3, x0=best, rng=1)
    assert_array_equal(result.x, best)


def test_known_values_are_believed_and_not_measured_again():
    x0 = np.array([[1.0, 1.0], [0.0, -2.0], [5.0, 3.0]])
    fun = Recording(sphere)
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=8, maxiter=6, x0=(x0, [7.0, -50.0, 3.0]), rng=1)
    assert fun.calls == result.nfev == 5 + 6 * 8
    assert not any((point == known).all() for point in fun.points[:5] for known in x0)
    assert_array_equal(result.x, [0.0, -2.0])
    assert result.fun == -50.0


def test_of_more_known_points_than_particles_the_best_are_taken():
    x0 = np.random.default_rng(1).uniform([-4, -6], [5, 3], (30, 2))
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=6, x0=(x0, sphere(x0)), rng=1)
    assert optimizer.n_to_start == 0
    optimizer.ask()
    assert_array_equal(optimizer.swarm.best_value, np.sort(sphere(x0))[:6])
    assert optimizer.nfev == 0


def test_known_failures_are_worst():
    result = ps.minimize(
        sphere, BOX, method=ps.PAO(), n_particles=4, maxiter=2, x0=([[1.0, 1.0], [2.0, 2.0]], [np.inf, np.inf]), rng=1
    )
    assert np.isfinite(result.fun)


def test_points_whose_value_is_given_as_nan_are_evaluated():
    fun = Recording(sphere)
    x0 = [[1.0, 1.0], [0.5, 0.25], [2.0, 2.0], [3.0, 1.0]]
    result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=3, maxiter=0, x0=(x0, [2.0, np.nan, 8.0, 10.0]), rng=1)
    assert_array_equal(fun.points, [[0.5, 0.25]])  # and of the others the best two are taken
    assert_array_equal(np.sort(result.swarm.best_value), [2.0, sphere(np.array([0.5, 0.25])), 8.0])
    with pytest.raises(ValueError, match=r"x0 has 4 points .*n_particles=3"):
        ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=3, x0=(x0, [np.nan] * 4))


def test_true_known_values_give_the_same_run_as_measuring_them():
    x0 = np.random.default_rng(1).uniform([-4, -6], [5, 3], (6, 2))
    order = np.argsort(sphere(x0))
    known = ps.Optimizer(BOX, method=ps.PAO(), n_particles=6, x0=(x0, sphere(x0)), rng=1)
    known.ask()
    told = ps.Optimizer(BOX, method=ps.PAO(), init=x0[order], rng=1)
    told.tell(sphere(told.ask()))
    for _ in range(5):
        assert_array_equal(known.ask(), told.ask())
        known.tell(sphere(known.ask()))
        told.tell(sphere(told.ask()))
    assert_same_swarm(known.swarm, told.swarm)
    assert (known.nfev, told.nfev) == (30, 36)


def test_a_continued_run_never_gets_worse_and_costs_no_first_swarm():
    first = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=8, maxiter=10, rng=1)
    fun = Recording(sphere)
    second = ps.minimize(fun, BOX, method=ps.PAO(), init=first.swarm, maxiter=10, rng=2)
    assert fun.calls == second.nfev == 80
    assert second.history.best[0] == first.fun
    assert_array_equal(second.history.nfev, 8 * np.arange(11))
    assert np.all(np.diff(second.history.best) <= 0)
    assert second.fun < first.fun
    known = np.concatenate([first.swarm.best_position, first.swarm.position])
    assert not any((point == known).all(axis=1).any() for point in fun.points)


def test_a_run_continued_where_the_optimum_was_found_stays_there():
    first = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=20, maxiter=400, tol=1e-6, vectorized=True, rng=1)
    second = ps.minimize(sphere, BOX, method=ps.PAO(), init=first.swarm, maxiter=5, tol=0, vectorized=True, rng=1)
    assert second.fun <= first.fun


def test_a_continued_swarm_may_get_a_wider_box_but_not_one_that_leaves_it_outside():
    first = ps.minimize(sphere, [(-4, 0), (-6, -3)], method=ps.PAO(), n_particles=20, maxiter=3, rng=1)
    wider = ps.minimize(sphere, BOX, method=ps.PAO(), init=first.swarm, maxiter=60, rng=1)
    assert wider.fun < 1e-6 < first.fun  # the optimum lies outside the first box
    with pytest.raises(ValueError, match=r"position lies outside the bounds"):
        ps.minimize(sphere, [(2, 5), (-6, 3)], method=ps.PAO(), init=first.swarm)
    with pytest.raises(ValueError, match="x0 does not go with init=swarm"):
        ps.minimize(sphere, BOX, method=ps.PAO(), init=first.swarm, x0=[0.0, 0.0])
    with pytest.raises(ValueError, match="but this problem needs"):
        ps.minimize(sphere, [*BOX, (0, 1)], method=ps.PAO(), init=first.swarm)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"best_value": np.full(9, np.nan)}, "best_value is NaN; use"),
        ({"position": np.full((9, 2), np.nan)}, "position is NaN or infinite"),
        ({"velocity": np.full((9, 2), np.inf)}, "velocity is NaN or infinite"),
        ({"velocity": np.zeros((9, 3))}, r"velocity has shape \(9, 3\), not \(9, 2\)"),
        ({"age": np.zeros(8)}, r"age has shape \(8,\), not \(9,\)"),
    ],
)
def test_a_swarm_that_was_spoilt_is_not_continued(changes, message):
    swarm = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=9, maxiter=2, rng=1).swarm
    fun = Recording(sphere)
    with pytest.raises(ValueError, match=message):
        ps.minimize(fun, BOX, method=ps.PAO(), init=swarm._replace(**changes))
    assert fun.calls == 0


def test_the_leader_of_a_continued_swarm_is_the_best_of_its_bests():
    swarm = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=9, maxiter=2, rng=1).swarm
    wrong = swarm._replace(global_best=swarm.global_best + 1, global_value=np.float64(-5.0))
    one, other = (ps.minimize(sphere, BOX, method=ps.PAO(), init=start, maxiter=3, rng=1) for start in (swarm, wrong))
    assert_same_swarm(one.swarm, other.swarm)
    with pytest.raises(TypeError, match="position is not an array of real numbers"):
        ps.minimize(sphere, BOX, method=ps.PAO(), init=swarm._replace(position=swarm.position + 1j))


def test_without_walls_points_outside_the_box_are_welcome():
    """The optimum of the sphere lies far outside; a first run finds the way, and a second one begins where it ended."""
    free, far = ps.PAO(walls="none"), [(9, 10)] * 2
    first = ps.minimize(sphere, far, method=free, maxiter=20, rng=1)
    assert (first.x < 9).any()
    again = ps.minimize(sphere, far, method=free, x0=first.x, maxiter=0, rng=1)
    assert again.fun == first.fun
    optimizer = ps.Optimizer(far, method=free, n_particles=5, rng=1)
    optimizer.inject(first.x, [first.fun])
    with pytest.raises(ValueError, match="x0 must lie inside the bounds"):
        ps.minimize(sphere, far, method=ps.PAO(), x0=first.x)
    with pytest.raises(ValueError, match="x0 must lie inside the bounds"):
        ps.minimize(sphere, far, method=free, x0=[np.inf, 0.0])


def test_a_continued_run_can_begin_to_measure_again():
    first = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, maxiter=5, rng=1)
    second = ps.minimize(
        NoisyByVisit(sphere, 0.1), BOX, method=ps.PAO(), init=first.swarm, reevaluate=0.2, maxiter=5, rng=1
    )
    assert second.nfev == 5 * 12
    assert second.fun_error > 0


def test_a_batch_of_runs_can_be_continued():
    first = ps.minimize_many(sphere, BOX, method=ps.PAO(), runs=4, n_particles=8, maxiter=5, vectorized=True, rng=1)
    second = ps.minimize_many(sphere, BOX, runs=4, method=ps.PAO(), init=first.swarm, maxiter=5, vectorized=True, rng=2)
    assert np.all(second.fun <= first.fun)
    assert_array_equal(second.nfev, 40)


def wide_sphere(x):
    return (x**2).sum(axis=-1)


def test_a_batch_in_several_blocks_is_continued_from_its_result_or_its_swarms():
    wide = [(-5, 5)] * 1000
    few = {"method": ps.PAO(), "runs": 9, "n_particles": 5, "maxiter": 1, "vectorized": True, "rng": 1}
    many = ps.minimize_many(wide_sphere, wide, **few)
    one, other = (ps.minimize_many(wide_sphere, wide, init=start, **few) for start in (many, many.swarm))
    np.testing.assert_array_equal(one.x, other.x)
    assert (one.fun <= many.fun).all()


@pytest.mark.parametrize("reevaluate", [0.0, 0.3])
def test_the_optimizer_asked_and_told_by_hand_does_what_minimize_does(reevaluate):
    common = {"n_particles": 9, "reevaluate": reevaluate, "rng": 5}
    result = ps.minimize(NoisyByVisit(sphere, 0.1), BOX, method=ps.PAO(), maxiter=7, **common)
    fun = NoisyByVisit(sphere, 0.1)
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), **common)
    for _ in range(8):
        optimizer.tell([fun(x) for x in optimizer.ask()])
    assert_same_swarm(optimizer.swarm, result.swarm)
    assert (optimizer.nit, optimizer.nfev) == (result.nit, result.nfev)
    assert (optimizer.result.fun, optimizer.result.fun_error) == (result.fun, result.fun_error)


def test_the_optimizer_has_a_result_at_any_time_after_the_start():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=9, rng=5)
    with pytest.raises(RuntimeError, match="no result yet"):
        optimizer.result
    x = optimizer.ask()
    optimizer.tell(sphere(x))
    result = optimizer.result
    assert (result.status, result.success, result.nit, result.nfev) == (ps.results.Status.RUNNING, False, 0, 9)
    assert result.fun == sphere(x).min()


def test_ask_returns_the_same_points_until_they_are_told():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=9, rng=5)
    for _ in range(3):
        x = optimizer.ask()
        again = optimizer.ask()
        assert_array_equal(x, again)
        again[:] = 0.0  # mine now
        assert_array_equal(x, optimizer.ask())
        optimizer.tell(sphere(x))
        assert not np.array_equal(x, optimizer.ask())


def test_values_without_a_question_are_refused_and_change_nothing():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=4, rng=5)
    with pytest.raises(RuntimeError, match="call ask first"):
        optimizer.tell([1.0, 2.0, 3.0, 4.0])
    optimizer.tell(sphere(optimizer.ask()))
    with pytest.raises(RuntimeError, match="call ask first"):
        optimizer.tell([1.0, 2.0, 3.0, 4.0])
    assert (optimizer.nit, optimizer.nfev) == (0, 4)


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        ([1.0, 2.0], ValueError, r"shape \(4,\).*got \(2,\)"),
        ([[1.0, 2.0, 3.0, 4.0]], ValueError, r"shape \(4,\).*got \(1, 4\)"),
        (1.0, ValueError, r"got \(\)"),
        ([1.0, 2.0, 3.0, 4.0j], TypeError, "real numbers, got complex128"),
        (["a", "b", "c", "d"], TypeError, "real numbers"),
        ([1.0, None, 2.0, 3.0], TypeError, "real numbers, got object"),
    ],
)
def test_values_of_the_wrong_form_are_refused_and_can_be_told_again(values, error, text):
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=4, rng=5)
    x = optimizer.ask()
    with pytest.raises(error, match=text):
        optimizer.tell(values)
    optimizer.tell(sphere(x))
    assert optimizer.nfev == 4


def test_told_failures_are_counted_and_never_best():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=4, rng=5)
    optimizer.ask()
    optimizer.tell([np.nan, 2.0, np.inf, 3.0])
    assert (optimizer.n_failed, optimizer.result.fun) == (1, 2.0)


def test_a_first_swarm_that_failed_everywhere_is_an_error():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=4, rng=5)
    optimizer.ask()
    with pytest.raises(ValueError, match="no finite value"):
        optimizer.tell([np.nan, np.inf, np.nan, np.nan])


def test_points_injected_before_the_start_are_part_of_the_first_swarm():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=6, rng=5)
    optimizer.inject([[1.0, 1.0], [2.0, 2.0]], [-3.0, 9.0])
    x = optimizer.ask()
    assert x.shape == (4, 2)
    with pytest.raises(RuntimeError, match="before injecting"):
        optimizer.inject([0.0, 0.0], 1.0)
    optimizer.tell(sphere(x))
    assert (optimizer.nfev, optimizer.result.fun) == (4, -3.0)
    assert_array_equal(optimizer.swarm.position[:2], [[1.0, 1.0], [2.0, 2.0]])


def test_points_injected_later_replace_the_worst_bests_and_lead_if_they_are_best():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=5, rng=5)
    optimizer.ask()
    optimizer.tell([5.0, 1.0, 4.0, 2.0, 3.0])
    optimizer.ask()
    optimizer.tell([9.0] * 5)
    optimizer.inject([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [3.5, 0.5, 99.0])
    assert_array_equal(optimizer.swarm.age, [0, 1, 0, 1, 1])
    assert_array_equal(optimizer.swarm.best_value, [0.5, 1.0, 3.5, 2.0, 3.0])
    assert_array_equal(optimizer.swarm.best_position[[0, 2]], [[1.0, 1.0], [0.0, 0.0]])
    assert_array_equal(optimizer.result.x, [1.0, 1.0])
    assert (optimizer.result.fun, optimizer.nfev) == (0.5, 10)


def test_worse_and_failed_points_are_injected_in_vain():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=5, rng=5)
    optimizer.ask()
    optimizer.tell([5.0, 1.0, 4.0, 2.0, 3.0])
    before = optimizer.swarm
    optimizer.inject([[0.0, 0.0], [1.0, 1.0]], [np.nan, 6.0])
    assert_same_swarm(optimizer.swarm, before)


def test_injected_points_must_lie_in_the_box_and_have_values():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=5, rng=5)
    with pytest.raises(ValueError, match="element 1 of point 0 is 7"):
        optimizer.inject([0.0, 7.0], 1.0)
    with pytest.raises(ValueError, match=r"f must .* 1 points"):
        optimizer.inject([0.0, 0.0], [1.0, 2.0])


def test_an_injected_optimum_attracts_the_swarm_from_the_next_step_on():
    method = ps.PAO(attractors=(ps.attractors.global_best,), stiffness=2.0, noise=0.0)
    optimizer = ps.Optimizer(BOX, n_particles=10, method=method, rng=5)
    x, g = optimizer.ask(), np.array([1.3, -2.1])
    optimizer.tell(sphere(x))
    optimizer.inject(g, 0.0)
    a11 = ps.laws.transition(mass=1.0, damping=0.2, stiffness=2.0, dt=1.0).A[0, 0]
    np.testing.assert_allclose(optimizer.ask(), g + a11 * (x - g), rtol=1e-12)


PICKLED = {
    "default": {},
    "stochastic attractors": {
        "method": ps.PAO(attractors=(ps.attractors.GaussianPoint(), ps.attractors.global_best)),
    },
    "dense noise": {"method": ps.PAO(noise_scale=ps.noise.covariance)},
    "repeated measurements": {"reevaluate": 0.3},
    "batch": {"rng": [1, 2, 3]},
    "several searches": {"method": ps.AdaptivePAO()},
    "another method": {"method": ps.classic.SADE()},
}


@pytest.mark.parametrize("before", [0, 1, 7])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("kind", PICKLED)
def test_an_optimizer_that_was_saved_and_loaded_goes_on_as_if_nothing_had_happened(kind, asked, before):
    settings = {"method": ps.PAO(), "n_particles": 9, "rng": 5} | PICKLED[kind]
    straight, saved = ps.Optimizer(BOX, **settings), ps.Optimizer(BOX, **settings)
    for _ in range(before):
        for optimizer in (straight, saved):
            optimizer.tell(sphere(optimizer.ask()))
    if asked:
        saved.ask()
    loaded = pickle.loads(pickle.dumps(saved))
    for _ in range(12):
        for optimizer in (straight, loaded):
            optimizer.tell(sphere(optimizer.ask()))
    assert_same_swarm(loaded.swarm._replace(memory=None), straight.swarm._replace(memory=None))
    assert_array_equal(loaded.ask(), straight.ask())
    assert (loaded.nit, loaded.nfev) == (straight.nit, straight.nfev)


def test_saving_does_not_disturb_the_optimizer_that_is_saved():
    optimizers = [ps.Optimizer(BOX, method=ps.PAO(), n_particles=9, rng=5) for _ in range(2)]
    for _ in range(6):
        pickle.dumps(optimizers[0])
        for optimizer in optimizers:
            optimizer.tell(sphere(optimizer.ask()))
    assert_same_swarm(optimizers[0].swarm, optimizers[1].swarm)


def test_a_batch_has_no_single_result():
    optimizer = ps.Optimizer(BOX, method=ps.PAO(), n_particles=5, rng=[1, 2])
    assert optimizer.ask().shape == (2, 5, 2)
    optimizer.tell(sphere(optimizer.ask()))
    with pytest.raises(ValueError, match="this Optimizer holds several runs"):
        optimizer.result


def test_a_batch_of_optimizers_is_the_single_ones_side_by_side():
    batch = ps.Optimizer(BOX, method=ps.PAO(), n_particles=5, rng=[1, 2])
    alone = [ps.Optimizer(BOX, method=ps.PAO(), n_particles=5, rng=seed) for seed in (1, 2)]
    for _ in range(6):
        assert_array_equal(batch.ask(), [one.ask() for one in alone])
        for optimizer in (batch, *alone):
            optimizer.tell(sphere(optimizer.ask()))


def test_the_users_arrays_are_never_changed():
    bounds, x0, f0 = np.array(BOX, dtype=float), np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([2.0, 3.0])
    copies = [a.copy() for a in (bounds, x0, f0)]
    result = ps.minimize(sphere, bounds, method=ps.PAO(), x0=(x0, f0), n_particles=5, maxiter=3, rng=1)
    result.x[:] = 0
    for array, copy in zip((bounds, x0, f0), copies, strict=True):
        assert_array_equal(array, copy)
    assert_same_run(
        *(ps.minimize(sphere, bounds, method=ps.PAO(), x0=(x0, f0), n_particles=5, rng=1) for _ in range(2))
    )


def test_without_generations_a_swarm_that_is_brought_along_is_returned_as_it_is():
    first = ps.minimize(sphere, BOX, method=ps.PAO(), n_particles=10, maxiter=3, rng=1)
    for start in ({"init": first.swarm}, {"x0": (first.swarm.best_position, first.swarm.best_value)}):
        fun = Recording(sphere)
        result = ps.minimize(fun, BOX, method=ps.PAO(), n_particles=10, maxiter=0, rng=1, **start)
        assert (fun.calls, result.nfev, result.nit, len(result.history)) == (0, 0, 0, 1)
        assert result.fun == first.fun


def test_a_list_of_seeds_is_refused_where_one_run_is_asked_for():
    with pytest.raises(TypeError, match="rng must be an int"):
        ps.minimize(sphere, BOX, method=ps.PAO(), rng=[1, 2])
