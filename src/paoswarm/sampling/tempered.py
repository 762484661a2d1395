r"""Waste-free tempered sequential Monte Carlo, with a plan that is adapted once and then frozen.

The path from prior to posterior is :math:`\pi_t \propto p\,L^{\beta_t}`, :math:`0 = \beta_0 < \dots < \beta_T = 1`. A
`Bridge` puts any proposal in the place of the prior. Each stage does the following:

- It weights the states by :math:`L^{\beta_t - \beta_{t-1}}`. The product of the mean weights estimates the evidence,
  (S14).
- It draws a few states by weight as starts of chains. Each chain makes ``steps - 1`` moves that leave :math:`\pi_t`
  invariant.
- It keeps *all* states (Dau and Chopin, 2022), including rejected proposals. A move from z that proposes z' with
  acceptance probability :math:`\alpha` counts as :math:`\alpha` of z' and :math:`1 - \alpha` of z, (S15).

The first pass chooses temperatures, references and steps from its own states and records them in a `Plan`. In a second
pass with that plan nothing is left to choose, and its evidence is exactly unbiased. The second pass runs as several
independent *swarms* that share only the plan. The evidence is the mean over swarms, and its error comes from their
disagreement, which includes the effect of slow mixing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import (
    FEWEST,
    effective_size,
    log_mean,
    log_mean_weight_error,
    log_sum_exp,
    next_temperature,
    normalise,
    systematic,
)
from paoswarm.sampling.densities import FIT_POINTS, SIZES, Mixture, distinct_draws, fit
from paoswarm.sampling.moves import RHO, ChainStates, Indices, Moved, correlated, move, tempered_density
from paoswarm.sampling.target import MORE, Bridge, Target

_PATIENCE = 2  # larger numbers of components in a row without a better fit, before the search ends
_SHARE = 0.5  # of the effective size, left after each rise of beta
_FREEDOM = 8.0  # degrees of freedom of the references
_JUMP = 0.1  # probability that a move draws a new component; 1 for the steps that forget the position
_FLOOR = 0.1  # share of the moves that is divided equally among the steps, regardless of their scores
_AGREEMENT = 0.7  # largest standard deviation of the swarms' log evidence for which the normal error holds
_STUCK = 0.01  # acceptance rate below which chains do not mix


class Stage(NamedTuple):
    """How to reach one temperature."""

    beta: float  # inverse temperature
    references: tuple[Mixture, ...]  # of the moves; the chains are divided among them in order
    chances: Floats  # (6,) probabilities of the steps `RHO`


Plan = tuple[Stage, ...]


class Chains(Protocol):
    """Many chains at one temperature."""

    def move(self, which: Indices, jump: Floats) -> tuple[ChainStates, Moved]:
        """Move every chain once, by the step `RHO` of this number and with this chance to jump; where they stand."""


class Cloud(NamedTuple):
    """n states of each of r swarms at one temperature."""

    z: Floats  # (r, n, d)
    log_share: Floats  # (r, n); the shares of a swarm sum to one
    log_likelihood: Floats  # (r, n)
    log_evidence: Floats  # (r,), so far

    def log_weights(self, rise: float) -> Floats:
        """Log weights (r, n) after raising beta by ``rise``; a swarm counts by its evidence."""
        return self.log_evidence[:, None] + self.risen(rise)

    def risen(self, rise: float) -> Floats:
        """Log weights (r, n) within each swarm after raising beta by ``rise``, the terms of (S14)."""
        return tempered_density(self.log_share, self.log_likelihood, rise)


def choose(cloud: Cloud, beta: float, chances: Floats, rng: np.random.Generator) -> Stage:
    """Choose the next temperature by the effective size, and fit references for it to the weighted states."""
    log_w = cloud.log_weights(0.0).ravel()
    above = next_temperature(cloud.log_likelihood.ravel(), log_w, beta, _SHARE)
    # The halves swap references: a particle must not contribute to its own.
    _, first, second = references(cloud, above - beta, rng)
    return Stage(above, (second, first), chances)


def references(cloud: Cloud, rise: float, rng: np.random.Generator) -> tuple[Mixture, Mixture, Mixture]:
    """Fit mixtures to all states and to each half; cross-validation chooses the number of components."""
    z, weights = cloud.z[0], normalise(cloud.risen(rise)[0])
    middle = int(np.searchsorted(np.cumsum(weights), 0.5))
    parts = slice(None, middle + 1), slice(middle, None)
    halves = [distinct_draws(z[part], weights[part], FIT_POINTS, rng) for part in parts]
    room = min(len(points) for points, _ in halves) / (z.shape[-1] + 2)
    best, k, failures = -math.inf, 1, 0
    chosen: list[Mixture] = []
    for size in (size for size in SIZES if size <= max(room, 1)):
        fits = [fit(points, counts, size, rng, _FREEDOM) for points, counts in halves]
        score = sum(np.average(fits[1 - i].log_density(halves[i][0]), weights=halves[i][1]) for i in (0, 1)) / 2
        if score > best + 0.01:
            best, k, failures, chosen = score, size, 0, fits
        else:
            failures += 1
        if failures == _PATIENCE:
            break
    return fit(*distinct_draws(z, weights, FIT_POINTS, rng), k, rng, _FREEDOM), chosen[0], chosen[1]


def advance(
    target: Target | Bridge,
    cloud: Cloud,
    rise: float,
    stage: Stage,
    each: int,
    steps: int,
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
    state = ChainStates(z, np.zeros_like(z), target.log_prior(z), log_likelihood)
    scale = np.std(z, axis=0)
    scale = np.where(scale > 0, scale, 1.0)  # zero if all chains start at one point
    chains = target.chains(state, stage, rng) or _ChainsHere(state, target, stage, rng)
    kept = [(state, np.ones(len(rows)))]
    score, n_tried, accepted = np.zeros(len(RHO)), np.zeros(len(RHO)), 0.0
    for _ in range(steps - 1):
        if target.n_left < len(rows):
            return None, score, accepted
        which = rng.choice(len(RHO), size=len(rows), p=stage.chances)
        jump_chance = np.where(RHO[which] == 0, 1.0, _JUMP)  # a step that forgets the position forgets the component
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

    def __init__(self, state: ChainStates, target: Target | Bridge, stage: Stage, rng: np.random.Generator) -> None:
        self._state, self._target, self._stage, self._rng = state, target, stage, rng
        self._springs = correlated(RHO)

    def move(self, which: Indices, jump: Floats) -> tuple[ChainStates, Moved]:
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


def _joined(states: Sequence[ChainStates]) -> ChainStates:
    return ChainStates(*(np.concatenate(column) for column in zip(*states, strict=True)))


def _starts(log_w: Floats, n: int, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Draw the starts of a swarm's chains by weight; a swarm without a positive weight continues with evidence zero."""
    alive = np.isfinite(log_w).any()
    return systematic(normalise(log_w) if alive else np.ones(len(log_w)), n, rng)


