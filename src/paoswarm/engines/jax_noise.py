"""The random numbers of `paoswarm.engines.counter` for JAX: elementwise, so that XLA fuses them with the step.

In single precision, logarithm, sine and cosine are short polynomials: about as accurate as those of the library, and
faster on a processor (twice) and on a GPU (a tenth of a whole generation).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.polynomial import Chebyshev, Polynomial

from paoswarm.engines import counter

Array = Any
_IS_SHARED: ContextVar[bool] = ContextVar("_IS_SHARED", default=False)
_TURN = np.float32(2 * np.pi * 2.0**-32)
_ROOT_HALF, _MANTISSA = 0x3F3504F3, 0x7FFFFF  # the bits of sqrt(1/2), and those of a fraction
# ln(1 + f) / f for 1 + f between sqrt(1/2) and sqrt(2)
_SERIES = Chebyshev.interpolate(lambda f: np.log1p(f) / f, 9, [np.sqrt(0.5) - 1, np.sqrt(2) - 1])
_LOGARITHM: list[float] = _SERIES.convert(kind=Polynomial, domain=[-1, 1]).coef.tolist()
_SINE = [(-1) ** i / math.factorial(2 * i + 1) for i in range(5)]
_COSINE = [(-1) ** i / math.factorial(2 * i) for i in range(5)]


def hashed(word: Array) -> Array:
    """The finaliser of MurmurHash3."""
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)


def philox(low: Array, high: Array, key: Array) -> tuple[Array, Array]:
    """Philox2x32-10 of counters ``(low, high)``."""
    low, high, key = jnp.broadcast_arrays(low, high, key)
    for _ in range(counter.ROUNDS):
        low, high = _upper_word(low, counter.PHILOX) ^ key ^ high, low * jnp.uint32(counter.PHILOX)
        key = key + jnp.uint32(counter.WEYL)
    return low, high


@contextmanager
def for_several_devices() -> Iterator[None]:
    """Trace functions so that they can be shared by devices: XLA cannot share `lax.mulhi`."""
    token = _IS_SHARED.set(True)
    try:
        yield
    finally:
        _IS_SHARED.reset(token)


def _upper_word(word: Array, factor: int) -> Array:
    """The upper 32 bits of a product of 64."""
    if not _IS_SHARED.get():
        return lax.mulhi(word, jnp.full(word.shape, factor, dtype=jnp.uint32))
    half, left, right = jnp.uint32(0xFFFF), jnp.uint32(factor >> 16), jnp.uint32(factor & 0xFFFF)
    upper, lower = word >> 16, word & half
    middle = upper * right + ((lower * right) >> 16)
    return upper * left + (middle >> 16) + ((lower * left + (middle & half)) >> 16)


def words(keys: Array, generation: Array, count: int) -> tuple[Array, Array]:
    """The two words (E1) of the elements of runs with keys ``(runs, 2)``; each ``(runs, count)``."""
    element = lax.iota(jnp.uint32, count)[None, :]
    return philox(element, keys[:, :1], generation_keys(keys, generation)[:, None])


def generation_keys(keys: Array, generation: Array) -> Array:
    """The keys ``(..., runs)`` of the blocks of runs with keys ``(runs, 2)`` in generations ``(...)`` (E1)."""
    return hashed(keys[:, 1] + hashed(jnp.asarray(generation, dtype=jnp.uint32)[..., None]))


def normals(keys: Array, mixed: Array, n: int, d: int, dtype: Any) -> tuple[Array, Array]:
    """The two deviates (E2) of every element in a generation with `generation_keys` ``mixed``, each ``(runs, n, d)``.

    They stay apart: to join them in one array would keep XLA from fusing them into the step.
    """
    particle, unknown = lax.broadcasted_iota(jnp.uint32, (1, n, d), 1), lax.broadcasted_iota(jnp.uint32, (1, n, d), 2)
    element = particle * jnp.uint32(d) + unknown
    # Elements have less than 32 bits, so this adds nothing; but it keeps XLA from storing the keys of all ten rounds in
    # arrays of their own, which every element would have to read.
    mixed = mixed[:, None, None] ^ (element >> 31)
    first, second = philox(element, keys[:, 0, None, None], mixed)
    single = jnp.float32
    u = (first >> 1).astype(jnp.int32).astype(single) * single(2.0**-31) + single(2.0**-32)
    if dtype == np.float64:
        angle = second * (2 * np.pi * 2.0**-32)
        logarithm, cosine, sine = jnp.log(u.astype(dtype)), jnp.cos(angle), jnp.sin(angle)
    else:
        logarithm, (cosine, sine) = _logarithm(u), _cosine_and_sine(second)
    radius = jnp.sqrt(jnp.maximum(-2 * logarithm, 0))
    return radius * cosine, radius * sine


def _logarithm(u: Array) -> Array:
    r""":math:`\ln(2^p m) = p \ln 2 + \ln m` with m between :math:`\sqrt{1/2}` and :math:`\sqrt 2`."""
    shifted = lax.bitcast_convert_type(u, jnp.int32) - _ROOT_HALF
    f = lax.bitcast_convert_type((shifted & _MANTISSA) + _ROOT_HALF, jnp.float32) - jnp.float32(1)
    return (shifted >> 23).astype(jnp.float32) * jnp.float32(math.log(2)) + f * _polynomial(_LOGARITHM, f)


def _cosine_and_sine(word: Array) -> tuple[Array, Array]:
    """Of ``word`` parts of a turn with 2^32 of them: of what is left to a multiple of a quarter, then turned."""
    quarter = (word + jnp.uint32(0x20000000)) >> 30
    angle = lax.bitcast_convert_type(word - (quarter << 30), jnp.int32).astype(jnp.float32) * _TURN
    squared = angle * angle
    sine, cosine = angle * _polynomial(_SINE, squared), _polynomial(_COSINE, squared)
    is_odd = (quarter & 1) == 1
    along, across = jnp.where(is_odd, sine, cosine), jnp.where(is_odd, cosine, sine)
    return jnp.where(((quarter + 1) & 2) == 0, along, -along), jnp.where((quarter & 2) == 0, across, -across)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """With the coefficient of the lowest power first."""
    value = jnp.float32(coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * x + jnp.float32(c)
    return value


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
