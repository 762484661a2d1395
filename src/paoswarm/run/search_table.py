"""The searches of a run as a table for people."""

from __future__ import annotations

from collections import Counter
from typing import Any

from paoswarm._text import block, table
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.walls import Axes
from paoswarm.methods.agreement import Search, places_of
from paoswarm.space.space import Space

_HEADER = ("", "kind", "particles", "evaluations", "value", "ended", "place")


class SearchTable(tuple[Search, ...]):
    """The searches that have ended, in order; a tuple that prints as a table.

    Attributes
    ----------
    places : tuple of int
        Where each search has ended: 1 for the best place, 2 for the next, and so on; 0 for one that was cut short.
    """

    places: tuple[int, ...]
    _given: tuple[Any, ...]

    def __new__(
        cls,
        searches: tuple[Search, ...],
        lower: Floats,
        upper: Floats,
        axes: Axes | None = None,
        space: Space | None = None,
    ) -> SearchTable:
        """The searches of a run in these bounds; their points are shown as the numbers of the space."""
        made = super().__new__(
            cls, searches if space is None else (one._replace(x=space.rows(one.x)) for one in searches)
        )
        numbers = {id(one): k for k, place in enumerate(places_of(searches, lower, upper, axes), 1) for one in place}
        made.places = tuple(numbers.get(id(one), 0) for one in searches)
        made._given = searches, lower, upper, axes, space
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        """How a copy is made."""
        return self._given

    @property
    def summary(self) -> str:
        """Two lines: what was searched, and where the searches have ended; empty if none has."""
        if not self:
            return ""
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(one.kind for one in self).items())
        here, n_places = self.places.count(1), max(self.places)
        text = f"{len(self)} in {sum(one.evaluations for one in self):,} evaluations: {kinds}\n"
        if not n_places:
            return f"{text}none converged: {len(self)} cut short"
        text += f"{here} ended at the best of {n_places} places" if n_places > 1 else f"{here} ended at one place"
        if n_places > 1:
            text += f", the next has {self[self.places.index(2)].value:.6g}"
        cut = self.places.count(0)
        return text + (f"; {cut} cut short" if cut else "")

    def _rows(self) -> list[tuple[str, ...]]:
        """Header and rows; without the swarms, if the searches are not such."""
        rows: list[tuple[str, ...]] = [_HEADER]
        rows += [
            (
                str(number),
                one.kind,
                str(one.n_particles),
                str(one.evaluations),
                f"{one.value:.6g}" if order.is_feasible(one.value) else "infeasible",
                one.ending,
                str(place) if place else "",
            )
            for number, (one, place) in enumerate(zip(self, self.places, strict=True), 1)
        ]
        has_swarms = any(one.n_particles > 1 for one in self)
        return rows if has_swarms else [(row[0], *row[3:]) for row in rows]

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        is_text = [name in ("kind", "ended") for name in rows[0]]
        lines = [
            "  ".join(
                cell.ljust(width) if left else cell.rjust(width)
                for cell, width, left in zip(row, widths, is_text, strict=True)
            )
            for row in rows
        ]
        return "\n".join(line.rstrip() for line in lines)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        header, *rows = self._rows()
        return block("", table(rows, header))
