r"""What is known about unknowns besides the data, as more residuals: priors, and penalties of the user's own.

A density :math:`p` with its mode at :math:`x_0` is

.. math:: r = \operatorname{sign}(x - x_0) \sqrt{2 \ln p(x_0) - 2 \ln p(x)}                                 \tag{F8}

which is :math:`(x - a) / b` for a normal one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from paoswarm._checks import choices
from paoswarm.core.arrays import Floats
from paoswarm.space.space import Space
from paoswarm.space.variables import Real

_GRID = 2001  # points among which the mode of a density is looked for


@dataclass(frozen=True)
class Prior:
    """The prior of one unknown: a density with its mode, or the mean and deviation of a normal law."""

    key: Any  # name or index of the unknown
    law: Any  # a frozen distribution of scipy.stats
    mode: float

    @classmethod
    def of(cls, key: Any, law: Any, low: float, high: float) -> Prior:
        """Find the mode of a density between the bounds of the unknown."""
        if not (hasattr(law, "logpdf") and hasattr(law, "ppf")):
            raise TypeError(f"the prior of {key!r} must be a frozen distribution of scipy.stats, got {law!r}")
        ends = np.clip(law.ppf([1e-9, 1 - 1e-9]), low, high)
        grid = np.linspace(float(ends[0]), float(ends[1]), _GRID)
        with np.errstate(divide="ignore", invalid="ignore"):
            densities = law.logpdf(grid)
        densities[np.isnan(densities)] = -np.inf
        best = int(np.argmax(densities))
        if not math.isfinite(densities[best]):
            raise ValueError(f"the prior of {key!r} has no finite density within its bounds ({low:g}, {high:g})")
        near = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]
        found = minimize_scalar(lambda x: -float(law.logpdf(x)), bounds=near, method="bounded", options={"xatol": 0})
        mode = float(found.x) if -found.fun > densities[best] else float(grid[best])
        return cls(key, law, mode)

    def residual(self, x: float) -> float:
        """The residual (F8); infinite where the density is zero."""
        name = getattr(self.law.dist, "name", "")
        if name == "norm":
            return (x - float(self.law.mean())) / float(self.law.std())
        with np.errstate(divide="ignore"):
            fall = 2 * float(self.law.logpdf(self.mode) - self.law.logpdf(x))
        return math.copysign(math.sqrt(max(fall, 0.0)), x - self.mode)


@dataclass(frozen=True)
class Beliefs:
    """All that is known besides the data. It can be sent between processes.

    Attributes
    ----------
    priors : tuple of Prior
    penalty : callable or None
        A function of the point as the simulator gets it, which returns residuals.
    count : int
        How many residuals there are.
    """

    priors: tuple[Prior, ...] = ()
    penalty: Callable[[Any], Any] | None = None
    count: int = 0

    @classmethod
    def read(cls, priors: Any, penalty: Any, space: Space) -> Beliefs:
        """Priors by name, and a penalty; both are tried at a point."""
        found = () if priors is None else _read_priors(priors, space)
        if penalty is not None and not callable(penalty):
            raise TypeError(f"penalty must be a function of the unknowns that returns residuals, got {penalty!r}")
        tried = cls(found, penalty)
        middle = space.rows(((space.lower + space.upper) / 2)[None])[0]
        return cls(found, penalty, len(tried.residuals(space.given(middle))))

    def residuals(self, point: Any) -> Floats:
        """The residuals at a point as the simulator gets it."""
        own = [one.residual(_number(point[one.key])) for one in self.priors]
        if self.penalty is None:
            return np.array(own, dtype=float)
        answer = np.atleast_1d(np.asarray(self.penalty(point)))
        if answer.ndim != 1 or answer.dtype.kind not in "fiu":
            raise TypeError(f"penalty must return real numbers, one or an array (k,), but returned {answer!r}")
        return np.concatenate([own, answer.astype(float)])


def _number(value: Any) -> float:
    return float(getattr(value, "value", value))  # of lmfit.Parameters


def _read_priors(priors: Any, space: Space) -> tuple[Prior, ...]:
    if not isinstance(priors, Mapping):
        raise TypeError(f"priors must be a dict of distributions by name of the unknown, got {priors!r}")
    labels = space.labels()
    found = []
    for name, law in priors.items():
        i = name if space.names is None and isinstance(name, int) else labels.index(name) if name in labels else -1
        if not 0 <= i < len(labels):
            raise ValueError(f"priors: there is no unknown {name!r}; {choices(str(name), labels)}")
        one = space.variables[i]
        if not isinstance(one, Real):
            raise ValueError(f"priors: {name!r} is {one!r}; only numbers between two bounds can have a prior")
        found.append(Prior.of(labels[i] if space.names is not None else i, law, one.low, one.high))
    return tuple(found)
