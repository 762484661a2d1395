"""What a run returns: SciPy's ``OptimizeResult`` with the swarm, its history and the law of its next step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from paoswarm._text import block, first_rows, paragraph, remark, table
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.laws import NextStep, StepLaw
from paoswarm.core.swarm import Swarm
from paoswarm.core.walls import Axes
from paoswarm.methods.agreement import Agreement, Search, agreement, all_placed, places_of
from paoswarm.methods.method import Method
from paoswarm.run.hints import advice
from paoswarm.space import evaluations
from paoswarm.space.evaluations import Evaluations
from paoswarm.space.names import numbered
from paoswarm.space.space import Space

# What a result says about constraints if there are none, so that code for both cases needs no question.
_WITHOUT_CONSTRAINTS: dict[str, Callable[[], Any]] = {
    "feasible": lambda: True,
    "constr": list,
    "constr_violation": list,
    "maxcv": float,
    "n_infeasible": int,
    "hardest": str,
}


class Result(OptimizeResult):
    """What `minimize` returns: an ``OptimizeResult`` whose text is short enough to read.

    Attributes
    ----------
    x : array (d,)
        The best point; of points with equal values, the one that was found first. One number for each variable: of a
        `Choice` the index of its entry.
    best : dict, list or array
        The same as you gave the variables: by name if they have names, with their own types and entries.
    fun : float
        Its value; with ``reevaluate`` the mean of its measurements.
    fun_error : float or None
        Standard error of that mean; None if it was not measured twice. The point was chosen for its mean, so
        ``fun`` is too good by about two of these.
    success : bool
        Whether something was achieved: the run converged, polishing did, or your own ``target`` or
        ``callback`` ended it. False if the budget ran out. It does not mean that the minimum is the global one.
    status, message : Status, str
        Why it ended.
    nit, nfev, n_failed : int
        Generations, evaluated points, and those of them that failed.
    n_recalled : int
        If all variables are discrete: how many points the swarm asked for once more. Their values were recalled, so
        they are no part of ``nfev``. (Not with ``reevaluate``.)
    failures : list of Failure
        The first ten failed points, ``(x, reason)``.
    failure_kinds : Counter
        How many failed in which way: ``raised``, ``returned NaN``, ``returned -inf``, ``not a real number``,
        ``timed out``, ``died``.
    history : History
        Best, mean, spread and evaluations after every generation.
    swarm : Swarm
        The final state; ``init=result`` continues from it.
    method : Method
        The method that was used.
    engine : str
        The engine that ran it: ``numpy``, ``numba``, ``jax`` or ``cuda``.
    progress : float
        How far the run was, in [0, 1]: where its schedules stand.
    next_step : NextStep or None
        Where the particles will be after one more step: how far they still disagree. It is not a confidence interval of
        ``x``. For methods that start again it is about the search that has found ``x``; if that search has ended, as
        it was then. None if the method of the swarm has no closed form of its step: `PAO` and `DensePAO` have one.
        None after polishing: the swarm has not seen the polished point.
    feasible : bool
        Whether ``x`` satisfies all constraints, within their tolerances. True if there are none.
    constr, constr_violation : list of arrays
        The numbers of the constraints at ``x``, and how far these are beyond their limits, in the order given. Empty
        if there are none.
    maxcv : float
        The largest of these violations; zero if there are no constraints.
    n_infeasible, hardest : int, str
        How many points were infeasible, and which constraint most of them have violated.
    searches : SearchTable
        For methods that start again, a tuple of every `Search` that has ended: kind, evaluations, best point, value,
        how it ended. It prints as a table. With constraints, local searches from random points are part of it.
    agreement : Agreement or None
        For methods that start again: how many of these searches ended at the best point, and how likely a better
        minimum was missed.
    hint : str
        What to try next, for example wider bounds if unknowns lie on them; usually empty.
    """

    x: Floats
    fun: Any
    fun_error: Any  # float, or None
    success: Any
    status: Any
    message: Any
    nit: Any
    nfev: Any
    n_failed: Any
    failures: list[Any]
    failure_kinds: Counter[str]
    history: Any
    swarm: Swarm
    method: Any
    engine: str
    progress: Any
    space: Any
    constraints: Any
    feasible: Any
    constr: Any
    constr_violation: Any
    maxcv: Any
    n_infeasible: Any
    hardest: Any

    def __init__(self, **fields: Any) -> None:
        self.update(fields)

    def __getattr__(self, name: str) -> Any:
        if name == "engine" and name not in self:
            return "numpy"
        if name in _WITHOUT_CONSTRAINTS and "constraints" not in self and name not in self:
            return self._of_all_runs(_WITHOUT_CONSTRAINTS[name]())
        return super().__getattr__(name)

    def _of_all_runs(self, value: Any) -> Any:
        """A value that is the same for all runs."""
        return value

    @property
    def hint(self) -> str:
        """What the swarm suggests to try next; usually empty."""
        return advice(self) if {"method", "swarm", "history"} <= self.keys() else ""

    @property
    def best(self) -> Any:
        """The best point as the user gave the variables: a dict by name, a list of values, or ``x`` itself."""
        if "space" not in self:
            return self.x
        return self.space.nested(self.x) if np.ndim(self.fun) else self.space.point(self.x)

    def to_dataframe(self) -> Any:
        """Convert all evaluations of this call to a ``pandas.DataFrame``. Needs pandas.

        It has a column for each variable, in its own type, ``value`` (NaN if it failed) and ``failed``. With
        constraints there is also ``violation``, how far the worst of them is beyond its limits; values are infinite
        where the objective was not called. Of a stored run, `Store.to_dataframe` also tells when each point was
        evaluated and why it failed.
        """
        rows, values, numbers = self._evaluated()
        excess = None if numbers is None else self.constraints.excess(numbers).max(axis=1)
        return evaluations.table(self.get("space"), rows, values, violations=excess)

    def to_xarray(self) -> Any:
        """Convert all evaluations of this call to an ``xarray.Dataset``. Needs xarray.

        Along the dimension ``evaluation`` there are a variable for each unknown, ``value`` (NaN if it failed) and
        ``failed``; with constraints also ``violation``, and ``number`` with the second dimension ``constraint``. The
        message and the counts are attributes.
        """
        rows, values, numbers = self._evaluated()
        extra: dict[str, Any] = {"value": ("evaluation", values), "failed": ("evaluation", np.isnan(values))}
        coords: dict[str, Any] = {"evaluation": np.arange(len(values))}
        if numbers is not None:
            extra["violation"] = ("evaluation", self.constraints.excess(numbers).max(axis=1))
            extra["number"] = (("evaluation", "constraint"), numbers)
            coords["constraint"] = list(self.constraints.labels)
        attrs = {"message": self.message, "success": int(self.success), "nit": self.nit, "nfev": self.nfev}
        return evaluations.dataset(self.get("space"), rows, extra, coords, attrs)

    def _evaluated(self) -> tuple[Floats, Floats, Floats | None]:
        """Points, values, and with constraints their numbers."""
        kept: Evaluations | None = self.get("evaluations")
        if kept is None or not kept.is_complete:
            why = "not kept by minimize_many" if kept is None else "too many to keep in memory"
            raise ValueError(f"the evaluations were {why}: give store=..., then Store(...).to_dataframe() has them")
        rows, values = kept.points
        return (rows, values, None) if values.ndim == 1 else (rows, values[:, 0], values[:, 1:])

    @property
    def searches(self) -> SearchTable:
        """The searches that have ended; empty for a method that does not start again."""
        self._refuse_many("searches")
        found: tuple[Search, ...] = (*self.method.report(self.swarm).searches, *self.get("local_searches", ()))
        return SearchTable(found, self.swarm.lower[0], self.swarm.upper[0], self.swarm.axes, self.get("space"))

    @property
    def agreement(self) -> Agreement | None:
        """How these searches agree; None for a method that does not start again."""
        self._refuse_many("agreement")
        return combined_agreement(self.method, self.swarm, self.get("local_searches", ()))

    @property
    def next_step(self) -> NextStep | None:
        """The law of the swarm's next step as one distribution; None if there is none, and after polishing."""
        if "next_step" not in self:  # worked out when it is first asked for
            self["next_step"] = None
            if "method" in self and not np.ndim(self.fun):
                leader = self.method.report(self.swarm)
                self["next_step"] = NextStep(self.step_law(), leader.swarm) if leader.method.step_law else None
        return self["next_step"]

    def step_law(self) -> StepLaw:
        """Closed-form law of the next step of the swarm that has found ``x``; `PAO` and `DensePAO` have one."""
        method, swarm, *_ = self.method.report(self.swarm)
        if method.step_law is None:
            raise ValueError(f"{type(method).__name__} has no closed-form law of its step; PAO and DensePAO have one")
        law: StepLaw = method.step_law(swarm, self.progress, rng=0)
        return law

    def _refuse_many(self, name: str) -> None:
        if np.ndim(self.fun):
            raise ValueError(f"there are several runs: ask one of them, many.run(r).{name}")

    def __repr__(self) -> str:
        lines = [_paragraph("message", self.message)] if isinstance(self.get("message"), str) else []
        shown = ("success", "status", "fun", "fun_error", "feasible", "maxcv", "x")
        for name in (*shown, "nit", "nfev", "n_recalled", "n_failed"):
            if name == "x" and "space" in self:
                point = self.best if np.ndim(self.fun) else self.space.plain(self.x)
                lines.append(f"{'best':>9}: {_rounded(point)}")
            elif self.get(name) is not None and (name != "n_recalled" or np.any(self[name])):
                is_one = name == "status" and np.ndim(self[name]) == 0
                text = str(int(self[name])) if is_one else _text(_rounded(self[name]))
                lines.append(f"{name:>9}: " + text.replace("\n", "\n" + " " * 11))
        if said := self._said_of_searches():
            lines.append(f"{'searches':>9}: " + said.replace("\n", "\n" + " " * 11))
        if self.hint:
            lines.append(_paragraph("hint", self.hint))
        return "\n".join(lines)

    __str__ = __repr__

    @property
    def named_values(self) -> list[tuple[str, str]]:
        """The best point, name by name, as text."""
        return self._named_values(self.x)

    def _named_values(self, x: Floats) -> list[tuple[str, str]]:
        """A point, name by name."""
        if "space" not in self:
            return [(name, f"{value:.10g}") for name, value in zip(numbered(np.size(x)), np.ravel(x), strict=True)]
        point = self.space.plain(x)
        labelled = point.items() if isinstance(point, dict) else zip(self.space.labels(), point, strict=True)
        return [(label, _text(value)) for label, value in labelled]

    def _said_of_searches(self) -> str:
        """What was done, for methods that start again."""
        return self.searches.summary if "method" in self and not np.ndim(self.fun) else ""

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        error = self.get("fun_error")
        rows = [("fun", f"{self.fun:.10g}" + (f" ± {error:.2g}" if error is not None else ""))]
        names = {"success": "success", "nfev": "evaluations", "n_failed": "failed evaluations", "nit": "generations"}
        rows += [(label, self[name]) for name, label in names.items() if self.get(name) is not None]
        points, more = first_rows(self._named_values(self.x), "unknowns")
        hint = remark(f"Hint: {self.hint}" if self.hint else "")
        searches = remark(self._said_of_searches())
        return block(self.get("message", ""), table(rows), table(points), more, searches, hint)