class TemperedResult(NamedTuple):
    """Result of one pass of `tempered`.

    The weights sum to the evidence. A swarm's weight is its own evidence; a state's share of it is proportional to its
    acceptance probability. In a pass with a plan, the evidence (not its logarithm) is unbiased, and the error follows
    from the swarms' disagreement, (S17). The error is infinite in a first or an interrupted pass.

    The diagnostics are for each stage ``beta``, ``acceptance``, ``jump`` (expected squared jump of a move per
    dimension, in variances) and ``effective_share``; ``swarm_log_evidence`` of each swarm; ``effective_size``, from the
    spread of the swarms' means; ``chains`` and ``steps``.
    """

    draws: Floats  # (n, d), in the target's coordinates
    log_weights: Floats  # (n,)
    log_likelihood: Floats  # (n,), of the target at the draws; for a `Bridge`, the log ratio of densities
    log_evidence: float
    log_evidence_error: float
    plan: Plan  # for a second pass
    complete: bool  # if not, the draws are those of the last temperature, weighted up to beta = 1
    diagnostics: dict[str, Any]


def tempered(
    target: Target | Bridge,
    rng: np.random.Generator,
    plan: Plan | None = None,
    *,
    chains: int = 96,
    steps: int = 20,
    swarms: int = 8,
    callback: Callable[[float, float], bool | None] | None = None,
) -> TemperedResult:
    """Make one pass of tempered sequential Monte Carlo; the target's ``maxfev`` is never exceeded.

    Without the ``plan`` of an earlier pass this one adapts: its evidence is only consistent, without an error. It is a
    single swarm, because a plan that is learnt from all states is worth more than an error. With a plan there are at
    least 4 independent swarms, and the number of chains (per temperature, in all swarms together) is reduced to a
    multiple of `swarms` that the budget allows. A pass costs at most ``chains * (steps + stages * (steps - 1))``
    evaluations; proposals outside the box are free. The callback gets beta and the log evidence so far after each
    stage; the pass ends if it returns True.
    """
    if swarms < 4 or steps < 2:
        raise ValueError(f"swarms must be at least 4 and steps at least 2, got {swarms} and {steps}")
    swarms = 1 if plan is None else swarms
    each = _chains_each(target, plan, chains, steps, swarms)
    cloud = _prior_cloud(target, swarms, each * steps, rng)
    chances = np.full(len(RHO), 1 / len(RHO))
    made: list[Stage] = []
    notes: list[tuple[float, float, float, float]] = []
    beta, complete = 0.0, False
    while not complete and np.isfinite(cloud.log_likelihood).any():
        stage = choose(cloud, beta, chances, rng) if plan is None else plan[len(made)]
        rise = stage.beta - beta
        moved, score, acceptance = advance(target, cloud, rise, stage, each, steps, rng)
        if moved is None:
            break
        notes.append((stage.beta, acceptance, float(score @ stage.chances), _effective_share(cloud, rise)))
        cloud, beta = moved, stage.beta
        if plan is None:
            if score.sum() > 0:
                chances = (1 - _FLOOR) * score / score.sum() + _FLOOR / len(RHO)
            # The plan is for another pass, so it may use the states of this stage.
            stage = Stage(beta, references(cloud, 0.0, rng)[:1], chances)
        made.append(stage)
        complete = beta >= 1.0
        if callback is not None and callback(beta, log_mean(cloud.log_evidence)):
            break
    return _result(cloud, 1.0 - beta, tuple(made) if plan is None else plan, complete, notes, swarms * each, steps)


