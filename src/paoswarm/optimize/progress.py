"""The progress bar: tqdm where it is wanted, nothing otherwise."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from paoswarm.optimize.optimizer import Optimizer


class Bar:
    """Shows nothing; what a run without ``progress=True`` talks to."""

    def expect(self, evaluations: int | None) -> None:
        """There will be so many at most; None where nobody knows."""

    def count(self, evaluations: int) -> None:
        """So many evaluations more are done."""

    def say(self, optimizer: Optimizer) -> None:
        """What is known after a generation."""

    def finish(self, evaluations: int) -> None:
        """So many evaluations are behind us: runs may have ended with less."""

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class TqdmBar(Bar):
    """A tqdm bar over evaluations: their rate, the time that is left, the best value, failures."""

    def __init__(self, tqdm: Any) -> None:
        self._best = float("inf")
        self._failed = self._failed_before = 0
        self._bar = tqdm(unit="eval", dynamic_ncols=True)

    def expect(self, evaluations: int | None) -> None:
        """There will be so many at most."""
        self._bar.total = evaluations

    def count(self, evaluations: int) -> None:
        """So many evaluations more are done."""
        self._bar.update(evaluations)

    def say(self, optimizer: Optimizer) -> None:
        """What is known after a generation."""
        assert optimizer.swarm is not None
        self._best = min(self._best, float(optimizer.swarm.global_value.min()))
        self._failed = self._failed_before + int(optimizer.n_failed.sum())
        notes = {"best": f"{self._best:.6g}"}
        if self._failed:
            notes["failed"] = str(self._failed)
        self._bar.set_postfix(notes, refresh=False)

    def finish(self, evaluations: int) -> None:
        """So many evaluations are behind us: runs may have ended with less."""
        self._failed_before = self._failed
        self._bar.update(evaluations - self._bar.n)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()


def open_bar(wanted: bool) -> Bar:
    """A bar that shows something, or one that does not."""
    return TqdmBar(load_tqdm()) if wanted else Bar()


def load_tqdm() -> Any:
    """The class of tqdm's bars, or an error that says how to get it."""
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("progress=True needs tqdm; install it with: pip install 'paoswarm[progress]'") from error
    return tqdm
