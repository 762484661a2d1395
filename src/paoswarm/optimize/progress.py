"""The progress bar: tqdm where it is wanted, nothing otherwise."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any

from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.stopping import Limits


class Bar:
    """Shows nothing; what a run without ``progress=True`` talks to."""

    def advance(self, optimizer: Optimizer) -> None:
        """A generation is done."""

    def finish(self, runs: int) -> None:
        """So many runs are done."""

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class TqdmBar(Bar):
    """A tqdm bar over generations, or over evaluations where only these are limited; of all runs together."""

    def __init__(self, tqdm: Any, limits: Limits, runs: int) -> None:
        self._by_generation = limits.maxiter is not None
        each = limits.maxiter if self._by_generation else limits.maxfev
        self._each, self._done, self._best = each, 0, float("inf")
        unit = "gen" if self._by_generation else "eval"
        self._bar = tqdm(total=None if each is None else each * runs, unit=unit, dynamic_ncols=True)

    def advance(self, optimizer: Optimizer) -> None:
        """A generation is done."""
        assert optimizer.swarm is not None
        spent = optimizer.nfev
        self._best = min(self._best, float(optimizer.swarm.global_value.min()))
        notes = {"best": f"{self._best:.6g}", "evaluations": spent}
        if optimizer.n_failed.any():
            notes["failed"] = int(optimizer.n_failed.sum())
        self._bar.set_postfix(notes, refresh=False)
        runs = math.prod(optimizer.batch)
        self._bar.update(self._done + runs * (optimizer.nit if self._by_generation else spent) - self._bar.n)

    def finish(self, runs: int) -> None:
        """So many runs are done."""
        if self._each is not None:
            self._done = runs * self._each

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()


def open_bar(wanted: bool, limits: Limits, runs: int = 1) -> Bar:
    """A bar for runs with these limits."""
    return TqdmBar(load_tqdm(), limits, runs) if wanted else Bar()


def load_tqdm() -> Any:
    """The class of tqdm's bars, or an error that says how to get it."""
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm; install it with: pip install 'paoswarm[progress]'") from error
    return tqdm
