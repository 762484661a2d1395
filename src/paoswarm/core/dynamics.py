r"""The exact transition of a damped spring driven by white noise.

One element of one particle, measured from the point :math:`a` to which it is pulled, obeys

.. math:: ds = F s\,dt + L\,d\beta, \quad F = \begin{pmatrix}0&1\\-\omega^2&-2\zeta\omega\end{pmatrix},
          \quad L = \begin{pmatrix}0\\1\end{pmatrix}                                        \tag{4}

After a time ``dt`` it is Gaussian, :math:`N(A s, \sigma^2 \Sigma)` (5). All computations are for a spring with
:math:`\omega = 1` and the time :math:`\tau = \omega\,dt`; the result is scaled at the end.

The textbook methods fail in some cases:

- The closed form (10)-(11) of :math:`\Sigma` cancels for short steps and divides by zero without damping.
- The matrix fraction decomposition contains :math:`\exp(-F^T dt)` and explodes when overdamped.

Here, :math:`\Sigma` of a short step is the integral (7), by Gauss-Legendre quadrature, which sums positive terms. A
long step follows by doubling, :math:`\Sigma(2t) = \Sigma(t) + A \Sigma(t) A^T`, which only adds. Both are accurate to a
few units in the last place for every damping and every step.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from paoswarm.core.arrays import Array, namespace

NODES, WEIGHTS = (0.5 * a for a in np.polynomial.legendre.leggauss(16))
NODES = NODES + 0.5  # on (0, 1)
# Sixteen nodes integrate exp(-8 u) over (0, 1) to 1e-24: one panel may last 4 times the fastest time constant.
_PANEL = 4.0
# exp(-2 * 25) = 2e-22: after this many slow time constants, the covariance is the stationary one.
_SETTLED = 25.0
_SQUARABLE = 1e150  # damping ratios below this can be squared without overflow


class Transition(NamedTuple):
    r"""Exact one-step law of one element :math:`(y, v)` of a particle, for unit noise.

    Attributes
    ----------
    A : array (..., 2, 2)
        The mean after the step is ``A @ (y, v)``, equation (8).
    covariance : array (..., 2, 2)
        :math:`\Sigma`, equation (7), for :math:`\sigma = 1`.
    cholesky : array (..., 2, 2)
        Lower triangular ``H`` with ``H @ H.T == covariance``.
    """

    A: Array
    covariance: Array
    cholesky: Array


def transition(mass: ArrayLike, damping: ArrayLike, stiffness: ArrayLike, dt: ArrayLike) -> Transition:
    r"""Return the exact transition of a damped spring over a time step, for any damping and any step.

    Parameters
    ----------
    mass : float or array
        Inertia :math:`m > 0`.
    damping : float or array
        Damping ratio :math:`\zeta = c / (2\sqrt{k m}) \ge 0`. Below one, the spring oscillates.
    stiffness : float or array
        Total stiffness :math:`k = \sum_r k_r > 0` of all attractors.
    dt : float or array
        Time step, :math:`\ge 0`.

    Returns
    -------
    Transition
        With 2x2 matrices; for array arguments, a batch of them over the broadcast shape.

    Examples
    --------
    >>> import paoswarm as ps
    >>> law = ps.laws.transition(mass=1.0, damping=0.2, stiffness=2.0, dt=1.0)
    >>> law.A.round(3)
    array([[ 0.29 ,  0.535],
           [-1.069, -0.012]])
    >>> half = ps.laws.transition(1.0, 0.2, 2.0, 0.5)
    >>> bool(abs(half.A @ half.A - law.A).max() < 1e-15)  # two half steps are one whole step
    True
    """
    given = {"mass": mass, "damping": damping, "stiffness": stiffness, "dt": dt}
    arrays = {}
    for name, number in given.items():
        try:
            array = np.asarray(number, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be a number or an array of numbers, got {number!r}") from None
        bad = ~np.isfinite(array) | ((array < 0) if name in ("damping", "dt") else (array <= 0))
        if bad.any():
            allowed = "zero or positive" if name in ("damping", "dt") else "positive"
            raise ValueError(f"{name} must be {allowed} and finite, got {number!r}")
        arrays[name] = array
    return checked_transition(*np.broadcast_arrays(*arrays.values()))


def checked_transition(m: Array, zeta: Array, k: Array, dt: Array) -> Transition:
    """`transition` for valid NumPy arrays of one shape; raise if their combination overflows."""
    try:
        with np.errstate(all="ignore"):
            law = exact_transition(zeta, np.sqrt(k / m), dt)
        is_finite = np.isfinite(law.A).all() and np.isfinite(law.cholesky).all() and (zeta < _SQUARABLE).all()
    except (OverflowError, ValueError):  # the number of doublings is infinite or NaN
        is_finite = False
    if not is_finite:
        raise ValueError(
            f"mass={m}, damping={zeta}, dt={dt} and a total stiffness of {k} make a step that is too large for "
            "floating-point numbers; use less extreme values"
        )
    return law


def exact_transition(zeta: Array, omega: Array, dt: Array) -> Transition:
    """`transition` from the damping ratio and the natural frequency; arguments are not checked."""
    xp = namespace(zeta)
    a11, a12, a21, a22 = _propagator(zeta, omega * dt)
    s11, s12, s22 = _covariance(zeta, omega * dt)
    # Scale from tau back to time: per unit of noise, y scales with omega^(-3/2) and v with omega^(-1/2).
    A = _matrix(xp, a11, a12 / omega, a21 * omega, a22)
    s11, s12, s22 = s11 / omega**3, s12 / omega**2, s22 / omega
    still = s11 <= 0  # no noise: dt is 0, or so short that the variance underflows
    h11 = xp.sqrt(s11)
    h21 = xp.where(still, 0.0, s12 / xp.where(still, 1.0, h11))
    h22 = xp.where(still, 0.0, xp.sqrt(s22 - h21 * h21))  # never cancels: s12^2 <= 3/4 s11 s22
    return Transition(A, _matrix(xp, s11, s12, s12, s22), _matrix(xp, h11, xp.zeros_like(h11), h21, h22))


def slow_rate(zeta: Array) -> Array:
    r"""Return the decay rate of the envelope in units of :math:`\omega`: zeta below one, the slower root above."""
    xp = namespace(zeta)
    above = xp.where(zeta > 1, zeta, 1.0)
    return xp.where(zeta > 1, 1 / (above + xp.sqrt((above - 1) * (above + 1))), zeta)


def _propagator(zeta: Array, tau: Array) -> tuple[Array, Array, Array, Array]:
    r"""Return the entries of :math:`\exp(F\tau)` for omega = 1, equation (8)."""
    xp = namespace(tau)
    square = (1 - zeta) * (1 + zeta)  # delta^2 without the cancellation of 1 - zeta^2
    delta = xp.sqrt(xp.abs(square))
    x = delta * tau
    safe = xp.where(x == 0, 1.0, x)
    # Above one, factor out the slow exponential, so that nothing overflows.
    vanished = xp.exp(-2 * x)
    under = square > 0
    envelope = xp.exp(-tau * xp.where(under, zeta, 1 / (zeta + delta)))
    C = xp.where(under, xp.cos(x), (1 + vanished) / 2)
    ratio = xp.where(under, xp.sin(x) / safe, -xp.expm1(-2 * x) / (2 * safe))
    S = tau * xp.where(x == 0, 1.0, ratio)
    return envelope * (C + zeta * S), envelope * S, -envelope * S, envelope * (C - zeta * S)


def _covariance(zeta: Array, tau: Array) -> tuple[Array, Array, Array]:
    r"""Return the entries of :math:`\Sigma(\tau)` for omega = 1, equation (7): quadrature, then doubling."""
    xp = namespace(tau)
    rate = slow_rate(zeta)
    tau = xp.where(rate * tau > _SETTLED, _SETTLED / xp.where(rate > 0, rate, 1.0), tau)
    fastest = xp.where(zeta > 1, 2 * zeta, 1.0)  # an upper bound is enough
    # Each entry has its own number of doublings, so that it does not depend on the other entries of a batch.
    doublings = xp.ceil(xp.log2(xp.clip(fastest * tau / _PANEL, 1.0, xp.inf)))
    t = tau / 2.0**doublings
    nodes, weights = xp.asarray(NODES), xp.asarray(WEIGHTS)
    _, g1, _, g2 = _propagator(zeta[..., None], t[..., None] * nodes)
    s11, s12, s22 = (t * xp.sum(weights * g, axis=-1) for g in (g1 * g1, g1 * g2, g2 * g2))
    for done in range(int(xp.max(doublings)) if math.prod(t.shape) else 0):
        a11, a12, a21, a22 = _propagator(zeta, t)
        more = done < doublings
        s11, s12, s22 = (
            xp.where(more, s11 + a11 * a11 * s11 + 2 * a11 * a12 * s12 + a12 * a12 * s22, s11),
            xp.where(more, s12 + a11 * a21 * s11 + (a11 * a22 + a12 * a21) * s12 + a12 * a22 * s22, s12),
            xp.where(more, s22 + a21 * a21 * s11 + 2 * a21 * a22 * s12 + a22 * a22 * s22, s22),
        )
        t = xp.where(more, 2 * t, t)
    return s11, s12, s22


def _matrix(xp: Any, m11: Array, m12: Array, m21: Array, m22: Array) -> Array:
    return xp.stack([xp.stack([m11, m12], axis=-1), xp.stack([m21, m22], axis=-1)], axis=-2)
