"""Elementary functions for objectives: accurate to two units in the last place, with the library's special values."""

import math
import os
import subprocess
import sys

import mpmath
import numpy as np
import pytest

fast = pytest.importorskip("paoswarm.engines.fast", reason="numba is not installed")

rng = np.random.default_rng(0)
ANGLES = np.concatenate([rng.uniform(-7, 7, 200), rng.uniform(-1e6, 1e6, 200), np.arange(-40, 41) * math.pi / 2])
POINTS = {
    "sin": ANGLES,
    "cos": ANGLES,
    "exp": np.concatenate([rng.uniform(-3, 3, 200), rng.uniform(-745, 709, 200)]),
    "log": np.concatenate(
        [rng.uniform(0.5, 2, 200), 10 ** rng.uniform(-320, 308, 200), 1 + 1e-8 * rng.normal(size=99)]
    ),
}


@pytest.mark.parametrize("name", POINTS)
def test_two_units_in_the_last_place(name):
    with mpmath.workprec(120):
        for x in POINTS[name].tolist():
            exact = getattr(mpmath, name)(mpmath.mpf(x))
            assert abs(getattr(fast, name)(x) - exact) <= 2 * math.ulp(float(exact)), x


def test_special_values():
    assert [fast.exp(x) for x in (800.0, -800.0, math.inf, -math.inf)] == [math.inf, 0, math.inf, 0]
    assert [fast.log(x) for x in (0.0, math.inf)] == [-math.inf, math.inf]
    strange = [fast.log(-1.0), fast.cos(math.inf), *(getattr(fast, name)(math.nan) for name in POINTS)]
    assert all(math.isnan(x) for x in strange)


COMPILED_BY_A_CALLER = """
import math, numba
from paoswarm.engines import fast
cos = fast.cos
numba.njit(fastmath=True)(lambda x: cos(x))(4.385783348803814)
assert abs(fast.cos(4.385783348803814) - math.cos(4.385783348803814)) <= 2 * math.ulp(0.3)
"""


@pytest.mark.slow
def test_they_stay_accurate_when_the_caller_allows_sums_in_any_order(tmp_path):
    """numba hands the caller's freedom on to functions that do not set their own, and keeps the result on disk."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", COMPILED_BY_A_CALLER], env=environment, check=False)
    assert done.returncode == 0


def test_shortened_series_are_close_to_the_best_polynomials():
    """The error alternates in sign at one point more than there are coefficients, by nearly as much at each.

    By de la Vallee-Poussin's theorem no polynomial has an error below the smallest of these.
    """
    from fractions import Fraction

    from paoswarm.engines.fast import shortened

    terms, high = 5, 1.5
    found = shortened([Fraction(1, math.factorial(i)) for i in range(16)], "0", str(high), terms)
    x = np.linspace(0, high, 2001)
    error = np.polyval(found, x) - np.exp(x)
    changes = np.flatnonzero(np.diff(np.sign(error)))
    peaks = [abs(part).max() for part in np.split(error, changes + 1)]
    assert len(peaks) == terms + 1
    assert max(peaks) < 1.2 * min(peaks)
    plain = np.polyval([1 / math.factorial(i) for i in range(terms)][::-1], x) - np.exp(x)
    assert abs(plain).max() > 100 * max(peaks)
