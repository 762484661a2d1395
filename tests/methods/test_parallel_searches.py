"""Searches for many workers: sizes in whole rounds, several searches side by side, and nothing lost between them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import paoswarm as ps
from paoswarm.core.random import Draw, generator
from paoswarm.methods.method import in_rounds

W = 8
METHODS = [
    ps.AdaptivePAO(parallel=W),
    ps.Restarts(ps.DensePAO(), parallel=W),
    ps.Portfolio([ps.DensePAO(), ps.ElementPAO(horizon=50)], parallel=W),
]


def two_wells(x):
    return ((x**2 - 1) ** 2).sum(axis=-1) + 0.1 * x.sum(axis=-1)


def valley(x):
    return 100 * np.square(x[..., 1:] - x[..., :-1] ** 2).sum(axis=-1) + np.square(1 - x[..., :-1]).sum(axis=-1)


def solve(method, f=two_wells, d=3, **options):
    given = {"maxfev": 3000, "vectorized": True, "tol": 0.0, "rng": 1} | options
    return ps.minimize(f, [(-2, 2)] * d, method=method, **given)


def test_whole_rounds():
    assert [in_rounds(n, 8) for n in (1, 8, 9, 16)] == [8, 8, 16, 16]
    assert in_rounds(7, None) == in_rounds(7, 1) == 7


def test_one_worker_changes_no_bit():
    plain = ps.Optimizer([(-2, 2)] * 3, method="AdaptivePAO", rng=1)  # for no number of workers
    while plain.nfev < 1000:
        plain.tell(two_wells(plain.ask()))
    one, two = (solve(ps.AdaptivePAO(parallel=k), maxfev=plain.nfev) for k in (1, 2))
    assert_array_equal(plain.result.history.best, one.history.best)
    assert_array_equal(plain.result.history.nfev, one.history.nfev)
    assert not np.array_equal(two.history.nfev, one.history.nfev)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_every_generation_of_a_dense_search_fills_the_workers(method):
    """Also while the model replaces evaluations. Only element-wise swarms shrink below the number of workers."""
    result = solve(method, valley)
    sizes = np.diff(result.history.nfev, prepend=0)[:-1]  # the last generation is cut by the budget
    n_dense = [one.n_particles for one in result.searches if one.kind != "element-wise" and one.kind != "ElementPAO"]
    assert n_dense
    assert not np.any(np.mod(n_dense, W))
    assert (sizes % W == 0).mean() > 0.5
    if isinstance(method, ps.Restarts):
        assert not np.any(sizes % W)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("budget", [W, W + 1, 333])
def test_budgets_are_exact_and_the_best_point_is_kept(method, budget):
    values = []

    def f(x):
        values.extend(two_wells(x).tolist())
        return two_wells(x)

    result = solve(method, f, maxfev=budget)
    assert result.nfev == len(values) == budget
    assert result.fun == min(values)


@pytest.mark.parametrize(("kinds", "times"), [(ps.AdaptivePAO.swarms, 6), (ps.AdaptivePAO.kinds, 2)])
def test_more_workers_need_fewer_rounds(kinds, times):
    """The point of it: Rosenbrock's valley, in rounds of as many evaluations as there are workers."""
    rounds = {}
    for parallel in (1, 16):
        method = ps.AdaptivePAO(parallel=parallel, kinds=kinds)
        runs = [solve(method, valley, d=4, target=1e-8, maxfev=20_000, rng=s) for s in (1, 2)]
        assert all(run.fun <= 1e-8 for run in runs)
        rounds[parallel] = np.mean([np.ceil(np.diff(run.history.nfev, prepend=0) / parallel).sum() for run in runs])
    assert rounds[16] < rounds[1] / times


def stepped(method, n=24, d=3):
    """A run by hand: one swarm of ``n`` particles."""
    draw = Draw([generator(3)], ())
    optimizer = ps.Optimizer([(-2, 2)] * d, method=method, n_particles=n, rng=3)
    optimizer.tell(two_wells(optimizer.ask()))
    return draw, optimizer.swarm


def test_a_search_that_moves_is_not_moved_again_before_it_was_told():
    method = ps.AdaptivePAO(parallel=W)
    draw, state = stepped(method)
    parts = ()
    for _ in range(4):
        parts = (*parts, method.next_part(state, parts, draw, 0.0))
    assert [part.search for part in parts] == [0, 1, 2, 3]
    assert parts[0].start is None
    assert all(part.start is not None for part in parts[1:])
    assert all(len(part) == 24 for part in parts[1:])  # as large as the user's first swarm