def _paragraph(name: str, text: str) -> str:
    """A sentence or several under a name, in lines that fit a terminal and a page."""
    first = f"{name:>9}: "
    return "\n".join(paragraph(text, first, " " * len(first)))


def _rounded(value: Any) -> Any:
    """A value, or the values of a point, with as many digits as people read."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.10g}") if isinstance(value, float) else value


def _text(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def combined_agreement(method: Method, swarm: Swarm, local: tuple[Search, ...]) -> Agreement | None:
    """How the searches of a run agree, those of its method together with local ones; None if there are none."""
    report = method.report(swarm)
    if not local:
        return report.agreement
    return agreement(all_placed((*report.searches, *local), swarm.lower[0], swarm.upper[0], swarm.axes))


def message_of(why: str, n_failed: int, nfev: int, kinds: Counter[str] | None = None) -> str:
    """The message of a run: why it ended, and how many evaluations failed in which way."""
    if not n_failed:
        return why
    how = f" ({', '.join(f'{count} {kind}' for kind, count in kinds.most_common())})" if kinds else ""
    return f"{why} {n_failed} of {nfev} evaluations failed{how}."


def standard_error(error: Any) -> float | None:
    """Standard error of the best value; None if it was not measured twice."""
    return None if error is None or np.isnan(error) else float(error)


_HEADER = ("", "kind", "particles", "evaluations", "value", "ended", "place")


class SearchTable(tuple[Search, ...]):
    """The searches that have ended, in order; a tuple that prints as a table.

    Attributes
    ----------
    places : tuple of int
        Where each search has ended: 1 for the best place, 2 for the next, and so on; 0 for one that was cut short.
    """

    places: tuple[int, ...]
    _given: tuple[Any, ...]

    def __new__(
        cls,
        searches: tuple[Search, ...],
        lower: Floats,
        upper: Floats,
        axes: Axes | None = None,
        space: Space | None = None,
    ) -> SearchTable:
        """The searches of a run in these bounds; their points are shown as the numbers of the space."""
        made = super().__new__(
            cls, searches if space is None else (one._replace(x=space.rows(one.x)) for one in searches)
        )
        found = all_placed(searches, lower, upper, axes)
        numbers = {id(one): k for k, place in enumerate(places_of(found), 1) for one in place}
        made.places = tuple(numbers.get(id(one), 0) for one in found)
        made._given = searches, lower, upper, axes, space
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        """How a copy is made."""
        return self._given

    @property
    def summary(self) -> str:
        """Two lines: what was searched, and where the searches have ended; empty if none has."""
        if not self:
            return ""
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(one.kind for one in self).items())
        here, n_places = self.places.count(1), max(self.places)
        text = f"{len(self)} in {sum(one.evaluations for one in self):,} evaluations: {kinds}\n"
        if not n_places:
            return f"{text}none converged: {len(self)} cut short"
        text += f"{here} ended at the best of {n_places} places" if n_places > 1 else f"{here} ended at one place"
        if n_places > 1:
            text += f", the next has {self[self.places.index(2)].value:.6g}"
        cut = self.places.count(0)
        return text + (f"; {cut} cut short" if cut else "")

    def _rows(self) -> list[tuple[str, ...]]:
        """Header and rows; without the swarms, if the searches are not such."""
        rows: list[tuple[str, ...]] = [_HEADER]
        rows += [
            (
                str(number),
                one.kind,
                str(one.n_particles),
                str(one.evaluations),
                f"{one.value:.6g}" if order.is_feasible(one.value) else "infeasible",
                one.ending,
                str(place) if place else "",
            )
            for number, (one, place) in enumerate(zip(self, self.places, strict=True), 1)
        ]
        has_swarms = any(one.n_particles > 1 for one in self)
        return rows if has_swarms else [(row[0], *row[3:]) for row in rows]

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        is_text = [name in ("kind", "ended") for name in rows[0]]
        lines = [
            "  ".join(
                cell.ljust(width) if left else cell.rjust(width)
                for cell, width, left in zip(row, widths, is_text, strict=True)
            )
            for row in rows
        ]
        return "\n".join(line.rstrip() for line in lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        header, *rows = self._rows()
        return block("", table(rows, header))
