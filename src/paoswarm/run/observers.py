"""What is kept of every generation of a run, and the user's callback, called after it as SciPy does."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.interrupts import interruptible
from paoswarm.run.result import Result

if TYPE_CHECKING:
    from paoswarm.run.run_state import RunState


@dataclass
class History:
    """One entry per generation, the first swarm included.

    Attributes
    ----------
    best : array
        Best value so far; with ``reevaluate`` a mean, which may rise.
    mean : array
        Mean of the finite values of the present swarm.
    spread : array
        Root mean square distance of the particles from the best, in widths of the bounds.
    nfev : array
        Evaluations so far.
    violation : array
        With constraints: the total violation of the best point, zero once one is feasible. Until then ``best`` is +inf.
    """

    best: Floats = field(default_factory=lambda: np.empty(0))
    mean: Floats = field(default_factory=lambda: np.empty(0))
    spread: Floats = field(default_factory=lambda: np.empty(0))
    nfev: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    violation: Floats = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.best)


class Recorder:
    """Collects what a run looks like after every generation; of a batch of runs ``only_best`` values."""

    def __init__(self, *, only_best: bool = False) -> None:
        self._only_best = only_best
        self._best: list[Floats] = []
        self._violations: list[float] = []
        self._rows: list[tuple[float, float, int]] = []

    def record(self, state: RunState) -> None:
        """Add a generation."""
        self._best.append(state.shown_value)
        if self._only_best:
            return
        assert state.swarm is not None
        values = state.swarm.value.tolist()  # plain numbers: infinite sums raise no warnings
        if state.judge.n_constraints:
            values = [value if order.is_feasible(value) else math.inf for value in values]
            self._violations.append(float(order.violation(np.float64(state.incumbent.value))))
        mean = sum(values) / len(values)
        if not math.isfinite(mean):
            finite = [value for value in values if math.isfinite(value)]
            mean = sum(finite) / len(finite) if finite else math.inf
        self._rows.append((mean, float(state.spread), state.nfev))

    def best(self, state: RunState) -> Floats:
        """The best values ``(runs, generations)`` of each run."""
        return np.stack([np.atleast_1d(value) for value in self._best or [state.shown_value]], axis=-1)

    def history(self) -> History:
        """Everything so far, as arrays."""
        mean, spread, nfev = (np.asarray(column) for column in list(zip(*self._rows, strict=True)) or [(), (), ()])
        best, violation = np.array(self._best, dtype=float), np.array(self._violations, dtype=float)
        return History(best, mean, spread, nfev.astype(np.int64), violation)


Notify = Callable[[Callable[[], Result]], bool]  # calls back with what it is given; whether the run should stop


def read_callback(callback: Callable[..., Any] | None) -> Notify | None:
    """The callback as a function of a function that makes the result so far; None if there is none.

    SciPy's contract: a parameter called ``intermediate_result`` receives the whole result, any other the best point.
    """
    if callback is None:
        return None
    if not callable(callback):
        raise TypeError(f"callback must be callable, got {callback!r}")
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):  # a builtin without signature
        signature = inspect.signature(lambda x: None)
    wants_result = "intermediate_result" in signature.parameters
    try:
        signature.bind(intermediate_result=None) if wants_result else signature.bind(None)
    except TypeError as error:
        raise TypeError(
            "callback must take one argument. Name it intermediate_result to get the whole result; any other name gets "
            f"the best point. {callback!r} cannot be called so: {error}"
        ) from None

    def notify(so_far: Callable[[], Result]) -> bool:
        result = so_far()
        try:
            with interruptible():
                wish = callback(intermediate_result=result) if wants_result else callback(result.best)
        except StopIteration:
            return True
        except AttributeError as error:
            if not wants_result:
                error.add_note(
                    "The callback got the best point alone, because its parameter is not called intermediate_result. "
                    "Rename it to get the whole result: def callback(intermediate_result): ..."
                )
            raise
        return wish is True or (isinstance(wish, np.bool_) and bool(wish))

    return notify
