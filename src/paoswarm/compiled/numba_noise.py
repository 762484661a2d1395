"""The random numbers of `paoswarm.compiled.counter` for numba: loops that LLVM turns into vector instructions.

Elementary functions are short series, because calls into the C library cannot be vectorised. In single precision they
are as accurate as the library's.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from paoswarm.compiled import counter

_U32, _U64, _I32, _F32 = np.uint32, np.uint64, np.int32, np.float32
_PHILOX, _WEYL = _U64(counter.PHILOX), _U32(counter.WEYL)
_ROUNDS, _FEISTEL_ROUNDS = counter.ROUNDS, counter.FEISTEL_ROUNDS
_SHUFFLE = _U32(counter.SHUFFLE)
_LN2, _TURN = _F32(math.log(2)), _F32(2 * math.pi * 2.0**-32)
_ROOT_HALF = _I32(0x3F3504F3)  # the bits of sqrt(1/2)
_MANTISSA = _I32(0x7FFFFF)


@numba.njit(inline="always")
def hashed(word):
    """The finaliser of MurmurHash3."""
    word = _U32(_U32(word ^ (word >> _U32(16))) * _U32(0x85EBCA6B))
    word = _U32(_U32(word ^ (word >> _U32(13))) * _U32(0xC2B2AE35))
    return _U32(word ^ (word >> _U32(16)))


@numba.njit(inline="always")
def philox(low, high, key):
    """One block of Philox2x32-10."""
    for _ in range(_ROUNDS):
        product = _U64(low) * _PHILOX
        low, high = _U32(_U32(product >> _U64(32)) ^ key ^ high), _U32(product)
        key = _U32(key + _WEYL)
    return low, high


@numba.njit(inline="always")
def generation_key(key, generation):
    """The key of a run's blocks in a generation (E1)."""
    return hashed(_U32(key[1] + hashed(_U32(generation))))


@numba.njit(nogil=True, cache=True, error_model="numpy")
def normals(key, generation, first, second, d1, d2):
    """Fill ``d1, d2`` with the deviates (E2) of a run in a generation; ``first, second`` are space for words."""
    count = len(d1)
    mixed = generation_key(key, generation)
    for e in range(count):
        first[e], second[e] = philox(_U32(e), key[0], mixed)
    bits = d1.view(np.int32)
    for e in range(count):
        d1[e] = _F32(_I32(first[e] >> _U32(1))) * _F32(2.0**-31) + _F32(2.0**-32)
    for e in range(count):  # ln(2^p m) = p ln 2 + 2 atanh((m - 1) / (m + 1)) with m between sqrt(1/2) and sqrt(2)
        shifted = _I32(bits[e] - _ROOT_HALF)
        d2[e] = _F32(shifted >> _I32(23))
        bits[e] = _I32(shifted & _MANTISSA) + _ROOT_HALF
    for e in range(count):
        s = (d1[e] - _F32(1)) / (d1[e] + _F32(1))
        z = s * s
        series = _F32(1) + z * (_F32(1 / 3) + z * (_F32(1 / 5) + z * (_F32(1 / 7) + z * _F32(1 / 9))))
        logarithm = d2[e] * _LN2 + _F32(2) * s * series
        d1[e] = math.sqrt(max(_F32(-2) * logarithm, _F32(0)))
    for e in range(count):  # the angle to the nearest multiple of a quarter turn, and which one that is
        quarter = _U32(second[e] + _U32(0x20000000)) >> _U32(30)
        t = _F32(_I32(second[e] - _U32(quarter << _U32(30)))) * _TURN
        z = t * t
        sine = t * (_F32(1) - z * (_F32(1 / 6) - z * (_F32(1 / 120) - z * (_F32(1 / 5040) - z * _F32(1 / 362880)))))
        cosine = _F32(1) - z * (_F32(1 / 2) - z * (_F32(1 / 24) - z * (_F32(1 / 720) - z * _F32(1 / 40320))))
        is_odd = (quarter & _U32(1)) != _U32(0)
        along, across = (sine, cosine) if is_odd else (cosine, sine)
        along = -along if (_U32(quarter + _U32(1)) & _U32(2)) != _U32(0) else along
        across = -across if (quarter & _U32(2)) != _U32(0) else across
        radius = d1[e]
        d1[e], d2[e] = radius * along, radius * across


@numba.njit(nogil=True, cache=True, error_model="numpy")
def first_points(key, half, lower, upper, x):
    """Fill ``x`` (n, d) with the Latin hypercube of a run (E3); ``half`` are the bits of half a number."""
    n, d = x.shape
    shift, mask = _U32(half), _U32((1 << half) - 1)
    place_key, shuffle_key = generation_key(key, 0), generation_key(key, _SHUFFLE)
    for j in range(d):
        a, b = philox(_U32(j), key[0], shuffle_key)
        for i in range(n):
            number = _U32(i)
            while True:
                left, right = number >> shift, number & mask
                for c in range(_FEISTEL_ROUNDS):
                    mixed = hashed(_U32(right + a + _U32(_U32(c) * b))) & mask
                    left, right = right, left ^ mixed
                number = _U32(_U32(left << shift) | right)
                if number < n:
                    break
            place = philox(_U32(i * d + j), key[0], place_key)[0] * 2.0**-32
            x[i, j] = min(lower[j] + (upper[j] - lower[j]) * ((number + place) / n), upper[j])
