"""The posterior of a stored `sample`: the run is repeated from a copy of its file, without calling the likelihood.

A run follows from its description and its recorded values. If the repetition gets to a point that is not recorded, it
is interrupted, and the posterior is that of the draws so far.
"""

from __future__ import annotations

import math
import threading
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm import Store, Workers, resume
from paoswarm.helpers import text_of
from paoswarm.results import Posterior

_BINS = 40
_CELLS = 28
_MOST_SHOWN = 6  # parameters in the corner plot
_GROWTH = 1.25  # a growing run is repeated when it has this many times the evaluations


class PosteriorView:
    """The posterior of a file, computed in the background when it is asked for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._worker: threading.Thread | None = None
        self._done_for = -1  # evaluations at the latest repetition
        self._answer: dict[str, Any] = {"state": "computing"}

    def show(self, total: int, is_log: NDArray[np.bool_], *, ended: bool) -> dict[str, Any]:
        """Return the latest posterior; start to compute it if there are enough new evaluations."""
        with self._lock:
            is_new = total > max(self._done_for, 0) * (1 if ended else _GROWTH)
            if is_new and (self._worker is None or not self._worker.is_alive()):
                self._done_for = total
                self._worker = threading.Thread(target=self._compute, args=(total, is_log), daemon=True)
                self._worker.start()
            busy = self._worker is not None and self._worker.is_alive()
            return {**self._answer, "busy": busy}

    def _compute(self, total: int, is_log: NDArray[np.bool_]) -> None:
        try:
            answer = {"state": "ready", "evaluations": total, **describe(repeat(self._path), is_log)}
        except BaseException as error:  # KeyboardInterrupt, too: the run is too young for a posterior
            answer = {"state": "none", "evaluations": total, "message": text_of(error)}
        with self._lock:
            self._answer = answer


def repeat(path: Path) -> Posterior:
    """Repeat a stored `sample` from a copy of its file; raise KeyboardInterrupt if it is too young for a posterior."""

    def log_likelihood(x: Any) -> float:
        raise KeyboardInterrupt

    with TemporaryDirectory(prefix="paoswarm-explore-") as folder:
        copy = Path(folder) / path.name
        copy.write_bytes(path.read_bytes())
        try:
            found = resume(Store(copy, fsync="never", trust=True), log_likelihood, workers=Workers())
        except KeyboardInterrupt as error:
            said = text_of(error).split(";")[0]  # what follows is about the copy
            raise KeyboardInterrupt(said[:1].upper() + said[1:] + ".") from None
    if not isinstance(found, Posterior):
        raise ValueError(f"{path} holds no run of sample")
    return found


def describe(posterior: Posterior, is_log: NDArray[np.bool_]) -> dict[str, Any]:
    """Return tables and histograms of a posterior, ready to be drawn; of some parameters those of the logarithm."""
    draws, weights = posterior.weighted.draws, posterior.weighted.weights
    shown = list(range(min(_MOST_SHOWN, draws.shape[1])))
    is_log = is_log & (draws > 0).all(axis=0)
    draws = np.where(is_log, np.log10(np.where(is_log, draws, 1.0)), draws)
    edges = [_edges(posterior, j, is_log[j], _BINS) for j in shown]
    coarse = [_edges(posterior, j, is_log[j], _CELLS) for j in shown]
    return {
        "names": [name[:80] for name in posterior.names],
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


def _edges(posterior: Posterior, j: int, is_log: bool, bins: int) -> NDArray[np.float64]:
    """Return the edges of a histogram, on the scale: from the 0.1 % to the 99.9 % quantile, a little wider."""
    low, high = (float(posterior.quantile(p)[j]) for p in (0.001, 0.999))
    low, high = (math.log10(low), math.log10(high)) if is_log else (low, high)
    room = 0.05 * (high - low) or 0.5
    return np.linspace(low - room, high + room, bins + 1)
