"""Seventeen calibrations of differential equations: a part of the set ``ode`` of `fit.py`.

Three have real data; the others have data that the model has made, with normal noise. Boxes have two to four decades,
searched by logarithm, where the unknowns are rates or sizes. Up to a quarter of a box fails.
"""

from __future__ import annotations

import numpy as np
from calibrations import HARES, IN_BED, LYNXES
from fit_problem import Problem, made
from fit_solvers import njit, rk4


@njit
def _sir(t, s, p):
    new = p[0] * s[0] * s[1] / 763
    return np.array([-new, new - p[1] * s[1]])


@njit(cache=True)
def epidemic(p):
    """Boys in bed: contact and recovery."""
    return rk4(_sir, np.array([762.0, 1.0]), p, 1 / 24, 24, 14)[1:, 1]


@njit(cache=True)
def epidemic_from(p):
    """Boys in bed: contact, recovery and the first number of infected."""
    return rk4(_sir, np.array([763 - p[2], p[2]]), p, 0.25, 4, 13)[:, 1]


@njit
def _predators(t, s, p):
    return np.array([p[0] - p[1] * np.exp(s[1]), p[3] * np.exp(s[0]) - p[2]])


@njit(cache=True)
def lotka(p):
    """Logarithms of hares and lynxes: four rates and two first numbers."""
    states = rk4(_predators, np.log(p[4:]), p, 0.25, 4, 20)
    return np.concatenate((states[:, 0], states[:, 1]))


@njit
def _nerve(t, s, p):
    return np.array([p[2] * (s[0] - s[0] ** 3 / 3 + s[1]), -(s[0] - p[0] + p[1] * s[1]) / p[2]])


@njit(cache=True)
def nerve(p):
    """FitzHugh and Nagumo's nerve: three parameters and two first values."""
    return rk4(_nerve, p[3:].copy(), p, 0.1, 5, 40)[1:].ravel()


@njit
def _bouc_wen(t, s, p):
    stiffness, damping, share, a, beta, gamma = p
    x, v, z = s
    push = 2.0 * np.sin(1.2 * t) + 1.0 * np.sin(0.37 * t)
    dz = a * v - beta * abs(v) * abs(z) ** 0.5 * z - gamma * v * abs(z) ** 1.5
    return np.array([v, push - damping * v - share * stiffness * x - (1 - share) * stiffness * z, dz])


@njit(cache=True)
def bouc_wen(p):
    """Bouc and Wen's oscillator with hysteresis: stiffness, damping and the loop's shape."""
    return rk4(_bouc_wen, np.zeros(3), p, 0.1, 4, 60)[1:, 0]


@njit
def _enzymes(t, s, p):
    one, two = p[0] * s[0] / (p[1] + s[0]), p[2] * s[1] / (p[3] + s[1])
    return np.array([-one, one - two, two])


@njit(cache=True)
def enzymes(p):
    """Two enzymes after Michaelis and Menten, one after the other."""
    return rk4(_enzymes, np.array([2.0, 0.0, 0.0]), p, 0.1, 10, 15)[1:, 1:].copy().ravel()


_BLOOD = np.array([1, 2, 4, 6, 9, 13, 18, 26, 36, 50, 70, 96])  # quarters of an hour


@njit
def _drug(t, s, p):
    one, two = s[1] / p[2], s[2] / p[4]
    return np.array([-p[0] * s[0], p[0] * s[0] - p[1] * one - p[3] * (one - two), p[3] * (one - two)])


@njit(cache=True)
def drug(p):
    """A drug in two compartments, logarithms in blood: absorption, clearance, volumes and exchange."""
    amounts = rk4(_drug, np.array([100.0, 0.0, 0.0]), p, 0.125, 2, 96)[:, 1]
    return np.log(np.maximum(amounts[_BLOOD] / p[2], 1e-12))


@njit
def _duffing(t, s, p):
    return np.array([s[1], p[3] * np.cos(p[4] * t) - p[0] * s[1] - p[1] * s[0] - p[2] * s[0] ** 3])


@njit(cache=True)
def duffing(p, n):
    """A driven spring that hardens: damping, stiffness, hardening, force and frequency."""
    return rk4(_duffing, np.array([1.0, 0.0]), p, 0.1, 4, n)[1:, 0]


