"""The swarm room: what hyperparameters do to one element and to a swarm. Every number comes from the library.

A swarm follows from its settings alone: another slider position means the same seed with another method, run to the
same step. So a link, a reload and the Python snippet show the same swarm to the last bit.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from paoswarm.algorithms import behaviour
from paoswarm.algorithms.pao import PAO
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.explorer.packing import pack_bytes
from paoswarm.explorer.swarm_settings import Settings
from paoswarm.optimize.optimizer import Optimizer

WINDOW = 20.0  # units of time of the free response
_SIGMAS = 2.0  # of ellipses and bands
_MOST_DOTS = 200  # evaluations that are marked on the free response
_KEPT = 4  # swarms whose course is remembered
_GRID = 220  # points of the contours in each direction
_SHADES = 255


class Course:
    """The course of one swarm, step by step; it is continued when a later step is asked for."""

    def __init__(self, settings: Settings) -> None:
        self._problem = settings.problem
        self._optimizer = Optimizer(
            self._problem.bounds, method=settings.method(), n_particles=settings.particles, rng=settings.seed
        )
        self._swarms: list[Swarm] = []
        self._lock = threading.Lock()

    def at(self, step: int) -> tuple[Swarm, Floats]:
        """Return the swarm after a number of steps, and the best value after each step so far."""
        with self._lock:
            while len(self._swarms) <= step:
                self._optimizer.tell(self._problem(self._optimizer.ask()))
                assert self._optimizer.swarm is not None
                self._swarms.append(self._optimizer.swarm)
            swarms = self._swarms[: step + 1]
        return swarms[step], np.array([swarm.global_value for swarm in swarms])


class SwarmRoom:
    """Answers about swarms; the latest courses are kept, so that playing costs one step at a time."""

    def __init__(self) -> None:
        self._courses: OrderedDict[tuple[Any, ...], Course] = OrderedDict()
        self._lock = threading.Lock()

    def course(self, settings: Settings) -> Course:
        """Return the course of a swarm, a remembered one if there is one."""
        with self._lock:
            course = self._courses.pop(settings.run, None) or Course(settings)
            self._courses[settings.run] = course
            while len(self._courses) > _KEPT:
                self._courses.popitem(last=False)
        return course

    def show(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return everything that is drawn for some settings."""
        settings = Settings.read(given)
        method = settings.method()
        swarm, best = self.course(settings).at(settings.step)
        return {
            "settings": settings.__dict__,
            "link": settings.link,
            "snippet": settings.snippet,
            "behaviour": method.behaviour()._asdict(),
            "concerns": behaviour.concerns(method),
            "health": [behaviour.STAGNATES_BELOW, behaviour.SLOW_ABOVE, behaviour.SCATTERS_ABOVE],
            "poles": _poles(method),
            "response": _response(method),
            "frame": _frame(method, swarm),
            "best": best,
        }

    def contours(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a function on a grid, as ranks: equal shares of the area have equal shares of shades.

        ``view`` holds left, right, bottom and top; by default the bounds of the function.
        """
        settings = Settings.read(given)
        problem = settings.problem
        left, right, bottom, top = _view(given.get("view"), problem)
        across, up = np.linspace(left, right, _GRID), np.linspace(bottom, top, _GRID)
        values = problem(np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2))
        levels = np.unique(np.quantile(values, np.linspace(0, 1, _SHADES + 1)))
        shades = np.searchsorted(levels, values) * (_SHADES / max(1, len(levels) - 1))
        return {
            "fun": settings.fun,
            "view": [left, right, bottom, top],
            "size": _GRID,
            "shades": pack_bytes(np.minimum(shades, _SHADES)),
            "optimum": problem.optimum.tolist(),
        }


def _view(given: Any, problem: Any) -> tuple[float, float, float, float]:
    """Read the part of the plane to show: finite, inside ten times the bounds, and not empty."""
    (left, right), (bottom, top) = problem.bounds.tolist()
    try:
        numbers = [float(one) for one in given]
    except (TypeError, ValueError, OverflowError):
        return left, right, bottom, top
    far = 10 * max(map(abs, (left, right, bottom, top)))
    is_sane = len(numbers) == 4 and all(map(math.isfinite, numbers)) and max(map(abs, numbers)) <= far
    if not (is_sane and numbers[0] < numbers[1] and numbers[2] < numbers[3]):
        return left, right, bottom, top
    return numbers[0], numbers[1], numbers[2], numbers[3]


def _response(method: PAO) -> dict[str, Any]:
    """Mean and standard deviation of one element that starts at 1, at rest, with its attractors fixed at 0."""
    time = np.linspace(0.0, WINDOW, 401)
    mean, sd = behaviour.free_response(method, time)
    dots = float(method.dt) * np.arange(min(_MOST_DOTS, math.floor(WINDOW / float(method.dt))) + 1)
    return {
        "time": time,
        "mean": mean,
        "sd": sd,
        "dots": dots,
        "at_dots": behaviour.free_response(method, dots)[0],
        "sigmas": _SIGMAS,
    }


def _poles(method: PAO) -> dict[str, Any]:
    """The poles in continuous time, and what one step multiplies them to."""
    continuous = behaviour.poles(method)
    step = np.exp(continuous * float(method.dt))
    return {name: [[pole.real, pole.imag] for pole in poles] for name, poles in (("s", continuous), ("z", step))}


def _frame(method: PAO, swarm: Swarm) -> dict[str, Any]:
    """The swarm, and an ellipse around each particle's next position: half axes and angle."""
    law = method.step_law(swarm, rng=0)
    variances, axes = np.linalg.eigh(law.position_covariance)
    return {
        "position": swarm.position,
        "best_position": swarm.best_position,
        "global_best": swarm.global_best[0],
        "global_value": float(swarm.global_value),
        "centre": law.mean_position,
        "half_axes": _SIGMAS * np.sqrt(np.maximum(variances, 0.0)),
        "angle": np.arctan2(axes[..., 1, 0], axes[..., 0, 0]),
        "lower": swarm.lower[0],
        "upper": swarm.upper[0],
    }
