"""Functions of two unknowns with one minimum or a few: bowls, valleys, plates.

Sources: Jamil and Yang (2013, arXiv:1308.4008), More, Garbow and Hillstrom (1981), Ali, Khompatraporn and Zabinsky
(2005), and the collections of Gavana and of Surjanovic and Bingham, with corrected minima.
"""

from __future__ import annotations

import numpy as np

from classics.problem import classic, off_centre

cos, sin, exp, pi = np.cos, np.sin, np.exp, np.pi


@classic([(-1, 2), (-1, 1)], -2.02180678335, (2, 0.105783472))
def adjiman(x):
    a, b = x.T
    return cos(a) * sin(b) - a / (b**2 + 1)


@classic([(-4.5, 4.5)] * 2, 0, (3, 0.5))
def beale(x):
    a, b = x.T
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


@classic([(-10, 10)] * 2, 0, (1, 3))
def booth(x):
    a, b = x.T
    return (a + 2 * b - 7) ** 2 + (2 * a + b - 5) ** 2


@classic([(-5, 10), (0, 15)], 0.397887357729739, (-pi, 12.275), (pi, 2.275), (3 * pi, 2.475))
def branin(x):
    a, b = x.T
    return (b - 5.1 / (4 * pi**2) * a**2 + 5 / pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * pi)) * cos(a) + 10


@classic([(-13, 8), (-15, 5)], 0, (-10, -10))
def brent(x):
    a, b = x.T
    return (a + 10) ** 2 + (b + 10) ** 2 + exp(-(a**2) - b**2)


@classic([(-5e5, 3e6), (-1, 2)], 0, (1e6, 2e-6))
def brown_badly_scaled(x):
    a, b = x.T
    return (a - 1e6) ** 2 + (b - 2e-6) ** 2 + (a * b - 2) ** 2


@classic([(-14, -5), (-3, 4)], 0, (-10, 0))
def bukin_2(x):  # with the square that the tables forget
    a, b = x.T
    return 100 * (b - 0.01 * a**2 + 1) ** 2 + 0.01 * (a + 10) ** 2


@classic([(-14, -5), (-3, 4)], 0, (-10, 0))
def bukin_4(x):
    a, b = x.T
    return 100 * b**2 + 0.01 * np.abs(a + 10)


@classic(off_centre(5, 2), 0, (0, 0))
def three_hump_camel(x):
    a, b = x.T
    return 2 * a**2 - 1.05 * a**4 + a**6 / 6 + a * b + b**2


