"""What the swarm room shows: hyperparameters, function, size, seed and step, from a link or a slider and back.

A link may hold anything. Numbers are clamped to their range, and what makes no sense falls back to its default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from paoswarm.algorithms.behaviour import without_warnings
from paoswarm.algorithms.pao import PAO
from paoswarm.core import noise
from paoswarm.problems import get as get_problem
from paoswarm.problems import names as function_names

MOST_STEPS = 500
MOST_PARTICLES = 200
_NOISE_SCALES = {"spread": noise.spread, "mean_to_best": noise.mean_to_best, "covariance": noise.covariance}
_WALLS = ("clip", "reflect", "periodic", "none")


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
        default = cls()
        read: dict[str, Any] = {
            one.name: _number(given.get(one.name), getattr(default, one.name), one.low, one.high) for one in PARAMETERS
        }
        read["fun"] = _function_name(given.get("fun"), default.fun)
        read["scale"] = _choice(given.get("scale"), tuple(_NOISE_SCALES), default.scale)
        read["walls"] = _choice(given.get("walls"), _WALLS, default.walls)
        read["particles"] = int(_number(given.get("particles"), default.particles, 2, MOST_PARTICLES))
        read["seed"] = int(_number(given.get("seed"), default.seed, 0, 2**32 - 1))
        read["step"] = int(_number(given.get("step"), default.step, 0, MOST_STEPS))
        return cls(**read)

    @classmethod
    def from_link(cls, link: str) -> Settings:
        """Read the part of a link after the question mark."""
        return cls.read(dict(parse_qsl(link[:2000])))

    @property
    def link(self) -> str:
        """The part of a link that shows the same; entries with their default are left out."""
        default = asdict(Settings())
        return urlencode({name: value for name, value in asdict(self).items() if value != default[name]})

    def method(self) -> PAO:
        """Return the swarm's method; raise a ValueError if nothing pulls."""
        with without_warnings():
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

    @property
    def run(self) -> tuple[Any, ...]:
        """What decides the course of the swarm: everything but the step."""
        return tuple(getattr(self, field.name) for field in fields(self) if field.name != "step")


def describe_controls() -> dict[str, Any]:
    """Return what the page needs to build its controls."""
    default = Settings()
    return {
        "parameters": [{**one._asdict(), "default": getattr(default, one.name)} for one in PARAMETERS],
        "functions": [[name, get_problem(name, 2).title] for name in function_names],
        "scales": list(_NOISE_SCALES),
        "walls": list(_WALLS),
        "most_steps": MOST_STEPS,
        "most_particles": MOST_PARTICLES,
        "defaults": asdict(default),
    }


def _number(given: Any, default: float, low: float, high: float) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        return default
    return default if math.isnan(number) else min(max(number, low), high)


def _choice(given: Any, allowed: tuple[str, ...], default: str) -> str:
    return given if isinstance(given, str) and given in allowed else default


def _function_name(given: Any, default: str) -> str:
    """Return the name of one of the nine functions, shifted or rotated if wanted; never a longer chain."""
    if not isinstance(given, str):
        return default
    name, *changes = given.split("-")
    known = name in function_names and changes in ([], ["shifted1"], ["rotated1"], ["shifted1", "rotated1"])
    return given if known else default
