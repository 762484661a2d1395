"""The noise that a fit measures at its start is the simulator's, however good the start is."""

import numpy as np
import pytest

import paoswarm as ps

T = np.linspace(0, 10, 50)
SPACE = {"a": (0.5, 10), "k": (0.01, 3), "w": (3, 5)}
TRUE = {"a": 3.0, "k": 0.5, "w": 4.0}


def wave(p):
    return p["a"] * np.exp(-p["k"] * T) * np.cos(p["w"] * T)


@pytest.mark.parametrize("apart", [0.0, 1e-12, 1e-9, 1e-3])
def test_an_exact_start_is_no_noise(apart):
    fit = ps.fit(wave, SPACE, wave(TRUE), x0=TRUE | {"a": 3.0 + apart}, rng=1)
    assert fit.success
    assert fit.solution.noise == 0
    assert fit.nfev < 200
    np.testing.assert_allclose(list(fit.best.values()), list(TRUE.values()), rtol=1e-9)


@pytest.mark.parametrize("x0", [TRUE, TRUE | {"a": 10.0}, None])
def test_slopes_are_no_noise(x0):
    data = wave(TRUE) + 1e-3 * np.sin(17 * T)
    for seed in range(5):
        assert ps.fit(wave, SPACE, data, x0=x0, rng=seed, maxfev=20).solution.noise == 0


def test_noise_is_measured():
    draws, data = np.random.default_rng(3), wave(TRUE) + 0.01 * np.sin(17 * T)

    def noisy(p):
        return wave(p) + 1e-4 * draws.normal(size=50)

    found = [ps.fit(noisy, SPACE, data, x0=TRUE, rng=seed, maxfev=20).solution.noise for seed in range(20)]
    true = 1e-4 / np.sqrt(np.mean((wave(TRUE) - data) ** 2))
    # The size of 50 normal numbers has a relative deviation of 0.1, the mean of 20 one of 0.025: 1e-7 beyond 0.14.
    assert abs(np.mean(found) / true - 1) < 0.14
