"""What a stored run would return, ready to be drawn: the fit or the posterior of its evaluations so far.

A run follows from its description and its recorded values. So it is repeated from a copy of its file, without calling
the user's function. If the repetition gets to a point that is not recorded, it is interrupted, and the result is that
of the evaluations so far. Data and best predictions of a fit come from recorded outputs, and are there at once.
"""

from __future__ import annotations

import math
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from itertools import combinations, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm import Store, Workers, resume
from paoswarm.helpers import recorded_comparison, text_of
from paoswarm.results import Fit, Posterior

Floats = NDArray[np.float64]
_PATIENCE = 9.0  # times as long as the last repetition took, until the next one: a tenth of the time at most
_MOST_CURVES = 24
_MOST_ROWS = 3000  # of a curve; of more every second, third, ... one
_MOST_SEARCHES = 500
_LONGEST = 80  # characters of a name
_BINS, _CELLS = 40, 28  # of histograms of one and of two parameters
_MOST_SHOWN = 6  # parameters in the corner plot


class Repeated:
    """The answer about a repeated run, which ``describe`` makes in the background when it is asked for."""

    def __init__(self, path: Path, describe: Callable[[Any], dict[str, Any]]) -> None:
        self._path, self._describe = path, describe
        self._lock = threading.Lock()
        self._worker: threading.Thread | None = None
        self._done_for = 0  # evaluations at the latest repetition
        self._wait_until = 0.0
        self._answer: dict[str, Any] = {"state": "computing"}

    def show(self, total: int, *, ended: bool) -> dict[str, Any]:
        """The latest answer; a new one is begun if there are more evaluations."""
        with self._lock:
            is_new = total > self._done_for and (ended or time.monotonic() >= self._wait_until)
            if is_new and (self._worker is None or not self._worker.is_alive()):
                self._done_for = total
                self._worker = threading.Thread(target=self._compute, args=(total,), daemon=True)
                self._worker.start()
            busy = self._worker is not None and self._worker.is_alive()
            return {**self._answer, "busy": busy}

    def _compute(self, total: int) -> None:
        began = time.monotonic()
        try:
            answer = {"state": "ready", "evaluations": total, **self._describe(repeat(self._path))}
        except BaseException as error:  # KeyboardInterrupt, too: the run is too young
            said = re.sub(r"[^\s'\"]*paoswarm-explore-[^/\\]*.", "", text_of(error))  # the folder of the copy
            answer = {"state": "none", "evaluations": total, "message": said}
        with self._lock:
            self._answer = answer
            self._wait_until = time.monotonic() + _PATIENCE * (time.monotonic() - began)


def repeat(path: Path) -> Any:
    """What a stored run returns; raises KeyboardInterrupt if it is too young for a result."""

    def not_recorded(*given: Any) -> float:
        raise KeyboardInterrupt

    with TemporaryDirectory(prefix="paoswarm-explore-") as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(path.read_bytes())
        store = Store(copy, fsync="never", trust=True)
        problem = store.run().problem
        more: dict[str, Any] = {"workers": Workers(asynchronous=bool(problem.get("asynchronous")))}
        if isinstance(problem.get("penalty"), dict):
            more["penalty"] = _penalty(store, problem)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # those who ran it have seen them
                return resume(store, not_recorded, **more)
        except KeyboardInterrupt as error:
            said = text_of(error).split(";")[0]  # what follows is about the copy
            raise KeyboardInterrupt(said[:1].upper() + said[1:] + ".") from None


def _penalty(store: Store, problem: dict[str, Any]) -> Callable[[Any], Any]:
    """In place of the user's function: as many residuals. Their values are recorded with the outputs."""
    outputs = store.outputs()
    comparison = recorded_comparison(problem, outputs[0] if len(outputs) else np.empty(0))
    count = max(0, comparison.beliefs.count - len((problem.get("priors") or {}).get("items", ())))

    def penalty(point: Any) -> Any:
        return np.zeros(count)

    penalty.__name__ = str(problem["penalty"].get("own"))
    return penalty


# A fit


