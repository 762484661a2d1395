"""Runs that wait for no slow point: particles move one at a time, or generations are made of whatever is back."""

from __future__ import annotations

import time
from collections.abc import Generator

import numpy as np

from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.queue import Answer, Batch, KnownPoints, PointQueue
from paoswarm.run.beside import is_worth_it
from paoswarm.run.run import NoFiniteValue, Observe, Run, Steps, StopAll, rule_of, status_of
from paoswarm.run.run_state import RunState
from paoswarm.run.single_points import Generations, Particles, SinglePoints
from paoswarm.run.stopping import Limits, Rule, Status


class AsynchronousRun(Run):
    """Take a run to its end that takes values one at a time, in any order.

    The clock and the target are checked after every value, other limits after every generation. When time is up, the
    points that are being evaluated are waited for; when the target is reached, they are not.
    """

    def __init__(self, state: RunState, limits: Limits, observe: Observe, queue: PointQueue) -> None:
        super().__init__(state, limits, observe)
        self._queue = queue
        self._points: SinglePoints = Particles(state) if state.method.moves_singly else Generations(state)
        self._known: KnownPoints | None = None

    def _course(self) -> Steps:
        state, points = self.state, self._points
        status: Status | None = None
        try:
            if state.n_to_start == 0:  # a run that is continued
                status = self._reached()
            while status is None:
                may_ask = self._may_ask()
                if may_ask and points.settle():
                    status = self._after_generation()
                    continue
                x = points.ask(self.limits.progress(points.generations, state.nfev)) if may_ask else None
                if x is None and points.n_out == 0:
                    status = Status.TIME
                    break
                answer: Answer | None = yield [] if x is None else [Batch(x[None])]
                if answer is not None:
                    status = self._tell_one(answer)
            if not points.is_complete and status in (Status.TIME, Status.MAXFEV, Status.TARGET):
                points.cut_short()
                status = self._after_generation() or status
        except (KeyboardInterrupt, EngineDown, StopAll) as error:
            if state.swarm is None or state.incumbent.value == np.inf:
                raise
            if not points.is_complete:
                points.cut_short()
                self._observe(state)
            status, self._why = status_of(error)
        yield from self._finish(status)
        nit, nfev = np.asarray(state.nit), np.asarray(state.nfev)  # values may have come since it has ended
        return self.so_far._replace(nit=nit, nfev=nfev)

    def _finish(self, status: Status) -> Generator[list[Batch], Answer, None]:
        """Give up what is being evaluated, and look around the place where the run has stopped, if it has converged."""
        self._queue.close()
        self._end(status)
        rule = rule_of(self._known) or self.state.has_converged(self.limits.tol)
        self._rule = np.asarray(Rule.NONE if rule is None else rule)
        if status is Status.CONVERGED and is_worth_it(self._rule, self.limits.tol):
            try:
                yield from self._look_around(np.asarray(True))
            except (KeyboardInterrupt, EngineDown, StopAll) as error:
                ended, self._why = status_of(error)
                self._status = np.asarray(ended)

    def _may_ask(self) -> bool:
        """Whether there is room, time and budget for another point."""
        limits, nfev = self.limits, self.state.nfev
        late = limits.deadline is not None and nfev > 0 and time.monotonic() >= limits.deadline
        may_ask = self._queue.is_replaying or (not late and self._points.may_ask(limits))
        return may_ask and self._queue.room > 0

    def _tell_one(self, answer: Answer) -> Status | None:
        """Take the value of a point; why the run ends with it, if it does."""
        state = self.state
        self._known = answer.known
        is_generation = self._points.tell(answer)
        if answer.replayed:  # recorded values take no time of this call
            self.limits = self.limits.restarted()
        if is_generation:
            return self._after_generation()
        if state.swarm is not None and self.limits.is_hit(state.incumbent):
            return Status.TARGET
        return Status.MAXFEV if self.limits.maxfev is not None and state.nfev >= self.limits.maxfev else None

    def _after_generation(self) -> Status | None:
        if self.state.incumbent.value == np.inf:
            raise NoFiniteValue
        self._observe(self.state)
        return self._reached()

    def _reached(self) -> Status | None:
        """The limit that holds now, if any but the clock: when time is up, points under way are waited for."""
        state, rule = self.state, rule_of(self._known)
        converged = np.asarray(rule) if rule else state.has_converged(self.limits.tol)
        timeless = self.limits._replace(deadline=None)
        reached = timeless.reached(state.incumbent, converged, state.nit, state.nfev)
        return None if reached is None else Status(int(reached))
