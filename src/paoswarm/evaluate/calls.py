"""Call the user's function, check what it returns, describe what failed, and send it to other processes."""

from __future__ import annotations

import inspect
import math
import pickle
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import FOR_RESIDUALS, rounded, unmasked
from paoswarm._text import describe_error, repr_of, shortened, text_of
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.interrupts import interruptible
from paoswarm.evaluate.program_output import CommandFailed, WrongOutput
from paoswarm.space.space import FunctionOfValues

Objective = Callable[..., Any]

# The ways an evaluation can fail. A reason starts with one of these, so a recorded reason shows its kind.
RAISED, NAN, MINUS_INF, TIMED_OUT, DIED = "raised", "returned NaN", "returned -inf", "timed out", "died"
CONSTRAINT = "constraint failed"  # it raised or was NaN
PROGRAM_FAILED = f"{RAISED} an error: "  # of a `Command`; then its own words
NO_NUMBER = "not a real number"  # any other reason


@dataclass(frozen=True)
class WithArguments:
    """A function with arguments after the point, as SciPy's ``args``. It can be sent between processes."""

    fun: Objective
    args: tuple[Any, ...]

    def __call__(self, x: Floats) -> Any:
        """Return the value at a point."""
        return self.fun(x, *self.args)


def with_arguments(fun: Objective, args: Any) -> Objective:
    """The function of the point alone; a single value that is no tuple is one argument, as in SciPy."""
    args = args if isinstance(args, tuple) else (args,)
    if not args or not callable(fun):
        return fun
    return WithArguments(fun, args)


def to_fingerprint(fun: Objective, *more: Any) -> Any:
    """The user's function and its arguments in the form that `paoswarm.store.fingerprint` looks into.

    There may be ``more`` that decides the values.
    """
    own = fun
    if isinstance(fun, WithArguments):
        own = partial(fun.fun, *fun.args)
    elif hasattr(fun, "to_fingerprint"):
        own = fun.to_fingerprint()
    return partial(own, *more) if more else own


class Failed(NamedTuple):
    """Stand-in for the value of a point whose evaluation failed. It can be sent between processes."""

    reason: str
    wrong_form: bool = False  # fun returned something that is not a real number for each point
    error: BaseException | None = None
    wrong_output: bool = False  # of a `Command`, or there is no such program

    @property
    def kind(self) -> str:
        """The kind of failure, in a word or two."""
        kinds = (RAISED, NAN, MINUS_INF, TIMED_OUT, DIED, CONSTRAINT)
        return next((kind for kind in kinds if self.reason.startswith(kind)), NO_NUMBER)


Answers = list[float | Failed] | Floats


def sort_out(answers: Answers, *, minus_inf_fails: bool) -> tuple[Floats, dict[int, Failed]]:
    """Return the values, with NaN where a point failed, and the failures by row."""
    failed: dict[int, Failed] = {}
    if isinstance(answers, np.ndarray):
        values: Floats = answers
    else:
        values = np.array([np.nan if isinstance(a, Failed) else a for a in answers], dtype=float)
    lowest = values.item(values.argmin()) if values.size else 0.0  # NaN if there is any
    if math.isnan(lowest):
        for i in np.flatnonzero(np.isnan(values)).tolist():
            answer = answers[i]
            failed[i] = answer if isinstance(answer, Failed) else Failed(NAN)
    if minus_inf_fails and (failed or lowest == -math.inf):
        is_lowest = values == -np.inf
        values = np.where(is_lowest, np.nan, values)
        failed |= {i: Failed(MINUS_INF) for i in np.flatnonzero(is_lowest).tolist()}
    return values, failed


def call_rows(
    fun: Objective, x: Floats, deadline: float | None, finished: Callable[[int, Answers], None] | None = None
) -> tuple[list[float | Failed], KeyboardInterrupt | None]:
    """Evaluate one point after another until the deadline.

    Returns the answers so far, and the interrupt of the user if there was one. The first point is always evaluated.
    """
    answers: list[float | Failed] = []
    gate = interruptible()
    try:
        for row in x.copy():
            if deadline is not None and answers and time.monotonic() >= deadline:
                break
            try:
                with gate:
                    answer = fun(row)
            except Exception as error:
                answer = _raised(error)
            answers.append(answer if type(answer) is float else _one_number(answer))
            if finished is not None:
                finished(len(answers) - 1, answers[-1:])
    except KeyboardInterrupt:
        return answers, KeyboardInterrupt()
    return answers, None


