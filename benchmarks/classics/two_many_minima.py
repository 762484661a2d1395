"""Functions of two unknowns with many minima.

Sources: Jamil and Yang (2013, arXiv:1308.4008), Ali, Khompatraporn and Zabinsky (2005), Mishra (2006), Trefethen's
hundred-dollar challenge (2002), and the collections of Gavana and of Surjanovic and Bingham, with corrected minima.

Left out: Bukin's sixth function, cross-leg table, crown cross, and Mishra's third and fourth, whose minima lie in
cracks so narrow that the target needs about as many digits as numbers have.
"""

from __future__ import annotations

import numpy as np

from classics.problem import classic, off_centre

cos, sin, exp, pi, sqrt = np.cos, np.sin, np.exp, np.pi, np.sqrt


def radius(x):
    return sqrt((x**2).sum(axis=1))


@classic(off_centre(32, 2), -200, (0, 0))
def ackley_2(x):
    return -200 * exp(-0.02 * radius(x))


@classic([(-32, 20), (-20, 32)], -195.629028238419, (0.68258459, -0.36075326), (-0.68258459, -0.36075326))
def ackley_3(x):
    a, b = x.T
    return -200 * exp(-0.02 * radius(x)) + 5 * exp(cos(3 * a) + sin(3 * b))


@classic(off_centre(500, 2), 1, (0, 0))
def bartels_conn(x):
    a, b = x.T
    return np.abs(a**2 + b**2 + a * b) + np.abs(sin(a)) + np.abs(cos(b))


@classic([(-2 * pi, 2 * pi)] * 2, -106.764536749265, (4.70104313, 3.15293848), (-1.58214217, -3.13024680))
def bird(x):
    a, b = x.T
    return sin(a) * exp((1 - cos(b)) ** 2) + cos(b) * exp((1 - sin(a)) ** 2) + (a - b) ** 2


@classic(off_centre(100, 2), 0, (0, 0))
def bohachevsky_1(x):
    a, b = x.T
    return a**2 + 2 * b**2 - 0.3 * cos(3 * pi * a) - 0.4 * cos(4 * pi * b) + 0.7


@classic(off_centre(100, 2), 0, (0, 0))
def bohachevsky_2(x):
    a, b = x.T
    return a**2 + 2 * b**2 - 0.3 * cos(3 * pi * a) * cos(4 * pi * b) + 0.3


@classic(off_centre(100, 2), 0, (0, 0))
def bohachevsky_3(x):
    a, b = x.T
    return a**2 + 2 * b**2 - 0.3 * cos(3 * pi * a + 4 * pi * b) + 0.3


@classic([(-5, 15)] * 2, 5.55891440389382, (-3.19698842, 12.52625788))
def branin_2(x):
    a, b = x.T
    valley = (-1.275 * a**2 / pi**2 + 5 * a / pi + b - 6) ** 2
    return valley + (10 - 5 / (4 * pi)) * cos(a) * cos(b) + np.log(a**2 + b**2 + 1) + 10


@classic([(-10, 10)] * 2, -24.1568155473913, (9.64615727, 9.64615727), (-9.64615727, 9.64615727))
def carrom_table(x):
    a, b = x.T
    return -((cos(a) * cos(b) * exp(np.abs(1 - radius(x) / pi))) ** 2) / 30


@classic([(-30, 30)] * 2, -42.9443870189910, (6.18986659, 0.5))
def chichinadze(x):
    a, b = x.T
    waves = 10 * cos(pi * a / 2) + 8 * sin(5 * pi * a / 2)
    return a**2 - 12 * a + 11 + waves - 0.2**0.5 * exp(-0.5 * (b - 0.5) ** 2)


@classic([(-10, 10)] * 2, -2.06261187082274, (1.34940661, 1.34940661), (-1.34940661, 1.34940661))
def cross_in_tray(x):
    a, b = x.T
    return -1e-4 * (np.abs(sin(a) * sin(b) * exp(np.abs(100 - radius(x) / pi))) + 1) ** 0.1


@classic([(0, 14)] * 2, 0, (2, 2))
def damavandi(x):  # a narrow hole away from a wide valley
    a, b = x.T
    hole = 1 - np.abs(np.sinc(a - 2) * np.sinc(b - 2)) ** 5
    return hole * (2 + (a - 7) ** 2 + 2 * (b - 7) ** 2)


@classic(off_centre(5.12, 2), -1, (0, 0))
def drop_wave(x):
    r = radius(x)
    return -(1 + cos(12 * r)) / (0.5 * r**2 + 2)


@classic([(-60, 100), (-100, 60)], -1, (pi, pi))
def easom(x):
    a, b = x.T
    return -cos(a) * cos(b) * exp(-((a - pi) ** 2) - (b - pi) ** 2)


@classic(off_centre(5, 2), 0, (0, 0))
def egg_crate(x):
    return (x**2 + 25 * sin(x) ** 2).sum(axis=1)


@classic([(-512, 512)] * 2, -959.640662720851, (512, 404.2318058008512))
def egg_holder(x):
    a, b = x.T
    return -(b + 47) * sin(sqrt(np.abs(b + a / 2 + 47))) - a * sin(sqrt(np.abs(a - b - 47)))


