"""Functions of any number of unknowns with many minima.

Sources: Jamil and Yang (2013), Ali, Khompatraporn and Zabinsky (2005), Yang (2010), and the collections of Gavana and
of Surjanovic and Bingham, with corrected minima.
"""

from __future__ import annotations

import numpy as np

from classics.problem import any_size

cos, sin, exp, pi, sqrt = np.cos, np.sin, np.exp, np.pi, np.sqrt


@any_size((2, 5, 10), 32.768)
def ackley(x):
    d = x.shape[1]
    bowl = -20 * exp(-0.2 * sqrt((x**2).sum(axis=1) / d))
    return bowl - exp(cos(2 * pi * x).sum(axis=1) / d) + 20 + np.e


@any_size((4,), 10.0)
def alpine_1(x):
    return np.abs(x * sin(x) + 0.1 * x).sum(axis=1)


@any_size((3,), (0, 10), minimum=lambda d: -(2.80813118000675**d), at=7.91705268466621)
def alpine_2(x):
    return -(sqrt(x) * sin(x)).prod(axis=1)


@any_size((4,), 1.0, minimum=lambda d: -0.1 * d)
def cosine_mixture(x):
    return (x**2 - 0.1 * cos(5 * pi * x)).sum(axis=1)


@any_size((3,), 1.0)
def csendes(x):
    return np.where(x == 0, 0, x**6 * (2 + sin(1 / np.where(x == 0, 1, x)))).sum(axis=1)


@any_size((4,), (-1, 0.95), minimum=-1.0, at=0.1)
def deb_1(x):
    return -(sin(5 * pi * x) ** 6).mean(axis=1)


@any_size((3,), (0, 9), minimum=-1.0, at=5.0)
def deflected_corrugated_spring(x):
    squares = ((x - 5) ** 2).sum(axis=1)
    return 0.1 * squares - cos(5 * sqrt(squares))


@any_size((3,), 5.0)
def expanded_griewank_rosenbrock(x):  # F8F2, cyclic, moved to the origin
    z = x + 1
    valley = 100 * (z**2 - np.roll(z, -1, axis=1)) ** 2 + (z - 1) ** 2
    return (valley / 4000 - cos(valley) + 1).sum(axis=1)


@any_size((3,), 100.0)
def expanded_schaffer(x):  # F6, cyclic
    squares = x**2 + np.roll(x, -1, axis=1) ** 2
    return (0.5 + (sin(sqrt(squares)) ** 2 - 0.5) / (1 + 0.001 * squares) ** 2).sum(axis=1)


@any_size((2, 6), 600.0)
def griewank(x):
    i = np.arange(1, x.shape[1] + 1)
    return (x**2).sum(axis=1) / 4000 - cos(x / sqrt(i)).prod(axis=1) + 1


@any_size((4, 8), (-10, 10), at=1.0)
def levy(x):
    w = 1 + (x - 1) / 4
    middle = ((w[:, :-1] - 1) ** 2 * (1 + 10 * sin(pi * w[:, :-1] + 1) ** 2)).sum(axis=1)
    last = (w[:, -1] - 1) ** 2 * (1 + sin(2 * pi * w[:, -1]) ** 2)
    return sin(pi * w[:, 0]) ** 2 + middle + last


@any_size((4, 8), 10.0, at=1.0)
def levy_montalvo_1(x):
    w = 1 + (x + 1) / 4 - 0.5
    steps = ((w[:, :-1] - 1) ** 2 * (1 + 10 * sin(pi * w[:, 1:]) ** 2)).sum(axis=1)
    return pi / x.shape[1] * (10 * sin(pi * w[:, 0]) ** 2 + steps + (w[:, -1] - 1) ** 2)


MICHALEWICZ = (2.20290552, 1.57079633, 1.28499157, 1.92305847, 1.72046977, 1.57079633, 1.45441397, 1.75608652)
MICHALEWICZ = (*MICHALEWICZ, 1.65571742, 1.57079633)


@any_size(
    (2, 5, 10),
    (0, pi),
    minimum=lambda d: {2: -1.80130341009855, 5: -4.68765817908815, 10: -9.66015171564135}[d],
    at=lambda d: np.array(MICHALEWICZ[:d]),
)
def michalewicz(x):
    i = np.arange(1, x.shape[1] + 1)
    return -(sin(x) * sin(i * x**2 / pi) ** 20).sum(axis=1)


