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

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from paoswarm.core.arrays import Array, Floats, namespace
from paoswarm.core.random import Seed, generator

# The share of a velocity into the clipping wall that bounces back. It is not zero because a swarm whose bests all lie
# on a wall has no noise there: only a velocity can take it off the wall. On the 8-D sphere with its optimum 1 % inside
# the wall, about 5 % of runs stick at a restitution of 0, and none of 400 at 0.1. It is not large because optima on the
# wall itself are common.
RESTITUTION = 0.1
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
_FAR = 9.0  # standard deviations; a Gaussian has 2e-19 of its mass beyond
_WIDE = 8.0  # box widths; a Gaussian with this standard deviation, folded or wrapped, is uniform to 1e-130


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


class WalledNormal(NamedTuple):
    """``N(mean, sd**2)`` after a wall rule, element-wise."""

    mean: Floats
    sd: Floats
    wall: Wall
    lower: Floats
    upper: Floats

    @np.errstate(under="ignore")
    def log_density(self, x: Floats) -> Floats:
        """Return the log density at ``x``; at an atom, the log probability."""
        x, law = np.asarray(x, dtype=float), self.tame()
        sd = np.where(law.sd > 0, law.sd, 1.0)
        with np.errstate(over="ignore"):
            total: Floats = np.full(np.broadcast_shapes(x.shape, sd.shape, np.shape(law.mean)), -np.inf)
            for sign, offset in law.images():
                standard = (sign * x + offset - law.mean) / sd
                total = np.logaddexp(total, -0.5 * standard * standard - np.log(sd) - _LOG_ROOT_2PI)
        if law.wall.is_bounded:
            total = np.where((x < law.lower) | (x > law.upper), -np.inf, total)
        if law.wall.has_atoms:
            total = np.where(x == law.lower, log_ndtr((law.lower - law.mean) / sd), total)
            total = np.where(x == law.upper, log_ndtr((law.mean - law.upper) / sd), total)
        return np.where(law.sd > 0, total, np.where(x == law._still(), 0.0, -np.inf))

    @np.errstate(under="ignore")
    def cdf(self, x: Floats) -> Floats:
        """Return the probability of a position at or below ``x``."""
        x, law = np.asarray(x, dtype=float), self.tame()
        sd = np.where(law.sd > 0, law.sd, 1.0)
        if not law.wall.is_bounded:
            total: Any = ndtr((x - law.mean) / sd)
        else:
            inside = np.clip(x, law.lower, law.upper)
            total = ndtr((law.lower - law.mean) / sd) if law.wall.has_atoms else 0.0
            for sign, offset in law.images():
                ends = ((sign * end + offset - law.mean) / sd for end in (inside, law.lower))
                total = total + sign * (ndtr(next(ends)) - ndtr(next(ends)))
            total = np.where(x < law.lower, 0.0, np.where(x >= law.upper, 1.0, total))
        return np.where(law.sd > 0, total, x >= law._still())

    @np.errstate(under="ignore")
    def moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of the position after the wall."""
        if not self.wall.is_bounded:
            return np.asarray(self.mean, dtype=float), np.square(self.sd)
        law = self.tame()
        mean = law._expect(np.zeros_like(law.mean), 1)
        variance = np.maximum(law._expect(mean, 2), 0.0)
        still = self._still()
        return np.where(self.sd > 0, mean, still), np.where(self.sd > 0, variance, 0.0)

    def sample(self, rng: Seed = None, size: int | tuple[int, ...] = ()) -> Floats:
        """Draw positions, ``(*size, *shape of the law)``."""
        size = (size,) if isinstance(size, int) else size
        shape = np.broadcast_shapes(np.shape(self.mean), np.shape(self.sd))
        free = self.mean + self.sd * generator(rng).standard_normal((*size, *shape))
        position: Floats = self.wall.apply(free, np.zeros_like(free), self.lower, self.upper)[0]
        return position

    def tame(self) -> WalledNormal:
        """Return an equivalent law that needs few images: mean inside the box, width at most `_WIDE` boxes."""
        if self.wall.has_atoms or not self.wall.is_bounded:
            return self
        return self._replace(mean=self._still(), sd=np.minimum(self.sd, _WIDE * (self.upper - self.lower)))

    def images(self) -> list[tuple[int, Floats]]:
        """Return the images of the box that a `tame` law reaches."""
        reach = math.ceil(_FAR * np.max(self.sd / (self.upper - self.lower), initial=0.0)) + 1
        return list(self.wall.images(self.lower, self.upper, reach))

    def _expect(self, centre: Floats, power: int) -> Floats:
        """Expectation of ``(x - centre)**power``, power 1 or 2: a sum of truncated Gaussian moments."""
        sd = np.where(self.sd > 0, self.sd, 1.0)
        total: Any = 0.0
        for sign, offset in self.images():
            first, last = (self.lower, self.upper) if sign > 0 else (self.upper, self.lower)
            a, b = ((sign * end + offset - self.mean) / sd for end in (first, last))
            pa, pb = (np.exp(-0.5 * t * t - _LOG_ROOT_2PI) for t in (a, b))
            m0, m1 = np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a)), pa - pb  # avoids cancellation in a tail
            shift = self.mean - offset - sign * centre  # sign * (x - centre) = shift + sd * t
            if power == 1:
                total = total + sign * (shift * m0 + sd * m1)
            else:
                m2 = m0 + a * pa - b * pb
                total = total + shift * shift * m0 + 2 * shift * sd * m1 + sd * sd * m2
        if self.wall.has_atoms:
            total = total + (self.lower - centre) ** power * ndtr((self.lower - self.mean) / sd)
            total = total + (self.upper - centre) ** power * ndtr((self.mean - self.upper) / sd)
        result: Floats = total
        return result

    def _still(self) -> Floats:
        """Position of a particle without noise."""
        mean = np.asarray(self.mean, dtype=float)
        still: Floats = self.wall.apply(mean, np.zeros_like(mean), self.lower, self.upper)[0]
        return still


class Axes(NamedTuple):
    """What the coordinates of a swarm stand for, where they are not plain numbers between two walls.

    - A *round* coordinate has no walls: both bounds are the same point.
    - A *whole* coordinate is rounded where it is evaluated. Its bounds lie half a unit outside the first and the last
      whole number, so that all of them are equally wide.
    - A *choice* has one coordinate in [0, 1] for each entry; the largest is chosen. The corners of the unit cube stand
      for the entries, and no two of them are nearer than others.

    Particles move between whole numbers and between corners. The bests that they remember are *snapped*: they lie
    exactly on the whole number or the corner that was evaluated.

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
            return self.wrapped(x, inside, lower, upper), np.where(is_round, v, bounced)

        def unroll(x: Array, around: Array, lower: Array, upper: Array) -> Array:
            others = x if rule.unroll is None else rule.unroll(x, around, lower, upper)
            return np.where(is_round, _nearest_image(x, around, lower, upper), others)

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
