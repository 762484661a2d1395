"""Failed evaluations: counted, the first ones kept, and explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import CONSTRAINT, PROGRAM_FAILED, RAISED, Failed

_REMEMBERED = 10  # failures kept with their message
_NAMED = 12  # most names in a message


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

    def __init__(self, text: Callable[[Floats], str] = "x = {}".format) -> None:
        self.text = text  # of a point
        self.first: list[Failure] = []
        self.kinds: Counter[str] = Counter()
        self.cause: BaseException | None = None
        self._first_raised: Failure | None = None
        self._first_constraint: Failure | None = None  # that raised
        self._n_constraints_raised = 0

    def add(self, x: Floats, failed: Failed) -> None:
        """Count a failed point."""
        self.kinds[failed.kind] += 1
        if failed.kind == RAISED:
            self._first_raised = self._first_raised or Failure(x.copy(), failed.reason)
            self.cause = self.cause or failed.error
        if failed.kind == CONSTRAINT and f" {RAISED} " in failed.reason:
            self._first_constraint = self._first_constraint or Failure(x.copy(), failed.reason)
            self._n_constraints_raised += 1
            self.cause = self.cause or failed.error
        if len(self.first) < _REMEMBERED:
            self.first.append(Failure(x.copy(), failed.reason))

    @property
    def is_of_constraints(self) -> bool:
        """Whether nothing but constraints has failed."""
        return set(self.kinds) == {CONSTRAINT}

    def explain(self, *, vectorized: bool, names: Sequence[str] | None = None) -> str:
        """Where and how the function failed first, and what may be wrong with it."""
        why = f"the first, at {self.text(self.first[0].x)}, {self.first[0].reason}" if self.first else "all were +inf"
        if self.is_of_constraints:
            return f"{why}; a constraint must return a number everywhere, at most 0 where a point is allowed"
        if self.first and self.first[0].reason.startswith(PROGRAM_FAILED):
            return why
        form = "; with vectorized=True it receives an array (m, d), one point per row" if vectorized else ""
        lacks_arguments = "required positional argument" in why
        if names is not None:
            form = f"; {what_it_receives(names, vectorized)}"
            form += " (for separate arguments, write lambda p: fun(**p))" if lacks_arguments else ""
        elif lacks_arguments:
            form = "; give its other arguments as args=(...)"
        if not vectorized and names is None and isinstance(self.cause, IndexError):
            form = "; it receives one point of shape (d,): if it is written for many points, add vectorized=True"
        return why + form

    def warn(self, worth: str) -> None:
        """Warn about exceptions that were survived, so that a bug in ``fun`` cannot hide."""
        for who, count, first in (
            ("the function", self.kinds[RAISED], self._first_raised),
            ("a constraint", self._n_constraints_raised, self._first_constraint),
        ):
            if first is not None:
                points = "1 point, which counts" if count == 1 else f"{count} points, which count"
                warn_user(
                    f"{who} raised an exception at {points} as {worth}; first at {self.text(first.x)}: {first.reason}"
                )


def what_it_receives(names: Sequence[str], vectorized: bool) -> str:
    """What a function of named variables is called with, for messages."""
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"it receives a dict of {'arrays (m,)' if vectorized else 'values'} with the names {shown}"
