"""Other people's optimisers: counted to the point, reproducible, stopped in time, and without traces."""

import random
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from helpers import Counting, Moving, bowl, own_problem, small
from numpy.testing import assert_array_equal

from paoswarm.study.adapters import CMAES, CountedObjective, Freelunch, RunIsOver, SciPyDE
from paoswarm.study.cells import CellFailed

BOX = np.array([[-1.0, 2.0], [-3.0, 1.0], [0.0, 0.5]])


def needs(module):
    return pytest.mark.skipif(find_spec(module) is None, reason=f"{module} is not installed")


PEERS = [
    pytest.param(SciPyDE(), id="SciPyDE"),
    pytest.param(SciPyDE(strategy="rand1bin", recombination=0.9), id="SciPyDE rand1bin"),
    pytest.param(CMAES(), id="CMAES", marks=needs("cma")),
    *(
        pytest.param(Freelunch(name), id=f"Freelunch {name}", marks=needs("freelunch"))
        for name in ("PAO", "PSO", "QPSO", "DE", "SADE")
    ),
]


def spent(adapter, budget=105, every=10, seed=3, fun=bowl, box=BOX):
    """Everything that an adapter has asked for, and its trace."""
    counting = Counting(fun)
    counted = CountedObjective(counting, budget, every)
    counted.exhaust(adapter, box, population=every, seed=seed)
    return np.array(counting.points), *counted.trace()


# The three that come with the package


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("budget", [100, 105, 7])
def test_a_peer_spends_its_budget_to_the_point_inside_the_box(peer, budget):
    points, evaluations, best = spent(peer, budget)
    assert len(points) == evaluations[-1] == budget
    assert ((points >= BOX[:, 0]) & (points <= BOX[:, 1])).all()
    assert best[-1] == bowl(points).min()
    assert_array_equal(evaluations, np.minimum(10 * np.arange(1, len(best) + 1), budget))


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_is_reproducible_and_leaves_global_random_numbers_alone(peer):
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    one, *_ = spent(peer)
    after = np.random.get_state()  # noqa: NPY002
    assert_array_equal(after[1], before[1])
    assert after[2:] == before[2:]
    assert random.getstate() == python
    np.random.seed(6)  # noqa: NPY002
    assert_array_equal(spent(peer)[0], one)
    assert (spent(peer, seed=4)[0] != one).any()


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_minimises(peer):
    """A negative control of the wiring: it must be far better than as many random points, whose best is near 0.01."""
    _, _, best = spent(peer, budget=2000, every=20)
    assert best[-1] < 1e-3


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_uses_the_seed_of_each_run_in_a_study(peer, tmp_path):
    study = small(problems=["sphere"], methods={"peer": peer}, dims=[2], evaluations_per_unknown=25)
    one, again = study.run(tmp_path / "1"), study.run(tmp_path / "2")
    assert_array_equal(one.final("sphere", 2, "peer"), again.final("sphere", 2, "peer"))
    assert len(set(one.final("sphere", 2, "peer"))) == 3


@pytest.mark.parametrize("peer", [SciPyDE(), pytest.param(CMAES(), marks=needs("cma"))], ids=["SciPyDE", "CMAES"])
def test_a_peer_continues_after_failed_points(peer):
    def every_third_fails(x):
        return np.where(np.floor(1e6 * x[..., 0]) % 3 == 0, np.nan, bowl(x))

    points, _, best = spent(peer, fun=every_third_fails, budget=500)
    assert len(points) == 500
    assert best[-1] == np.nanmin(every_third_fails(points))
    assert np.isnan(every_third_fails(points)).any()


def test_scipy_s_population_is_that_of_the_study():
    """From the eleventh point on come trials, which have some coordinates from their parents, ten points ago."""
    points, *_ = spent(SciPyDE(), every=10)
    inherited = points[10:20] == points[:10]
    assert inherited.any()
    assert not inherited.all()
    assert len(np.unique(points[:10])) == 30


@needs("cma")
def test_cma_es_starts_again_with_twice_the_population():
    """On a bowl it arrives long before the budget is spent; then new, larger populations are scattered in the box."""
    sizes = []

    def note(x):
        sizes.append(len(x))
        return bowl(x)

    points, *_ = spent(CMAES(), fun=note, budget=6000)
    assert len(points) == 6000
    first = 4 + int(3 * np.log(3))
    assert list(dict.fromkeys(sizes))[:3] == [first, 2 * first, 4 * first]


