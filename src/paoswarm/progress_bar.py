"""The one progress bar: tqdm if it is wanted, nothing otherwise."""

from __future__ import annotations

from typing import Any

from paoswarm.extras import need


class ProgressBar:
    """A tqdm bar, or nothing; a context manager.

    Parameters
    ----------
    wanted : bool
        Whether to show anything; then tqdm is needed.
    total : int, optional
        How many units of work there will be; None if unknown.
    unit : str
    done : int
        Units that were done before.
    """

    def __init__(self, wanted: bool, total: int | None = None, *, unit: str = "eval", done: int = 0) -> None:
        self._bar: Any = None
        if wanted:
            tqdm = need("tqdm.auto", extra="progress", user="progress=True").tqdm
            self._bar = tqdm(total=total, initial=done, unit=unit, dynamic_ncols=True)

    @property
    def is_shown(self) -> bool:
        """Whether there is anything to see."""
        return self._bar is not None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def expect(self, total: int | None) -> None:
        """State how many units there will be at most; None if unknown."""
        if self._bar is not None:
            self._bar.total = total

    def count(self, units: int = 1) -> None:
        """Add finished units."""
        if self._bar is not None:
            self._bar.update(units)

    def catch_up(self, units: int) -> None:
        """Set the number of finished units: work may have ended early."""
        if self._bar is not None:
            self._bar.update(units - self._bar.n)

    def show(self, phase: str = "", note: str = "", **numbers: float | None) -> None:
        """Show what is going on: a phase before the bar, a note or numbers (not None) behind it."""
        if self._bar is None:
            return
        if phase:
            self._bar.set_description(phase, refresh=False)
        if note:
            self._bar.set_postfix_str(note, refresh=False)
        if numbers:
            known = {name: number for name, number in numbers.items() if number is not None}
            shown = {name.replace("_", " "): f"{number:.6g}" for name, number in known.items()}
            self._bar.set_postfix(shown, refresh=bool(phase))  # phases are few: show each at once
