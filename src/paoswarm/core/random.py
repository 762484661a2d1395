"""Random numbers: one stream per run, so that a run is the same alone and in a batch.

Normal deviates are half of the time of a small swarm when drawn by NumPy's ziggurat. Here they are Box-Muller
pairs in single precision on raw 64-bit words, for which NumPy has vectorised log, sine and cosine. They reach
6.8 standard deviations and have a resolution of 1e-6: ample for shaking particles, whose positions
remain double precision throughout.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Deviates = NDArray[np.floating]
Seed = int | np.random.Generator | np.random.SeedSequence | None

_TO_UNIT = np.float32(2.0**-32)
_HALF_STEP = np.float32(2.0**-33)  # keeps the logarithm away from zero
_AHEAD = 32768  # small arrays of deviates are drawn several at a time, up to so many
_TO_ANGLE = np.float32(2.0 * math.pi * 2.0**-32)


def check_seed(rng: Any) -> None:
    """Raise for anything that is not one seed."""
    if isinstance(rng, int | np.integer) and rng < 0:
        raise ValueError(f"rng must not be negative, got {rng!r}")
    if rng is None or isinstance(rng, int | np.integer | np.random.Generator | np.random.SeedSequence):
        return
    raise TypeError(f"rng must be an int, a numpy.random.Generator, a SeedSequence or None, got {type(rng).__name__}")


def generator(rng: Seed) -> np.random.Generator:
    """The generator behind ``rng=``; a Generator is used as it is and moves on."""
    check_seed(rng)
    return np.random.default_rng(_fresh(rng) if isinstance(rng, np.random.SeedSequence) else rng)


def spawn(rng: Seed, runs: int) -> list[np.random.SeedSequence]:
    """One independent seed per run; seed ``r`` alone gives the same run as in the batch."""
    if isinstance(rng, np.random.SeedSequence):
        return _fresh(rng).spawn(runs)
    source = generator(rng)
    seeds: Any = source.bit_generator.seed_seq
    if not hasattr(seeds, "spawn"):  # a bit generator that was set up by key or state
        seeds = np.random.SeedSequence(source.integers(0, 2**32, size=8).tolist())
    return list(seeds.spawn(runs))


def _fresh(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    """A copy that has not spawned: a SeedSequence counts its children, and the same seed must give the same run."""
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key, pool_size=seed.pool_size)


class Draw:
    """Random arrays for one run, ``batch=()``, or for a batch of runs with one stream each.

    Parameters
    ----------
    generators : list of numpy.random.Generator
        One per run. Normal deviates of each shape come from a stream of their own, seeded from it: so how many of them
        are drawn ahead changes no number, and a run does not depend on its company.
    batch : tuple of int
        ``()`` for a single run without a batch axis, otherwise ``(len(generators),)``.
    """

    def __init__(self, generators: list[np.random.Generator], batch: tuple[int, ...]) -> None:
        if math.prod(batch) != len(generators):
            raise ValueError(f"{len(generators)} generators do not fill a batch of shape {batch}")
        self.generators = generators
        self.batch = batch
        self._entropy = [g.integers(0, 2**32, size=4, dtype=np.uint32).tolist() for g in generators]
        self._streams: dict[tuple[int, ...], list[np.random.SFC64]] = {}
        self._stock: dict[tuple[int, ...], list[Deviates]] = {}
        self._alone: list[Draw] = []

    def alone(self, r: int) -> Draw:
        """The source of run ``r``, which gives what it would give if there were no others."""
        if not self._alone:
            for source, words in zip(self.generators, self._entropy, strict=True):
                one = copy.copy(self)
                one.generators, one.batch, one._entropy = [source], (), [words]
                one._streams, one._stock = {}, {}
                self._alone.append(one)
        return self._alone[r]

    def normal(self, *shape: int, single: bool = False) -> Deviates:
        """Standard normal deviates of shape ``(*batch, *shape)``.

        With ``single`` they may come in single precision, the same numbers at less cost, for callers that at once
        multiply them with arrays in double precision: anything else would round differently in large batches.
        """
        stock = self._stock.get(shape)
        if not stock:
            _check_shape(shape)
            if shape not in self._streams:
                self._streams[shape] = [np.random.SFC64([*words, *shape]) for words in self._entropy]
            size = math.prod(shape)
            ahead = max(1, _AHEAD // max(1, size * len(self.generators)))
            many = _box_muller(self._streams[shape], ahead, size)
            many = many.swapaxes(0, 1)
            if ahead > 1:  # small enough to be converted once; the numbers are the same
                many = many.astype(np.float64, order="C")
            stock = [part.reshape((*self.batch, *shape)) for part in many[::-1]]
            self._stock[shape] = stock
        deviates = stock.pop()
        return deviates if single else deviates.astype(np.float64, copy=False)

    def uniform(self, *shape: int) -> Deviates:
        """Uniform deviates on [0, 1) of shape ``(*batch, *shape)``."""
        _check_shape(shape)
        return np.stack([g.random(shape) for g in self.generators]).reshape((*self.batch, *shape))


def _check_shape(shape: tuple[Any, ...]) -> None:
    if not all(isinstance(length, int | np.integer) for length in shape):
        raise TypeError(f"deviates are drawn by lengths, draw.normal(n, d) for example, not by {shape!r}")


def _box_muller(sources: Sequence[np.random.BitGenerator], ahead: int, size: int) -> Deviates:
    """``(runs, ahead, size)`` normal deviates."""
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
    """Raw words ``(runs, count)``."""
    if len(sources) == 1:
        return sources[0].random_raw(count).reshape(1, count)
    return np.stack([source.random_raw(count) for source in sources])