def test_a_part_that_the_budget_has_cut_is_not_told():
    """Each search depends on its own values alone, as long as none of them ends."""
    method = ps.AdaptivePAO(parallel=W)
    draw, state = stepped(method)
    parts = ()
    for _ in range(3):
        parts = (*parts, method.next_part(state, parts, draw, 0.0))
    points, velocity = (np.concatenate([part.proposal[i] for part in parts]) for i in range(2))
    proposal, values = ps.Proposal(points, velocity, notes=parts), two_wells(points)
    together = method.tell(state, proposal, values)
    evaluated = np.arange(len(points)) < len(points) - 1
    cut = method.tell(state, proposal, values, evaluated)
    assert together.memory.spent == state.memory.spent + len(points)
    assert cut.memory.spent == together.memory.spent - len(parts[2])
    assert [lane.search for lane in cut.memory.lanes] == [0, 1]
    for lane, other in zip(together.memory.lanes, cut.memory.lanes, strict=False):
        assert lane.used == other.used
        assert_array_equal(lane.x, other.x)
        assert_array_equal(lane.swarm.best_value, other.swarm.best_value)


def test_small_swarms_move_side_by_side():
    """Two shrunken swarms share the workers; a search is told only if all of its points were evaluated."""
    small = ps.Portfolio([ps.ElementPAO(horizon=20), ps.ElementPAO(horizon=21)], growth=1.0, parallel=64)
    result = solve(small, maxfev=4000)
    sizes = np.diff(result.history.nfev)
    kinds = {one.series for one in result.searches}
    assert kinds == {0, 1}
    overlapping = [(a, b) for a in result.searches for b in result.searches if a.began < b.began < a.ended]
    assert overlapping
    assert sizes.max() <= 64
    assert all(two_wells(one.x) == one.value for one in result.searches)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "all"])
def test_wrong_numbers_of_workers_are_named(wrong):
    for make in (ps.AdaptivePAO, ps.DensePAO, lambda parallel: ps.Restarts(ps.PAO(), parallel=parallel)):
        with pytest.raises((TypeError, ValueError), match="parallel"):
            make(parallel=wrong)


def test_the_best_search_is_the_one_with_the_law():
    method = ps.AdaptivePAO(model=False)
    result = solve(method, maxfev=2500)
    inner, swarm, *_ = method.report(result.swarm)
    assert swarm.best_value.min() == result.fun
    assert isinstance(inner, ps.DensePAO)
    assert_array_equal(result.step_law().mean_position, inner.step_law(swarm).mean_position)
    element = ps.Restarts(ps.ElementPAO())
    run = solve(element, maxfev=500)
    assert run.next_step is None
    with pytest.raises(ValueError, match="ElementPAO has no closed-form law"):
        run.step_law()


def test_next_step_is_the_law_of_the_next_generation_of_the_best_search():
    """Monte Carlo: 400 next generations of the search that holds the best point. False alarms once in 1e6 runs."""
    method = ps.AdaptivePAO(model=False, kinds=ps.AdaptivePAO.swarms)
    result = solve(method, valley, maxfev=400)
    assert not result.searches  # the first search is under way
    law, inner = result.next_step, method.report(result.swarm)
    draw = Draw([generator(1)], ())
    # In widths of the bounds, before they are brought inside.
    x = -2 + 4 * np.concatenate([inner[0].ask(inner[1], draw).notes.x for _ in range(400)])
    error = np.sqrt(np.diag(law.covariance) / len(x))
    assert (np.abs(x.mean(axis=0) - law.mean) < 5.2 * error).all()
    white = np.linalg.solve(np.linalg.cholesky(law.covariance), (x - law.mean).T)
    assert np.abs(white @ white.T / len(x) - np.eye(3)).max() < 5.2 * np.sqrt(2 / len(x))
    # The density integrates to one: importance sampling with a wider normal law.
    rng = np.random.default_rng(1)
    root = 1.5 * np.linalg.cholesky(law.covariance)
    z = rng.standard_normal((20_000, 3))
    log_q = -0.5 * np.square(z).sum(axis=1) - 1.5 * np.log(2 * np.pi) - np.linalg.slogdet(root)[1]
    ratio = np.exp(law.log_density(law.mean + z @ root.T) - log_q)
    assert abs(ratio.mean() - 1) < 5.2 * ratio.std() / np.sqrt(len(z))
