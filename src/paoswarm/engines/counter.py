r"""The random numbers of compiled engines, as a function of where they are used.

The two deviates of a run, a generation, a particle and an unknown follow from these four numbers and the seed alone.
So a run does not depend on its company, on the launch geometry, or on how many devices share the work.
This file fixes the mapping. Every engine writes it in its own language; this one, in NumPy, is the reference.

One block of Philox2x32-10 (Salmon and others 2011) belongs to one element. With the run's key :math:`(k_0, k_1)`,
:math:`h` the finaliser of MurmurHash3 and :math:`e = i\,d + j` for particle :math:`i` and unknown :math:`j`,

.. math::

    (w_0, w_1) = \text{Philox}\bigl(\text{counter} = (e, k_0),\ \text{key} = h(k_1 + h(t))\bigr) \tag{E1}

.. math::

    u = 2^{-31} \lfloor w_0 / 2 \rfloor + 2^{-32}, \quad r = \sqrt{-2 \ln u}, \quad
    D_1 = r \cos(2\pi\,2^{-32} w_1), \quad D_2 = r \sin(2\pi\,2^{-32} w_1) \tag{E2}

in single precision, so deviates reach 6.7 standard deviations. Generation :math:`t = 0` is the first swarm, a Latin
hypercube: unknown :math:`j` of particle :math:`i` lies in stratum :math:`\pi_j(i)` of :math:`n`, at the place
:math:`2^{-32} w_0` in it. The permutation :math:`\pi_j` is a Feistel cipher, so it needs no sorting (E3).

An adaptive run consists of searches. Search :math:`s`, counted from zero, has a key of its own,

.. math:: \bigl(k_0,\ h(k_1 \oplus h(s + 1))\bigr) \tag{E4}

and its generation :math:`t` uses the words (E1) of four "generations", :math:`4t` to :math:`4t + 3` (E5):

- :math:`4t`, normal deviates of elements: all :math:`D_1` of :math:`\lceil nd/2 \rceil` blocks, then all :math:`D_2`.
- :math:`4t + 1`, uniform ones in the same order, :math:`2^{-32} w_0` and :math:`2^{-32} w_1`.
- :math:`4t + 2`, numbers of particles. Particle :math:`i` has the blocks :math:`4i` (period, leader), :math:`4i + 1`
  (other, third), :math:`4i + 2` (the element that always moves) and :math:`4i + 3`, whose :math:`D_1` is for its rate.
- :math:`4t + 3`, tries of time steps: :math:`w_0` of the blocks :math:`8i` to :math:`8i + 7`.

The words of "generation" 1 say how a search begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats

Words = NDArray[np.uint32]

PHILOX = 0xD256D193  # multiplier
WEYL = 0x9E3779B9  # added to the key in every round
ROUNDS = 10
SHUFFLE = 0xFFFFFFFF  # the "generation" whose words are the keys of permutations
FEISTEL_ROUNDS = 8  # with fewer, permutations of less than 20 numbers are not uniform
TRIES = 8  # words for the time step of a particle
_LOW = np.uint64(0xFFFFFFFF)


def run_keys(seed: np.random.SeedSequence, runs: int) -> Words:
    """Keys ``(runs, 2)`` of runs, those of the children of a seed: child ``r`` has the key of `run_key`."""
    parent = int(seed.generate_state(1, np.uint64)[0])
    return _split(_children(parent, np.arange(runs, dtype=np.uint64)))


def run_key(seed: np.random.SeedSequence) -> Words:
    """The key ``(2,)`` of one run. A child of a seed has the key that it has among its parent's children."""
    if not seed.spawn_key:
        return _split(seed.generate_state(1, np.uint64).astype(np.uint64))[0]
    parent = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key[:-1], pool_size=seed.pool_size)
    number = np.array([seed.spawn_key[-1]], dtype=np.uint64)
    return _split(_children(int(parent.generate_state(1, np.uint64)[0]), number))[0]


