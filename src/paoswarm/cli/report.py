"""Carry out a run, report what it has found as text, JSON or files, and return the exit code."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from types import FrameType
from typing import Any

import numpy as np

from paoswarm.cli.commands import INTERRUPTED, WITHOUT_SUCCESS
from paoswarm.cli.fit_tables import of_fit
from paoswarm.helpers import describe, plain
from paoswarm.results import Fit, ManyResult, Posterior, Result, Status

_CAN_GO_ON = (Status.INTERRUPTED, Status.CRASHED, Status.TIME)
_WIDTH = 80  # characters of a line


def carry_out(options: argparse.Namespace, call: Callable[[], Any], write: Callable[[Any], None] | None = None) -> int:
    """Call what makes a result, and report it; return the exit code. ``write`` does something with the result first."""
    for name in ("json", "draws", "estimates", "predictions"):
        _check_can_write(getattr(options, name, None))
    options.kept = _advice(options.store)
    began = time.monotonic()
    with _terminated_like_interrupted():
        warnings.filterwarnings(
            "ignore", "the function raised an exception at .* points?, which counts? as"
        )  # it is below
        result = call()
    seconds = time.monotonic() - began
    if write is not None:
        write(result)
    if options.json is not None:
        text = as_json(result, seconds, options.store)
        if options.json == "-":
            options.answer = text
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
    """Return whether to show a progress bar: stderr is a terminal, and tqdm is installed."""
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
    if (
        Path(path).is_dir()
        or not parent.is_dir()
        or not os.access(Path(path) if Path(path).exists() else parent, os.W_OK)
    ):
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
    """Return a summary of a result for the terminal."""
    if isinstance(result, Fit):
        failed = f"\nThe first failed at {_first_failure(result)}" if result.failures else ""
        return f"{result}{failed}\nin {seconds:.3g} s"
    if not isinstance(result, Result) or isinstance(result, ManyResult):
        return f"{result}\nin {seconds:.3g} s"
    value = f"{result.fun:.10g}" + (f" +- {error:.2g}" if (error := result.get("fun_error")) is not None else "")
    rows = [("value", value), *((f"  {name}", text) for name, text in result.named_values)]
    if "feasible" in result:
        rows.append(("feasible", "yes" if result.feasible else f"no, violated by {result.maxcv:.4g}"))
    rows.append(("evaluations", f"{result.nfev}, in {seconds:.3g} s"))
    if result.failures:
        rows.append(("failed", f"{result.n_failed}, the first at {_first_failure(result)}"))
    rows += [("hint", result.hint)] if result.hint else []
    width = max(len(label) for label, _ in rows)
    lines = (
        fill(f"{label:<{width}}  {text}", _WIDTH, subsequent_indent=" " * (width + 2), break_long_words=False)
        for label, text in rows
    )
    return "\n".join([fill(result.message, _WIDTH), *lines])


def _first_failure(result: Result) -> str:
    point, reason = _failures(result)[0].values()
    shown = point.items() if isinstance(point, dict) else ((f"x{i}", x) for i, x in enumerate(point))
    at = ", ".join(f"{name} = {x:.4g}" if isinstance(x, float) else f"{name} = {x}" for name, x in shown)
    return f"{at}: {reason}"


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
    kept |= {"status": result.status.name, "best": result.best, "failures": _failures(result)}
    if isinstance(result, Fit):
        return kept | of_fit(result)
    return kept | {"hint": result.hint, "method": describe(result.method)}


def _failures(result: Result) -> list[dict[str, Any]]:
    """The first failed points, as the user gave the variables, and why they failed."""
    shown = (lambda x: x.tolist()) if "space" not in result else result.space.point
    return [{"at": shown(one.x), "reason": one.reason.removeprefix("raised an error: ")} for one in result.failures]


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
    """Convert values for JSON: arrays to lists, numbers that are not finite to null."""
    return plain(thing, array=lambda numbers: _plain(numbers.tolist()), not_finite=lambda number: None)


def check_draws(path: str | None) -> None:
    """Raise if the name does not say how to write draws."""
    if path is not None and Path(path).suffix not in (".csv", ".npz"):
        raise ValueError(f"--draws must end in .csv or .npz, got {path}")


def write_draws(posterior: Posterior, path: str | None) -> None:
    """Write draws of equal weight, with the names of the parameters."""
    if path is None:
        return
    if path.endswith(".csv"):
        np.savetxt(path, posterior.draws, fmt="%.17g", delimiter=",", header=",".join(posterior.names), comments="")
    else:
        known = {"draws": posterior.draws, "log_likelihood": posterior.log_likelihood, "log_prior": posterior.log_prior}
        arrays: dict[str, Any] = {name: values for name, values in known.items() if values is not None}
        np.savez(path, names=np.array(posterior.names), **arrays)
