"""What `minimize_many` returns: one result for all runs, with the runs on the first axis of every array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paoswarm._extras import need
from paoswarm._text import block, first_rows, remark, table
from paoswarm.algorithms.agreement import Agreement
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.density import StepLaw
from paoswarm.core.swarm import Swarm, map_runs
from paoswarm.evaluation.failures import Failure
from paoswarm.optimize.convergence import Rule
from paoswarm.optimize.history import History
from paoswarm.optimize.loop import Ends
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.result import Result, message_of, standard_error
from paoswarm.optimize.stopping import SUCCESSES, Limits, Status
from paoswarm.optimize.why_ended import explain
from paoswarm.spaces.evaluations import columns_of, dataset

_MANY_GENERATIONS = 100_000  # above this many, histories end with the longest run


# What results say about constraints; of many runs, a list or an array with one entry for each.
_CONSTRAINED = (
    *("feasible", "constr", "constr_violation", "maxcv", "n_infeasible", "hardest", "constraint_scales"),
    "local_searches",
)


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
        lines = [
            self._counts(),
            *([] if feasible is None else [f"{int(np.sum(feasible))} of {len(feasible)} runs found a feasible point"]),
            f"fun: best {self.fun[best]:.6g}, median {middle:.6g}, 10 % to 90 % {low:.6g} to {high:.6g}",
            f"best run {best}: {self._named_point(best)}",
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

    def _named_point(self, r: int) -> str:
        return self.space.text(self.x[r]) if "space" in self else f"x = {self.x[r]}"

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
        swarm: Swarm = self.swarm[r] if type(self.swarm) is tuple else map_runs(lambda array: array[r], self.swarm)
        status = Status(int(self.status[r]))
        return Result(
            x=self.x[r],
            fun=float(self.fun[r]),
            fun_error=None if self.fun_error is None else standard_error(self.fun_error[r]),
            success=bool(self.success[r]),
            status=status,
            message=self.message[r],
            nit=int(self.nit[r]),
            nfev=int(self.nfev[r]),
            n_failed=int(self.n_failed[r]),
            swarm=swarm,
            method=self.method,
            progress=float(self.progress[r]),
            history=History(best=self.history[r, : self.nit[r] + 1]),
            failures=self.failures,
            **{name: self[name][r] for name in _CONSTRAINED if name in self},
            **({"space": self.space} if "space" in self else {}),
            **({"engine": self.engine} if "engine" in self else {}),
            **({"n_recalled": int(self.n_recalled[r])} if "n_recalled" in self else {}),
        )


def gather(
    optimizers: list[Optimizer],
    bests: list[list[Floats]],
    ends: list[Ends],
    limits: Limits,
    seeds: list[np.random.SeedSequence],
    failures: list[Failure],
) -> tuple[ManyResult, list[str]]:
    """One result from optimisers of one run or several, their best values after every generation, and their ends.

    Histories are continued with their last value to a common length. The list says why each run has ended.
    """
    values = [best or [one.shown_value] for one, best in zip(optimizers, bests, strict=True)]  # interrupted early: none
    rows = [np.stack([np.atleast_1d(value) for value in best], axis=-1) for best in values]
    length = max(row.shape[-1] for row in rows)
    if limits.maxiter is not None and limits.maxiter < _MANY_GENERATIONS:
        length = max(length, limits.maxiter + 1)
    history = [np.pad(row, ((0, 0), (0, length - row.shape[-1])), mode="edge") for row in rows]
    columns = zip(*((end.status, end.nit, end.nfev, end.rule) for end in ends), strict=True)
    status, nit, nfev, rule = (np.concatenate([np.atleast_1d(part) for part in column]) for column in columns)
    n_failed = np.concatenate([np.atleast_1d(one.n_failed) for one in optimizers])
    fun = np.concatenate([np.atleast_1d(one.shown_value) for one in optimizers])
    best_values, method, d = np.concatenate(history), optimizers[0].method, len(optimizers[0].lower)

    agreements = [one.agreement for one in optimizers for _ in range(np.size(one.shown_value))]

    def reason(r: int) -> str:
        ended, by = Status(int(status[r])), Rule(int(rule[r]))
        generations = best_values[r, : nit[r] + 1]
        return explain(ended, by, limits, generations, float(fun[r]), d, method, agreements[r])

    why = [reason(r) for r in range(len(fun))]
    is_noisy = optimizers[0].incumbent.error is not None
    many = ManyResult(
        x=np.concatenate([np.atleast_2d(one.best.x) for one in optimizers]),
        fun=fun,
        fun_error=np.concatenate([np.atleast_1d(one.incumbent.error) for one in optimizers]) if is_noisy else None,
        success=np.isin(status, SUCCESSES),
        status=status,
        message=[message_of(why[r], int(n_failed[r]), int(nfev[r])) for r in range(len(fun))],
        nit=nit,
        nfev=nfev,
        n_failed=n_failed,
        history=best_values,
        swarm=together([one.swarm for one in optimizers if one.swarm is not None]),
        method=method,
        progress=np.array([limits.progress(i, e) for i, e in zip(nit.tolist(), nfev.tolist(), strict=True)]),
        seeds=seeds,
        failures=failures,
        **optimizers[0].shown,
    )
    if optimizers[0].feasibility is not None:
        _add_constraints(many, optimizers)
    return many, why


def with_messages(
    many: ManyResult, rule: Any, limits: Limits, agreements: Sequence[Agreement | None] | None = None
) -> ManyResult:
    """The result of compiled runs, with their messages, successes and progress.

    ``agreements`` say how the searches of each run agree, if they are started again.
    """
    length = many.history.shape[-1]
    if limits.maxiter is not None and limits.maxiter < _MANY_GENERATIONS:
        length = max(length, limits.maxiter + 1)
    many.history = np.pad(many.history, ((0, 0), (0, length - many.history.shape[-1])), mode="edge")
    why = reasons(many, rule, limits, agreements)
    counts = zip(why, many.n_failed.tolist(), many.nfev.tolist(), strict=True)
    many.message = [message_of(*one) for one in counts]
    many.success = np.isin(many.status, SUCCESSES)
    many.progress = np.array(
        [limits.progress(i, e) for i, e in zip(many.nit.tolist(), many.nfev.tolist(), strict=True)]
    )
    return many


def reasons(
    many: ManyResult, rule: Any, limits: Limits, agreements: Sequence[Agreement | None] | None = None
) -> list[str]:
    """Why each of several compiled runs has ended."""
    runs, d = len(many.fun), len(many.space.lower) if "space" in many else many.x.shape[-1]

    def reason(r: int) -> str:
        best = many.history[r, : many.nit[r] + 1]
        ended = Status(int(many.status[r])), Rule(int(rule[r]))
        agreed = None if agreements is None else agreements[r]
        return explain(*ended, limits, best, float(many.fun[r]), d, many.method, agreed)

    return [reason(r) for r in range(runs)]


def _add_constraints(many: ManyResult, optimizers: list[Optimizer]) -> None:
    """Add what each run says about constraints."""
    fields = []
    for r, one in enumerate(optimizers):
        assert one.feasibility is not None
        x, score = one.incumbent.x, float(one.incumbent.value)
        local = () if one.local is None else one.local.found
        fields.append(one.feasibility.fields(x, score) | {"local_searches": local})
        many.fun[r] = one.feasibility.value(score)
        many.message[r] = one.explained(many.message[r])
    for name in _CONSTRAINED:
        many[name] = [one[name] for one in fields]
    for name in ("feasible", "maxcv", "n_infeasible"):
        many[name] = np.array(many[name])
    many.success = many.success & many.feasible


def together(swarms: list[Swarm]) -> Swarm | tuple[Swarm, ...]:
    """Swarms of one or more runs with a common leading axis; a tuple if they differ in form."""
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
