"""Methods that start again, grow and shrink: the drivers keep the best point, and count what was asked for."""

import re

import numpy as np
import pytest
from changing_methods import Growing, Restarting
from numpy.testing import assert_array_equal

import paoswarm as ps
from paoswarm.store.watch import Progress

BOX = [(-3, 5), (-1, 2), (0, 4)]


def valley(x):
    z = np.asarray(x) - [1.3, 0.2, 3.1]
    return z[..., 0] ** 2 + 10 * np.abs(z[..., 1] - 0.3 * z[..., 0]) + 3 * np.cos(4 * z[..., 2]) + 3


class Recording:
    """Keeps every value that a run has seen, in order."""

    def __init__(self, fun=valley):
        self.fun, self.values = fun, []

    def __call__(self, x):
        values = self.fun(x)
        self.values += np.atleast_1d(values).tolist()
        return values


METHODS = [Restarting(), Growing()]
either = pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)


@either
@pytest.mark.parametrize("vectorized", [True, False])
def test_the_result_is_the_best_of_all_evaluations_and_the_history_never_rises(method, vectorized):
    forgotten = 0
    for seed in range(20):
        fun = Recording()
        result = ps.minimize(
            fun, BOX, method=method, n_particles=10, maxiter=None, maxfev=237, vectorized=vectorized, rng=seed
        )
        assert result.fun == min(fun.values) == valley(result.x)
        assert result.nfev == len(fun.values) == 237
        assert_array_equal(result.history.nfev[-1], 237)
        best = np.minimum.accumulate(fun.values)[result.history.nfev - 1]
        assert_array_equal(result.history.best, best)
        forgotten += result.swarm.global_value > result.fun
    assert forgotten > 10 or isinstance(method, Growing)  # its last swarm does not know the best point


def test_populations_change_as_the_method_says():
    sizes = [10, 10, 9, 8, 7, 6, 6, 5, 4, 3, 9, 9, 8, 7, 6, 12, 12]
    optimizer = ps.Optimizer(BOX, method=Restarting(), n_particles=10, rng=1)
    asked = []
    for _ in sizes:
        x = optimizer.ask()
        asked.append(len(x))
        optimizer.tell(valley(x))
    assert asked == sizes
    assert optimizer.nfev == sum(sizes)
    grown = ps.minimize(valley, BOX, method=Growing(), n_particles=10, maxiter=7, vectorized=True, rng=1)
    assert grown.swarm.n_particles == 24
    assert_array_equal(np.diff(grown.history.nfev), 12 + 2 * np.arange(7))


def test_a_method_decides_on_its_own_end():
    often = ps.minimize(valley, BOX, method=Restarting(most_restarts=3), n_particles=10, vectorized=True, rng=1)
    assert often.status is ps.results.Status.CONVERGED
    assert often.nit == 15  # three times four generations and a start
    for tol in (0.0, 1e3):  # the default rule would end at once with the latter
        never = ps.minimize(valley, BOX, method=Restarting(), n_particles=10, vectorized=True, tol=tol, rng=1)
        assert never.status is ps.results.Status.MAXITER
    assert (
        ps.minimize(valley, BOX, method=ps.PAO(), tol=1e3, vectorized=True, rng=1).status is ps.results.Status.CONVERGED
    )


@either
def test_many_runs_are_each_the_run_alone(method):
    fun = Recording()
    settings = {"method": method, "n_particles": 10, "maxiter": 17, "vectorized": True}
    many = ps.minimize_many(fun, BOX, runs=4, rng=3, **settings)
    assert many.nfev.sum() == len(fun.values)
    assert many.fun.min() == min(fun.values)
    for r in range(4):
        alone = ps.minimize(valley, BOX, rng=many.seeds[r], **settings)
        assert (alone.fun, alone.nfev, alone.nit) == (many.fun[r], many.nfev[r], many.nit[r])
        assert_array_equal(alone.x, many.x[r])
        assert_array_equal(alone.history.best, many.history[r, : len(alone.history)])
        assert_array_equal(alone.swarm.position, many.run(r).swarm.position)
    longer = ps.minimize_many(valley, BOX, runs=4, rng=4, init=many, **settings)
    assert (longer.fun <= many.fun).all()  # also where the swarm has forgotten its best point


