r"""Moves that leave a target density exactly invariant: PAO proposes, Metropolis and Hastings correct.

The *reference* :math:`\varphi` is a mixture of normal or Student-t components with attractors :math:`a_c`. In the units
of its component a particle is a damped spring whose stationary law is :math:`N(0, I)` for position and velocity alike;
its exact transition is followed for a time ``dt`` and accepted with probability

.. math:: \alpha = \min\Big(1, \frac{\pi(z')\,\varphi(z)}{\pi(z)\,\varphi(z')}\Big), \qquad v \leftarrow -v
          \text{ on rejection.}

No transition density appears: the spring is reversible up to the sign of the velocity. A target
:math:`\pi \propto p\,L^\beta` is given by its prior and likelihood. Nothing that a particle is pulled by may depend on
the particle itself: the reference is a constant, or made from others.
"""

from __future__ import annotations

from collections.abc import Callable
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

RHO = np.array([0.0, 0.5, 0.8, 0.92, 0.97, 0.99])  # correlations between which moves choose at random


class Unnormalised(Protocol):
    """What is sampled: a prior and a likelihood, by their logarithms (see `Target`)."""

    def log_prior(self, z: Floats) -> Floats:
        """Log prior density of each row, ``-inf`` outside the box."""

    def log_likelihood(self, z: Floats) -> Floats:
        """Log likelihood of each row; rows outside the box are not evaluated."""


class Step(NamedTuple):
    """One step of a spring in units in which its stationary law is N(0, I); leading axes are particles.

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
        """The steps with the given indices, from a batch of them."""
        return Step(self.A[i], self.noise[i])


class State(NamedTuple):
    """Particles: positions and velocities (n, d), and what is known at the positions (n,)."""

    z: Floats
    v: Floats
    log_prior: Floats
    log_likelihood: Floats

    def take(self, i: Indices) -> State:
        """The particles with the given indices."""
        return State(*(a[i] for a in self))


class Moved(NamedTuple):
    """What a move tried: the proposals, their probability of acceptance (n,), and whether they were accepted (n,)."""

    proposal: State
    probability: Floats
    accepted: NDArray[np.bool_]


def spring(dt: float | Floats, zeta: float | Floats) -> Step:
    r"""Step of a spring with :math:`\omega = 1` and damping ratio ``zeta > 0`` over ``dt``.

    Its stationary law is :math:`N(0, I / 4\zeta)` for unit noise, for position and velocity alike.
    """
    dt, zeta = np.broadcast_arrays(np.asarray(dt, dtype=float), np.asarray(zeta, dtype=float))
    law = exact_transition(zeta, np.ones_like(zeta), dt)
    return Step(law.A, 2 * np.sqrt(zeta)[..., None, None] * law.cholesky)


def correlated(rho: float | Floats) -> Step:
    r"""Critically damped step after which the position keeps the correlation ``rho``, from 0 to 1.

    Solves :math:`(1 + t)\,e^{-t} = \rho`. When the velocity is fresh only :math:`\rho` matters, whatever the damping.
    """
    rho = np.asarray(rho, dtype=float)
    t = -1 - np.real(lambertw(-np.where(rho > 0, rho, 1.0) / np.e, -1))
    return spring(np.where(rho > 0, np.fmax(t, 0.0), 1e3), 1.0)  # at rho = 1 rounding makes t NaN


def log_parts(z: Floats, reference: Mixture, circle: Circle | None) -> Floats:
    """Log of every component's part in the reference density (n, images * k), image by image."""
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
    r"""Where the springs take particles at `z` that have the `log_parts` `parts`: (z', v').

    A particle is lifted to :math:`z = a_c + L_c u / \sqrt\lambda`: its component by its part in the density, and
    :math:`\lambda \sim \Gamma(\frac{\nu+d}2, \frac{\nu + |L_c^{-1}(z - a_c)|^2}2)`, one for normal components.
    Then (u, v) takes the step. With probability `jump` the component and :math:`\lambda` are drawn anew as well.
    """
    n, d = z.shape
    k = len(reference.weight)
    image, c = np.divmod(_pick(parts, rng), k)
    if circle is not None:
        z = z + circle.shifts[image]
    u = np.einsum("nij,nj->ni", np.linalg.inv(reference.factor)[c], z - reference.mean[c])
    nu = reference.freedom
    root = np.ones((n, 1))
    if np.isfinite(nu):
        root = np.sqrt(rng.gamma((nu + d) / 2, size=n) * 2 / (nu + np.sum(u * u, axis=1)))[:, None]
    u = u * root
    A, H = step.A[..., None], step.noise[..., None]
    e1, e2 = rng.standard_normal((2, n, d))
    u, v = (
        A[..., 0, 0, :] * u + A[..., 0, 1, :] * v + H[..., 0, 0, :] * e1,
        A[..., 1, 0, :] * u + A[..., 1, 1, :] * v + H[..., 1, 0, :] * e1 + H[..., 1, 1, :] * e2,
    )
    if np.any(jump):
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
    r"""One Metropolis-Hastings move of every particle, which leaves :math:`p\,L^\beta \times N(0, I)` invariant.

    Parameters
    ----------
    state : State
        The particles.
    target : Unnormalised
        Prior and likelihood. A proposal outside the box is rejected without a likelihood call.
    beta : float
        Inverse temperature.
    reference : Mixture
        The attractors and their covariances; must not depend on the particles that are moved.
    step : Step
        One step for all, or one for each particle; must not depend on the positions.
    refresh : float
        The velocity is first replaced by :math:`\sqrt{1-e^2}\,v + e\,\xi`: 1 forgets it, 0 keeps it.
    jump : float or array (n,)
        Probability of going to a component drawn by weight instead of staying in one's own. With 1, and a step that
        forgets the position, the proposal is an independent draw from the reference.
    circle : Circle, optional
        Which coordinates are periodic.
    """
    n = len(state.z)
    v = np.sqrt(1 - refresh**2) * state.v + refresh * rng.standard_normal(state.v.shape)
    parts = log_parts(state.z, reference, circle)
    z_new, v_new = propose(state.z, v, parts, reference, step, rng, jump, circle)
    known = np.asarray(np.isfinite(z_new).all(axis=1, keepdims=True))
    z_new = np.where(known, z_new, state.z)
    log_prior = np.where(known.ravel(), target.log_prior(z_new), -np.inf)
    log_likelihood = np.full(n, -np.inf)
    inside = log_prior > -np.inf
    log_likelihood[inside] = target.log_likelihood(z_new[inside])
    here = tempered_density(state.log_prior, state.log_likelihood, beta) - log_sum_exp(parts, axis=1)
    there = tempered_density(log_prior, log_likelihood, beta) - log_sum_exp(log_parts(z_new, reference, circle), axis=1)
    # From a point of zero density any other is accepted; to one, none.
    log_ratio = np.where(there > -np.inf, there - np.where(there > -np.inf, here, 0.0), -np.inf)
    probability = np.exp(np.minimum(log_ratio, 0.0))
    accepted: NDArray[np.bool_] = np.asarray(rng.random(n) < probability)
    proposal = State(z_new, v_new, log_prior, log_likelihood)
    stay = state._replace(v=-v)
    moved = State(
        *(np.where(accepted.reshape(n, *[1] * (b.ndim - 1)), b, a) for a, b in zip(stay, proposal, strict=True))
    )
    return moved, Moved(proposal, probability, accepted)


