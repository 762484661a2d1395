"""Fourteen harder calibrations of differential equations: the rest of the set ``ode`` of `fit.py`.

Stiff, chaotic, oscillating, with 10 to 30 unknowns, or with a large part of the box that fails, by NaN or by an
exception. All data are made by the model, with normal noise.
"""

from __future__ import annotations

import numpy as np
from fit_problem import Problem, made
from fit_solvers import njit, rk4, rodas3


class SimulationError(ArithmeticError):
    """What a simulator raises that has broken down."""


_ROBERTSON = np.concatenate([[0.0], np.logspace(-1, 6, 20)])


@njit
def _robertson(t, s, p):
    one, two, three = p[0] * s[0], p[1] * s[1] * s[1], p[2] * s[1] * s[2]
    return np.array([three - one, one - two - three, two])


@njit(cache=True)
def robertson(p):
    """Robertson's three reactions, over seven decades of time: three rates."""
    states = rodas3(_robertson, np.array([1.0, 0.0, 0.0]), p, _ROBERTSON, 1e-6, 1e-10, 20_000)[1:]
    return (states * np.array([1.0, 1e4, 1.0])).ravel()


_HIRES = np.concatenate([[0.0], np.logspace(-1, np.log10(320), 16)])


@njit
def _hires(t, s, p):
    k1, k2, k3, k4, k5, join = p
    joined = join * s[5] * s[7]
    apart = (k2 + 2 * k4) * s[6]
    return np.array(
        [
            -k1 * s[0] + k2 * s[1] + k3 * s[2] + 0.0007,
            k1 * s[0] - (k2 + k3) * s[1],
            -(k1 + k3) * s[2] + k2 * s[3] + k5 * s[4],
            k3 * s[1] + k1 * s[2] - (k2 + k4) * s[3],
            -(k1 + k5) * s[4] + k2 * (s[5] + s[6]),
            -joined + k4 * (s[3] + s[6]) + k1 * s[4] - k2 * s[5],
            joined - apart,
            -joined + apart,
        ]
    )


@njit(cache=True)
def hires(p):
    """Four of the eight forms of a plant's pigment in light (Schäfer 1975): six rates."""
    start = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0057])
    states = rodas3(_hires, start, p, _HIRES, 1e-6, 1e-9, 20_000)[1:]
    return np.concatenate((states[:, 0], states[:, 3], 10 * states[:, 4], 100 * states[:, 7]))


@njit
def _oregonator(t, s, p):
    steepness, decay, slow, share = p
    quick = steepness * (s[1] + s[0] * (1 - decay * s[0] - s[1]))
    return np.array([quick, (share * s[2] - (1 + s[0]) * s[1]) / steepness, slow * (s[0] - s[2])])


@njit(cache=True)
def oregonator(p):
    """The Oregonator, a stiff reaction that oscillates, logarithms of two of its substances: four parameters."""
    states = rodas3(_oregonator, np.array([1.0, 2.0, 3.0]), p, np.linspace(0, 320, 41), 1e-5, 1e-7, 10_000)[1:]
    return np.log10(np.maximum(states[:, 1:], 1e-8)).ravel()


@njit
def _lorenz(t, s, p):
    return np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])


@njit(cache=True)
def lorenz_from(p):
    """Lorenz's weather, two of its three states: three parameters and two first values."""
    return rk4(_lorenz, np.array([p[3], p[4], 20.0]), p, 0.01, 10, 30)[1:, ::2].copy().ravel()


@njit
def _roessler(t, s, p):
    return np.array([-s[1] - s[2], s[0] + p[0] * s[1], p[1] + s[2] * (s[0] - p[2])])


@njit(cache=True)
def roessler(p):
    """Two states of Rössler's chaos: three parameters."""
    return rk4(_roessler, np.array([2.0, 1.0, 0.0]), p, 0.05, 16, 40)[1:, :2].copy().ravel()


@njit
def _double_pendulum(t, s, p):
    length, mass, drag = p  # of the lower one, the upper one has 1
    one, two, fast, slow = s
    turn = one - two
    below = 1 + mass * np.sin(turn) ** 2
    pull, swing = 9.81 * np.sin(two), 9.81 * np.sin(one)
    first = mass * (pull * np.cos(turn) - np.sin(turn) * (fast**2 * np.cos(turn) + length * slow**2))
    second = (1 + mass) * (fast**2 * np.sin(turn) - pull + swing * np.cos(turn))
    second += mass * length * slow**2 * np.sin(turn) * np.cos(turn)
    first = (first - (1 + mass) * swing) / below
    return np.array([fast, slow, first - drag * fast, second / length / below - drag * slow])


@njit(cache=True)
def double_pendulum(p):
    """Both angles of a double pendulum: length and mass of the lower one, drag, and the first angles."""
    return rk4(_double_pendulum, np.array([p[3], p[4], 0.0, 0.0]), p[:3].copy(), 0.01, 10, 40)[1:, :2].copy().ravel()


