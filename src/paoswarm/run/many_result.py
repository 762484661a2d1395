"""What `minimize_many` returns: one result for all runs, with the runs on the first axis of every array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from paoswarm._extras import need
from paoswarm._text import block, first_rows, remark, table
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.laws import StepLaw
from paoswarm.core.swarm import Swarm, map_runs, read_only
from paoswarm.evaluate.failures import Failure
from paoswarm.methods.agreement import Agreement
from paoswarm.methods.method import Method
from paoswarm.run.observers import History, Recorder
from paoswarm.run.result import Result, message_of, standard_error
from paoswarm.run.run import Ends
from paoswarm.run.run_state import RunState
from paoswarm.run.stopping import SUCCESSES, Limits, Rule, Status, explain
from paoswarm.space.evaluations import columns_of, dataset
from paoswarm.space.space import Space

_MANY_GENERATIONS = 100_000  # above this many, histories end with the longest run


# What results say about constraints; of many runs, a list or an array with one entry for each.
CONSTRAINED = (
    *("feasible", "constr", "constr_violation", "maxcv", "n_infeasible", "hardest", "constraint_scales"),
    "local_searches",
)
_COUNTED = ("x", "fun", "nit", "nfev", "n_failed")
_SHARED = ("method", "engine", "failures", "space", "constraints", "evaluations")
_PER_RUN: dict[str, Callable[[Any], Any]] = {
    "x": np.array,
    "fun": float,
    "fun_error": standard_error,
    "success": bool,
    "status": Status,
    "message": str,
    "failure_kinds": Counter,
    **dict.fromkeys(("nit", "nfev", "n_failed", "n_recalled"), int),
    **dict.fromkeys(CONSTRAINED, lambda value: value),
    "progress": float,
    "feasible": bool,
    "maxcv": float,
    "n_infeasible": int,
}
_FACTS = ("fun", "success", "nit", "nfev", "n_failed", "feasible", "maxcv")  # columns of tables


class ManyResult(Result):
    """What `minimize_many` returns; every array has the runs on its first axis.

    Attributes
    ----------
    x : array (runs, d)
    fun : array (runs,)
    history : array (runs, maxiter + 1)
        Best value after every generation; a run that ended early keeps its last one. (As long as the longest run only,
        where ``maxiter`` is None or 100,000 and more.)
    success, status, nit, nfev, n_failed : arrays (runs,)
    message : list of str
    swarm : Swarm or tuple of Swarm
        All swarms, with a leading axis; a tuple if they differ in size, or if their memory is not a NamedTuple of
        arrays.
    seeds : list of numpy.random.SeedSequence
        ``minimize(..., rng=many.seeds[r])`` repeats run ``r``.
    failures : list of Failure
        The first ten failed points of all runs.
    failure_kinds : list of Counter
        How many points of each run failed in which way.
    feasible, maxcv, n_infeasible : arrays (runs,)
        As in `Result`; ``constr``, ``constr_violation`` and ``hardest`` are lists over runs.
    """

    swarm: Any
    seeds: list[np.random.SeedSequence]

    def _of_all_runs(self, value: Any) -> Any:
        if isinstance(value, list | str):
            return [value for _ in self.fun]
        return np.full(len(self.fun), value)

    def __repr__(self) -> str:
        best = int(order.best(self.fun))
        low, middle, high = self._spread_of_values()
        feasible = self.get("feasible")
        point = self.space.text(self.x[best]) if "space" in self else f"x = {self.x[best]}"
        lines = [
            self._counts(),
            *([] if feasible is None else [f"{int(np.sum(feasible))} of {len(feasible)} runs found a feasible point"]),
            f"fun: best {self.fun[best]:.6g}, median {middle:.6g}, 10 % to 90 % {low:.6g} to {high:.6g}",
            f"best run {best}: {point}",
            *self._endings(),
        ]
        return "\n".join(lines)

    __str__ = __repr__

    def to_dataframe(self) -> Any:
        """Convert to a ``pandas.DataFrame`` with a row for each run. Needs pandas.

        It has a column for each variable of the best point, ``fun``, ``success``, ``nit``, ``nfev``, ``n_failed``, and
        with constraints ``feasible`` and ``maxcv``.
        """
        pandas = need("pandas", extra="dataframe", user="to_dataframe")
        facts = {name: self[name] for name in _FACTS if name in self}
        index = pandas.RangeIndex(len(self.fun), name="run")
        return pandas.DataFrame({**columns_of(self.get("space"), self.x, facts), **facts}, index=index)

    def to_xarray(self) -> Any:
        """Convert to an ``xarray.Dataset``: the same along ``run``, and ``history`` along ``run`` and ``generation``.

        Needs xarray.
        """
        facts: dict[str, Any] = {name: ("run", np.asarray(self[name])) for name in _FACTS if name in self}
        facts["history"] = (("run", "generation"), self.history)
        coords = {"run": np.arange(len(self.fun)), "generation": np.arange(self.history.shape[1])}
        return dataset(self.get("space"), self.x, facts, coords, {})

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        best = int(order.best(self.fun))
        low, middle, high = self._spread_of_values()
        values = [
            ("best", f"{self.fun[best]:.6g}"),
            ("10 % of the runs are below", f"{low:.6g}"),
            ("median", f"{middle:.6g}"),
            ("90 % of the runs are below", f"{high:.6g}"),
        ]
        points, more = first_rows(self._named_values(self.x[best]), "unknowns")
        endings = [remark(text) for text in self._endings()]
        return block(self._counts(), *endings, table(values, ("fun", "")), table(points, (f"run {best}", "")), more)

    def _counts(self) -> str:
        engine = "" if self.engine == "numpy" else f" on engine='{self.engine}'"
        counts = f"{int(self.nfev.sum())} evaluations, {int(self.n_failed.sum())} of them failed"
        return f"{len(self.fun)} runs{engine}, {counts}"

    def _spread_of_values(self) -> Floats:
        """The 10 %, 50 % and 90 % quantiles of the runs' best values."""
        how: Any = "linear" if np.isfinite(self.fun).all() else "nearest"  # between one and infinity there is nothing
        return np.quantile(self.fun, [0.1, 0.5, 0.9], method=how)

    def _endings(self) -> list[str]:
        """How many runs ended for which reason."""
        codes = set(self.status.tolist()) if "status" in self else set()  # a callback sees no status
        reasons = [Status(code) for code in sorted(codes, key=abs)]
        return [f"{int(np.sum(self.status == reason))} x {reason.message}" for reason in reasons]

    def step_law(self) -> StepLaw:
        """Closed-form law of the next step of all swarms; of one run, ``many.run(r).step_law()``."""
        if type(self.swarm) is tuple:
            raise ValueError("the swarms differ in size: ask for the law of one run, many.run(r).step_law()")
        return super().step_law()

    def run(self, r: int) -> Result:
        """Run ``r`` alone, with its own swarm and ``next_step``; of its history the best values are kept."""
        fields: dict[str, Any] = {name: self[name] for name in _SHARED if name in self}
        for name, kind in _PER_RUN.items():
            if name in self:
                fields[name] = None if self[name] is None else kind(self[name][r])
        if "swarm" in self:
            is_alone = type(self.swarm) is tuple
            fields["swarm"] = self.swarm[r] if is_alone else map_runs(lambda array: array[r], self.swarm)
        if "histories" in self:
            fields["history"] = self.histories[r]
        elif "history" in self:
            fields["history"] = History(best=self.history[r, : self.nit[r] + 1])
        if "polished" in self and self.polished[r]:  # the swarm has not seen the point, so it says nothing about it
            fields["next_step"] = None
        return Result(**fields)


