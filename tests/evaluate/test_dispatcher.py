"""The dispatcher alone, with an engine that follows a script."""

from concurrent.futures import BrokenExecutor, Future

import numpy as np
import pytest

from paoswarm.evaluate.child import Answered, Unloadable
from paoswarm.evaluate.dispatch import Dispatcher, Parcel
from paoswarm.evaluate.engines import EngineDown, WorkerPool
from paoswarm.evaluate.worker import NeedsFunction


class ScriptedEngine(WorkerPool):
    """Keeps running tasks in ``out`` and, before each wait, performs the next of the acts that it was given."""

    slots = 3
    retries_lost_tasks = may_fail_innocent_tasks = False

    def __init__(self, *acts, slots=3, retries_lost_tasks=False, may_fail_innocent_tasks=False, can_restart=True):
        self.slots, self.retries_lost_tasks, self.can_restart = slots, retries_lost_tasks, can_restart
        self.may_fail_innocent_tasks = may_fail_innocent_tasks
        self.acts = list(acts)
        self.out = {}  # by future, the numbers of the points
        self.log = []  # the numbers of the points of each task that was submitted
        self.with_function = []
        self.most_out = self.restarts = 0
        self.closed = None

    def submit(self, x, *, with_function=False):
        future = Future()
        numbers = [int(number) for number in x[:, 0]]
        self.out[future] = numbers
        self.log.append(numbers)
        if with_function:
            self.with_function.append(numbers)
        self.most_out = max(self.most_out, len(self.out))
        return future

    def wait(self, pending, timeout):
        assert set(pending) == set(self.out)
        if self.acts:
            self.acts.pop(0)(self)
        done = {future for future in self.out if future.done()}
        for future in done:
            del self.out[future]
        return done

    def restart(self):
        self.restarts += 1
        self.out = {}
        return self.can_restart

    def close(self, pending):
        self.closed = set(pending)

    def future_of(self, number):
        return next(future for future, numbers in self.out.items() if number in numbers)


def answer(*numbers):
    """Answer the tasks that hold these points. The value of a point is its number."""

    def act(engine):
        for number in numbers:
            future = engine.future_of(number)
            future.set_result(Answered([float(n) for n in engine.out[future]], 0.1))

    return act


def answer_first(engine):
    answer(next(iter(engine.out.values()))[0])(engine)


def lose_first(engine):
    lose(next(iter(engine.out.values()))[0])(engine)


def answer_all(engine):
    for numbers in list(engine.out.values()):
        answer(numbers[0])(engine)


def say(what, *numbers):
    def act(engine):
        for number in numbers:
            engine.future_of(number).set_result(what)

    return act


def lose(*numbers, error=None):
    def act(engine):
        for number in numbers:
            engine.future_of(number).set_exception(error or RuntimeError("gone"))

    return act


def lose_all(engine):
    for numbers in list(engine.out.values()):
        lose(numbers[0])(engine)


def break_all(engine):
    for future in engine.out:
        future.set_exception(BrokenExecutor("broken"))


def nothing(engine):
    pass


def send(dispatcher, *sizes):
    """Send tasks of these sizes. The coordinate of a point is its number."""
    first = 0
    for size in sizes:
        dispatcher.send(first, np.arange(first, first + size, dtype=float)[:, None])
        first += size


def values(deliveries):
    return {one.number + i: value for one in deliveries for i, value in enumerate(one.answers)}


def receive_all(dispatcher):
    got = {}
    while dispatcher.is_busy:
        some = values(dispatcher.receive())
        assert not set(some) & set(got)  # nothing twice
        got |= some
    return got


def receive(dispatcher):
    """The next deliveries; the dispatcher may first return nothing because a slot is free."""
    some = []
    while dispatcher.is_busy and not some:
        some = dispatcher.receive()
    return some


def failed(got):
    return {number: got[number].reason for number in got if not isinstance(got[number], float)}


# Order and room


def test_answers_that_arrive_together_are_ordered_by_number():
    engine = ScriptedEngine(answer(2), answer(1, 0, 3))
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 1, 1, 1, 1)
    assert [one.number for one in dispatcher.receive()] == [2]
    assert [one.number for one in dispatcher.receive()] == [0, 1, 3]
    assert dispatcher.in_hand == 0


def test_nothing_is_submitted_before_receive_is_called():
    engine = ScriptedEngine(answer_all)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 1, 1)
    assert engine.log == []
    assert dispatcher.in_hand == 2
    dispatcher.receive()
    assert engine.log == [[0], [1]]


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_there_are_never_more_tasks_running_than_slots(slots):
    engine = ScriptedEngine(
        *[lambda engine: answer(min(n for ns in engine.out.values() for n in ns))(engine)] * 20, slots=slots
    )
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, *[1] * 20)
    assert receive_all(dispatcher) == {n: float(n) for n in range(20)}
    assert engine.most_out == slots
    assert engine.log == [[n] for n in range(20)]


