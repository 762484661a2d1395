"""What a run evaluates beside its swarm: local searches between generations, and a look around its end."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.algorithms.agreement import CONVERGED, CUT_SHORT, HOPELESS, Search
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.evaluation.caller import End
from paoswarm.optimize.exchange import Answer, Numbering, Request, status_of
from paoswarm.optimize.incumbent import best_of
from paoswarm.optimize.local_searches import SERIES, LocalSearches, Start
from paoswarm.optimize.look_around import cost, look
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.sqp import Search as SqpSearch
from paoswarm.optimize.stopping import Limits, Status


class LocalEnd(NamedTuple):
    """How a local search beside the swarm ended."""

    own: Search  # the best point that it has seen itself
    has_converged: bool = False
    is_back: bool = False  # at the best point that was known before
    end: End = None
    replayed: bool = False


def search_from(
    optimizer: Optimizer, local: LocalSearches, start: Start, limits: Limits, numbering: Numbering | None = None
) -> Generator[Request, Answer, LocalEnd]:
    """A local search from a start; the best point of the run takes part in what it finds."""
    spent, own, row = 0, (math.inf, start.x), start.row
    search: SqpSearch | None = None
    points: Floats | None = start.x[None]
    end: End = None
    replayed, has_converged, is_back, ending = True, False, False, CUT_SHORT
    while True:
        try:
            if search is None and row is not None:
                search = local.search(start, row)
                points = next(search)
        except StopIteration:
            break
        assert points is not None
        room = local.longest(start) - spent
        rows = points[: room if limits.maxfev is None else min(room, limits.maxfev - optimizer.nfev)]
        if not len(rows):
            break
        asked = Request(rows, True, limits.deadline)
        if numbering is not None:
            asked = asked._replace(numbers=numbering.of(optimizer.nfev, len(rows), None))
        values, end, known, recalled, _ = yield asked
        replayed = replayed and known
        scores = optimizer.scored(rows[: len(values)], values)
        optimizer.take_extra(rows[None, : len(values)], scores[None], np.asarray(True), len(values) - recalled)
        optimizer.n_recalled += recalled
        spent += len(values) - recalled
        best = best_of(rows[: len(values)], scores) if len(values) else None
        if best is not None and order.is_better(best.score, own[0]):
            own = float(best.score), best.x.copy()
        if end is not None or len(values) < len(points) or (search is None and np.isnan(values[0, 0])):
            break
        if search is None:
            row = values[0]
            continue
        try:
            points = search.send(values)
        except StopIteration as ended:
            has_converged, is_back = ended.value.has_converged, ended.value.is_back
            ending = HOPELESS if ended.value.is_hopeless else CONVERGED if has_converged else CUT_SHORT
            break
    began = optimizer.nfev - spent
    found = Search(SERIES, 1, spent, own[1], own[0], ending, kind="local", began=began, ended=optimizer.nfev)
    return LocalEnd(found, has_converged, is_back, end, replayed)


class Look(NamedTuple):
    """What was seen around the points at which runs have converged."""

    status: Any
    spent: int = 0  # evaluations of each of the runs
    why: str = ""


def look_around(
    optimizer: Optimizer, limits: Limits, runs: NDArray[np.bool_], numbering: Numbering | None = None
) -> Generator[Request, Answer, Look]:
    """Whether ``runs`` that have converged are at a minimum, as far as a few evaluations show.

    With noise it would be a matter of chance, and half a look is none: then no point is evaluated. Nor is any if a
    store has recorded that the run went on.
    """
    best, d, is_single = optimizer.incumbent, len(optimizer.lower), not optimizer.batch
    axes = optimizer.space.axes
    is_affordable = limits.maxfev is None or limits.maxfev - optimizer.nfev >= cost(d, axes)
    is_feasible = optimizer.feasibility is None or bool(order.is_feasible(best.value))
    if not runs.any() or not is_affordable or best.error is not None or not is_feasible:
        return Look(Status.CONVERGED)
    before, spent = optimizer.nfev, 0
    width = optimizer.upper - optimizer.lower
    looking = look(best.x[runs], np.asarray(best.value)[runs], width, optimizer.allowed, axes)
    points = next(looking)
    while True:
        k, m = points.shape[:2]
        rows = points.reshape(-1, d)
        asked = Request(rows, is_single, limits.deadline if is_single else None, is_beyond=is_single)
        if numbering is not None:  # they follow the run's other evaluations
            numbers = numbering.of(before + spent, m, None if is_single else runs)
            asked = asked._replace(is_beyond=False, numbers=numbers)
        values, end, _, recalled, _ = yield asked
        f = np.full(k * m, np.inf)  # what was not evaluated is no better
        f[: len(values)] = optimizer.scored(rows[: len(values)], values)
        if optimizer.feasibility is not None:  # nor is what is infeasible, and how much so does not matter
            f = np.where(order.is_feasible(f) | np.isnan(f), f, np.inf)
        optimizer.take_extra(points, f.reshape(k, m), runs, len(values) // k)
        optimizer.n_recalled += recalled
        optimizer.nfev -= recalled
        spent += len(values) // k - recalled
        if end is not None:
            ended, why = status_of(end)
            return Look(ended, spent, why)
        try:
            points = looking.send(f.reshape(k, m))
        except StopIteration as seen:
            status = np.full(runs.shape, Status.CONVERGED)
            status[runs] = np.where(seen.value, Status.STALLED, Status.CONVERGED)
            return Look(status, spent)
