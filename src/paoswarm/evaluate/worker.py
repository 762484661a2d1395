"""The code that runs on a worker of an executor.

`evaluate` never lets an exception of the objective out. So every exception that comes back is a fault of the executor.

The objective is sent once to each worker. A task names it by a key. A worker that does not know the key answers
`NeedsFunction` and is then sent the pickled function. Threads find the function in their own process, and forked
processes inherit it from their parent.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import NamedTuple

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import Failed, Objective, load
from paoswarm.evaluate.child import Answered, Child, ProcessLost, Unloadable, died, evaluate_timed

_MAX_OBJECTIVES = 4  # that a worker keeps; the least recently used one is dropped first


class RetryPolicy(NamedTuple):
    """How long a point may take, and how often it is tried again."""

    limit: float | None  # seconds for one evaluation
    retries: int  # after the point was lost with its process


class Task(NamedTuple):
    """Points to evaluate, and the function to evaluate them with."""

    key: str  # of the objective
    x: Floats
    vectorized: bool
    policy: RetryPolicy
    pickled: bytes | None  # the objective, for a worker that has asked for it


class NeedsFunction(NamedTuple):
    """The answer of a worker that must be sent the objective first."""


class _KnownObjective:
    """An objective on this worker, and the child processes that evaluate it, one for each thread."""

    def __init__(self, fun: Objective | None, pickled: bytes | None) -> None:
        self._fun, self.pickled = fun, pickled
        self.is_local = fun is not None  # from a run in this process, which calls `forget` at its end
        self.running_tasks = 0
        self.is_closed = False
        self._loading = threading.Lock()
        # By process and thread: a forked process inherits entries that are not its own.
        self._children: dict[tuple[int, int], Child] = {}

    @property
    def fun(self) -> Objective:
        """The function, loaded once."""
        with self._loading:
            if self._fun is None:
                assert self.pickled is not None
                self._fun = load(self.pickled)
            return self._fun

    def child(self, vectorized: bool) -> Child:
        """Return the child process of the current thread; start it if necessary."""
        assert self.pickled is not None
        me = os.getpid(), threading.get_ident()
        child = self._children.get(me)
        if self.is_closed:
            raise ProcessLost("the run has ended")
        if child is None or not child.is_fresh:
            if child is not None:
                child.kill()
            child = self._children[me] = Child.start_interpreter(self.pickled, vectorized)
            if self.is_closed:  # by another thread in the meantime
                child.kill()
        return child

    def close(self) -> None:
        self.is_closed = True
        for (process, _), child in list(self._children.items()):
            if process == os.getpid():
                child.kill()


_objectives: OrderedDict[str, _KnownObjective] = OrderedDict()
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # another thread may hold the lock during the fork
    os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


def remember(key: str, fun: Objective | None, pickled: bytes | None) -> None:
    """Make an objective known to this process and to those that it forks."""
    with _lock:
        if key not in _objectives:
            _objectives[key] = _KnownObjective(fun, pickled)
        if pickled is not None:
            _objectives[key].pickled = pickled
        _objectives.move_to_end(key)
        unused = [
            other
            for other, objective in _objectives.items()
            if not (objective.is_local or objective.running_tasks or other == key)
        ]
        dropped = [_objectives.pop(other) for other in unused[: max(0, len(_objectives) - _MAX_OBJECTIVES)]]
    for objective in dropped:
        objective.close()


def forget(key: str) -> None:
    """Forget an objective and kill the child processes that evaluate it."""
    with _lock:
        objective = _objectives.pop(key, None)
    if objective is not None:
        objective.close()


def evaluate(task: Task) -> Answered | NeedsFunction | Unloadable:
    """Evaluate the points of a task."""
    if task.pickled is not None:
        remember(task.key, None, task.pickled)
    with _lock:
        objective = _objectives.get(task.key)
        if objective is None or (task.policy.limit is not None and objective.pickled is None):
            return NeedsFunction()
        objective.running_tasks += 1
    try:
        if task.policy.limit is not None:
            return _evaluate_in_child(objective, task)
        try:
            fun = objective.fun
        except Exception as error:
            return Unloadable.because_of(error)
        return evaluate_timed(fun, task.x, task.vectorized)
    finally:
        with _lock:
            objective.running_tasks -= 1


def _evaluate_in_child(objective: _KnownObjective, task: Task) -> Answered | Unloadable:
    """Evaluate one point after another, each with its time limit. A crash ends the child, not the worker."""
    answers: list[float | Failed] = []
    seconds = 0.0
    for row in task.x:
        answer: Answered | Unloadable = Answered([died("the run has ended", 1)], 0.0)
        for attempt in range(1, task.policy.retries + 2):
            try:
                answer = objective.child(task.vectorized).call(row[None], task.policy.limit)
                break
            except ProcessLost as loss:
                answer = Answered([died(str(loss), attempt)], 0.0)
                if objective.is_closed:
                    break
        if isinstance(answer, Unloadable):
            return answer
        answers += answer.answers
        seconds += answer.seconds
    return Answered(answers, seconds)