@pytest.mark.parametrize(("peer", "module", "extra"), [(CMAES(), "cma", "study"), (Freelunch(), "freelunch", "peers")])
def test_a_missing_package_is_named_with_its_extra(peer, module, extra, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {module}; install it with: pip install 'paoswarm\[{extra}\]'"):
        spent(peer)
    with pytest.raises(CellFailed, match=rf"it on sphere .*paoswarm\[{extra}\]"):
        small(problems=["sphere"], methods={"it": peer}).run(tmp_path)


# The counted objective


def test_rows_give_arrays_and_single_points_give_numbers():
    counted = CountedObjective(bowl, 10, 5)
    alone = counted([0.0, 0.0, 0.0])
    assert isinstance(alone, float)
    assert alone == bowl(np.zeros(3))
    rows = counted(np.zeros((4, 3)))
    assert rows.shape == (4,)
    assert_array_equal(rows, alone)
    assert counted(np.zeros((1, 3))).shape == (1,)
    assert isinstance(CountedObjective(bowl, 10, 5)([0.1]), float)  # one unknown


def test_values_are_recorded_in_the_order_of_evaluation():
    points = np.random.default_rng(1).uniform(*BOX.T, size=(23, 3))
    traces = []
    for cuts in ([], [5, 9, 20], range(1, 23)):
        counted = CountedObjective(bowl, 23, 10)
        for part in np.split(points, cuts):
            counted(part if len(part) > 1 else part[0])
        traces.append(counted.trace())
    for evaluations, best in traces:
        assert_array_equal(evaluations, [10, 20, 23])
        assert_array_equal(best, np.minimum.accumulate(bowl(points))[[9, 19, 22]])


def test_rows_beyond_the_budget_are_not_evaluated():
    fun = Counting()
    counted = CountedObjective(fun, 10, 4)
    counted(np.full((8, 3), 0.5))
    with pytest.raises(RunIsOver):
        counted(np.full((8, 3), 0.25))
    assert len(fun.points) == 10
    with pytest.raises(RunIsOver):
        counted(np.zeros(3))
    assert len(fun.points) == 10
    assert_array_equal(counted.trace()[0], [4, 8, 10])
    assert_array_equal(counted.trace()[1], bowl(np.array([[0.5] * 3, [0.5] * 3, [0.25] * 3])))


def test_an_adapter_may_overwrite_its_points_and_values():
    """Neither its points nor the study's values are shared with it."""

    def greedy(fun, bounds, *, population, seed):
        points = np.full((5, 3), 0.5)
        values = fun(points)
        values[:] = -1e9
        points[:] = 0.3
        bounds[:] = 0.0

    box = BOX.copy()
    _, _, best = spent(greedy, box=box)
    assert best[-1] == bowl(np.full(3, 0.5))
    assert_array_equal(box, BOX)


def swallowing(fun, bounds, *, population, seed):
    """As some libraries do: an objective that raises is worth a large number."""
    for _ in range(1000):
        try:
            fun(bounds[:, 0])
        except Exception:
            continue
    raise AssertionError("the end of the budget was swallowed")


def test_an_adapter_that_catches_exceptions_is_stopped_too():
    points, *_ = spent(swallowing)
    assert len(points) == 105
    assert not issubclass(RunIsOver, Exception)


def test_an_optimiser_that_ends_early_keeps_its_last_best(tmp_path):
    def brief(fun, bounds, *, population, seed):
        fun(np.full(len(bounds), 0.5))
        fun(np.full((2, len(bounds)), 0.4))
        fun(np.full(len(bounds), 1.0))

    points, evaluations, best = spent(brief, budget=15, every=2)
    assert len(points) == 4
    assert_array_equal(evaluations, [2, 4, 6, 8, 10, 12, 14, 15])
    assert_array_equal(best, bowl(np.full(3, 0.4)))
    results = small(problems=[own_problem()], methods={"brief": brief}, dims=[2]).run(tmp_path)
    assert_array_equal(results.trace("bowl", 2, "brief").error, bowl(np.full(2, 0.4)))


@pytest.mark.parametrize("single", [True, False])
def test_failed_points_count_but_are_never_the_best(single):
    values = iter([np.nan, 3.0, np.nan, 2.0, np.inf, np.nan, -np.inf])

    def fun(x):
        return np.array([next(values) for _ in x])

    counted = CountedObjective(fun, 7, 1)
    answers = [counted(np.zeros(2)) for _ in range(7)] if single else counted(np.zeros((7, 2)))
    assert_array_equal(answers, [np.nan, 3.0, np.nan, 2.0, np.inf, np.nan, -np.inf])
    assert_array_equal(counted.trace()[1], [np.inf, 3.0, 3.0, 2.0, 2.0, 2.0, -np.inf])


def test_an_optimiser_that_never_evaluates_is_an_error():
    with pytest.raises(ValueError, match="without evaluating any point"):
        spent(lambda fun, bounds, *, population, seed: None)


def test_the_global_random_state_is_restored_after_a_failure_too():
    def failing(fun, bounds, *, population, seed):
        np.random.random(7)  # noqa: NPY002
        raise RuntimeError("no luck")

    before = np.random.get_state()  # noqa: NPY002
    with pytest.raises(RuntimeError, match="no luck"):
        spent(failing)
    assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_numpys_global_generator_is_seeded():
    def careless(fun, bounds, *, population, seed):
        while True:
            fun(np.random.uniform(*bounds.T))  # noqa: NPY002

    one, again, other = (spent(careless, seed=seed)[0] for seed in (1, 1, 2))
    assert_array_equal(one, again)
    assert (one != other).any()


def test_an_adapter_gets_the_box_its_population_and_a_seed():
    def curious(fun, bounds, *, population, seed):
        assert bounds.dtype == float
        assert_array_equal(bounds, [[-2, 2], [-2, 2]])
        assert population == 8
        assert isinstance(seed, int)
        fun(bounds.mean(axis=1))

    (cell,) = small(problems=[Moving], methods={"it": curious}, dims=[2]).cells()
    assert_array_equal(cell.run().best[:, 0], [0.0, 100.02, 200.08])
