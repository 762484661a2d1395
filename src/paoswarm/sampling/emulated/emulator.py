r"""An emulator of the log likelihood: kriging around every mode, of the number itself or of the model's outputs.

Coordinates are whitened by the emulated posterior of the mode, so lengths are in its standard deviations. Outputs are
reduced to principal components that share lengths and factors; the log likelihood is that of the predicted outputs.

Any positive function may propose; so the emulator is free to be careful. Where it is unsure it is lowered, and where
simulations have failed nearby it is lowered too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.random import generator
from paoswarm.sampling.densities import Circle
from paoswarm.sampling.emulated.kriging import Kriging, Scales
from paoswarm.sampling.emulated.simulations import Simulations
from paoswarm.sampling.target import Target

MOST = 400  # points of one emulator: solving takes their number to the third power
_LATEST = 0.75  # share of these that are the latest points: the highest alone forget the typical set
_DEPTH = (20.0, 3.0)  # log height below the top, and more for each unknown, within which points are exact
_DEEP = 30.0  # times that: deeper points are left out
_VAGUE = 0.1  # error of a deeper point, as a share of what it is deeper
_TWINS = 0.05  # standard deviations: of points so near to each other one is enough
_ENOUGH = 1.15  # points for each coefficient of a quadratic trend
_COMPONENT = 0.003  # size of a component that matters, in changes of the outputs that change the log likelihood by 1/2
_MOST_COMPONENTS = 15
_DEVIATES = 8  # of the components, from which the error of the log likelihood is taken
_SURE = 0.4  # error of the log likelihood below which the emulator is trusted
_MOST_DOUBT = 30.0
_ABOVE = 3.0  # how far, and a half more for each unknown, it may rise above the best known point
_HOLE = 0.35  # width, in standard deviations times sqrt(d), of what a failed point says about others
_MOST_ERROR = 50.0  # of the log likelihood of displaced outputs: it may overflow when squared
_LOWEST = -1e300


class Frame(NamedTuple):
    """Centre and scale of a mode: whitened coordinates."""

    centre: Floats  # (d,)
    factor: Floats  # (d, d), lower

    def inner(self, z: Floats, circle: Circle | None) -> Floats:
        """Whitened coordinates of rows."""
        away = z - self.centre if circle is None else circle.nearest(z - self.centre)
        found: Floats = np.linalg.solve(self.factor, away.T).T
        return found

    def distance(self, z: Floats, circle: Circle | None) -> Floats:
        """Minus twice the logarithm of the normal law, but for a constant."""
        away = np.square(self.inner(z, circle)).sum(axis=1)
        return away + 2 * float(np.log(np.abs(np.diag(self.factor))).sum())


class LocalEmulator:
    """The log likelihood around one mode, from the simulated ``rows`` that are nearest to it."""

    def __init__(
        self,
        known: Simulations,
        rows: NDArray[np.intp],
        frame: Frame,
        by_outputs: bool,
        scales: Scales | None,
        iterations: int,
    ) -> None:
        self._known, self.frame, self._by_outputs = known, frame, by_outputs
        self._circle, self._d = known.target.circle, known.target.dim
        worked = known.worked[rows]
        u = frame.inner(known.z[rows], self._circle)
        self._failed, self._good = u[~worked], u[worked]
        rows, u = rows[worked], u[worked]
        chosen, self.depth, variance = (self._near if by_outputs else self._high)(rows, u)
        rows, u = rows[chosen], u[chosen]
        self._top = float(known.log_likelihood[rows].max())
        y = self._components(rows) if by_outputs else known.log_likelihood[rows, None]
        n_coefficients = (self._d + 1) * (self._d + 2) // 2
        degree = 2 if len(rows) >= _ENOUGH * n_coefficients else 1 if len(rows) > 2 * self._d + 3 else 0
        self.kriging = Kriging(u, y, variance, degree, scales, iterations)
        self._deviates = generator(0).standard_normal((_DEVIATES, y.shape[1]))

    def _high(self, rows: NDArray[np.intp], u: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
        """The points to learn the number from, how deep they lie, and the variances of their errors."""
        height = self._known.height[rows]
        depth = float(height.max()) - height
        n_coefficients = (self._d + 1) * (self._d + 2) // 2
        some = float(np.sort(depth)[min(len(depth), int(1.3 * n_coefficients) + 4) - 1])
        limit = max(_DEPTH[0] + _DEPTH[1] * self._d, some)
        chosen = np.flatnonzero(depth <= _DEEP * limit)
        chosen = chosen[~_twins(u[chosen])]
        if len(chosen) > MOST:
            near, far = chosen[depth[chosen] <= limit], chosen[depth[chosen] > limit]
            if len(near) > MOST:
                latest = np.argsort(-rows[near], kind="stable")
                n_latest = int(_LATEST * MOST)
                rest = near[latest[n_latest:]]
                typical = np.argsort(np.abs(depth[rest] - 0.5 * self._d), kind="stable")
                near = np.concatenate([near[latest[:n_latest]], rest[typical[: MOST - n_latest]]])
            chosen = np.concatenate([near, far[np.argsort(depth[far], kind="stable")[: MOST - len(near)]]])
        deeper = np.maximum(depth[chosen] - limit, 0.0)
        return chosen, depth[chosen], np.square(_VAGUE * deeper)

    def _near(self, rows: NDArray[np.intp], u: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
        """The points to learn outputs from: the nearest."""
        away = np.square(u).sum(axis=1)
        order = np.argsort(away, kind="stable")[:MOST]
        n_coefficients = (self._d + 1) * (self._d + 2) // 2
        least = min(len(order), int(1.5 * n_coefficients) + self._d + 2)
        is_near = away[order] <= 2 * (4.0 + 1.5 * math.sqrt(self._d)) ** 2
        is_near[:least] = True
        chosen = order[is_near]
        chosen = chosen[~_twins(u[chosen])]
        height = self._known.height[rows]
        return chosen, float(height.max()) - height[chosen], np.zeros(len(chosen))

    def _components(self, rows: NDArray[np.intp]) -> Floats:
        """Principal components of the outputs, as many as matter for the log likelihood."""
        known = self._known
        y = known.outputs[rows]
        self._middle = y.mean(axis=0)
        left, sizes, axes = np.linalg.svd(y - self._middle, full_matrices=False)
        best = int(np.argmax(known.log_likelihood[rows]))
        unit = self._output_unit(y[best], known.target.parameters(known.z[rows[best]][None]))
        matter = int((sizes / math.sqrt(len(y)) > _COMPONENT * unit).sum())
        k = max(1, min(matter, _MOST_COMPONENTS, len(y) - 1))
        self._axes = axes[:k]
        found: Floats = left[:, :k] * sizes[:k]
        return found

    def _output_unit(self, y: Floats, x: Floats) -> float:
        """How far an output must move to change the log likelihood by one half, at the best point."""
        assert self._known.model is not None
        step = 1e-3 * max(float(np.abs(y - self._middle).mean()), 1e-12)
        beside = np.stack([y, y + step, y - step])
        with np.errstate(all="ignore"):
            here, plus, minus = self._known.model.log_likelihood_of(beside, np.repeat(x, 3, axis=0))
        curvature = -(plus + minus - 2 * here) / step**2 / len(y)
        return 1 / math.sqrt(curvature) if curvature > 1e-300 else 0.0

    def predict(self, z: Floats) -> Floats:
        """The log likelihood at rows of ``z``."""
        u = self.frame.inner(z, self._circle)
        means = self.kriging.predict(u)
        value = self._of_outputs(means, self._known.target.parameters(z)) if self._by_outputs else means[:, 0]
        return np.minimum(value, self._top + _ABOVE + 0.5 * self._d) + self._log_worked(u)

    def outputs(self, z: Floats) -> Floats:
        """The outputs at rows of ``z``."""
        found: Floats = self._middle + self.kriging.predict(self.frame.inner(z, self._circle)) @ self._axes
        return found

    def error(self, z: Floats) -> Floats:
        """The standard deviation of the log likelihood at rows of ``z``."""
        u = self.frame.inner(z, self._circle)
        apart = self.kriging.spread(u)[:, None] * self.kriging.amplitude
        if not self._by_outputs:
            return apart[:, 0]
        means, x = self.kriging.predict(u), self._known.target.parameters(z)
        value = self._of_outputs(means, x)
        others = [self._of_outputs(means + apart * deviates, x) for deviates in self._deviates]
        found: Floats = np.sqrt(
            np.mean(np.square(np.clip(np.array(others) - value, -_MOST_ERROR, _MOST_ERROR)), axis=0)
        )
        return found

    def _of_outputs(self, components: Floats, x: Floats) -> Floats:
        assert self._known.model is not None
        with np.errstate(all="ignore"):
            value = self._known.model.log_likelihood_of(self._middle + components @ self._axes, x)
        return np.where(np.isfinite(value), value, _LOWEST)

    def _log_worked(self, u: Floats) -> Floats | float:
        """The logarithm of how likely a simulation is to work, by votes of those near by."""
        if not len(self._failed):
            return 0.0
        width = _HOLE * math.sqrt(self._d)
        good, failed = (np.exp(-0.5 * _squares(u, one) / width**2).sum(axis=1) for one in (self._good, self._failed))
        found: Floats = np.log((good + 0.03) / (good + failed + 0.033))
        return found

    def left_out(self) -> Floats:
        """Errors of predicting each point that matters from all others."""
        matters = self.depth < 8 + 2 * self._d
        return np.clip(np.abs(self.kriging.left_out()[matters, 0]), 0, 5)


class Emulator:
    """Local emulators; every point belongs to the nearest one."""

    def __init__(
        self,
        known: Simulations,
        frames: list[Frame],
        by_outputs: bool,
        scales: list[Scales | None] | None = None,
        iterations: int = 12,
    ) -> None:
        self._known, self.by_outputs = known, by_outputs
        self._circle = known.target.circle
        scales = scales or [None] * len(frames)
        while True:
            owner = _owner(frames, known.z, self._circle)
            held = [int(np.count_nonzero(known.worked & (owner == i))) for i in range(len(frames))]
            if len(frames) == 1 or min(held) > known.target.dim + 1:
                break
            least = int(np.argmin(held))
            frames = frames[:least] + frames[least + 1 :]
            scales = scales[:least] + scales[least + 1 :]
        self.frames = frames
        self.parts = [
            LocalEmulator(known, np.flatnonzero(owner == i), frame, by_outputs, scales[i], iterations)
            for i, frame in enumerate(frames)
        ]

    @property
    def scales(self) -> list[Scales | None]:
        """What the parts have learnt, as a start for the next ones."""
        return [part.kriging.scales for part in self.parts]

    @property
    def error(self) -> float:
        """Root mean square error of points that are left out."""
        missed = np.concatenate([part.left_out() for part in self.parts])
        return float(np.sqrt(np.mean(missed**2))) if len(missed) else math.inf

    def owner(self, z: Floats) -> NDArray[np.intp]:
        """Which part each point belongs to."""
        return _owner(self.frames, z, self._circle)

    def predict(self, z: Floats) -> Floats:
        """The log likelihood at rows of ``z``."""
        return self._by_part(z, LocalEmulator.predict)

    def error_at(self, z: Floats) -> Floats:
        """The standard deviation of the log likelihood at rows of ``z``."""
        return self._by_part(z, LocalEmulator.error)

    def outputs(self, z: Floats) -> Floats:
        """The outputs ``(n, m)`` at rows of ``z``."""
        return self._by_part(z, LocalEmulator.outputs, self._known.outputs.shape[1:])

    def _by_part(
        self, z: Floats, function: Callable[[LocalEmulator, Floats], Floats], shape: tuple[int, ...] = ()
    ) -> Floats:
        found, owner = np.empty((len(z), *shape)), self.owner(z)
        for i, part in enumerate(self.parts):
            if (mine := owner == i).any():
                found[mine] = function(part, z[mine])
        return found

    def covariance(self, z: Floats, error: Floats) -> Floats:
        """Covariance of the errors at several points, with these standard deviations."""
        found, owner = np.zeros((len(z), len(z))), self.owner(z)
        for i, part in enumerate(self.parts):
            mine = np.flatnonzero(owner == i)
            if len(mine):
                inner = part.kriging.covariance(part.frame.inner(z[mine], self._circle))
                size = error[mine] / np.sqrt(np.maximum(np.diag(inner), 1e-12))
                found[np.ix_(mine, mine)] = size[:, None] * inner * size
        return found


class EmulatedTarget(Target):
    """The posterior with an emulated likelihood: whatever works on a target works on it, and costs no simulation.

    One that ``is_careful`` is lower where the emulator is unsure: far from all points its trend may rise.
    """

    def __init__(self, known: Simulations, emulator: Emulator, *, is_careful: bool = False) -> None:
        super().__init__(lambda x: x, known.target.prior)
        self.emulator, self._allows, self._is_careful = emulator, known.allows, is_careful
        self._top = float(known.log_likelihood.max())

    def log_likelihood(self, z: Floats) -> Floats:
        """The emulated log likelihood of the rows of ``z``; -inf where it is zero."""
        return self.bounds(z)[0] if self._is_careful else self._means(z)

    def bounds(self, z: Floats) -> tuple[Floats, Floats]:
        """The log likelihood, lower where the emulator is unsure; and what it may be, a standard deviation higher.

        That is not above all values that are known.
        """
        lower = self._means(z)
        upper = lower.copy()
        inside = np.isfinite(lower)
        error = self.emulator.error_at(z[inside])
        beyond = np.maximum(error - _SURE, 0.0)
        lower[inside] -= np.minimum(0.5 * beyond * (1 + beyond), _MOST_DOUBT)
        upper[inside] = np.maximum(np.minimum(upper[inside] + error, self._top), upper[inside])
        if self._allows is not None:  # one point at a time, so here only
            inside[inside] = self._allows(z[inside])
            lower[~inside] = upper[~inside] = -np.inf
        return lower, upper

    def _means(self, z: Floats) -> Floats:
        found = np.full(len(z), -np.inf)
        inside = np.isfinite(self.log_prior(z))
        if inside.any():
            found[inside] = self.emulator.predict(z[inside])
        self.n_evaluations += int(inside.sum())
        return found


def _owner(frames: list[Frame], z: Floats, circle: Circle | None) -> NDArray[np.intp]:
    if len(frames) == 1:
        return np.zeros(len(z), dtype=np.intp)
    return np.argmin([frame.distance(z, circle) for frame in frames], axis=0)


def _squares(u: Floats, v: Floats) -> Floats:
    """Squared distances of all pairs."""
    found: Floats = np.maximum((u**2).sum(axis=1)[:, None] + (v**2).sum(axis=1) - 2 * u @ v.T, 0.0)
    return found


def _twins(u: Floats) -> NDArray[np.bool_]:
    """Which points have a twin before them."""
    return np.asarray(np.tril(_squares(u, u) < _TWINS**2, -1).any(axis=1))
