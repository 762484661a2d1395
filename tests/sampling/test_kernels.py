"""Moves that leave a target invariant, and the mistakes that would not."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from paoswarm.core.weights import log_sum_exp
from paoswarm.sampling.densities import Mixture
from paoswarm.sampling.moves import ChainStates, Circle, correlated, log_parts, move, spring

# Invariance is tested on particles that start as exact draws: after any number of moves nothing may have changed. Each
# statistic gives a paired z-score over independent particles. The bound 5 has the false-alarm rate 6e-7 per score; all
# tests of this file together look at fewer than 300 scores: family-wise 2e-4. Controls must pass 8.
BOUND, CAUGHT = 5.0, 8.0
N = 30_000


class Pi(NamedTuple):
    """Two unequal normal modes in two dimensions, as a likelihood in a box wide enough not to matter."""

    mean: np.ndarray = np.array([[-1.5, 0.0], [1.5, 1.0]])
    sd: np.ndarray = np.array([[0.6, 1.0], [0.9, 0.4]])

    def log_prior(self, z):
        return np.where(np.abs(z).max(axis=1) < 30, 0.0, -np.inf)

    def log_likelihood(self, z):
        parts = -0.5 * (((z[:, None] - self.mean) / self.sd) ** 2).sum(axis=2) - np.log(self.sd).sum(axis=1)
        return log_sum_exp(parts + np.log([0.4, 0.6]), axis=1)

    def draw(self, n, rng):
        c = (rng.random(n) < 0.6).astype(int)
        return self.mean[c] + self.sd[c] * rng.standard_normal((n, 2))


def started(target, z, rng):
    return ChainStates(z, rng.standard_normal(z.shape), target.log_prior(z), target.log_likelihood(z))


def statistics(state):
    z, v = state.z, state.v
    columns = [z[:, 0], z[:, -1], z[:, 0] ** 2, z[:, -1] ** 2, z[:, 0] * z[:, -1], np.cos(2 * z[:, 0])]
    columns += [v[:, 0], v[:, 0] ** 2, z[:, 0] * v[:, 0], z[:, -1] ** 2 * v[:, -1]]
    return np.stack(columns, axis=1)


def worst(before, after):
    change = statistics(after) - statistics(before)
    return np.abs(change.mean(axis=0) / (change.std(axis=0) / np.sqrt(len(change)))).max()


ONE = Mixture(np.ones(1), np.array([[0.3, 0.2]]), np.array([[[1.5, 0.0], [0.4, 0.8]]]), np.inf)
THREE = Mixture(
    np.array([0.5, 0.3, 0.2]),
    np.array([[-1.0, 0.3], [1.8, 0.5], [0.0, -1.0]]),
    np.array([[[0.9, 0.0], [0.2, 0.9]], [[0.7, 0.0], [-0.3, 0.6]], [[2.0, 0.0], [0.0, 1.0]]]),
    np.inf,
)


CASES = [(dt, zeta) for dt in (1e-3, 0.3, 2.0, 9.0) for zeta in (0.05, 0.7, 1.0, 1 + 1e-9, 4.0)]


class TestSteps:
    @pytest.mark.parametrize(("dt", "zeta"), CASES)
    def test_the_standard_normal_law_is_stationary(self, dt, zeta):
        A, H = spring(dt, zeta)
        assert_allclose(A @ A.T + H @ H.T, np.eye(2), atol=1e-14)

    @pytest.mark.parametrize(("dt", "zeta"), CASES)
    def test_reversible_up_to_the_sign_of_the_velocity(self, dt, zeta):
        A, _ = spring(dt, zeta)
        S = np.diag([1.0, -1.0])
        assert_allclose(A.T, S @ A @ S, atol=1e-15)

    @pytest.mark.parametrize(("dt", "zeta"), CASES)
    def test_two_steps_are_one_of_twice_the_time(self, dt, zeta):
        (A, H), (A2, H2) = spring(dt, zeta), spring(2 * dt, zeta)
        assert_allclose(A @ A, A2, atol=1e-14)
        assert_allclose(A @ H @ H.T @ A.T + H @ H.T, H2 @ H2.T, atol=1e-14)

    def test_the_correlation_that_was_asked_for(self):
        rho = np.array([0.0, 1e-6, 0.3, 0.9, 0.999])
        A, H = correlated(rho)
        assert_allclose(A[:, 0, 0], rho, atol=1e-7)
        # With a fresh velocity the position is an autoregression, whatever else the spring does.
        assert_allclose(A[:, 0, 1] ** 2 + H[:, 0, 0] ** 2, 1 - A[:, 0, 0] ** 2, atol=1e-14)

    def test_a_step_of_no_time_stays(self):
        assert_allclose(correlated(1.0).A, np.eye(2), atol=1e-7)


SETTINGS = {
    "normal": (ONE, {}),
    "normal, velocity kept": (ONE, {"refresh": 0.0}),
    "normal, part of the velocity kept": (ONE, {"refresh": 0.4}),
    "Student-t": (ONE._replace(freedom=4.0), {"refresh": 0.4}),
    "mixture": (THREE, {"refresh": 0.4, "jump": 0.0}),
    "mixture with jumps": (THREE, {"refresh": 0.4, "jump": 0.3}),
    "mixture of Student-t with jumps": (THREE._replace(freedom=4.0), {"refresh": 0.4, "jump": 0.3}),
    "mixture of Student-t, velocity kept": (THREE._replace(freedom=4.0), {"refresh": 0.0, "jump": 0.3}),
}


class TestInvariance:
    @pytest.mark.parametrize(("reference", "options"), SETTINGS.values(), ids=SETTINGS)
    @pytest.mark.parametrize("zeta", [0.2, pytest.param(1.5, marks=pytest.mark.slow)])
    def test_exact_draws_stay_exact_draws(self, reference, options, zeta):
        rng = np.random.default_rng(10)
        begin = state = started(Pi(), Pi().draw(N, rng), rng)
        for _ in range(4):
            state, moved = move(state, Pi(), 1.0, reference, spring(1.2, zeta), rng, **options)
        assert 0.05 < moved.accepted.mean() < 0.95  # neither rejection nor acceptance is idle
        assert worst(begin, state) < BOUND
        assert_array_equal(state.log_likelihood, Pi().log_likelihood(state.z))

    def test_at_another_temperature(self):
        class Cold(Pi):
            def log_likelihood(self, z):
                return super().log_likelihood(z) / 0.3

        rng = np.random.default_rng(11)
        begin = state = started(Cold(), Pi().draw(N, rng), rng)
        for _ in range(4):
            state, _ = move(state, Cold(), 0.3, THREE, spring(1.2, 0.5), rng, refresh=0.4)
        assert worst(begin, state) < BOUND
        for _ in range(4):
            state, _ = move(state, Cold(), 0.6, THREE, spring(1.2, 0.5), rng, refresh=0.4)
        assert worst(begin, state) > CAUGHT

    def test_a_step_of_its_own_for_each_particle(self):
        rng = np.random.default_rng(12)
        begin = state = started(Pi(), Pi().draw(N, rng), rng)
        steps = correlated(np.array([0.0, 0.5, 0.9]))
        for _ in range(4):
            state, _ = move(state, Pi(), 1.0, THREE, steps.take(rng.integers(3, size=N)), rng)
        assert worst(begin, state) < BOUND

    def test_control_velocity_not_reversed_on_rejection(self):
        rng = np.random.default_rng(13)
        begin = state = started(Pi(), Pi().draw(N, rng), rng)
        for _ in range(4):
            state, moved = move(state, Pi(), 1.0, ONE, spring(1.2, 0.2), rng, refresh=0.0)
            state = state._replace(v=np.where(moved.accepted[:, None], state.v, -state.v))
        assert worst(begin, state) > CAUGHT

    def test_control_density_of_the_chosen_component(self):
        rng = np.random.default_rng(14)
        begin = state = started(Pi(), Pi().draw(N, rng), rng)
        for _ in range(8):
            parts = THREE.log_parts(state.z)
            heap = np.cumsum(np.exp(parts - log_sum_exp(parts, axis=1)[:, None]), axis=1)
            chosen = (rng.random((N, 1)) > heap).sum(axis=1).clip(max=2)
            fields = [a.copy() for a in state]
            for c in range(3):
                own = Mixture(np.ones(1), THREE.mean[[c]], THREE.factor[[c]], np.inf)
                some = np.flatnonzero(chosen == c)
                moved, _ = move(state.take(some), Pi(), 1.0, own, spring(1.2, 0.5), rng)
                for field, new in zip(fields, moved, strict=True):
                    field[some] = new
            state = ChainStates(*fields)
        assert worst(begin, state) > CAUGHT


class Pulled(NamedTuple):
    """`Pi` seen from each particle's own attractor, so that one reference at zero serves them all."""

    attractor: np.ndarray

    def log_prior(self, z):
        return np.zeros(len(z))

    def log_likelihood(self, z):
        return Pi().log_likelihood(z + self.attractor)


