"""What a run returns: SciPy's OptimizeResult, with the swarm, its history and the law of the optimum in it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from paoswarm.core.arrays import Floats
from paoswarm.core.density import StepLaw
from paoswarm.core.optimum_law import OptimumLaw
from paoswarm.core.swarm import Swarm, score
from paoswarm.optimize.hints import advice
from paoswarm.optimize.stopping import Status

if TYPE_CHECKING:
    from paoswarm.optimize.optimizer import Optimizer


@dataclass
class History:
    """One entry per generation, the first swarm included.

    Attributes
    ----------
    best : array
        Best value so far.
    mean : array
        Mean of the finite values of the present swarm.
    spread : array
        Root mean square distance of the particles from the best, in widths of the box.
    nfev : array
        Evaluations so far.
    swarms : list of Swarm
        Whole swarms; empty unless ``store_swarms=True``.
    """

    best: Floats = field(default_factory=lambda: np.empty(0))
    mean: Floats = field(default_factory=lambda: np.empty(0))
    spread: Floats = field(default_factory=lambda: np.empty(0))
    nfev: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    swarms: list[Swarm] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.best)


class Recorder:
    """Collects the history of one run, a few numbers a generation."""

    def __init__(self, store_swarms: bool) -> None:
        self._rows: list[tuple[float, float, float, int]] = []
        self._swarms: list[Swarm] = []
        self._store_swarms = store_swarms

    def record(self, swarm: Swarm, spread: float, nfev: int) -> None:
        """Add a generation."""
        values = swarm.value.tolist()  # plain numbers: no warnings of infinite sums
        mean = sum(values) / len(values)
        if not math.isfinite(mean):
            finite = [value for value in values if math.isfinite(value)]
            mean = sum(finite) / len(finite) if finite else math.inf
        self._rows.append((float(swarm.global_value), mean, spread, nfev))
        if self._store_swarms:
            self._swarms.append(swarm)

    def history(self) -> History:
        """Everything so far, as arrays."""
        columns = list(zip(*self._rows, strict=True)) or [(), (), (), ()]
        best, mean, spread, nfev = (np.asarray(column) for column in columns)
        return History(best, mean, spread, nfev.astype(np.int64), list(self._swarms))


class Result(OptimizeResult):
    """What `minimize` returns: an ``OptimizeResult`` whose text is short enough to read.

    Attributes
    ----------
    x : array (d,)
        The best point.
    fun : float
        Its value; with ``reevaluate`` the mean of its measurements.
    fun_error : float or None
        Standard error of that mean; None where nothing was measured twice. The point was chosen for its mean, so
        ``fun`` is too good by about two of these.
    success : bool
        Whether the run ended as planned: neither the callback nor an interrupt stopped it. It does not say that the
        minimum is the global one.
    status, message : Status, str
        Why it ended.
    nit, nfev, n_failed : int
        Generations, evaluated points, and those of them that failed.
    failures : list of Failure
        The first ten failed points, ``(x, reason)``.
    failure_kinds : Counter
        How many failed in which way: ``raised``, ``returned NaN``, ``no number``, ``timed out``, ``died``.
    history : History
        Best, mean, spread and evaluations after every generation.
    swarm : Swarm
        The final state; ``init=result.swarm`` continues from it.
    method : Method
        The method that was used.
    progress : float
        How far the run was, in [0, 1]: where its schedules stand.
    optimum : OptimumLaw or None
        Where the optimum may be, as a distribution; None for methods other than `PAO`, whose steps have no closed form.
        It is the swarm's, as is ``history``: what ``polish`` adds is not in them.
    hint : str
        What the swarm suggests to try next: noise that follows a narrow valley, a wider box where unknowns lie on their
        bounds; mostly empty.
    """

    x: Floats
    fun: Any
    fun_error: float | None
    success: Any
    status: Any
    message: Any
    nit: Any
    nfev: Any
    n_failed: Any
    failures: list[Any]
    failure_kinds: Counter[str]
    history: Any
    swarm: Swarm
    method: Any
    progress: Any
    optimum: Any  # OptimumLaw, or None

    def __init__(self, **fields: Any) -> None:
        self.update(fields)

    @property
    def hint(self) -> str:
        """What the swarm suggests to try next; mostly empty."""
        return advice(self) if {"method", "swarm", "history"} <= self.keys() else ""

    def step_law(self) -> StepLaw:
        """Closed-form law of the swarm's next step; only `PAO` has one."""
        if not self.method.has_law:
            raise ValueError(f"the step of {type(self.method).__name__} has no closed-form law; that of PAO has")
        return self.method.step_law(self.swarm, self.progress, rng=0)

    def __repr__(self) -> str:
        lines = [f"{'message':>9}: {self.message}"] if isinstance(self.get("message"), str) else []
        for name in ("success", "status", "fun", "fun_error", "x", "nit", "nfev", "n_failed"):
            if self.get(name) is not None:
                text = str(int(self[name])) if name == "status" and np.ndim(self[name]) == 0 else str(self[name])
                lines.append(f"{name:>9}: " + text.replace("\n", "\n" + " " * 11))
        if self.get("optimum") is not None:
            lower, upper = self.optimum.interval(0.95)
            lines.append(f"{'optimum':>9}: 95 % between {lower}\n{'':>11}         and {upper}")
        if self.hint:
            lines.append(f"{'hint':>9}: {self.hint}")
        return "\n".join(lines)

    __str__ = __repr__


def describe(status: Status, n_failed: int, nfev: int, kinds: Counter[str] | None = None) -> str:
    """The message of a finished run."""
    if not n_failed:
        return status.message
    how = f" ({', '.join(f'{count} {kind}' for kind, count in kinds.most_common())})" if kinds else ""
    return f"{status.message} {n_failed} of {nfev} evaluations failed and count as +inf{how}."


def current_result(optimizer: Optimizer, status: Status, progress: float = 0.0, **more: Any) -> Result:
    """The result of an optimiser without batch axis, as it stands."""
    swarm = optimizer.swarm
    assert swarm is not None
    if optimizer.batch:
        raise ValueError("a batch of runs has no single result; look at its swarm")
    nfev, n_failed = optimizer.nfev, int(optimizer.n_failed)
    return Result(
        x=swarm.global_best[0].copy(),
        fun=float(swarm.global_value),
        fun_error=standard_error(swarm),
        success=status > 0,
        status=status,
        message=describe(status, n_failed, nfev, more.get("failure_kinds")),
        nit=optimizer.nit,
        nfev=nfev,
        n_failed=n_failed,
        swarm=swarm,
        method=optimizer.method,
        progress=progress,
        optimum=optimum_law(optimizer.method, swarm, progress),
        **more,
    )


def optimum_law(method: Any, swarm: Swarm, progress: float) -> OptimumLaw | None:
    """Where the optimum may be; None for a method whose steps have no closed form."""
    return OptimumLaw(method.step_law(swarm, progress, rng=0), swarm) if method.has_law else None


def standard_error(swarm: Swarm) -> float | None:
    """Standard error of the best value, where measurements were repeated."""
    if swarm.repeats is None or swarm.repeats.freedom == 0:
        return None
    leader = np.argmin(score(swarm.best_value, swarm.repeats))
    return float(swarm.repeats.sd / np.sqrt(max(1.0, swarm.repeats.count[leader])))
