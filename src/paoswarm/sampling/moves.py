r"""Metropolis-Hastings moves with PAO's exact step as the proposal; they leave the target density exactly invariant.

The *reference* :math:`\varphi` is a mixture of normal or Student-t components with attractors :math:`a_c`. In the units
of its component, a particle is a damped spring whose stationary distribution is :math:`N(0, I)` for position and
velocity. A move follows the exact transition of the spring for a time ``dt`` and accepts the result with probability

.. math:: \alpha = \min\Big(1, \frac{\pi(z')\,\varphi(z)}{\pi(z)\,\varphi(z')}\Big), \qquad v \leftarrow -v
          \text{ on rejection.} \tag{S5}

No transition density appears in (S5), because the spring is reversible up to the sign of the velocity. The target
:math:`\pi \propto p\,L^\beta` is given by its prior and likelihood. The reference must not depend on the particle that
it moves: it is constant, or made from other particles.

`move` takes arrays of NumPy or JAX, with a source of random numbers that has the methods of NumPy's.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

from paoswarm.core.arrays import Array, Floats, namespace
from paoswarm.core.dynamics import exact_transition
from paoswarm.core.weights import log_sum_exp, normalise, systematic
from paoswarm.sampling.densities import Circle, Mixture, weighted_variance

RHO = np.array([0.0, 0.5, 0.8, 0.92, 0.97, 0.99])  # correlations that moves choose from at random

Indices = NDArray[np.intp]


class Unnormalised(Protocol):
    """An unnormalised target: the logarithms of a prior and a likelihood (see `Target`)."""

    def log_prior(self, z: Floats) -> Floats:
        """Log prior density of each row, ``-inf`` outside the box."""

    def log_likelihood(self, z: Floats) -> Floats:
        """Log likelihood of each row; rows outside the box are not evaluated."""


class SpringStep(NamedTuple):
    """One step of a spring, (S1), in units in which its stationary distribution is N(0, I)."""

    A: Floats  # (particles, 2, 2), the mean of (position, velocity) after the step is A @ (position, velocity)
    noise: Floats  # (..., 2, 2), lower triangular, noise @ noise.T == I - A @ A.T

    def take(self, i: Indices) -> SpringStep:
        """Select steps of a batch by index."""
        return SpringStep(self.A[i], self.noise[i])


class ChainStates(NamedTuple):
    """ChainStates: positions and velocities (n, d), log prior and log likelihood (n,)."""

    z: Floats
    v: Floats
    log_prior: Floats
    log_likelihood: Floats

    def take(self, i: Indices) -> ChainStates:
        """Select particles by index."""
        return ChainStates(*(a[i] for a in self))


class Moved(NamedTuple):
    """Record of a move: the proposals, their acceptance probabilities (n,), and which were accepted (n,)."""

    proposal: ChainStates
    probability: Floats
    accepted: NDArray[np.bool_]


def spring(dt: float | Floats, zeta: float | Floats) -> SpringStep:
    r"""Step (S1) of a spring with :math:`\omega = 1` and damping ratio ``zeta > 0`` over a time ``dt``.

    With unit noise its stationary distribution is :math:`N(0, I / 4\zeta)`, for position and velocity.
    """
    dt, zeta = np.broadcast_arrays(np.asarray(dt, dtype=float), np.asarray(zeta, dtype=float))
    law = exact_transition(zeta, np.ones_like(zeta), dt)
    return SpringStep(law.A, 2 * np.sqrt(zeta)[..., None, None] * law.cholesky)  # (S1)


def correlated(rho: float | Floats) -> SpringStep:
    r"""Critically damped step after which positions have the correlation ``rho``, from 0 to 1.

    It solves :math:`(1 + t)\,e^{-t} = \rho`, (S4). With a fresh velocity only :math:`\rho` matters, not the damping.
    """
    rho = np.asarray(rho, dtype=float)
    t = -1 - np.real(lambertw(-np.where(rho > 0, rho, 1.0) / np.e, -1))  # (S4)
    return spring(np.where(rho > 0, np.fmax(t, 0.0), 1e3), 1.0)  # at rho = 1, rounding may make t NaN


def log_parts(z: Array, reference: Mixture, circle: Circle | None) -> Array:
    """Logarithms of the terms of the reference density (n, images * k), image by image, (S8) and (S12)."""
    if circle is None:
        return reference.log_parts(z)
    return namespace(z).concat([reference.log_parts(z + shift) for shift in circle.shifts], axis=1)


def propose(
    z: Array,
    v: Array,
    parts: Array,
    reference: Mixture,
    step: SpringStep,
    rng: Any,
    jump: float | Array,
    circle: Circle | None,
) -> tuple[Array, Array]:
    r"""Propose new positions and velocities for particles at `z`, whose `log_parts` are `parts`.

    A particle is written as :math:`z = a_c + L_c u / \sqrt\lambda`. The component :math:`c` is drawn by its term in the
    density, and :math:`\lambda \sim \Gamma(\frac{\nu+d}2, \frac{\nu + |L_c^{-1}(z - a_c)|^2}2)`, (S9);
    :math:`\lambda = 1` for normal components. Then (u, v) takes the step (S1). With probability `jump`, the component
    and :math:`\lambda` are drawn again from the reference.
    """
    n, d = z.shape
    xp, k = namespace(z), len(reference.weight)
    picked = _pick(parts, rng)  # (S9)
    image, c = picked // k, picked % k
    if circle is not None:
        z = z + xp.asarray(circle.shifts)[image]
    u = xp.einsum("nij,nj->ni", xp.linalg.inv(reference.factor)[c], z - reference.mean[c])
    nu = reference.freedom
    root = xp.ones((n, 1))
    if np.isfinite(nu):
        root = xp.sqrt(rng.gamma((nu + d) / 2, size=n) * 2 / (nu + xp.sum(u * u, axis=1)))[:, None]  # (S9)
    u = u * root
    A, H = step.A[..., None], step.noise[..., None]
    e1, e2 = rng.standard_normal((2, n, d))
    u, v = (  # (S1)
        A[..., 0, 0, :] * u + A[..., 0, 1, :] * v + H[..., 0, 0, :] * e1,
        A[..., 1, 0, :] * u + A[..., 1, 1, :] * v + H[..., 1, 0, :] * e1 + H[..., 1, 1, :] * e2,
    )
    if xp is not np or np.any(jump):  # a new component and lambda, as in a draw from (S8)
        jumps = xp.asarray(rng.random((n, 1)) < xp.reshape(xp.asarray(jump), (-1, 1)))
        c = xp.where(jumps[:, 0], rng.choice(k, size=n, p=reference.weight / reference.weight.sum()), c)
        if np.isfinite(nu):
            root = xp.where(jumps, xp.sqrt(rng.gamma(nu / 2, size=(n, 1)) * 2 / nu), root)
    y = reference.mean[c] + xp.einsum("nij,nj->ni", reference.factor[c], u) / root
    return (y if circle is None else circle.wrap(y)), v


def move(
    state: ChainStates,
    target: Unnormalised,
    beta: float,
    reference: Mixture,
    step: SpringStep,
    rng: Any,
    *,
    refresh: float = 1.0,
    jump: float | Array = 0.1,
    circle: Circle | None = None,
) -> tuple[ChainStates, Moved]:
    r"""Make one Metropolis-Hastings move of every particle; it leaves :math:`p\,L^\beta \times N(0, I)` invariant.

    The reference must not depend on the particles that are moved, nor the step (one for all, or one for each particle)
    on their positions. A proposal outside the box is rejected without a likelihood call. The velocity is first replaced
    by :math:`\sqrt{1-e^2}\,v + e\,\xi`, (S7), with the share ``refresh``: 1 forgets it, 0 keeps it. ``jump`` is the
    probability of going to a component drawn by weight: with 1, and a step that forgets the position, the proposal is
    an independent draw from the reference.
    """
    n, xp = len(state.z), namespace(state.z)
    v = np.sqrt(1 - refresh**2) * state.v + refresh * rng.standard_normal(state.v.shape)  # (S7)
    parts = log_parts(state.z, reference, circle)
    z_new, v_new = propose(state.z, v, parts, reference, step, rng, jump, circle)
    has_image = xp.all(xp.isfinite(z_new), axis=1)
    z_new = xp.where(has_image[:, None], z_new, state.z)
    log_prior = xp.where(has_image, target.log_prior(z_new), -np.inf)
    log_likelihood = _where_inside(target, z_new, log_prior > -np.inf)
    here = tempered_density(state.log_prior, state.log_likelihood, beta) - log_sum_exp(parts, axis=1)
    there = tempered_density(log_prior, log_likelihood, beta) - log_sum_exp(log_parts(z_new, reference, circle), axis=1)
    # (S5); from a point of zero density every proposal is accepted, and a proposal of zero density never is.
    log_ratio = xp.where(there > -np.inf, there - xp.where(there > -np.inf, here, 0.0), -np.inf)
    probability = xp.exp(xp.minimum(log_ratio, 0.0))
    accepted = xp.asarray(rng.random(n) < probability)
    proposal = ChainStates(z_new, v_new, log_prior, log_likelihood)
    stay = state._replace(v=-v)  # (S5), on rejection
    moved = ChainStates(
        *(xp.where(accepted.reshape(n, *[1] * (b.ndim - 1)), b, a) for a, b in zip(stay, proposal, strict=True))
    )
    return moved, Moved(proposal, probability, accepted)


def tempered_density(log_prior: Array, log_likelihood: Array, beta: float) -> Array:
    r"""The logarithm of :math:`p\,L^\beta`; the log prior at :math:`\beta = 0`, even if the likelihood is zero.

    A :math:`\beta` that is traced must be positive.
    """
    return log_prior if isinstance(beta, float | int) and beta <= 0 else log_prior + beta * log_likelihood


def _where_inside(target: Unnormalised, z: Array, inside: Array) -> Array:
    """Log likelihood of the rows inside the box, -inf for others; NumPy evaluates no others."""
    if type(z) is not np.ndarray:
        return namespace(z).where(inside, target.log_likelihood(z), -np.inf)
    log_likelihood = np.full(len(z), -np.inf)
    log_likelihood[inside] = target.log_likelihood(z[inside])
    return log_likelihood


def _pick(log_p: Array, rng: Any) -> Array:
    """Draw a column of each row with probability proportional to ``exp(log_p)``."""
    xp = namespace(log_p)
    total = xp.cumulative_sum(xp.exp(log_p - xp.max(log_p, axis=1, keepdims=True)), axis=1)
    picked = xp.sum(total <= rng.random((len(total), 1)) * total[:, -1:], axis=1)
    return xp.clip(picked, 0, log_p.shape[1] - 1)


def metropolis_cost(
    target: Unnormalised,
    z: Floats,
    log_likelihood: Floats,
    log_weights: Floats,
    reference: Mixture,
    rng: np.random.Generator,
    *,
    rho: Floats | None = None,
    n: int = 64,
    jump: float = 0.1,
    circle: Circle | None = None,
) -> float:
    r"""Estimate the moves per independent posterior draw, from `n` trial moves for each correlation in `rho`.

    A coordinate with variance :math:`s^2` and mean squared jump :math:`J s^2` has the correlation :math:`1 - J/2` after
    one move. An autoregression with that correlation has the autocorrelation time

    .. math:: \tau = \frac{4}{J} - 1. \tag{S22}

    The result is the mean over coordinates, with steps chosen by their mean squared jump as in `tempered`. It takes at
    most ``n * len(rho)`` likelihood evaluations. It is too low, because real chains also have slower components than an
    autoregression: by up to a half if the reference fits moderately well, by a factor of several if the posterior is
    long and curved.
    """
    rho = RHO if rho is None else rho
    weights = normalise(log_weights)
    rows = rng.permutation(systematic(weights, n * len(rho), rng))
    starts = z[rows]
    state = ChainStates(starts, np.zeros_like(starts), target.log_prior(starts), log_likelihood[rows])
    which = np.repeat(np.arange(len(rho)), n)
    jump_chance = np.where(rho[which] == 0, 1.0, jump)
    _, tried = move(state, target, 1.0, reference, correlated(rho).take(which), rng, jump=jump_chance, circle=circle)

    squared = tried.probability[:, None] * (tried.proposal.z - starts) ** 2 / weighted_variance(z, weights)
    by_step = squared.reshape(len(rho), n, -1).mean(axis=1)  # for each correlation and coordinate
    score = by_step.mean(axis=1)
    jumps = score @ by_step / score.sum() if score.any() else np.zeros(1)
    return float(np.mean(np.maximum(4 / jumps - 1, 1.0))) if jumps.all() else float("inf")  # (S22)