class TestWhoMayPull:
    """Chains start at pi, move five times while they remember their best point, then are pulled by a best point."""

    def pulled(self, whose, seed):
        rng = np.random.default_rng(seed)
        begin = state = started(Pi(), Pi().draw(N, rng), rng)
        best, height = state.z, state.log_likelihood
        for _ in range(5):
            state, _ = move(state, Pi(), 1.0, THREE, correlated(0.5), rng)
            better = state.log_likelihood > height
            best, height = np.where(better[:, None], state.z, best), np.maximum(state.log_likelihood, height)
        attractor = whose(best)
        narrow = Mixture(np.ones(1), np.zeros((1, 2)), np.eye(2)[None], np.inf)
        target = Pulled(attractor)
        state = started(target, state.z - attractor, rng)
        for _ in range(3):
            state, _ = move(state, target, 1.0, narrow, correlated(0.5), rng)
        return worst(begin, state._replace(z=state.z + attractor))

    def test_the_best_of_another(self):
        assert self.pulled(lambda best: np.roll(best, 1, axis=0), 15) < BOUND

    def test_control_the_own_best(self):
        assert self.pulled(lambda best: best, 16) > CAUGHT


class OnCircle(NamedTuple):
    """A von Mises law with its mode at the seam of [-1, 1), times a normal on a line."""

    def log_prior(self, z):
        return np.where(np.abs(z[:, 0]) <= 1, 0.0, -np.inf)

    def log_likelihood(self, z):
        return 2.0 * np.cos(np.pi * (z[:, 0] - 0.9)) - 0.5 * (z[:, 1] - z[:, 0] ** 2) ** 2

    def draw(self, n, rng):
        x = (0.9 + rng.vonmises(0.0, 2.0, n) / np.pi + 1) % 2 - 1
        return np.stack([x, x**2 + rng.standard_normal(n)], axis=1)


