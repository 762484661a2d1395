"""Constraints as users write them, read into one list of numbers with limits.

Every constraint gives one number or several, and each number ``c`` must satisfy ``lb <= c <= ub``. All numbers of all
constraints form one vector, in the order in which the user gave them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import LinearConstraint, NonlinearConstraint

from paoswarm._checks import counted, whole_number
from paoswarm._text import describe_error
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.calls import describe_answer, with_arguments
from paoswarm.evaluate.failures import what_it_receives

_EQUAL = 1e-4  # how far an equality may be off unless the user says: what the CEC competitions allow
_FORMS = (
    "constraints must be a scipy.optimize.LinearConstraint or NonlinearConstraint, a ps.Constraint, a ps.Returned, a "
    "function g with g(x) <= 0 where x is allowed, or a list of these"
)


@dataclass(frozen=True, eq=False)
class Constraint:
    """A function of the point that must stay within limits.

    It is called before the objective, and the objective is not called where an inequality fails. So it should be cheap.
    Limits on what the simulation itself computes are `Returned`.

    Parameters
    ----------
    fun : callable
        ``fun(x)`` returns one number or several. If it returns True or False, True means allowed. With
        ``vectorized=True`` it gets points ``(m, d)`` and returns ``(m,)`` or ``(m, k)``, as the objective does.
    lb, ub : float or array
        Limits: ``lb <= fun(x) <= ub``. By default ``fun(x) <= 0``. Equal limits make an equality.
    tol : float or None
        How far beyond a limit a point may be and still be allowed. None: 0, and 1e-4 for an equality, because no
        search hits it exactly. The search uses what is allowed: the value may be a little below the minimum with exact
        equality. On smooth problems 1e-8 costs nothing.
    name : str
        Its name in messages; empty: its place in the list.

    Examples
    --------
    >>> import paoswarm as ps
    >>> disc = ps.Constraint(lambda x: x[0] ** 2 + x[1] ** 2, ub=1.0, name="radius")
    >>> result = ps.minimize(lambda x: x[0] + x[1], [(-2, 2)] * 2, constraints=disc, polish=True, maxfev=1000, rng=1)
    >>> print(result.feasible, f"{result.fun:.6f}")
    True -1.414214
    """

    fun: Callable[..., Any]
    lb: ArrayLike = -math.inf
    ub: ArrayLike = 0.0
    tol: float | None = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class Returned:
    """Constraints that the objective returns together with its value, because one simulation computes both.

    The objective then returns ``(value, numbers)``; with ``vectorized=True``, arrays ``(m,)`` and ``(m, n)``.

    Parameters
    ----------
    n : int
        How many numbers.
    lb, ub : float or array (n,)
        Limits: ``lb <= number <= ub``. By default ``number <= 0``.
    tol : float or None
        As in `Constraint`.
    name : str
        Their name in messages.

    Examples
    --------
    >>> import paoswarm as ps
    >>> def simulate(x):
    ...     mass, stress = x[0] + x[1], 1 / (x[0] * x[1])
    ...     return mass, [stress]
    >>> limit = ps.Returned(1, ub=4.0, name="stress")
    >>> result = ps.minimize(simulate, [(0.1, 2)] * 2, constraints=limit, polish=True, maxfev=2000, rng=1)
    >>> print(result.feasible, f"{result.fun:.6f}")
    True 1.000000
    """

    n: int
    lb: ArrayLike = -math.inf
    ub: ArrayLike = 0.0
    tol: float | None = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class Linear:
    """The numbers ``A x`` of points ``(d,)`` or ``(m, d)``."""

    matrix: Floats  # (k, d)

    def __call__(self, x: Any) -> Any:
        """``A x``, point by point."""
        points = np.stack([x[name] for name in x], axis=-1) if isinstance(x, Mapping) else np.asarray(x)
        return points @ self.matrix.T


class ConstraintPart(NamedTuple):
    """One constraint of the user's list."""

    label: str
    fun: Callable[..., Any] | None  # None: the objective returns it
    lb: Floats  # (k,), or (1,) until the number of numbers is known
    ub: Floats
    tol: Floats
    is_sized: bool  # whether the number of numbers is known
    may_be_truth: bool = False  # whether True means allowed

    def numbers(self, x: Any, count: int | None) -> Floats:
        """Its numbers at one point ``(k,)`` if ``count`` is None, else at ``count`` points ``(count, k)``.

        Raises a `WrongForm` if they are no real numbers, or of another number than expected.
        """
        assert self.fun is not None
        given = self.fun(x.copy() if isinstance(x, np.ndarray) else x)  # it may overwrite its argument
        try:
            answer = np.asarray(given)
        except ValueError:  # of different lengths
            answer = np.asarray(None)
        if answer.dtype.kind == "b" and self.may_be_truth:
            answer = np.where(answer, 0.0, 1.0)
        if answer.dtype.kind not in "fiub":
            raise WrongForm(f"{self.label} must return real numbers, but returned {describe_answer(given)}")
        numbers = answer.astype(float)
        rows = numbers.reshape(-1) if count is None else _one_row_each(numbers, count)
        if rows is None:
            raise WrongForm(
                f"with vectorized=True {self.label} takes {counted(count or 0, 'point')}, one per row, and must return "
                f"an array of shape ({count},) or ({count}, k), but returned {describe_answer(given)}"
            )
        if self.is_sized and rows.shape[-1] != len(self.lb):
            raise WrongForm(
                f"{self.label} must return {counted(len(self.lb), 'number')} for a point, as many as it has limits, "
                f"got {rows.shape[-1]}"
            )
        return rows


