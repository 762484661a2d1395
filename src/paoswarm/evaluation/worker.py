"""What runs on a worker of anybody's engine.

`evaluate` never lets an exception of the objective out: every exception that reaches the other side is one of the
engine. The objective travels once to each worker: a task names it by a key, and a worker that does not know the key
says so and is sent the bytes. Threads find it where their own process has put it, and forked processes where their
parent has.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import NamedTuple

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.calls import Failed, Objective
from paoswarm.evaluation.child import Answered, Child, Lost, Unloadable, answered, killed
from paoswarm.evaluation.pickling import load

_REMEMBERED = 4  # objectives that a worker keeps; the one used longest ago goes first


class RetryPolicy(NamedTuple):
    """What is done for a point."""

    limit: float | None  # seconds that it may take
    retries: int  # how often it is tried again when it was lost with its process


class Task(NamedTuple):
    """Points to evaluate, and with what."""

    key: str  # of the objective
    x: Floats
    vectorized: bool
    policy: RetryPolicy
    blob: bytes | None  # the objective, for a worker that has said that it does not know it


class Unknown(NamedTuple):
    """The answer of a worker that needs the objective."""


class _Kept:
    """An objective on this worker, and the children that evaluate it for its threads."""

    def __init__(self, fun: Objective | None, blob: bytes | None) -> None:
        self._fun, self.blob = fun, blob
        self.is_ours = fun is not None  # made known by a run in this very process, which will say when it ends
        self.users = 0  # tasks at present
        self.is_closed = False
        self._loading = threading.Lock()
        self._children: dict[tuple[int, int], Child] = {}  # by process and thread: forks inherit what is not theirs

    @property
    def fun(self) -> Objective:
        """The function, loaded once."""
        with self._loading:
            if self._fun is None:
                assert self.blob is not None
                self._fun = load(self.blob)
            return self._fun

    def child(self, vectorized: bool) -> Child:
        """The present thread's."""
        assert self.blob is not None
        me = os.getpid(), threading.get_ident()
        child = self._children.get(me)
        if self.is_closed:
            raise Lost("the run has ended")
        if child is None or not child.is_fresh:
            if child is not None:
                child.kill()
            child = self._children[me] = Child.of_new_interpreter(self.blob, vectorized)
            if self.is_closed:  # meanwhile
                child.kill()
        return child

    def close(self) -> None:
        self.is_closed = True
        for (process, _), child in list(self._children.items()):
            if process == os.getpid():
                child.kill()


_kept: OrderedDict[str, _Kept] = OrderedDict()
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # another thread may hold it at that moment
    os.register_at_fork(after_in_child=lambda: globals().update(_lock=threading.Lock()))


def keep(key: str, fun: Objective | None, blob: bytes | None) -> None:
    """Make an objective known to this process, and to those it forks."""
    with _lock:
        if key not in _kept:
            _kept[key] = _Kept(fun, blob)
        if blob is not None:
            _kept[key].blob = blob
        _kept.move_to_end(key)
        idle = [other for other, kept in _kept.items() if not (kept.is_ours or kept.users or other == key)]
        old = [_kept.pop(other) for other in idle[: max(0, len(_kept) - _REMEMBERED)]]
    for kept in old:
        kept.close()


def forget(key: str) -> None:
    """Forget an objective, and end the children that evaluate it."""
    with _lock:
        kept = _kept.pop(key, None)
    if kept is not None:
        kept.close()


def evaluate(task: Task) -> Answered | Unknown | Unloadable:
    """Answers for the points of a task."""
    if task.blob is not None:
        keep(task.key, None, task.blob)
    with _lock:
        kept = _kept.get(task.key)
        if kept is None or (task.policy.limit is not None and kept.blob is None):
            return Unknown()
        kept.users += 1
    try:
        return _evaluate_in_child(kept, task) if task.policy.limit is not None else _evaluate_here(kept, task)
    finally:
        with _lock:
            kept.users -= 1


def _evaluate_here(kept: _Kept, task: Task) -> Answered | Unloadable:
    try:
        fun = kept.fun
    except Exception as error:
        return Unloadable(f"{type(error).__name__}: {error}")
    return answered(fun, task.x, task.vectorized)


def _evaluate_in_child(kept: _Kept, task: Task) -> Answered | Unloadable:
    """One point after another, each with its limit: a point that hangs or crashes ends the child, not the worker."""
    answers: list[float | Failed] = []
    seconds = 0.0
    for row in task.x:
        answer: Answered | Unloadable = Answered([killed("the run has ended", 1)], 0.0)
        for tried in range(1, task.policy.retries + 2):
            try:
                answer = kept.child(task.vectorized).call(row[None], task.policy.limit)
                break
            except Lost as loss:
                answer = Answered([killed(str(loss), tried)], 0.0)
                if kept.is_closed:  # the run has ended: nobody wants to know
                    break
        if isinstance(answer, Unloadable):
            return answer
        answers += answer.answers
        seconds += answer.seconds
    return Answered(answers, seconds)
