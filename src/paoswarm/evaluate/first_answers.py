"""Notice after a few calls that the function fails everywhere because of a mistake in its code.

A simulator may well fail at the first points, and in the same way; the run then goes on until its first swarm is known.
But a misspelt name fails at all points. So the first answers are watched until one of them is a value:

- The same `NameError`, `ImportError`, `SyntaxError`, `TypeError` or `AttributeError` at the first three calls ends the
  run. So does NumPy's complaint about too many indices.
- The same `KeyError`, `IndexError`, `UnboundLocalError` or `FileNotFoundError`, or an error about ``None``, ends it
  after ten: these may also mean that a simulation has left no result.
- Any other error may depend on the point.
"""

from __future__ import annotations

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import RAISED, Failed

_SURE, _LIKELY = 3, 10  # calls
_MISTAKES = {"NameError", "ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TypeError"}
_MISTAKES |= {"AttributeError"}
_MAY_BE_RESULTS = {"KeyError", "IndexError", "UnboundLocalError", "FileNotFoundError"}


class FirstAnswers:
    """The first answers of a function, as long as all of them are the same mistake.

    Attributes
    ----------
    is_over : bool
        Whether an answer was something else, so that there is nothing to watch for.
    n_same : int
        How many answers were the same mistake.
    first : (x, Failed) or None
        The first of them.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.n_same = 0
        self.first: tuple[Floats, Failed] | None = None

    @property
    def is_suspicious(self) -> bool:
        """Whether there were answers, and all were the same mistake."""
        return self.n_same > 0 and not self.is_over

    def look(self, x: Floats, answer: float | Failed) -> bool:
        """Look at one more answer; return whether the function will fail everywhere."""
        if self.is_over:
            return False
        calls = _calls_that_prove(answer) if isinstance(answer, Failed) else None
        if not isinstance(answer, Failed) or calls is None or not self._is_same(answer):
            self.is_over = True
            return False
        self.first = self.first or (x.copy(), answer)
        self.n_same += 1
        return self.n_same >= calls

    def _is_same(self, failed: Failed) -> bool:
        return self.first is None or self.first[1].reason == failed.reason


def _calls_that_prove(failed: Failed) -> int | None:
    """After how many calls with this answer it must be a mistake in the code; None for errors of any other kind."""
    name, _, text = failed.reason.removeprefix(f"{RAISED} ").partition(":")
    if failed.kind != RAISED or name not in _MISTAKES | _MAY_BE_RESULTS:
        return None
    is_sure = "too many indices" in text if name in _MAY_BE_RESULTS else "NoneType" not in text
    return _SURE if is_sure else _LIKELY
