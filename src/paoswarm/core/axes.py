"""What the coordinates of a swarm stand for, where they are not plain numbers between two walls.

- A *round* coordinate has no walls: both bounds are the same point.
- A *whole* coordinate is rounded where it is evaluated. Its bounds lie half a unit outside the first and the last whole
  number, so that all of them are equally wide.
- A *choice* has one coordinate in [0, 1] for each entry; the largest is chosen. The corners of the unit cube stand for
  the entries, and no two of them are nearer than others.

Particles move between whole numbers and between corners. The bests that they remember are *snapped*: they lie exactly
on the whole number or the corner that was evaluated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Array, Floats
from paoswarm.core.walls import Wall, periodic


class Axes(NamedTuple):
    """The kinds of coordinates.

    Attributes
    ----------
    is_round, is_whole : array (d,) of bool
    choices : tuple of (int, int)
        First coordinate of every choice, and the one after its last.
    """

    is_round: NDArray[np.bool_]
    is_whole: NDArray[np.bool_]
    choices: tuple[tuple[int, int], ...] = ()

    @property
    def is_continuous(self) -> NDArray[np.bool_]:
        """Which coordinates may take any value, ``(d,)``."""
        free = ~self.is_whole
        for first, last in self.choices:
            free[first:last] = False
        return free

    def snapped(self, x: Array, lower: Array, upper: Array) -> Array:
        """Points ``(..., d)`` at the whole numbers and corners that they stand for."""
        snapped: Floats = x
        if self.is_whole.any():
            snapped = np.where(self.is_whole, np.clip(np.floor(x + 0.5), lower + 0.5, upper - 0.5), x)
        if self.choices:
            snapped = snapped.copy() if snapped is x else snapped
            for first, last in self.choices:
                chosen = np.argmax(x[..., first:last], axis=-1)
                snapped[..., first:last] = np.arange(last - first) == chosen[..., None]
        return snapped

    def wall(self, rule: Wall) -> Wall:
        """A rule for particles that leave the bounds, with round coordinates wrapped instead.

        It moves particles. The laws of their positions (``images``) are those of the rule given.
        """
        if not self.is_round.any():
            return rule
        is_round = self.is_round

        def apply(x: Array, v: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
            inside, bounced = rule.apply(x, v, lower, upper)
            wrapped, _ = periodic.apply(x, v, lower, upper)
            return np.where(is_round, wrapped, inside), np.where(is_round, v, bounced)

        def unroll(x: Array, around: Array, lower: Array, upper: Array) -> Array:
            return np.where(is_round, _nearest(x, around, lower, upper), _near(rule, x, around, lower, upper))

        return rule._replace(apply=apply, unroll=unroll)

    def wrapped(self, x: Floats, inside: Floats, lower: Floats, upper: Floats) -> Floats:
        """Points ``inside`` the bounds, but ``x`` wrapped along round coordinates."""
        if not self.is_round.any():
            return inside
        return np.where(self.is_round, periodic.apply(x, x, lower, upper)[0], inside)

    def unrolled(self, x: Floats, around: Floats, width: Any) -> Floats:
        """Points with round coordinates, of period ``width``, at the image nearest to ``around``."""
        if not self.is_round.any():
            return x
        return np.where(self.is_round, x - width * np.round((x - around) / width), x)


def _nearest(x: Array, around: Array, lower: Array, upper: Array) -> Array:
    assert periodic.unroll is not None
    return periodic.unroll(x, around, lower, upper)


def _near(rule: Wall, x: Array, around: Array, lower: Array, upper: Array) -> Array:
    return x if rule.unroll is None else rule.unroll(x, around, lower, upper)