@njit
def _goodwin(t, s, p):
    made = p[0] / (1 + (abs(s[2]) / p[6]) ** 10)
    return np.array([made - p[1] * s[0], p[2] * s[0] - p[3] * s[1], p[4] * s[1] - p[5] * s[2]])


@njit(cache=True)
def goodwin(p):
    """Goodwin's gene that represses itself: three rates of making, three of decay, one threshold."""
    return rk4(_goodwin, np.array([0.1, 0.1, 0.5]), p, 0.1, 10, 60)[1:, ::2].copy().ravel()


@njit
def _house(t, s, p):
    outside = 5 + 5 * np.sin(2 * np.pi * t / 24)
    heating = p[5] * (1.0 if 8 < t % 24 < 18 else 0.0)
    sun = max(0.0, np.sin(2 * np.pi * (t - 6) / 24)) * p[6]
    room = ((s[1] - s[0]) / p[0] + (outside - s[0]) / p[2] + heating) / p[3]
    return np.array([room, ((s[0] - s[1]) / p[0] + (outside - s[1]) / p[1] + sun) / p[4]])


@njit(cache=True)
def house(p):
    """A heated room with a wall: three resistances, two capacities, two gains."""
    return rk4(_house, np.array([18.0, 15.0]), p, 0.25, 4, 72)[1:, 0]


@njit
def _monod(t, s, p):
    food = max(s[1], 0.0)
    growth = p[0] * food / (p[1] + food)
    return np.array([(growth - p[3]) * s[0], -growth * s[0] / p[2]])


@njit(cache=True)
def monod(p):
    """Microbes that grow after Monod: rate, saturation, yield, death and the first mass."""
    return rk4(_monod, np.array([p[4], 20.0]), p, 0.05, 10, 24)[1:].copy().ravel()


@njit
def _brusselator(t, s, p):
    loop = p[3] * s[0] ** 2 * s[1]
    return np.array([p[0] - (p[1] + 1) * s[0] * p[2] + loop, p[1] * s[0] * p[2] - loop])


@njit(cache=True)
def brusselator(p):
    """The Brusselator, a reaction that oscillates: four rates."""
    return rk4(_brusselator, np.array([1.0, 1.0]), p, 0.05, 10, 40)[1:].copy().ravel()


@njit
def _arrhenius(t, s, p):
    inverse = 1 / (300 + 10.0 * t) - 1 / 350
    one, two = p[0] * np.exp(-p[1] * 1e3 / 8.314 * inverse), p[2] * np.exp(-p[3] * 1e3 / 8.314 * inverse)
    return np.array([-one * s[0], one * s[0] - two * s[1]])


@njit(cache=True)
def arrhenius(p):
    """Two reactions one after the other while it gets warmer: rates at 350 K and energies."""
    return rk4(_arrhenius, np.array([1.0, 0.0]), p, 0.1, 5, 20)[1:].copy().ravel()


@njit
def _lorenz(t, s, p):
    return np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])


@njit(cache=True)
def lorenz(p, n):
    """Lorenz's weather, two of its three states: three parameters."""
    return rk4(_lorenz, np.array([1.0, 1.0, 20.0]), p, 0.01, 10, n)[1:, ::2].copy().ravel()


@njit
def _van_der_pol(t, s, p):
    return np.array([s[1], p[0] * (1 - p[1] * s[0] ** 2) * s[1] - p[2] * s[0]])


@njit(cache=True)
def van_der_pol(p):
    """Van der Pol's oscillator: three parameters and two first values."""
    return rk4(_van_der_pol, p[3:].copy(), p, 0.05, 8, 50)[1:, 0]


@njit
def _seir(t, s, p):
    new = p[0] * s[0] * s[2]
    return np.array([-new, new - p[1] * s[1], p[1] * s[1] - p[2] * s[2]])


@njit(cache=True)
def seir(p):
    """Reported cases of an infection with a time before it shows: three rates, the share reported, the first cases."""
    return 5e4 * p[3] * rk4(_seir, np.array([1 - p[4], 0.0, p[4]]), p, 0.25, 8, 40)[1:, 2]


@njit
def _repressilator(t, s, p):
    a, b, c = p[0] / (1 + np.abs(s) ** p[1])
    return np.array([c, a, b]) + p[2] - p[3] * s


