"""The loop behind `minimize` and `minimize_many`: runs want points, a queue evaluates them, runs take the values."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import numpy as np

from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.queue import Answer, Batch, Queue
from paoswarm.run.run import Ends, NoFiniteValue, StopAll
from paoswarm.run.run_state import RunState
from paoswarm.run.stopping import Limits, Status

Returned = TypeVar("Returned")
_MORE: list[tuple[int, Answer | None]] = [(0, None)]  # there is room for more points of the first run


class Driven(Protocol):
    """What the loop needs to know of a run: a `Run`, or all runs inside a compiled engine."""

    limits: Limits
    ends: Ends | None

    def send(self, answer: Answer | None) -> list[Batch]:
        """Take values, and return the batches that are wanted next."""

    def throw(self, error: BaseException) -> list[Batch]:
        """End it from outside."""


class Evaluates(Protocol):
    """What the loop needs to know of what evaluates batches: a `Queue`, or a compiled engine."""

    @property
    def room(self) -> float:
        """How many more points keep workers busy that are idle."""

    def send(self, run: int, batch: Batch) -> Any:
        """Queue a batch of a run."""

    def receive(self, deadline: float | None) -> Sequence[tuple[int, Answer | None]]:
        """Answers, each with the number of its run."""

    def explain_total_failure(self) -> ValueError:
        """The error for a first swarm without a single finite value."""


def drive(runs: Sequence[Driven], queue: Evaluates, after_round: Callable[[], bool] = lambda: False) -> None:
    """Take runs to their ends (``run.ends``).

    ``after_round`` is called when runs have had values, and may end them all by returning True. An interrupt, or the
    loss of the workers, ends them too; each keeps the best of its evaluations.
    """
    n_going = len(runs)

    def deliver(answers: Sequence[tuple[int, Answer | None]]) -> bool:
        """Give runs their values, and queue the batches that they want next; whether there are any."""
        nonlocal n_going
        wants_more = was_interrupted = False
        for number, answer in answers:
            run = runs[number]
            for batch in run.send(answer):
                queue.send(number, batch)
                wants_more = True
            if run.ends is not None:
                n_going -= 1
                was_interrupted |= bool((run.ends.status == Status.INTERRUPTED).any())
        if was_interrupted and n_going:
            raise KeyboardInterrupt  # it came while one swarm was moved: the other runs end, too
        return wants_more

    try:
        deliver([(number, None) for number in range(len(runs))])
        while n_going:
            while n_going and queue.room > 0 and deliver(_MORE):  # a run that takes values in any order is alone
                pass
            if not n_going:
                break
            answers = queue.receive(runs[0].limits.deadline)
            deliver(answers)
            if answers and after_round():
                raise StopAll
    except (KeyboardInterrupt, EngineDown, StopAll) as error:
        for run in runs:
            if run.ends is None:
                run.throw(error)
    except NoFiniteValue:
        failure = queue.explain_total_failure()
        raise failure from failure.__cause__


def drive_alone(steps: Generator[list[Batch], Any, Returned], queue: Queue) -> Returned:
    """Take one search to its end that is not part of a run."""
    try:
        batches = next(steps)
        while True:
            for batch in batches:
                queue.send(0, batch)
            batches = steps.send(queue.receive()[0][1])
    except StopIteration as finished:
        returned: Returned = finished.value
        return returned


@contextmanager
def naming_the_best(states: Sequence[RunState]) -> Iterator[None]:
    """Add the best point so far to an error that ends runs, in a user's attractor for example."""
    try:
        yield
    except Exception as error:
        known = [one for one in states if one.swarm is not None and one.nfev and np.isfinite(one.incumbent.value).any()]
        if len(known) == 1 and not known[0].batch:
            (state,) = known
            best = f"{state.incumbent.value} at {state.space.text(state.best.x)}"
            error.add_note(f"The best of the {state.nfev} evaluations before this error: {best}")
        raise
