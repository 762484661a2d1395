"""From what was drawn to a `Posterior`: what is known, what is wrong or may be, and what to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, log_sum_exp, normalise, pareto_k
from paoswarm.sampling.adapt import Frozen
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.importance import Production
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.target import NOISY, Target


def verdict(target: Target, made: Production, wanted: int) -> str:
    """What is wrong with a production: its weights, or that they are fewer than were asked for or predicted."""
    is_spent = target.maxfev is not None and target.n_left < 0.2 * target.maxfev  # draws outside a box cost nothing
    few = f"{made.effective_size:.0f} of {wanted} effective draws"
    if made.cut_short is not None:
        doubt = f"; {made.message}" if made.message else ""
        return f"{made.cut_short.why or 'interrupted'}: these are {few}{doubt}"
    if made.message:
        return made.message
    if made.widened > 1:
        return (
            f"the weights are less even than was predicted, so these are {few}, and the error is widened "
            f"{made.widened:.1f} times, since some of the posterior may be badly covered; "
            f"{'raise maxfev' if is_spent else 'ask for more (n_effective=)'}"
        )
    if made.effective_size > (0.9 if is_spent else 0.75) * wanted:
        return ""
    if not is_spent:
        return f"the weights are less even than was predicted, so these are {few}; ask for more (n_effective=)"
    return f"maxfev={target.maxfev} was enough for {few}"


def with_caveat(doubt: str, frozen: Frozen) -> str:
    """The doubt, and why modes may be missing, if that is known."""
    advice = "raise n_particles or maxfev, or give points near the modes as start="
    return "; ".join([*([doubt] if doubt else []), *([frozen.incomplete, advice] if frozen.incomplete else [])])


def found(target: Target, frozen: Frozen) -> dict[str, Any]:
    """What the adaptation knows."""
    arrived = [mode for mode in frozen.modes if mode.is_peak] or [mode for mode in frozen.modes if mode.is_settled]
    modes = np.array([mode.z for mode in arrived]).reshape(-1, target.dim)
    return {
        "predicted_efficiency": frozen.predicted_efficiency,
        "noise": target.noise,
        "modes": target.parameters(modes),
        "climbs": np.array([mode.n_climbs for mode in arrived], dtype=int),
        "search_settled": not frozen.incomplete,
        **frozen.diagnostics,
    }


def from_pool(target: Target, pool: Pool, why: str) -> Posterior:
    """What an interrupted run knows: the adaptation's own draws, whose evidence is biased."""
    log_w = pool.log_weight(1.0)
    diagnostics = {"pareto_k": pareto_k(log_w), "effective_size": effective_size(log_w)}
    message = f"{why}: these draws of the adaptation were also used to fit the proposal, so no error is stated"
    evidence = float(log_sum_exp(log_w))
    return make_posterior(
        target, pool.z, log_w, pool.log_likelihood, evidence, math.inf, "interrupted", diagnostics, message
    )


def make_posterior(
    target: Target,
    z: Floats,
    log_weights: Floats,
    log_likelihood: Floats,
    log_evidence: float,
    error: float,
    method: str,
    diagnostics: dict[str, Any],
    doubt: str,
) -> Posterior:
    """The posterior of draws ``z``; with what is wrong with the prior or the likelihood, where it shows."""
    kept = np.isfinite(log_weights)
    if not kept.any():
        raise ValueError("no draw has a positive likelihood: raise maxfev, or give points near a mode as start=")
    x = target.parameters(z[kept])
    weights = normalise(log_weights[kept])
    doubts = [doubt] if doubt else []
    if weights[target.prior.strained(z[kept])].sum() > 1e-3:
        error = math.inf
        doubts.insert(
            0,
            "the posterior lies so far in a tail of the prior that the prior's quantiles end there, so no error is "
            "stated; choose a wider prior",
        )
    if target.noise > NOISY:
        error = math.inf
        doubts.insert(
            0,
            f"log_likelihood is noisy: at one point it gave values that differ by {target.noise:.2g}, but all are "
            "taken for exact, so no error is stated",
        )
    if names := target.prior.pressed(z[kept], weights):
        doubts.append(
            f"the posterior of {', '.join(names)} is pressed against a wall of the prior: is the wall meant, and is "
            "the sign of the log likelihood right?"
        )
    return Posterior(
        names=target.prior.names,
        draws=target.prior.gathered(x, weights),
        log_weights=log_weights[kept],
        log_likelihood=log_likelihood[kept],
        log_prior=target.prior.parameter_log_density(x),
        log_evidence=log_evidence,
        log_evidence_error=error,
        n_evaluations=target.n_evaluations,
        n_failed=target.n_failed,
        method=method,
        diagnostics=diagnostics,
        success=not doubts,
        message="; ".join([*doubts, *_unseen(diagnostics)]),
    )


def _unseen(diagnostics: dict[str, Any]) -> list[str]:
    """How small a basin no first draw may have hit, where the search was complete but for that."""
    if not diagnostics.get("search_settled", False):
        return []
    share = f"{100 * diagnostics['unseen']:.2g} % of the prior"
    return [
        f"a mode with a basin of less than {share} may be missing; more first draws (n_particles=) find smaller ones"
    ]