def test_all_tasks_are_submitted_at_once_if_the_number_of_slots_is_unknown():
    engine = ScriptedEngine(answer_all, slots=None)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, *[1] * 20)
    assert len(receive_all(dispatcher)) == engine.most_out == 20


def test_after_a_timeout_nothing_is_returned_and_nothing_is_lost():
    engine = ScriptedEngine(nothing, answer_all, answer_all)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 1, 1, 1, 1)
    assert dispatcher.receive(0.0) == []
    assert dispatcher.in_hand == 4
    assert sorted(receive_all(dispatcher)) == [0, 1, 2, 3]


def test_withdrawn_tasks_are_never_submitted_and_running_ones_still_arrive():
    engine = ScriptedEngine(answer(0), answer_all)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, *[1] * 9)
    dispatcher.receive()
    dispatcher.withdraw()
    assert sorted(receive_all(dispatcher)) == [1, 2]
    assert engine.log == [[0], [1], [2]]


def test_closing_gives_up_running_tasks():
    engine = ScriptedEngine(answer(0))
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, *[1] * 5)
    dispatcher.receive()
    dispatcher.close()
    assert engine.closed == set(engine.out)
    assert len(engine.closed) == 2
    assert dispatcher.in_hand == 0


# Losses


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_point_that_is_lost_too_often_has_failed(retries):
    engine = ScriptedEngine(*[lose(0)] * (retries + 1))
    dispatcher = Dispatcher(engine, retries)
    send(dispatcher, 1)
    (reason,) = failed(receive_all(dispatcher)).values()
    assert reason.startswith("died")
    assert reason.endswith("gone")
    assert (f"{retries + 1} times" in reason) == (retries > 0)
    assert engine.log == [[0]] * (retries + 1)


def test_an_engine_that_retries_lost_tasks_by_itself_is_not_asked_again():
    engine = ScriptedEngine(lose(0), retries_lost_tasks=True)
    dispatcher = Dispatcher(engine, 5)
    send(dispatcher, 1)
    assert list(failed(receive_all(dispatcher))) == [0]
    assert engine.log == [[0]]


def test_tasks_that_failed_because_of_others_are_tried_again_one_suspect_at_a_time():
    """Point 0 is guilty; 1 and 2 only waited on its worker. The others go on meanwhile."""
    acts = [lose(0, 1, 2), answer(3, 4), lose(0), answer(1), answer(2)]
    engine = ScriptedEngine(*acts, slots=3, retries_lost_tasks=True, may_fail_innocent_tasks=True)
    dispatcher = Dispatcher(engine, 5)
    send(dispatcher, 1, 1, 1, 1, 1)
    got = receive_all(dispatcher)
    assert list(failed(got)) == [0]
    assert {n: got[n] for n in range(1, 5)} == {n: float(n) for n in range(1, 5)}
    assert engine.log == [[0], [1], [2], [3], [4], [0], [1], [2]]


def test_the_log_counts_the_lost_points(caplog):
    engine = ScriptedEngine(lose(0), lose(4), answer_all, answer_all)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 4, 1)
    receive_all(dispatcher)
    first, second, *_ = [record.getMessage() for record in caplog.records]
    assert "4 points (numbers 0 to 3) were lost" in first
    assert "1 point (number 4) was lost" in second


def test_the_points_of_a_lost_task_are_sent_again_one_by_one_before_other_tasks():
    engine = ScriptedEngine(lose(2), answer_all, answer_all, answer_all, slots=1)
    engine.acts += [answer_all] * 4
    dispatcher = Dispatcher(engine, 0)
    send(dispatcher, 2, 3, 2)
    engine.acts.insert(0, answer(0))
    assert receive_all(dispatcher) == {n: float(n) for n in range(7)}
    assert engine.log == [[0, 1], [2, 3, 4], [2], [3], [4], [5, 6]]


def test_only_the_guilty_point_of_a_lost_task_fails():
    engine = ScriptedEngine(lose(0), answer(0), lose(1), lose(1), answer(2), slots=1)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 3)
    got = receive_all(dispatcher)
    assert (got[0], got[2]) == (0.0, 2.0)
    assert list(failed(got)) == [1]


# Executors that break


def test_tasks_of_a_broken_executor_are_sent_again_together_once_and_then_alone():
    engine = ScriptedEngine(break_all, break_all, *[answer_all] * 4)
    dispatcher = Dispatcher(engine, 0)
    send(dispatcher, 1, 1, 1, 1)
    beside = []

    def wait(pending, timeout):
        beside.append(len(pending))
        return ScriptedEngine.wait(engine, pending, timeout)

    engine.wait = wait
    assert receive_all(dispatcher) == {n: float(n) for n in range(4)}
    assert engine.restarts == 2
    assert beside == [3, 3, 1, 1, 1, 1]
    assert [sorted(number for (number,) in engine.log[i : i + 3]) for i in (0, 3, 6)] == [[0, 1, 2]] * 3
    assert engine.log[9:] == [[3]]


