"""The loop behind `minimize` and `minimize_many`: ask, evaluate, tell, until every run has ended.

A run is a generator: it yields the points that it wants evaluated and is sent their values. So one run can be driven by
itself, and several together, however many points each of them wants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from paoswarm.algorithms.agreement import CONVERGED, CUT_SHORT, HOPELESS, Search
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import End, Evaluator, Numbers
from paoswarm.optimize.convergence import Rule
from paoswarm.optimize.incumbent import best_of
from paoswarm.optimize.local_searches import SERIES, LocalSearches, Start
from paoswarm.optimize.look_around import cost, is_worth_it, look
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.sqp import Search as SqpSearch
from paoswarm.optimize.stopping import Limits, Status
from paoswarm.storage.log import logger

AfterGeneration = Callable[[Optimizer], Status | None]  # may end all runs of the optimizer


class Ends(NamedTuple):
    """How each run of a batch ended."""

    status: NDArray[np.int64]
    nit: NDArray[np.int64]
    nfev: NDArray[np.int64]
    rule: NDArray[np.int64]  # by which it has converged, a `Rule`
    deadline: float | None  # with the clock as it was last started
    why: str = ""  # what the workers said before they were lost


class Request(NamedTuple):
    """Points that a run wants evaluated."""

    x: Floats  # (m, d)
    is_divisible: bool  # whether the values of the first rows alone are of use
    deadline: float | None  # after which the other rows are left out
    is_beyond: bool = False  # whether these points follow the last generation of a single run
    numbers: Numbers = None  # of the rows in a store, if several runs share it


class Answer(NamedTuple):
    """Their values: of all points, or of the first ones if time ran out or evaluation ended."""

    values: Floats
    end: End = None
    replayed: bool = False  # all were known from an earlier run
    recalled: int = 0  # those that this run has evaluated before
    rule: Rule = Rule.NONE  # why there are no more new points


Run = Generator[Request, Answer, Ends]
Returned = TypeVar("Returned")


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


def run(
    optimizer: Optimizer,
    limits: Limits,
    after_generation: AfterGeneration,
    *,
    may_fail: bool = False,
    numbering: Numbering | None = None,
) -> Run:
    """Run a batch to its end.

    A finished run is frozen and costs no more evaluations. An interrupt ends the runs that are still going; the best of
    all evaluations is kept. With ``may_fail`` a first swarm without a finite value ends the run instead of raising.
    """
    status, nit, nfev, rule = (np.zeros(optimizer.batch, dtype=np.int64) for _ in range(4))
    active: NDArray[np.bool_] | None = None  # a mask once some runs have ended
    has_begun = optimizer.swarm is not None  # a run that is continued may have reached its limits already
    why = ""
    try:
        while True:
            outcome = (
                _NOTHING if has_begun else (yield from _generation(optimizer, limits, active, may_fail, numbering))
            )
            has_begun = False
            if outcome.replayed:  # recorded values take no time of this call
                limits = limits.restarted()
            if outcome.end is None and optimizer.local is not None and outcome.moved:
                outcome = yield from _search_locally(optimizer, limits, numbering, outcome)
            converged = optimizer.has_converged(limits.tol)
            if outcome.rule:
                converged = np.asarray(outcome.rule)
            done = optimizer.nit - outcome.is_cut
            reached = limits.reached(optimizer.incumbent, converged, done, optimizer.nfev, optimizer.stale)
            wish = after_generation(optimizer) if outcome.moved else None
            if outcome.end is not None:
                wish, why = status_of(outcome.end)
            if reached is None and wish is None:
                continue
            going = status == 0
            for reason in (reached, wish):
                if reason is not None:
                    status = np.where(status == 0, reason, status)
            nit, nfev = np.where(going, optimizer.nit, nit), np.where(going, optimizer.nfev, nfev)
            if converged is not None:
                rule = np.where(going, converged, rule)
                stopped = going & (status == Status.CONVERGED) & is_worth_it(rule, limits.tol)
                seen = yield from look_around(optimizer, limits, stopped, numbering)
                status, why = np.where(stopped, seen.status, status), seen.why or why
                nfev = nfev + np.where(stopped, seen.spent, 0)
            if status.all():
                return Ends(status, nit, nfev, rule, limits.deadline, why)
            active = status == 0
    except (KeyboardInterrupt, EngineDown, StopAll) as error:
        if optimizer.swarm is None:
            raise
        going = status == 0
        nit, nfev = np.where(going, optimizer.nit, nit), np.where(going, optimizer.nfev, nfev)
        ended, why = status_of(error)
        return Ends(np.where(going, ended, status), nit, nfev, rule, limits.deadline, why)


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


def _search_locally(
    optimizer: Optimizer, limits: Limits, numbering: Numbering | None, outcome: _Outcome
) -> Generator[Request, Answer, _Outcome]:
    """A local search, if one is due, and what came of the generation together with it."""
    local = optimizer.local
    assert local is not None
    if not local.is_due(optimizer.nfev) or limits.is_hit(optimizer.incumbent):
        return outcome
    before, start = float(optimizer.incumbent.score), optimizer.local_start()
    ended = yield from search_from(optimizer, local, start, limits, numbering)
    local.ended(start, before, ended.own, ended.is_back)
    return outcome._replace(end=ended.end, replayed=outcome.replayed and ended.replayed)


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


class _Outcome(NamedTuple):
    """What came of a generation."""

    moved: bool  # it was told
    end: End = None  # what ended its evaluation
    is_cut: bool = False  # time was up, or evaluation ended, before it was complete
    replayed: bool = False
    rule: Rule = Rule.NONE


_NOTHING = _Outcome(moved=False)


def _generation(
    optimizer: Optimizer,
    limits: Limits,
    active: NDArray[np.bool_] | None,
    may_fail: bool,
    numbering: Numbering | None,
) -> Generator[Request, Answer, _Outcome]:
    """Ask, evaluate and tell once; whatever was evaluated when time ran out or an interrupt came is told."""
    x = optimizer.points(limits.progress(optimizer.nit, optimizer.nfev))
    m, d = x.shape[-2:]
    k = m if limits.maxfev is None else min(m, limits.maxfev - optimizer.nfev)
    rows = x[..., :k, :] if active is None else x[active, :k, :]
    is_single = not optimizer.batch  # a single run may stop between two points
    asked = Request(rows, True, limits.deadline) if is_single else Request(rows.reshape(-1, d), False, None)
    if numbering is not None:
        asked = asked._replace(numbers=numbering.of(optimizer.nfev, k, active))
    values, end, replayed, recalled, rule = yield asked
    values = optimizer.scored(rows[: len(values)] if is_single else rows, values)
    is_cut = False
    if is_single:
        is_cut, k = len(values) < k, len(values)
        if k == 0 and optimizer.swarm is not None:
            return _Outcome(moved=False, end=end, replayed=replayed)
    values = values.reshape(rows.shape[:-1]) if optimizer.batch else values
    if optimizer.swarm is None and not optimizer.knows_a_value and not (values < np.inf).any():
        if end is not None:  # nothing is known yet
            raise end
        if not may_fail:
            raise NoFiniteValue
    if k == m and active is None:
        optimizer.take(values, may_fail=may_fail)
    else:
        f = np.full((*optimizer.batch, m), np.nan)
        f[(..., slice(k)) if active is None else (active, slice(k))] = values
        optimizer.take(f, k, active, may_fail)
    optimizer.n_recalled += recalled  # they cost nothing
    optimizer.nfev -= recalled
    return _Outcome(moved=True, end=end, is_cut=is_cut, replayed=replayed, rule=rule)


def drive(run: Generator[Request, Answer, Returned], evaluate: Evaluator) -> Returned:
    """Take one run, or one batch of runs, to its end."""
    resume: Callable[[Any], Request] = run.send
    sent: Any = None
    while True:
        try:
            x, is_divisible, deadline, is_beyond, numbers = resume(sent)
        except StopIteration as finished:
            returned: Returned = finished.value
            return returned
        except NoFiniteValue:
            failure = evaluate.explain_total_failure()
            raise failure from failure.__cause__
        if is_beyond and not evaluate.go_beyond():
            resume, sent = run.send, Answer(np.empty(0))
            continue
        try:
            if is_divisible:
                values, end = evaluate.until(deadline, x, numbers)
                resume, sent = run.send, Answer(values, end, evaluate.replayed, *_recalled(evaluate))
            else:
                resume, sent = run.send, Answer(evaluate(x, numbers), None, evaluate.replayed)
        except (KeyboardInterrupt, EngineDown) as error:
            resume, sent = run.throw, error


def _recalled(evaluate: Evaluator) -> tuple[int, Rule]:
    """How many points were recalled, and whether the run is over because there are no new ones."""
    known = evaluate.known
    if known is None:
        return 0, Rule.NONE
    rule = Rule.COMPLETE if known.is_complete else Rule.NOTHING_NEW if known.is_exhausted else Rule.NONE
    return known.n_recalled, rule


def drive_together(
    runs: Sequence[Run], evaluate: Evaluator, after_round: Callable[[], Status | None] = lambda: None
) -> list[Ends]:
    """Take several runs to their ends, evaluating their points together.

    ``after_round`` is called when each run has had its values, and may end them all.
    """
    ends: dict[int, Ends] = {}
    asked: dict[int, Request] = {}

    def step(number: int, resume: Callable[[Any], Request], sent: Any) -> None:
        try:
            asked[number] = resume(sent)
        except StopIteration as finished:
            ends[number] = finished.value

    steps: list[tuple[int, Any]] = [(number, None) for number in range(len(runs))]
    try:
        while steps:
            for number, sent in steps:
                step(number, runs[number].send, sent)
            if any((ends[number].status == Status.INTERRUPTED).any() for number, _ in steps if number in ends):
                raise KeyboardInterrupt  # it came while one swarm was moved: the other runs end, too
            if any(sent is not None for _, sent in steps) and after_round() is not None:
                raise StopAll
            waiting = [(number, asked.pop(number)) for number in sorted(asked)]
            steps = _answers(waiting, evaluate) if waiting else []
    except (KeyboardInterrupt, EngineDown, StopAll) as error:
        for number, one in enumerate(runs):
            if number not in ends:
                step(number, one.throw, error)
    return [ends[number] for number in range(len(runs))]


def _answers(waiting: list[tuple[int, Request]], evaluate: Evaluator) -> list[tuple[int, Answer]]:
    """The values of the points of several runs, evaluated together."""
    requests = [request for _, request in waiting]
    numbers = [request.numbers for request in requests if request.numbers is not None]
    values = evaluate(np.concatenate([request.x for request in requests]), np.concatenate(numbers) if numbers else None)
    parts = np.split(values, np.cumsum([len(request.x) for request in requests])[:-1])
    return [(number, Answer(part, None, evaluate.replayed)) for (number, _), part in zip(waiting, parts, strict=True)]


@contextmanager
def naming_the_best(optimizer: Optimizer) -> Iterator[None]:
    """Add the best point so far to an error that ends a run, in a user's attractor for example."""
    try:
        yield
    except Exception as error:
        if optimizer.swarm is not None and optimizer.nfev and np.isfinite(optimizer.incumbent.value):
            where = optimizer.space.text(optimizer.best.x)
            best = f"{optimizer.incumbent.value} at {where}"
            error.add_note(f"The best of the {optimizer.nfev} evaluations before this error: {best}")
        raise


def status_of(error: BaseException) -> tuple[Status, str]:
    """The status of a run that was interrupted, stopped by a callback or lost its workers, and why."""
    if isinstance(error, StopAll):
        return Status.CALLBACK, ""
    if not isinstance(error, EngineDown):
        return Status.INTERRUPTED, ""
    logger.error("%s", error)
    return Status.CRASHED, str(error)
