"""How a run stands: whether it has converged, how its searches agree, and its result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.algorithms.agreement import Agreement
from paoswarm.optimize.convergence import Rule, judge
from paoswarm.optimize.course import Course
from paoswarm.optimize.local_searches import LocalSearches, Start
from paoswarm.optimize.result import Result, combined_agreement, message_of, standard_error
from paoswarm.optimize.stopping import Limits, Status


class JudgedCourse(Course):
    """A run that knows how far it is and what it has found.

    Attributes
    ----------
    local : LocalSearches or None
        The local searches beside the swarm, if there are constraints.
    """

    local: LocalSearches | None = None

    def expected_evaluations(self, limits: Limits) -> int | None:
        """The most evaluations of a run; None if unknown, because the method may ask for any number of points."""
        if not (self._mover.keeps_bests or self.method.takes_batches):
            return limits.maxfev
        return limits.evaluations(self.n_to_start, self.n_each)

    def local_start(self) -> Start:
        """Where the next local search begins."""
        assert self.local is not None
        return self.local.start(self._draw)

    def has_converged(self, tol: float) -> NDArray[np.int64] | None:
        """The `Rule` by which each run has converged; None if none has, or if nothing would end them."""
        assert self.swarm is not None
        if self.local is not None and self.local.found and tol > 0:
            agreed = self.agreement
            return np.asarray(Rule.OWN if agreed is not None and agreed.is_settled else Rule.NONE)
        if self._mover.decides_its_end:
            is_done = np.asarray(self._mover.has_converged(self.swarm, self.spread, tol))
            return np.where(is_done, Rule.OWN, Rule.NONE)
        return judge(self.swarm, self.spread, self.stale, tol) if tol > 0 else None

    @property
    def agreement(self) -> Agreement | None:
        """How the independent searches of a run agree; None if its method does not start again."""
        if self.swarm is None:
            return None
        if self.local is None or not self.local.found:
            return self.method.agreement(self.swarm)
        return combined_agreement(self.method, self.swarm, self.local.found)

    def result_with(self, status: Status, why: str, progress: float, **more: Any) -> Result:
        """The best so far, for drivers that know the status, why it ended, and more."""
        if self.batch:
            raise ValueError("this Optimizer holds several runs: use optimizer.best or optimizer.swarm")
        assert self.swarm is not None
        n_failed = int(self.n_failed)
        value, x = float(self.incumbent.value), self.incumbent.x
        if self.feasibility is not None:
            more |= self.feasibility.fields(x, value)
            more["local_searches"] = () if self.local is None else self.local.found
            why = self.explained(why)
            value = self.feasibility.value(value)
        return Result(
            x=self.best.x.copy(),
            fun=value,
            fun_error=standard_error(self.incumbent.error),
            success=status.is_success and more.get("feasible", True),
            status=status,
            message=message_of(why, n_failed, self.nfev, more.get("failure_kinds")),
            nit=self.nit,
            nfev=self.nfev,
            n_failed=n_failed,
            swarm=self.swarm,
            method=self.method,
            progress=progress,
            **self.shown,
            **more,
        )

    def explained(self, why: str) -> str:
        """Why a run ended, and before it that no point is feasible if so."""
        if self.feasibility is None:
            return why
        said = self.feasibility.sentence(self.incumbent.x, float(self.incumbent.value))
        return " ".join(filter(None, [said, why]))

    @property
    def shown(self) -> dict[str, Any]:
        """The space as a field of results; nothing for plain bounds."""
        return {} if self.space.is_plain else {"space": self.space}