class TestCircles:
    CIRCLE = Circle.of(np.array([2.0, np.inf]))
    NEAR_SEAM = Mixture(
        np.array([0.7, 0.3]), np.array([[0.8, 0.5], [-0.3, 0.0]]), 0.6 * np.stack([np.eye(2)] * 2), np.inf
    )

    def test_images(self):
        assert_array_equal(self.CIRCLE.shifts, [[-2, 0], [0, 0], [2, 0]])
        assert len(Circle.of(np.array([2.0, 2.0, np.inf, 5.0])).shifts) == 27

    def test_wrapping(self):
        y = np.array([[0.9, 7.0], [1.1, 7.0], [-1.3, 7.0], [3.5, 7.0]])
        assert_allclose(self.CIRCLE.wrap(y), [[0.9, 7], [-0.9, 7], [0.7, 7], [np.nan, np.nan]])

    def test_the_wrapped_reference_is_a_density_on_the_circle(self):
        x, y = np.linspace(-1, 1, 401)[:-1] + 0.0025, np.linspace(-5, 5, 401)
        grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
        density = np.exp(log_sum_exp(log_parts(grid, self.NEAR_SEAM, self.CIRCLE), axis=1))
        assert_allclose(density.sum() * (x[1] - x[0]) * (y[1] - y[0]), 1.0, atol=2e-4)  # two turns away is 4 sd

    @pytest.mark.parametrize("freedom", [np.inf, 4.0])
    def test_exact_draws_stay_exact_draws(self, freedom):
        # t_4 often leaves the three turns that have images: such proposals must be rejected.
        assert self.shift(self.NEAR_SEAM._replace(freedom=freedom), self.CIRCLE) < BOUND

    def test_control_wrapped_without_the_sum_over_images(self):
        assert self.shift(self.NEAR_SEAM, self.CIRCLE._replace(shifts=np.zeros((1, 2)))) > CAUGHT

    def shift(self, reference, circle):
        rng = np.random.default_rng(18)
        begin = state = started(OnCircle(), OnCircle().draw(N, rng), rng)
        for _ in range(4):
            state, _ = move(
                state, OnCircle(), 1.0, reference, spring(1.2, 0.4), rng, refresh=0.4, jump=0.2, circle=circle
            )
            assert (np.abs(state.z[:, 0]) <= 1).all()
        return worst(begin, state)


