"""The unknowns of a stored run as they are drawn: names, bounds, logarithmic scales, entries of choices.

A file may hold anything: what makes no sense is left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.spaces.names import numbered

_MOST_CHARACTERS = 80  # of a name, or of an entry


class Unknowns(NamedTuple):
    """One entry for each unknown.

    On its *scale* an unknown has equal intervals where the page has: it is the logarithm, or the number itself.
    """

    names: list[str]
    lower: Floats
    upper: Floats
    is_log: NDArray[np.bool_]
    entries: list[list[str] | None]  # of a choice, as text; its number is the index

    @property
    def is_choice(self) -> NDArray[np.bool_]:
        """Which are choices."""
        return np.array([one is not None for one in self.entries], dtype=bool)

    def scaled(self, x: Floats) -> Floats:
        """Points on the scales of the unknowns; NaN where there is no logarithm."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.is_log, np.log10(np.where(self.is_log, x, 1.0)), x)

    def unscaled(self, s: Floats) -> Floats:
        """The inverse, inside the bounds."""
        return np.where(self.is_log, np.clip(10 ** np.where(self.is_log, s, 0.0), self.lower, self.upper), s)


def read_unknowns(problem: dict[str, Any], x: Floats) -> Unknowns:
    """The unknowns of the points ``(m, d)`` of a run; without recorded bounds, between the least and the largest."""
    d = x.shape[1]
    bounds, prior = problem.get("bounds"), problem.get("prior")
    ends = np.array([_ends(entry) for entry in _entries(bounds, d)]).reshape(d, 2)
    lower, upper = _box(ends, x)
    wants_log = [_settings(entry).get("log") is True for entry in _entries(bounds if bounds is not None else prior, d)]
    is_positive = (np.where(np.isfinite(x), x, np.inf) > 0).all(axis=0) & (lower > 0)
    entries = [_labels(entry) for entry in _entries(bounds, d)]
    return Unknowns(_names(problem, d), lower, upper, np.array(wants_log, dtype=bool) & is_positive, entries)


def _names(problem: dict[str, Any], d: int) -> list[str]:
    """Recorded names, or x0, x1, ..."""
    for names in (problem.get("names"), _keys(problem.get("bounds")), _keys(problem.get("prior"))):
        if isinstance(names, list) and len(names) == d and all(isinstance(name, str) for name in names):
            return [name[:_MOST_CHARACTERS] for name in names]
    return numbered(d)


def _box(ends: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Bounds; where none are recorded, the range of the points."""
    finite = np.isfinite(x)
    low = np.where(finite, x, np.inf).min(axis=0, initial=np.inf)
    high = np.where(finite, x, -np.inf).max(axis=0, initial=-np.inf)
    is_known = ends[:, 0] < ends[:, 1]
    low, high = np.where(is_known, ends[:, 0], low), np.where(is_known, ends[:, 1], high)
    is_empty = ~(low < high)
    low = np.where(np.isfinite(low), low, 0.0)
    return np.where(is_empty, low - 0.5, low), np.where(is_empty, low + 0.5, high)


def _items(recorded: Any) -> list[list[Any]]:
    """The pairs of an encoded dict; none if it is no such thing."""
    items = recorded.get("items") if isinstance(recorded, dict) else None
    return [item for item in items if isinstance(item, list) and len(item) == 2] if isinstance(items, list) else []


def _keys(recorded: Any) -> list[Any]:
    return [item[0] for item in _items(recorded)]


def _entries(recorded: Any, d: int) -> list[Any]:
    """What is recorded of each unknown; None if that is not known."""
    found = [item[1] for item in _items(recorded)] if isinstance(recorded, dict) else recorded
    return found if isinstance(found, list) and len(found) == d else [None] * d


def _settings(entry: Any) -> dict[str, Any]:
    """The arguments of an encoded variable."""
    settings = entry.get("with") if isinstance(entry, dict) else None
    return settings if isinstance(settings, dict) else {}


def _labels(entry: Any) -> list[str] | None:
    """The entries of a choice as text; None if it is none."""
    entries = _settings(entry).get("entries")
    if not isinstance(entries, list) or not entries:
        return None
    return [_label(one)[:_MOST_CHARACTERS] for one in entries]


def _label(entry: Any) -> str:
    if isinstance(entry, dict) and isinstance(entry.get("own"), str):
        return entry["own"].rpartition(".")[2]  # a function or class, by its name
    return entry if isinstance(entry, str) else str(entry)


def _ends(entry: Any) -> tuple[float, float]:
    """The bounds of one unknown: of a pair, of a variable with low and high, or of a choice; NaN if unknown."""
    settings, labels = _settings(entry), _labels(entry)
    if labels is not None:
        return -0.5, len(labels) - 0.5  # half a unit more, so that the first and the last one are not on the frame
    pair = [settings.get("low"), settings.get("high")] if settings else entry
    if isinstance(pair, list) and len(pair) == 2 and all(isinstance(end, int | float) for end in pair):
        low, high = (float(end) for end in pair)
        if np.isfinite(low) and np.isfinite(high):
            return low, high
    return np.nan, np.nan