def test_a_point_that_breaks_executors_alone_fails_after_its_attempts():
    def break_with_1(engine):
        (break_all if [1] in engine.out.values() else answer_all)(engine)

    engine = ScriptedEngine(*[break_with_1] * 10)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 1, 1, 1, 1)
    got = receive_all(dispatcher)
    assert list(failed(got)) == [1]
    assert got[1].kind == "died"
    assert "2 times: broken" in got[1].reason
    assert sorted(got) == [0, 1, 2, 3]
    assert engine.restarts == engine.log.count([1]) == 4
    assert engine.log.count([0]) == engine.log.count([2]) == 3


def test_a_task_of_a_broken_executor_is_sent_again_point_by_point():
    engine = ScriptedEngine(break_all, answer_all, answer_all)
    dispatcher = Dispatcher(engine, 0)
    send(dispatcher, 2, 2)
    assert receive_all(dispatcher) == {n: float(n) for n in range(4)}
    assert sorted(engine.log[2:]) == [[0], [1], [2], [3]]


def test_answers_that_came_before_the_executor_broke_count():
    def answer_one_and_break(engine):
        answer(1)(engine)
        for number in (0, 2):
            lose(number, error=BrokenExecutor("broken"))(engine)

    engine = ScriptedEngine(answer_one_and_break, answer_all)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 1, 1, 1)
    assert receive_all(dispatcher) == {n: float(n) for n in range(3)}
    assert engine.log[:3] == [[0], [1], [2]]
    assert sorted(engine.log[3:]) == [[0], [2]]


def test_an_executor_that_breaks_during_submit_is_replaced():
    class Broken(ScriptedEngine):
        def submit(self, x, *, with_function=False):
            if self.restarts == 0 and len(self.log) == 1:
                raise BrokenExecutor("broken")
            return super().submit(x, with_function=with_function)

    engine = Broken(nothing, answer_all, answer_all)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 1, 1, 1)
    assert receive_all(dispatcher) == {n: float(n) for n in range(3)}
    assert engine.restarts == 1


def test_an_executor_that_cannot_be_replaced_ends_the_run():
    engine = ScriptedEngine(break_all, can_restart=False)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 1, 1)
    with pytest.raises(EngineDown, match=r"\(broken\).*workers=lambda: ProcessPoolExecutor"):
        dispatcher.receive()


def test_tasks_that_somebody_else_keeps_cancelling_end_the_run():
    """A Dask client that is closed, or a shared executor that is shut down, cancels running tasks."""

    def cancel(engine):
        for future in engine.out:
            future.cancel()

    dispatcher = Dispatcher(ScriptedEngine(*[cancel] * 60), 1)
    send(dispatcher, 1, 1)
    with pytest.raises(EngineDown):
        receive_all(dispatcher)


# The end of the engine


def test_faults_only_end_the_run():
    engine = ScriptedEngine(*[lose_all] * 60)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, *[1] * 40)
    with pytest.raises(EngineDown, match=r"\d+ times in a row .*gone"):
        receive_all(dispatcher)


@pytest.mark.parametrize(("slots", "retries", "faults"), [(3, 0, 32), (8, 0, 32), (20, 0, 80), (3, 2, 64)])
def test_the_engine_is_down_after_sixteen_lost_points_or_two_for_every_slot(slots, retries, faults):
    engine = ScriptedEngine(*[lose_first] * (faults - 1), answer_first, slots=slots)
    dispatcher = Dispatcher(engine, retries)
    send(dispatcher, *[1] * 200)
    assert len(receive(dispatcher)) == 1 + (faults - 1) // (retries + 1)
    engine = ScriptedEngine(*[lose_first] * faults, slots=slots)
    dispatcher = Dispatcher(engine, retries)
    send(dispatcher, *[1] * 200)
    with pytest.raises(EngineDown, match=f"{faults} times in a row"):
        receive_all(dispatcher)


def test_points_fail_only_when_others_are_answered():
    engine = ScriptedEngine(*[lose_first] * 10, answer_first, lose_first, answer_first, slots=1)
    dispatcher = Dispatcher(engine, 0)
    send(dispatcher, *[1] * 12)
    assert [delivery.number for delivery in receive(dispatcher)] == [10, *range(10)]  # the answer, then the failures
    assert [delivery.number for delivery in receive(dispatcher)] == [11]
    assert engine.log[-2:] == [[11], [10]]  # no other point was left: an answered one is evaluated again


