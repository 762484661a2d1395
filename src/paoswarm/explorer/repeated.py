"""What a stored run would return: it is repeated from a copy of its file, without calling the user's function.

A run follows from its description and its recorded values. If the repetition gets to a point that is not recorded, it
is interrupted, and the result is that of the evaluations so far.
"""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from paoswarm import Store, Workers, resume
from paoswarm.helpers import recorded_comparison, text_of

_PATIENCE = 9.0  # times as long as the last repetition took, until the next one: a tenth of the time at most


class Repeated:
    """The answer about a repeated run, computed in the background when it is asked for.

    Parameters
    ----------
    path : Path
        The file.
    describe : callable
        Makes the answer from what the run returns.
    """

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
