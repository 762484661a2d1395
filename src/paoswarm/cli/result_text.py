"""A result as text: a summary for people, JSON for programs."""

from __future__ import annotations

import json
from importlib.metadata import version
from textwrap import fill
from typing import Any

from paoswarm._text import plain
from paoswarm.evaluation.calls import PROGRAM_FAILED
from paoswarm.optimize.many_result import ManyResult
from paoswarm.optimize.result import Result
from paoswarm.sampling.posterior import Posterior
from paoswarm.spaces.names import numbered
from paoswarm.storage.encoding import describe

_WIDTH = 80  # characters of a line


def summary(result: Any, seconds: float) -> str:
    """What a person wants to know of a result."""
    if not isinstance(result, Result) or isinstance(result, ManyResult):
        return f"{result}\nin {seconds:.3g} s"
    value = f"{result.fun:.10g}" + (f" +- {error:.2g}" if (error := result.get("fun_error")) is not None else "")
    rows = [("value", value), *((f"  {name}", text) for name, text in result.named_values)]
    if "feasible" in result:
        rows.append(("feasible", "yes" if result.feasible else f"no, violated by {result.maxcv:.4g}"))
    rows.append(("evaluations", f"{result.nfev}, in {seconds:.3g} s"))
    if result.failures:
        point, reason = _failures(result)[0].values()
        shown = point.items() if isinstance(point, dict) else zip(numbered(len(point)), point, strict=True)
        at = ", ".join(f"{name} = {x:.4g}" if isinstance(x, float) else f"{name} = {x}" for name, x in shown)
        rows.append(("failed", f"{result.n_failed}, the first at {at}: {reason}"))
    rows += [("hint", result.hint)] if result.hint else []
    width = max(len(label) for label, _ in rows)
    lines = (
        fill(f"{label:<{width}}  {text}", _WIDTH, subsequent_indent=" " * (width + 2), break_long_words=False)
        for label, text in rows
    )
    return "\n".join([fill(result.message, _WIDTH), *lines])


def as_json(result: Any, seconds: float, store: Any) -> str:
    """The result as JSON, with null for numbers that are not finite."""
    about = {"seconds": round(seconds, 3), "store": store, "paoswarm": version("paoswarm")}
    if isinstance(result, Posterior):
        contents = _of_posterior(result)
    elif isinstance(result, ManyResult):
        contents = {"runs": [_of_result(result.run(r)) for r in range(len(result.fun))]}
    else:
        contents = _of_result(result)
    return json.dumps(_plain(contents | about), indent=2, allow_nan=False)


def _of_result(result: Result) -> dict[str, Any]:
    names = ("success", "message", "fun", "fun_error", "feasible", "maxcv", "nit", "nfev", "n_failed", "failure_kinds")
    kept = {name: result[name] for name in names if result.get(name) is not None}
    return kept | {
        "status": result.status.name,
        "best": result.best,
        "failures": _failures(result),
        "hint": result.hint,
        "method": describe(result.method),
    }


def _failures(result: Result) -> list[dict[str, Any]]:
    """The first failed points, as the user gave the variables, and why they failed."""
    shown = (lambda x: x.tolist()) if "space" not in result else result.space.point
    return [{"at": shown(one.x), "reason": one.reason.removeprefix(PROGRAM_FAILED)} for one in result.failures]


def _of_posterior(posterior: Posterior) -> dict[str, Any]:
    low, high = posterior.interval(0.95)
    columns = zip(posterior.names, posterior.mean(), posterior.std(), low, high, strict=True)
    names = ("success", "message", "method", "log_evidence", "log_evidence_error", "effective_size", "n_evaluations")
    return {
        **{name: getattr(posterior, name) for name in (*names, "n_failed")},
        "parameters": {
            name: {"mean": mean, "sd": sd, "2.5 %": first, "97.5 %": last} for name, mean, sd, first, last in columns
        },
        "remarks": [{"kind": one.kind, "text": one.text} for one in posterior.remarks],
    }


def _plain(thing: Any) -> Any:
    """The same for JSON: arrays as lists, and null for numbers that are not finite."""
    return plain(thing, array=lambda numbers: _plain(numbers.tolist()), not_finite=lambda number: None)