def test_without_an_answer_the_last_points_are_not_blamed():
    engine = ScriptedEngine(answer_first, *[lose_first] * 100, slots=1)
    dispatcher = Dispatcher(engine, 0)
    send(dispatcher, 1, 1, 1)
    assert receive(dispatcher)[0].number == 0
    with pytest.raises(EngineDown, match="32 times in a row"):
        receive(dispatcher)


def test_an_answer_resets_the_count_of_faults():
    dispatcher = Dispatcher(ScriptedEngine(*[*[lose_first] * 31, answer_first] * 3, slots=2), 0)
    send(dispatcher, *[1] * 96)
    assert len(receive_all(dispatcher)) == 96
    dispatcher = Dispatcher(ScriptedEngine(*[lose_first] * 32, slots=2), 0)
    send(dispatcher, *[1] * 96)
    with pytest.raises(EngineDown):
        receive_all(dispatcher)


def test_executors_that_always_break_end_the_run():
    engine = ScriptedEngine(*[break_all] * 100)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, *[1] * 40)
    with pytest.raises(EngineDown, match=r"times in a row.*broken"):
        receive_all(dispatcher)


def test_an_answer_that_comes_together_with_the_last_fault_saves_the_engine():
    def lose_and_answer(engine):
        first, second = (numbers[0] for numbers in engine.out.values())
        lose(first)(engine)
        answer(second)(engine)

    engine = ScriptedEngine(*[lose_first] * 31, lose_and_answer, *[answer_all] * 20, slots=2)
    dispatcher = Dispatcher(engine, 0)
    send(dispatcher, *[1] * 50)
    got = receive_all(dispatcher)
    assert len(got) == 50
    assert got[32] == 32.0
    assert len(failed(got)) == 32


def test_answers_are_delivered_before_the_error_is_raised():
    def answer_one_and_break(engine):
        answer(0)(engine)
        for number in (1, 2):
            engine.future_of(number).set_exception(BrokenExecutor("broken"))

    dispatcher = Dispatcher(ScriptedEngine(answer_one_and_break, can_restart=False), 1)
    send(dispatcher, 1, 1, 1)
    assert values(dispatcher.receive()) == {0: 0.0}
    with pytest.raises(EngineDown):
        dispatcher.receive()


# The function


def test_a_worker_that_asks_for_the_function_is_sent_it_once():
    engine = ScriptedEngine(say(NeedsFunction(), 0), answer(0, 1), answer_all)
    dispatcher = Dispatcher(engine, 1)
    send(dispatcher, 1, 1, 1, 1, 1)
    assert receive_all(dispatcher) == {n: float(n) for n in range(5)}
    assert engine.with_function == [[0]]
    assert engine.log == [[0], [1], [2], [0], [3], [4]]


def test_asking_for_the_function_is_no_fault():
    engine = ScriptedEngine(*[lose(0)] * 15, say(NeedsFunction(), 0), answer(0), slots=1)
    dispatcher = Dispatcher(engine, 15)
    send(dispatcher, 1)
    assert receive_all(dispatcher) == {0: 0.0}


def test_a_function_that_cannot_be_loaded_ends_the_run_with_the_reason():
    dispatcher = Dispatcher(ScriptedEngine(say(Unloadable("ModuleNotFoundError: no mine"), 0)), 1)
    send(dispatcher, 1)
    with pytest.raises(EngineDown, match=r"cannot be loaded .*\(ModuleNotFoundError: no mine\)"):
        dispatcher.receive()


def test_workers_without_paoswarm_end_the_run_with_advice():
    dispatcher = Dispatcher(ScriptedEngine(lose(0, error=ModuleNotFoundError("No module named 'paoswarm'"))), 1)
    send(dispatcher, 1)
    with pytest.raises(EngineDown, match=r"cannot import .*install paoswarm"):
        dispatcher.receive()


def test_the_reason_is_kept_short():
    engine = ScriptedEngine(lose(0, error=RuntimeError("word  \n " * 200)))
    dispatcher = Dispatcher(engine, 0)
    send(dispatcher, 1)
    (reason,) = failed(receive_all(dispatcher)).values()
    assert len(reason) < 350
    assert "\n" not in reason
    assert reason.endswith("...")


def test_submitting_looks_at_each_parcel_a_few_times(monkeypatch):
    looks, before = [0], Parcel.must_run_alone

    def counted(parcel):
        looks[0] += 1
        return before.fget(parcel)

    monkeypatch.setattr(Parcel, "must_run_alone", property(counted))
    dispatcher = Dispatcher(ScriptedEngine(answer_all, slots=None), 0)
    send(dispatcher, *[1] * 500)
    assert len(receive_all(dispatcher)) == 500
    assert looks[0] <= 5 * 500