@njit
def _springs(t, s, p):
    place, speed = s[:3], s[3:]
    stretched = np.array([place[0], place[1] - place[0], place[2] - place[1], -place[2]]) * p[:4]
    force = stretched[1:] - stretched[:3] - p[4] * speed
    force[0] += p[5] * np.sin(1.3 * t)
    return np.concatenate((speed, force))


@njit(cache=True)
def springs(p):
    """Two of three masses on four springs: stiffnesses, damping and the force on the first one."""
    states = rk4(_springs, np.array([1.0, 0.0, -0.5, 0.0, 0.0, 0.0]), p, 0.05, 6, 60)[1:]
    return np.concatenate((states[:, 0], states[:, 2]))


@njit
def _cell_cycle(t, s, p):
    made, lost, on_m, off_m, on_x, off_x, half = p
    c, m, x = s
    switch = on_m * c / (half + c) * (1 - m) / (1.05 - m) - off_m * m / (0.05 + m)
    cut = on_x * m * (1 - x) / (1.05 - x) - off_x * x / (0.05 + x)
    return np.array([made - lost * x * c / (0.02 + c) - 0.01 * c, switch, cut])


@njit(cache=True)
def cell_cycle(p):
    """Cyclin and its kinase in Goldbeter's cell cycle (1991), with softer switches: seven rates."""
    times = np.linspace(0, 100, 51)
    states = rodas3(_cell_cycle, np.array([0.01, 0.01, 0.01]), p, times, 1e-6, 1e-8, 20_000)[1:]
    return np.concatenate((states[:, 0], states[:, 1]))


@njit
def _network(t, s, p):
    a, b, c, d, e, f, g = s
    one, two = p[0] * a * b - p[1] * c, p[2] * c - p[3] * d
    three, four = p[4] * d - p[5] * b * e, p[6] * a * e - p[7] * f
    five, six = p[8] * f - p[9] * g, p[10] * g - p[11] * e * e
    return np.array([-one - four, three - one, one - two, two - three, three - four + 2 * six, four - five, five - six])


