"""A fit as a run: the searches say which points they want, and are told what was simulated there."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.queue import Answer, Batch
from paoswarm.fitting.cells import CellRequest, Cells
from paoswarm.run.run import Ends, NoFiniteValue, Steered, Steps, StopAll, status_of
from paoswarm.run.stopping import Limits, Rule, Status

_MOST_FAILURES = 100  # first points that may all fail


class FitRun(Steered):
    """Take a fit to its end, round by round; or point by point, where values come in any order.

    Parameters
    ----------
    searches : Cells
    limits : Limits
    observe : callable
        Called with the run after every round.
    is_asynchronous : bool
        Whether each point is sent alone.
    n_recorded : int
        How many points a store has, without those that measure the slope at the end of an earlier call. Before these
        are known, no limit begins the end.

    Attributes
    ----------
    nit, nfev, n_failed : int
        Rounds, simulations, and those of them that have failed.
    best, counts : list
        The best value after every round, and how many simulations there were.
    failure_kinds : Counter
    """

    def __init__(
        self,
        searches: Cells,
        limits: Limits,
        observe: Callable[[FitRun], None],
        *,
        is_asynchronous: bool = False,
        n_recorded: int = 0,
    ) -> None:
        self.searches, self._observe, self._is_asynchronous = searches, observe, is_asynchronous
        self._n_recorded = n_recorded
        self.nit = self.nfev = self.n_failed = 0
        self.best: list[float] = []
        self.counts: list[int] = []
        self.failure_kinds: Counter[str] = Counter()
        self._out: dict[int, CellRequest] = {}  # what is being simulated, by number of sending
        self._n_sent = 0
        self._status = Status.RUNNING
        self._why = ""
        super().__init__(limits)

    @property
    def value(self) -> float:
        """The best value so far."""
        return self.searches.value

    def _course(self) -> Steps:
        try:
            while True:
                batch = self._next()
                if batch is None and not self._out:
                    break
                answer: Answer | None = yield [] if batch is None else [batch]
                if answer is not None:
                    self._take(answer)
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            if not math.isfinite(self.value):
                raise
            self._status, self._why = status_of(error)
        if not math.isfinite(self.value):
            raise NoFiniteValue
        if self._status is Status.RUNNING:
            self._status = Status.CONVERGED if self.searches.is_settled else Status.MAXFEV
        rule = Rule.OWN if self._status is Status.CONVERGED else Rule.NONE
        status, nit, nfev, own = (np.array([number]) for number in (self._status, self.nit, self.nfev, rule))
        return Ends(status, nit, nfev, own, self.limits.deadline, self._why)

    def _next(self) -> Batch | None:
        """The next points; None if others must be known first, or if nothing is left to ask."""
        left = math.inf if self.limits.maxfev is None else self.limits.maxfev - self._n_asked
        if left <= self._reserve and math.isfinite(self.value):
            self._finish(Status.MAXFEV)
        if left <= 0 or self._is_late:
            self._status = self._status or (Status.MAXFEV if left <= 0 else Status.TIME)
            return None
        room = 1 if self._is_asynchronous else self.searches.at_once
        requests = self.searches.ask(int(min(room, left)))
        if not requests:
            return None
        for request in requests:
            self._out[self._n_sent] = request
            self._n_sent += 1
        points = np.array([self.searches.coordinates(request) for request in requests])
        # With other limits the searches would go on from here: then the slope is measured again later.
        return Batch(points, True, self.limits.deadline, is_beyond=self.searches.is_finishing)

    @property
    def _n_asked(self) -> int:
        """Points that were simulated, or are being."""
        return self.nfev + len(self._out)

    def _finish(self, why: Status) -> None:
        """Begin no more searches, if no more points are recorded: only the slope at the best one is left to measure."""
        if not self.searches.is_finishing and self._n_asked >= self._n_recorded:
            if not self.searches.is_settled:
                self._status = self._status or why
            self.searches.finish()

    def _take(self, answer: Answer) -> None:
        """Tell the searches what was simulated."""
        first = answer.number if self._is_asynchronous else self._n_sent - len(self._out)
        for number, row in enumerate(np.atleast_2d(answer.values.T).T, first):
            request = self._out.pop(number)
            is_known = math.isfinite(row[0])
            self.nfev += 1
            self.n_failed += not is_known
            self.searches.tell(request, row[1:] if is_known else np.empty(0))
        self.failure_kinds.update(answer.failed.values())
        if answer.replayed:  # recorded values take no time of this call
            self.limits = self.limits.restarted()
        self.nit += 1
        self.best.append(self.value)
        self.counts.append(self.nfev)
        if self.n_failed == self.nfev >= _MOST_FAILURES:
            raise NoFiniteValue
        if math.isfinite(self.value):
            self._observe(self)
        if answer.end is not None:
            raise answer.end
        if self.limits.target is not None and self.value <= self.limits.target:
            self._finish(Status.TARGET)
        if not self._is_asynchronous:
            self._out.clear()  # not simulated, because time was up

    @property
    def _is_late(self) -> bool:
        return self.nfev > 0 and self.limits.deadline is not None and time.monotonic() >= self.limits.deadline

    @property
    def _reserve(self) -> int:
        """Simulations that are set aside for the slope at the best point, if there are enough for a search."""
        needed = self.searches.n_to_finish
        return needed if self.limits.maxfev is not None and self.limits.maxfev > 3 * needed else 0
