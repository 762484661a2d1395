"""The sets of problems of `fit.py`.

- ``ode``: 31 calibrations of differential equations, see `fit_odes.py` and `fit_systems.py`.
- ``nist``: ten regressions of NIST in wide boxes, see `regressions.py`.
- ``wild``: the problems of Moré and Wild, see `fit_wild.py`.
- ``rugged``: fits with many local minima.
- ``large``: 1000 to 100,000 data.

Half of each set is held out: no choice was made on it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import regressions
from fit_odes import calibrations, duffing, lorenz
from fit_problem import Problem, made
from fit_systems import systems
from fit_wild import wild

NIST_DEVELOPMENT = ("Chwirut2", "Gauss1", "Misra1a", "Roszman1", "Thurber")
NO_MINIMUM = ("38-osborne_2-11",)  # in the box: 0 of 400 local searches reach the published one


def _regression(name, group="nist", held_out=None):
    one = regressions.read(name)
    return Problem(group, name, lambda b: (regressions.MODELS[name](b[None], one.x) - one.y)[0], one.bounds,
                   held_out=name not in NIST_DEVELOPMENT if held_out is None else held_out,
                   truth=one.certified)  # fmt: skip


def sinusoids(p, t):
    """Two sinusoids: amplitudes, frequencies and phases."""
    return p[0] * np.sin(p[2] * t + p[4]) + p[1] * np.sin(p[3] * t + p[5])


def peaks(p, t, n):
    """Gauss's peaks: heights, places and widths; what follows is the background."""
    height, place, width = p[: 3 * n].reshape(3, n, 1)
    return (height * np.exp(-(((t - place) / width) ** 2))).sum(axis=0)


def peaks_on_decay(p, t):
    """Three peaks on an exponential that falls."""
    return peaks(p, t, 3) + p[9] * np.exp(-p[10] * t)


def decays(p, t):
    """Exponentials: amplitudes and rates, and a constant."""
    n = len(p) // 2
    return p[:n] @ np.exp(-p[n : 2 * n, None] * t) + p[-1]


def _made(group, name, model, truth, sigma, seed, box, log, held_out):
    return Problem(group, name, made(model, truth, sigma, seed), box, log, held_out=held_out, truth=truth)


def rugged():
    """Fits with many local minima; Gauss1 is the one of ``nist``."""
    t = np.linspace(0, 10, 100)
    three = (3, 2, 4, 2, 5, 7.5, 0.5, 0.8, 0.6, 5, 0.3)
    box = [(0.1, 10)] * 3 + [(0, 10)] * 3 + [(0.1, 3)] * 3 + [(0.5, 20), (0.01, 3)]
    waves = (1, 0.7, 3.1, 7.3, 0.5, -1)
    turns = [(0.1, 5)] * 2 + [(0.5, 15)] * 2 + [(-np.pi, np.pi)] * 2
    longer = [(1, 50), (1, 100), (0.3, 10)]
    springs = [(0, 2), (-2, 5), (-1, 5), (0, 3), (0.2, 4)]
    return [
        _made("rugged", "sinusoids", lambda p: sinusoids(p, t), waves, 0.2, 61, turns, False, False),
        _regression("Gauss1", "rugged", held_out=True),
        _made("rugged", "peaks", lambda p: peaks_on_decay(p, t), three, 0.1, 62, box,
              [True] * 3 + [False] * 3 + [True] * 5, False),
        _made("rugged", "lorenz twice as long", lambda p: lorenz(p, 50), (10, 28, 8 / 3), 0.5, 63, longer, True, True),
        _made("rugged", "duffing twice as long", lambda p: duffing(p, 80), (0.2, 1, 0.8, 0.6, 1.3), 0.05, 64, springs,
              False, False),
    ]  # fmt: skip


def large():
    """Sums of peaks and of exponentials with 1000 to 100,000 data."""
    t = np.linspace(0, 10, 1000)
    many = np.linspace(0, 10, 10_000)
    most = np.linspace(0, 10, 100_000)
    heights, widths = [(0.1, 10)] * 3, [(0.1, 3)] * 3
    three, two = (3, 2, 4, 2, 5, 7.5, 0.5, 0.8, 0.6, 0.5), (3, 4, 3, 7, 0.5, 0.8, 0.5)
    return [
        _made("large", "peaks, 1000", lambda p: peaks(p, t, 3) + p[9], three, 0.2, 71,
              [*heights, *[(0, 10)] * 3, *widths, (-2, 2)], [True] * 3 + [False] * 3 + [True] * 3 + [False], False),
        _made("large", "decays, 10000", lambda p: decays(p, many), (5, 3, 2, 0.15, 1, 6, 0.5), 0.1, 72,
              [(0.1, 100)] * 3 + [(0.01, 100)] * 3 + [(-2, 2)], [True] * 6 + [False], True),
        _made("large", "peaks, 100000", lambda p: peaks(p, most, 2) + p[6], two, 0.3, 73,
              [*heights[:2], *[(0, 10)] * 2, *widths[:2], (-2, 2)], [True] * 2 + [False] * 2 + [True] * 2 + [False],
              False),
    ]  # fmt: skip


SETS = {
    "ode": lambda: [*calibrations(), *systems()],
    "nist": lambda: [_regression(name) for name in regressions.MODELS],
    "wild": lambda: [problem for problem in wild() if problem.name not in NO_MINIMUM],
    "rugged": rugged,
    "large": large,
}


@cache
def problems(group):
    """The problems of a set."""
    return SETS[group]()
