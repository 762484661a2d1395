"""Ten nonlinear regressions of NIST with certified solutions, in wide boxes: the set ``nist`` of `search.py`.

The unknowns are those of the model; nothing is transformed. Each may lie between -2 and 10 times the size of its
certified value, so that the box says little.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

FILES = Path(__file__).parent / "data" / "nist"


def _rational(b, x):
    """Cubic over cubic with seven parameters, quadratic over quadratic with five."""
    n = b.shape[1] // 2 + 1
    below = np.concatenate([np.ones((len(b), 1)), b[:, n:]], axis=1)
    return (b[:, :n] @ x ** np.arange(n)[:, None]) / (below @ x ** np.arange(below.shape[1])[:, None])


def _peaks(b, x):
    a, c, d, e, f, g, h, i = b.T[:, :, None]
    return a * np.exp(-c * x) + d * np.exp(-(((x - e) / f) ** 2)) + g * np.exp(-(((x - h) / i) ** 2))


def _decays(b, x):
    return (b[:, ::2, None] * np.exp(-b[:, 1::2, None] * x)).sum(axis=1)


def _chwirut(b, x):
    a, c, d = b.T[:, :, None]
    return np.exp(-a * x) / (c + d * x)


def _nelson(b, x):
    a, c, d = b.T[:, :, None]
    return a - c * x[0] * np.exp(-d * x[1])


def _roszman(b, x):
    a, c, d, e = b.T[:, :, None]
    return a - c * x - np.arctan(d / (x - e)) / np.pi


MODELS = {
    "Chwirut2": _chwirut,
    "DanWood": lambda b, x: b[:, :1] * x ** b[:, 1:],
    "Gauss1": _peaks,
    "Hahn1": _rational,
    "Kirby2": _rational,
    "Lanczos3": _decays,
    "Misra1a": lambda b, x: b[:, :1] * (1 - np.exp(-b[:, 1:] * x)),
    "Nelson": _nelson,
    "Roszman1": _roszman,
    "Thurber": _rational,
}


class Regression(NamedTuple):
    """A model with its data and the certified solution."""

    name: str
    x: np.ndarray
    y: np.ndarray
    certified: np.ndarray  # parameters
    minimum: float  # certified residual sum of squares

    @property
    def bounds(self) -> np.ndarray:
        """From -2 to 10 times the size of the certified values."""
        size = np.abs(self.certified)
        return np.stack([-2 * size, 10 * size], axis=1)

    def __call__(self, b: np.ndarray) -> np.ndarray:
        """Residual sums of squares at parameters ``(m, d)``."""
        with np.errstate(all="ignore"):
            return ((MODELS[self.name](b, self.x) - self.y) ** 2).sum(axis=1)


def read(name: str) -> Regression:
    """Read a regression from NIST's file, whose header says on which lines each part stands."""
    text = (FILES / f"{name}.dat").read_text()
    lines = text.splitlines()
    first, last = map(int, re.search(r"Data\s+\(lines\s+(\d+) to\s+(\d+)\)", text).groups())
    table = np.array([line.split() for line in lines[first - 1 : last]], float).T
    certified = [float(line.split()[4]) for line in lines if re.match(r"\s+b\d =", line)]
    minimum = float(re.search(r"Residual Sum of Squares:\s+(\S+)", text)[1])
    y = np.log(table[0]) if name == "Nelson" else table[0]
    return Regression(name, table[1] if len(table) == 2 else table[1:], y, np.array(certified), minimum)
