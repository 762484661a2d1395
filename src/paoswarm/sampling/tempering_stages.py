r"""One temperature of a tempered swarm: how it is chosen, and how the swarm gets there.

At each stage the states are weighted, a few are drawn by weight as starts of chains, every chain is moved, and all
states are kept; see `paoswarm.sampling.tempered`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import log_sum_exp, next_temperature, normalise, systematic
from paoswarm.sampling.kernels import RHO, Moved, State, Step, Unnormalised, correlated, move
from paoswarm.sampling.mixture import SIZES, Mixture, fit
from paoswarm.sampling.periodic_coordinates import Circle

_PATIENCE = 2  # numbers of components in a row that may fail to help
_FIT_POINTS = 2000


class Stage(NamedTuple):
    """How to reach one temperature.

    ``beta``, the ``references`` of the moves, among which the chains are divided in order, and the ``chances (6,)`` of
    the steps `RHO`.
    """

    beta: float
    references: tuple[Mixture, ...]
    chances: Floats


Plan = tuple[Stage, ...]


class Path(Unnormalised, Protocol):
    """What leads to the posterior: a prior that can be drawn from, and a likelihood (`Target` or `Bridge`)."""

    circle: Circle | None  # which coordinates are periodic

    @property
    def n_left(self) -> int:
        """Likelihood evaluations that may still be made."""

    def draw_prior(self, n: int, rng: np.random.Generator) -> Floats:
        """``n`` independent draws."""


class Cloud(NamedTuple):
    """States of all swarms at one temperature: ``z (r, n, d)``, the rest ``(r, n)``, but the evidence so far ``(r,)``.

    The shares of a swarm's states sum to one.
    """

    z: Floats
    log_share: Floats
    log_likelihood: Floats
    log_evidence: Floats

    def log_weights(self, rise: float) -> Floats:
        """Log weights (r, n) after raising the temperature: a swarm counts by its evidence."""
        return self.log_evidence[:, None] + self.risen(rise)

    def risen(self, rise: float) -> Floats:
        """Log weights (r, n) within each swarm."""
        return self.log_share + rise * self.log_likelihood if rise > 0 else self.log_share


def choose(cloud: Cloud, beta: float, share: float, chances: Floats, freedom: float, rng: np.random.Generator) -> Stage:
    """The next temperature by the effective size, and a reference for it by the weighted states."""
    log_w = cloud.log_weights(0.0).ravel()
    above = next_temperature(cloud.log_likelihood.ravel(), log_w, beta, share)
    # Each half of the chains is moved by what the other half knows: a particle must not make its own reference.
    _, first, second = references(cloud, above - beta, freedom, rng)
    return Stage(above, (second, first), chances)


def references(cloud: Cloud, rise: float, freedom: float, rng: np.random.Generator) -> tuple[Mixture, Mixture, Mixture]:
    """Mixtures for all states and for each half, as many components as best predict the half not fitted to."""
    z, weights = cloud.z[0], normalise(cloud.risen(rise)[0])
    middle = int(np.searchsorted(np.cumsum(weights), 0.5))
    halves = [_drawn(z[i], weights[i], rng) for i in (slice(None, middle + 1), slice(middle, None))]
    room = min(len(points) for points, _ in halves) / (z.shape[-1] + 2)
    best, k, failures = -math.inf, 1, 0
    chosen: list[Mixture] = []
    for many in (number for number in SIZES if number <= max(room, 1)):
        known = [fit(points, counts, many, rng, freedom) for points, counts in halves]
        gain = sum(np.average(known[1 - i].log_density(halves[i][0]), weights=halves[i][1]) for i in (0, 1)) / 2
        if gain > best + 0.01:
            best, k, failures, chosen = gain, many, 0, known
        else:
            failures += 1
        if failures == _PATIENCE:
            break
    return fit(*_drawn(z, weights, rng), k, rng, freedom), chosen[0], chosen[1]


def _drawn(z: Floats, weights: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Distinct points and how often each was drawn by weight."""
    rows, counts = np.unique(systematic(weights, _FIT_POINTS, rng), return_counts=True)
    return z[rows], counts.astype(float)


