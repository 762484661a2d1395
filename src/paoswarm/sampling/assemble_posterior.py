"""Assemble a `Posterior` from draws: collect diagnostics, and say what is wrong and what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, log_sum_exp, normalise, pareto_k
from paoswarm.sampling.adapt import LATE, Frozen
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.explore import RIDGE
from paoswarm.sampling.importance import Production
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.tails import tail_remarks
from paoswarm.sampling.target import NOISY, Target
from paoswarm.sampling.verdict import DOUBTFUL, FEWER, SHAPE, Remark, is_success, message
from paoswarm.sampling.weighted_draws import WeightedDraws

_LOOKED_AT = 200_000  # draws whose shape is looked at, about; there may be millions


def production_remarks(target: Target, made: Production, wanted: int) -> list[Remark]:
    """Remarks on a production: bad weights, uncovered places, or fewer effective draws than wanted."""
    is_spent = target.maxfev is not None and target.n_left < 0.2 * target.maxfev  # draws outside a box cost nothing
    more = "maxfev" if is_spent else "n_effective"
    size = f"{made.effective_size:.0f} of {wanted} effective draws"
    remarks = [Remark(DOUBTFUL, made.message)] if made.message else []
    if made.missing:
        remarks.append(
            Remark(
                DOUBTFUL,
                f"The proposal does not cover all of the posterior: about {made.missing:.1%} of it, or of the variance "
                f"of a parameter, lies where there are hardly any draws; raise {more}",
            )
        )
    if made.cut_short is not None:
        why = made.cut_short.why.rstrip(".") or "Interrupted"
        return [Remark(FEWER, f"{why}: the result has {size}"), *remarks]
    if remarks:
        return remarks
    if made.widened > 1:
        text = f"The weights are less even than predicted ({size}), so the error is widened {made.widened:.1f} times"
        return [Remark(FEWER, f"{text}; raise {more}")]
    if made.effective_size > (0.9 if is_spent else 0.75) * wanted:
        return []
    if is_spent:
        return [Remark(FEWER, f"maxfev={target.maxfev} was enough for {size}; raise it for more")]
    return [Remark(FEWER, f"The weights are less even than predicted ({size}); raise n_effective")]


def search_remarks(frozen: Frozen) -> list[Remark]:
    """Why modes may be missing, and what to do; empty if the search found no sign of missed modes."""
    if not frozen.incomplete:
        return []
    text = frozen.incomplete[0].upper() + frozen.incomplete[1:]
    if frozen.incomplete in (LATE, RIDGE):
        return [Remark(SHAPE, text)]
    return [Remark(DOUBTFUL, f"{text}. Raise n_particles or maxfev, or give points near the modes (start=)")]


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
    text = f"{why.rstrip('.')}: these draws were also used to fit the proposal, so no error is stated"
    evidence = float(log_sum_exp(log_w))  # the sum of the weights (S21)
    return make_posterior(
        target,
        pool.z,
        log_w,
        pool.log_likelihood,
        evidence,
        math.inf,
        "interrupted",
        diagnostics,
        [Remark(DOUBTFUL, text)],
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
    remarks: Sequence[Remark],
) -> Posterior:
    """Make the posterior of the draws ``z``, with remarks on the prior, the likelihood and the tails."""
    kept = np.isfinite(log_weights)
    if not kept.any():
        raise ValueError("no draw has a positive likelihood; raise maxfev, or give points near a mode (start=)")
    x = target.kept_parameters(z, kept)
    log_weights, log_likelihood = log_weights[kept], log_likelihood[kept]
    weights = normalise(log_weights)
    remarks = list(remarks)
    some = slice(None, None, max(1, len(x) // _LOOKED_AT))
    share = weights[some] / weights[some].sum()
    z = z[np.flatnonzero(kept)[some]]
    if share[target.prior.strained(z)].sum() > 1e-3:
        error = math.inf
        text = (
            "The posterior lies so far in a tail of the prior that the prior's quantiles have no digits left, so no "
            "error is stated; choose a wider prior"
        )
        remarks.insert(0, Remark(DOUBTFUL, text))
    if target.noise > NOISY:
        error = math.inf
        text = (
            f"log_likelihood is noisy: two values at one point differ by {target.noise:.2g}, but all values are "
            f"treated as exact, so no error is stated; {target.against_noise[0]}"
        )
        remarks.insert(0, Remark(DOUBTFUL, text))
    if names := target.prior.pressed(z, share):
        text = f"The posterior of {', '.join(names)} is pressed against a bound of the prior; check the bound, and the "
        remarks.append(Remark(SHAPE, f"{text}sign of the log likelihood"))
    remarks += tail_remarks(target.prior.names, x[some], share)
    return Posterior(
        names=target.prior.names,
        weighted=WeightedDraws(
            target.prior.gathered(x, weights),
            log_weights,
            log_likelihood,
            target.prior.parameter_log_density(x),
        ),
        log_evidence=log_evidence,
        log_evidence_error=error,
        n_evaluations=target.n_evaluations,
        n_failed=target.n_failed,
        method=method,
        diagnostics=diagnostics,
        success=is_success(remarks),
        message=message(remarks, diagnostics["unseen"] if diagnostics.get("search_settled", False) else None),
        remarks=tuple(remarks),
    )
