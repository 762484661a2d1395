"""The nine functions of the paper, as pure functions of points: ``(..., d) -> (...)``.

They accept any array that follows the array API standard. Each is the textbook form, with the misprints of the paper's
table corrected. None has a value below its minimum, 0 (Schwefel only inside its box, and up to rounding).
"""

from __future__ import annotations

import math

from paoswarm.core.arrays import Array, namespace

# The peak of x sin(sqrt(x)) on [0, 500]: with s = sqrt(x), the root of sin(s) + (s / 2) cos(s) = 0 next to s = 20.5.
SCHWEFEL_OPTIMUM = 420.96874635998202731
SCHWEFEL_PEAK = 418.98288727243370627


def sphere(x: Array) -> Array:
    """De Jong's function: the sum of squares."""
    return _squares(x)


def ellipsoid(x: Array) -> Array:
    """Hyper-ellipsoid: the sum of i x_i^2 with i from 1."""
    xp = namespace(x)
    return xp.vecdot(x * x, _indices(x))


def rotated_ellipsoid(x: Array) -> Array:
    """Rotated hyper-ellipsoid in the form of Molga and Smutnicki: the sum over i of x_1^2 + ... + x_i^2.

    In spite of its name it is separable: x_j^2 occurs d - j + 1 times, so this is `ellipsoid` with its unknowns in
    reverse order.
    """
    xp = namespace(x)
    return xp.vecdot(x * x, xp.flip(_indices(x)))


def power_sum(x: Array) -> Array:
    """Sum of different powers: the sum of abs(x_i)^(i + 1) with i from 1, so the exponents are 2, ..., d + 1."""
    xp = namespace(x)
    return xp.sum(xp.abs(x) ** (_indices(x) + 1.0), axis=-1)


def rosenbrock(x: Array) -> Array:
    """Rosenbrock's curved valley: the sum over i < d of 100 (x_{i+1} - x_i^2)^2 + (1 - x_i)^2."""
    head = x[..., :-1]
    return 100.0 * _squares(head * head - x[..., 1:]) + _squares(1.0 - head)


def griewank(x: Array) -> Array:
    """Griewank's function: the sum of x_i^2 / 4000, minus the product of cos(x_i / sqrt(i)), plus 1."""
    xp = namespace(x)
    waves = xp.prod(xp.cos(x / xp.sqrt(_indices(x))), axis=-1)
    return _squares(x) / 4000.0 - waves + 1.0


def rastrigin(x: Array) -> Array:
    """Rastrigin's function: the sum of x_i^2 - 10 cos(2 pi x_i) + 10."""
    xp = namespace(x)
    terms = xp.cos(2 * math.pi * x)
    terms *= -10.0
    terms += x * x
    terms += 10.0  # last, and term by term: exactly 0 once all abs(x_i) are below 1e-9
    return xp.sum(terms, axis=-1)


def ackley(x: Array) -> Array:
    """Ackley's function: -20 exp(-0.2 sqrt(mean x_i^2)) - exp(mean cos(2 pi x_i)) + 20 + e.

    At the optimum, rounding leaves 4e-16.
    """
    xp = namespace(x)
    bowl = xp.exp(-0.2 * xp.sqrt(_squares(x) / x.shape[-1]))
    waves = xp.exp(xp.mean(xp.cos(2 * math.pi * x), axis=-1))
    return -20.0 * bowl - waves + 20.0 + math.e


def schwefel(x: Array) -> Array:
    """Schwefel's function: the sum of 418.98... - x_i sin(sqrt(abs(x_i))).

    The constant, the maximum of x sin(sqrt(abs(x))) in the box, makes the minimum 0; rounding leaves about 1e-13 for
    each unknown. Outside [-500, 500] the function is unbounded below.
    """
    xp = namespace(x)
    terms = xp.sin(xp.sqrt(xp.abs(x)))
    terms *= x
    return xp.sum(SCHWEFEL_PEAK - terms, axis=-1)  # term by term, so that large sums do not cancel at the optimum


def _squares(x: Array) -> Array:
    """Return the sum of squares; `vecdot` is faster than a sum over a short last axis."""
    return namespace(x).vecdot(x, x)


def _indices(x: Array) -> Array:
    """Return the numbers 1, ..., d."""
    return namespace(x).arange(1, x.shape[-1] + 1, dtype=x.dtype, device=x.device)
