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
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import (
    FEWEST,
    effective_size,
    log_mean,
    log_mean_weight_error,
    log_sum_exp,
    normalise,
)
from paoswarm.sampling.kernels import RHO
from paoswarm.sampling.target import MORE
from paoswarm.sampling.tempering_stages import Cloud, Path, Plan, Stage, advance, choose, references

_FLOOR = 0.1  # share of the moves that is divided equally among the steps, regardless of their scores
_AGREEMENT = 0.7  # largest standard deviation of the swarms' log evidence for which the normal error holds
_STUCK = 0.01  # acceptance rate below which chains do not mix


class TemperedResult(NamedTuple):
    """Result of one pass of `tempered`.

    Attributes
    ----------
    draws : array (n, d)
        Draws from the posterior, in the target's coordinates, with the weights ``exp(log_weights)``.
    log_weights : array (n,)
        The weights sum to the evidence. A swarm's weight is its own evidence; a state's share of it is proportional to
        its acceptance probability.
    log_likelihood : array (n,)
        Log likelihood of the target at the draws; for a `Bridge`, the log ratio of densities.
    log_evidence, log_evidence_error : float
        In a pass with a plan, the evidence (not its logarithm) is unbiased, and the error follows from the swarms'
        disagreement, (S17). The error is infinite in a first or an interrupted pass.
    plan : tuple of Stage
        The plan for a second pass.
    complete : bool
        Whether the posterior was reached. If not, the draws are those of the last temperature, weighted up to beta = 1.
    diagnostics : dict
        For each stage ``beta``, ``acceptance``, ``jump`` (expected squared jump of a move per dimension, in variances)
        and ``effective_share``; ``swarm_log_evidence`` of each swarm; ``effective_size``, from the spread of the
        swarms' means; ``chains`` and ``steps``.
    """

    draws: Floats
    log_weights: Floats
    log_likelihood: Floats
    log_evidence: float
    log_evidence_error: float
    plan: Plan
    complete: bool
    diagnostics: dict[str, Any]


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
    """Make one pass of tempered sequential Monte Carlo.

    Parameters
    ----------
    target : Target or Bridge
        Prior and likelihood; its ``maxfev`` is never exceeded.
    plan : tuple of Stage, optional
        The plan of an earlier pass. Without a plan this pass adapts: its evidence is only consistent, without an error.
    chains, steps : int
        Chains per temperature in all swarms together, and states per chain. With a plan, the number of chains is
        reduced to a multiple of `swarms` that the budget allows.
    swarms : int
        Number of independent swarms in a pass with a plan, at least 4. A first pass is a single swarm, because a plan
        that is learnt from all states is worth more than an error.
    share : float
        Share of the effective size that is left after each rise of beta.
    freedom : float
        Degrees of freedom of the references.
    jump : float
        Probability that a move draws a new component; 1 for the steps that forget the position.
    callback : callable, optional
        Called after each stage with beta and the log evidence so far; the pass ends if it returns True.

    Notes
    -----
    A pass costs at most ``chains * (steps + stages * (steps - 1))`` evaluations; proposals outside the box are free.
    """
    if swarms < 4 or steps < 2:
        raise ValueError(f"swarms must be at least 4 and steps at least 2, got {swarms} and {steps}")
    if plan is not None and (not plan or plan[-1].beta < 1):
        raise ValueError(
            f"the plan ends at beta = {plan[-1].beta if plan else 0}: its pass was interrupted; make a complete plan"
        )
    swarms = 1 if plan is None else swarms
    each = max(chains // swarms, 1)
    cost = pass_cost(plan or (), steps, swarms)  # with one chain in each swarm
    if plan is not None:
        each = max(min(each, target.n_left // cost), 1)
    if each * cost > target.n_left:
        raise ValueError(
            f"{each * cost} likelihood evaluations are needed, but maxfev leaves {target.n_left}; "
            "raise maxfev, or lower steps, swarms or chains"
        )
    cloud = _prior_cloud(target, swarms, each * steps, rng)
    chances = np.full(len(RHO), 1 / len(RHO))
    made: list[Stage] = []
    notes: list[tuple[float, float, float, float]] = []
    beta, complete = 0.0, False
    while not complete and np.isfinite(cloud.log_likelihood).any():
        stage = choose(cloud, beta, share, chances, freedom, rng) if plan is None else plan[len(made)]
        rise = stage.beta - beta
        moved, score, acceptance = advance(target, cloud, rise, stage, each, steps, jump, rng)
        if moved is None:
            break
        notes.append((stage.beta, acceptance, float(score @ stage.chances), _effective_share(cloud, rise)))
        cloud, beta = moved, stage.beta
        if plan is None:
            if score.sum() > 0:
                chances = (1 - _FLOOR) * score / score.sum() + _FLOOR / len(RHO)
            # The plan is for another pass, so it may use the states of this stage.
            stage = Stage(beta, references(cloud, 0.0, freedom, rng)[:1], chances)
        made.append(stage)
        complete = beta >= 1.0
        if callback is not None and callback(beta, log_mean(cloud.log_evidence)):
            break
    return _result(cloud, 1.0 - beta, tuple(made) if plan is None else plan, complete, notes, swarms * each, steps)


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


def _prior_cloud(target: Path, swarms: int, n: int, rng: np.random.Generator) -> Cloud:
    z, log_likelihood = target.draw_evaluated(swarms * n, rng)
    log_share = np.full((swarms, n), -math.log(n))
    return Cloud(z.reshape(swarms, n, -1), log_share, log_likelihood.reshape(swarms, n), np.zeros(swarms))


def _effective_share(cloud: Cloud, rise: float) -> float:
    before = effective_size(cloud.log_weights(0.0).ravel())
    return effective_size(cloud.log_weights(rise).ravel()) / before if before > 0 else 0.0


def _worth(cloud: Cloud, rise: float) -> float:
    """Effective size of the states, from the spread of the swarms' means.

    It is the median over coordinates, and never more than Kish's effective size of the weights. A single swarm has
    Kish's effective size.
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
