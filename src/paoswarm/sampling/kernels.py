r"""Metropolis-Hastings moves with PAO's exact step as the proposal; they leave the target density exactly invariant.

The *reference* :math:`\varphi` is a mixture of normal or Student-t components with attractors :math:`a_c`. In the units
of its component, a particle is a damped spring whose stationary distribution is :math:`N(0, I)` for position and
velocity. A move follows the exact transition of the spring for a time ``dt`` and accepts the result with probability

.. math:: \alpha = \min\Big(1, \frac{\pi(z')\,\varphi(z)}{\pi(z)\,\varphi(z')}\Big), \qquad v \leftarrow -v
          \text{ on rejection.} \tag{S5}

No transition density appears in (S5), because the spring is reversible up to the sign of the velocity. The target
:math:`\pi \propto p\,L^\beta` is given by its prior and likelihood. The reference must not depend on the particle that
it moves: it is constant, or made from other particles.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

from paoswarm.core.arrays import Floats
from paoswarm.core.dynamics import exact_transition
from paoswarm.core.weights import log_sum_exp
from paoswarm.sampling.mixture import Mixture
from paoswarm.sampling.periodic_coordinates import Circle

Indices = NDArray[np.intp]

RHO = np.array([0.0, 0.5, 0.8, 0.92, 0.97, 0.99])  # correlations that moves choose from at random


class Unnormalised(Protocol):
    """An unnormalised target: the logarithms of a prior and a likelihood (see `Target`)."""

    def log_prior(self, z: Floats) -> Floats:
        """Log prior density of each row, ``-inf`` outside the box."""

    def log_likelihood(self, z: Floats) -> Floats:
        """Log likelihood of each row; rows outside the box are not evaluated."""


class Step(NamedTuple):
    """One step of a spring, (S1), in units in which its stationary distribution is N(0, I); leading axes are particles.

    Attributes
    ----------
    A : array (..., 2, 2)
        The mean of (position, velocity) after the step is ``A @ (position, velocity)``.
    noise : array (..., 2, 2)
        Lower triangular, ``noise @ noise.T == I - A @ A.T``.
    """

    A: Floats
    noise: Floats

    def take(self, i: Indices) -> Step:
        """Select steps of a batch by index."""
        return Step(self.A[i], self.noise[i])


class State(NamedTuple):
    """Particles: positions and velocities (n, d), log prior and log likelihood (n,)."""

    z: Floats
    v: Floats
    log_prior: Floats
    log_likelihood: Floats

    def take(self, i: Indices) -> State:
        """Select particles by index."""
        return State(*(a[i] for a in self))


class Moved(NamedTuple):
    """Record of a move: the proposals, their acceptance probabilities (n,), and which were accepted (n,)."""

    proposal: State
    probability: Floats
    accepted: NDArray[np.bool_]


def spring(dt: float | Floats, zeta: float | Floats) -> Step:
    r"""Step (S1) of a spring with :math:`\omega = 1` and damping ratio ``zeta > 0`` over a time ``dt``.

    With unit noise its stationary distribution is :math:`N(0, I / 4\zeta)`, for position and velocity.
    """
    dt, zeta = np.broadcast_arrays(np.asarray(dt, dtype=float), np.asarray(zeta, dtype=float))
    law = exact_transition(zeta, np.ones_like(zeta), dt)
    return Step(law.A, 2 * np.sqrt(zeta)[..., None, None] * law.cholesky)  # (S1)


def correlated(rho: float | Floats) -> Step:
    r"""Critically damped step after which positions have the correlation ``rho``, from 0 to 1.

    It solves :math:`(1 + t)\,e^{-t} = \rho`, (S4). With a fresh velocity only :math:`\rho` matters, not the damping.
    """
    rho = np.asarray(rho, dtype=float)
    t = -1 - np.real(lambertw(-np.where(rho > 0, rho, 1.0) / np.e, -1))  # (S4)
    return spring(np.where(rho > 0, np.fmax(t, 0.0), 1e3), 1.0)  # at rho = 1, rounding may make t NaN


def log_parts(z: Floats, reference: Mixture, circle: Circle | None) -> Floats:
    """Logarithms of the terms of the reference density (n, images * k), image by image, (S8) and (S12)."""
    if circle is None:
        return reference.log_parts(z)
    return np.concatenate([reference.log_parts(z + shift) for shift in circle.shifts], axis=1)


def propose(
    z: Floats,
    v: Floats,
    parts: Floats,
    reference: Mixture,
    step: Step,
    rng: np.random.Generator,
    jump: float | Floats,
    circle: Circle | None,
) -> tuple[Floats, Floats]:
    r"""Propose new positions and velocities for particles at `z`, whose `log_parts` are `parts`.

    A particle is written as :math:`z = a_c + L_c u / \sqrt\lambda`. The component :math:`c` is drawn by its term in the
    density, and :math:`\lambda \sim \Gamma(\frac{\nu+d}2, \frac{\nu + |L_c^{-1}(z - a_c)|^2}2)`, (S9);
    :math:`\lambda = 1` for normal components. Then (u, v) takes the step (S1). With probability `jump`, the component
    and :math:`\lambda` are drawn again from the reference.
    """
    n, d = z.shape
    k = len(reference.weight)
    image, c = np.divmod(_pick(parts, rng), k)  # (S9)
    if circle is not None:
        z = z + circle.shifts[image]
    u = np.einsum("nij,nj->ni", np.linalg.inv(reference.factor)[c], z - reference.mean[c])
    nu = reference.freedom
    root = np.ones((n, 1))
    if np.isfinite(nu):
        root = np.sqrt(rng.gamma((nu + d) / 2, size=n) * 2 / (nu + np.sum(u * u, axis=1)))[:, None]  # (S9)
    u = u * root
    A, H = step.A[..., None], step.noise[..., None]
    e1, e2 = rng.standard_normal((2, n, d))
    u, v = (  # (S1)
        A[..., 0, 0, :] * u + A[..., 0, 1, :] * v + H[..., 0, 0, :] * e1,
        A[..., 1, 0, :] * u + A[..., 1, 1, :] * v + H[..., 1, 0, :] * e1 + H[..., 1, 1, :] * e2,
    )
    if np.any(jump):  # a new component and lambda, as in a draw from (S8)
        jumps = np.asarray(rng.random((n, 1)) < np.reshape(jump, (-1, 1)))
        c = np.where(jumps[:, 0], rng.choice(k, size=n, p=reference.weight / reference.weight.sum()), c)
        if np.isfinite(nu):
            root = np.where(jumps, np.sqrt(rng.gamma(nu / 2, size=(n, 1)) * 2 / nu), root)
    y = reference.mean[c] + np.einsum("nij,nj->ni", reference.factor[c], u) / root
    return (y if circle is None else circle.wrap(y)), v


def move(
    state: State,
    target: Unnormalised,
    beta: float,
    reference: Mixture,
    step: Step,
    rng: np.random.Generator,
    *,
    refresh: float = 1.0,
    jump: float | Floats = 0.1,
    circle: Circle | None = None,
) -> tuple[State, Moved]:
    r"""Make one Metropolis-Hastings move of every particle; it leaves :math:`p\,L^\beta \times N(0, I)` invariant.

    Parameters
    ----------
    state : State
        The particles.
    target : Unnormalised
        Prior and likelihood. A proposal outside the box is rejected without a likelihood call.
    beta : float
        Inverse temperature.
    reference : Mixture
        The attractors and their covariances. It must not depend on the particles that are moved.
    step : Step
        One step for all, or one for each particle. It must not depend on the positions.
    refresh : float
        The velocity is first replaced by :math:`\sqrt{1-e^2}\,v + e\,\xi`, (S7): 1 forgets it, 0 keeps it.
    jump : float or array (n,)
        Probability of going to a component drawn by weight. With 1, and a step that forgets the position, the proposal
        is an independent draw from the reference.
    circle : Circle, optional
        Which coordinates are periodic.
    """
    n = len(state.z)
    v = np.sqrt(1 - refresh**2) * state.v + refresh * rng.standard_normal(state.v.shape)  # (S7)
    parts = log_parts(state.z, reference, circle)
    z_new, v_new = propose(state.z, v, parts, reference, step, rng, jump, circle)
    has_image = np.asarray(np.isfinite(z_new).all(axis=1, keepdims=True))
    z_new = np.where(has_image, z_new, state.z)
    log_prior = np.where(has_image.ravel(), target.log_prior(z_new), -np.inf)
    log_likelihood = np.full(n, -np.inf)
    inside = log_prior > -np.inf
    log_likelihood[inside] = target.log_likelihood(z_new[inside])
    here = tempered_density(state.log_prior, state.log_likelihood, beta) - log_sum_exp(parts, axis=1)
    there = tempered_density(log_prior, log_likelihood, beta) - log_sum_exp(log_parts(z_new, reference, circle), axis=1)
    # (S5); from a point of zero density every proposal is accepted, and a proposal of zero density never is.
    log_ratio = np.where(there > -np.inf, there - np.where(there > -np.inf, here, 0.0), -np.inf)
    probability = np.exp(np.minimum(log_ratio, 0.0))
    accepted: NDArray[np.bool_] = np.asarray(rng.random(n) < probability)
    proposal = State(z_new, v_new, log_prior, log_likelihood)
    stay = state._replace(v=-v)  # (S5), on rejection
    moved = State(
        *(np.where(accepted.reshape(n, *[1] * (b.ndim - 1)), b, a) for a, b in zip(stay, proposal, strict=True))
    )
    return moved, Moved(proposal, probability, accepted)


def tempered_density(log_prior: Floats, log_likelihood: Floats, beta: float) -> Floats:
    r"""The logarithm of :math:`p\,L^\beta`; the log prior at :math:`\beta = 0`, even if the likelihood is zero."""
    return log_prior + beta * log_likelihood if beta > 0 else log_prior


def _pick(log_p: Floats, rng: np.random.Generator) -> Indices:
    """Draw a column of each row with probability proportional to ``exp(log_p)``."""
    total = np.cumsum(np.exp(log_p - log_p.max(axis=1, keepdims=True)), axis=1)
    return np.sum(total <= rng.random((len(total), 1)) * total[:, -1:], axis=1).clip(max=log_p.shape[1] - 1)