@njit(cache=True)
def network(p):
    """Four of seven substances in six reactions that go both ways: twelve rates."""
    start = np.array([2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    states = rodas3(_network, start, p, np.linspace(0, 10, 26), 1e-6, 1e-8, 20_000)[1:]
    return np.concatenate((states[:, 0], states[:, 2], states[:, 4], states[:, 6]))


@njit
def _chain(t, s, p):
    passed = p[:10] * s
    slope = -passed - p[10:] * s
    slope[1:] += passed[:9]
    return slope


@njit(cache=True)
def chain(p):
    """Ten compartments in a row: a rate to the next one and a rate of loss for each."""
    start = np.zeros(10)
    start[0] = 100.0
    return rk4(_chain, start, p, 0.05, 20, 20)[1:].copy().ravel()


@njit(cache=True)
def rod(p):
    """Temperatures at seven places of a rod that is heated at one end: thirty conductivities, implicit steps."""
    n, step, between = 30, 0.25, 4
    state, upper, right = np.zeros(n), np.zeros(n), np.zeros(n)
    seen = np.empty((30, 7))
    for out in range(30):
        for _ in range(between):
            for i in range(n):  # Thomas's elimination; the last cell touches one of temperature zero
                left = p[i - 1] if i else 0.0
                diagonal = 1 + step * (left + p[i])
                heat = 1.0 if i == 0 else 0.0
                if i:
                    diagonal += step * left * upper[i - 1]
                    heat += left * right[i - 1]
                upper[i] = -step * p[i] / diagonal
                right[i] = (state[i] + step * heat) / diagonal
            state[n - 1] = right[n - 1]
            for i in range(n - 2, -1, -1):
                state[i] = right[i] - upper[i] * state[i + 1]
        seen[out] = state[2::4]
    return seen.ravel()


@njit
def _reactor(t, s, p):
    rate, energy, heat, cooling = p
    burnt = rate * s[0] * np.exp(energy * (1 - 1 / max(s[1], 0.1)))
    return np.array([1 - s[0] - burnt, 1 - s[1] + heat * burnt - cooling * (s[1] - 0.95)])


@njit(cache=True)
def reactor(p):
    """A stirred reactor, concentration and temperature: rate, energy, heat and cooling. NaN when it runs away."""
    states = rodas3(_reactor, np.array([1.0, 1.0]), p, np.linspace(0, 8, 41), 1e-6, 1e-8, 5_000)[1:]
    if not states[:, 1].max() < 1.6:
        states[:] = np.nan
    return states.copy().ravel()


@njit
def _chemostat(t, s, p):
    food = max(s[1], 0.0)
    growth = p[0] * food / (p[1] + food) * s[0]
    flow = 0.15 if t < 12 else 0.3
    return np.array([growth - flow * s[0] - p[3] * s[0], flow * (10 - s[1]) - growth / p[2]])


@njit(cache=True)
def _fed(p):
    return rk4(_chemostat, np.array([0.5, 5.0]), p, 0.05, 16, 30)[1:]


def chemostat(p):
    """Microbes in a flow: growth, saturation, yield and death. An exception when they are washed out."""
    states = _fed(p)
    if not states[-1, 0] > 0.1:
        raise SimulationError("the microbes are washed out")
    return states.ravel()


@njit
def _comet(t, s, p):
    square = s[0] ** 2 + s[1] ** 2
    pull = -p[0] / square**1.5
    return np.array([s[2], s[3], pull * s[0] - p[1] * s[2], pull * s[1] - p[1] * s[3]])


@njit(cache=True)
def _orbit(p):
    states = rk4(_comet, np.array([1.0, 0.0, p[2], p[3]]), p[:2].copy(), 0.01, 20, 40)
    return states[1:, :2].copy(), (states[:, 0] ** 2 + states[:, 1] ** 2).min()


def comet(p):
    """The path of a comet with drag: the pull, the drag and the first speed. An exception when it hits the sun."""
    path, nearest = _orbit(p)
    if not nearest > 0.09:
        raise SimulationError("the comet has hit the sun")
    return path.ravel()


def systems():
    """The problems; every second one is held out."""
    rates = (1.5, 0.4, 0.8, 0.2, 0.6, 0.3, 1.2, 0.25, 0.7, 0.15, 0.9, 0.35)
    row = tuple(np.round(0.5 * 1.15 ** np.arange(10), 3)) + tuple(np.round(0.1 + 0.05 * np.cos(np.arange(10)), 3))
    bar = tuple(np.round(2 + np.sin(np.arange(30) / 4), 3))
    three, decade = [(0.03, 30)] * 12, (0.05, 5)
    return [
        _made("robertson", robertson, (0.04, 3e7, 1e4), 0.01, 41, [(1e-4, 10), (1e4, 1e10), (10, 1e7)], False),
        _made("hires", hires, (1.71, 0.43, 8.32, 0.69, 0.035, 280), 0.01, 42,
              [(0.1, 20), (0.02, 10), (0.5, 100), (0.03, 20), (1e-3, 1), (10, 5000)], True),
        _made("oregonator", oregonator, (77.27, 8.375e-6, 0.161, 1), 0.1, 43,
              [(10, 500), (1e-7, 1e-4), (0.02, 2), (0.3, 3)], False),
        _made("lorenz5", lorenz_from, (10, 28, 8 / 3, 1, 1), 0.5, 44,
              [(1, 50), (1, 100), (0.3, 10), (-10, 10), (-10, 10)], True, (True, True, True, False, False)),
        _made("roessler", roessler, (0.2, 0.2, 5.7), 0.3, 45, [(0.02, 0.5), (0.02, 2), (1, 20)], False),
        _made("pendulum", double_pendulum, (0.8, 0.6, 0.05, 1.4, 0.6), 0.05, 46,
              [(0.2, 3), (0.05, 5), (0.001, 1), (-2, 2), (-2, 2)], True, (True, True, True, False, False)),
        _made("springs", springs, (2, 1, 1.5, 0.7, 0.15, 0.8), 0.05, 47, [(0.1, 20)] * 4 + [(0.01, 3), (0.05, 10)],
              False),
        _made("cellcycle", cell_cycle, (0.025, 0.25, 3, 1.5, 1, 0.5, 0.5), 0.02, 48,
              [(0.003, 0.3), (0.03, 3), (0.3, 30), (0.1, 15), (0.1, 10), (0.05, 5), (0.05, 5)], True),
        _made("network", network, rates, 0.01, 49, three, False),
        _made("chain", chain, row, 0.5, 50, [decade] * 10 + [(0.01, 1)] * 10, True),
        _made("rod", rod, bar, 0.05, 51, [(0.2, 20)] * 30, False),
        _made("reactor", reactor, (0.25, 12, 0.3, 0.8), 0.01, 52, [(0.02, 2), (3, 50), (0.03, 3), (0.08, 8)], True),
        _made("chemostat", chemostat, (0.6, 1.5, 0.5, 0.03), 0.1, 53,
              [(0.1, 5), (0.05, 50), (0.05, 5), (0.002, 0.3)], False),
        _made("comet", comet, (1, 0.02, 0.1, 0.9), 0.02, 54, [(0.2, 5), (0.001, 0.5), (-1, 1), (-1.5, 1.5)], True,
              (True, True, False, False)),
    ]  # fmt: skip


def _made(name, model, truth, sigma, seed, box, held_out, log=True):
    return Problem("ode", name, made(model, truth, sigma, seed), box, log, held_out=held_out, truth=truth)
