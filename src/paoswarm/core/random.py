"""Random numbers: one stream per run, so that a run is the same alone and in a batch.

With NumPy's ziggurat method, normal deviates would take half the time of a small swarm. Here they are Box-Muller pairs
in single precision, made from raw 64-bit words, because NumPy vectorises log, sine and cosine. They reach 6.8 standard
deviations with a resolution of 1e-6. That is ample for noise; positions are in double precision throughout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Deviates = NDArray[np.floating]
Seed = int | np.random.Generator | np.random.SeedSequence | None

_TO_UNIT = np.float32(2.0**-32)
_HALF_STEP = np.float32(2.0**-33)  # keeps the logarithm away from zero
_AHEAD = 32768  # deviates drawn at once, if the requested arrays are smaller
_TO_ANGLE = np.float32(2.0 * math.pi * 2.0**-32)


def check_seed(rng: Any) -> None:
    """Raise unless ``rng`` is a valid seed."""
    if isinstance(rng, int | np.integer) and rng < 0:
        raise ValueError(f"rng must not be negative, got {rng!r}")
    if rng is None or isinstance(rng, int | np.integer | np.random.Generator | np.random.SeedSequence):
        return
    raise TypeError(f"rng must be an int, a numpy.random.Generator, a SeedSequence or None, got {type(rng).__name__}")


def generator(rng: Seed) -> np.random.Generator:
    """Return the generator for ``rng=``. A Generator is used directly, and its state advances."""
    check_seed(rng)
    return np.random.default_rng(_fresh(rng) if isinstance(rng, np.random.SeedSequence) else rng)


def spawn(rng: Seed, runs: int) -> list[np.random.SeedSequence]:
    """Return one independent seed per run; seed ``r`` gives the same run alone as in the batch."""
    if isinstance(rng, np.random.SeedSequence):
        return _fresh(rng).spawn(runs)
    source = generator(rng)
    seeds: Any = source.bit_generator.seed_seq
    if not hasattr(seeds, "spawn"):  # a bit generator created from a key or a state
        seeds = np.random.SeedSequence(source.integers(0, 2**32, size=8).tolist())
    return list(seeds.spawn(runs))


def _fresh(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    """Return a copy with no children yet: a SeedSequence counts them, and the same seed must give the same run."""
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)


def latin_hypercube(slices: NDArray[Any], inside: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points ``(n, d)`` of the unit cube, one in each of n slices of every axis.

    The columns of ``slices`` are permutations, and ``inside`` are uniform deviates.
    """
    points: NDArray[np.float64] = (slices + inside) / len(slices)
    return points


class Draw:
    """Random arrays for one run (``batch=()``) or for a batch of runs with one stream each.

    Parameters
    ----------
    generators : list of numpy.random.Generator
        One per run. Normal deviates of each shape have a stream of their own, seeded from the run's generator. So the
        numbers do not depend on how many are drawn ahead, nor on the other runs of the batch.
    batch : tuple of int
        ``()`` for a single run without a batch axis, otherwise ``(len(generators),)``.
    """

    def __init__(self, generators: list[np.random.Generator], batch: tuple[int, ...]) -> None:
        if math.prod(batch) != len(generators):
            raise ValueError(f"a batch of shape {batch} needs one generator per run, got {len(generators)}")
        self.generators = generators
        self.batch = batch
        self._entropy = [g.integers(0, 2**32, size=4, dtype=np.uint32).tolist() for g in generators]
        self._streams: dict[tuple[int, ...], list[np.random.SFC64]] = {}
        self._stock: dict[tuple[int, ...], list[Deviates]] = {}
        self._drawn: dict[tuple[int, ...], int] = {}

    def normal(self, *shape: int, single: bool = False) -> Deviates:
        """Return standard normal deviates of shape ``(*batch, *shape)``.

        With ``single`` they may be in single precision: the same numbers at less cost. Use it only if the next
        operation multiplies them by double-precision arrays; otherwise large batches would round differently from small
        ones.
        """
        stock = self._stock.get(shape)
        if not stock:
            _check_shape(shape)
            if shape not in self._streams:
                self._streams[shape] = [np.random.SFC64([*words, *shape]) for words in self._entropy]
            size = math.prod(shape)
            # As many as have been drawn: a shape that is asked for once leaves none over.
            ahead = max(1, min(self._drawn.get(shape, 0), _AHEAD // max(1, size * len(self.generators))))
            self._drawn[shape] = self._drawn.get(shape, 0) + ahead
            drawn = _box_muller(self._streams[shape], ahead, size).swapaxes(0, 1)
            if ahead > 1:  # small arrays: convert them all at once
                drawn = drawn.astype(np.float64, order="C")
            stock = [part.reshape((*self.batch, *shape)) for part in drawn[::-1]]
            self._stock[shape] = stock
        deviates = stock.pop()
        return deviates if single else deviates.astype(np.float64, copy=False)

    def uniform(self, *shape: int) -> Deviates:
        """Return uniform deviates on [0, 1) of shape ``(*batch, *shape)``."""
        _check_shape(shape)
        return np.stack([g.random(shape) for g in self.generators]).reshape((*self.batch, *shape))


def _check_shape(shape: tuple[Any, ...]) -> None:
    if not all(isinstance(length, int | np.integer) for length in shape):
        raise TypeError(f"give the lengths of the axes, draw.normal(n, d) for example, got {shape!r}")


def _box_muller(sources: Sequence[np.random.BitGenerator], ahead: int, size: int) -> Deviates:
    """Return normal deviates ``(runs, ahead, size)``."""
    pairs = (size + 1) // 2
    words = _words(sources, ahead * pairs).view(np.uint32).reshape(-1, ahead, 2, pairs)
    radius = words[:, :, 0].astype(np.float32)
    radius *= _TO_UNIT
    radius += _HALF_STEP
    np.log(radius, out=radius)
    radius *= np.float32(-2)
    np.sqrt(radius, out=radius)
    angle = words[:, :, 1].astype(np.float32)
    angle *= _TO_ANGLE
    out = np.empty((len(sources), ahead, 2, pairs), dtype=np.float32)
    np.multiply(np.cos(angle), radius, out=out[:, :, 0])
    np.multiply(np.sin(angle), radius, out=out[:, :, 1])
    return out.reshape(len(sources), ahead, 2 * pairs)[:, :, :size]


def _words(sources: Sequence[np.random.BitGenerator], count: int) -> NDArray[np.uint64]:
    """Return raw 64-bit words ``(runs, count)``."""
    if len(sources) == 1:
        return sources[0].random_raw(count).reshape(1, count)
    return np.stack([source.random_raw(count) for source in sources])
