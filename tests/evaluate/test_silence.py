"""Workers that say nothing: points whose time is up are sent again, and a warning says what the run waits for.

The engine follows a script, and the clock moves when it says so.
"""

import warnings

import numpy as np
import pytest
from test_dispatcher import (
    ScriptedEngine,
    answer,
    break_all,
    failed,
    lose,
    nothing,
    receive,
    receive_all,
    send,
    values,
)

from paoswarm.evaluate.child import Answered
from paoswarm.evaluate.dispatch import Dispatcher
from paoswarm.evaluate.engines import PATIENCE, EngineDown

LONGEST = 10.0


class SilentEngine(ScriptedEngine):
    """Its workers promise an answer within `LONGEST` seconds; ``now`` is its clock."""

    longest = LONGEST

    def __init__(self, *acts, **options):
        super().__init__(*acts, **options)
        self.now = 100.0

    def dispatcher(self, *sizes, retries=1):
        dispatcher = Dispatcher(self, retries, clock=lambda: self.now)
        send(dispatcher, *sizes)
        return dispatcher


def answer_each(engine):
    """Answer all tasks; several may be for the same point."""
    for future, numbers in engine.out.items():
        future.set_result(Answered([float(number) for number in numbers], 0.1))


def answer_last(engine):
    """Answer the task that was sent last."""
    future, numbers = list(engine.out.items())[-1]
    future.set_result(Answered([float(number) for number in numbers], 0.1))


def wait(seconds, *acts):
    """Let time pass, then perform other acts."""

    def act(engine):
        engine.now += seconds
        for other in acts:
            other(engine)

    return act


TOO_LONG = wait(LONGEST + 1)


def test_a_point_whose_answer_is_overdue_is_sent_again_and_the_frozen_task_keeps_its_slot():
    engine = SilentEngine(answer(0), TOO_LONG, answer(3), answer(1), answer(2), answer(4), slots=3)
    dispatcher = engine.dispatcher(1, 1, 1)
    assert values(receive(dispatcher)) == {0: 0.0}
    dispatcher.send(3, np.full((1, 1), 3.0))  # when 1 and 2 are overdue, there is one slot left for the three
    got = receive_all(dispatcher)
    assert engine.log == [[0], [1], [2], [3], [1], [2]][: len(engine.log)]
    assert got == {n: float(n) for n in (1, 2, 3)}


def test_the_first_answer_of_a_point_counts_and_no_point_has_two():
    engine = SilentEngine(TOO_LONG, nothing, slots=2)
    dispatcher = engine.dispatcher(1, 1)
    assert dispatcher.receive() == []
    engine.acts = [nothing, answer(0), answer_each]  # the one that was overdue
    assert receive_all(dispatcher) == {0: 0.0, 1: 1.0}
    assert not dispatcher.is_busy


def test_the_answer_of_the_second_attempt_counts_if_the_first_stays_frozen():
    engine = SilentEngine(TOO_LONG, answer_last, answer_last, slots=3)
    dispatcher = engine.dispatcher(1, 1)
    assert receive_all(dispatcher) == {0: 0.0, 1: 1.0}
    assert engine.log == [[0], [1], [0], [1]]
    dispatcher.close()
    assert len(engine.closed) == 2  # the frozen tasks are given up, too


def test_an_overdue_task_that_is_lost_costs_nothing():
    engine = SilentEngine(TOO_LONG, nothing, slots=1)
    dispatcher = engine.dispatcher(1, retries=0)
    assert dispatcher.receive() == []
    engine.acts = [lambda engine: next(iter(engine.out)).set_exception(RuntimeError("gone")), answer(0)]
    assert receive_all(dispatcher) == {0: 0.0}


def test_a_point_that_is_overdue_twice_while_others_are_answered_has_timed_out():
    engine = SilentEngine(TOO_LONG, wait(1, answer(1)), TOO_LONG, answer(2), slots=2)
    engine.slots = 2
    dispatcher = engine.dispatcher(1)
    assert dispatcher.receive() == []
    dispatcher.send(1, np.full((1, 1), 1.0))
    engine.slots = 4
    assert values(receive(dispatcher)) == {1: 1.0}
    dispatcher.send(2, np.full((1, 1), 2.0))
    got = receive_all(dispatcher)
    assert failed(got) == {0: "timed out: no answer for 23 s, twice"}
    assert got[2] == 2.0


def test_workers_that_are_all_frozen_end_the_run():
    engine = SilentEngine(*[TOO_LONG] * 10, slots=2)
    dispatcher = engine.dispatcher(1, 1, 1)
    with pytest.raises(EngineDown, match=r"no answer for \d+ s, although .* are frozen or cannot be reached"):
        receive_all(dispatcher)


def test_where_the_number_of_slots_is_unknown_points_wait_for_one_another():
    engine = SilentEngine(*[wait(LONGEST - 1, answer(number)) for number in range(6)], slots=None)
    dispatcher = engine.dispatcher(*[1] * 6)
    assert receive_all(dispatcher) == {n: float(n) for n in range(6)}
    assert engine.log == [[n] for n in range(6)]
    engine = SilentEngine(TOO_LONG, answer_each, answer_each, slots=None)
    assert len(receive_all(engine.dispatcher(1, 1))) == 2
    assert len(engine.log) == 4


def test_overdue_tasks_of_a_broken_executor_are_forgotten():
    engine = SilentEngine(TOO_LONG, break_all, *[answer_each] * 3, slots=2)
    assert receive_all(engine.dispatcher(1, 1)) == {0: 0.0, 1: 1.0}
    assert engine.restarts == 1


# Warnings


class Unlimited(SilentEngine):
    longest = None


def warned(engine, *sizes):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        receive_all(engine.dispatcher(*sizes))
    return [str(one.message) for one in seen]


def test_a_minute_of_silence_is_a_warning_that_says_what_the_run_waits_for():
    silence = [wait(PATIENCE / 2), wait(PATIENCE / 2), *[wait(PATIENCE)] * 5]
    engine = Unlimited(*silence, answer_each, answer_each, slots=2)
    (said,) = warned(engine, 1, 1, 1)
    assert said.startswith("no value for 60 s; the run waits for 2 tasks that it has sent to the workers (slots: 2).")
    assert "frozen" in said
    assert "timeout=" in said


def test_each_silence_is_warned_of_once():
    engine = Unlimited(wait(PATIENCE), wait(1, answer_each), wait(PATIENCE), wait(1, answer_each), slots=2)
    assert len(warned(engine, 1, 1, 1)) == 2


def test_workers_that_are_gone_are_named():
    engine = Unlimited(wait(PATIENCE), answer_each, slots=0)
    assert "(no workers are left)" in warned(engine, 1)[0]


def test_evaluations_that_always_take_long_are_no_reason_for_a_warning():
    def slow(engine):
        for future in engine.out:
            future.set_result(Answered([1.0], 2 * PATIENCE))

    engine = Unlimited(slow, wait(5 * PATIENCE), answer_each, slots=1)
    assert warned(engine, 1, 1) == []
    engine = Unlimited(slow, wait(7 * PATIENCE), answer_each, slots=1)
    assert len(warned(engine, 1, 1)) == 1


def test_a_lost_worker_is_no_silence():
    engine = Unlimited(lose(0), answer_each, slots=1)
    assert warned(engine, 1) == []
