"""From a frozen proposal to a `Posterior`: importance sampling or moves, diagnostics, what is wrong, what to do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm._extras import ProgressBar
from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, log_sum_exp, normalise, pareto_k
from paoswarm.sampling.adapt import LATE, UNSURE, Frozen
from paoswarm.sampling.densities import fit
from paoswarm.sampling.importance import TRUSTED_K, Production, produce
from paoswarm.sampling.moves import metropolis_cost
from paoswarm.sampling.posterior import DOUBTFUL, FEWER, SHAPE, Posterior, Remark
from paoswarm.sampling.proposals import DrawPool
from paoswarm.sampling.search import NO_STARTS, RIDGE
from paoswarm.sampling.target import NOISY, Bridge, Interrupted, Target
from paoswarm.sampling.tempered import TemperedResult, pass_cost, pass_problem, tempered
from paoswarm.sampling.weighted_draws import WeightedDraws

LEAST = 100  # effective draws; with fewer the tail of the weights cannot be judged
_INEFFICIENT = 0.02  # effective draws per evaluation below which moves may be cheaper than importance sampling
_CAUTION = 2.0  # factor by which the predicted cost of moves is assumed to be too low
_AGAIN = 4  # of the heaviest draws, evaluated again at the end
_WORTH_MOVING = 10_000  # evaluations that two tempered passes need at least
_FAR = 5.0  # widths of the central 68 % beyond which a draw is far in a tail
_SHARE = 0.2  # share of the moment that comes from there
_LOOKED_AT = 200_000  # draws whose shape is looked at, about; there may be millions


class WeightedSample(NamedTuple):
    """Draws ``(n, d)`` in the target's coordinates, their log weights, and the evidence that these give."""

    draws: Floats
    log_weights: Floats
    log_evidence: float


def draw_posterior(
    target: Target, frozen: Frozen, rng: np.random.Generator, n_effective: int, bar: ProgressBar
) -> Posterior:
    """Draw by importance sampling from the frozen proposal, or by moves, and assemble the posterior."""
    draw = _by_moves if _should_move(target, frozen, rng) else _by_importance
    return draw(target, frozen, rng, n_effective, bar)


def _should_move(target: Target, frozen: Frozen, rng: np.random.Generator) -> bool:
    """Whether moves are likely to be cheaper than importance sampling, judged from the pool and a few trial moves.

    Without trial moves the answer is yes if the budget does not pay for the fewest effective draws by importance
    sampling, or if the pool is too poor for trial moves.
    """
    if frozen.predicted_efficiency >= _INEFFICIENT or target.n_left < _WORTH_MOVING:
        return False
    pool = frozen.pool
    log_w = pool.log_weight(1.0)
    if effective_size(log_w) < 4 * target.dim or frozen.predicted_efficiency * target.n_left < LEAST:
        return True
    reference = fit(pool.z, np.exp(log_w - log_w.max()), 1, rng, 8.0)
    cost = metropolis_cost(target, pool.z, pool.log_likelihood, log_w, reference, rng, circle=target.circle)
    return _CAUTION * cost < 1 / max(frozen.predicted_efficiency, 1e-9)


def _measure_again(target: Target, z: Floats, log_weights: Floats, log_likelihood: Floats) -> None:
    """Evaluate a few of the heaviest draws again: the likelihood may be noisy only near the peak."""
    last = np.argpartition(log_weights, -min(_AGAIN, len(log_weights)))[-_AGAIN:]
    heaviest = last[: target.n_left]
    target.measure_again(z[heaviest], log_likelihood[heaviest])


def _by_importance(
    target: Target, frozen: Frozen, rng: np.random.Generator, n_effective: int, bar: ProgressBar
) -> Posterior:
    """Draw from the frozen proposal; fall back to moves if the weights are bad."""
    bar.show("production", efficiency=frozen.predicted_efficiency)
    made, frozen = produce(target, frozen, n_effective, rng)
    if made.cut_short is None and made.message and frozen.is_trusted and target.n_left >= _WORTH_MOVING:
        moved = _by_moves(target, frozen, rng, n_effective, bar)
        if math.isfinite(moved.log_evidence_error):
            return moved
    if made.cut_short is None:
        try:
            _measure_again(target, made.draws, made.log_weights, made.log_likelihood)
        except Interrupted as interrupt:  # the production is complete
            made = made._replace(cut_short=interrupt)
    diagnostics = {
        "pareto_k": made.pareto_k,
        "effective_size": made.effective_size,
        "halves": made.halves,
        "widened": made.widened,
        "uncovered": made.missing,
    }
    method = "importance" if made.cut_short is None else "interrupted"
    remarks = production_remarks(target, made, n_effective)
    return _assembled(target, frozen, made, made.log_likelihood, made.error, method, diagnostics, remarks)


