"""What a run evaluates beside its swarm: local searches between generations, and a look around its end."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core import order
from paoswarm.evaluate.caller import End
from paoswarm.evaluate.queue import Answer, Batch
from paoswarm.methods.agreement import CONVERGED, CUT_SHORT, HOPELESS, Search
from paoswarm.run.incumbent import best_of
from paoswarm.run.local_searches import SERIES, LocalSearches, LocalStart
from paoswarm.run.look_around import cost, look
from paoswarm.run.run_state import RunState
from paoswarm.run.sqp import Ended
from paoswarm.run.sqp import Search as SqpSearch
from paoswarm.run.stopping import Limits


class LocalEnd(NamedTuple):
    """How a local search beside the swarm ended."""

    own: Search  # the best point that it has seen itself
    has_converged: bool = False
    is_back: bool = False  # at the best point that was known before
    end: End = None
    replayed: bool = False


def search_from(
    state: RunState, local: LocalSearches, start: LocalStart, limits: Limits, numbering: Any = None
) -> Generator[list[Batch], Answer, LocalEnd]:
    """A local search from a start; the best point of the run takes part in what it finds."""
    spent, own = 0, (math.inf, start.x)
    course = _course(local, start)
    points = next(course)
    end: End = None
    replayed, ended, ending = True, Ended(start.x, False), CUT_SHORT
    while True:
        room = local.longest(start) - spent
        rows = points[: room if limits.maxfev is None else min(room, limits.maxfev - state.nfev)]
        if not len(rows):
            break
        numbers = None if numbering is None else numbering.of(state.nfev, len(rows), None)
        answer = yield [Batch(rows, deadline=limits.deadline, numbers=numbers)]
        values, end, known, recalled, *_ = answer
        state.note_failures(answer.failed, np.zeros(len(rows), dtype=int))
        replayed = replayed and known
        scores = state.scored(rows[: len(values)], values)
        state.take_extra(rows[None, : len(values)], scores[None], np.asarray(True), len(values), recalled)
        spent += len(values) - recalled
        best = best_of(rows[: len(values)], scores) if len(values) else None
        if best is not None and order.is_better(best.score, own[0]):
            own = float(best.score), best.x.copy()
        if end is not None or len(values) < len(points):
            break
        try:
            points = course.send(values)
        except StopIteration as stop:
            ended = stop.value
            ending = HOPELESS if ended.is_hopeless else CONVERGED if ended.has_converged else CUT_SHORT
            break
    began = state.nfev - spent
    found = Search(SERIES, 1, spent, own[1], own[0], ending, kind="local", began=began, ended=state.nfev)
    return LocalEnd(found, ended.has_converged, ended.is_back, end, replayed)


def _course(local: LocalSearches, start: LocalStart) -> SqpSearch:
    """The points of a local search: first the start, if its value is unknown."""
    row = start.row
    if row is None:
        row = (yield start.x[None])[0]
        if np.isnan(row[0]):
            return Ended(start.x, False)
    return (yield from local.search(start, row))


class Look(NamedTuple):
    """What was seen around the points at which runs have converged."""

    is_better: Any = False  # whether a point near that of each run is clearly better
    spent: int = 0  # evaluations of each of the runs
    end: End = None


def look_around(
    state: RunState, limits: Limits, runs: NDArray[np.bool_], numbering: Any = None
) -> Generator[list[Batch], Answer, Look]:
    """Whether ``runs`` that have converged are at a minimum, as far as a few evaluations show.

    With noise it would be a matter of chance, and half a look is none: then no point is evaluated. Nor is any if a
    store has recorded that the run went on.
    """
    best, d, is_single = state.incumbent, len(state.lower), not state.batch
    axes = state.space.axes
    is_affordable = limits.maxfev is None or limits.maxfev - state.nfev >= cost(d, axes)
    is_feasible = not state.judge.n_constraints or bool(order.is_feasible(best.value))
    if not runs.any() or not is_affordable or best.error is not None or not is_feasible:
        return Look()
    before, spent = state.nfev, 0
    width = state.upper - state.lower
    looking = look(best.x[runs], np.asarray(best.value)[runs], width, state.allowed, axes)
    points = next(looking)
    while True:
        k, m = points.shape[:2]
        rows = points.reshape(-1, d)
        asked = Batch(rows, is_single, limits.deadline if is_single else None, is_beyond=is_single)
        if numbering is not None:  # they follow the run's other evaluations
            numbers = numbering.of(before + spent, m, None if is_single else runs)
            asked = asked._replace(is_beyond=False, numbers=numbers)
        answer = yield [asked]
        values, end, _, recalled, *_ = answer
        state.note_failures(answer.failed, np.repeat(np.flatnonzero(runs), m))
        f = np.full(k * m, np.inf)  # what was not evaluated is no better
        f[: len(values)] = state.scored(rows[: len(values)], values)
        if state.judge.n_constraints:  # nor is what is infeasible, and how much so does not matter
            f = np.where(order.is_feasible(f) | np.isnan(f), f, np.inf)
        state.take_extra(points, f.reshape(k, m), runs, len(values) // k, recalled)
        spent += len(values) // k - recalled
        if end is not None:
            return Look(False, spent, end)
        try:
            points = looking.send(f.reshape(k, m))
        except StopIteration as seen:
            is_better = np.zeros(runs.shape, dtype=bool)
            is_better[runs] = seen.value
            return Look(is_better, spent)