@njit(cache=True)
def repressilator(p):
    """Three genes that repress each other: strength, steepness, leak and decay."""
    return rk4(_repressilator, np.array([1.0, 2.0, 3.0]), p, 0.05, 10, 40)[1:, :2].copy().ravel()


def calibrations():
    """The problems; half of them are held out."""
    logs = np.log(np.concatenate([HARES, LYNXES]))
    return [
        Problem("ode", "sir2", lambda p: epidemic(p) - IN_BED, [(1e-6, 20), (1e-6, 5)], held_out=False),
        Problem("ode", "sir3", lambda p: epidemic_from(p) - IN_BED, [(0.01, 100), (0.01, 10), (0.01, 100)], True,
                held_out=True),
        Problem("ode", "lotka", lambda p: lotka(p) - logs, [(0.01, 10), (0.001, 1)] * 2 + [(1, 100)] * 2, True,
                held_out=False),
        _made("nerve", nerve, (0.2, 0.2, 3, -1, 1), 0.1, 32,
              [(-1, 2), (-1, 2), (0.5, 6), (-3, 3), (-3, 3)], False, held_out=True),
        _made("boucwen", bouc_wen, (2, 0.15, 0.2, 1, 0.8, 0.4), 0.03, 1,
              [(0.1, 100), (0.01, 10), (0.001, 1), (0.1, 10), (0.01, 10), (0.01, 10)], held_out=False),
        _made("mm2", enzymes, (0.5, 0.4, 0.3, 0.15), 0.02, 2, [(0.01, 10), (0.01, 100)] * 2, held_out=False),
        _made("pk2", drug, (1.2, 3, 12, 4, 30), 0.1, 3,
              [(0.05, 20), (0.1, 100), (1, 300), (0.1, 100), (1, 300)], held_out=True),
        _made("duffing", lambda p: duffing(p, 40), (0.2, 1, 0.8, 0.6, 1.3), 0.05, 31,
              [(0, 2), (-2, 5), (-1, 5), (0, 3), (0.2, 4)], False, held_out=False),
        _made("goodwin", goodwin, (1, 0.12, 1, 0.12, 0.5, 0.12, 1.5), 0.3, 5,
              [(0.1, 10), (0.01, 1)] * 3 + [(0.1, 10)], held_out=True),
        _made("thermal", house, (1.5, 4, 8, 2, 12, 2, 3), 0.1, 6,
              [(0.1, 100)] * 3 + [(0.1, 50), (1, 500), (0.1, 50), (0.1, 50)], held_out=False),
        _made("monod", monod, (0.6, 3, 0.5, 0.03, 0.2), 0.1, 7,
              [(0.02, 5), (0.02, 200), (0.02, 5), (0.001, 1), (0.01, 5)], held_out=True, relative=0.03),
        _made("brussel", brusselator, (1, 2.6, 1, 1), 0.1, 8, [(0.1, 10)] * 4, held_out=False),
        _made("arrhenius", arrhenius, (0.3, 60, 0.1, 90), 0.02, 9, [(1e-3, 10), (10, 200)] * 2, held_out=False),
        _made("lorenz", lambda p: lorenz(p, 25), (10, 28, 8 / 3), 0.5, 10, [(1, 50), (1, 100), (0.3, 10)],
              held_out=True),
        _made("vdp", van_der_pol, (1.5, 1, 1.2, 2, 0), 0.15, 11,
              [(0.05, 10), (0.05, 10), (0.1, 10), (-3, 3), (-3, 3)], (True, True, True, False, False), held_out=False),
        _made("seir", seir, (0.5, 0.25, 0.2, 0.3, 1e-4), 20, 12,
              [(0.05, 5), (0.02, 5), (0.02, 5), (0.01, 1), (1e-6, 1e-2)], held_out=True, relative=0.05),
        _made("repress", repressilator, (8, 3, 0.2, 1), 0.2, 13,
              [(0.5, 50), (1, 6), (0.01, 5), (0.1, 5)], (True, False, True, True), held_out=True),
    ]  # fmt: skip


def _made(name, model, truth, sigma, seed, box, log=True, *, held_out, relative=0.0):
    residuals = made(model, truth, sigma, seed, relative)
    return Problem("ode", name, residuals, box, log, held_out=held_out, truth=truth)
