"""Least squares with a fixed number of unknowns: measured data, and systems of equations.

Sources: More, Garbow and Hillstrom (1981, ACM TOMS 7, 17-41), whose numbers are given; Ali, Khompatraporn and Zabinsky
(2005, J. Global Optimization 31, 635-672); Hougen's data as in Bates and Watts (1988). Boxes that were printed without
their minimum inside (Meyer and Roth, de Villiers and Glasser) are larger here.
"""

from __future__ import annotations

import numpy as np

from classics.problem import any_size, classic

cos, sin, exp, pi = np.cos, np.sin, np.exp, np.pi


def columns(x):
    """The unknowns, each as ``(m, 1)``, to be combined with a row of data."""
    return x.T[:, :, None]


def squares(residuals):
    return (residuals**2).sum(axis=1)


BARD = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39])


@classic([(-2, 2), (0.1, 6), (0.1, 6)], 0.00821487730657899, (0.08241056, 1.13303609, 2.34369518))
def bard(x):  # 8
    a, b, c = columns(x)
    u = np.arange(1, 16)
    v = 16 - u
    return squares(BARD - a - u / (v * b + np.minimum(u, v) * c))


@classic([(0, 5), (0, 15), (0.3, 3)], 0, (1, 10, 1))
def box_3d(x):  # 12
    a, b, c = columns(x)
    t = 0.1 * np.arange(1, 11)
    return squares(exp(-a * t) - exp(-b * t) - c * (exp(-t) - exp(-10 * t)))


@classic([(-25, 25)] * 4, 85822.2016263563, (-11.59443990, 13.20363005, -0.40343948, 0.23677877))
def brown_dennis(x):  # 16
    a, b, c, d = columns(x)
    t = np.arange(1, 21) / 5
    return squares((a + t * b - exp(t)) ** 2 + (c + d * sin(t) - cos(t)) ** 2)


@classic([(0, 20)] * 2, 0, (1, 10))
def exp_2(x):
    a, b = columns(x)
    t = 0.1 * np.arange(10)
    return squares(exp(-a * t) - 5 * exp(-b * t) - exp(-t) + 5 * exp(-10 * t))


@classic([(0, 20)] * 4, 0, (1, 10, 1, 5))
def exp_4(x):
    a, b, c, d = columns(x)
    t = 0.1 * np.arange(10)
    return squares(c * exp(-a * t) - d * exp(-b * t) - exp(-t) + 5 * exp(-10 * t))


@classic([(0, 20)] * 5, 0, (1, 10, 1, 5, 4))
def exp_5(x):
    a, b, c, d, e = columns(x)
    t = 0.1 * np.arange(11)
    y = exp(-t) - 5 * exp(-10 * t) + 3 * exp(-4 * t)
    return squares(c * exp(-a * t) - d * exp(-b * t) + 3 * exp(-e * t) - y)


@classic([(0, 20)] * 6, 0, (1, 10, 1, 5, 4, 3))
def exp_6(x):  # 18
    a, b, c, d, e, f = columns(x)
    t = 0.1 * np.arange(1, 14)
    y = exp(-t) - 5 * exp(-10 * t) + 3 * exp(-4 * t)
    return squares(c * exp(-a * t) - d * exp(-b * t) + f * exp(-e * t) - y)


@any_size((5,), (-4, 3), at=1.0)
def brown_almost_linear(x):  # 27
    n = x.shape[1]
    return ((x[:, :-1] + x.sum(axis=1, keepdims=True) - n - 1) ** 2).sum(axis=1) + (x.prod(axis=1) - 1) ** 2


def _beyond(x):
    """The neighbours of each unknown, zero beyond the ends."""
    padded = np.pad(x, ((0, 0), (1, 1)))
    return padded[:, :-2], padded[:, 2:]


@classic([(-2, 2.5)] * 5, 0, (-0.564828398615, -0.666273717805, -0.660917044437, -0.595050047380, -0.416201107738))
def broyden_tridiagonal(x):  # 30
    before, after = _beyond(x)
    return squares((3 - 2 * x) * x - before - 2 * after + 1)


@classic([(-2, 2.5)] * 4, 0, (-0.428302828015, -0.476592813514, -0.520142952642, -0.520142952642))
def broyden_banded(x):  # 31
    n = x.shape[1]
    i = np.arange(n)
    band = ((i[None] >= i[:, None] - 5) & (i[None] <= i[:, None] + 1) & (i[None] != i[:, None])).astype(float)
    return squares(x * (2 + 5 * x**2) + 1 - (x * (1 + x)) @ band.T)


