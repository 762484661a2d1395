r"""What the hyperparameters of PAO mean, in numbers and in words, and when to warn.

With frozen attractors a particle's law tends to :math:`N(a, \rho^2 \nu)`,

.. math:: \rho = \sqrt{\frac{q}{4 \zeta \omega^3}}

the stationary spread: the size of the cloud in units of the distance between the bests.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core import attractors, noise
from paoswarm.core.arrays import Floats
from paoswarm.core.dynamics import slow_rate, transition
from paoswarm.methods.method import HyperparameterWarning
from paoswarm.methods.pao_step import name_of
from paoswarm.methods.schedules import Adaptive

if TYPE_CHECKING:
    from paoswarm.methods.pao import PAO

# Limits of the stationary spread for the default attractors and noise scale. The lower two come from the first table
# of benchmarks/quality.py. At the upper one E log|1/2 + rho N(0,1)| = 0: without selection, the distance between local
# and global best would no longer shrink.
STAGNATES_BELOW = 0.5
SLOW_ABOVE = 0.9
SCATTERS_ABOVE = 1.8

_says_nothing: ContextVar[bool] = ContextVar("_says_nothing", default=False)


class Behaviour(NamedTuple):
    """Readable numbers of a swarm; arrays where a hyperparameter differs between particles."""

    natural_frequency: Any
    phase: Any
    period: Any
    regime: str
    half_life: Any
    stationary_spread: Any


def of(method: PAO) -> Behaviour:
    """The behaviour of a method without schedules."""
    parameters = method.hyperparameters
    if any(isinstance(p, Adaptive) for p in parameters):
        raise ValueError("an adaptive hyperparameter has no fixed behaviour: it depends on the swarm")
    m, zeta, q, dt, *k = (np.asarray(p, dtype=float) for p in parameters)
    omega = np.sqrt(sum(k[1:], start=k[0]) / m)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        swing = np.sqrt(np.maximum((1 - zeta) * (1 + zeta), 0.0)) * omega * dt
        return Behaviour(
            natural_frequency=_plain(omega),
            phase=_plain(omega * dt),
            period=_plain(2 * np.pi / swing),
            regime=_regime(zeta),
            half_life=_plain(math.log(2) / (slow_rate(zeta) * omega * dt)),
            stationary_spread=_plain(np.where(q == 0, 0.0, np.sqrt(q / (4 * zeta * omega**3)))),
        )


def poles(method: PAO) -> NDArray[np.complex128]:
    r"""Return the two poles of the spring, the eigenvalues of :math:`F`: :math:`\omega(-\zeta \pm\sqrt{\zeta^2 - 1})`.

    After one step the spring is multiplied by :math:`e^{s\,dt}` along each. Hyperparameters must be numbers.

    Examples
    --------
    >>> import paoswarm as ps
    >>> poles(ps.PAO()).round(3)
    array([-0.283+1.386j, -0.283-1.386j])
    """
    omega, zeta = method.natural_frequency, np.asarray(method.damping, dtype=float)
    if zeta > 1:  # the product of both is omega^2, so nothing cancels
        slow = float(slow_rate(zeta))
        return omega * np.array([-slow, -1 / slow], dtype=complex)
    swing = 1j * np.sqrt((1 - zeta) * (1 + zeta))
    return omega * np.array([-zeta + swing, -zeta - swing])


def free_response(method: PAO, time: Any, *, start: float = 1.0, scale: float = 1.0) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of one element at some times, with its attractors fixed at zero.

    It starts at ``start``, at rest. ``scale`` is the root of the noise scale nu. Hyperparameters must be numbers.
    """
    exact = transition(method.mass, method.damping, float(sum(method.stiffness)), time)
    return start * exact.A[..., 0, 0], scale * np.sqrt(method.noise * exact.covariance[..., 0, 0])


def summary(method: PAO) -> str:
    """The hyperparameters and what they mean, in a few lines."""
    k = method.stiffness
    springs = ", ".join(f"{_show(spring)} {name_of(pull)}" for spring, pull in zip(k, method.attractors, strict=True))
    lines = [
        "Particle Attractor Optimisation",
        f"  mass {_show(method.mass)}   damping {_show(method.damping)}   noise {_show(method.noise)} x "
        f"{name_of(method.noise_scale)}   dt {_show(method.dt)}   walls {method.walls}",
        f"  stiffness: {springs}",
    ]
    try:
        changes = any(callable(p) for p in method.hyperparameters)
        course = [method.behaviour(step / 20) for step in range(21 if changes else 1)]
    except ValueError as reason:
        return "\n".join([*lines, f"  {reason}"])
    unit = (
        "the distance between local and global best"
        if method.noise_scale is noise.spread
        else "the root of the noise scale"
    )
    rows = [
        ("regime", ""),
        ("natural frequency", "radians per unit of time"),
        ("phase", "radians per step"),
        ("period", "steps per swing"),
        ("half-life", "steps"),
        ("stationary spread", f"x {unit}"),
    ]
    for label, what in rows:
        values = [getattr(then, label.replace(" ", "_").replace("-", "_")) for then in course]
        lines.append(f"  {label:<18} {_course(values)} {what}".rstrip())
    return "\n".join(lines)


