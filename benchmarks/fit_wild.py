"""The 53 least-squares problems of Moré and Wild (2009): the set ``wild`` of `fit.py`.

They are 22 functions of CUTEr, most of them from Moré, Garbow and Hillstrom (1981), in several sizes and from two
starting points. Here each has a box, from two sizes below to five sizes above the starting point, where a size is
max(1, abs(start)). Every second one is held out.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from fit_problem import Problem

PI = np.pi


def linear_full_rank(x, m):
    r = np.full(m, -2 * x.sum() / m - 1)
    r[: len(x)] += x
    return r


def linear_rank_1(x, m):
    return np.arange(1, m + 1) * (np.arange(1, len(x) + 1) @ x) - 1


def linear_rank_1_zeros(x, m):
    """The first and the last unknown have no effect, the first and the last residual do not vary."""
    weights = np.arange(1, len(x) + 1)
    weights[[0, -1]] = 0
    rows = np.arange(m)
    rows[-1] = 0
    return rows * (weights @ x) - 1


def rosenbrock(x, m):
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def helical_valley(x, m):
    turn = np.arctan2(x[1], x[0]) / (2 * PI)
    turn += 1.0 if turn < -0.25 else 0.0  # the cut is along the lower half of the second axis
    return np.array([10 * (x[2] - 10 * turn), 10 * (np.hypot(x[0], x[1]) - 1), x[2]])


def powell_singular(x, m):
    last = np.sqrt([5, 1, 10]) * [x[2] - x[3], (x[1] - 2 * x[2]) ** 2, (x[0] - x[3]) ** 2]
    return np.concatenate([[x[0] + 10 * x[1]], last])


def freudenstein_roth(x, m):
    return np.array([-13 + x[0] + ((5 - x[1]) * x[1] - 2) * x[1], -29 + x[0] + ((1 + x[1]) * x[1] - 14) * x[1]])


BARD = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39])


def bard(x, m):
    u = np.arange(1, 16)
    v = 16 - u
    return BARD - (x[0] + u / (v * x[1] + np.minimum(u, v) * x[2]))


KOWALIK = np.array([0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
KOWALIK_AT = np.array([4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])


def kowalik_osborne(x, m):
    v = KOWALIK_AT
    return KOWALIK - x[0] * (v**2 + v * x[1]) / (v**2 + v * x[2] + x[3])


MEYER = np.array(
    [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872]
)


def meyer(x, m):
    return x[0] * np.exp(x[1] / (45 + 5 * np.arange(1, 17) + x[2])) - MEYER


def watson(x, m):
    t = np.arange(1, 30)[:, None] / 29
    powers = np.arange(len(x))
    slope = (powers[1:] * t ** (powers[1:] - 1)) @ x[1:]
    return np.concatenate([slope - (t**powers @ x) ** 2 - 1, [x[0], x[1] - x[0] ** 2 - 1]])


def box_3d(x, m):
    t = np.arange(1, m + 1) / 10
    return np.exp(-t * x[0]) - np.exp(-t * x[1]) + (np.exp(-10 * t) - np.exp(-t)) * x[2]


def jennrich_sampson(x, m):
    i = np.arange(1, m + 1)
    return 2 + 2 * i - np.exp(i * x[0]) - np.exp(i * x[1])


def brown_dennis(x, m):
    t = np.arange(1, m + 1) / 5
    return (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + np.sin(t) * x[3] - np.cos(t)) ** 2


def chebyquad(x, m):
    """Means of Chebyshev's polynomials over the unknowns, less their integrals over [0, 1]."""
    r, before, last = np.empty(m), np.ones(len(x)), 2 * x - 1
    for i in range(1, m + 1):
        r[i - 1] = last.mean() + (1 / (i**2 - 1) if i % 2 == 0 else 0)
        before, last = last, 2 * (2 * x - 1) * last - before
    return r


def brown_almost_linear(x, m):
    n = len(x)
    return np.concatenate([x[:-1] + x.sum() - (n + 1), [x.prod() - 1]])


OSBORNE_1 = np.array([
    844, 908, 932, 936, 925, 908, 881, 850, 818, 784, 751, 718, 685, 658, 628, 603, 580, 558, 538, 522, 506, 490,
    478, 467, 457, 448, 438, 431, 424, 420, 414, 411, 406,
]) / 1000  # fmt: skip
OSBORNE_2 = np.array([
    1366, 1191, 1112, 1013, 991, 885, 831, 847, 786, 725, 746, 679, 608, 655, 616, 606, 602, 626, 651, 724, 649, 649,
    694, 644, 624, 661, 612, 558, 533, 495, 500, 423, 395, 375, 372, 391, 396, 405, 428, 429, 523, 562, 607, 653,
    672, 708, 633, 668, 645, 632, 591, 559, 597, 625, 739, 710, 729, 720, 636, 581, 428, 292, 162, 98, 54,
]) / 1000  # fmt: skip


def osborne_1(x, m):
    t = 10 * np.arange(33)
    return OSBORNE_1 - (x[0] + x[1] * np.exp(-x[3] * t) + x[2] * np.exp(-x[4] * t))


