"""Methods over methods: restarts, portfolios, and the adaptive search."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import paoswarm as ps


def rastrigin(x):
    return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)


def two_wells(x):
    return ((x**2 - 1) ** 2).sum(axis=-1) + 0.1 * x.sum(axis=-1)


class Watched:
    """An objective that remembers its values."""

    def __init__(self, f):
        self.f, self.values = f, []

    def __call__(self, x):
        values = self.f(x)
        self.values.extend(np.atleast_1d(values).tolist())
        return values


METHODS = [
    ps.Restarts(ps.DensePAO()),
    ps.Restarts(ps.PAO(), growth=1.0),
    ps.Restarts(ps.ElementPAO(horizon=50)),
    ps.Portfolio([ps.DensePAO(), ps.classic.DE(), ps.ElementPAO()]),
    ps.AdaptivePAO(),
    ps.AdaptivePAO(model=False),
]


def solve(method, f=two_wells, d=2, **options):
    given = {"maxiter": None, "maxfev": 1500, "vectorized": True, "tol": 0.0, "n_particles": 12, "rng": 1} | options
    return ps.minimize(f, [(-2, 2)] * d, method=method, **given)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_no_evaluation_is_lost_and_the_best_point_is_kept(method):
    f = Watched(two_wells)
    result = solve(method, f)
    assert result.nfev == len(f.values) == 1500
    assert result.fun == min(f.values)
    assert (np.diff(result.history.best) <= 0).all()
    searches = method.report(result.swarm).searches
    sharing = result.swarm.memory
    told = sum(one.evaluations for one in searches) + sum(lane.used for lane in sharing.lanes)
    assert sharing.spent == told
    # A generation that the budget has cut is not told. Sizes double.
    sizes = [one.n_particles for one in (*searches, *sharing.lanes)]
    assert 0 <= result.nfev - told < max(100, 2 * max(sizes))
    assert min((one.value for one in searches), default=np.inf) >= result.fun
    for one in searches:
        assert two_wells(one.x) == one.value


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_runs_are_the_same_alone_in_company_and_resumed(method, tmp_path):
    many = ps.minimize_many(
        two_wells,
        [(-2, 2)] * 2,
        runs=2,
        method=method,
        n_particles=12,
        maxiter=None,
        maxfev=400,
        vectorized=True,
        rng=3,
    )
    for r, seed in enumerate(many.seeds):
        alone = solve(method, maxfev=400, rng=seed, tol=1e-12)
        assert_array_equal(alone.x, many.x[r])
    with pytest.raises(SystemExit):
        solve(method, Interrupting(250), maxfev=400, store=tmp_path / "run")
    resumed = solve(method, maxfev=400, store=ps.Store(tmp_path / "run", trust=True))
    assert_array_equal(resumed.x, solve(method, maxfev=400).x)


class Interrupting:
    """Ends the program after some evaluations."""

    def __init__(self, after):
        self.after = after

    def __call__(self, x):
        self.after -= len(x)
        if self.after < 0:
            raise SystemExit
        return two_wells(x)


def test_without_the_model_no_dense_swarm_of_the_portfolio_has_one():
    past = (ps.results.Search(0, 8, 500, np.zeros(2), 1.0, "converged"),)
    for model in (False, True):
        _, large, small, _ = ps.AdaptivePAO(model=model).series
        methods = [series.following((), past, 2, np.full(2, 0.5)).method for series in (large, small)]
        assert [method.model for method in methods] == [model, model]
        assert methods[1].spread == pytest.approx(0.1 * methods[0].spread)


def test_searches_grow_and_the_first_one_is_not_interrupted():
    method = ps.Restarts(ps.DensePAO(), growth=2.0)
    searches = method.report(solve(method, maxfev=3000).swarm).searches
    assert [one.n_particles for one in searches[:3]] == [12, 24, 48]
    both = ps.Portfolio([ps.DensePAO(), ps.ElementPAO()])
    assert both.report(solve(both, maxfev=2000).swarm).searches[0].series == 0


def test_the_series_that_reaches_better_values_gets_more_evaluations():
    """Random search hardly gets anywhere; its searches are as good as never over."""

    class Tired(ps.classic.RandomSearch):
        """A random search that gives up after ten generations."""

        def begin(self, state):
            return state._replace(memory=0)

        def tell(self, state, proposal, value, evaluated=None):
            return super().tell(state, proposal, value, evaluated)._replace(memory=state.memory + 1)

        def has_converged(self, state, spread, tol):
            return np.asarray(state.memory >= 10)

    method = ps.Portfolio([Tired(), ps.ElementPAO(horizon=300)], growth=1.0)
    result = solve(method, rastrigin, d=3, maxfev=6000)
    assert result.fun < 1e-6
    random, element = (tally.spent for tally in result.swarm.memory.tallies)
    assert 1.7 < element / random < 2.3


def test_a_hopeless_search_is_given_up():
    """A needle's basin is found first; searches that contract elsewhere end early."""

    def f(x):
        return np.minimum(np.square(x - 1).sum(axis=-1), 0.5 + 0.01 * np.square(x + 1).sum(axis=-1))

    method = ps.Restarts(ps.DensePAO(model=False), growth=1.0)
    result = solve(method, f, maxfev=4000, x0=[1.0, 1.0], n_particles=8)
    endings = [one.ending for one in method.report(result.swarm).searches]
    assert "hopeless" in endings
    assert endings[0] == "converged"


