"""How far `sample` has come, for people who wait."""

from __future__ import annotations

from typing import Any

from paoswarm.optimize.progress import load_tqdm


class Bar:
    """A tqdm bar over evaluations, or nothing."""

    def __init__(self, wanted: bool, total: int | None) -> None:
        self._bar: Any = load_tqdm()(total=total, unit="eval", dynamic_ncols=True) if wanted else None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def count(self, n: int) -> None:
        """So many evaluations more are done."""
        if self._bar is not None:
            self._bar.update(n)

    def say(self, phase: str, **numbers: float) -> None:
        """What is going on."""
        if self._bar is not None:
            self._bar.set_description(phase, refresh=False)
            self._bar.set_postfix({name.replace("_", " "): f"{value:.3g}" for name, value in numbers.items()})
