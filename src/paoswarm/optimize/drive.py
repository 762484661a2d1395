"""The loop behind `minimize` and `minimize_many`: runs want points, a queue evaluates them, runs take the values."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.queue import Answer, Batch, Queue
from paoswarm.optimize.run import Ends, NoFiniteValue, Run, StopAll
from paoswarm.optimize.run_state import RunState
from paoswarm.optimize.stopping import Status

Returned = TypeVar("Returned")


def drive(runs: Sequence[Run], queue: Queue, after_round: Callable[[], bool] = lambda: False) -> list[Ends]:
    """Take runs to their ends.

    ``after_round`` is called when runs have had values, and may end them all by returning True. An interrupt, or the
    loss of the workers, ends them too; each keeps the best of its evaluations.
    """

    def send(number: int, run: Run, answer: Answer | None = None) -> bool:
        batches = run.send(answer)
        for batch in batches:
            queue.send(number, batch)
        return bool(batches)

    try:
        for number, run in enumerate(runs):
            send(number, run)
        while any(run.ends is None for run in runs):
            while queue.room > 0 and runs[0].ends is None and send(0, runs[0]):
                pass
            answers = queue.receive(runs[0].limits.deadline) if runs[0].ends is None or len(runs) > 1 else []
            for number, answer in answers:
                send(number, runs[number], answer)
            ended = [runs[number].ends for number, _ in answers]
            if len(runs) > 1 and any(one is not None and (one.status == Status.INTERRUPTED).any() for one in ended):
                raise KeyboardInterrupt  # it came while one swarm was moved: the other runs end, too
            if answers and after_round():
                raise StopAll
    except (KeyboardInterrupt, EngineDown, StopAll) as error:
        for run in runs:
            if run.ends is None:
                run.throw(error)
    except NoFiniteValue:
        failure = queue.explain_total_failure()
        raise failure from failure.__cause__
    return [run.ends for run in runs if run.ends is not None]


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
