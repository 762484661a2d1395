"""Functions of three to ten unknowns with a fixed form: Hartmann, Shekel, clusters of atoms and others.

Sources: Dixon and Szegoe (1978), Jamil and Yang (2013), Ali, Khompatraporn and Zabinsky (2005), Mishra (2006), Storn
and Price (1997), Cambridge Cluster Database for the Lennard-Jones clusters.
"""

from __future__ import annotations

import numpy as np

from classics.problem import any_size, classic

cos, sin, exp, pi = np.cos, np.sin, np.exp, np.pi


@classic([(-450, 550), (-400, 600), (-600, 400), (-550, 450)], 0, (0, 0, 0, 0))
def corana(x):  # a bowl of terraces
    scale = np.array([1, 1000, 10, 100])
    step = 0.2 * np.floor(np.abs(x / 0.2) + 0.49999) * np.sign(x)
    flat = 0.15 * scale * (step - 0.05 * np.sign(step)) ** 2
    return np.where(np.abs(x - step) < 0.05, flat, scale * x**2).sum(axis=1)


HARTMANN_3 = np.array([(3, 10, 30), (0.1, 10, 35), (3, 10, 30), (0.1, 10, 35)])
HARTMANN_3_AT = 1e-4 * np.array([(3689, 1170, 2673), (4699, 4387, 7470), (1091, 8732, 5547), (381, 5743, 8828)])
HARTMANN_6 = np.array(
    [(10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14)]
)
HARTMANN_6_AT = 1e-4 * np.array(
    [
        (1312, 1696, 5569, 124, 8283, 5886),
        (2329, 4135, 8307, 3736, 1004, 9991),
        (2348, 1451, 3522, 2883, 3047, 6650),
        (4047, 8828, 8732, 5743, 1091, 381),
    ]
)


def _hartmann(x, scales, centres):
    return -(np.array([1, 1.2, 3, 3.2]) * exp(-(scales * (x[:, None] - centres) ** 2).sum(axis=2))).sum(axis=1)


@classic([(0, 1)] * 3, -3.86277978733, (0.11461429, 0.55564885, 0.85254695))
def hartmann_3(x):
    return _hartmann(x, HARTMANN_3, HARTMANN_3_AT)


@classic([(0, 1)] * 6, -3.32236801141551, (0.20168951, 0.15001069, 0.47687398, 0.27533243, 0.31165162, 0.65730053))
def hartmann_6(x):
    return _hartmann(x, HARTMANN_6, HARTMANN_6_AT)


TETRAHEDRON = (1, 0.5, 3**0.5 / 2, 0.5, 3**0.5 / 6, (2 / 3) ** 0.5)


def _cluster(x):
    """Energy of atoms: the first at the origin, the second on an axis, the third in a plane."""
    m, d = x.shape
    atoms = np.zeros((m, d // 3 + 2, 3))
    atoms[:, 1, 0] = x[:, 0]
    atoms[:, 2, :2] = x[:, 1:3]
    atoms[:, 3:] = x[:, 3:].reshape(m, -1, 3)
    i, j = np.triu_indices(atoms.shape[1], 1)
    sixth = ((atoms[:, i] - atoms[:, j]) ** 2).sum(axis=2) ** -3
    return (sixth**2 - 2 * sixth).sum(axis=1)


@classic([(0.1, 4), (-2, 3), (0, 3), (-2, 3), (-2, 3), (0, 3)], -6, TETRAHEDRON)
def lennard_jones_4(x):
    return _cluster(x)


FIVE_ATOMS = (
    *(1.00145352393, 0.500726760116, 0.867284192861, 0.500726760083, 0.289094730851),
    *(0.813335784177, 0.500726762507, 0.289094736436, -0.813335784629),
)


@classic(
    [(0.1, 4), (-2, 3), (0, 3), (-2, 3), (-2, 3), (0, 3), (-2, 3), (-2, 3), (-3, 2)], -9.10385241570756, FIVE_ATOMS
)
def lennard_jones_5(x):
    return _cluster(x)


@classic([(-1.3, 0.9), (-1, 2), (-1, 2), (-1, 2)], 0, (0, 1, 1, 1))
def miele_cantrell(x):
    a, b, c, d = x.T
    return (exp(-a) - b) ** 4 + 100 * (b - c) ** 6 + np.tan(c - d) ** 4 + a**8


@classic([(-10, 10)] * 3, 0, (1, 2, 3))
def mishra_9(x):
    a, b, c = x.T
    first = 2 * a**3 + 5 * a * b + 4 * c - 2 * a**2 * c - 18
    second = a + b**3 + a * b**2 + a * c**2 - 22
    third = 8 * a**2 + 2 * b * c + 2 * b**2 + 3 * b**3 - 52
    return (first * second**2 * third + first * second * third**2 + second**2 + (a + b - c) ** 2) ** 2


@classic([(2.001, 9.999)] * 10, -45.778469707, (9.35026583,) * 10)
def paviani(x):
    return (np.log(x - 2) ** 2 + np.log(10 - x) ** 2).sum(axis=1) - x.prod(axis=1) ** 0.2


@classic([(0, 4)] * 4, 0, (1, 2, 2, 3), (3, 2, 2, 1))
def power_sum(x):
    wanted = np.array([8, 18, 44, 114])
    return sum(((x ** (k + 1)).sum(axis=1) - wanted[k]) ** 2 for k in range(4))


SHEKEL = np.array(
    [
        (4, 4, 4, 4),
        (1, 1, 1, 1),
        (8, 8, 8, 8),
        (6, 6, 6, 6),
        (3, 7, 3, 7),
        (2, 9, 2, 9),
        (5, 5, 3, 3),
        (8, 1, 8, 1),
        (6, 2, 6, 2),
        (7, 3.6, 7, 3.6),
    ]
)
SHEKEL_WIDTHS = np.array([0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5])


def _shekel(x, n):
    return -(1 / (((x[:, None] - SHEKEL[:n]) ** 2).sum(axis=2) + SHEKEL_WIDTHS[:n])).sum(axis=1)


@classic([(0, 10)] * 4, -10.1531996790582, (4.00003715, 4.00013327, 4.00003715, 4.00013327))
def shekel_5(x):
    return _shekel(x, 5)


@classic([(0, 10)] * 4, -10.4029405668187, (4.00057291, 4.00068936, 3.99948971, 3.99960616))
def shekel_7(x):
    return _shekel(x, 7)


@classic([(0, 10)] * 4, -10.5364098166920, (4.00074653, 4.00059293, 3.99966340, 3.99950981))
def shekel_10(x):
    return _shekel(x, 10)


@classic([(-300, 256)] * 9, 0, (128, 0, -256, 0, 160, 0, -32, 0, 1))
def storn_chebyshev(x):
    power = np.arange(8, -1, -1)
    ends = np.minimum(x @ (np.array([1.2, -1.2])[:, None] ** power).T - np.cosh(8 * np.arccosh(1.2)), 0)
    inside = np.maximum(np.abs(x @ (np.linspace(-1, 1, 61)[:, None] ** power).T) - 1, 0)
    return (ends**2).sum(axis=1) + (inside**2).sum(axis=1)


def _parabola(d):
    i = np.arange(1, d + 1)
    return i * (d + 1 - i)


@any_size((6, 10), (-60, 100), minimum=lambda d: -d * (d + 4) * (d - 1) / 6, at=_parabola)
def trid(x):
    return ((x - 1) ** 2).sum(axis=1) - (x[:, 1:] * x[:, :-1]).sum(axis=1)