class Disc(NamedTuple):
    """Uniform on a disc of a box: likelihood zero elsewhere; it counts what it is asked."""

    asked: list

    def log_prior(self, z):
        return np.where(np.abs(z).max(axis=1) <= 1, 0.0, -np.inf)

    def log_likelihood(self, z):
        self.asked.append(z)
        return np.where((z**2).sum(axis=1) < 0.5, 0.0, -np.inf)


class TestZeros:
    WIDE = Mixture(np.ones(1), np.zeros((1, 2)), 0.8 * np.eye(2)[None], np.inf)

    def test_outside_the_box_costs_no_likelihood_call(self):
        rng = np.random.default_rng(19)
        disc = Disc([])
        state = started(disc, np.zeros((2000, 2)), rng)
        disc.asked.clear()
        state, moved = move(state, disc, 1.0, self.WIDE, correlated(0.0), rng)
        assert (np.abs(np.concatenate(disc.asked)) <= 1).all()
        assert len(np.concatenate(disc.asked)) < 2000
        assert (moved.probability[np.abs(moved.proposal.z).max(axis=1) > 1] == 0).all()
        assert ((state.z**2).sum(axis=1) < 0.5).all()

    def test_a_particle_of_zero_likelihood_leaves_at_the_first_chance(self):
        rng = np.random.default_rng(20)
        state = started(Disc([]), np.full((500, 2), 0.9), rng)
        state, moved = move(state, Disc([]), 1.0, self.WIDE, correlated(0.0), rng)
        good = moved.proposal.log_likelihood > -np.inf
        assert_array_equal(moved.accepted, good)
        assert good.any()

    def test_one_dimension(self):
        rng = np.random.default_rng(21)

        class Line:
            def log_prior(self, z):
                return np.where(np.abs(z[:, 0]) <= 1, 0.0, -np.inf)

            def log_likelihood(self, z):
                return -np.abs(z[:, 0])

        # The distribution function of exp(-|z|) on [-1, 1], turned round.
        u = rng.uniform(-1, 1, N)
        z = -np.sign(u) * np.log1p(-np.abs(u) * (1 - np.exp(-1)))
        begin = state = started(Line(), z[:, None], rng)
        reference = Mixture(np.ones(1), np.array([[0.3]]), np.array([[[0.5]]]), 5.0)
        for _ in range(4):
            state, _ = move(state, Line(), 1.0, reference, spring(1.2, 0.5), rng, refresh=0.4)
        assert worst(begin, state) < BOUND
