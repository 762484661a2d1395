"""Carry out a run, report what it has found as text, JSON or tables, and return the exit code."""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from textwrap import fill
from types import FrameType
from typing import Any

import numpy as np

from paoswarm import Store, Workers
from paoswarm.cli.commands import INTERRUPTED, WITHOUT_SUCCESS
from paoswarm.cli.options import given_of
from paoswarm.cli.source import Source
from paoswarm.helpers import describe, plain, printable
from paoswarm.results import Fit, ManyResult, Posterior, Result, Status

_CAN_GO_ON = (Status.INTERRUPTED, Status.CRASHED, Status.TIME)
_WIDTH = 80  # characters of a line


def start(
    options: argparse.Namespace, function: Any, fun: Any, where: Any, source: Source, x: Any = None, **arguments: Any
) -> int:
    """Start `minimize`, `sample` or `fit` with what the options say about running it; see `carry_out`."""
    arguments |= source.more() | given_of(options, "maxfev", "time_limit", "target")
    arguments["workers"] = Workers(**given_of(options, "workers", "timeout", "asynchronous"))
    if options.store is not None:
        arguments["store"] = Store(options.store, trust=options.trust, origin=source.origin)
    progress = progress_wanted(options)
    return carry_out(options, lambda: function(fun, where, rng=options.seed, progress=progress, **arguments), x)


def carry_out(options: argparse.Namespace, call: Callable[[], Any], x: tuple[str, Any] | None = None) -> int:
    """Call what makes a result, report it, and write the files that the options name; return the exit code.

    ``x`` is what the places of the data of a fit are called, and the places.
    """
    if (draws := getattr(options, "draws", None)) is not None and Path(draws).suffix not in (".csv", ".npz"):
        raise ValueError(f"--draws must end in .csv or .npz, got {draws}")
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
    if isinstance(result, Posterior) and options.draws is not None:
        _write_draws(result, options.draws)
    if isinstance(result, Fit):
        _write_tables(result, options, x)
    if options.json is not None:
        text = as_json(result, seconds, options.store)
        if options.json == "-":
            options.answer = text
        else:
            Path(options.json).write_text(text + "\n", encoding="utf-8")
    if options.json != "-":
        print(printable(summary(result, seconds)))
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
    file, folder = Path(path), Path(path).absolute().parent
    if file.is_dir() or not folder.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
        raise ValueError(f"{path} cannot be written")


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Take SIGTERM, by which queues end jobs, and SIGHUP, of a terminal that is closed, for Ctrl-C."""

    def handle(number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    taken = [number for number in known if signal.getsignal(number) is not signal.SIG_IGN]  # `nohup` ignores one
    before = {number: signal.signal(number, handle) for number in taken}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def _exit_code(result: Any) -> tuple[int, Any]:
    """The exit code, and why it is not zero."""
    why: Any
    if isinstance(result, Posterior):
        is_interrupted, why = result.method == "interrupted", "a value is doubtful"
    elif isinstance(result, ManyResult):
        is_interrupted = (result.status == Status.INTERRUPTED).any()
        why = f"{int((~result.success).sum())} of {len(result.fun)} runs"
    else:
        is_interrupted, why = result.status is Status.INTERRUPTED, result.status
    if is_interrupted:
        return INTERRUPTED, ""
    return (0, "") if np.all(result.success) else (WITHOUT_SUCCESS, why)


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
        return kept | _of_fit(result)
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


# Files


def _write_draws(posterior: Posterior, path: str) -> None:
    """Write draws of equal weight, with the names of the parameters."""
    if path.endswith(".csv"):
        np.savetxt(path, posterior.draws, fmt="%.17g", delimiter=",", header=",".join(posterior.names), comments="")
    else:
        known = {"draws": posterior.draws, "log_likelihood": posterior.log_likelihood, "log_prior": posterior.log_prior}
        arrays: dict[str, Any] = {name: values for name, values in known.items() if values is not None}
        np.savez(path, names=np.array(posterior.names), **arrays)


def _of_fit(fit: Any) -> dict[str, Any]:
    """What a fit has found besides its best point."""
    estimates, outputs = _estimates(fit), _outputs(fit)
    names = ("chi_square", "degrees_of_freedom", "log_likelihood", "aic", "bic", "sigma", "correlations", "covariance")
    return {
        "estimates": {row.pop("name"): row for row in estimates},
        **{name: getattr(fit, name) for name in names},
        "factors": {name: {"scale": a, "offset": b} for name, (a, b) in fit.factors.items()},
        "outputs": outputs,
        "searches": [
            {"value": one.value, "evaluations": one.evaluations, "ending": one.ending} for one in fit.searches
        ],
        "remarks": fit.remarks,
    }


def _write_tables(fit: Any, options: argparse.Namespace, x: tuple[str, Any] | None) -> None:
    """Write the tables of a fit that the options name, as CSV."""
    if options.estimates is not None:  # a line for each unknown
        rows = _estimates(fit)
        head = [*rows[0], *(f"correlation with {row['name']}" for row in rows)]
        correlations = fit.correlations.tolist()
        _write(options.estimates, head, [[*row.values(), *r] for row, r in zip(rows, correlations, strict=True)])
    if options.predictions is not None:  # a line for each row of the data
        columns: dict[str, Any] = {} if x is None else {x[0]: x[1]}
        for name, parts in _outputs(fit).items():
            columns |= {f"{name} {what}".strip(): values for what, values in parts.items()}
        _write(options.predictions, list(columns), zip_longest(*columns.values(), fillvalue=np.nan))


def _write(path: str, head: Sequence[str], lines: Any) -> None:
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        for line in lines:
            writer.writerow("" if one != one else one for one in line)


def _estimates(fit: Any) -> list[dict[str, Any]]:
    one, (low, high) = fit.uncertainty, fit.interval()
    columns = zip(one.names, one.x.tolist(), fit.standard_errors.tolist(), low.tolist(), high.tolist(), strict=True)
    keys = ("name", "estimate", "standard error", "2.5 %", "97.5 %")
    return [dict(zip(keys, row, strict=True)) for row in columns]


def _outputs(fit: Any) -> dict[str, dict[str, list[float]]]:
    """Data, predictions, bands and residuals by output."""
    low, high = fit.band()
    parts = {"data": fit.data, "prediction": fit.predictions, "2.5 %": low, "97.5 %": high, "residual": fit.residuals}
    by_name = {what: given if isinstance(given, Mapping) else {"": given} for what, given in parts.items()}
    return {
        name: {what: np.ravel(values[name]).tolist() for what, values in by_name.items()} for name in by_name["data"]
    }
