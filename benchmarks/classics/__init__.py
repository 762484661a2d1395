"""Classic test functions with known minima, of 2 to 10 unknowns, written from the literature.

Halves: in the order of their names and numbers of unknowns, the first, third, fifth ... are for *tuning*, the others
are *held out*: no choice about the search was made with them.
"""

from __future__ import annotations

from classics import any_size_many_minima, any_size_valleys, fits, several_unknowns, two_many_minima, two_valleys
from classics.problem import FOUND, Classic

__all__ = ["CLASSICS", "HELD_OUT", "TUNING", "Classic"]

CLASSICS: list[Classic] = sorted(FOUND, key=lambda one: (one.name, one.dim))
TUNING, HELD_OUT = CLASSICS[::2], CLASSICS[1::2]
_MODULES = (
    any_size_many_minima,
    any_size_valleys,
    fits,
    several_unknowns,
    two_many_minima,
    two_valleys,
)  # they collect
