"""The random numbers of `paoswarm.compiled.counter` for JAX: elementwise, so that XLA fuses them with the step."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from paoswarm.compiled import counter

Array = Any
_TURN = np.float32(2 * np.pi * 2.0**-32)


def hashed(word: Array) -> Array:
    """The finaliser of MurmurHash3."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)


def philox(low: Array, high: Array, key: Array) -> tuple[Array, Array]:
    """Philox2x32-10 of counters ``(low, high)``."""
    low, high, key = jnp.broadcast_arrays(low, high, key)
    multiplier = jnp.full(low.shape, counter.PHILOX, dtype=jnp.uint32)
    for _ in range(counter.ROUNDS):
        low, high = lax.mulhi(low, multiplier) ^ key ^ high, low * multiplier
        key = key + jnp.uint32(counter.WEYL)
    return low, high


def words(keys: Array, generation: Array, count: int) -> tuple[Array, Array]:
    """The two words (E1) of the elements of runs with keys ``(runs, 2)``; each ``(runs, count)``."""
    element = lax.iota(jnp.uint32, count)[None, :]
    mixed = hashed(keys[:, 1:] + hashed(jnp.asarray(generation, dtype=jnp.uint32)))
    return philox(element, keys[:, :1], mixed)


def normals(keys: Array, generation: Array, n: int, d: int, dtype: Any) -> tuple[Array, Array]:
    """The two deviates (E2) of every element in a generation, each ``(runs, n, d)``.

    They stay apart: to join them in one array would keep XLA from fusing them into the step.
    """
    particle, unknown = lax.broadcasted_iota(jnp.uint32, (1, n, d), 1), lax.broadcasted_iota(jnp.uint32, (1, n, d), 2)
    element = particle * jnp.uint32(d) + unknown
    mixed = hashed(keys[:, 1] + hashed(jnp.asarray(generation, dtype=jnp.uint32)))[:, None, None]
    # Elements have less than 32 bits, so this adds nothing; but it keeps XLA from storing the keys of all ten rounds in
    # arrays of their own, which every element would have to read.
    mixed = mixed ^ (element >> 31)
    first, second = philox(element, keys[:, 0, None, None], mixed)
    single = jnp.float32
    u = (first >> 1).astype(jnp.int32).astype(single) * single(2.0**-31) + single(2.0**-32)
    radius, angle = jnp.sqrt(single(-2) * jnp.log(u)), second.astype(jnp.int32).astype(single) * _TURN
    return (radius * jnp.cos(angle)).astype(dtype), (radius * jnp.sin(angle)).astype(dtype)


def first_points(keys: Array, n: int, lower: Array, upper: Array) -> Array:
    """The first points of runs with keys ``(runs, 2)``, a Latin hypercube ``(runs, n, d)`` (E3)."""
    d = len(lower)
    place = words(keys, 0, n * d)[0].reshape(-1, n, d).astype(lower.dtype) * lower.dtype.type(2.0**-32)
    a, b = words(keys, counter.SHUFFLE, d)
    strata = _permuted(lax.iota(jnp.uint32, n)[None, :, None], n, a[:, None, :], b[:, None, :])
    return jnp.minimum(lower + (upper - lower) * ((strata.astype(lower.dtype) + place) / n), upper)


def _permuted(number: Array, n: int, a: Array, b: Array) -> Array:
    half = counter.half_bits(n)
    mask = jnp.uint32((1 << half) - 1)
    number, a, b = jnp.broadcast_arrays(number, a, b)

    def once(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        number, outside = carry
        x, y = number >> half, number & mask
        for c in range(counter.FEISTEL_ROUNDS):
            x, y = y, x ^ (hashed(y + a + jnp.uint32(c) * b) & mask)
        number = jnp.where(outside, (x << half) | y, number)
        return number, number >= n

    found: Array = lax.while_loop(lambda carry: carry[1].any(), once, (number, jnp.ones(number.shape, dtype=bool)))[0]
    return found
