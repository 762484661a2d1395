r"""Wall rules: what happens to a particle that leaves the box, and to the law of its position.

Every rule is piecewise affine in the position. The law after the wall is therefore a sum over *images*: the points
:math:`z = \pm x + c` outside or inside the box that the rule moves to :math:`x`. Each rule defines its images here;
densities, distribution functions and moments are sums over them.

========== ============================= =============================== ==============================
rule       position                      velocity                        law of the position
========== ============================= =============================== ==============================
clip       nearest point of the box      into the wall: a tenth bounces  censored: an atom on each wall
                                         back; otherwise unchanged
reflect    mirrored until inside         flips with each reflection      folded
periodic   wrapped around                unchanged                       wrapped
none       unchanged                     unchanged                       Gaussian
========== ============================= =============================== ==============================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Array, namespace

# The share of a velocity into the clipping wall that bounces back. It is not zero because a swarm whose bests all lie
# on a wall has no noise there: only a velocity can take it off the wall. On the 8-D sphere with its optimum 1 % inside
# the wall, about 5 % of runs stick at a restitution of 0, and none of 400 at 0.1. It is not large because optima on the
# wall itself are common.
RESTITUTION = 0.1


class Wall(NamedTuple):
    """A rule for particles that leave the box.

    Attributes
    ----------
    name : str
    apply : callable
        ``(position, velocity, lower, upper) -> (position, velocity)``.
    images : callable
        ``(lower, upper, reach) -> iterator of (sign, offset)``: the rule moves the position ``sign * x + offset``
        to ``x``, and turns the velocity ``sign * v`` into ``v``. Covers copies of the box up to ``reach`` boxes away.
    has_atoms : bool
        Whether a particle ends exactly on a wall with positive probability.
    is_bounded : bool
        Whether particles stay in the box.
    unroll : callable or None
        ``(position, around, lower, upper) -> position``: the periodic image nearest to ``around``. None if the walls
        are not periodic.
    """

    name: str
    apply: Callable[[Array, Array, Array, Array], tuple[Array, Array]]
    images: Callable[[Array, Array, int], Iterator[tuple[int, Array]]]
    has_atoms: bool
    is_bounded: bool
    unroll: Callable[[Array, Array, Array, Array], Array] | None = None


def _clip(x: Array, v: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    xp = namespace(x)
    inside = xp.minimum(xp.maximum(x, lower), upper)  # faster than xp.clip on small arrays
    return inside, _where_rare(inside != x, _bounced, v, x, inside)


def _bounced(v: Array, x: Array, inside: Array) -> Array:
    """Reverse and damp a velocity into the wall; keep one that points away from it."""
    xp = namespace(v)
    return xp.where((x - inside) * v > 0, -RESTITUTION * v, v)


def _where_rare(mask: Array, function: Callable[..., Array], first: Array, *others: Array) -> Array:
    """Return ``function(first, *others)`` where the mask is true, else ``first``; for masks that are rarely true.

    With NumPy the function sees only the few selected elements. Array libraries that trace need fixed shapes, so there
    it sees all of them.
    """
    if not isinstance(mask, np.ndarray):
        return namespace(mask).where(mask, function(first, *others), first)
    rare = mask.reshape(-1).nonzero()[0]
    if rare.size == 0:
        return first
    result = first.copy()
    result.put(rare, function(*(array.take(rare) for array in (first, *others))))
    return result


def _reflect(x: Array, v: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    xp = namespace(x)
    width = upper - lower
    unrolled = xp.remainder(x - lower, 2 * width)
    mirrored = unrolled > width
    folded = xp.clip(lower + xp.where(mirrored, 2 * width - unrolled, unrolled), lower, upper)
    outside = (x < lower) | (x > upper)  # a position inside must not change by rounding
    return xp.where(outside, folded, x), xp.where(outside & mirrored, -v, v)


def _periodic(x: Array, v: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    xp = namespace(x)
    wrapped = xp.clip(lower + xp.remainder(x - lower, upper - lower), lower, upper)
    return xp.where((x < lower) | (x > upper), wrapped, x), v


def _nearest_image(x: Array, around: Array, lower: Array, upper: Array) -> Array:
    xp = namespace(x)
    width = upper - lower
    return x - width * xp.round((x - around) / width)


def _free(x: Array, v: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    return x, v


def _only_itself(lower: Array, upper: Array, reach: int) -> Iterator[tuple[int, Array]]:
    yield 1, 0.0 * lower


def _mirror_images(lower: Array, upper: Array, reach: int) -> Iterator[tuple[int, Array]]:
    for cell in range(-reach, reach + 1):  # copies of the box side by side; every other one is mirrored
        if cell % 2 == 0:
            yield 1, cell * (upper - lower)
        else:
            yield -1, 2 * lower + (cell + 1) * (upper - lower)


def _wrapped_images(lower: Array, upper: Array, reach: int) -> Iterator[tuple[int, Array]]:
    for k in range(-reach, reach + 1):
        yield 1, k * (upper - lower)


clip = Wall("clip", _clip, _only_itself, has_atoms=True, is_bounded=True)
reflect = Wall("reflect", _reflect, _mirror_images, has_atoms=False, is_bounded=True)
periodic = Wall("periodic", _periodic, _wrapped_images, has_atoms=False, is_bounded=True, unroll=_nearest_image)
none = Wall("none", _free, _only_itself, has_atoms=False, is_bounded=False)

WALLS = {wall.name: wall for wall in (clip, reflect, periodic, none)}