class Found(NamedTuple):
    """What some runs have found, or have found so far; every array has the runs on its first axis."""

    x: Floats
    fun: Any
    nit: Any
    nfev: Any
    n_failed: Any
    swarm: Any  # with a leading axis, that of one run, or None if it is not at hand
    status: Any = None
    rule: Any = None  # by which they have converged, a `Rule`
    best: Any = None  # values after every generation
    fun_error: Any = None
    n_recalled: Any = None
    agreements: Sequence[Agreement | None] | None = None
    constraints: Sequence[dict[str, Any]] = ()  # what each run says about them
    sentences: Sequence[str] = ()  # the same for its message
    last_words: Sequence[str] = ()  # of workers that were lost
    failure_kinds: Sequence[Counter[str]] = ()  # how many of its points have failed in which way

    @classmethod
    def of(cls, state: RunState, recorder: Recorder, ends: Ends, *, is_over: bool = True) -> Found:
        """Where a state of runs stands, and how they have ended if they have."""
        runs = np.size(state.incumbent.value)
        error = state.incumbent.error

        def each(numbers: Any) -> Any:
            return np.array(np.broadcast_to(numbers, (runs,)))

        so_far = cls(
            x=np.array(state.best.x).reshape(runs, -1),
            fun=each(np.asarray(state.shown_value, dtype=float)),
            nit=each(ends.nit),
            nfev=each(ends.nfev),
            n_failed=each(state.n_failed),
            swarm=state.swarm,
            constraints=[state.constrained_fields] if state.judge.n_constraints else (),
        )
        if not is_over:
            return so_far
        fun, sentences = so_far.fun, [state.remark]
        if state.judge.n_constraints:
            score = float(state.incumbent.value)
            fun, sentences = np.array([state.judge.value(score)]), [state.judge.sentence(state.incumbent.x, score)]
        return so_far._replace(
            fun=fun,
            status=each(ends.status),
            rule=each(ends.rule),
            best=recorder.best(state),
            fun_error=None if error is None else np.atleast_1d(error),
            n_recalled=each(state.n_recalled),
            agreements=[state.agreement] * runs,
            sentences=sentences * runs,
            last_words=[ends.why] * runs,
            failure_kinds=state.failure_kinds,
        )


def so_far(found: Sequence[Found], space: Space) -> ManyResult:
    """What a callback gets to see of all runs."""
    swarms = [one.swarm for one in found if one.swarm is not None]
    return ManyResult(
        **{name: np.concatenate([getattr(one, name) for one in found]) for name in _COUNTED},
        **({"swarm": together([read_only(swarm) for swarm in swarms])} if swarms else {}),
        **_constrained(found),
        **({} if space.is_plain else {"space": space}),
    )


