"""Short polynomials for elementary functions: power series, shortened by Chebyshev polynomials.

A power series is more accurate near zero than it need be. Subtracting a multiple of the Chebyshev polynomial of an
interval removes the highest power, and of all polynomials it changes the sum least on that interval (Lanczos 1938).
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, localcontext
from fractions import Fraction

_DIGITS = 50


def shortened(series: Iterable[Fraction], low: str, high: str, terms: int) -> tuple[float, ...]:
    """The ``terms`` coefficients of a polynomial for an interval, the highest power first, as Horner's rule takes them.

    ``series`` are the coefficients of the power series, the constant first.
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