def _children(parent: int, number: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of SplitMix64: different numbers give different keys."""
    with np.errstate(over="ignore"):
        z = np.uint64(parent) + (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _split(keys: NDArray[np.uint64]) -> Words:
    return np.stack([keys & _LOW, keys >> np.uint64(32)], axis=-1).astype(np.uint32)


def hashed(word: Any) -> Words:
    """The finaliser of MurmurHash3: every bit of the result depends on every bit of the word."""
    h = np.asarray(word, dtype=np.uint32)
    with np.errstate(over="ignore"):
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        return h ^ (h >> np.uint32(16))


def words(key: Words, generation: int, count: int) -> tuple[Words, Words]:
    """The two words (E1) of elements 0 to ``count - 1`` of runs with keys ``(..., 2)``; each ``(..., count)``."""
    with np.errstate(over="ignore"):
        mixed = hashed(key[..., 1] + hashed(generation))[..., None]
    return philox(np.arange(count, dtype=np.uint32), key[..., :1], mixed)


def philox(low: Words, high: Words, key: Words) -> tuple[Words, Words]:
    """Philox2x32-10 of counters ``(low, high)``."""
    left, right, mixed = (np.asarray(word, dtype=np.uint64) for word in np.broadcast_arrays(low, high, key))
    for _ in range(ROUNDS):
        product = left * np.uint64(PHILOX)
        left, right = (product >> np.uint64(32)) ^ mixed ^ right, product & _LOW
        mixed = (mixed + np.uint64(WEYL)) & _LOW
    return left.astype(np.uint32), right.astype(np.uint32)


def normals(key: Words, generation: int, n: int, d: int) -> Floats:
    """The deviates (E2) of runs with keys ``(..., 2)``: an array ``(..., 2, n, d)``."""
    first, second = words(key, generation, n * d)
    u = (first >> np.uint32(1)).astype(np.float32) * np.float32(2.0**-31) + np.float32(2.0**-32)
    radius, angle = np.sqrt(-2 * np.log(u.astype(float))), second * (2 * np.pi * 2.0**-32)
    pair = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-2)
    return pair.reshape(*pair.shape[:-1], n, d)


def first_points(key: Words, n: int, lower: Floats, upper: Floats) -> Floats:
    """The first points of runs with keys ``(..., 2)``, a Latin hypercube ``(..., n, d)`` (E3)."""
    d = len(lower)
    place = words(key, 0, n * d)[0].reshape(*key.shape[:-1], n, d) * 2.0**-32
    a, b = words(key, SHUFFLE, d)
    strata = permuted(np.arange(n, dtype=np.uint32)[:, None], n, a[..., None, :], b[..., None, :])
    return np.minimum(lower + (upper - lower) * ((strata + place) / n), upper)


def permuted(number: Words, n: int, a: Words, b: Words) -> Words:
    r"""A permutation of 0 to n - 1 with the key ``(a, b)``.

    A Feistel cipher permutes the pairs of two halves of :math:`\lceil \frac12 \log_2 n \rceil` bits,
    :math:`(x, y) \to (y, x \oplus h(y + a + c\,b))` in round :math:`c`. It is repeated while the result is not below n.
    """
    half = np.uint32(half_bits(n))
    mask = np.uint32((1 << int(half)) - 1)
    number, a, b = (np.array(part, dtype=np.uint32) for part in np.broadcast_arrays(number, a, b))
    outside = np.ones(number.shape, dtype=bool)
    with np.errstate(over="ignore"):
        while outside.any():
            x, y = number >> half, number & mask
            for c in range(FEISTEL_ROUNDS):
                x, y = y, x ^ (hashed(y + a + np.uint32(c) * b) & mask)
            number = np.where(outside, (x << half) | y, number)
            outside = number >= n
    return number


def half_bits(n: int) -> int:
    """Bits of half a number below ``n`` in the Feistel cipher, at least one."""
    return max(1, (max(n - 1, 1).bit_length() + 1) // 2)


def search_key(key: Words, search: int) -> Words:
    """The key (E4) of a search of runs with keys ``(..., 2)``."""
    return np.stack([key[..., 0], hashed(key[..., 1] ^ hashed(search + 1))], axis=-1)


def chances(key: Words) -> Floats:
    """Two uniform numbers that say how the search with this key begins."""
    return _uniform(np.concatenate(words(key, 1, 1)))


def search_uniforms(key: Words, generation: int, n: int, d: int) -> Floats:
    """The uniform deviates ``(n, d)`` of a generation of the search with this key (E5)."""
    pairs = np.concatenate(words(key, 4 * generation + 1, -(-n * d // 2)))
    return _uniform(pairs[: n * d].reshape(n, d))


def particle_numbers(key: Words, generation: int, n: int) -> dict[str, Floats]:
    """The random numbers of the particles of an element-wise swarm, by what they are for (E5)."""
    first, second = (_uniform(part.reshape(n, 4)) for part in words(key, 4 * generation + 2, 4 * n))
    return {
        "period": first[:, 0],
        "leader": second[:, 0],
        "other": first[:, 1],
        "third": second[:, 1],
        "always": first[:, 2],
        "rate": normals(key, 4 * generation + 2, 4 * n, 1)[0].reshape(n, 4)[:, 3],
        "steps": _uniform(words(key, 4 * generation + 3, TRIES * n)[0].reshape(n, TRIES).T),
    }


def _uniform(word: Words) -> Floats:
    """Words as numbers from zero to one."""
    return word.astype(np.float64) * 2.0**-32
