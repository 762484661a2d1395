"""All points that a fit has evaluated, with the outputs of the model there, whoever has asked for them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.least_squares.trust_region import LinearModel, Region

_SAME = 1e-6  # widths: nearer points say nothing about slopes, only about noise


class Pool:
    """Points of the unit cube with vectors of outputs and values.

    Axes ``is_round`` are circles: 0 and 1 are the same there. Points may be in the region; None: everywhere.
    """

    def __init__(self, is_round: NDArray[np.bool_], region: Region | None = None) -> None:
        self.is_round = is_round
        self.region = Region(None, len(is_round)) if region is None else region
        self._has_round = bool(is_round.any())
        self._points = np.empty((64, len(is_round)))
        self._values = np.empty(64)
        self.outputs: list[Floats] = []  # a vector for each point, empty where it failed

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def points(self) -> Floats:
        """All points ``(k, n)``."""
        return self._points[: len(self)]

    @property
    def values(self) -> Floats:
        """Their values ``(k,)``; infinite where they failed."""
        return self._values[: len(self)]

    @property
    def best(self) -> int:
        """The number of the best one."""
        return int(np.argmin(self.values))

    @property
    def least(self) -> float:
        """The best value; infinite before the first one."""
        return float(self.values.min(initial=np.inf))

    def add(self, point: Floats, outputs: Floats, value: float) -> int:
        """Keep a point; its number. Outputs without a finite value are those of a failure."""
        outputs = outputs if np.isfinite(value) else np.empty(0)
        number = len(self)
        if number == len(self._values):
            self._points = np.concatenate([self._points, np.empty_like(self._points)])
            self._values = np.concatenate([self._values, np.empty_like(self._values)])
        self._points[number], self._values[number] = point, value
        self.outputs.append(outputs)
        return number

    def apart(self, points: Floats, centre: Floats) -> Floats:
        """Differences of points from a centre; the short way round on circles."""
        apart: Floats = points - centre
        if self._has_round:
            apart = np.where(self.is_round, apart - np.rint(apart), apart)
        return apart

    def room(self, point: Floats) -> tuple[Floats, Floats]:
        """How far one may go from a point along each axis, down and up: to the wall, or half way round."""
        return np.where(self.is_round, -0.5, -point), np.where(self.is_round, 0.5, 1 - point)

    def step(self, linear: LinearModel, point: Floats, radius: float) -> Floats:
        """The best step from a point, of at most this length."""
        return self.region.step(linear, point, *self.room(point), radius)

    def inside(self, point: Floats) -> Floats:
        """The point, on the wall if it is beyond one; on circles between 0 and 1."""
        return np.where(self.is_round, point % 1.0, np.clip(point, 0.0, 1.0))

    def near(self, centre: int, most: int) -> tuple[NDArray[np.intp], Floats]:
        """The points next to one, at most so many, without it and those that failed: numbers, and differences."""
        apart = self.apart(self.points, self.points[centre])
        far = np.einsum("ij,ij->i", apart, apart)
        found = np.flatnonzero(np.isfinite(self.values) & (far > _SAME**2))
        if len(found) > most:
            found = found[np.argsort(far[found], kind="stable")[:most]]
        return found, apart[found]


def updated(slope: Floats, doubt: Floats, step: Floats, change: Floats, floor: float) -> tuple[Floats, Floats]:
    """The slope ``(m, n)`` and K after outputs changed so much over a step (F4); ``floor`` is the length e."""
    along = doubt @ step
    far = float(step @ step)
    variance = float(step @ along) + far * far / 4 + floor**4
    return slope + np.outer(change - slope @ step, along / variance), doubt - np.outer(along, along / variance)