@any_size((3,), 100.0)
def pathological(x):
    a, b = x[:, :-1], x[:, 1:]
    waves = sin(sqrt(100 * a**2 + b**2)) ** 2 - 0.5
    return (0.5 + waves / (1 + 0.001 * (a - b) ** 4)).sum(axis=1)


@any_size((4,), 10.0)
def pinter(x):
    i = np.arange(1, x.shape[1] + 1)
    before, after = np.roll(x, 1, axis=1), np.roll(x, -1, axis=1)
    a = before * sin(x) + sin(after)
    b = before**2 - 2 * x + 3 * after - cos(x) + 1
    return (i * x**2 + 20 * i * sin(a) ** 2 + i * np.log10(1 + i * b**2)).sum(axis=1)


@any_size((2, 5), 5.12)
def rastrigin(x):
    return (x**2 - 10 * cos(2 * pi * x) + 10).sum(axis=1)


@any_size((3,), 100.0)
def salomon(x):
    r = sqrt((x**2).sum(axis=1))
    return 1 - cos(2 * pi * r) + 0.1 * r


@any_size((2, 5), (-500, 500), at=420.968746359982)
def schwefel_2_26(x):
    return 418.982887272433799 * x.shape[1] - (x * sin(sqrt(np.abs(x)))).sum(axis=1)


@any_size((5,), (0, 180), minimum=-3.5, at=120.0)
def sinusoidal(x):  # moved by 30 degrees
    angle = np.deg2rad(x - 30)
    return -2.5 * sin(angle).prod(axis=1) - sin(5 * angle).prod(axis=1)


@any_size((3,), 10.0)
def stretched_v(x):
    squares = x[:, 1:] ** 2 + x[:, :-1] ** 2
    return (squares**0.25 * (sin(50 * squares**0.1) ** 2 + 0.1)).sum(axis=1)


@any_size((3, 6), (-5, 5), minimum=lambda d: -39.1661657037714 * d, at=-2.90353402777118)
def styblinski_tang(x):
    return 0.5 * (x**4 - 16 * x**2 + 5 * x).sum(axis=1)


@any_size((3,), 500.0, minimum=1.0, at=0.9)
def trigonometric_2(x):
    away = (x - 0.9) ** 2
    return 1 + (8 * sin(7 * away) ** 2 + 6 * sin(14 * away[:, :1]) ** 2 + away).sum(axis=1)


@any_size((3,), (0.25, 10), minimum=lambda d: -float(d), at=7.70628098)
def vincent(x):
    return -sin(10 * np.log(x)).sum(axis=1)


@any_size((3,), pi)
def wavy(x):
    return 1 - (cos(10 * x) * exp(-(x**2) / 2)).mean(axis=1)


@any_size((3,), 0.5)
def weierstrass(x):
    a, b = 0.5 ** np.arange(21), 3.0 ** np.arange(21)
    waves = (a * cos(2 * pi * b * (x[:, :, None] + 0.5))).sum(axis=(1, 2))
    return waves - x.shape[1] * (a * cos(pi * b)).sum()


@any_size((3,), (-10.24, 10.24), at=1.0)
def whitley(x):
    valley = 100 * (x[:, :, None] ** 2 - x[:, None]) ** 2 + (1 - x[:, None]) ** 2
    return (valley**2 / 4000 - cos(valley) + 1).sum(axis=(1, 2))


@any_size((3,), 2 * pi)
def xin_she_yang_2(x):
    return np.abs(x).sum(axis=1) * exp(-sin(x**2).sum(axis=1))


@any_size((3,), 20.0, minimum=-1.0)
def xin_she_yang_3(x):
    narrow = exp(-((x / 15) ** 10).sum(axis=1))
    return narrow - 2 * exp(-(x**2).sum(axis=1)) * (cos(x) ** 2).prod(axis=1)


@any_size((2,), 10.0, minimum=-1.0)
def xin_she_yang_4(x):
    waves = (sin(x) ** 2).sum(axis=1) - exp(-(x**2).sum(axis=1))
    return waves * exp(-(sin(sqrt(np.abs(x))) ** 2).sum(axis=1))