def _course(values: list[Any]) -> str:
    """The first and the last value, and the range between them if it is wider."""
    shown = [_show(value) for value in values]
    if len(set(shown)) == 1:
        return shown[0]
    ends = f"{shown[0]} to {shown[-1]}"
    if any(isinstance(value, str) or np.ndim(value) for value in values):
        return ends
    low, high = (_show(extreme(values)) for extreme in (min, max))
    return ends if {low, high} <= {shown[0], shown[-1]} else f"{ends} ({low} to {high} in between)"


def representation(method: PAO) -> str:
    """``repr`` with the names of functions instead of their addresses."""
    numbers = ", ".join(f"{name}={_show(getattr(method, name))}" for name in ("mass", "damping"))
    springs = ", ".join(_show(k) for k in method.stiffness)
    pulls = ", ".join(name_of(pull) for pull in method.attractors)
    comma = "," if len(method.stiffness) == 1 else ""
    return (
        f"PAO({numbers}, stiffness=({springs}{comma}), noise={_show(method.noise)}, dt={_show(method.dt)}, "
        f"attractors=({pulls}{comma}), noise_scale={name_of(method.noise_scale)}, walls={method.walls!r})"
    )


def warn_if_unhealthy(method: PAO) -> None:
    """Warn about a swarm that will stagnate or never settle; see `concerns`."""
    if not _says_nothing.get():
        for concern in concerns(method):
            warnings.warn(concern, HyperparameterWarning, stacklevel=4)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Make methods without their warnings, in this thread only; `concerns` still tells them."""
    token = _says_nothing.set(True)
    try:
        yield
    finally:
        _says_nothing.reset(token)


def concerns(method: PAO) -> list[str]:
    """Return what speaks against these hyperparameters: a swarm that will stagnate or never settle, with the number.

    The limits were measured for the default attractors and noise scale, and are not applied to others.

    Examples
    --------
    >>> import paoswarm as ps
    >>> concerns(ps.PAO())
    []
    """
    found = []
    if not callable(method.dt) and not isinstance(method.dt, Adaptive) and np.all(np.asarray(method.dt) == 0):
        found.append("dt is 0: no particle will ever move")
    usual = (attractors.local_best, attractors.global_best)
    if tuple(method.attractors) != usual or method.noise_scale is not noise.spread:
        return found
    if any(isinstance(p, Adaptive) for p in method.hyperparameters):
        return found
    late = of(method.at(1.0))  # the end of a run decides
    rho, zeta = np.min(late.stationary_spread), np.min(np.asarray(method.at(1.0).damping, dtype=float))
    momentum = zeta < 0.5 and np.min(late.phase) < 1  # a particle that swings past its attractor needs less noise
    widest = np.max(late.stationary_spread)
    if rho < STAGNATES_BELOW and not momentum:
        advice = f"below {STAGNATES_BELOW} the swarm tends to stagnate early; lower damping or raise noise"
    elif widest > SCATTERS_ABOVE:
        rho, advice = widest, f"above {SCATTERS_ABOVE} the swarm does not contract; raise damping or lower noise"
    elif widest > SLOW_ABOVE:
        rho, advice = widest, f"above {SLOW_ABOVE} the swarm contracts slowly; raise damping or lower noise"
    else:
        return found
    return [*found, f"the stationary spread is {rho:.3g}: {advice}"]


def _regime(zeta: Any) -> str:
    names = {
        "undamped": zeta == 0,
        "underdamped": (zeta > 0) & (zeta < 1),
        "critical": zeta == 1,
        "overdamped": zeta > 1,
    }
    return " and ".join(name for name, where in names.items() if np.any(where))


def _plain(number: Any) -> Any:
    return float(number) if np.ndim(number) == 0 else number


def _show(parameter: Any) -> str:
    if isinstance(parameter, str):
        return parameter
    if isinstance(parameter, Adaptive):
        return "adaptive"
    if callable(parameter):
        return _course([parameter(step / 20) for step in range(21)])
    if np.ndim(parameter) > 0:
        return f"{np.min(parameter):.4g}..{np.max(parameter):.4g}"
    return f"{parameter:.4g}"