def osborne_2(x, m):
    t = np.arange(65)[:, None] / 10
    peaks = np.exp(-x[5:8] * (t - x[8:]) ** 2) @ x[1:4]
    return OSBORNE_2 - (x[0] * np.exp(-x[4] * t[:, 0]) + peaks)


def bdqrtic(x, m):
    k = len(x) - 4
    squares = sum((j + 1) * x[j : j + k] ** 2 for j in range(4)) + 5 * x[-1] ** 2
    return np.concatenate([3 - 4 * x[:k], squares])


def cube(x, m):
    return np.concatenate([[x[0] - 1], 10 * (x[1:] - x[:-1] ** 3)])


def _mancino_sum(squares):
    i = np.arange(1, len(squares) + 1)
    root = np.sqrt(squares[:, None] + i[:, None] / i)
    return (i - 50.0) ** 3 + (root * (np.sin(np.log(root)) ** 5 + np.cos(np.log(root)) ** 5)).sum(axis=1)


def mancino(x, m):
    return 1400 * x + _mancino_sum(x**2)


def heart_8(x, m):
    """The heart's dipole, in eight unknowns: four complex equations."""
    a, b = complex(x[0], x[2]), complex(x[1], x[3])
    p, q = complex(x[4], x[6]), complex(x[5], x[7])
    sums = [a + b + complex(0.69, 0.044), (a * p + b * q) - complex(-1.57, -1.31)]
    sums += [a * p**2 + b * q**2 - complex(-2.65, 2.0), a * p**3 + b * q**3 - complex(-12.6, 9.48)]
    return np.array([part for one in sums for part in (one.real, one.imag)])


def _ones(n):
    return np.ones(n)


def _fixed(*start):
    return lambda n: np.array(start, float)


# Function, its standard start, and (n, m, whether also from ten times the start).
TABLE = [
    (linear_full_rank, _ones, [(9, 45, True)]),
    (linear_rank_1, _ones, [(7, 35, True)]),
    (linear_rank_1_zeros, _ones, [(7, 35, True)]),
    (rosenbrock, _fixed(-1.2, 1), [(2, 2, True)]),
    (helical_valley, _fixed(-1, 0, 0), [(3, 3, True)]),
    (powell_singular, _fixed(3, -1, 0, 1), [(4, 4, True)]),
    (freudenstein_roth, _fixed(0.5, -2), [(2, 2, True)]),
    (bard, _ones, [(3, 15, True)]),
    (kowalik_osborne, _fixed(0.25, 0.39, 0.415, 0.39), [(4, 11, False)]),
    (meyer, _fixed(0.02, 4000, 250), [(3, 16, False)]),
    (watson, lambda n: np.full(n, 0.5), [(6, 31, True), (9, 31, True), (12, 31, True)]),
    (box_3d, _fixed(0, 10, 20), [(3, 10, False)]),
    (jennrich_sampson, _fixed(0.3, 0.4), [(2, 10, False)]),
    (brown_dennis, _fixed(25, 5, -5, -1), [(4, 20, True)]),
    (chebyquad, lambda n: np.arange(1, n + 1) / (n + 1), [(n, n, False) for n in range(6, 12)]),
    (brown_almost_linear, lambda n: np.full(n, 0.5), [(10, 10, False)]),
    (osborne_1, _fixed(0.5, 1.5, 1, 0.01, 0.02), [(5, 33, False)]),
    (osborne_2, _fixed(1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5), [(11, 65, True)]),
    (bdqrtic, _ones, [(8, 8, False), (10, 12, False), (11, 14, False), (12, 16, False)]),
    (cube, lambda n: np.full(n, 0.5), [(5, 5, False), (6, 6, False), (8, 8, False)]),
    (mancino, lambda n: -8.710996e-4 * _mancino_sum(np.zeros(n)),
     [(5, 5, True), (8, 8, False), (10, 10, False), (12, 12, True)]),
    (heart_8, _fixed(-0.3, -0.39, 0.3, -0.344, -1.2, 2.69, 1.59, -1.5), [(8, 8, True)]),
]  # fmt: skip


def starts():
    """All 53: a number from 1, the function, unknowns, residuals, and the starting point."""
    rows = [
        (function, n, m, factor * start(n))
        for function, start, sizes in TABLE
        for n, m, both in sizes
        for factor in ((1, 10) if both else (1,))
    ]
    return [(number, *row) for number, row in enumerate(rows, 1)]


OSBORNE_2_BEST = (1.31, 0.4315, 0.6336, 0.5993, 0.7539, 0.9056, 1.3651, 4.8248, 2.3988, 4.5689, 5.6754)  # published


def wild():
    """The problems."""
    problems = []
    for number, function, n, m, start in starts():
        size = np.maximum(1, np.abs(start))
        residuals = partial(function, m=m)
        with np.errstate(all="ignore"):
            value = float((residuals(start) ** 2).sum())
        box = np.stack([start - 2 * size, start + 5 * size], axis=1)
        name = f"{number}-{function.__name__}-{n}"
        best = OSBORNE_2_BEST if function is osborne_2 else None
        problems.append(Problem("wild", name, residuals, box, held_out=number % 2 == 0, start_value=value, truth=best))
    return problems