def _by_moves(
    target: Target, frozen: Frozen, rng: np.random.Generator, n_effective: int, bar: ProgressBar
) -> Posterior:
    """Temper a swarm from the proposal: one pass makes a plan, and one with the plan frozen is unbiased."""
    bridge = Bridge(target, frozen.proposal)

    def show(beta: float, log_evidence: float) -> None:
        bar.show("moves", beta=beta, log_evidence=log_evidence)

    made = tempered(bridge, rng, callback=show)
    if made.complete and target.n_left < pass_cost(made.plan):
        problem = "The budget is too small for a second pass with a frozen plan, so no error is stated; raise maxfev"
    else:
        if made.complete:
            made = tempered(bridge, rng, made.plan, chains=max(96, n_effective // 4), callback=show)
        problem = pass_problem(made)
    error = math.inf if problem else made.log_evidence_error
    diagnostics = {"pareto_k": math.nan, **made.diagnostics}
    log_likelihood = bridge.true_log_likelihood(made.draws, made.log_likelihood)
    _measure_again(target, made.draws, made.log_weights, log_likelihood)
    remarks = [Remark(DOUBTFUL, problem)] if problem else []
    return _assembled(target, frozen, made, log_likelihood, error, "tempered", diagnostics, remarks)


def is_success(remarks: Sequence[Remark]) -> bool:
    """Whether no remark says that a value may be wrong."""
    return all(remark.kind != DOUBTFUL for remark in remarks)


def message(remarks: Sequence[Remark], unseen: float | None) -> str:
    """All remarks, doubtful values first, and how small a mode may have been missed (a share of the prior)."""
    ordered = [remark.text for kind in (DOUBTFUL, FEWER, SHAPE) for remark in remarks if remark.kind == kind]
    parts = [text if text.endswith(".") else f"{text}." for text in ordered]
    if is_success(remarks):
        parts += [] if parts else ["No problem found."]
        if unseen is not None:
            parts.append(f"Modes that cover less than {100 * unseen:.2g} % of the prior cannot be ruled out.")
    return " ".join(parts)


def tail_remarks(names: list[str], x: Floats, weights: Floats) -> list[Remark]:
    """Remarks on parameters without a reliable mean or standard deviation.

    The terms of a moment, weight times a power of the distance from the median, have the tail of the weights and of the
    posterior together. A heavy tail of the posterior itself lies far out; that of the weights alone need not.
    """
    remarks = []
    for name, column in zip(names, x.T, strict=True):
        order = np.argsort(column)
        below = np.cumsum(weights[order])
        low, middle, high = column[order][np.searchsorted(below, (0.16, 0.5, 0.84))]
        away = np.abs(column - middle)
        is_far = away > _FAR * (high - low)
        if not is_far.any():
            continue
        lost = [power for power in (1, 2) if _is_heavy(weights, away, is_far, power)]
        if lost:
            which = "mean and standard deviation" if 1 in lost else "standard deviation"
            text = f"The {which} of {name} may not exist: a few draws far in a tail decide them; use interval()"
            remarks.append(Remark(SHAPE, text if 1 in lost else text.replace("them", "it")))
    return remarks


def _is_heavy(weights: Floats, away: Floats, is_far: NDArray[np.bool_], power: int) -> bool:
    scaled = away / away.max()  # powers of huge numbers overflow
    terms = weights * scaled**power
    if not terms[is_far].sum() > _SHARE * terms.sum():
        return False
    with np.errstate(divide="ignore"):
        return pareto_k(np.log(terms)) > TRUSTED_K


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


def search_remarks(frozen: Frozen, maxfev: int | None) -> list[Remark]:
    """Why modes may be missing, and what to do; empty if the search found no sign of missed modes."""
    if not frozen.incomplete:
        return []
    text = frozen.incomplete[0].upper() + frozen.incomplete[1:]
    if frozen.incomplete in (LATE, RIDGE, UNSURE):
        return [Remark(SHAPE, text)]
    more = "Raise n_particles, or give" if frozen.incomplete == NO_STARTS else "Give"
    more = more if maxfev is None else "Raise maxfev, or give"
    return [Remark(DOUBTFUL, f"{text}. {more} points near the modes (start=)")]


def adaptation_diagnostics(target: Target, frozen: Frozen) -> dict[str, Any]:
    """Diagnostics of the adaptation, see `Posterior`."""
    reached = [mode for mode in frozen.modes if mode.is_peak]
    if not reached and frozen.incomplete != RIDGE:  # places on a ridge are no modes
        reached = [mode for mode in frozen.modes if mode.is_settled]
    modes = np.array([mode.z for mode in reached]).reshape(-1, target.dim)
    return {
        "predicted_efficiency": frozen.predicted_efficiency,
        "noise": target.noise,
        "modes": target.parameters(modes),
        "climbs": np.array([mode.n_climbs for mode in reached], dtype=int),
        "search_settled": not frozen.incomplete,
        **frozen.diagnostics,
    }


def interrupted_posterior(target: Target, pool: DrawPool, why: str) -> Posterior:
    """Posterior of a run that was interrupted during the adaptation, from its draws; the evidence is biased."""
    log_w = pool.log_weight(1.0)
    diagnostics = {"pareto_k": pareto_k(log_w), "effective_size": effective_size(log_w)}
    text = f"{why.rstrip('.')}: these draws were also used to fit the proposal, so no error is stated"
    evidence = float(log_sum_exp(log_w))  # the sum of the weights (S21)
    made = WeightedSample(pool.z, log_w, evidence)
    remarks = [Remark(DOUBTFUL, text)]
    return _assembled(target, None, made, pool.log_likelihood, math.inf, "interrupted", diagnostics, remarks)


def value_problems(target: Target, z: Floats, share: Floats) -> list[Remark]:
    """Why no error can be stated, whatever the weights: the likelihood is noisy, or the prior has no digits left."""
    texts = []
    if target.noise > NOISY:
        texts.append(
            f"log_likelihood is noisy: two values at one point differ by {target.noise:.2g}, but all values are "
            f"treated as exact, so no error is stated; {target.against_noise[0]}"
        )
    if share[target.prior.strained(z)].sum() > 1e-3:
        texts.append(
            "The posterior lies so far in a tail of the prior that the prior's quantiles have no digits left, so no "
            "error is stated; choose a wider prior"
        )
    return [Remark(DOUBTFUL, text) for text in texts]


def shape_remarks(target: Target, z: Floats, x: Floats, share: Floats) -> list[Remark]:
    """Remarks on parameters at a bound, and on moments that may not exist."""
    remarks = tail_remarks(target.prior.names, x, share)
    if names := target.prior.pressed(z, share):
        text = f"The posterior of {', '.join(names)} is pressed against a bound of the prior; check the bound, and the "
        remarks.insert(0, Remark(SHAPE, f"{text}sign of the log likelihood"))
    return remarks


def _assembled(
    target: Target,
    frozen: Frozen | None,
    made: Production | TemperedResult | WeightedSample,
    log_likelihood: Floats,
    error: float,
    method: str,
    diagnostics: dict[str, Any],
    remarks: list[Remark],
) -> Posterior:
    """The posterior of what was drawn, with remarks on the search, the prior, the likelihood and the tails."""
    if frozen is not None:
        diagnostics = diagnostics | adaptation_diagnostics(target, frozen)
        remarks = remarks + search_remarks(frozen, target.maxfev)
        error = error if frozen.is_trusted else math.inf
    kept = np.isfinite(made.log_weights)
    if not kept.any():
        raise ValueError("no draw has a positive likelihood; raise maxfev, or give points near a mode (start=)")
    x = target.kept_parameters(made.draws, kept)
    log_weights, log_likelihood = made.log_weights[kept], log_likelihood[kept]
    weights = normalise(log_weights)
    some = slice(None, None, max(1, len(x) // _LOOKED_AT))
    share = weights[some] / weights[some].sum()
    z = made.draws[np.flatnonzero(kept)[some]]
    if problems := value_problems(target, z, share):
        error = math.inf
    remarks = [*problems, *remarks, *shape_remarks(target, z, x[some], share)]
    return Posterior(
        names=target.prior.names,
        weighted=WeightedDraws(
            target.prior.gathered(x, weights),
            log_weights,
            log_likelihood,
            target.prior.parameter_log_density(x),
        ),
        log_evidence=made.log_evidence,
        log_evidence_error=error,
        n_evaluations=target.n_evaluations,
        n_failed=target.n_failed,
        method=method,
        diagnostics=diagnostics,
        success=is_success(remarks),
        message=message(remarks, diagnostics.get("unseen") if diagnostics.get("search_settled", False) else None),
        remarks=tuple(remarks),
    )
