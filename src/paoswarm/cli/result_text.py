"""A result as text: a summary for people, JSON for programs."""

from __future__ import annotations

import json
import math
from importlib.metadata import version
from typing import Any

import numpy as np

from paoswarm.optimize.many_result import ManyResult
from paoswarm.optimize.result import Result
from paoswarm.sampling.posterior import Posterior
from paoswarm.storage.encoding import describe


def summary(result: Any, seconds: float) -> str:
    """What a person wants to know of a result."""
    if not isinstance(result, Result) or isinstance(result, ManyResult):
        return f"{result}\n{seconds:.3g} s"
    value = f"{result.fun:.10g}" + (f" +- {error:.2g}" if (error := result.get("fun_error")) is not None else "")
    rows = [("value", value), *((f"  {name}", text) for name, text in result.named_values)]
    if "feasible" in result:
        rows.append(("feasible", "yes" if result.feasible else f"no, violated by {result.maxcv:.4g}"))
    failed = f", {result.n_failed} of them failed" if result.n_failed else ""
    rows.append(("evaluations", f"{result.nfev}{failed}, in {seconds:.3g} s"))
    rows += [("hint", result.hint)] if result.hint else []
    width = max(len(label) for label, _ in rows)
    return "\n".join([result.message, *(f"{label:<{width}}  {text}" for label, text in rows)])


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
    shown = (lambda x: x) if "space" not in result else result.space.point
    failures = [{"at": shown(one.x), "reason": one.reason} for one in result.failures]
    return kept | {
        "status": result.status.name,
        "best": result.best,
        "failures": failures,
        "hint": result.hint,
        "method": describe(result.method),
    }


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
    """The same for JSON: without NumPy's types, and null for numbers that are not finite."""
    if isinstance(thing, dict):
        return {str(key): _plain(value) for key, value in thing.items()}
    if isinstance(thing, np.ndarray | list | tuple):
        return [_plain(part) for part in thing]
    if isinstance(thing, bool | np.bool_):
        return bool(thing)
    if isinstance(thing, int | np.integer):
        return int(thing)
    if isinstance(thing, float | np.floating):
        return float(thing) if math.isfinite(thing) else None
    return thing if thing is None or isinstance(thing, str) else str(thing)
