"""Calibrations of differential equations, two with real and two with made data: the set ``ode`` of `search.py`.

Solutions are by Runge and Kutta's method with a fixed step, for all points at once. Unknowns are as in the equations;
the boxes are wide, and no unknown is a logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Calibration(NamedTuple):
    """A sum of squared residuals ``(m, d) -> (m,)``."""

    name: str
    residuals: Callable[[np.ndarray], np.ndarray]  # (m, d) -> (m, k)
    bounds: np.ndarray
    best: tuple[float, ...]  # the best point that is known

    @property
    def minimum(self) -> float:
        """The best value that is known."""
        return float(self(np.array([self.best]))[0])

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """The values at points ``(m, d)``."""
        with np.errstate(all="ignore"):
            return (self.residuals(x) ** 2).sum(axis=1)


def solve(slope, state, step, between, n):
    """States ``(n + 1, k, m)``: the first one and ``n`` more, ``between`` steps apart."""
    states = [state]
    for _ in range(n):
        for _ in range(between):
            one = slope(state)
            two = slope(state + step / 2 * one)
            three = slope(state + step / 2 * two)
            state = state + step / 6 * (one + 2 * two + 2 * three + slope(state + step * three))
        states.append(state)
    return np.array(states)


# Pelts in thousands, Hudson Bay Company, 1900 to 1920 (Elton and Nicholson 1942, as tabulated by Howard 2009).
HARES = np.array(
    [
        30,
        47.2,
        70.2,
        77.4,
        36.3,
        20.6,
        18.1,
        21.4,
        22,
        25.4,
        27.1,
        40.3,
        57,
        76.6,
        52.3,
        19.5,
        11.2,
        7.6,
        14.6,
        16.2,
        24.7,
    ]
)
LYNXES = np.array(
    [4, 6.1, 9.8, 35.2, 59.4, 41.7, 19, 13, 8.3, 9.1, 7.4, 8, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6]
)


def predators(x):
    """Lotka and Volterra: four rates and two first numbers; residuals of logarithms."""
    birth, eaten, death, fed, hares, lynxes = x.T

    def slope(logs):
        both = np.exp(logs)
        return np.stack([birth - eaten * both[1], fed * both[0] - death])

    logs = solve(slope, np.log(np.stack([hares, lynxes])), 0.25, 4, 20)
    return np.concatenate([logs[:, 0].T - np.log(HARES), logs[:, 1].T - np.log(LYNXES)], axis=1)


# Boys in bed in a boarding school of 763, 22 January to 4 February 1978 (British Medical Journal, 4 March 1978).
IN_BED = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4])


def influenza(x):
    """Susceptible, infected, recovered: two rates and the first number of infected."""
    contact, recovery, first = x.T

    def slope(state):
        new = contact * state[0] * state[1] / 763
        return np.stack([-new, new - recovery * state[1]])

    return solve(slope, np.stack([763 - first, first]), 0.25, 4, 13)[:, 1].T - IN_BED


def _displacement(x):
    """A driven spring that hardens, m = 1: damping, stiffness, hardening, force, frequency."""
    damping, stiffness, hardening, force, frequency = x.T

    def slope(state):
        place, speed, phase = state
        push = force * np.cos(phase) - damping * speed - (stiffness + hardening * place**2) * place
        return np.stack([speed, push, frequency])

    zero = np.zeros(len(x))
    return solve(slope, np.stack([zero + 1, zero, zero]), 0.1, 4, 40)[1:, 0].T


def _spikes(x):
    """FitzHugh and Nagumo's model of a nerve: three parameters and two first values."""
    a, b, c, v, r = x.T

    def slope(state):
        v, r = state
        return np.stack([c * (v - v**3 / 3 + r), -(v - a + b * r) / c])

    return solve(slope, np.stack([v, r]), 0.1, 5, 40)[1:].transpose(2, 0, 1).reshape(len(x), -1)


def _made(model, truth, noise, seed):
    """Residuals from data that the model has made with this truth and normal noise."""
    exact = model(np.array([truth]))
    data = exact + noise * np.random.default_rng(seed).normal(size=exact.shape)
    return lambda x: model(x) - data


CALIBRATIONS = [
    Calibration(
        "predator and prey",
        predators,
        np.array([(0.01, 3), (0.001, 0.2), (0.01, 3), (0.001, 0.2), (1, 100), (1, 50)]),
        (0.5401633703, 0.02716579068, 0.7963963179, 0.02369527763, 34.60211396, 5.844335192),
    ),
    Calibration(
        "influenza", influenza, np.array([(0.01, 10), (0.01, 5), (0.01, 50)]), (1.788113903, 0.4557009565, 2.093884395)
    ),
    Calibration(
        "oscillator",
        _made(_displacement, (0.2, 1.0, 0.8, 0.6, 1.3), 0.05, 31),
        np.array([(0, 2), (-2, 5), (-1, 5), (0, 3), (0.2, 4)]),
        (0.2456598081, 1.141598976, 0.6672636772, 0.6373510748, 1.318435455),
    ),
    Calibration(
        "nerve",
        _made(_spikes, (0.2, 0.2, 3.0, -1.0, 1.0), 0.1, 32),
        np.array([(-1, 2), (-1, 2), (0.5, 6), (-3, 3), (-3, 3)]),
        (0.2005663989, 0.2126496501, 2.996705918, -1.002669625, 1.028207227),
    ),
]
