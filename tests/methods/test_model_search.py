"""The search by quadratic models, and its place among the searches of the default method."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import paoswarm as ps
from paoswarm.methods.dense_learning import law_with
from paoswarm.methods.dense_pao import Guess, first_points
from paoswarm.methods.local_model import TrustRegion
from paoswarm.methods.model_search import CONVERGED, YIELDED, ModelMemory, ModelSearch, guess_of
from paoswarm.methods.sharing import STALLED, STALLED_FOR

BOX = [(-3, 3)] * 5


def valley(x):
    return 100 * np.square(x[..., 1:] - x[..., :-1] ** 2).sum(axis=-1) + np.square(1 - x[..., :-1]).sum(axis=-1)


def bowl(x):
    return np.square(x - 0.7).sum(axis=-1)


def rugged(x):
    """Values without any order."""
    return np.mod(1e4 * np.sin(1e3 * x @ np.arange(1, x.shape[-1] + 1)), 1.0)


def search(f, bounds=BOX, **options):
    method = options.pop("method", ModelSearch())
    given = {"maxfev": 3000, "vectorized": True, "tol": 1e-12, "rng": 1} | options
    return ps.minimize(f, bounds, method=method, **given)


def memory(result):
    assert isinstance(result.swarm.memory, ModelMemory)
    return result.swarm.memory


def test_a_valley_takes_a_fraction_of_the_evaluations_of_a_swarm():
    used = {}
    for method in (ModelSearch(), ps.DensePAO()):
        runs = [search(valley, method=method, target=1e-8, rng=seed, maxfev=20_000) for seed in range(6)]
        reached = [run.nfev for run in runs if run.fun <= 1e-8]
        assert len(reached) >= 4  # the valley has a second minimum
        used[type(method)] = np.median(reached)
    assert used[ModelSearch] < 0.5 * used[ps.DensePAO]


def test_a_bowl_is_solved_to_the_last_digits():
    result = search(bowl)
    assert memory(result).end == CONVERGED
    assert result.nfev < 60
    assert_allclose(result.x, 0.7, atol=1e-7)


@pytest.mark.parametrize("f", [rugged, lambda x: np.floor(np.abs(x)).sum(axis=-1)], ids=["rugged", "steps"])
@pytest.mark.parametrize("seed", range(3))
def test_it_gives_up_where_models_say_nothing(f, seed):
    result = search(f, rng=seed)
    assert memory(result).end
    assert result.nfev <= 150 * 5


def test_it_yields_where_promises_are_not_kept():
    ends = [memory(search(rugged, rng=seed)).end for seed in range(5)]
    assert YIELDED in ends


@pytest.mark.parametrize("seed", range(4))
def test_it_goes_around_a_failing_half(seed):
    """The minimum is beside the edge of the half that fails."""
    result = search(lambda x: np.where(x[:, 0] < 0.5, np.nan, bowl(x)), rng=seed, maxfev=600)
    assert result.n_failed > 0
    assert_allclose(result.x, 0.7, atol=1e-3)


@pytest.mark.parametrize("at", [0.0, 1.0, 3.0, 6.2])
def test_a_seam_changes_nothing(at):
    """The search on a circle turns with the function."""

    def f(x):
        return 2 - np.cos(x[:, 0] - at) + (x[:, 1] - 1) ** 2

    bounds = [ps.Periodic(0, 2 * np.pi), (-3, 3)]
    result = search(f, bounds, maxfev=300)
    assert math.cos(result.x[0] - at) > 1 - 1e-10
    assert result.x[1] == pytest.approx(1, abs=1e-4)


def test_an_affine_unit_of_the_values_changes_nothing():
    """Exact in powers of two; with an offset, until rounding has grown."""
    plain, scaled = search(valley, maxfev=150), search(lambda x: 2.0**30 * valley(x), maxfev=150)
    assert_array_equal(plain.x, scaled.x)
    moved = search(lambda x: 3 * valley(x) + 7, maxfev=22, rng=2)
    assert_allclose(moved.x, search(valley, maxfev=22, rng=2).x, atol=1e-9)


@pytest.mark.parametrize("workers", [2, 8, 30])
def test_rounds_are_multiples_of_the_workers(workers):
    result = search(valley, method=ModelSearch(parallel=workers), maxfev=40 * workers)
    assert not np.any(np.diff(result.history.nfev, prepend=0) % workers)
    if workers > 2:
        how = {"target": 1e-8, "maxfev": 5000, "rng": 3}
        alone, together = search(valley, **how), search(valley, method=ModelSearch(parallel=workers), **how)
        assert max(alone.fun, together.fun) <= 1e-8
        assert together.nit < 0.7 * alone.nit


def test_the_same_seed_gives_the_same_bits():
    one, two, other = (search(valley, maxfev=200, rng=seed) for seed in (3, 3, 4))
    assert_array_equal(one.history.best, two.history.best)
    assert_array_equal(one.x, two.x)
    assert not np.array_equal(one.x, other.x)


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="radius"):
        ModelSearch(radius=0)
    with pytest.raises((TypeError, ValueError), match="parallel"):
        ModelSearch(parallel=0)


# The order of searches


def rastrigin(x):
    return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)


@pytest.mark.parametrize("seed", range(3))
def test_element_wise_searches_wait_for_two_growing_ones_and_the_first_dense_one_is_not_interrupted(seed):
    result = search(rastrigin, [(-4, 5)] * 3, method=ps.AdaptivePAO(), tol=0, maxfev=8000, rng=seed)
    searches = list(result.searches)
    assert searches[0].kind == "local model"
    dense = [one for one in searches if one.kind == "growing dense"]
    element = [one for one in searches if one.kind == "element-wise"]
    assert element
    assert all(one.began >= dense[1].ended for one in element)
    first = dense[0]
    assert first.ended - first.began == first.evaluations
    assert all(one.began >= first.ended for one in searches[1:] if one is not first)


def test_element_wise_searches_alone_wait_for_nobody():
    for kinds in (("element-wise",), ("local model", "element-wise")):
        result = search(rastrigin, [(-4, 5)] * 2, method=ps.AdaptivePAO(kinds=kinds), tol=0, maxfev=1500)
        assert "element-wise" in {one.kind for one in (*result.searches, *result.swarm.memory.lanes)}


class Hovering(ps.Method):
    """A swarm around a fixed point, that shrinks by a factor each generation down to a least width."""

    def __init__(self, factor, least):
        self.factor, self.least = factor, least

    def begin(self, state):
        return state._replace(memory=1e-2)

    def ask(self, state, draw, progress=0.0):
        x = 1.0 + state.memory * draw.normal(state.n_particles, state.n_dimensions)
        return ps.Proposal(x, 0 * state.velocity)

    def tell(self, state, proposal, value, evaluated=None):
        width = max(self.least, self.factor * state.memory)
        new = state._replace(position=proposal.position, value=value, best_position=proposal.position, best_value=value)
        return new._replace(memory=width)

    def standing(self, state, tol):
        return super().standing(state, tol)._replace(reach=state.memory)


def cone(x):
    return np.abs(x - 1).sum(axis=-1)


@pytest.mark.parametrize(("least", "is_cut"), [(1e-8, True), (1e-3, False)])
def test_a_search_that_has_stalled_is_cut_short(least, is_cut):
    """A narrow swarm that contracts no more; one that is wide may still get away."""
    d, n = 2, 8
    method = ps.Restarts(Hovering(0.5, least))
    result = search(cone, [(-4, 4)] * d, method=method, n_particles=n, maxfev=3000, tol=0)
    assert bool(result.searches) == is_cut
    if is_cut:
        assert {one.ending for one in result.searches} == {"cut short"}
        assert least < STALLED
        assert result.searches[0].evaluations < 3 * STALLED_FOR * d


def test_a_swarm_that_goes_on_contracting_has_not_stalled():
    method = ps.Restarts(ps.DensePAO(model=False), growth=1.0)
    result = search(bowl, method=method, maxfev=20_000, n_particles=40)
    assert result.success
    assert "cut short" not in {one.ending for one in result.searches}


# What a search that yields tells the next one


def state_of(d=3, n=8):
    optimizer = ps.Optimizer([(-3, 3)] * d, method="DensePAO", n_particles=n, rng=1)
    optimizer.tell(bowl(np.array(optimizer.ask())))
    return optimizer.swarm


class Lane:
    def __init__(self, swarm):
        self.swarm = swarm


def test_the_first_points_after_a_guess_have_its_law():
    rng = np.random.default_rng(1)
    root = 0.02 * rng.normal(size=(3, 3))
    covariance = root @ root.T + 1e-4 * np.eye(3)
    guess = Guess(law_with(np.full(3, 0.5), covariance), np.empty((0, 3)), np.empty(0))
    normal = rng.normal(size=(20_000, 3))
    x = (first_points(state_of(), guess, normal) + 3) / 6
    assert_allclose(x.mean(axis=0), 0.5, atol=5 * np.sqrt(covariance.max() / len(x)))
    assert_allclose(np.cov(x.T), covariance, atol=0.05 * np.abs(covariance).max())
    small = first_points(state_of(), guess, normal[:5])
    assert_array_equal(first_points(state_of(), guess, normal)[:5], small)  # each point has its own deviates


def test_a_guess_is_that_of_the_region():
    d = 3
    shape = np.diag([2.0, 1.0, 0.5])
    region = TrustRegion(np.full(d, 0.4), 1.0, 0.1, shape, np.linalg.inv(shape))
    x = np.random.default_rng(1).uniform(size=(9, d))
    held = ModelMemory(region, np.eye(d), x, bowl(x), region.centre, 1.0, end=YIELDED)
    guess = guess_of(Lane(state_of()._replace(memory=held)))
    assert_allclose(guess.law.scale**2 * guess.law.covariance, np.diag([0.04, 0.01, 0.0025]))
    assert_array_equal(guess.law.centre, region.centre)
    assert_array_equal(guess.x, x)
    assert guess_of(None) is None
    assert guess_of(Lane(state_of()._replace(memory=held._replace(end=CONVERGED)))) is None
    narrow = held._replace(region=region._replace(radius=1e-6))
    assert guess_of(Lane(state_of()._replace(memory=narrow))) is None


def test_the_dense_search_begins_where_the_local_one_has_yielded():
    points = []

    def f(x):
        points.extend(x)
        return np.floor(3 * np.abs(x - 0.2)).sum(axis=-1)

    method = ps.AdaptivePAO()
    found = 0
    for seed in range(6):
        points.clear()
        result = search(f, method=method, maxfev=190, tol=0, rng=seed)
        first = result.searches[0]
        lane = next((one for one in result.swarm.memory.lanes if one.search == 1), None)
        if lane is None or lane.start.guess is None:
            continue
        found += 1
        law = lane.start.guess.law
        x = (np.array(points[first.ended : first.ended + lane.n_particles]) + 3) / 6
        white = np.linalg.solve(law.scale * np.linalg.cholesky(law.covariance), (x - law.centre).T)
        assert np.sqrt(np.square(white).sum(axis=0)).max() < 6  # none is as far out in 1e5 runs
    assert found