FOXHOLES = np.array([(a, b) for b in range(-32, 33, 16) for a in range(-32, 33, 16)])


@classic([(-65.536, 65.536)] * 2, 0.998003837794450, (-31.97833, -31.97833))
def foxholes(x):
    wells = np.arange(1, 26) + ((x[:, None] - FOXHOLES) ** 6).sum(axis=2)
    return 1 / (0.002 + (1 / wells).sum(axis=1))


@classic([(-10, 10)] * 2, -176.541793136746, (-1.30670769, -1.42512843), (4.97647761, 4.85805688))
def hansen(x):
    i = np.arange(5)
    a, b = x.T[:, :, None]
    return ((i + 1) * cos(i * a + i + 1)).sum(axis=1) * ((i + 1) * cos((i + 2) * b + i + 1)).sum(axis=1)


@classic([(-10, 10)] * 2, -19.2085025678867, (8.05502348, 9.66459003), (-8.05502348, 9.66459003))
def holder_table(x):
    a, b = x.T
    return -np.abs(sin(a) * cos(b) * exp(np.abs(1 - radius(x) / pi)))


@classic([(0, 10)] * 2, -0.673667521146855, (1.39324907, 0), (0, 1.39324907))
def keane(x):
    a, b = x.T
    return -(sin(a - b) ** 2) * sin(a + b) ** 2 / np.maximum(radius(x), 1e-300)


LANGERMANN = np.array([(3, 5), (5, 2), (2, 1), (1, 4), (7, 9)])


@classic([(0, 10)] * 2, -5.16212615997632, (2.00299219, 1.00609594))
def langermann(x):
    squares = ((x[:, None] - LANGERMANN) ** 2).sum(axis=2)
    return -(np.array([1, 2, 5, 2, 3]) * exp(-squares / pi) * cos(pi * squares)).sum(axis=1)


@classic([(-10, 10)] * 2, -176.137578045105, (-1.30685302, -1.42484500))
def levy_5(x):
    i = np.arange(1, 6)
    a, b = x.T
    first = (i * cos((i - 1) * a[:, None] + i)).sum(axis=1)
    second = (i * cos((i + 1) * b[:, None] + i)).sum(axis=1)
    return first * second + (a + 1.42513) ** 2 + (b + 0.80032) ** 2


@classic([(-10, 10)] * 2, 0, (1, 1))
def levy_13(x):
    a, b = x.T
    ripples = (a - 1) ** 2 * (1 + sin(3 * pi * b) ** 2) + (b - 1) ** 2 * (1 + sin(2 * pi * b) ** 2)
    return sin(3 * pi * a) ** 2 + ripples


@classic([(-10, 10)] * 2, -1.01982951993065, (-1.98682, -10))
def mishra_5(x):
    a, b = x.T
    waves = sin((cos(a) + cos(b)) ** 2) ** 2 + cos((sin(a) + sin(b)) ** 2) ** 2
    return (waves + a) ** 2 + 0.01 * a + 0.1 * b


@classic([(-10, 10)] * 2, -2.28394983847476, (2.88630722, 1.82326033))
def mishra_6(x):
    a, b = x.T
    waves = sin((cos(a) + cos(b)) ** 2) ** 2 - cos((sin(a) + sin(b)) ** 2) ** 2
    return -np.log((waves + a) ** 2) + 0.1 * ((a - 1) ** 2 + (b - 1) ** 2)


@classic([(-10, 10)] * 2, 0, (2, -3))
def mishra_8(x):
    a, b = x.T
    first = np.polyval([1, -20, 180, -960, 3360, -8064, 13340, -15360, 11520, -5120, 2624], a)
    second = np.polyval([1, 12, 54, 108, 81], b)
    return 0.001 * (np.abs(first) + np.abs(second)) ** 2


MULTI_GAUSSIAN = np.array([(0.5, 0, 0, 0.1), (1.2, 1, 0, 0.5), (1, 0, -0.5, 0.5), (1, -0.5, 0, 0.5), (1.2, 0, 1, 0.5)])


@classic([(-2, 1.5), (-1.5, 2)], -1.29695404595378, (-0.0135406647, -0.0135406646))
def multi_gaussian(x):
    height, a, b, width = MULTI_GAUSSIAN.T
    squares = (x[:, :1] - a) ** 2 + (x[:, 1:] - b) ** 2
    return -(height * exp(-squares / width**2)).sum(axis=1)


@classic([(-4, 6)] * 2, 0, (pi / 2, 0), (-pi / 2, 0), (pi / 2, pi))
def parsopoulos(x):
    a, b = x.T
    return cos(a) ** 2 + sin(b) ** 2


@classic([(-3, 3)] * 2, -6.55113333283584, (0.22827892, -1.62553496))
def peaks(x):
    a, b = x.T
    hills = 3 * (1 - a) ** 2 * exp(-(a**2) - (b + 1) ** 2) - exp(-((a + 1) ** 2) - b**2) / 3
    return hills - 10 * (a / 5 - a**3 - b**5) * exp(-(a**2) - b**2)