def make_result(
    found: Sequence[Found],
    *,
    space: Space,
    method: Method | None,
    limits: Limits,
    engine: str,
    seeds: Sequence[np.random.SeedSequence],
    failures: list[Failure],
    evaluations: Any = None,
) -> tuple[ManyResult, list[str]]:
    """The result of all runs, and why each of them has ended.

    Histories are continued with their last value to a common length.
    """
    history = _together([one.best for one in found], limits.maxiter)
    columns = {name: np.concatenate([getattr(one, name) for one in found]) for name in (*_COUNTED, "status", "rule")}
    rule, status, nit, nfev = columns.pop("rule"), columns["status"], columns["nit"], columns["nfev"]
    agreements, kinds = _of_each(found, "agreements", None), _of_each(found, "failure_kinds", Counter())
    sentences, last_words = _of_each(found, "sentences", ""), _of_each(found, "last_words", "")
    d = len(space.lower)
    each = zip(
        status.tolist(), rule.tolist(), history, nit, columns["fun"].tolist(), agreements, sentences, strict=True
    )
    why = [
        _joined(said, explain(Status(ended), Rule(by), limits, best[: n + 1], value, d, method, agreed))
        for ended, by, best, n, value, agreed, said in each
    ]
    counts = zip(why, columns["n_failed"].tolist(), nfev.tolist(), kinds, strict=True)
    many = ManyResult(
        **columns,
        fun_error=_errors(found),
        success=np.isin(status, SUCCESSES),
        message=[_joined(message_of(*one), words) for one, words in zip(counts, last_words, strict=True)],
        history=history,
        **({} if found[0].swarm is None else {"swarm": together([one.swarm for one in found])}),
        method=method,
        engine=engine,
        progress=np.array([limits.progress(i, e) for i, e in zip(nit.tolist(), nfev.tolist(), strict=True)]),
        n_recalled=np.concatenate(
            [np.zeros_like(one.nit) if one.n_recalled is None else one.n_recalled for one in found]
        ),
        seeds=list(seeds[: len(status)]),
        failures=failures,
        failure_kinds=kinds,
        evaluations=evaluations,
        **_constrained(found),
        **({} if space.is_plain else {"space": space}),
    )
    if "feasible" in many:
        many.success = many.success & many.feasible
    return many, why


def _errors(found: Sequence[Found]) -> Any:
    """The standard errors of all runs; NaN for those that have noticed no noise, None if none has."""
    if all(one.fun_error is None for one in found):
        return None
    nothing = [np.full(len(one.fun), np.nan) if one.fun_error is None else one.fun_error for one in found]
    return np.concatenate(nothing)


def _of_each(found: Sequence[Found], name: str, nothing: Any) -> list[Any]:
    """What is known about each run, or ``nothing``."""
    return [thing for one in found for thing in getattr(one, name) or [nothing] * len(one.fun)]


def _joined(*texts: str) -> str:
    return " ".join(filter(None, texts))


def _together(bests: list[Floats], maxiter: int | None) -> Floats:
    """Histories of best values, continued with their last one to a common length."""
    length = max(best.shape[-1] for best in bests)
    if maxiter is not None and maxiter < _MANY_GENERATIONS:
        length = max(length, maxiter + 1)
    return np.concatenate([np.pad(best, ((0, 0), (0, length - best.shape[-1])), mode="edge") for best in bests])


def _constrained(found: Sequence[Found]) -> dict[str, Any]:
    """What all runs say about constraints; empty without them."""
    fields = [one for part in found for one in part.constraints]
    if not fields:
        return {}
    shown: dict[str, Any] = {name: [one[name] for one in fields] for name in CONSTRAINED}
    shown |= {name: np.array(shown[name]) for name in ("feasible", "maxcv", "n_infeasible")}
    return shown | {"constraints": fields[0]["constraints"]}


def together(swarms: list[Swarm]) -> Swarm | tuple[Swarm, ...]:
    """Swarms of one or more runs with a common leading axis; a tuple if they differ in form, or if there is one run."""
    if len(swarms) == 1 and swarms[0].position.ndim == 2:
        return tuple(swarms)
    if swarms[0].position.ndim == 3:
        return map_runs(lambda *arrays: np.concatenate(arrays), *swarms)
    forms = [_form(swarm) for swarm in swarms]
    is_alike = forms[0] is not None and all(form == forms[0] for form in forms)
    return map_runs(lambda *arrays: np.stack(arrays), *swarms) if is_alike else tuple(swarms)


def _form(swarm: Swarm) -> Any:
    """The shapes of a swarm's arrays; None for a tolerance, or a memory that is not a NamedTuple of arrays."""
    memory = swarm.memory
    if swarm.tolerance is not None:
        return None
    if memory is None:
        return swarm.position.shape
    is_arrays = hasattr(memory, "_fields") and all(isinstance(part, np.ndarray | np.number) for part in memory)
    return (swarm.position.shape, *map(np.shape, memory)) if is_arrays else None