def _one_row_each(numbers: Floats, count: int) -> Floats | None:
    """Numbers as an array with a row for each of ``count`` points; None if they have no such form."""
    if numbers.ndim == 0 and count == 1:
        return numbers.reshape(1, 1)
    if numbers.ndim == 1 and count in (1, len(numbers)):
        return numbers.reshape(count, -1)
    return numbers if numbers.ndim == 2 and len(numbers) == count else None


class WrongForm(Exception):
    """A constraint returned something that cannot be compared with its limits."""


class ConstraintSet:
    """All constraints of a problem, as one vector of numbers with limits.

    Attributes
    ----------
    parts : tuple of ConstraintPart
        The user's constraints, with known sizes.
    lb, ub, tol : array (k,)
        Limits of all numbers, and how far beyond them is allowed.
    is_equality, is_returned : array of bool (k,)
        Which numbers must have a certain value, and which come from the objective.
    count, n_returned : int
        How many numbers there are, and how many of them the objective returns.
    labels : tuple of str
        A name for each number.
    """

    def __init__(self, parts: Sequence[ConstraintPart]) -> None:
        self.parts = tuple(parts)
        self.lb, self.ub = np.concatenate([part.lb for part in parts]), np.concatenate([part.ub for part in parts])
        self.tol: Floats = np.concatenate([part.tol for part in parts])
        self.is_equality: NDArray[np.bool_] = np.asarray(self.lb == self.ub)
        self.is_returned: NDArray[np.bool_] = np.repeat([p.fun is None for p in parts], [len(p.lb) for p in parts])
        self.count, self.n_returned = len(self.lb), int(self.is_returned.sum())
        self.labels = tuple(
            part.label if len(part.lb) == 1 else f"{part.label}, number {i}"
            for part in parts
            for i in range(len(part.lb))
        )

    def at(self, x: Any) -> Floats:
        """The numbers ``(k,)`` at a point, if all are functions of it; NaN for those whose function raises."""
        found = []
        for part in self.parts:
            try:
                found.append(part.numbers(x, None))
            except WrongForm as error:
                raise TypeError(str(error)) from None
            except Exception:
                found.append(np.full(len(part.lb), math.nan))
        return np.concatenate(found)

    def split(self, numbers: Floats) -> list[Floats]:
        """A vector ``(k,)`` constraint by constraint, in the user's order."""
        return np.split(numbers, np.cumsum([len(part.lb) for part in self.parts])[:-1])

    def excess(self, numbers: Floats) -> Floats:
        """How far numbers ``(..., k)`` are beyond their limits; zero for unknown ones (NaN)."""
        return np.fmax(np.fmax(self.lb - numbers, numbers - self.ub), 0.0)

    def violations(self, numbers: Floats) -> Floats:
        """The same, but zero within the tolerance."""
        excess = self.excess(numbers)
        return np.where(excess > self.tol, excess, 0.0)