@classic([(-11, 11)] * 2, -0.963534832726506, (9.64616767, 9.64616767), (-9.64616767, 9.64616767))
def pen_holder(x):
    a, b = x.T
    return -exp(-1 / np.abs(cos(a) * cos(b) * exp(np.abs(1 - radius(x) / pi))))


@classic(off_centre(10, 2), 0.9, (0, 0))
def periodic(x):
    return 1 + (sin(x) ** 2).sum(axis=1) - 0.1 * exp(-(x**2).sum(axis=1))


@classic([(0, 1)] * 2, -2.2, (0.1, 0.1))
def ripple_1(x):
    hump = exp(-2 * np.log(2) * ((x - 0.1) / 0.8) ** 2)
    return -(hump * (sin(5 * pi * x) ** 6 + 0.1 * cos(500 * pi * x) ** 2)).sum(axis=1)


@classic([(0, 1)] * 2, -2, (0.1, 0.1))
def ripple_25(x):
    return -(exp(-2 * np.log(2) * ((x - 0.1) / 0.8) ** 2) * sin(5 * pi * x) ** 6).sum(axis=1)


@classic(off_centre(20, 2), 0, (0, 0))
def sawtooth(x):
    a, b = x.T
    r, angle = radius(x), np.arctan2(b, a)
    teeth = sin(r) - sin(2 * r) / 2 + sin(3 * r) / 3 - sin(4 * r) / 4 + 4
    return teeth * r**2 / (r + 1) * (0.5 * cos(2 * angle - 0.5) + cos(angle) + 2)


@classic(off_centre(100, 2), 0, (0, 0))
def schaffer_1(x):
    squares = (x**2).sum(axis=1)
    return 0.5 + (sin(squares) ** 2 - 0.5) / (1 + 0.001 * squares) ** 2


@classic(off_centre(100, 2), 0, (0, 0))
def schaffer_6(x):
    squares = (x**2).sum(axis=1)
    return 0.5 + (sin(sqrt(squares)) ** 2 - 0.5) / (1 + 0.001 * squares) ** 2


@classic([(-100, 80), (-70, 100)], 0.292578632035980, (0, 1.25313183), (0, -1.25313183))
def schaffer_4(x):
    a, b = x.T
    return 0.5 + (cos(sin(np.abs(a**2 - b**2))) ** 2 - 0.5) / (1 + 0.001 * (a**2 + b**2)) ** 2


@classic([(-10, 10)] * 2, -186.730908831024, (-7.08350641, 4.85805688), (-1.42512843, -0.80032110))
def shubert(x):
    i = np.arange(1, 6)
    return (i * cos((i + 1) * x[:, :, None] + i)).sum(axis=2).prod(axis=1)


@classic([(-10, 10)] * 2, -29.6759000514212, (-7.397284998, -7.397284998))
def shubert_3(x):
    i = np.arange(1, 6)
    return (i * sin((i + 1) * x[:, :, None] + i)).sum(axis=(1, 2))


@classic([(-10, 8), (-8, 10)], -10.8723001056227, (1.570602616, 0), (-1.570602616, 0))
def test_tube_holder(x):
    a, b = x.T
    return -4 * np.abs(sin(a) * cos(b) * exp(np.abs(cos((a**2 + b**2) / 200))))


@classic([(-6.5, 5), (-5, 6.5)], -3.30686864747524, (-0.02440308, 0.21061243))
def trefethen(x):
    a, b = x.T
    waves = exp(sin(50 * a)) + sin(60 * exp(b)) + sin(70 * sin(a)) + sin(sin(80 * b)) - sin(10 * (a + b))
    return waves + (a**2 + b**2) / 4


@classic([(-100, 80), (-100, 100)], 0, (0, -50))
def tripod(x):
    a, b = x.T
    right, up = (a >= 0).astype(float), (b >= 0).astype(float)
    return up * (1 + right) + np.abs(a + 50 * up * (1 - 2 * right)) + np.abs(b + 50 * (1 - 2 * up))


@classic([(-2, 1.6), (-1.5, 1.1)], -3, (0, 0))
def ursem_3(x):
    a, b = x.T
    first = -sin(2.2 * pi * a + 0.5 * pi) * (2 - np.abs(a)) / 2 * (3 - np.abs(a)) / 2
    return first - sin(2.2 * pi * b + 0.5 * pi) * (2 - np.abs(b)) / 2 * (3 - np.abs(b)) / 2


@classic([(-0.9, 1.2), (-1.2, 1.2)], -8.5536, (1.2, 1.2))
def ursem_waves(x):
    a, b = x.T
    return -0.9 * a**2 + (b**2 - 4.5 * b**2) * a * b + 4.7 * cos(3 * a - b**2 * (2 + a)) * sin(2.5 * pi * a)


@classic(off_centre(50, 2), -400, (0, 0))
def venter_sobiezcczanski(x):
    waves = 100 * cos(x) ** 2 + 100 * cos(x**2 / 30)
    return (x**2 - waves).sum(axis=1)
