"""Functions of any number of unknowns with one minimum or a few: bowls, ridges, bent valleys.

Sources: Jamil and Yang (2013), More, Garbow and Hillstrom (1981), Schwefel (1981), and the collections of Gavana and of
Surjanovic and Bingham.
"""

from __future__ import annotations

import numpy as np

from classics.problem import any_size

cos, sin, exp = np.cos, np.sin, np.exp


def numbers(x):
    """1 to d."""
    return np.arange(1, x.shape[1] + 1)


@any_size((6,), 50.0)
def bent_cigar(x):
    return x[:, 0] ** 2 + 1e6 * (x[:, 1:] ** 2).sum(axis=1)


@any_size((4,), 2.5)
def brown(x):
    a, b = x[:, :-1] ** 2, x[:, 1:] ** 2
    return (a ** (b + 1) + b ** (a + 1)).sum(axis=1)


@any_size((5,), 100.0)
def chung_reynolds(x):
    return (x**2).sum(axis=1) ** 2


@any_size((6,), 50.0)
def discus(x):
    return 1e6 * x[:, 0] ** 2 + (x[:, 1:] ** 2).sum(axis=1)


@any_size((4, 8), (-10, 10), at=lambda d: 2.0 ** (2.0 ** (1 - np.arange(1, d + 1)) - 1))
def dixon_price(x):
    i = numbers(x)[1:]
    return (x[:, 0] - 1) ** 2 + (i * (2 * x[:, 1:] ** 2 - x[:, :-1]) ** 2).sum(axis=1)


@any_size((5,), 1.0, minimum=-1.0)
def exponential(x):
    return -exp(-0.5 * (x**2).sum(axis=1))


@any_size((4,), (-20, 25), at=-1.0)
def happy_cat(x):
    d = x.shape[1]
    squares = (x**2).sum(axis=1)
    return ((squares - d) ** 2) ** 0.125 + (0.5 * squares + x.sum(axis=1)) / d + 0.5


@any_size((3,), (-4, 4), at=lambda d: 1 / np.arange(1, d + 1))
def perm_inverse(x):  # also called Perm 0, d, 10
    i = numbers(x)
    return sum((((i + 10) * (x**k - (1 / i) ** k)).sum(axis=1)) ** 2 for k in i)


@any_size((3,), (-4, 4), at=lambda d: np.arange(1, d + 1))
def perm(x):
    i = numbers(x)
    return sum((((i**k + 0.5) * ((x / i) ** k - 1)).sum(axis=1)) ** 2 for k in i)


@any_size((5,), 1.0)
def powell_sum(x):
    return (np.abs(x) ** (numbers(x) + 1)).sum(axis=1)


@any_size((4,), 500.0, at=lambda d: np.sqrt(np.arange(1, d + 1)))
def qing(x):
    return ((x**2 - numbers(x)) ** 2).sum(axis=1)


@any_size((4,), (-10, 10), at=lambda d: np.array([np.full(d, -1.0), np.full(d, 2.0)]))
def quintic(x):
    return np.abs(x**5 - 3 * x**4 + 4 * x**3 + 2 * x**2 - 10 * x - 4).sum(axis=1)


@any_size((2, 4, 8), (-5, 10), at=1.0)
def rosenbrock(x):
    return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1)


@any_size((4,), 100.0)
def sargan(x):
    total = x.sum(axis=1)
    return x.shape[1] * (0.6 * (x**2).sum(axis=1) + 0.4 * total**2)


@any_size((6,), 100.0)
def schwefel_1_2(x):
    return (np.cumsum(x, axis=1) ** 2).sum(axis=1)


@any_size((4,), (-9, 10), at=1.0)
def schwefel_2_4(x):
    return ((x - 1) ** 2 + (x[:, :1] - x**2) ** 2).sum(axis=1)


@any_size((4,), 100.0)
def schwefel_2_20(x):
    return np.abs(x).sum(axis=1)


@any_size((4,), 100.0)
def schwefel_2_21(x):
    return np.abs(x).max(axis=1)


@any_size((4,), 100.0)
def schwefel_2_22(x):
    return np.abs(x).sum(axis=1) + np.abs(x).prod(axis=1)


@any_size((4,), 10.0)
def schwefel_2_23(x):
    return (x**10).sum(axis=1)


@any_size((8,), 5.12)
def sphere(x):
    return (x**2).sum(axis=1)


@any_size((4,), 100.0)
def step_2(x):
    return (np.floor(x + 0.5) ** 2).sum(axis=1)


@any_size((10,), 10.0)
def sum_squares(x):
    return (numbers(x) * x**2).sum(axis=1)


@any_size((5, 10), (-5, 10), at=0.0)
def zakharov(x):
    slope = 0.5 * (numbers(x) * x).sum(axis=1)
    return (x**2).sum(axis=1) + slope**2 + slope**4