def split_move(
    state: State,
    target: Unnormalised,
    beta: float,
    refer: Callable[[Floats], Mixture],
    step: Step,
    rng: np.random.Generator,
    *,
    refresh: float = 1.0,
    jump: float = 0.1,
    circle: Circle | None = None,
) -> State:
    """Move one random half of the particles by a reference made from the other half, then the other way round.

    ``refer(points)`` makes the reference, for example `fit` or `around`. Each half is moved while what pulls it stands
    still, so the joint law of independent particles is invariant, although they adapt to each other.
    """
    halves = np.array_split(rng.permutation(len(state.z)), 2)
    for movers, others in (halves, halves[::-1]):
        moved, _ = move(
            state.take(movers),
            target,
            beta,
            refer(state.z[others]),
            step,
            rng,
            refresh=refresh,
            jump=jump,
            circle=circle,
        )
        state = State(*(_put(a, movers, b) for a, b in zip(state, moved, strict=True)))
    return state


def around(points: Floats, width: float = 0.5) -> Mixture:
    r"""A normal component at each of the points, with `width` times their standard deviations: every point attracts."""
    n, d = points.shape
    covariance = np.atleast_2d(np.cov(points.T))
    factor = width * np.linalg.cholesky(covariance + 1e-9 * np.trace(covariance) / d * np.eye(d))
    return Mixture(np.full(n, 1 / n), points, np.broadcast_to(factor, (n, d, d)), np.inf)


def tempered_density(log_prior: Floats, log_likelihood: Floats, beta: float) -> Floats:
    r"""The logarithm of :math:`p\,L^\beta`; the prior at :math:`\beta = 0`, whatever the likelihood."""
    return log_prior + beta * log_likelihood if beta > 0 else log_prior


def _pick(log_p: Floats, rng: np.random.Generator) -> Indices:
    """One column of each row, by the exponentials of its entries."""
    heap = np.cumsum(np.exp(log_p - log_p.max(axis=1, keepdims=True)), axis=1)
    return np.sum(heap <= rng.random((len(heap), 1)) * heap[:, -1:], axis=1).clip(max=log_p.shape[1] - 1)


def _put(array: Floats, rows: Indices, new: Floats) -> Floats:
    """A copy of the array with some rows replaced."""
    copy = array.copy()
    copy[rows] = new
    return copy
