"""The exact transition: 60-digit references, and the identities of mathematics.md, section 2."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm

import paoswarm as ps
from paoswarm.core.dynamics import exact_transition, slow_rate

DAMPINGS = [0, 1e-8, 1e-3, 0.2, 0.7, 1 - 1e-9, 1, 1 + 1e-9, 1.5, 5, 50]
OMEGAS = np.geomspace(0.05, 20, 5)
STEPS = np.geomspace(1e-6, 1e3, 10)
L = np.array([[0.0], [1.0]])


def reference(zeta, omega, t):
    """A and (Sigma_11, Sigma_12, Sigma_22) from integrals of exponentials, to about 60 digits."""
    with mp.workdps(110):  # nearly equal roots and short steps cancel some 40 digits
        zeta, omega, t = map(mp.mpf, (zeta, omega, t))
        if zeta == 1:
            e, q = mp.exp(-omega * t), 2 * omega
            g1, g2, a11 = t * e, (1 - omega * t) * e, (1 + omega * t) * e
            i0, i1, i2 = (mp.gammainc(n + 1, 0, q * t) / q ** (n + 1) for n in range(3))  # int u^n exp(-q u) du
            sigma = i2, i1 - omega * i2, i0 - 2 * omega * i1 + omega**2 * i2
        else:
            half = omega * mp.sqrt(mp.mpc(zeta**2 - 1))
            p, m = -zeta * omega + half, -zeta * omega - half
            ep, em = mp.exp(p * t), mp.exp(m * t)
            g1, g2, a11 = (ep - em) / (2 * half), (p * ep - m * em) / (2 * half), (p * em - m * ep) / (2 * half)
            pp, pm, mm = (mp.expm1(r * t) / r if r else t for r in (2 * p, p + m, 2 * m))
            scale = 1 / (2 * half) ** 2
            sigma = (
                scale * (pp - 2 * pm + mm),
                scale * (p * pp - (p + m) * pm + m * mm),
                scale * (p * p * pp - 2 * p * m * pm + m * m * mm),
            )
        A = [[mp.re(a11), mp.re(g1)], [-(omega**2) * mp.re(g1), mp.re(g2)]]
        return A, tuple(mp.re(s) for s in sigma)


def covariance_error(sigma, exact):
    """Largest error of an entry over the geometric mean of its two variances."""
    s11, s12, s22 = exact
    errors = (sigma[0, 0] - s11) / s11, (sigma[0, 1] - s12) / mp.sqrt(s11 * s22), (sigma[1, 1] - s22) / s22
    return float(max(abs(e) for e in errors))


def matrix_fraction(zeta, omega, t):
    F = drift(zeta, omega)
    both = expm(np.block([[F, L @ L.T], [np.zeros((2, 2)), -F.T]]) * t)
    return both[:2, 2:] @ both[:2, :2].T


def drift(zeta, omega):
    return np.array([[0.0, 1.0], [-(omega**2), -2 * zeta * omega]])


def test_the_reference_solves_the_lyapunov_equation():
    for zeta in (0.2, 1, 1 + 1e-9, 5):
        A, (s11, s12, s22) = reference(zeta, 1.3, 1e-5)
        with mp.workdps(60):
            F = mp.matrix([[0, 1], [-(mp.mpf(1.3) ** 2), -2 * mp.mpf(zeta) * mp.mpf(1.3)]])
            sigma, g = mp.matrix([[s11, s12], [s12, s22]]), mp.matrix([A[0][1], A[1][1]])
            rest = F * sigma + sigma * F.T + mp.matrix([[0, 0], [0, 1]]) - g * g.T
            assert mp.mnorm(rest, 1) < mp.mpf(10) ** -55


def assert_exact(zeta, omega, t, tolerance):
    law = exact_transition(*np.broadcast_arrays(float(zeta), omega, t))
    A, sigma = reference(zeta, omega, t)
    largest = max(abs(a) for row in A for a in row)
    allowed = tolerance * largest + mp.mpf("1e-290")  # below, numbers underflow
    assert max(abs(law.A[i, j] - A[i][j]) for i in (0, 1) for j in (0, 1)) <= allowed, (zeta, omega, t)
    assert covariance_error(law.covariance, sigma) < 1e-12, (zeta, omega, t)


@pytest.mark.parametrize("zeta", DAMPINGS)
def test_the_transition_agrees_with_60_digit_arithmetic(zeta):
    for omega in OMEGAS:
        for t in STEPS:
            assert_exact(zeta, omega, t, tolerance=1e-11 if omega * t > 100 else 1e-12)


@pytest.mark.slow
def test_the_transition_is_as_exact_as_its_arguments_anywhere():
    rng = np.random.default_rng(1)
    for _ in range(10_000):
        zeta = rng.choice([10 ** rng.uniform(-9, 2), 1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-12, -1)])
        omega, t = 10 ** rng.uniform(np.log10(0.05), np.log10(20)), 10 ** rng.uniform(-6, 3)
        # A phase omega t is known to eps omega t at best, and a nearly undamped swing shows all of it.
        assert_exact(zeta, omega, t, tolerance=20 * np.finfo(float).eps * max(1.0, omega * t))


def test_transition_reads_mass_and_stiffness_as_a_natural_frequency():
    law = ps.laws.transition(mass=2.0, damping=0.3, stiffness=0.5, dt=1.7)
    assert_allclose(law.A, expm(drift(0.3, 0.5) * 1.7), rtol=0, atol=1e-14)
    assert_allclose(law.covariance, matrix_fraction(0.3, 0.5, 1.7), rtol=1e-12)


@pytest.mark.parametrize("zeta", DAMPINGS)
class TestIdentities:
    omega = 1.4

    def law(self, zeta, t):
        return ps.laws.transition(1.0, zeta, self.omega**2, t)

    @pytest.mark.parametrize("t", [1e-5, 0.3, 2.0, 40.0])
    def test_the_factor_is_a_lower_triangular_root_of_the_covariance(self, zeta, t):
        law = self.law(zeta, t)
        assert law.cholesky[0, 1] == 0
        assert (np.diag(law.cholesky) > 0).all()
        scale = np.sqrt(np.outer(*[np.diag(law.covariance)] * 2))
        assert_allclose(law.cholesky @ law.cholesky.T / scale, law.covariance / scale, rtol=0, atol=1e-15)

    @pytest.mark.parametrize(("t", "u"), [(0.01, 0.02), (0.3, 1.1), (2.0, 7.0)])
    def test_the_mean_obeys_the_semigroup_law(self, zeta, t, u):
        whole = self.law(zeta, t + u).A
        assert_allclose(self.law(zeta, t).A @ self.law(zeta, u).A, whole, rtol=0, atol=1e-13 * np.abs(whole).max())

    @pytest.mark.parametrize(("t", "u"), [(0.01, 0.02), (0.3, 1.1), (2.0, 7.0)])
    def test_the_covariance_obeys_chapman_kolmogorov(self, zeta, t, u):
        first, second, whole = self.law(zeta, t), self.law(zeta, u), self.law(zeta, t + u)
        in_two = second.covariance + second.A @ first.covariance @ second.A.T
        scale = np.sqrt(np.outer(*[np.diag(whole.covariance)] * 2))
        assert_allclose(in_two / scale, whole.covariance / scale, rtol=0, atol=1e-13)

    @pytest.mark.parametrize("t", [1e-3, 0.4, 3.0])
    def test_the_covariance_solves_the_lyapunov_equation(self, zeta, t):
        F, law = drift(zeta, self.omega), self.law(zeta, t)
        g = law.A @ L
        left = F @ law.covariance + law.covariance @ F.T + L @ L.T
        terms = np.abs(F) @ np.abs(law.covariance)
        assert_allclose(left, g @ g.T, rtol=0, atol=1e-14 * (1 + terms.max()))

    def test_a_short_step_is_an_integrated_brownian_motion(self, zeta):
        t = 1e-9
        limit = np.array([[t**3 / 3, t**2 / 2], [t**2 / 2, t]])
        assert_allclose(self.law(zeta, t).covariance, limit, rtol=1e-6)
        assert_allclose(self.law(zeta, t).A, np.eye(2) + drift(zeta, self.omega) * t, rtol=0, atol=1e-14)

    def test_no_time_changes_nothing(self, zeta):
        law = self.law(zeta, 0.0)
        assert_array_equal(law.A, np.eye(2))
        assert_array_equal(law.covariance, np.zeros((2, 2)))
        assert_array_equal(law.cholesky, np.zeros((2, 2)))

    @pytest.mark.parametrize("t", [0.05, 0.5, 5.0])
    def test_the_papers_covariance_formula_is_wrong(self, zeta, t):
        law = self.law(zeta, t)
        printed = L @ L.T - law.A @ L @ L.T @ law.A.T
        scale = np.sqrt(np.outer(*[np.diag(law.covariance)] * 2))
        assert np.abs((printed - law.covariance) / scale).max() > 0.5


@pytest.mark.parametrize("zeta", DAMPINGS[1:])
def test_a_long_step_forgets_where_it_began(zeta):
    law = ps.laws.transition(1.0, zeta, 1.4**2, 1e3 / slow_rate(np.asarray(zeta, dtype=float)))
    stationary = np.diag([1 / (4 * zeta * 1.4**3), 1 / (4 * zeta * 1.4)])
    assert_allclose(law.A, 0, atol=1e-290)
    assert_allclose(np.diag(law.covariance), np.diag(stationary), rtol=1e-13)
    assert abs(law.covariance[0, 1]) < 1e-15 * np.sqrt(stationary[0, 0] * stationary[1, 1])


@pytest.mark.parametrize("zeta", DAMPINGS[1:])
@pytest.mark.parametrize("t", [0.5, 5.0])
def test_the_covariance_follows_from_the_stationary_one(zeta, t):
    P, law = np.diag([1 / (4 * zeta * 1.4**3), 1 / (4 * zeta * 1.4)]), ps.laws.transition(1.0, zeta, 1.4**2, t)
    assert_allclose(P - law.A @ P @ law.A.T, law.covariance, rtol=0, atol=2e-15 * P.max() + 1e-14)


def test_without_damping_energy_is_kept():
    omega, state = 0.7, np.array([1.3, -0.4])
    for t in (0.1, 3.0, 1e4):
        y, v = ps.laws.transition(1.0, 0.0, omega**2, t).A @ state
        assert_allclose(omega**2 * y**2 + v**2, omega**2 * state[0] ** 2 + state[1] ** 2, rtol=1e-12)


@pytest.mark.parametrize("zeta", [0.0, 0.2, 0.9, 1.0])
@pytest.mark.parametrize("t", [0.3, 1.0, 3.0])
def test_light_damping_agrees_with_the_matrix_fraction(zeta, t):
    assert_allclose(ps.laws.transition(1.0, zeta, 2.0, t).covariance, matrix_fraction(zeta, 2**0.5, t), rtol=1e-10)


@pytest.mark.parametrize(("zeta", "omega", "t", "explodes"), [(5.0, 2**0.5, 3.0, 1.0), (50.0, 2**0.5, 1.0, 1e30)])
def test_strong_damping_breaks_the_matrix_fraction_and_not_us(zeta, omega, t, explodes):
    _, exact = reference(zeta, omega, t)
    assert covariance_error(matrix_fraction(zeta, omega, t), exact) > explodes
    assert covariance_error(exact_transition(*map(np.asarray, (zeta, omega, t))).covariance, exact) < 1e-13


def test_a_batch_is_the_scalars_one_by_one():
    m, zeta = np.array([0.5, 1.0, 2.0])[:, None], np.array([0.0, 0.2, 1.0, 5.0, 50.0])
    k, t = np.array([1.0, 0.3, 7.0])[:, None], np.array([0.0, 1e-4, 1.0, 30.0, 1e3])
    batch = ps.laws.transition(m, zeta, k, t)
    assert batch.A.shape == (3, 5, 2, 2)
    for i in range(3):
        for j in range(5):
            alone = ps.laws.transition(m[i, 0], zeta[j], k[i, 0], t[j])
            for together, single in zip(batch, alone, strict=True):
                assert_allclose(together[i, j], single, rtol=0, atol=1e-13 * np.abs(single).max())


@pytest.mark.parametrize("name", ["mass", "damping", "stiffness", "dt"])
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, [1.0, -1.0]])
def test_a_bad_argument_is_named(name, bad):
    with pytest.raises(ValueError, match=f"^{name} must be"):
        ps.laws.transition(**{"mass": 1.0, "damping": 0.2, "stiffness": 2.0, "dt": 1.0, name: bad})


@pytest.mark.parametrize("name", ["mass", "stiffness"])
def test_mass_and_stiffness_must_not_vanish(name):
    with pytest.raises(ValueError, match=f"^{name} must be positive"):
        ps.laws.transition(**{"mass": 1.0, "damping": 0.2, "stiffness": 2.0, "dt": 1.0, name: 0.0})


def test_the_slow_rate_is_the_real_part_of_the_slower_root():
    for zeta in (0.0, 0.3, 1.0, 1.5, 40.0):
        roots = np.roots([1.0, 2 * zeta, 1.0])
        assert_allclose(slow_rate(np.asarray(zeta)), -roots.real.max(), rtol=1e-10, atol=1e-15)


def test_an_entry_of_a_batch_does_not_depend_on_the_others():
    steps = np.array([1e-3, 1.7, 4.4, 300.0])
    together = ps.laws.transition(1.0, np.array([0.0, 0.2, 1.5, 50.0])[:, None], 2.0, steps)
    for i, zeta in enumerate((0.0, 0.2, 1.5, 50.0)):
        for j, dt in enumerate(steps):
            alone = ps.laws.transition(1.0, zeta, 2.0, np.array([dt]))
            assert_array_equal(together.covariance[i, j], alone.covariance[0])
            assert_array_equal(together.A[i, j], alone.A[0])


@pytest.mark.parametrize("name", ["mass", "damping", "stiffness", "dt"])
def test_a_string_is_refused_by_name(name):
    with pytest.raises(TypeError, match=f"^{name} must be a number"):
        ps.laws.transition(**{"mass": 1.0, "damping": 0.2, "stiffness": 2.0, "dt": 1.0, name: "a"})


OVERFLOWING = [(1e220, 0.2, 1.0, 1.0), (1e-300, 0.2, 1e300, 1.0), (1.0, 0.2, 1e300, 1e300)]
OVERFLOWING += [(1.0, 1e308, 1.0, 1.0), (1.0, 1e155, 1.0, 1.0)]


@pytest.mark.parametrize("given", OVERFLOWING)
def test_a_step_that_overflows_is_refused(given):
    with pytest.raises(ValueError, match=r"^mass=.* too large"):
        ps.laws.transition(*given)
