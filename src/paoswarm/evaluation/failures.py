"""Failed evaluations: counted, the first ones kept, and explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import RAISED, Failed
from paoswarm.warn_user import warn_user

_REMEMBERED = 10  # failures kept with their message


class Failure(NamedTuple):
    """A point whose evaluation failed, and why."""

    x: Floats
    reason: str


class FailureLog:
    """What has failed so far.

    Attributes
    ----------
    first : list of Failure
        The first ten.
    kinds : Counter
        How many points failed in which way.
    cause : BaseException or None
        The first exception that the function raised in this process.
    """

    def __init__(self, text: Callable[[Floats], str] = lambda x: f"x = {x}") -> None:
        self.text = text  # of a point
        self.first: list[Failure] = []
        self.kinds: Counter[str] = Counter()
        self.cause: BaseException | None = None
        self._first_raised: Failure | None = None

    def add(self, x: Floats, failed: Failed) -> None:
        """Count a failed point."""
        self.kinds[failed.kind] += 1
        if failed.kind == RAISED:
            self._first_raised = self._first_raised or Failure(x.copy(), failed.reason)
            self.cause = self.cause or failed.error
        if len(self.first) < _REMEMBERED:
            self.first.append(Failure(x.copy(), failed.reason))

    def explain(self, *, vectorized: bool, is_named: bool = False) -> str:
        """Where and how the function failed first, and what may be wrong with it."""
        why = f"the first, at {self.text(self.first[0].x)}, {self.first[0].reason}" if self.first else "all were +inf"
        form = "; with vectorized=True it receives an array (m, d), one point per row" if vectorized else ""
        if is_named:
            form = f"; it receives a dict of {'arrays (m,)' if vectorized else 'values'} by name"
        if "required positional argument" in why:
            form = "; give its other arguments as args=(...)"
        if not vectorized and not is_named and isinstance(self.cause, IndexError):
            form = "; it receives one point of shape (d,): if it is written for many points, add vectorized=True"
        return why + form

    def warn(self, worth: str) -> None:
        """Warn about exceptions that were survived, so that a bug in ``fun`` cannot hide."""
        if self._first_raised is not None:
            warn_user(
                f"fun raised an exception at {self.kinds[RAISED]} points, which count as {worth}; first at "
                f"{self.text(self._first_raised.x)}: {self._first_raised.reason}"
            )
