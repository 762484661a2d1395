"""Points to the user's function, in the way that the options say: here, in one call, by a map-like, or by workers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from paoswarm._checks import flag
from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.call_options import CallOptions
from paoswarm.evaluate.calls import Answers, Objective, call_row, call_rows, call_vectorized
from paoswarm.evaluate.dispatch import Dispatcher
from paoswarm.evaluate.engines import EngineDown, InProcessEngine
from paoswarm.evaluate.executors import open_engine
from paoswarm.evaluate.interrupts import interruptible

_TASK = 0.05  # seconds of work in one task: cheap points are sent together
_WASTED = 5.0  # seconds lost by sending points that this process would have evaluated sooner, worth a warning

End = KeyboardInterrupt | EngineDown | None  # what ended evaluation early
Finished = Callable[[int, Answers], None]


class Caller:
    """Calls a function of rows; it may own worker processes, which `close` ends.

    Attributes
    ----------
    vectorized : bool
        Whether the function takes many points at once.
    is_parallel : bool
        Whether points are sent elsewhere, so that large batches pay.
    tells_each : bool
        Whether answers come one at a time, or as workers finish them, and not all at the end.
    """

    def __init__(self, fun: Objective, options: CallOptions) -> None:
        self._fun = fun
        self.vectorized = flag("vectorized", options.vectorized)
        self._map: Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]] | None = None
        self._seconds, self._n_sent = 0.0, 0  # work of all workers, and the points it was for
        self._worked = self._waited = 0.0  # work, and time by the clock, after the first batch has started the workers
        workers, policy = options.workers.workers, options.workers.retry_policy
        self._one_by_one = policy.limit is not None
        engine = open_engine(workers, fun, options.vectorized, policy)
        self._dispatcher = None if engine is None else Dispatcher(engine, policy.retries)
        if engine is None and callable(workers):
            self._map = workers
            if policy.limit is not None:
                raise ValueError("timeout needs processes or an executor as workers: a map-like cannot be stopped")
        self.is_parallel = engine is not None or self._map is not None
        self.tells_each = not self.vectorized and self._map is None

    def close(self) -> None:
        """End the workers."""
        if self._dispatcher is not None:
            self._dispatcher.close()

    def dispatcher(self) -> Dispatcher:
        """What sends points one at a time."""
        if self._map is not None:
            raise ValueError("asynchronous=True needs processes or an executor as workers, not a map-like")
        if self._dispatcher is None:
            self._dispatcher = Dispatcher(InProcessEngine(self._fun, self.vectorized), 0)
        return self._dispatcher

    def warn(self) -> None:
        """Warn about time that was wasted by sending cheap points."""
        if self._waited - self._worked > _WASTED:
            warn_user(
                f"the function was busy for {self._worked:.2g} s at {self._n_sent} points, but sending and waiting "
                f"took {self._waited:.2g} s: workers=1 would be faster, or vectorized=True"
            )

    def __call__(self, x: Floats, deadline: float | None, finished: Finished | None) -> tuple[Answers, End]:
        """Answers for as many rows as time allows, and what ended it early.

        ``finished(first, answers)`` is called with consecutive rows as soon as they are known.
        """
        if self._dispatcher is not None:
            return self._by_workers(self._dispatcher, x, deadline, finished)
        if self._map is not None:
            answers: Any = []
            with interruptible():
                for answer in self._map(partial(call_row, self._fun, self.vectorized), list(x.copy())):
                    answers.append(answer)
                    if finished is not None and len(answers) <= len(x):
                        finished(len(answers) - 1, [answer])
            if len(answers) != len(x):
                raise ValueError(f"workers returned {len(answers)} values for {len(x)} points; a map returns one each")
            return answers, None
        if not self.vectorized:
            return call_rows(self._fun, x, deadline, finished)
        return call_vectorized(self._fun, x, finished), None

    def _by_workers(
        self,
        workers: Dispatcher,
        x: Floats,
        deadline: float | None,
        finished: Finished | None,
    ) -> tuple[Answers, End]:
        size = self._task_size(len(x), workers.slots)
        for first in range(0, len(x), size):
            workers.send(first, x[first : first + size])
        answers: list[Any] = [None] * len(x)
        end: End = None
        is_warm, began, before = self._n_sent > 0, time.monotonic(), self._seconds

        def collect(timeout: float | None) -> None:
            for first, some, seconds in workers.receive(timeout):
                self._seconds += seconds
                self._n_sent += len(some)
                answers[first : first + len(some)] = some
                if finished is not None:
                    finished(first, some)

        try:
            while workers.is_busy:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    left = None  # wait for what is being evaluated
                    if answers[0] is not None:
                        workers.withdraw()
                        if not workers.is_busy:
                            break
                collect(left)
        except (KeyboardInterrupt, EngineDown) as error:
            end = error
            with suppress(KeyboardInterrupt, EngineDown):  # what has arrived meanwhile
                collect(0.0)
            workers.give_up()
        if is_warm:
            self._waited += time.monotonic() - began
            self._worked += self._seconds - before
        known = [answer is not None for answer in answers]
        return (answers if all(known) else answers[: known.index(False)]), end

    def _task_size(self, m: int, slots: int | None) -> int:
        """Points of one task: enough to be worth sending, but so that every worker has some."""
        if self._one_by_one:
            return 1
        share = math.ceil(m / (slots or m))
        if self.vectorized or not self._n_sent:
            return share if self.vectorized else 1
        each = self._seconds / self._n_sent
        return max(1, min(share, int(_TASK / max(each, 1e-9))))
