"""Optional packages, the progress bar, and how many cores there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def need(module: str, *, extra: str, user: str) -> Any:
    """Return a module, or raise an ImportError that says who needs it and how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(f"{user} needs {package}; install it with: pip install 'paoswarm[{extra}]'") from error


def on_first_use(
    package: str, homes: Mapping[str, str], *, needs: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package whose names are imported when they are asked for.

    ``homes`` holds the module of each name, such as ``.sampler``; a module of that name is itself what is meant.
    If the names need another package, the extra that installs it is called like it.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if needs:
            need(needs, extra=needs, user=f"{package}.{name}")
        home = import_module(homes[name], package)
        return home if homes[name].endswith(f".{name}") else getattr(home, name)

    return __getattr__, lambda: list(homes)


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
