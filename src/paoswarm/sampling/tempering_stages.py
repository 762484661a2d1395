"""One stage of tempering: choose the next temperature, and move the swarm there.

A stage weights the states, draws a few of them by weight as starts of chains, moves every chain, and keeps all states;
see `paoswarm.sampling.tempered`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import log_sum_exp, next_temperature, normalise, systematic
from paoswarm.sampling.kernels import RHO, Indices, Moved, State, Unnormalised, correlated, move, tempered_density
from paoswarm.sampling.mixture import SIZES, Mixture, distinct_draws, fit
from paoswarm.sampling.periodic_coordinates import Circle

_PATIENCE = 2  # larger numbers of components in a row without a better fit, before the search ends
_FIT_POINTS = 2000


class Stage(NamedTuple):
    """How to reach one temperature.

    Attributes
    ----------
    beta : float
        Inverse temperature.
    references : tuple of Mixture
        References of the moves; the chains are divided among them in order.
    chances : array (6,)
        Probabilities of the steps `RHO`.
    """

    beta: float
    references: tuple[Mixture, ...]
    chances: Floats


Plan = tuple[Stage, ...]


class Chains(Protocol):
    """Many chains at one temperature."""

    def move(self, which: Indices, jump: Floats) -> tuple[State, Moved]:
        """Move every chain once, by the step `RHO` of this number and with this chance to jump; where they stand."""


class Path(Unnormalised, Protocol):
    """A target that can be tempered: a likelihood, and a prior that can be drawn from (`Target` or `Bridge`)."""

    circle: Circle | None  # which coordinates are periodic

    def chains(self, state: State, stage: Stage, rng: np.random.Generator) -> Chains | None:
        """Chains that move on a device; None if they move here."""

    @property
    def n_left(self) -> int:
        """Likelihood evaluations that the budget still allows."""

    def draw_evaluated(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """``n`` independent draws from the prior, and their log likelihoods."""


class Cloud(NamedTuple):
    """States of all swarms at one temperature.

    Attributes
    ----------
    z : array (r, n, d)
        Positions of n states in each of r swarms.
    log_share : array (r, n)
        Logarithms of the shares; those of a swarm sum to one.
    log_likelihood : array (r, n)
    log_evidence : array (r,)
        Log evidence of each swarm so far.
    """

    z: Floats
    log_share: Floats
    log_likelihood: Floats
    log_evidence: Floats

    def log_weights(self, rise: float) -> Floats:
        """Log weights (r, n) after raising beta by ``rise``; a swarm counts by its evidence."""
        return self.log_evidence[:, None] + self.risen(rise)

    def risen(self, rise: float) -> Floats:
        """Log weights (r, n) within each swarm after raising beta by ``rise``, the terms of (S14)."""
        return tempered_density(self.log_share, self.log_likelihood, rise)


def choose(cloud: Cloud, beta: float, share: float, chances: Floats, freedom: float, rng: np.random.Generator) -> Stage:
    """Choose the next temperature by the effective size, and fit references for it to the weighted states."""
    log_w = cloud.log_weights(0.0).ravel()
    above = next_temperature(cloud.log_likelihood.ravel(), log_w, beta, share)
    # The halves swap references: a particle must not contribute to its own.
    _, first, second = references(cloud, above - beta, freedom, rng)
    return Stage(above, (second, first), chances)


def references(cloud: Cloud, rise: float, freedom: float, rng: np.random.Generator) -> tuple[Mixture, Mixture, Mixture]:
    """Fit mixtures to all states and to each half; cross-validation chooses the number of components."""
    z, weights = cloud.z[0], normalise(cloud.risen(rise)[0])
    middle = int(np.searchsorted(np.cumsum(weights), 0.5))
    parts = slice(None, middle + 1), slice(middle, None)
    halves = [distinct_draws(z[part], weights[part], _FIT_POINTS, rng) for part in parts]
    room = min(len(points) for points, _ in halves) / (z.shape[-1] + 2)
    best, k, failures = -math.inf, 1, 0
    chosen: list[Mixture] = []
    for size in (size for size in SIZES if size <= max(room, 1)):
        fits = [fit(points, counts, size, rng, freedom) for points, counts in halves]
        score = sum(np.average(fits[1 - i].log_density(halves[i][0]), weights=halves[i][1]) for i in (0, 1)) / 2
        if score > best + 0.01:
            best, k, failures, chosen = score, size, 0, fits
        else:
            failures += 1
        if failures == _PATIENCE:
            break
    return fit(*distinct_draws(z, weights, _FIT_POINTS, rng), k, rng, freedom), chosen[0], chosen[1]


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
    """Weight, resample and move the states to the stage's temperature.

    Returns the new cloud (None if the budget ends first), the mean squared jump of each of the steps `RHO` (in
    variances per dimension), and the acceptance rate.
    """
    swarms, n, d = cloud.z.shape
    log_w = cloud.risen(rise)
    rows = np.concatenate([r * n + _starts(row, each, rng) for r, row in enumerate(log_w)])
    z, log_likelihood = cloud.z.reshape(-1, d)[rows], cloud.log_likelihood.ravel()[rows]
    state = State(z, np.zeros_like(z), target.log_prior(z), log_likelihood)
    scale = np.std(z, axis=0)
    scale = np.where(scale > 0, scale, 1.0)  # zero if all chains start at one point
    chains = target.chains(state, stage, rng) or _ChainsHere(state, target, stage, rng)
    kept = [(state, np.ones(len(rows)))]
    score, n_tried, accepted = np.zeros(len(RHO)), np.zeros(len(RHO)), 0.0
    for _ in range(steps - 1):
        if target.n_left < len(rows):
            return None, score, accepted
        which = rng.choice(len(RHO), size=len(rows), p=stage.chances)
        jump_chance = np.where(RHO[which] == 0, 1.0, jump)  # a step that forgets the position forgets the component
        new, tried = chains.move(which, jump_chance)
        kept += [(state, 1 - tried.probability), (tried.proposal, tried.probability)]  # (S15)
        squared = tried.probability * np.mean(((tried.proposal.z - state.z) / scale) ** 2, axis=1)
        score += np.bincount(which, squared, len(RHO))
        n_tried += np.bincount(which, minlength=len(RHO))
        accepted += float(np.mean(tried.accepted)) / (steps - 1)
        state = new
    # Ordered by chain: systematic resampling keeps the order, so the halves of a swarm stay independent.
    z, share, log_likelihood = (
        np.stack(column, axis=1).reshape(swarms, -1, *column[0].shape[1:])
        for column in zip(*((s.z, p, s.log_likelihood) for s, p in kept), strict=True)
    )
    with np.errstate(divide="ignore"):
        log_share = np.log(share / (each * steps))  # (S15)
    log_evidence = cloud.log_evidence + log_sum_exp(log_w, axis=1)  # (S14)
    moved = Cloud(z, log_share, log_likelihood, log_evidence)
    return moved, score / np.maximum(n_tried, 1), accepted


class _ChainsHere:
    """Chains that NumPy moves."""

    def __init__(self, state: State, target: Path, stage: Stage, rng: np.random.Generator) -> None:
        self._state, self._target, self._stage, self._rng = state, target, stage, rng
        self._springs = correlated(RHO)

    def move(self, which: Indices, jump: Floats) -> tuple[State, Moved]:
        """Make one move of all chains, each by the reference of its group."""
        references = self._stage.references
        groups = np.array_split(np.arange(len(self._state.z)), len(references))
        step = self._springs.take(which)
        parts = [
            move(
                self._state.take(group),
                self._target,
                self._stage.beta,
                reference,
                step.take(group),
                self._rng,
                jump=jump[group],
                circle=self._target.circle,
            )
            for group, reference in zip(groups, references, strict=True)
        ]
        states, records = zip(*parts, strict=True)
        self._state, proposal = _joined(states), _joined([record.proposal for record in records])
        others = zip(*(record[1:] for record in records), strict=True)
        return self._state, Moved(proposal, *(np.concatenate(column) for column in others))


def _joined(states: Sequence[State]) -> State:
    return State(*(np.concatenate(column) for column in zip(*states, strict=True)))


def _starts(log_w: Floats, n: int, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Draw the starts of a swarm's chains by weight; a swarm without a positive weight continues with evidence zero."""
    alive = np.isfinite(log_w).any()
    return systematic(normalise(log_w) if alive else np.ones(len(log_w)), n, rng)