def read_constraints(given: Any, trials: Sequence[Any], vectorized: bool) -> ConstraintSet | None:
    """The constraints that a user gives, checked; None if there are none.

    ``trials`` are points as the user's functions get them: for several points in one call with ``vectorized``. At
    these the functions are called once, so that mistakes show before the first evaluation.
    """
    if given is None or (isinstance(given, list | tuple) and len(given) == 0):
        return None
    items = list(given) if isinstance(given, list | tuple) else [given]
    parts = [_read(item, f"constraints[{i}]" if len(items) > 1 else "the constraint") for i, item in enumerate(items)]
    if sum(part.fun is None for part in parts) > 1:
        raise ValueError("constraints holds more than one ps.Returned: give one with all the numbers that fun returns")
    return ConstraintSet(
        [
            part if part.fun is None or isinstance(part.fun, Linear) else _sized(part, trials, vectorized)
            for part in parts
        ]
    )


def _read(item: Any, label: str) -> ConstraintPart:
    for kind, read in _READERS.items():
        if isinstance(item, kind):
            return read(item, label)
    if isinstance(item, type) or not callable(item):
        raise TypeError(f"{_FORMS}; got {item!r}")
    return _part(label, item, -math.inf, 0.0, None, truth=True)


def _read_linear(item: LinearConstraint, label: str) -> ConstraintPart:
    matrix = np.atleast_2d(np.asarray(item.A, dtype=float)) if not hasattr(item.A, "toarray") else item.A.toarray()
    if not np.isfinite(matrix).all():
        raise ValueError(f"{label}: the matrix of a LinearConstraint must be finite")
    lb, ub = (np.broadcast_to(np.asarray(end, dtype=float), (len(matrix),)) for end in (item.lb, item.ub))
    return _part(label, Linear(matrix), lb, ub, None, sized=True)


def _read_constraint(item: Constraint, label: str) -> ConstraintPart:
    is_plain = np.ndim(item.lb) == 0 and np.ndim(item.ub) == 0 and item.lb == -math.inf and item.ub == 0
    return _part(item.name or label, item.fun, item.lb, item.ub, item.tol, truth=is_plain)


def _read_returned(item: Returned, label: str) -> ConstraintPart:
    n = whole_number(f"{label}: n", item.n, 1)
    try:
        lb, ub = (np.broadcast_to(np.asarray(end, dtype=float), (n,)) for end in (item.lb, item.ub))
    except ValueError:
        raise ValueError(f"{label}: ps.Returned({n}) needs {n} limits, or one for all") from None
    return _part(item.name or label, None, lb, ub, item.tol, sized=True)


def _read_mapping(item: Mapping[str, Any], label: str) -> ConstraintPart:
    """SciPy's older form: ``{"type": "ineq" or "eq", "fun": f}`` means f(x) >= 0 or f(x) = 0."""
    kind, fun = item.get("type"), item.get("fun")
    if kind not in ("ineq", "eq") or not callable(fun):
        raise ValueError(f"{label} is a dictionary: it needs 'type' ('ineq' or 'eq') and 'fun', got {dict(item)!r}")
    args = item.get("args", ())
    fun = with_arguments(fun, tuple(args) if isinstance(args, list) else args) if args else fun
    return _part(label, fun, 0.0, math.inf if kind == "ineq" else 0.0, None)