def test_a_settled_run_ends_with_success_and_an_unsettled_one_goes_on():
    def bowl(x):
        return np.square(x - 0.3).sum(axis=-1)

    settled = solve(ps.AdaptivePAO(), bowl, maxfev=20_000, tol=1e-12)
    assert settled.status is ps.results.Status.CONVERGED
    assert settled.nfev < 2500
    assert settled.swarm.memory.agreement.is_settled
    goes_on = solve(ps.AdaptivePAO(), bowl, maxfev=3000, tol=0.0)
    assert goes_on.nfev == 3000


def bowl(x):
    return np.square(x - 0.3).sum(axis=-1)


def test_confirming_a_known_end_takes_a_part_of_a_search_and_leaves_nothing_unfinished():
    result = solve(ps.AdaptivePAO(kinds=ps.AdaptivePAO.swarms), bowl, maxfev=20_000, tol=1e-12)
    first, *others = result.searches
    assert [one.ending for one in result.searches] == ["converged", "known", "known"]
    assert all(one.evaluations < 0.8 * first.evaluations for one in others)
    for one in others:
        assert one.value >= first.value
        assert np.abs(one.x - first.x).max() < 0.01
    assert all(lane.method is None for lane in result.swarm.memory.lanes)
    assert result.nfev == sum(one.evaluations for one in result.searches)


def test_where_there_are_several_places_every_search_goes_on_to_its_own_end():
    result = solve(ps.Restarts(ps.DensePAO(), growth=1.0), rastrigin, maxfev=4000, n_particles=8)
    several = next(
        i for i in range(len(result.searches)) if np.ptp([one.value for one in result.searches[: i + 1]]) > 0.1
    )
    assert all(one.ending != "known" for one in result.searches[several + 1 :])
    assert len(result.searches) > several + 3


def test_a_search_that_goes_to_a_better_place_nearby_is_not_recognised():
    """Two wells a two-thousandth of the bounds apart, the first one found being worse."""
    wide = np.array([0.0, 0.0])

    def f(x):
        return np.minimum(np.square(x - wide).sum(axis=-1) + 1e-6, np.square(x - wide - 1e-3).sum(axis=-1))

    result = solve(ps.Restarts(ps.DensePAO(), growth=1.0), f, maxfev=3000, n_particles=8)
    assert result.fun < 1e-9


def test_a_cloud_that_grows_too_wide_has_not_arrived_anywhere():
    """It begins a thousand standard deviations away from the minimum."""
    method = ps.Restarts(ps.DensePAO(spread=1e-4, model=False), growth=1.0)
    result = ps.minimize(bowl, [(-50, 50)] * 2, method=method, n_particles=6, maxfev=600, vectorized=True, rng=1)
    assert result.searches[0].ending == "cut short"
    assert result.agreement.n_searches < len(result.searches)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_noise_failures_and_narrow_budgets_are_survived(method):
    def noisy(x):
        noise = np.random.default_rng(int(1e6 * abs(float(x.sum())))).normal(size=len(x))
        return np.where(x[:, 0] > 1.5, np.nan, two_wells(x) + 0.01 * noise)

    result = solve(method, noisy, reevaluate=0.2, maxfev=1000)
    assert result.nfev == 1000
    assert result.n_failed > 0
    assert result.fun_error > 0
    assert np.abs(np.abs(result.x) - 1).max() < 0.3  # in one of the wells
    for budget in (12, 13, 30):
        assert solve(method, maxfev=budget).nfev == budget


def test_searches_with_an_asynchronous_worker():
    result = solve(ps.AdaptivePAO(), workers=ps.Workers(asynchronous=True), vectorized=False, maxfev=300)
    assert result.nfev == 300
    assert result.fun < -0.19


def test_wrong_input_is_named():
    with pytest.raises(TypeError, match="give a Method"):
        ps.Restarts("PAO")
    with pytest.raises(ValueError, match="methods is empty"):
        ps.Portfolio([])
    with pytest.raises(ValueError, match="growth"):
        ps.AdaptivePAO(growth=0.5)
    with pytest.raises(ValueError, match="growth"):
        ps.Restarts(ps.PAO(), growth=0.5)


@pytest.mark.parametrize("f", [rastrigin, two_wells], ids=lambda f: f.__name__)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_adaptive_search_finds_the_minimum(f, d):
    target = 1e-8 if f is rastrigin else d * -0.1006
    result = solve(ps.AdaptivePAO(), f, d, maxfev=6000 * d, target=target)
    assert result.fun <= target
