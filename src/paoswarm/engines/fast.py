"""Elementary functions for objectives of the numba engine.

Calls into the C library cannot be turned into vector instructions, so ``math.cos`` in a loop over unknowns often takes
longer than everything else. These functions are short series without branches, which can be. In double precision they
are accurate to 2 units in the last place. They are functions of one number; call them in loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction

import numba
import numpy as np

from paoswarm.engines.numba_options import bits_of_double, double_of_bits

__all__ = ["cos", "exp", "log", "sin"]

_DIGITS = 50


def shortened(series: Iterable[Fraction], low: str, high: str, terms: int) -> tuple[float, ...]:
    """The ``terms`` coefficients of a polynomial for an interval, the highest power first, as Horner's rule takes them.

    ``series`` are the coefficients of a power series, the constant first. It is more accurate near zero than it need
    be. Subtracting a multiple of the Chebyshev polynomial of the interval removes the highest power, and of all
    polynomials it changes the sum least on that interval (Lanczos 1938).
    """
    with localcontext() as context:
        context.prec = _DIGITS
        rest = [Decimal(c.numerator) / Decimal(c.denominator) for c in series]
        while len(rest) > terms:
            highest = len(rest) - 1
            wave = _chebyshev(highest, Decimal(low), Decimal(high))
            factor = rest.pop() / wave.pop()
            rest = [a - factor * b for a, b in zip(rest, wave, strict=True)]
        return tuple(float(c) for c in reversed(rest))


def _chebyshev(n: int, low: Decimal, high: Decimal) -> list[Decimal]:
    """Coefficients of the Chebyshev polynomial of degree ``n`` on an interval, the constant first."""
    scale, shift = 2 / (high - low), -(low + high) / (high - low)
    before, now = [Decimal(1)], [shift, scale]
    for _ in range(n - 1):
        longer = [2 * shift * c for c in now] + [Decimal(0)]
        for i, c in enumerate(now):
            longer[i + 1] += 2 * scale * c
        for i, c in enumerate(before):
            longer[i] -= c
        before, now = now, longer
    return now


# Without a setting of their own they would take that of the caller, and other orders of operations lose digits.
_compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})


def _parts(digits: str) -> tuple[float, float, float]:
    """A number as a sum of three, the first two of which have 32 bits: small multiples of them are exact."""
    with localcontext() as context:
        context.prec = 60
        rest, found = Decimal(digits), []
        for _ in range(2):
            exponent = math.frexp(float(rest))[1] - 32
            part = math.ldexp(math.floor(math.ldexp(float(rest), -exponent)), exponent)
            found.append(part)
            rest -= Decimal(part)
        return found[0], found[1], float(rest)


_PI = _parts("3.14159265358979323846264338327950288419716939937510582")
_LN2 = _parts("0.69314718055994530941723212145817656807550013436025525")
_PI1, _PI2, _PI3 = _PI
_LN2_1, _LN2_2, _LN2_3 = _LN2
# sin r = r + r z S(z) with z = r^2;  exp r = 1 + r + r^2 E(r);  artanh s = s + s z A(z) with z = s^2
_SINE = shortened([Fraction((-1) ** (i + 1), math.factorial(2 * i + 3)) for i in range(13)], "0", "2.4675", 8)
_EXPONENTIAL = shortened([Fraction(1, math.factorial(i + 2)) for i in range(15)], "-0.3466", "0.3466", 10)
_ARTANH = shortened([Fraction(1, 2 * i + 3) for i in range(12)], "0", "0.02944", 7)
_HALF_TURNS, _POWERS = 1 / math.pi, 1 / math.log(2)
_ROOT_HALF = np.int64(np.float64(math.sqrt(0.5)).view(np.int64))
_MANTISSA, _BIAS, _BITS = np.int64((1 << 52) - 1), np.int64(1023), np.int64(52)
_TINY = 2.0**-1022
_ROUND = 1.5 * 2.0**52  # a sum with it is a whole number, whose lowest bit says whether it is odd
_SIGN = np.int64(63)  # the bit of the sign


@_compiled
def _sine(x, turns, parity):
    """``sin(x - turns * pi)`` for what is left between -pi/2 and pi/2, with the other sign if ``parity`` is odd."""
    r = ((x - turns * _PI1) - turns * _PI2) - turns * _PI3
    z = r * r
    series = 0.0
    for c in numba.literal_unroll(_SINE):
        series = series * z + c
    return double_of_bits(bits_of_double(r + r * (z * series)) ^ (bits_of_double(parity) << _SIGN))


@_compiled
def sin(x):
    """Sine, for arguments up to a million."""
    rounded = x * _HALF_TURNS + _ROUND
    return _sine(x, rounded - _ROUND, rounded)


@_compiled
def cos(x):
    """Cosine, for arguments up to a million."""
    rounded = (x * _HALF_TURNS + 0.5) + _ROUND
    return _sine(x, (rounded - _ROUND) - 0.5, rounded)


@_compiled
def exp(x):
    """Exponential function; infinite above 709.8, zero below -745.1."""
    x = 710.0 if x > 710.0 else x
    x = -746.0 if x < -746.0 else x
    powers = np.rint(x * _POWERS)
    r = ((x - powers * _LN2_1) - powers * _LN2_2) - powers * _LN2_3
    series = 0.0
    for c in numba.literal_unroll(_EXPONENTIAL):
        series = series * r + c
    half = np.floor(0.5 * powers)  # two factors, because 2^powers may not be a normal number
    first = double_of_bits((np.int64(half) + _BIAS) << _BITS)
    second = double_of_bits((np.int64(powers - half) + _BIAS) << _BITS)
    return (1.0 + (r + r * (r * series))) * first * second


@_compiled
def log(x):
    """Natural logarithm; of zero -inf, of negative numbers NaN."""
    is_tiny = x < _TINY
    bits = bits_of_double(x * 2.0**54 if is_tiny else x)
    shifted = bits - _ROOT_HALF
    powers = np.float64(shifted >> _BITS) - (54.0 if is_tiny else 0.0)
    m = double_of_bits((shifted & _MANTISSA) + _ROOT_HALF)  # between sqrt(1/2) and sqrt(2)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    series = 0.0
    for c in numba.literal_unroll(_ARTANH):
        series = series * z + c
    found = powers * _LN2_1 + (2.0 * s + (2.0 * s * (z * series) + powers * (_LN2_2 + _LN2_3)))
    found = x if x == np.inf else found
    found = -np.inf if x == 0.0 else found
    return found if x >= 0.0 else np.nan
