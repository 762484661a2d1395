"""The swarm room: what hyperparameters do to one element and to a swarm. Every number comes from the library.

A swarm follows from its settings alone: another slider position means the same seed with another method, run to the
same step. So a link, a reload and the Python snippet show the same swarm to the last bit. A link may hold anything:
numbers are clamped to their range, and what makes no sense falls back to its default.
"""

from __future__ import annotations

import base64
import math
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from paoswarm import PAO, Optimizer, Swarm, noise
from paoswarm.helpers import behaviour
from paoswarm.problems import get as get_problem
from paoswarm.problems import names as function_names

MOST_STEPS = 500
MOST_PARTICLES = 200
_NOISE_SCALES = {"spread": noise.spread, "mean_to_best": noise.mean_to_best, "covariance": noise.covariance}
WINDOW = 20.0  # units of time of the free response
_SIGMAS = 2.0  # of ellipses and bands
_MOST_DOTS = 200  # evaluations that are marked on the free response
_GRID = 220  # points of the contours in each direction
_SHADES = 255


class Parameter(NamedTuple):
    """A hyperparameter with its slider."""

    name: str
    label: str
    low: float
    high: float
    is_logarithmic: bool
    meaning: str


PARAMETERS = (
    Parameter("mass", "Mass", 0.05, 20.0, True, "Heavy particles move slowly and explore."),
    Parameter("damping", "Damping ratio", 0.0, 3.0, False, "Below 1 particles swing around their attractors."),
    Parameter("local", "Stiffness, own best", 0.0, 5.0, False, "Pull towards the best point of the particle."),
    Parameter("leader", "Stiffness, global best", 0.0, 5.0, False, "Pull towards the best point of the swarm."),
    Parameter("noise", "Noise", 0.0, 5.0, False, "Strength of the shaking."),
    Parameter("dt", "Time step", 0.02, 10.0, True, "Time between two evaluations. The motion is exact for any value."),
)


_RANGES = {one.name: (one.low, one.high) for one in PARAMETERS}
_RANGES |= {"particles": (2, MOST_PARTICLES), "seed": (0, 2**32 - 1), "step": (0, MOST_STEPS)}
_CHOICES = {"scale": tuple(_NOISE_SCALES), "walls": ("clip", "reflect", "periodic", "none")}


@dataclass(frozen=True)
class Settings:
    """Everything that decides what is seen in the swarm room.

    Examples
    --------
    >>> Settings.read({"damping": "0.5", "seed": "7", "dt": "nonsense", "mass": "1e99"})  # doctest: +ELLIPSIS
    Settings(mass=20.0, damping=0.5, local=1.0, leader=1.0, noise=1.0, dt=1.0, ..., seed=7, step=0)
    """

    mass: float = 1.0
    damping: float = 0.2
    local: float = 1.0
    leader: float = 1.0
    noise: float = 1.0
    dt: float = 1.0
    fun: str = "rastrigin"
    scale: str = "spread"
    walls: str = "clip"
    particles: int = 40
    seed: int = 1
    step: int = 0

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Settings:
        """Read entries of a link or of a request."""
        read: dict[str, Any] = {}
        for name, default in asdict(cls()).items():
            value = given.get(name)
            if name in _RANGES:
                read[name] = _number(value, default, *_RANGES[name])
            else:
                is_known = _is_function(value) if name == "fun" else isinstance(value, str) and value in _CHOICES[name]
                read[name] = value if is_known else default
        return cls(**read)

    @property
    def link(self) -> str:
        """The part of a link that shows the same; entries with their default are left out."""
        default = asdict(Settings())
        return urlencode({name: value for name, value in asdict(self).items() if value != default[name]})

    def method(self) -> PAO:
        """Return the swarm's method; raise a ValueError if nothing pulls."""
        with behaviour.without_warnings():
            return PAO(
                mass=self.mass,
                damping=self.damping,
                stiffness=(self.local, self.leader),
                noise=self.noise,
                dt=self.dt,
                noise_scale=_NOISE_SCALES[self.scale],
                walls=self.walls,
            )

    @property
    def problem(self) -> Any:
        """The function, in two dimensions."""
        return get_problem(self.fun, 2)

    @property
    def snippet(self) -> str:
        """Python code that makes the same swarm."""
        default = Settings()
        arguments = [f"{name}={getattr(self, name)!r}" for name in ("mass", "damping")]
        arguments.append(f"stiffness=({self.local!r}, {self.leader!r})")
        arguments += [f"{name}={getattr(self, name)!r}" for name in ("noise", "dt")]
        if self.scale != default.scale:
            arguments.append(f"noise_scale=ps.noise.{self.scale}")
        if self.walls != default.walls:
            arguments.append(f"walls={self.walls!r}")
        return f"""import paoswarm as ps

problem = ps.problems.get({self.fun!r}, 2)
method = ps.PAO({", ".join(arguments)})
optimizer = ps.Optimizer(problem.bounds, method=method, n_particles={self.particles}, rng={self.seed})
for _ in range({self.step + 1}):  # the first swarm, then {self.step} step{"" if self.step == 1 else "s"}
    optimizer.tell(problem(optimizer.ask()))
swarm = optimizer.swarm
"""


