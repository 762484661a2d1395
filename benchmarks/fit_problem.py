"""A fit with everything that a search of `fit.py` has to know, and what the benchmark knows beyond that."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import paoswarm as ps

MINIMA = Path(__file__).parent / "data" / "fit_minima.json"
LEVELS = ("1 %", "1e-6")  # how near to the best known sum of squares
_RELATIVE = (1e-2, 1e-6)
_OF_START = (1e-5, 1e-9)  # of the value at the standard start, where the minimum may be zero
_LARGEST_START = 1e12


class Problem:
    """A fit: residuals of one point in a box.

    Attributes
    ----------
    name, group : str
        The group is the set to which it belongs.
    low, high, log : array (n,)
        The box, and which unknowns are searched by their logarithm.
    held_out : bool
        Whether it belongs to the half on which no choice was made.
    start_value : float or None
        The sum of squares at the standard start, where the minimum may be zero.
    truth : array (n,) or None
        What has made the data.
    n, m : int
        Unknowns, and residuals.
    """

    def __init__(
        self,
        group: str,
        name: str,
        residuals: Callable[[np.ndarray], np.ndarray],
        box: Sequence[tuple[float, float]],
        log: bool | Sequence[bool] = False,
        *,
        held_out: bool,
        start_value: float | None = None,
        truth: Sequence[float] | None = None,
    ):
        self.group, self.name, self.held_out, self.start_value = group, name, held_out, start_value
        self.low, self.high = np.array(box, float).T
        self.n = len(self.low)
        self.log = np.broadcast_to(np.array(log, bool), self.n)
        self.truth = None if truth is None else np.array(truth, float)
        self._residuals = residuals
        self._ends = np.where(self.log, np.log(np.where(self.log, [self.low, self.high], 1)), [self.low, self.high])
        self._m: int | None = None
        self._penalty: float | None = None
        self._minimum: float | None = None

    def __repr__(self) -> str:
        return f"{self.group}/{self.name}"

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """The residuals ``(m,)`` at a point ``(n,)``, divided by their standard errors; NaN, or an exception."""
        with np.errstate(all="ignore"):
            r = np.asarray(self._residuals(np.asarray(x, float)), float)
        return r if np.all(np.abs(r) < 1e100) else np.full(r.shape, np.nan)

    def squares(self, x: np.ndarray) -> float:
        """The sum of squares, infinite where the evaluation fails."""
        r = self.attempt(x)
        return math.inf if r is None else float(r @ r)

    def attempt(self, x: np.ndarray) -> np.ndarray | None:
        """The residuals, or None where the evaluation fails."""
        try:
            r = self.residuals(x)
        except ArithmeticError:
            return None
        return None if np.isnan(r).any() else r

    def point(self, u: np.ndarray) -> np.ndarray:
        """The point ``(n,)`` at a place of the unit cube."""
        low, high = self._ends
        z = low + np.clip(u, 0, 1) * (high - low)
        return np.clip(np.where(self.log, np.exp(np.where(self.log, z, 0)), z), self.low, self.high)

    def place(self, x: np.ndarray) -> np.ndarray:
        """The place ``(n,)`` in the unit cube of a point."""
        low, high = self._ends
        return np.clip((np.where(self.log, np.log(np.where(self.log, x, 1)), x) - low) / (high - low), 0, 1)

    @property
    def space(self) -> list[ps.Real]:
        """The box for ours."""
        return [ps.Real(*ends, log=bool(log)) for *ends, log in zip(self.low, self.high, self.log, strict=True)]

    @property
    def m(self) -> int:
        """Residuals."""
        self._look_around()
        return self._m

    @property
    def penalty(self) -> float:
        """The sum of squares that stands for a failure where a search takes no NaN."""
        self._look_around()
        return self._penalty

    def _look_around(self) -> None:
        if self._m is None:
            rng = np.random.default_rng(99)
            found = [self.attempt(self.point(rng.random(self.n))) for _ in range(60)]
            found = [r for r in found if r is not None]
            self._m, self._penalty = len(found[0]), 1e3 * float(np.median([r @ r for r in found]))

    @property
    def minimum(self) -> float:
        """The smallest sum of squares that is known."""
        if self._minimum is None:
            self._minimum = known_minima()[repr(self)]["value"]
        return self._minimum

    @property
    def targets(self) -> list[float]:
        """The largest sums of squares that count as within 1 % and 1e-6."""
        least = self.minimum
        gain = 0.0 if self.start_value is None else min(self.start_value, _LARGEST_START) - least
        return [least + max(part * least, zero * gain) for part, zero in zip(_RELATIVE, _OF_START, strict=True)]


def known_minima() -> dict[str, dict]:
    """The best known points and sums of squares by problem, see `fit_minima.py`."""
    return json.loads(MINIMA.read_text()) if MINIMA.exists() else {}


def made(model, truth, sigma, seed, relative=0.0):
    """Residuals against data that the model has made with this truth, normal noise and this seed."""
    exact = model(np.array(truth, float))
    scale = sigma + relative * np.abs(exact)
    data = exact + scale * np.random.default_rng(seed).normal(size=exact.shape)
    return lambda x: (model(x) - data) / scale