def advance(
    target: Path,
    cloud: Cloud,
    rise: float,
    stage: Stage,
    each: int,
    steps: int,
    jump: float,
    rng: np.random.Generator,
) -> tuple[Cloud | None, Floats, float]:
    """Weight, resample and move: the cloud at the stage's temperature, None if the budget does not allow it.

    Also the mean squared jump of each of the steps `RHO`, in variances per dimension, and the rate of acceptance.
    """
    swarms, n, d = cloud.z.shape
    log_w = cloud.risen(rise)
    rows = np.concatenate([r * n + _starts(row, each, rng) for r, row in enumerate(log_w)])
    z, log_likelihood = cloud.z.reshape(-1, d)[rows], cloud.log_likelihood.ravel()[rows]
    state = State(z, np.zeros_like(z), target.log_prior(z), log_likelihood)
    scale = np.std(z, axis=0)
    scale = np.where(scale > 0, scale, 1.0)  # all chains may start at one point
    springs = correlated(RHO)
    kept = [(state, np.ones(len(rows)))]
    score, tried, accepted = np.zeros(len(RHO)), np.zeros(len(RHO)), 0.0
    for _ in range(steps - 1):
        if target.n_left < len(rows):
            return None, score, accepted
        which = rng.choice(len(RHO), size=len(rows), p=stage.chances)
        far = np.where(RHO[which] == 0, 1.0, jump)  # a step that forgets the place forgets the component too
        new, did = _moved(state, target, stage, springs.take(which), far, rng)
        kept += [(state, 1 - did.probability), (did.proposal, did.probability)]
        gain = did.probability * np.mean(((did.proposal.z - state.z) / scale) ** 2, axis=1)
        score += np.bincount(which, gain, len(RHO))
        tried += np.bincount(which, minlength=len(RHO))
        accepted += float(np.mean(did.accepted)) / (steps - 1)
        state = new
    # Chain by chain: resampling keeps the order, so that the first half of a swarm and the second stay strangers.
    z, share, log_likelihood = (
        np.stack(column, axis=1).reshape(swarms, -1, *column[0].shape[1:])
        for column in zip(*((s.z, p, s.log_likelihood) for s, p in kept), strict=True)
    )
    with np.errstate(divide="ignore"):
        log_share = np.log(share / (each * steps))
    log_evidence = cloud.log_evidence + log_sum_exp(log_w, axis=1)
    moved = Cloud(z, log_share, log_likelihood, log_evidence)
    return moved, score / np.maximum(tried, 1), accepted


def _moved(
    state: State, target: Path, stage: Stage, step: Step, jump: Floats, rng: np.random.Generator
) -> tuple[State, Moved]:
    """One move of all chains, each by the reference of its group."""
    groups = np.array_split(np.arange(len(state.z)), len(stage.references))
    parts = [
        move(
            state.take(group),
            target,
            stage.beta,
            reference,
            step.take(group),
            rng,
            jump=jump[group],
            circle=target.circle,
        )
        for group, reference in zip(groups, stage.references, strict=True)
    ]
    news, dids = zip(*parts, strict=True)
    proposal = _joined([did.proposal for did in dids])
    return _joined(news), Moved(
        proposal, *(np.concatenate(column) for column in zip(*(d[1:] for d in dids), strict=True))
    )


def _joined(states: Sequence[State]) -> State:
    return State(*(np.concatenate(column) for column in zip(*states, strict=True)))


def _starts(log_w: Floats, n: int, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Where a swarm's chains start; a swarm without any positive weight goes on with evidence zero."""
    alive = np.isfinite(log_w).any()
    return systematic(normalise(log_w) if alive else np.ones(len(log_w)), n, rng)