def describe_controls() -> dict[str, Any]:
    """Return what the page needs to build its controls."""
    defaults = asdict(Settings())
    return {
        "parameters": [{**one._asdict(), "default": defaults[one.name]} for one in PARAMETERS],
        "functions": [[name, get_problem(name, 2).title] for name in function_names],
        "scales": _CHOICES["scale"],
        "walls": _CHOICES["walls"],
        "most_steps": MOST_STEPS,
        "most_particles": MOST_PARTICLES,
        "defaults": defaults,
    }


def _number(given: Any, default: float, low: float, high: float) -> float:
    """A number in its range, of the type of its default."""
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        return default
    return default if math.isnan(number) else type(default)(min(max(number, low), high))


def _is_function(given: Any) -> bool:
    """Whether this names one of the nine functions, shifted or rotated if wanted; never a longer chain."""
    name, *changes = given.split("-") if isinstance(given, str) else [""]
    return name in function_names and changes in ([], ["shifted1"], ["rotated1"], ["shifted1", "rotated1"])


class SwarmHistory:
    """The course of one swarm, step by step; it is continued when a later step is asked for."""

    def __init__(self, settings: Settings) -> None:
        self._problem = settings.problem
        self._optimizer = Optimizer(
            self._problem.bounds, method=settings.method(), n_particles=settings.particles, rng=settings.seed
        )
        self._swarms: list[Swarm] = []
        self._lock = threading.Lock()

    def at(self, step: int) -> tuple[Swarm, NDArray[np.float64]]:
        """Return the swarm after a number of steps, and the best value after each step so far."""
        with self._lock:
            while len(self._swarms) <= step:
                self._optimizer.tell(self._problem(self._optimizer.ask()))
                assert self._optimizer.swarm is not None
                self._swarms.append(self._optimizer.swarm)
            swarms = self._swarms[: step + 1]
        return swarms[step], np.array([swarm.global_value for swarm in swarms])


@lru_cache(maxsize=4)
def _history(settings: Settings) -> SwarmHistory:
    """The latest swarms are kept, so that playing costs one step at a time."""
    return SwarmHistory(settings)


def show(given: dict[str, Any]) -> dict[str, Any]:
    """Return everything that is drawn for some settings."""
    settings = Settings.read(given)
    method = settings.method()
    swarm, best = _history(replace(settings, step=0)).at(settings.step)
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


def contours(given: dict[str, Any]) -> dict[str, Any]:
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
        "shades": base64.b64encode(np.minimum(shades, _SHADES).astype(np.uint8).tobytes()).decode("ascii"),
        "optimum": problem.optimum.tolist(),
    }


def _view(given: Any, problem: Any) -> tuple[float, ...]:
    """Read the part of the plane to show: finite, inside ten times the bounds, and not empty; else the bounds."""
    whole = tuple(problem.bounds.ravel().tolist())
    try:
        left, right, bottom, top = numbers = tuple(float(one) for one in given)
    except (TypeError, ValueError, OverflowError):
        return whole
    far = 10 * max(map(abs, whole))
    is_sane = all(map(math.isfinite, numbers)) and max(map(abs, numbers)) <= far and left < right and bottom < top
    return numbers if is_sane else whole


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
