"""The random numbers of `paoswarm.engines.counter` for numba: loops that LLVM turns into vector instructions.

Elementary functions are short polynomials, because calls into the C library cannot be vectorised. They are as accurate
as single precision is.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numba
import numpy as np

from paoswarm.engines import counter
from paoswarm.engines.fast import shortened
from paoswarm.engines.numba_options import bits_of_single, inner_loops, loops, single_of_bits

_U32, _U64, _I32, _F32 = np.uint32, np.uint64, np.int32, np.float32
_PHILOX, _WEYL, _WORD = _U64(counter.PHILOX), _U32(counter.WEYL), _U64(0xFFFFFFFF)
_ROUNDS, _FEISTEL_ROUNDS = counter.ROUNDS, counter.FEISTEL_ROUNDS
_SHUFFLE = _U32(counter.SHUFFLE)
_MINUS_2_LN2, _TURN, _SIGN = _F32(-2 * math.log(2)), _F32(2 * math.pi * 2.0**-32), _U32(0x80000000)
_ROOT_HALF = _I32(0x3F3504F3)  # the bits of sqrt(1/2)
_MANTISSA = _I32(0x7FFFFF)
# With z the square of the argument: artanh s = s + s z L(z);  sin t = t + t z S(z);  cos t = 1 - z / 2 + z^2 C(z)
_LIMITS = "0", "0.02944", "0.6169"  # zero; (3 - sqrt(8))^2; (pi / 4)^2
_L2, _L1, _L0 = map(_F32, shortened([Fraction(1, 2 * i + 3) for i in range(8)], _LIMITS[0], _LIMITS[1], 3))
_S2, _S1, _S0 = map(
    _F32, shortened([Fraction((-1) ** (i + 1), math.factorial(2 * i + 3)) for i in range(8)], _LIMITS[0], _LIMITS[2], 3)
)
_C2, _C1, _C0 = map(
    _F32, shortened([Fraction((-1) ** i, math.factorial(2 * i + 4)) for i in range(8)], _LIMITS[0], _LIMITS[2], 3)
)


@numba.njit(inline="always")
def hashed(word):
    """The finaliser of MurmurHash3."""
    word = _U32(_U32(word ^ (word >> _U32(16))) * _U32(0x85EBCA6B))
    word = _U32(_U32(word ^ (word >> _U32(13))) * _U32(0xC2B2AE35))
    return _U32(word ^ (word >> _U32(16)))


@numba.njit(inline="always")
def philox(low, high, key):
    """One block of Philox2x32-10, in words of 64 bits of which the upper half does not count before the end."""
    low, high = _U64(low), _U64(high)
    for _ in range(_ROUNDS):
        product = (low & _WORD) * _PHILOX
        low, high = (product >> _U64(32)) ^ _U64(key) ^ high, product
        key = _U32(key + _WEYL)
    return _U32(low), _U32(high)


@numba.njit(inline="always")
def generation_key(key, generation):
    """The key of a run's blocks in a generation (E1)."""
    return hashed(_U32(key[1] + hashed(_U32(generation))))


@loops
def normals(key, generation, begin, first, second, d1, d2):
    """Fill ``d1, d2`` with the deviates (E2) of the elements from ``begin`` on of a run in a generation.

    ``first, second`` are space for words.
    """
    mixed = generation_key(key, generation)
    _words(key[0], mixed, begin, first, second)
    for e in range(len(d1)):
        radius = _radius(first[e])
        along, across = _direction(second[e])
        d1[e], d2[e] = radius * along, radius * across


@inner_loops
def _words(high, key, begin, first, second):
    for e in range(len(first)):
        first[e], second[e] = philox(_U32(begin + e), high, key)


@numba.njit(inline="always")
def _radius(word):
    """The distance from the origin: ln(2^p m) = p ln 2 + 2 artanh((m - 1) / (m + 1)), m from sqrt(1/2) to sqrt(2)."""
    u = _F32(_I32(word >> _U32(1))) * _F32(2.0**-31) + _F32(2.0**-32)
    shifted = _I32(bits_of_single(u) - _ROOT_HALF)
    power = _F32(shifted >> _I32(23))
    m = single_of_bits(_I32(_I32(shifted & _MANTISSA) + _ROOT_HALF))
    s = (m - _F32(1)) / (m + _F32(1))
    z = s * s
    half = s + s * (z * (_L0 + z * (_L1 + z * _L2)))
    return math.sqrt(power * _MINUS_2_LN2 - _F32(4) * half)  # u <= 1, so this is not negative


@numba.njit(inline="always")
def _direction(word):
    """Cosine and sine of an angle, from that to the nearest quarter of a turn; the upper two bits say which it is."""
    shifted = _U32(word + _U32(0x20000000))
    t = _F32(_I32(_U32(shifted & _U32(0x3FFFFFFF)) - _U32(0x20000000))) * _TURN
    z = t * t
    sine = t + t * (z * (_S0 + z * (_S1 + z * _S2)))
    cosine = _F32(1) + z * (_F32(-0.5) + z * (_C0 + z * (_C1 + z * _C2)))
    is_odd = (shifted & _U32(0x40000000)) != _U32(0)
    along, across = (sine, cosine) if is_odd else (cosine, sine)
    return _negated(along, _U32(shifted + _U32(0x40000000))), _negated(across, shifted)


@numba.njit(inline="always")
def _negated(number, word):
    """The number, with the other sign if the highest bit of the word is set."""
    return single_of_bits(_I32(bits_of_single(number) ^ _I32(word & _SIGN)))


def make_room(n: int, d: int) -> list[counter.Words]:
    """Space for words that `first_points` needs."""
    sizes = n * d, n * d, n, n, 4 ** counter.half_bits(n)
    return [np.empty(size, dtype=np.uint32) for size in sizes]


@loops
def first_points(keys, half, lower, upper, place, rest, number, outside, cipher, x):
    """Fill ``x`` (runs, n, d) with the Latin hypercubes of runs (E3); ``half`` are the bits of half a number.

    The arguments between bounds and ``x`` are those of `make_room`.
    """
    runs, n, d = x.shape
    for r in range(runs):
        key = keys[r]
        shuffle_key = generation_key(key, _SHUFFLE)
        _words(key[0], generation_key(key, 0), 0, place, rest)
        for j in range(d):
            a, b = philox(_U32(j), key[0], shuffle_key)
            _encipher(a, b, half, cipher)
            _permute(cipher, number, outside)
            for i in range(n):
                share = (number[i] + place[i * d + j] * 2.0**-32) / n
                inside = lower[j] + (upper[j] - lower[j]) * share
                x[r, i, j] = inside if inside < upper[j] else upper[j]


@inner_loops
def _permute(cipher, number, outside):
    """The numbers 0 to n - 1 in their new order; the cipher is repeated for those that are not below n."""
    n = len(number)
    for i in range(n):
        number[i], outside[i] = _U32(i), _U32(i)
    count = n
    while count > 0:
        left = 0
        for k in range(count):
            i = outside[k]
            number[i] = cipher[number[i]]
            outside[left] = i
            left += 1 if number[i] >= n else 0
        count = left


@inner_loops
def _encipher(a, b, half, cipher):
    """The Feistel cipher of all numbers of two halves."""
    shift, mask = _U32(half), _U32((1 << half) - 1)
    for number in range(len(cipher)):
        left, right = _U32(number) >> shift, _U32(number) & mask
        for c in range(_FEISTEL_ROUNDS):
            mixed = hashed(_U32(right + a + _U32(_U32(c) * b))) & mask
            left, right = right, left ^ mixed
        cipher[number] = _U32(_U32(left << shift) | right)
