"""Functions with one minimum, for ``coverage.py``: bowls and valleys of several shapes, in 2 to 10 dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Shape = Callable[[np.ndarray], np.ndarray]  # (m, d) -> (m,), with the minimum at zero


class Function(NamedTuple):
    """A shape in d dimensions, whose every instance has a minimum of its own in the box (-5, 5)."""

    name: str
    shape: Shape
    d: int
    is_rotated: bool = False

    def instance(self, seed: int) -> tuple[Shape, np.ndarray]:
        """A function and its minimum."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        minimum = rng.uniform(-3, 3, self.d)
        rotation = np.linalg.qr(rng.normal(size=(self.d, self.d)))[0] if self.is_rotated else np.eye(self.d)
        return lambda x: self.shape((x - minimum) @ rotation), minimum


def power(p: float) -> Shape:
    return lambda z: (np.abs(z) ** p).sum(axis=1)


def ellipsoid(condition: float) -> Shape:
    return lambda z: (condition ** (np.arange(z.shape[1]) / (z.shape[1] - 1)) * z**2).sum(axis=1)


def cone(z: np.ndarray) -> np.ndarray:
    return np.sqrt((z**2).sum(axis=1))


def sum_of_powers(z: np.ndarray) -> np.ndarray:
    return (np.abs(z) ** (np.arange(z.shape[1]) + 2)).sum(axis=1)


def zakharov(z: np.ndarray) -> np.ndarray:
    s = 0.5 * z @ np.arange(1.0, z.shape[1] + 1)
    return (z**2).sum(axis=1) + s**2 + s**4


def schwefel_1_2(z: np.ndarray) -> np.ndarray:
    return (np.cumsum(z, axis=1) ** 2).sum(axis=1)


def trid(z: np.ndarray) -> np.ndarray:
    return (z**2).sum(axis=1) - (z[:, 1:] * z[:, :-1]).sum(axis=1)


def hilbert(z: np.ndarray) -> np.ndarray:
    i = np.arange(z.shape[1])
    return ((z @ (1 / (i[:, None] + i + 1))) * z).sum(axis=1)


def cigar(z: np.ndarray) -> np.ndarray:
    return z[:, 0] ** 2 + 1e4 * (z[:, 1:] ** 2).sum(axis=1)


def discus(z: np.ndarray) -> np.ndarray:
    return 1e4 * z[:, 0] ** 2 + (z[:, 1:] ** 2).sum(axis=1)


def sharp_ridge(z: np.ndarray) -> np.ndarray:
    return z[:, 0] ** 2 + 100 * np.sqrt((z[:, 1:] ** 2).sum(axis=1))


def rosenbrock(z: np.ndarray) -> np.ndarray:
    x = z + 1
    return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(axis=1)


def bent(z: np.ndarray) -> np.ndarray:
    return z[:, 0] ** 2 + 100 * ((z[:, 1:] - 0.3 * z[:, :1] ** 2) ** 2).sum(axis=1)


def winding(z: np.ndarray) -> np.ndarray:
    return z[:, 0] ** 2 + 30 * ((z[:, 1:] - np.sin(z[:, :1])) ** 2).sum(axis=1)


# Every second one is held out from the choice of factors.
FUNCTIONS = [
    Function("sphere 2-D", power(2), 2),
    Function("sphere 5-D", power(2), 5),
    Function("sphere 10-D", power(2), 10),
    Function("|x|^1.5 5-D", power(1.5), 5),
    Function("|x|^1.5 10-D", power(1.5), 10),
    Function("|x| 5-D", power(1), 5),
    Function("x^4 5-D", power(4), 5),
    Function("cone 4-D", cone, 4),
    Function("ellipsoid 1e2 5-D", ellipsoid(1e2), 5),
    Function("ellipsoid 1e4 5-D", ellipsoid(1e4), 5),
    Function("rotated ellipsoid 10 3-D", ellipsoid(10), 3, True),
    Function("rotated ellipsoid 1e2 5-D", ellipsoid(1e2), 5, True),
    Function("rotated ellipsoid 1e2 10-D", ellipsoid(1e2), 10, True),
    Function("rotated ellipsoid 1e4 5-D", ellipsoid(1e4), 5, True),
    Function("Zakharov 5-D", zakharov, 5),
    Function("Zakharov 10-D", zakharov, 10),
    Function("discus 10-D", discus, 10),
    Function("rotated discus 5-D", discus, 5, True),
    Function("rotated cigar 4-D", cigar, 4, True),
    Function("cigar 5-D", cigar, 5),
    Function("Rosenbrock 2-D", rosenbrock, 2),
    Function("Rosenbrock 5-D", rosenbrock, 5),
    Function("Rosenbrock 10-D", rosenbrock, 10),
    Function("sum of powers 5-D", sum_of_powers, 5),
    Function("trid 6-D", trid, 6),
    Function("Schwefel 1.2 8-D", schwefel_1_2, 8),
    Function("bent valley 3-D", bent, 3),
    Function("rotated bent valley 4-D", bent, 4, True),
    Function("winding valley 4-D", winding, 4),
    Function("Hilbert 4-D", hilbert, 4),
    Function("rotated sharp ridge 3-D", sharp_ridge, 3, True),
    Function("rotated sum of powers 4-D", sum_of_powers, 4, True),
]