def test_runs_that_end_with_different_sizes_come_as_a_tuple():
    method = Restarting(generations=2)
    targets = {"target": 1.5, "maxiter": 40}
    many = ps.minimize_many(valley, BOX, runs=8, method=method, n_particles=10, vectorized=True, rng=3, **targets)
    sizes = {swarm.n_particles for swarm in many.swarm}
    assert isinstance(many.swarm, tuple)
    assert len(many.swarm) == 8
    assert len(sizes) > 1
    assert "8 runs" in repr(many)
    assert many.hint == ""
    best = ps.sample(lambda x: -200 * valley(x), BOX, start=many, vectorized=True, n_effective=100, maxfev=4000, rng=1)
    assert -200 * valley(many.x[np.argmin(many.fun)]) <= best.log_likelihood.max()
    for refused in (many.step_law, lambda: ps.plot.swarm(many)):
        with pytest.raises(ValueError, match=r"many\.run\(r\)|closed-form"):
            refused()
    for method_after in (method, ps.PAO()):  # one that takes batches moves them one by one, too
        longer = ps.minimize_many(
            valley, BOX, runs=8, method=method_after, init=many, vectorized=True, rng=3, maxiter=3
        )
        assert (longer.fun <= many.fun).all()
    with pytest.raises(ValueError, match="init holds 8 runs"):
        ps.minimize_many(valley, BOX, runs=7, method=method, init=many, vectorized=True)


@either
def test_a_stored_run_that_was_stopped_goes_on_as_if_it_had_not_been(method, tmp_path):
    settings = {"method": method, "n_particles": 10, "maxiter": 25, "rng": 5}
    whole = ps.minimize(valley, BOX, **settings)
    calls = 0

    def dies(x):
        nonlocal calls
        calls += 1
        if calls > 100:
            raise KeyboardInterrupt
        return valley(x)

    file = ps.Store(tmp_path / "run.paoswarm", fsync="never", trust=True)
    stopped = ps.minimize(dies, BOX, store=file, **settings)
    assert stopped.status is ps.results.Status.INTERRUPTED
    assert stopped.nfev == 100
    resumed = ps.minimize(valley, BOX, store=file, **settings)
    assert (resumed.fun, resumed.nfev) == (whole.fun, whole.nfev)
    assert_array_equal(resumed.history.best, whole.history.best)
    assert_array_equal(resumed.swarm.position, whole.swarm.position)


@either
@pytest.mark.parametrize(("limits", "expected"), [({"maxiter": 25}, None), ({"maxiter": 25, "maxfev": 700}, 700)])
def test_the_expected_evaluations_are_unknown_without_maxfev(method, limits, expected, tmp_path, capsys):
    settings = {"method": method, "n_particles": 10, "vectorized": True, "rng": 5, "progress": True, **limits}
    ps.minimize(valley, BOX, store=tmp_path / "run.paoswarm", **settings)
    progress = Progress(tmp_path / "run.paoswarm").update()
    assert progress.expected == expected
    ps.minimize_many(valley, BOX, runs=2, **settings)
    totals = [int(total) for total in re.findall(r"/(\d+) \[", capsys.readouterr().err)]
    assert set(totals) == ({700, 1400} if expected else set())


@either
@pytest.mark.parametrize("limits", [{"maxiter": 20}, {"maxiter": None, "maxfev": 203}])
def test_an_asynchronous_run_is_the_same_run(method, limits, tmp_path):
    settings = {"method": method, "n_particles": 10, "rng": 5, **limits}
    plain = ps.minimize(valley, BOX, **settings)
    file = ps.Store(tmp_path / "run.paoswarm", fsync="never")
    for _ in range(2):  # made, and repeated from the store
        other = ps.minimize(valley, BOX, workers=ps.Workers(asynchronous=True), store=file, **settings)
        assert (other.fun, other.nfev, other.nit) == (plain.fun, plain.nfev, plain.nit)
        assert_array_equal(other.history.best, plain.history.best)


