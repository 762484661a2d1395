"""The loop behind `minimize` and `minimize_many`: ask, evaluate, tell, until every run has ended.

A run is a generator: it yields the points that it wants evaluated and is sent their values. So one run can be driven by
itself, and several together, however many points each of them wants.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.evaluation.caller import End
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.evaluator import Evaluator, Numbers
from paoswarm.evaluation.known_points import KnownPoints, Recalled
from paoswarm.optimize.convergence import Rule
from paoswarm.optimize.exchange import Answer, NoFiniteValue, Numbering, Request, StopAll, status_of
from paoswarm.optimize.look_around import is_worth_it
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.side_searches import look_around, search_from
from paoswarm.optimize.stopping import Limits, Status

AfterGeneration = Callable[[Optimizer], Status | None]  # may end all runs of the optimizer


class Ends(NamedTuple):
    """How each run of a batch ended."""

    status: NDArray[np.int64]
    nit: NDArray[np.int64]
    nfev: NDArray[np.int64]
    rule: NDArray[np.int64]  # by which it has converged, a `Rule`
    deadline: float | None  # with the clock as it was last started
    why: str = ""  # what the workers said before they were lost


Run = Generator[Request, Answer, Ends]
Returned = TypeVar("Returned")


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
    most = None if limits.maxfev is None else limits.maxfev - optimizer.nfev
    is_single = not optimizer.batch  # a single run may stop between two points, and some of them may cost nothing
    k = m if most is None or is_single else min(m, most)
    rows = x[..., :k, :] if active is None else x[active, :k, :]
    asked = Request(rows.reshape(-1, d), is_single, None)
    if is_single:
        asked = asked._replace(deadline=limits.deadline, most=most)
    if numbering is not None:
        asked = asked._replace(numbers=numbering.of(optimizer.nfev, k, active))
    values, end, replayed, recalled, rule = yield asked
    values = optimizer.scored(rows[: len(values)] if is_single else rows, values)
    is_cut = False
    if is_single:
        k = len(values)
        is_cut = k < m and (most is None or k - recalled < most)
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


def drive(run: Generator[Request, Answer, Returned], evaluate: Evaluator, known: KnownPoints | None = None) -> Returned:
    """Take one run, or one batch of runs, to its end. Points that are ``known`` are not evaluated."""
    resume: Callable[[Any], Request] = run.send
    sent: Any = None
    while True:
        try:
            request = resume(sent)
        except StopIteration as finished:
            returned: Returned = finished.value
            return returned
        except NoFiniteValue:
            failure = evaluate.explain_total_failure()
            raise failure from failure.__cause__
        if request.is_beyond and not evaluate.go_beyond():
            resume, sent = run.send, Answer(np.empty(0))
            continue
        try:
            if request.is_divisible:
                new = _New.of(request, evaluate, known)
                until = request.deadline
                values, end = evaluate.until(until, new.x, new.numbers) if len(new.x) else (np.empty(0), None)
                resume, sent = run.send, new.answer(Answer(values, end, evaluate.replayed))
            else:
                resume, sent = run.send, Answer(evaluate(request.x, request.numbers), None, evaluate.replayed)
        except (KeyboardInterrupt, EngineDown) as error:
            resume, sent = run.throw, error


class _New(NamedTuple):
    """The points of a request that must and may be evaluated, and how the others are known."""

    x: Floats
    numbers: Numbers
    known: KnownPoints | None
    recalled: Recalled | None

    @classmethod
    def of(cls, request: Request, evaluate: Evaluator, known: KnownPoints | None) -> _New:
        """The new points; they have the first numbers, so that those of a run have no gaps."""
        recalled = None if known is None else known.recall(evaluate.rows(request.x), request.most)
        x = request.x[: request.most] if recalled is None else request.x[recalled.new]
        return cls(x, None if request.numbers is None else request.numbers[: len(x)], known, recalled)

    def answer(self, measured: Answer) -> Answer:
        """The answer for all points, from that for the new ones."""
        if self.known is None or self.recalled is None:
            return measured
        values = self.known.values(self.recalled, measured.values)
        return measured._replace(values=values, recalled=self.known.n_recalled, rule=rule_of(self.known))


def rule_of(known: KnownPoints | None) -> Rule:
    """The rule that ends a run because there are no new points."""
    if known is None or not known.is_exhausted:
        return Rule.NONE
    return Rule.COMPLETE if known.is_complete else Rule.NOTHING_NEW


def drive_together(
    runs: Sequence[Run],
    evaluate: Evaluator,
    after_round: Callable[[], Status | None] = lambda: None,
    known: Sequence[KnownPoints] | None = None,
) -> list[Ends]:
    """Take several runs to their ends, evaluating their points together. Each may have points that are ``known``.

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
            steps = _answers(waiting, evaluate, known) if waiting else []
    except (KeyboardInterrupt, EngineDown, StopAll) as error:
        for number, one in enumerate(runs):
            if number not in ends:
                step(number, one.throw, error)
    return [ends[number] for number in range(len(runs))]


def _answers(
    waiting: list[tuple[int, Request]], evaluate: Evaluator, known: Sequence[KnownPoints] | None
) -> list[tuple[int, Answer]]:
    """The values of the points of several runs, evaluated together."""
    parts = [
        (number, _New.of(request, evaluate, None if known is None else known[number])) for number, request in waiting
    ]
    points = np.concatenate([new.x for _, new in parts])
    numbers = [new.numbers for _, new in parts if new.numbers is not None]
    values = evaluate(points, np.concatenate(numbers) if numbers else None) if len(points) else np.empty(0)
    found = np.split(values, np.cumsum([len(new.x) for _, new in parts])[:-1])
    return [
        (number, new.answer(Answer(measured, None, evaluate.replayed)))
        for (number, new), measured in zip(parts, found, strict=True)
    ]


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