def _chebyquad(x):  # 35
    n = x.shape[1]
    before, now = np.ones_like(x), 2 * x - 1
    total = np.zeros(len(x))
    for i in range(1, n + 1):
        wanted = -1 / (i**2 - 1) if i % 2 == 0 else 0.0
        total += (now.mean(axis=1) - wanted) ** 2
        before, now = now, 2 * (2 * x - 1) * now - before
    return total


@classic([(-0.2, 1.1)] * 5, 0, (0.08375126, 0.31272930, 0.5, 0.68727070, 0.91624874))
def chebyquad_5(x):
    return _chebyquad(x)


EIGHT = (0.04315276, 0.19309084, 0.26632871, 0.5, 0.5, 0.73367129, 0.80690916, 0.95684724)


@classic([(-0.2, 1.1)] * 8, 0.00351687372568195, EIGHT)
def chebyquad_8(x):
    return _chebyquad(x)


@classic([(1, 100)] * 4, 0, (60.137, 1.371, 3.112, 1.761))
def de_villiers_glasser_1(x):
    a, b, c, d = columns(x)
    t = 0.1 * np.arange(24)
    return squares(a * b**t * sin(c * t + d) - 60.137 * 1.371**t * sin(3.112 * t + 1.761))


@classic([(1, 100), (1, 3), (0, 10), (0, 10), (0, 2)], 0, (53.81, 1.27, 3.012, 2.13, 0.507))
def de_villiers_glasser_2(x):
    a, b, c, d, e = columns(x)
    t = 0.1 * np.arange(16)
    y = 53.81 * 1.27**t * np.tanh(3.012 * t + sin(2.13 * t)) * cos(t * exp(0.507))
    return squares(a * b**t * np.tanh(c * t + sin(d * t)) * cos(t * exp(e)) - y)


@classic([(0.1, 100), (0, 25.6), (0, 5)], 0, (50, 25, 1.5))
def gulf(x):  # 11
    a, b, c = columns(x)
    t = np.arange(1, 100) / 100
    u = 25 + (-50 * np.log(t)) ** (2 / 3)
    return squares(exp(-(np.abs(u - b) ** c) / a) - t)


@classic([(-10, 9), (-9, 10), (-10, 9)], 0, (1, 0, 0))
def helical_valley(x):  # 7
    a, b, c = x.T
    turn = np.arctan2(b, a) / (2 * pi)
    turn = np.where(turn < -0.25, turn + 1, turn)
    return 100 * ((c - 10 * turn) ** 2 + (np.hypot(a, b) - 1) ** 2) + c**2


HOUGEN = np.array(
    [
        [470, 285, 470, 470, 470, 100, 100, 470, 100, 100, 100, 285, 285],
        [300, 80, 300, 80, 80, 190, 80, 190, 300, 300, 80, 300, 190],
        [10, 10, 120, 120, 10, 10, 65, 65, 54, 120, 120, 10, 120],
        [8.55, 3.79, 4.82, 0.02, 2.75, 14.39, 2.54, 4.35, 13.00, 8.50, 0.05, 11.32, 3.13],
    ]
)


@classic(
    [(0.1, 10), (0, 1), (0, 1), (0, 1), (0.1, 10)],
    0.298900981,
    (1.25258532, 0.06277573, 0.04004769, 0.1124147, 1.1913748),
)
def hougen(x):
    a, b, c, d, e = columns(x)
    hydrogen, pentane, isopentane, rate = HOUGEN
    return squares((a * pentane - isopentane / e) / (1 + b * hydrogen + c * pentane + d * isopentane) - rate)


KOWALIK = np.array(
    [
        [0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246],
        [4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625],
    ]
)


@classic([(0, 0.42)] * 4, 0.000307505603849247, (0.19280693, 0.19128232, 0.12305651, 0.13606233))
def kowalik_osborne(x):  # 15
    a, b, c, d = columns(x)
    y, u = KOWALIK
    return squares(y - a * (u**2 + u * b) / (u**2 + u * c + d))


MEYER = np.array(
    [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872]
)


@classic([(0, 0.05), (1000, 10000), (100, 600)], 87.945855171, (0.005609636471, 6181.346346, 345.2236346))
def meyer(x):  # 10
    a, b, c = columns(x)
    return squares(a * exp(b / (45 + 5 * np.arange(1, 17) + c)) - MEYER)


