"""The run room: a stored run from several sides, while it goes on."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.explorer import run_views as views
from paoswarm.explorer.repeated import Repeated, curves, describe_fit, describe_posterior
from paoswarm.helpers import GrowingStore, describe_error

_MOST_LINES = 40  # runs of minimize_many that have a line of their own
_MOST_CHARACTERS = 1000


class RunRoom:
    """Answers about one stored run; raises if the file is missing or no store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = GrowingStore(path)
        self._lock = threading.Lock()
        self._repeated = -1, Repeated(path, self._describe)  # of an epoch of the file

    def show(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the state of the run, and what the page does not have yet.

        The page says what it has: ``epoch``, ``since`` (rows) and ``share`` (the best share of evaluations that it
        shows). Rows come thinned out: every ``stride``-th. The page thins out those that it has.
        """
        share = _between(given.get("share"), 0.0, 1.0, 1.0)
        with self._lock:
            store = self._store
            store.update()
            loss = _loss(store)
            total, d = store.x.shape if len(loss) else (0, 0)
            is_same = given.get("epoch") == store.epoch
            since = int(_between(given.get("since"), 0, total, 0)) if is_same else 0
            stride = views.stride_for(total, d)
            limit = views.threshold(loss, share)
            answer: dict[str, Any] = {
                "epoch": store.epoch,
                "total": total,
                "stride": stride,
                "state": self._state(),
                "threshold": store.sign * limit,
            }
            if total == 0:
                return answer
            unknowns = self._unknowns()
            if share != given.get("had_share") or since < total:
                good = store.x[loss <= limit] if math.isfinite(limit) else store.x
                window = _window(unknowns, good, share)
                answer["range"] = np.stack([good.min(axis=0), good.max(axis=0)])
                answer["window"] = np.stack([unknowns.unscaled(window.lower), unknowns.unscaled(window.upper)])
                answer["profiles"] = store.sign * views.profiles(unknowns.scaled(store.x), loss, window)
            if since == total:
                return answer
            elapsed = np.cumsum(views.gaps(store))
            rows = np.arange(-(-since // stride) * stride, total, stride)
            answer |= {
                "names": unknowns.names,
                "lower": unknowns.lower,
                "upper": unknowns.upper,
                "is_log": unknowns.is_log.tolist(),
                "entries": unknowns.entries,
                "sign": store.sign,
                "rows": self._rows(rows, elapsed),
                "top": self._rows(views.top_rows(loss), elapsed),
                "lines": self._lines(loss, elapsed),
                "quantiles": store.sign * views.quantiles(loss),
                "failures": self._failures(),
                "timing": views.timing(store),
                "sessions": [session._asdict() for session in views.sessions(store)][-50:],
            }
            return answer

    def pair(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the best value in each cell of the plane of two unknowns, where the best ``share`` lies."""
        with self._lock:
            store = self._store
            d = store.x.shape[1]
            if d < 2:
                raise ValueError(f"a map of two unknowns cannot be drawn: this run has {d}")
            chosen = [int(_between(given.get(name), 0, d - 1, j)) for j, name in enumerate(("across", "up"))]
            loss, share = _loss(store), _between(given.get("share"), 0.0, 1.0, 1.0)
            good, unknowns = (
                store.x[loss <= views.threshold(loss, share)],
                views.read_unknowns(store.run["problem"], store.x),
            )
            window = _window(unknowns, good, share)
            lower, upper = (unknowns.unscaled(side)[chosen] for side in (window.lower, window.upper))
            box = views.Box(window.lower[chosen], window.upper[chosen], window.is_choice[chosen])
            best = views.pair_map(unknowns.scaled(store.x)[:, chosen], loss, box)
            return {"across": chosen[0], "up": chosen[1], "lower": lower, "upper": upper, "best": store.sign * best}

    def posterior(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return the posterior of a stored `sample`, as far as it is computed."""
        with self._lock:
            if self._store.run["function"] != "sample":
                raise ValueError(f"{self.path} holds no run of sample, so it has no posterior")
            return self._repetition()

    def fit(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return data and best predictions of a stored `fit`, and its errors and searches as far as they are computed.

        The page says for how many evaluations it has curves (``had``), and of which repetition (``evaluations``).
        """
        with self._lock:
            store = self._store
            if store.run["function"] != "fit":
                raise ValueError(f"{self.path} holds no run of fit, so it has no data")
            if not len(store.outputs):
                return {"state": "none", "message": "No simulation has succeeded yet.", "had": 0, "busy": False}
            found = self._repetition()
            answer = {name: part for name, part in found.items() if name != "band"} | {
                "had": [store.epoch, len(store.f)]
            }
            if given.get("had") == answer["had"] and given.get("evaluations") == answer.get("evaluations"):
                return answer
            origins = [event["open"].get("origin") for _, event in store.events if "open" in event]
            try:
                origin = origins[-1] if origins else None
                return answer | {"curves": curves(store.run["problem"], origin, store.outputs, found.get("band"))}
            except Exception as error:  # a law or a file of someone else
                return answer | {"curves": [], "trouble": describe_error(error)[:_MOST_CHARACTERS]}

    def _repetition(self) -> dict[str, Any]:
        """What the run would return so far, as far as it is computed."""
        store = self._store
        if self._repeated[0] != store.epoch:
            self._repeated = store.epoch, Repeated(self.path, self._describe)
        return self._repeated[1].show(len(store.f), ended=store.progress.ended is not None)

    def _describe(self, result: Any) -> dict[str, Any]:
        with self._lock:
            is_fit, is_log = self._store.run["function"] == "fit", self._unknowns().is_log
        return describe_fit(result) if is_fit else describe_posterior(result, is_log)

    def _unknowns(self) -> views.Unknowns:
        return views.read_unknowns(self._store.run["problem"], self._store.x)

    def _rows(self, rows: views.Rows, elapsed: NDArray[np.float64]) -> dict[str, Any]:
        store = self._store
        return {
            "row": rows,
            "number": store.number[rows],
            "elapsed": elapsed[rows],
            "f": store.f[rows],
            "x": store.x[rows],
        }

    def _lines(self, loss: NDArray[np.float64], elapsed: NDArray[np.float64]) -> list[dict[str, Any]]:
        """The best value so far, for each run of `minimize_many`."""
        store = self._store
        problem = store.run["problem"]
        runs = None if "engine" in problem else problem.get("runs")  # a compiled engine records the best of all runs
        runs = runs if isinstance(runs, int) and runs > 0 else 1
        lines = []
        for run in range(min(runs, _MOST_LINES)):
            own = np.flatnonzero(store.number % runs == run)
            better = views.thinned(own[views.improvements(loss[own])])
            line = {"row": better, "elapsed": elapsed[better], "value": store.f[better]}
            lines.append({**line, "last": int(own[-1]) if len(own) else 0})
        return lines

    def _failures(self) -> dict[str, Any]:
        store = self._store
        latest, kinds = views.failures(np.isnan(store.f), store.why)
        return {
            "count": int(np.isnan(store.f).sum()),
            "kinds": kinds,
            "row": latest,
            "number": store.number[latest],
            "time": store.time[latest],
            "x": store.x[latest],
            "why": [views.message_of(store.why, row) for row in latest.tolist()],
        }

    def _state(self) -> dict[str, Any]:
        """Return the progress of the run: numbers, and whether it is running, stopped or has ended."""
        store, progress = self._store, self._store.progress
        run, ended = store.run, progress.ended
        method = run["problem"].get("method")
        word = "ended" if ended is not None else "stopped" if progress.is_alive is False else "running"
        word = word if store.header else "empty"
        return {
            "word": word,
            "file": self.path.name,
            "function": run["function"],
            "method": str(method.get("paoswarm", ""))[:80] if isinstance(method, dict) else "",
            "evaluations": progress.evaluations,
            "expected": progress.expected,
            "failed": progress.failed,
            "best": progress.best,
            "where": progress.where,
            "rate": progress.rate,
            "remaining": progress.remaining if word == "running" else math.nan,
            "message": (ended or "")[:_MOST_CHARACTERS],
            "trouble": store.trouble,
            "limits": _texts(
                next((event["limits"] for _, event in store.events[::-1] if "limits" in event), run["limits"])
            ),
            "how": _texts(run["how"]),
            "versions": _texts(store.header.get("versions", {})),
        }


def _window(unknowns: views.Unknowns, good: NDArray[np.float64], share: float) -> views.Box:
    """Return the part of each axis that is drawn: the bounds, or the range of the best points."""
    box = views.Box(unknowns.scaled(unknowns.lower), unknowns.scaled(unknowns.upper), unknowns.is_choice)
    return box if share == 1 else views.window(unknowns.scaled(good), box)


def _loss(store: GrowingStore) -> NDArray[np.float64]:
    """Values that are better when lower; infinite where the evaluation failed."""
    return np.where(np.isnan(store.f), np.inf, store.sign * store.f)


def _between(given: Any, low: float, high: float, default: float) -> float:
    is_number = isinstance(given, int | float) and not isinstance(given, bool) and given == given  # not NaN
    return min(max(given, low), high) if is_number else default


def _texts(entries: dict[str, Any]) -> dict[str, str]:
    """Entries of the description as short texts; those that are not set are left out."""
    return {str(name)[:80]: str(entry)[:200] for name, entry in entries.items() if entry not in (None, False)}
