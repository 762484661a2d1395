"""Assemble a `Posterior` from draws: collect diagnostics, and say what is wrong and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, log_sum_exp, normalise, pareto_k
from paoswarm.sampling.adapt import Frozen
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.importance import Production
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.target import NOISY, Target
from paoswarm.sampling.weighted_draws import WeightedDraws


def production_problems(target: Target, made: Production, wanted: int) -> list[str]:
    """Problems of a production: bad weights, or fewer effective draws than wanted."""
    is_spent = target.maxfev is not None and target.n_left < 0.2 * target.maxfev  # draws outside a box cost nothing
    size = f"{made.effective_size:.0f} of {wanted} effective draws"
    if made.cut_short is not None:
        why = made.cut_short.why.rstrip(".") or "Interrupted"
        return [f"{why}: the result has {size}", *([made.message] if made.message else [])]
    if made.message:
        return [made.message]
    if made.widened > 1:
        return [
            f"The weights are less even than predicted ({size}), so part of the posterior may be poorly covered, and "
            f"the error is widened {made.widened:.1f} times; raise {'maxfev' if is_spent else 'n_effective'}"
        ]
    if made.effective_size > (0.9 if is_spent else 0.75) * wanted:
        return []
    if is_spent:
        return [f"maxfev={target.maxfev} was enough for {size}; raise it for more"]
    return [f"The weights are less even than predicted ({size}); raise n_effective"]


def search_problems(frozen: Frozen) -> list[str]:
    """Why modes may be missing, and what to do; empty if the search found no sign of missed modes."""
    if not frozen.incomplete:
        return []
    advice = "Raise n_particles or maxfev, or give points near the modes (start=)"
    return [frozen.incomplete[0].upper() + frozen.incomplete[1:], advice]


def adaptation_diagnostics(target: Target, frozen: Frozen) -> dict[str, Any]:
    """Diagnostics of the adaptation, see `Posterior`."""
    reached = [mode for mode in frozen.modes if mode.is_peak] or [mode for mode in frozen.modes if mode.is_settled]
    modes = np.array([mode.z for mode in reached]).reshape(-1, target.dim)
    return {
        "predicted_efficiency": frozen.predicted_efficiency,
        "noise": target.noise,
        "modes": target.parameters(modes),
        "climbs": np.array([mode.n_climbs for mode in reached], dtype=int),
        "search_settled": not frozen.incomplete,
        **frozen.diagnostics,
    }


def interrupted_posterior(target: Target, pool: Pool, why: str) -> Posterior:
    """Posterior of a run that was interrupted during the adaptation, from its draws; the evidence is biased."""
    log_w = pool.log_weight(1.0)
    diagnostics = {"pareto_k": pareto_k(log_w), "effective_size": effective_size(log_w)}
    problem = f"{why.rstrip('.')}: these draws were also used to fit the proposal, so no error is stated"
    evidence = float(log_sum_exp(log_w))  # the sum of the weights (S21)
    return make_posterior(
        target, pool.z, log_w, pool.log_likelihood, evidence, math.inf, "interrupted", diagnostics, [problem]
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
    problems: Sequence[str],
) -> Posterior:
    """Make the posterior of the draws ``z``, with any problems of the prior or the likelihood that show."""
    kept = np.isfinite(log_weights)
    if not kept.any():
        raise ValueError("no draw has a positive likelihood; raise maxfev, or give points near a mode (start=)")
    x = target.parameters(z[kept])
    weights = normalise(log_weights[kept])
    problems = list(problems)
    if weights[target.prior.strained(z[kept])].sum() > 1e-3:
        error = math.inf
        problems.insert(
            0,
            "The posterior lies so far in a tail of the prior that the prior's quantiles have no digits left, so no "
            "error is stated; choose a wider prior",
        )
    if target.noise > NOISY:
        error = math.inf
        problems.insert(
            0,
            f"log_likelihood is noisy: two values at one point differ by {target.noise:.2g}, but all values are "
            "treated as exact, so no error is stated; use the same seed at every point",
        )
    if names := target.prior.pressed(z[kept], weights):
        problems.append(
            f"The posterior of {', '.join(names)} is pressed against a bound of the prior; check the bound, and the "
            "sign of the log likelihood"
        )
    return Posterior(
        names=target.prior.names,
        weighted=WeightedDraws(
            target.prior.gathered(x, weights),
            log_weights[kept],
            log_likelihood[kept],
            target.prior.parameter_log_density(x),
        ),
        log_evidence=log_evidence,
        log_evidence_error=error,
        n_evaluations=target.n_evaluations,
        n_failed=target.n_failed,
        method=method,
        diagnostics=diagnostics,
        success=not problems,
        message=_sentences([*(problems or ["No problem found"]), *_unseen(diagnostics)]),
    )


def _unseen(diagnostics: dict[str, Any]) -> list[str]:
    """How small a mode the first draws may have missed; empty if the search has other gaps."""
    if not diagnostics.get("search_settled", False):
        return []
    return [
        f"Modes that cover less than {100 * diagnostics['unseen']:.2g} % of the prior cannot be ruled out; raise "
        "n_particles to find them"
    ]


def _sentences(parts: Iterable[str]) -> str:
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts)
