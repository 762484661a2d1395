"""Why a run ended, as a sentence that states facts."""

from __future__ import annotations

import math

from paoswarm.algorithms.agreement import Agreement
from paoswarm.core.arrays import Floats
from paoswarm.optimize.convergence import Rule, sentence
from paoswarm.optimize.stopping import Limits, Status

_BACK = 10  # generations over which progress is told
_OUT_OF_BUDGET = (Status.MAXFEV, Status.MAXITER, Status.TIME)
_REGARDLESS = (Status.TARGET, Status.CALLBACK, Status.FAILED)  # then it does not matter whether searches agree


def explain(
    status: Status,
    rule: Rule,
    limits: Limits,
    best: Floats,
    value: float,
    n_unknowns: int,
    method: object,
    agreement: Agreement | None = None,
) -> str:
    """The sentences for a run with these ``best`` values after its generations, and a final ``value``."""
    if agreement is None or status in _REGARDLESS or rule in (Rule.COMPLETE, Rule.NOTHING_NEW):
        return _reason(status, rule, limits, best, value, n_unknowns, method)
    if status is Status.CONVERGED:
        return f"{'Converged' if agreement.is_feasible else 'Stopped'}: {agreement}"
    if status in _OUT_OF_BUDGET and agreement.n_searches:  # the last generations are those of one search among many
        return f"{limits.message(status)} {agreement}"
    return f"{_reason(status, rule, limits, best, value, n_unknowns, method)} {agreement}"


def _reason(
    status: Status, rule: Rule, limits: Limits, best: Floats, value: float, n_unknowns: int, method: object
) -> str:
    if status is Status.CONVERGED:
        return sentence(rule, limits.tol, n_unknowns, method)
    if status is Status.STALLED and len(best):
        return f"{status.message[:-1]}: a point near it has {value:.6g} instead of {best[-1]:.6g}."
    why = limits.message(status)
    if status in _OUT_OF_BUDGET and len(best) > 1 and math.isfinite(best[-1]):
        return f"{why[:-1]}; {_progress(best)}."
    return why


def _progress(best: Floats) -> str:
    """How the best value has changed over the last generations."""
    back = min(_BACK, len(best) - 1)
    over = f"over the last {back} generations" if back > 1 else "in the last generation"
    before, now = float(best[-1 - back]), float(best[-1])
    if now == before:
        return f"the best value did not change {over}"
    share = (before - now) / abs(before) if before and math.isfinite(before) else math.inf
    if 0 < share < 0.5:
        return f"the best value fell by {100 * share:.2g} % {over}"
    return f"the best value {'fell' if now < before else 'rose'} from {before:.3g} to {now:.3g} {over}"
