"""What a run leaves: a summary for people, JSON for programs, and an exit code."""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from paoswarm.cli.commands import INTERRUPTED, WITHOUT_SUCCESS
from paoswarm.optimize.many_result import ManyResult
from paoswarm.optimize.result import Result
from paoswarm.optimize.stopping import Status
from paoswarm.sampling.posterior import Posterior
from paoswarm.storage.encoding import describe

_CAN_GO_ON = (Status.INTERRUPTED, Status.CRASHED, Status.TIME)


def carry_out(options: argparse.Namespace, call: Callable[[], Any], write: Callable[[Any], None] | None = None) -> int:
    """Call what makes a result, and report it; return the exit code. ``write`` does something with the result first."""
    for path in (options.json, getattr(options, "draws", None)):
        _check_can_write(path)
    options.kept = _advice(options.store)
    began = time.monotonic()
    with _terminated_like_interrupted():
        result = call()
    seconds = time.monotonic() - began
    if write is not None:
        write(result)
    if options.json is not None:
        text = json.dumps(_plain(contents(result, seconds, options.store)), indent=2, allow_nan=False)
        if options.json == "-":
            print(text)
        else:
            Path(options.json).write_text(text + "\n", encoding="utf-8")
    if options.json != "-":
        print(summary(result, seconds))
    code, why = _exit_code(result)
    if code == INTERRUPTED:
        print(f"paoswarm: interrupted{options.kept}", file=sys.stderr)
    elif code:
        go_on = options.kept if why in _CAN_GO_ON and options.store is not None else ""
        named = why.name if isinstance(why, Status) else why
        print(f"paoswarm: ended without success ({named}){go_on}", file=sys.stderr)
    return code


def progress_wanted(options: argparse.Namespace) -> bool:
    """Whether to show a progress bar: somebody looks, and tqdm is there."""
    return sys.stderr.isatty() and not options.quiet and find_spec("tqdm") is not None


def _advice(store: Any) -> str:
    if store is None:
        return "; the evaluations are lost: give --store FILE, and a run that was stopped can go on"
    return f"; the evaluations are kept. To go on: paoswarm resume {shlex.quote(os.fspath(store))}"


def _check_can_write(path: str | None) -> None:
    """Raise now if a file cannot be written, not after hours."""
    if path is None or path == "-":
        return
    parent = Path(path).absolute().parent
    if Path(path).is_dir() or not parent.is_dir() or not os.access(Path(path) if Path(path).exists() else parent, os.W_OK):
        raise ValueError(f"{path} cannot be written")


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Take SIGTERM, by which queues end jobs, for Ctrl-C."""

    def handle(number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit_code(result: Any) -> tuple[int, Any]:
    """The exit code, and why it is not zero."""
    if isinstance(result, Posterior):
        if result.method == "interrupted":
            return INTERRUPTED, ""
        return (0, "") if result.success else (WITHOUT_SUCCESS, "a value is doubtful")
    if isinstance(result, ManyResult):
        if (result.status == Status.INTERRUPTED).any():
            return INTERRUPTED, ""
        failed = int((~result.success).sum())
        return (WITHOUT_SUCCESS, f"{failed} of {len(result.fun)} runs") if failed else (0, "")
    if result.status is Status.INTERRUPTED:
        return INTERRUPTED, ""
    return (0, "") if result.success else (WITHOUT_SUCCESS, result.status)


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


def contents(result: Any, seconds: float, store: Any) -> dict[str, Any]:
    """The result as JSON."""
    about = {"seconds": round(seconds, 3), "store": store, "paoswarm": version("paoswarm")}
    if isinstance(result, Posterior):
        return _of_posterior(result) | about
    if isinstance(result, ManyResult):
        return {"runs": [_of_result(result.run(r)) for r in range(len(result.fun))]} | about
    return _of_result(result) | about


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