def _one_number(answer: Any) -> float | Failed:
    """What a function has returned for one point, as a number."""
    if isinstance(answer, float):  # includes numpy.float64
        return _plain(answer)
    if isinstance(answer, Failed):
        return answer
    number = as_numbers(answer)
    if number.size == 1 and number.dtype.kind in "fiub":
        return float(number.reshape(())[()])
    return one_number_expected(answer)


def one_number_expected(answer: Any) -> Failed:
    """The failure of a point whose answer is not one real number."""
    reason = f"fun must return one real number for a point, but returned {describe_answer(answer)}{advice_on(answer)}"
    return Failed(reason, wrong_form=True)


def advice_on(answer: Any) -> str:
    """What to do about an answer of the wrong form; usually empty."""
    if answer is None:
        return "; perhaps a return statement is missing"
    if isinstance(answer, tuple) and len(answer) == 2:
        return (
            "; if the second part holds numbers that must stay within limits, give constraints=ps.Returned(n), else "
            "return the first part alone"
        )
    if (numbers := as_numbers(answer)).size > 1 and numbers.dtype.kind in "fiuc":
        return f"; {FOR_RESIDUALS}"
    return ""


def as_numbers(answer: Any) -> NDArray[Any]:
    """Return the answer as an array; one of objects if it holds anything but real numbers."""
    try:
        return rounded(np.asarray(unmasked(answer)))
    except Exception:
        return np.asarray(None)


def call_vectorized(
    fun: Objective, x: Floats, finished: Callable[[int, Answers], None] | None = None
) -> Floats | list[float | Failed]:
    """Evaluate all points in one call. If that raises, evaluate them one at a time."""
    together = _call_together(fun, x)
    if together is not None:
        if finished is not None:
            finished(0, together)
        return together
    answers: list[float | Failed] = []
    for row in x:  # one bad point must not cost the others
        answers.extend(call_vectorized(fun, row[None]))
        if finished is not None:
            finished(len(answers) - 1, answers[-1:])
    return answers


def _call_together(fun: Objective, x: Floats) -> Floats | list[float | Failed] | None:
    """The answers for all points in one call; None if it raises for more than one."""
    try:
        with interruptible():
            answer = fun(x.copy())
    except Exception as error:
        return [_raised(error)] if len(x) == 1 else None
    if isinstance(answer, list) and len(answer) == len(x) and isinstance(answer[0], Detailed | Failed):
        return answer
    values = as_numbers(answer)
    if values.ndim == 0 and len(x) == 1:  # SciPy's multivariate densities return a scalar for a single row
        values = values.reshape(1)
    if values.shape == (len(x),) and values.dtype.kind in "fiub":
        return values.astype(float)  # a copy: the function may reuse its buffer
    m, d = x.shape
    is_named = isinstance(fun, FunctionOfValues)
    points = f"a dict of arrays of shape ({m},)" if is_named else f"points of shape ({m}, {d})"
    reason = f"with vectorized=True fun takes {points} and must return real numbers of shape ({m},), "
    reason += f"but returned {describe_answer(answer)}"
    if not is_named and values.shape[:1] == (d,):
        reason += f"; is it written for shape ({d}, {m}), one point per column? Rows are points here: use x.T inside"
    elif values.ndim == 0 and values.dtype.kind in "fiub":
        reason += "; is it written for a single point? Then leave out vectorized=True"
    else:
        reason += advice_on(answer)
    return [Failed(reason, wrong_form=True)] * len(x)


def call_portably(fun: Objective, x: Floats, vectorized: bool) -> list[float | Failed]:
    """Evaluate points and return answers that can be sent to another process.

    The exceptions themselves are dropped, because not all of them can be pickled. Their text is kept.
    """

    def without_exit(points: Floats) -> Any:
        try:
            return fun(points)
        except SystemExit as request:  # must not end the worker
            raise RuntimeError(f"the function called sys.exit({request.code!r})") from request

    answers: Answers
    interrupt = None
    if vectorized:
        answers = call_vectorized(without_exit, x)
    else:
        answers, interrupt = call_rows(without_exit, x, None)
    if interrupt is not None:
        raise interrupt
    return [a._replace(error=None) if isinstance(a, Failed) else _plain(a) for a in answers]


def _plain(number: float) -> float:
    return number if isinstance(number, Detailed) else float(number)