_READERS: dict[type, Callable[[Any, str], ConstraintPart]] = {
    LinearConstraint: _read_linear,
    NonlinearConstraint: lambda item, label: _part(label, item.fun, item.lb, item.ub, None),
    Constraint: _read_constraint,
    Returned: _read_returned,
    Mapping: _read_mapping,
}


def _part(
    label: str, fun: Any, lb: Any, ub: Any, tol: float | None, *, sized: bool = False, truth: bool = False
) -> ConstraintPart:
    if fun is not None and not callable(fun):
        raise TypeError(f"{label}: fun must be callable, got {fun!r}")
    try:
        low, high = np.broadcast_arrays(np.atleast_1d(np.asarray(lb, float)), np.atleast_1d(np.asarray(ub, float)))
    except (TypeError, ValueError):
        raise ValueError(f"{label}: lb and ub must be numbers, as many as there are constraints") from None
    if low.ndim != 1 or np.isnan(low).any() or np.isnan(high).any():
        raise ValueError(f"{label}: lb and ub must be numbers, not NaN, got lb={lb!r}, ub={ub!r}")
    if (low > high).any() or (low == math.inf).any() or (high == -math.inf).any():
        i = int(np.argmax((low > high) | (low == math.inf) | (high == -math.inf)))
        raise ValueError(f"{label}: no number is between lb={low[i]:g} and ub={high[i]:g} (reversed?)")
    if tol is not None and not (np.ndim(tol) == 0 and 0 <= tol < math.inf):
        raise ValueError(f"{label}: tol must be a finite number of at least 0, got {tol!r}")
    allowed = np.where(low == high, _EQUAL, 0.0) if tol is None else np.full(len(low), float(tol))
    return ConstraintPart(label, fun, low.copy(), high.copy(), allowed, sized or len(low) > 1, truth)


def _sized(part: ConstraintPart, trials: Sequence[Any], vectorized: bool) -> ConstraintPart:
    """A constraint with as many limits as its function returns numbers, tried at some points."""
    problem: Exception | None = None
    for x in trials:
        try:
            rows = part.numbers(x, 1 if vectorized else None)
        except WrongForm as error:
            raise TypeError(str(error)) from None
        except Exception as error:
            problem = problem or error
            continue
        k = rows.shape[-1]
        if k == 0:
            raise ValueError(f"{part.label} returned no number")
        if part.is_sized:
            return part
        return part._replace(
            lb=np.repeat(part.lb, k), ub=np.repeat(part.ub, k), tol=np.repeat(part.tol, k), is_sized=True
        )
    assert problem is not None
    raise ValueError(
        f"{part.label} raised an exception at {len(trials)} points of the bounds; the first: {describe_error(problem)}"
        f"{_advice(problem, trials[0], vectorized)}"
    ) from problem


def _advice(problem: Exception, x: Any, vectorized: bool) -> str:
    """What may be wrong with a constraint that raises everywhere."""
    if isinstance(problem, TypeError) and "required positional argument" in str(problem):
        return "; args are passed to fun alone: bind them to the constraint, lambda x: g(x, a) or functools.partial"
    if isinstance(x, Mapping) and isinstance(problem, LookupError | AttributeError | TypeError):
        return f"; {what_it_receives(list(x), vectorized)}"
    return "; with vectorized=True it receives an array (m, d), one point per row" if vectorized else ""


def without_functions(constraints: ConstraintSet) -> list[dict[str, Any]]:
    """What a store keeps of constraints: everything but their functions."""
    return [
        {
            "label": part.label,
            "kind": "returned" if part.fun is None else "linear" if isinstance(part.fun, Linear) else "function",
            "lb": part.lb,
            "ub": part.ub,
            "tol": part.tol,
            **({"matrix": part.fun.matrix} if isinstance(part.fun, Linear) else {}),
        }
        for part in constraints.parts
    ]