def _chains_each(target: Target | Bridge, plan: Plan | None, chains: int, steps: int, swarms: int) -> int:
    """Number of chains in each swarm; raise if the budget or the plan does not allow for a pass."""
    if plan is not None and (not plan or plan[-1].beta < 1):
        raise ValueError(
            f"the plan ends at beta = {plan[-1].beta if plan else 0}: its pass was interrupted; make a complete plan"
        )
    each = max(chains // swarms, 1)
    cost = pass_cost(plan or (), steps, swarms)  # with one chain in each swarm
    if plan is not None:
        each = max(min(each, target.n_left // cost), 1)
    if each * cost > target.n_left:
        raise ValueError(
            f"{each * cost} likelihood evaluations are needed, but maxfev leaves {target.n_left}; "
            "raise maxfev, or lower steps, swarms or chains"
        )
    return each


def pass_cost(plan: Plan, steps: int = 20, swarms: int = 8) -> int:
    """Likelihood evaluations of the smallest pass with the plan."""
    return swarms * (steps + len(plan) * (steps - 1))


def pass_problem(made: TemperedResult) -> str:
    """Why the error of a pass with a plan cannot be trusted; empty if it can."""
    if not made.complete:
        return "The budget ended before the posterior was reached; raise maxfev"
    spread = float(np.std(made.diagnostics["swarm_log_evidence"], ddof=1))
    stuck = float(np.min(made.diagnostics["acceptance"]))
    if not spread < _AGREEMENT:
        return f"Independent swarms disagree about the log evidence (standard deviation {spread:.2g}); {MORE}"
    if (size := made.diagnostics["effective_size"]) < FEWEST:
        return f"The draws are worth only {size:.0f} independent ones, judging by the spread of the swarms; {MORE}"
    if stuck < _STUCK:
        return f"Only {stuck:.1%} of the moves were accepted at one of the temperatures; {MORE}"
    return ""


def _prior_cloud(target: Target | Bridge, swarms: int, n: int, rng: np.random.Generator) -> Cloud:
    z, log_likelihood = target.draw_evaluated(swarms * n, rng)
    log_share = np.full((swarms, n), -math.log(n))
    return Cloud(z.reshape(swarms, n, -1), log_share, log_likelihood.reshape(swarms, n), np.zeros(swarms))


def _effective_share(cloud: Cloud, rise: float) -> float:
    before = effective_size(cloud.log_weights(0.0).ravel())
    return effective_size(cloud.log_weights(rise).ravel()) / before if before > 0 else 0.0


def _worth(cloud: Cloud, rise: float) -> float:
    """Effective size of the states, from the spread of the swarms' means.

    It is the harmonic mean over coordinates, which shows one that mixes badly, and never more than Kish's effective
    size of the weights. A single swarm has Kish's effective size.
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
    return min(most, swarms / max(float(np.mean(apart / np.maximum(variance, 1e-300))), 1e-300))


def _result(
    cloud: Cloud,
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
    # The mean of r independent values, over its estimated error, has a t distribution with r - 1 degrees of freedom.
    error = math.inf
    if complete and swarms > 3:
        error = math.sqrt((swarms - 1) / (swarms - 3)) * log_mean_weight_error(by_swarm)  # (S17)
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