def call_row(fun: Objective, vectorized: bool, row: Floats) -> float | Failed:
    """Evaluate one row, for a map-like ``workers``."""
    return call_portably(fun, row[None], vectorized)[0]


def _raised(error: BaseException) -> Failed:
    if isinstance(error, CommandFailed):  # its class says nothing to a user
        wrong_output = isinstance(error, WrongOutput)
        return Failed(f"{PROGRAM_FAILED}{text_of(error)}", error=error, wrong_output=wrong_output)
    return Failed(f"{RAISED} {describe_error(error)}", error=error)


def describe_answer(answer: Any) -> str:
    """What a function returned, for messages."""
    if isinstance(answer, np.ndarray):
        return shortened(f"an array of shape {answer.shape} and type {answer.dtype}", 300)
    return f"{repr_of(answer, 80)} ({type(answer).__name__})"


class Detailed(float):
    """A value that carries more numbers of its point: constraints, outputs or residuals.

    It is a float, so that whatever handles values can handle it. It can be sent between processes.
    """

    details: Any

    def __new__(cls, value: float, details: Any) -> Detailed:
        """A value with its details."""
        made = super().__new__(cls, value)
        made.details = details
        return made

    def __getnewargs__(self) -> tuple[float, Any]:  # type: ignore[override]
        return float(self), self.details


def size_of_details(answers: Iterable[Any]) -> int:
    """How many numbers answers carry besides their value; zero if none of them says."""
    return next((len(answer.details) for answer in answers if isinstance(answer, Detailed)), 0)


def details_of(answers: Iterable[Any], count: int) -> Floats:
    """The details ``(m, count)`` of answers; NaN where an evaluation failed."""
    nothing = (math.nan,) * count
    rows = [answer.details if isinstance(answer, Detailed) else nothing for answer in answers]
    if (other := next((len(row) for row in rows if len(row) != count), None)) is not None:
        raise ValueError(f"the function returned {count} numbers at one point and {other} at another")
    return np.array(rows, dtype=float).reshape(len(rows), count)


def was_called(answer: Any) -> bool:
    """Whether an answer says something about the objective: not if a constraint failed before it was called."""
    return not (isinstance(answer, Detailed) and answer == math.inf)


def with_details(values: Floats, details: Floats | None) -> Floats:
    """Values ``(m,)``, or rows ``(m, 1 + k)`` of values and details if there are any."""
    return values if details is None else np.concatenate([values[:, None], details], axis=1)


def dump(fun: Any) -> bytes:
    """Return the pickled function; raise a TypeError that names what cannot be pickled and what to do."""
    save = _save_by_value()
    try:
        return save(fun)
    except Exception as error:
        culprits = [name for name, thing in _referenced_objects(fun).items() if not _can_pickle(save, thing)]
        because = f"it uses {', '.join(map(repr, culprits))}, which cannot be pickled: " if culprits else ""
        advice = "create it inside fun, or use workers=ThreadPoolExecutor(...) without timeout"
        if save is pickle.dumps:
            advice = "install cloudpickle (pip install 'paoswarm[parallel]') or define fun at the top level of a module"
        raise TypeError(
            f"the function cannot be sent to worker processes: {because}{describe_error(error)}; {advice}"
        ) from error


def _save_by_value() -> Callable[[Any], bytes]:
    """What pickles functions with their code, as far as the script has defined them; without cloudpickle, by name."""
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps
    script = sys.modules["__main__"]
    if script.__name__ != "__mp_main__":  # as it is called in a process that was spawned
        return cast(Callable[[Any], bytes], cloudpickle.dumps)

    def save(thing: Any) -> bytes:
        cloudpickle.register_pickle_by_value(script)
        try:
            return cast(bytes, cloudpickle.dumps(thing))
        finally:
            cloudpickle.unregister_pickle_by_value(script)

    return save


def load(pickled: bytes) -> Any:
    """Return the function that `dump` was given."""
    return pickle.loads(pickled)


def _referenced_objects(fun: Any) -> dict[str, Any]:
    """Return what a function refers to, or the attributes of an object, by name."""
    if inspect.isfunction(fun):
        used = inspect.getclosurevars(fun)
        return {**used.globals, **used.nonlocals}
    if inspect.ismethod(fun):
        return {"self": fun.__self__, **_referenced_objects(fun.__self__)}
    return dict(getattr(fun, "__dict__", {}))


def _can_pickle(save: Callable[[Any], bytes], thing: Any) -> bool:
    try:
        save(thing)
    except Exception:
        return False
    return True