def test_with_noise_a_forgotten_point_counts_by_what_was_known_about_it():
    """The best point is that of the smallest mean plus three standard errors, also if the swarm has forgotten it."""
    noise = np.random.default_rng(1)

    def fun(x):
        return valley(x) + 0.05 * noise.standard_normal(len(x))

    errors = []
    for seed in range(10):
        settings = {"n_particles": 12, "maxiter": 40, "vectorized": True, "rng": seed}
        result = ps.minimize(fun, BOX, method=Restarting(), reevaluate=0.3, **settings)
        assert result.fun_error is None or 0 < result.fun_error < 0.1
        errors.append(result.fun - valley(result.x))
        assert result.fun < result.history.best[3]
    # Means of several measurements with a deviation of 0.05, chosen for being small: 0.2 is four deviations.
    assert np.abs(errors).max() < 0.2


class Forgetful(ps.Method):
    """Draws a new swarm of the same size in every generation."""

    def ask(self, state, draw, progress=0.0):
        return ps.Proposal(
            state.lower + draw.uniform(*state.position.shape) * (state.upper - state.lower), state.velocity
        )

    def tell(self, state, proposal, value, evaluated=None):
        return state.renewed(proposal.position, value)


def test_with_noise_a_continued_batch_keeps_a_point_that_its_swarms_have_forgotten():
    settings = {"n_particles": 12, "maxiter": 10, "vectorized": True, "reevaluate": 0.3, "rng": 1}
    many = ps.minimize_many(valley, BOX, runs=3, method=Forgetful(), **settings)
    longer = ps.minimize_many(lambda x: valley(x) + 100, BOX, runs=3, method=ps.PAO(), init=many, **settings)
    is_forgotten = many.fun < [many.run(r).swarm.global_value for r in range(3)]
    assert is_forgotten.any()
    assert_array_equal(longer.fun[is_forgotten], many.fun[is_forgotten])


def test_a_nan_in_a_generation_of_any_size_is_counted_and_survived():
    def fun(x):
        values = valley(x)
        values[x[:, 0] > 3] = np.nan
        return values

    result = ps.minimize(fun, BOX, method=Growing(), n_particles=10, maxiter=20, vectorized=True, rng=2)
    assert result.n_failed > 0
    assert np.isfinite(result.fun)
    assert result.x[0] <= 3


class TestBadMethods:
    def test_another_number_of_points_needs_a_tell(self):
        class Silent(ps.Method):
            def ask(self, state, draw, progress=0.0):
                return ps.Proposal(state.position[:3], state.velocity[:3])

        with pytest.raises(ValueError, match=r"Silent.ask .* shape \(3, 3\), not \(10, 3\); .* its own tell"):
            ps.minimize(valley, BOX, method=Silent(), n_particles=10, rng=1)

    @pytest.mark.parametrize("shape", [(4, 2), (4,)])
    def test_points_must_have_the_right_form(self, shape):
        class Odd(Restarting):
            def ask(self, state, draw, progress=0.0):
                return ps.Proposal(np.zeros(shape), np.zeros(shape))

        with pytest.raises(ValueError, match=r"Odd\.ask returned a position of shape"):
            ps.minimize(valley, BOX, method=Odd(), n_particles=10, rng=1)

    def test_tell_must_return_a_swarm(self):
        class Forgetful(Restarting):
            def tell(self, state, proposal, value, evaluated=None):
                pass

        with pytest.raises(TypeError, match=r"Forgetful.tell must return a Swarm, got None"):
            ps.minimize(valley, BOX, method=Forgetful(), n_particles=10, rng=1)

    def test_a_batch_needs_a_method_that_takes_batches(self):
        with pytest.raises(ValueError, match=r"one run at a time\. Use minimize_many"):
            ps.Optimizer(BOX, method=Restarting(), rng=[1, 2])

    def test_a_method_that_moves_singly_keeps_to_its_particles(self):
        class Mistaken(Growing):
            moves_singly = True

        with pytest.raises(ValueError, match=r"Mistaken .* asked for 12 points with 10 particles"):
            ps.minimize(valley, BOX, method=Mistaken(), n_particles=10, workers=ps.Workers(asynchronous=True), rng=1)