def curves(problem: dict[str, Any], origin: Any, outputs: Floats, band: Floats | None) -> list[dict[str, Any]]:
    """Data, best prediction and residuals for each output, column by column, in the order of their places.

    With them the ``band`` (2, m) of all outputs, if it is known.
    """
    comparison = recorded_comparison(problem, outputs)
    predicted = comparison.loss(len(outputs)).predicted(outputs)
    parts = _columns(comparison.outputs, len(predicted))
    data = np.full(len(predicted), np.nan) if comparison.outputs is None else comparison.outputs.data
    residual = predicted if comparison.outputs is None else predicted - data
    found = []
    for name, rows in parts[:_MOST_CURVES]:
        label, x = _places(problem, origin, len(rows))
        order = np.argsort(x, kind="stable")[:: -(-len(x) // _MOST_ROWS)]
        rows, x = rows[order], x[order]
        curve = {"name": name[:_LONGEST], "label": label[:_LONGEST], "x": x, "residual": residual[rows]}
        curve |= {"data": data[rows], "prediction": np.zeros(0)}
        if comparison.outputs is not None:
            curve["prediction"] = predicted[rows]
            if band is not None and rows.max() < band.shape[1]:
                curve["band"] = band[:, rows]
        found.append(curve)
    return found


def _columns(outputs: Any, m: int) -> list[tuple[str, NDArray[np.intp]]]:
    """The name of each series of numbers, and where it is in the vector of outputs."""
    if outputs is None:
        return [("", np.arange(m))]
    found = []
    for part in outputs.parts:
        columns = part.columns
        name = part.name
        found += [(f"{name} {j}".strip() if len(columns) > 1 else name, rows) for j, rows in enumerate(columns)]
    return found


def _places(problem: dict[str, Any], origin: Any, count: int) -> tuple[str, Floats]:
    """Where a series is measured, if the file says it for so many numbers; else their numbers."""
    origin = origin if isinstance(origin, dict) else {}
    command = origin.get("command")
    at = command.get("at") if isinstance(command, dict) else None
    named = [*at.items()] if isinstance(at, dict) else []
    xdata = problem.get("xdata")
    if isinstance(xdata, dict):
        named.append((str(origin.get("x") or "x"), xdata.get("array")))
    for name, places in named:
        try:
            x = np.array(places, dtype=float)
        except (TypeError, ValueError):
            continue
        if x.shape == (count,) and np.isfinite(x).all():
            return str(name), x
    return "number", np.arange(1.0, count + 1)


def describe_fit(fit: Fit) -> dict[str, Any]:
    """Estimates, bands and searches of a fit."""
    one, (low, high) = fit.uncertainty, fit.interval()
    ended = zip(fit.searches, fit.searches.places, strict=True)
    return {
        "names": [name[:_LONGEST] for name in one.names],
        "estimates": np.stack([one.x, fit.standard_errors, low, high]),
        "band": np.stack([_vector(side) for side in fit.band()]),
        "remarks": list(fit.remarks),
        "facts": _facts(fit),
        "searches": [
            {"value": found.value, "evaluations": found.evaluations, "place": place, "ending": found.ending}
            for found, place in islice(ended, _MOST_SEARCHES)
        ],
    }


def _facts(fit: Fit) -> list[tuple[str, float]]:
    """Numbers that say how good a fit is."""
    facts = [("degrees of freedom", float(fit.degrees_of_freedom)), ("AIC", fit.aic), ("BIC", fit.bic)]
    facts += [(f"standard deviation of {name or 'a datum'}"[:_LONGEST], sigma) for name, sigma in fit.sigma.items()]
    for name, (scale, offset) in fit.factors.items():
        facts += [(f"scale {name}".strip()[:_LONGEST], scale), (f"offset {name}".strip()[:_LONGEST], offset)]
    return facts


def _vector(given: Any) -> Floats:
    """Arrays by name as one vector, in the order of the outputs."""
    parts = given.values() if isinstance(given, Mapping) else [given]
    return np.concatenate([np.ravel(part) for part in parts])


# A posterior


def describe_posterior(posterior: Posterior, is_log: NDArray[np.bool_]) -> dict[str, Any]:
    """Return tables and histograms of a posterior, ready to be drawn; of some parameters those of the logarithm."""
    draws, weights = posterior.weighted.draws, posterior.weighted.weights
    shown = list(range(min(_MOST_SHOWN, draws.shape[1])))
    is_log = is_log & (draws > 0).all(axis=0)
    draws = np.where(is_log, np.log10(np.where(is_log, draws, 1.0)), draws)
    edges = [_edges(posterior, j, is_log[j], _BINS) for j in shown]
    coarse = [_edges(posterior, j, is_log[j], _CELLS) for j in shown]
    return {
        "names": [name[:_LONGEST] for name in posterior.names],
        "is_log": is_log.tolist(),
        "mean": posterior.mean(),
        "sd": posterior.std(),
        "quantiles": np.stack([posterior.quantile(p) for p in (0.025, 0.5, 0.975)]),
        "log_evidence": posterior.log_evidence,
        "log_evidence_error": posterior.log_evidence_error,
        "effective_size": posterior.effective_size,
        "method": posterior.method,
        "message": posterior.message.split(" All ")[0],
        "marginals": [
            {
                "edges": 10**edge if is_log[j] else edge,
                "density": np.histogram(draws[:, j], edge, weights=weights, density=True)[0],
            }
            for j, edge in zip(shown, edges, strict=True)
        ],
        "pairs": [
            {
                "across": i,
                "up": j,
                "edges": [10 ** coarse[k] if is_log[k] else coarse[k] for k in (i, j)],
                "share": np.histogram2d(draws[:, j], draws[:, i], (coarse[j], coarse[i]), weights=weights)[0],
            }
            for i, j in combinations(shown, 2)
        ],
    }


def _edges(posterior: Posterior, j: int, is_log: bool, bins: int) -> Floats:
    """Return the edges of a histogram, on the scale: from the 0.1 % to the 99.9 % quantile, a little wider."""
    low, high = (float(posterior.quantile(p)[j]) for p in (0.001, 0.999))
    low, high = (math.log10(low), math.log10(high)) if is_log else (low, high)
    room = 0.05 * (high - low) or 0.5
    return np.linspace(low - room, high + room, bins + 1)
