r"""Tempered sequential Monte Carlo, waste-free, with a plan that is adapted once and then frozen.

From prior to posterior by :math:`\pi_t \propto p\,L^{\beta_t}`, :math:`0 = \beta_0 < \dots < \beta_T = 1`; a `Bridge`
makes any proposal take the place of the prior. At each stage the states are weighted by
:math:`L^{\beta_t - \beta_{t-1}}`, a few are drawn by weight as starts of chains, each makes ``steps - 1`` moves that
leave :math:`\pi_t` invariant, and *all* states are kept (Dau and Chopin, 2022), rejected proposals too: a move from z
that proposes z' with probability of acceptance :math:`\alpha` counts as :math:`\alpha` of z' and :math:`1 - \alpha` of
z, its expectation. The product of the mean weights estimates the evidence.

The first pass chooses temperatures, references and steps from its own states and records them: a `Plan`. A second pass
with the plan has nothing left to choose, and its evidence is exactly unbiased. It runs as several *swarms* that share
the plan and nothing else: the evidence is the mean of theirs, and its error is read off their disagreement, which
includes whatever the chains failed to forget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from paoswarm.core.weights import (
    Floats,
    effective_size,
    log_mean,
    log_mean_weight_error,
    log_sum_exp,
    next_temperature,
    normalise,
    systematic,
)
from paoswarm.sampling.circle import Circle
from paoswarm.sampling.kernels import Moved, State, Step, Unnormalised, correlated, move
from paoswarm.sampling.mixture import SIZES, Mixture, fit

RHO = np.array([0.0, 0.5, 0.8, 0.92, 0.97, 0.99])  # correlations between which the moves choose at random
_PATIENCE = 2  # numbers of components in a row that may fail to help
_FLOOR = 0.1  # of the moves are made whatever the scores say
_FIT_POINTS = 2000
_AGREEMENT = 0.7  # standard deviation of the swarms' log evidence up to which their mean has a normal error
_FEWEST = 20  # effective draws
_STUCK = 0.01  # acceptance below which chains forget nothing


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


class TemperedResult(NamedTuple):
    """What a pass of `tempered` has found.

    Attributes
    ----------
    draws : array (n, d)
        Draws from the posterior, in the target's coordinates, with the weights ``exp(log_weights)``.
    log_weights : array (n,)
        They sum to the evidence. A swarm's weight is its own evidence, a state's share of it the probability of having
        been accepted.
    log_likelihood : array (n,)
        The likelihood of the path at the draws: for a `Bridge` a ratio of densities.
    log_evidence, log_evidence_error : float
        In a pass with a plan the evidence (not its logarithm) is unbiased, and the error is the standard deviation of
        the Student-t law that the swarms' disagreement implies. Infinite in a first or an interrupted pass.
    plan : tuple of Stage
        For a second pass.
    complete : bool
        Whether the posterior was reached. Otherwise the draws are those of the last temperature, weighted up to one.
    diagnostics : dict
        ``beta``, ``acceptance``, ``jump`` (expected squared jump of a move per dimension, in variances) and
        ``effective_share`` of each stage, ``swarm_log_evidence`` of each swarm, ``effective_size`` by how far their
        means lie apart, ``chains`` and ``steps``.
    """

    draws: Floats
    log_weights: Floats
    log_likelihood: Floats
    log_evidence: float
    log_evidence_error: float
    plan: Plan
    complete: bool
    diagnostics: dict[str, Any]


class _Cloud(NamedTuple):
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


def tempered(
    target: Path,
    rng: np.random.Generator,
    plan: Plan | None = None,
    *,
    chains: int = 96,
    steps: int = 20,
    swarms: int = 8,
    share: float = 0.5,
    freedom: float = 8.0,
    jump: float = 0.1,
    callback: Callable[[float, float], bool | None] | None = None,
) -> TemperedResult:
    """Posterior draws and evidence by tempered sequential Monte Carlo: one pass.

    Parameters
    ----------
    target : Target or Bridge
        Prior and likelihood; its ``maxfev`` is kept to.
    plan : tuple of Stage, optional
        The plan of an earlier pass. Without one this pass adapts: its evidence is only consistent, and has no error.
    chains, steps : int
        Chains per temperature, in all swarms together, and states per chain. With a plan there are as many chains as
        the swarms can share equally and the budget can pay.
    swarms : int
        Independent swarms of a pass with a plan, four at least. A first pass is one swarm: what it learns from all its
        states is worth more than an error.
    share : float
        Part of the effective size that is left by a rise in temperature.
    freedom : float
        Degrees of freedom of the references.
    jump : float
        Probability that a move goes to another component; one for the steps that keep nothing of the position.
    callback : callable, optional
        Called with beta and the log evidence so far after each stage; the pass ends when it returns True.

    Notes
    -----
    The cost is at most ``chains * (steps + stages * (steps - 1))`` evaluations; proposals outside the box are free.
    """
    if swarms < 4 or steps < 2:
        raise ValueError(f"swarms must be at least 4 and steps at least 2, got {swarms} and {steps}")
    if plan is not None and (not plan or plan[-1].beta < 1):
        raise ValueError(
            f"the plan ends at beta = {plan[-1].beta if plan else 0}: it was interrupted; make a complete one"
        )
    swarms = 1 if plan is None else swarms
    each = max(chains // swarms, 1)
    cost = pass_cost(plan or (), steps, swarms)  # for one chain in each swarm
    if plan is not None:
        each = max(min(each, target.n_left // cost), 1)
    if each * cost > target.n_left:
        raise ValueError(
            f"{each * cost} likelihood evaluations are needed, maxfev leaves {target.n_left}: "
            "raise maxfev, or lower steps, swarms or chains"
        )
    cloud = _prior_cloud(target, swarms, each * steps, rng)
    chances = np.full(len(RHO), 1 / len(RHO))
    made: list[Stage] = []
    notes: list[tuple[float, float, float, float]] = []
    beta, complete = 0.0, False
    while not complete and np.isfinite(cloud.log_likelihood).any():
        stage = _choose(cloud, beta, share, chances, freedom, rng) if plan is None else plan[len(made)]
        rise = stage.beta - beta
        moved, score, acceptance = _advance(target, cloud, rise, stage, each, steps, jump, rng)
        if moved is None:
            break
        notes.append((stage.beta, acceptance, float(score @ stage.chances), _effective_share(cloud, rise)))
        cloud, beta = moved, stage.beta
        if plan is None:
            if score.sum() > 0:
                chances = (1 - _FLOOR) * score / score.sum() + _FLOOR / len(RHO)
            # The plan is for another pass: it may know what this stage has seen.
            stage = Stage(beta, _references(cloud, 0.0, freedom, rng)[:1], chances)
        made.append(stage)
        complete = beta >= 1.0
        if callback is not None and callback(beta, log_mean(cloud.log_evidence)):
            break
    return _result(cloud, 1.0 - beta, tuple(made) if plan is None else plan, complete, notes, swarms * each, steps)


def pass_cost(plan: Plan, steps: int = 20, swarms: int = 8) -> int:
    """Likelihood evaluations that the smallest pass with the plan needs."""
    return swarms * (steps + len(plan) * (steps - 1))


def doubt(made: TemperedResult) -> str:
    """Why the error of a pass with a plan cannot be trusted; empty where it can."""
    if not made.complete:
        return "the budget ended before the posterior was reached; raise maxfev"
    spread = float(np.std(made.diagnostics["swarm_log_evidence"], ddof=1))
    stuck = float(np.min(made.diagnostics["acceptance"]))
    if not spread < _AGREEMENT:
        return f"independent swarms disagree about the log evidence (standard deviation {spread:.2g}); raise maxfev"
    if (size := made.diagnostics["effective_size"]) < _FEWEST:
        return f"the draws are worth only {size:.0f} independent ones, by how far the swarms lie apart; raise maxfev"
    if stuck < _STUCK:
        return f"hardly any move was accepted at one of the temperatures ({stuck:.1%}); raise maxfev"
    return ""


def _prior_cloud(target: Path, swarms: int, n: int, rng: np.random.Generator) -> _Cloud:
    z = target.draw_prior(swarms * n, rng)
    log_likelihood = target.log_likelihood(z).reshape(swarms, n)
    return _Cloud(z.reshape(swarms, n, -1), np.full((swarms, n), -math.log(n)), log_likelihood, np.zeros(swarms))


def _choose(
    cloud: _Cloud, beta: float, share: float, chances: Floats, freedom: float, rng: np.random.Generator
) -> Stage:
    """The next temperature by the effective size, and a reference for it by the weighted states."""
    log_w = cloud.log_weights(0.0).ravel()
    above = next_temperature(cloud.log_likelihood.ravel(), log_w, beta, share)
    # Each half of the chains is moved by what the other half knows: a particle must not make its own reference.
    _, first, second = _references(cloud, above - beta, freedom, rng)
    return Stage(above, (second, first), chances)


def _references(
    cloud: _Cloud, rise: float, freedom: float, rng: np.random.Generator
) -> tuple[Mixture, Mixture, Mixture]:
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


def _advance(
    target: Path,
    cloud: _Cloud,
    rise: float,
    stage: Stage,
    each: int,
    steps: int,
    jump: float,
    rng: np.random.Generator,
) -> tuple[_Cloud | None, Floats, float]:
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
    moved = _Cloud(z, log_share, log_likelihood, log_evidence)
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


def _effective_share(cloud: _Cloud, rise: float) -> float:
    before = effective_size(cloud.log_weights(0.0).ravel())
    return effective_size(cloud.log_weights(rise).ravel()) / before if before > 0 else 0.0


def _worth(cloud: _Cloud, rise: float) -> float:
    """How many independent draws the states are worth.

    By how far the means of the swarms lie apart, in the median over coordinates, but never more than the weights say;
    by the weights alone where there is only one swarm.
    """
    log_w = cloud.log_weights(rise)
    most = effective_size(log_w.ravel())
    swarms = len(log_w)
    if swarms == 1 or not np.isfinite(log_w.max(axis=1)).all():
        return most
    weight = np.stack([normalise(row) for row in log_w])
    mean = np.einsum("rn,rnd->rd", weight, cloud.z)
    variance = np.einsum("rn,rnd->d", weight, (cloud.z - mean.mean(axis=0)) ** 2) / swarms
    apart = mean.var(axis=0, ddof=1)
    return min(most, swarms * float(np.median(variance / np.maximum(apart, 1e-300))))


def _result(
    cloud: _Cloud,
    rise: float,
    plan: Plan,
    complete: bool,
    notes: list[tuple[float, float, float, float]],
    chains: int,
    steps: int,
) -> TemperedResult:
    swarms = len(cloud.z)
    log_weights = cloud.log_weights(rise) - math.log(swarms)
    by_swarm = log_sum_exp(log_weights, axis=1) + math.log(swarms)
    # The mean of r independent values over its estimated error is t with r - 1 degrees of freedom.
    error = math.inf
    if complete and swarms > 3:
        error = math.sqrt((swarms - 1) / (swarms - 3)) * log_mean_weight_error(by_swarm)
    columns = np.array(notes).reshape(-1, 4).T
    diagnostics: dict[str, Any] = dict(zip(("beta", "acceptance", "jump", "effective_share"), columns, strict=True))
    diagnostics |= {"swarm_log_evidence": by_swarm, "chains": chains, "steps": steps}
    diagnostics["effective_size"] = _worth(cloud, rise)
    counts = log_weights > -np.inf
    return TemperedResult(
        cloud.z[counts],
        log_weights[counts],
        cloud.log_likelihood[counts],
        log_mean(by_swarm),
        error,
        plan,
        complete,
        diagnostics,
    )
