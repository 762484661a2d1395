"""What a run and those who evaluate its points tell each other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.caller import End
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import Numbers
from paoswarm.optimize.convergence import Rule
from paoswarm.optimize.stopping import Status
from paoswarm.storage.log import logger


class Request(NamedTuple):
    """Points that a run wants evaluated."""

    x: Floats  # (m, d)
    is_divisible: bool  # whether the values of the first rows alone are of use
    deadline: float | None  # after which the other rows are left out
    is_beyond: bool = False  # whether these points follow the last generation of a single run
    numbers: Numbers = None  # of the rows in a store, if several runs share it
    most: int | None = None  # how many may be evaluated; those that are known cost nothing


class Answer(NamedTuple):
    """Their values: of all points, or of the first ones if the limit was reached, time ran out or evaluation ended."""

    values: Floats
    end: End = None
    replayed: bool = False  # all were known from an earlier run
    recalled: int = 0  # those that this run has evaluated before
    rule: Rule = Rule.NONE  # why there are no more new points


class Numbering(NamedTuple):
    """Which evaluation is which in a store of many runs: number ``i`` of run ``r`` is ``i * runs + r``.

    So each run has its own sequence, whatever the order in which runs take turns, and limits may change.
    """

    runs: int
    own: NDArray[np.int64]  # the numbers of the runs of a batch (b,), or of a single run ()

    def of(self, first: int, count: int, active: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        """The numbers of the next ``count`` evaluations of each active run, after ``first`` ones."""
        own = self.own if active is None else self.own[active]
        return ((first + np.arange(count)) * self.runs + own[..., None]).reshape(-1)


class StopAll(Exception):
    """The callback wants all runs to end."""


class NoFiniteValue(Exception):
    """The objective failed at every point of the first swarm."""


def status_of(error: BaseException) -> tuple[Status, str]:
    """The status of a run that was interrupted, stopped by a callback or lost its workers, and why."""
    if isinstance(error, StopAll):
        return Status.CALLBACK, ""
    if not isinstance(error, EngineDown):
        return Status.INTERRUPTED, ""
    logger.error("%s", error)
    return Status.CRASHED, str(error)