@classic([(-3, 3), (-2, 2)], -1.03162845348988, (0.0898420131, -0.712656403), (-0.0898420131, 0.712656403))
def six_hump_camel(x):
    a, b = x.T
    return (4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2


@classic([(-2, 3)] * 2, 0, (1, 0), (-0.5, 0.8660254037844386), (-0.5, -0.8660254037844386))
def complex_roots(x):  # z^3 = 1
    a, b = x.T
    return (a**3 - 3 * a * b**2 - 1) ** 2 + (3 * b * a**2 - b**3) ** 2


@classic([(-10, 10)] * 2, 0, (1, 1))
def cube(x):
    a, b = x.T
    return 100 * (b - a**3) ** 2 + (1 - a) ** 2


@classic([(-15, 20), (-20, 25)], -24776.518342317686, (0, 14.9451209), (0, -14.9451209))
def deckkers_aarts(x):
    a, b = x.T
    r = a**2 + b**2
    return 1e5 * a**2 + b**2 - r**2 + 1e-5 * r**4


@classic([(-100, 60), (-60, 100)], 1.71278035486219, (3.40918683, -2.17143304))
def el_attar_vidyasagar_dutta(x):
    a, b = x.T
    return (a**2 + b - 10) ** 2 + (a + b**2 - 7) ** 2 + (a**2 + b**3 - 1) ** 2


@classic([(-10, 9), (-8, 10)], 0, (1, 0))
def engvall(x):
    a, b = x.T
    return a**4 + b**4 + 2 * a**2 * b**2 - 4 * a + 3


@classic([(-10, 10)] * 2, 0, (5, 4))
def freudenstein_roth(x):
    a, b = x.T
    return (a - 13 + ((5 - b) * b - 2) * b) ** 2 + (a - 29 + ((b + 1) * b - 14) * b) ** 2


@classic([(-1, 1)] * 2, 0.0644704205369057, (0.467320028, 0.467320028))
def giunta(x):
    u = 16 / 15 * x - 1
    return 0.6 + (sin(u) + sin(u) ** 2 + sin(4 * u) / 50).sum(axis=1)


@classic([(-2, 2)] * 2, 3, (0, -1))
def goldstein_price(x):
    a, b = x.T
    one = 1 + (a + b + 1) ** 2 * (19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2)
    return one * (30 + (2 * a - 3 * b) ** 2 * (18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2))


@classic([(-2, 6)] * 2, -0.428881942480353, (-0.7071067811865476, 0))
def gramacy_lee(x):
    a, b = x.T
    return a * exp(-(a**2) - b**2)


@classic(
    [(-5, 5)] * 2,
    0,
    (3, 2),
    (-2.805118086952745, 3.131312518250573),
    (-3.779310253377747, -3.283185991286170),
    (3.584428340330492, -1.848126526964404),
)
def himmelblau(x):
    a, b = x.T
    return (a**2 + b - 11) ** 2 + (a + b**2 - 7) ** 2


@classic([(0, 5), (0, 6)], -2.34581157610129, (4, 2))
def hosaki(x):
    a, b = x.T
    return (1 - 8 * a + 7 * a**2 - 7 / 3 * a**3 + a**4 / 4) * b**2 * exp(-b)


@classic([(-1, 1)] * 2, 124.362182355616, (0.257825213, 0.257825213))
def jennrich_sampson(x):
    i = np.arange(1, 11)
    a, b = x.T[:, :, None]
    return ((2 + 2 * i - exp(i * a) - exp(i * b)) ** 2).sum(axis=1)


JUDGE = np.array(
    [
        [
            4.284,
            4.149,
            3.877,
            0.533,
            2.211,
            2.389,
            2.145,
            3.231,
            1.998,
            1.379,
            2.106,
            1.428,
            1.011,
            2.179,
            2.858,
            1.388,
            1.651,
            1.593,
            1.046,
            2.152,
        ],
        [
            0.286,
            0.973,
            0.384,
            0.276,
            0.973,
            0.543,
            0.957,
            0.948,
            0.543,
            0.797,
            0.936,
            0.889,
            0.006,
            0.828,
            0.399,
            0.617,
            0.939,
            0.784,
            0.072,
            0.889,
        ],
        [
            0.645,
            0.585,
            0.31,
            0.058,
            0.455,
            0.779,
            0.259,
            0.202,
            0.028,
            0.099,
            0.142,
            0.296,
            0.175,
            0.18,
            0.842,
            0.039,
            0.103,
            0.62,
            0.158,
            0.704,
        ],
    ]
)


@classic([(-10, 10)] * 2, 16.0817301329604, (0.864787293, 1.235748322))
def judge(x):
    y, first, second = JUDGE
    a, b = x.T[:, :, None]
    return ((a + b * first + b**2 * second - y) ** 2).sum(axis=1)


@classic(off_centre(10, 2), 0, (0, 0))
def matyas(x):
    a, b = x.T
    return 0.26 * (a**2 + b**2) - 0.48 * a * b


@classic([(-1.5, 4), (-3, 3)], -1.91322295498104, (-0.5471975512, -1.5471975512))
def mccormick(x):
    a, b = x.T
    return sin(a + b) + (a - b) ** 2 - 1.5 * a + 2.5 * b + 1


@classic([(-1, 10)] * 2, 0, (1.098159329699759e-05, 9.106146739866537))
def powell_badly_scaled(x):
    a, b = x.T
    return (1e4 * a * b - 1) ** 2 + (exp(-a) + exp(-b) - 1.0001) ** 2


@classic([(-50, 50)] * 2, 0, (5, 5), (5, -5), (-5, 5), (-5, -5))
def price_1(x):
    return ((np.abs(x) - 5) ** 2).sum(axis=1)


@classic([(-50, 30), (-30, 50)], 0, (1, 1), (0.341307503353524, 0.116490811845416))
def price_3(x):
    a, b = x.T
    return 100 * (b - a**2) ** 2 + (6.4 * (b - 0.5) ** 2 - a - 0.6) ** 2


@classic(off_centre(50, 2), 0, (0, 0), (2, 4), (1.46435211966, -2.50601276078))
def price_4(x):
    a, b = x.T
    return (2 * a**3 * b - b**3) ** 2 + (6 * a - b**2 + b) ** 2


@classic([(-10, 10)] * 2, -3873.72418218627, (0.193880172, 0.485133920))
def quadratic(x):
    a, b = x.T
    return -3803.84 - 138.08 * a - 232.92 * b + 128.08 * a**2 + 203.64 * b**2 + 182.25 * a * b


@classic([(-2, 2)] * 2, 34.0402431066405, (-0.90955374, -0.95057172))
def rosenbrock_modified(x):
    a, b = x.T
    hole = exp(-((a + 1) ** 2 + (b + 1) ** 2) / 0.1)
    return 74 + 100 * (b - a**2) ** 2 + (1 - a) ** 2 - 400 * hole


@classic(off_centre(500, 2), 0, (0, 0))
def rotated_ellipse(x):
    a, b = x.T
    return 7 * a**2 - 6 * 3**0.5 * a * b + 13 * b**2


@classic([(0, 500)] * 2, -3456, (12, 12))
def schwefel_2_36(x):
    a, b = x.T
    return -a * b * (72 - 2 * a - 2 * b)


@classic([(-100, 60), (-60, 100)], 0, (1, 3))
def schwefel_2_6(x):
    a, b = x.T
    return np.maximum(np.abs(a + 2 * b - 7), np.abs(2 * a + b - 5))


@classic([(-1.7, 4), (-1.2, 4)], 0, (0, 0), (1.695415196279268, 0.7186082171943616))
def stenger(x):
    a, b = x.T
    return (a**2 - 4 * b) ** 2 + (b**2 - 2 * a + 4 * b) ** 2


@classic([(-5, 4), (-4, 5)], 0, (0, 0), (-2, 0))
def trecanni(x):
    a, b = x.T
    return a**4 + 4 * a**3 + 4 * a**2 + b**2


@classic([(-2.5, 3), (-2, 1.5)], -4.81681406373427, (1.697136443, 0))
def ursem_1(x):
    a, b = x.T
    return -sin(2 * a - 0.5 * pi) - 3 * cos(b) - 0.5 * a


@classic([(-5, 5)] * 2, 0, (1, 2), (1.596804153876933, 0.806391692246134))
def wayburn_seader_1(x):
    a, b = x.T
    return (a**6 + b**4 - 17) ** 2 + (2 * a + b - 4) ** 2


@classic([(-500, 300), (-300, 500)], 0, (0.200138974728779, 1), (0.424861025271221, 1))
def wayburn_seader_2(x):
    a, b = x.T
    return (1.613 - 4 * (a - 0.3125) ** 2 - 4 * (b - 1.625) ** 2) ** 2 + (b - 1) ** 2


@classic([(-500, 300), (-300, 500)], 19.1058797945680, (5.146896745324582, 6.839589743000071))
def wayburn_seader_3(x):
    a, b = x.T
    return 2 / 3 * a**3 - 8 * a**2 + 33 * a - a * b + 5 + ((a - 4) ** 2 + (b - 5) ** 2 - 4) ** 2


@classic([(-1, 5)] * 2, -0.00379123722046866, (-0.0298959776, 0))
def zettl(x):
    a, b = x.T
    return a / 4 + (a**2 - 2 * a + b**2) ** 2


@classic([(-10, 10), (-8, 10)], -0.352386073800036, (-1.046680576580755, 0))
def zirilli(x):
    a, b = x.T
    return a**4 / 4 - a**2 / 2 + a / 10 + b**2 / 2


@classic([(0, 100)] * 2, 0, (7, 2))
def zimmerman(x):  # the penalties make cliffs next to the minimum
    a, b = x.T
    beyond = np.array([(a - 3) ** 2 + (b - 2) ** 2 - 16, a * b - 14])
    return np.maximum(9 - a - b, np.where(beyond > 0, 100 * (1 + beyond), -np.inf).max(axis=0))
