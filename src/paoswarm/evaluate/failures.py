"""Failed evaluations: counted, the first ones kept, explained, and noticed early if the code is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import CONSTRAINT, PROGRAM_FAILED, RAISED, Failed

_REMEMBERED = 10  # failures kept with their message
_NAMED = 12  # most names in a message
_SURE, _LIKELY = 3, 10  # calls with the same mistake
_MISTAKES = {"NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TypeError"}
_MISTAKES |= {"AttributeError"}
_OF_THIS_RUN = re.compile(r"; it ends with | \(in ")
_MAY_BE_RESULTS = {"KeyError", "IndexError", "UnboundLocalError", "FileNotFoundError"}


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
        self._raised: dict[str, tuple[int, Failure]] = {}  # how often who raised an exception, and where first

    def add(self, x: Floats, failed: Failed) -> None:
        """Note that a point has failed."""
        self.kinds[failed.kind] += 1
        failure = Failure(x.copy(), failed.reason)
        if failed.kind == RAISED or (failed.kind == CONSTRAINT and f" {RAISED} " in failed.reason):
            who = "the function" if failed.kind == RAISED else "a constraint"
            count, first = self._raised.get(who, (0, failure))
            self._raised[who] = count + 1, first
            self.cause = self.cause or failed.error
        if len(self.first) < _REMEMBERED:
            self.first.append(failure)

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
        for who in ("the function", "a constraint"):
            if who in self._raised:
                count, (x, reason) = self._raised[who]
                points = "1 point, which counts" if count == 1 else f"{count} points, which count"
                warn_user(f"{who} raised an exception at {points} as {worth}; first at {self.text(x)}: {reason}")


def what_it_receives(names: Sequence[str], vectorized: bool) -> str:
    """What a function of named variables is called with, for messages."""
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"it receives a dict of {'arrays (m,)' if vectorized else 'values'} with the names {shown}"


class FirstAnswers:
    """The first answers of a function, as long as all of them are the same mistake in its code.

    A simulator may well fail at the first points, and in the same way; the run then goes on until its first swarm is
    known. But a misspelt name fails at all points:

    - The same `NameError`, `ImportError`, `SyntaxError`, `TypeError` or `AttributeError` at the first three calls ends
      the run. So does NumPy's complaint about too many indices.
    - The same `KeyError`, `IndexError`, `UnboundLocalError` or `FileNotFoundError`, or an error about ``None``, ends it
      after ten: these may also mean that a simulation has left no result.
    - So does the same `WrongOutput` of a program: a column that is missing, or times that do not reach all data.
    - Any other error may depend on the point.

    Attributes
    ----------
    is_over : bool
        Whether an answer was something else, so that there is nothing to watch for.
    n_same : int
        How many answers were the same mistake.
    failure : (x, Failed) or None
        The first of them.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.n_same = 0
        self.failure: tuple[Floats, Failed] | None = None

    @property
    def is_suspicious(self) -> bool:
        """Whether there were answers, and all were the same mistake, but too few to be sure."""
        return self.n_same > 0 and not self.is_over

    def look(self, x: Floats, answer: float | Failed) -> bool:
        """Look at one more answer; return whether the function will fail everywhere."""
        calls = _calls_that_prove(answer) if isinstance(answer, Failed) else None
        if self.is_over or calls is None or not isinstance(answer, Failed):
            self.is_over = True
            return False
        self.failure = self.failure or (x.copy(), answer)
        self.is_over = _cause(self.failure[1]) != _cause(answer)
        self.n_same += not self.is_over
        return not self.is_over and self.n_same >= calls


def _cause(failed: Failed) -> str:
    """The reason, without the end of a program's output and the folder of its run."""
    return _OF_THIS_RUN.split(failed.reason)[0] if failed.wrong_output else failed.reason


def _calls_that_prove(failed: Failed) -> int | None:
    """After how many calls with this answer it must be a mistake in the code; None for errors of any other kind."""
    if failed.wrong_output:
        return _LIKELY
    name, _, text = failed.reason.removeprefix(f"{RAISED} ").partition(":")
    if failed.kind != RAISED or name not in _MISTAKES | _MAY_BE_RESULTS:
        return None
    is_sure = "too many indices" in text if name in _MAY_BE_RESULTS else "NoneType" not in text
    return _SURE if is_sure else _LIKELY