@classic([(0, 10), (0, 30), (0, 3)], 4.3552661942e-05, (3.131505272, 15.15936211, 0.780062605))
def meyer_roth(x):
    a, b, c = columns(x)
    t, v = np.array([1, 2, 1, 2, 0.1]), np.array([1, 1, 2, 2, 0])
    return squares(a * c * t / (1 + a * t + b * v) - np.array([0.126, 0.219, 0.076, 0.126, 0.186]))


OSBORNE = np.array(
    [
        0.844,
        0.908,
        0.932,
        0.936,
        0.925,
        0.908,
        0.881,
        0.85,
        0.818,
        0.784,
        0.751,
        0.718,
        0.685,
        0.658,
        0.628,
        0.603,
        0.58,
        0.558,
        0.538,
        0.522,
        0.506,
        0.49,
        0.478,
        0.467,
        0.457,
        0.448,
        0.438,
        0.431,
        0.424,
        0.42,
        0.414,
        0.411,
        0.406,
    ]
)


@classic(
    [(0, 3), (0, 3), (-3, 0), (0, 3), (0, 3)],
    5.46489469748e-05,
    (0.37541005, 1.93584691, -1.46468714, 0.01286753, 0.02212270),
)
def osborne_1(x):  # 17
    a, b, c, d, e = columns(x)
    t = 10 * np.arange(33)
    return squares(a + b * exp(-d * t) + c * exp(-e * t) - OSBORNE)


@any_size((4,), (-1, 3), minimum=2.24997750087e-05, at=0.2500075)
def penalty_1(x):  # 23
    return 1e-5 * ((x - 1) ** 2).sum(axis=1) + ((x**2).sum(axis=1) - 0.25) ** 2


@classic([(-5, 4), (-4, 5), (-5, 4), (-4, 5)], 0, (0, 0, 0, 0))
def powell_singular(x):  # 13
    a, b, c, d = x.T
    return (a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4


TRANSISTOR = np.array(
    [
        [0.485, 0.752, 0.869, 0.982],
        [0.369, 1.254, 0.703, 1.455],
        [5.2095, 10.0677, 22.9274, 20.2153],
        [23.3037, 101.779, 111.461, 191.267],
        [28.5132, 111.8467, 134.3884, 211.4823],
    ]
)


TRANSISTOR_AT = (
    *(0.899999952617, 0.449987471982, 1.00000648247, 2.00006854162, 7.99997144051),
    *(7.99969268422, 5.00003127593, 0.999987723457, 2.00005248349),
)


@classic([(0, 10)] * 9, 0, TRANSISTOR_AT)
def price_transistor(x):
    a, b, c, d, e, f, g, h, i = columns(x)
    one, two, three, four, five = TRANSISTOR
    alpha = (1 - a * b) * c * (exp(e * (one - 1e-3 * (three * g + five * h))) - 1) - five + four * b
    beta = (1 - a * b) * d * (exp(f * (one - two - 1e-3 * (three * g - four * i))) - 1) - five * a + four
    return squares(a * c - b * d) + squares(alpha) + squares(beta)


@any_size((5,), (-1.3, 3.1), at=0.0)
def trigonometric(x):  # 26
    n = x.shape[1]
    rest = n - cos(x).sum(axis=1, keepdims=True)
    return squares(rest + np.arange(1, n + 1) * (1 - cos(x)) - sin(x))


@any_size((6,), (-4, 9), at=1.0)
def variably_dimensioned(x):  # 25
    u = ((x - 1) * np.arange(1, x.shape[1] + 1)).sum(axis=1)
    return ((x - 1) ** 2).sum(axis=1) + u**2 + u**4


@classic([(-5, 5)] * 6, 0.00228767005355, (-0.01572509, 1.01243487, -0.23299163, 1.26043009, -1.51372892, 0.99299643))
def watson(x):  # 20
    t = np.arange(1, 30)[:, None] / 29
    power = np.arange(6)
    value = x @ (t**power).T
    slope = x[:, 1:] @ (power[1:] * t ** power[:-1]).T
    return squares(slope - value**2 - 1) + x[:, 0] ** 2 + (x[:, 1] - x[:, 0] ** 2 - 1) ** 2


@classic([(-10, 10)] * 4, 0, (1, 1, 1, 1))
def wood(x):  # 14, also called Colville's
    a, b, c, d = x.T
    valleys = 100 * (b - a**2) ** 2 + (1 - a) ** 2 + 90 * (d - c**2) ** 2 + (1 - c) ** 2
    return valleys + 10 * (b + d - 2) ** 2 + (b - d) ** 2 / 10
