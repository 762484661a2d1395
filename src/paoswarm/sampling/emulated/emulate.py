"""A posterior from few simulations: search, learn, freeze, produce, and judge.

Whatever the emulator is, the evidence is unbiased: see `paoswarm.sampling.emulated.two_stage`. What no sampler can say
is whether there are modes that no search has seen; the number of searches bounds how small these are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from paoswarm._extras import ProgressBar
from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, log_sum_exp, normalise, systematic
from paoswarm.sampling.adapt import NothingFound
from paoswarm.sampling.assemble_posterior import is_success, message, shape_remarks, value_problems
from paoswarm.sampling.emulated.learning import Learner
from paoswarm.sampling.emulated.number_search import FoundEnds, first_draws, search_by_number
from paoswarm.sampling.emulated.output_search import OutputSearch
from paoswarm.sampling.emulated.simulations import Simulations
from paoswarm.sampling.emulated.two_stage import Estimate, TwoStage
from paoswarm.sampling.importance import TRUSTED_K
from paoswarm.sampling.posterior import DOUBTFUL, FEWER, SHAPE, Posterior, Remark
from paoswarm.sampling.target import Interrupted, Target, warn_of_wrong_scale
from paoswarm.sampling.weighted_draws import WeightedDraws

_SEARCH_SHARE = 0.4  # of the budget, with first draws, for a search that is sure of its top
_LEARNING, _LEARNING_EACH = 20, 8  # simulations kept for learning: this number, and so many for each unknown
_CHECKED_TWICE = 2  # highest points evaluated again, to see whether the likelihood is noisy
_LEARNING_SHARE = 0.6  # of what is left, at most, for learning
_DRAWS = 40_000  # of the first stage
_NUMBERS, _FEWEST_KEPT = 1e7, 4000  # outputs at all draws that are kept, about, and draws at least
_FEWEST, _FEWEST_EACH = 50, 8  # picks of a production: this number, or so many for each unknown
_PRODUCTIONS = 4  # at most; those before the last are learnt from if the emulator was poor
_EVEN = 0.3  # share of the picks that are effective below which it was, too
_POOR = 0.4  # spread of the terms from which on it was
_PRECISE = 0.01  # error of the log evidence that is small enough, as far as simulations decide it
_VAGUE = 0.1  # error of the log evidence beyond which a result is no success
_USELESS = 1.5  # spread of the terms from which on no error can be stated
_FEWEST_EFFECTIVE = 20.0
_DOMINATES = 10.0  # means that the largest term may have, if its tail is heavy


Search = Callable[[int, int], FoundEnds]  # of so many simulations, and more if it is not sure
AfterRound = Callable[[dict[str, Any]], object]


def emulated_posterior(
    known: Simulations,
    search: Search,
    rng: np.random.Generator,
    wanted: int,
    abreast: int,
    bar: ProgressBar,
    after_round: AfterRound,
    usual: float = math.inf,
) -> Posterior:
    """Search for modes, learn an emulator, and draw with it; ``abreast`` points are simulated side by side.

    A search that is sure takes no more than its share of a ``usual`` budget.
    """
    target, d = known.target, known.target.dim
    least = _least_production(d, abreast)
    reserve = least + _LEARNING + _LEARNING_EACH * d
    bar.show("search")
    soft = int(_SEARCH_SHARE * min(target.n_left, usual))
    found = search(soft, max(soft, target.n_left - reserve))
    if not found.ends:
        raise NothingFound(f"the likelihood is zero or failed at all {len(known)} points")
    highest = np.argsort(-known.log_likelihood, kind="stable")[: min(_CHECKED_TWICE, target.n_left)]
    target.measure_again(known.z[highest], known.log_likelihood[highest])
    learner = Learner(known, [one.frame for one in found.ends], known.model is not None, rng)
    end = target.n_evaluations + int(_LEARNING_SHARE * target.n_left)
    size = _round_up(max(4, d if d < 8 else 2 * d), abreast)
    while not learner.is_good and end - target.n_evaluations >= size:
        learner.learn()
        learner.simulate(learner.batch(size))
        bar.show("learning", error=learner.validation[-1])
        after_round({"error": learner.validation[-1], "evaluations": target.n_evaluations})
    two, estimate, cut_short = _produce(known, learner, wanted, abreast, rng, bar)
    return _assembled(known, learner, found, two, estimate, wanted, cut_short, rng)


def explore(
    known: Simulations, starts: Floats | None, abreast: int, rng: np.random.Generator, soft: int, most: int
) -> FoundEnds:
    """Simulate first draws from the prior and points near modes, if any are known, and search from them."""
    target, d = known.target, known.target.dim
    n_first = max(1, min(4 * d + 4, most // 2))
    draws = first_draws(n_first, target, rng)
    values = known.evaluate(draws if starts is None else np.concatenate([starts[: max(1, most // 2)], draws]))
    warn_of_wrong_scale(draws, values[-n_first:])
    if not known.worked.any():
        return FoundEnds([], 0, is_sure=False)
    if known.model is not None:
        return OutputSearch(known, abreast, rng).run(soft - len(known), most - len(known))
    return search_by_number(known, (soft - len(known), most - len(known)), abreast, rng)


def _least_production(d: int, abreast: int) -> int:
    return _round_up(max(_FEWEST, _FEWEST_EACH * d), abreast)


def _round_up(n: int, abreast: int) -> int:
    return abreast * math.ceil(n / abreast)


def _produce(
    known: Simulations, learner: Learner, wanted: int, abreast: int, rng: np.random.Generator, bar: ProgressBar
) -> tuple[TwoStage, Estimate, Interrupted | None]:
    """Freeze the emulator and simulate picks; once more if the first ones say that it was poor."""
    target = known.target
    least = _least_production(target.dim, abreast)
    number = 1
    while True:
        learner.learn()
        two = learner.first_stage(_DRAWS)
        is_last = number == _PRODUCTIONS or target.n_left < 2 * least
        try:
            _simulate(known, two, min(target.n_left, least), rng)
            estimate = two.estimate()
            if not is_last and (estimate.spread >= _POOR or estimate.effective < _EVEN * len(two.picks)):
                number += 1
                continue
            while target.n_left > 0 and not _is_precise(estimate, wanted):
                _simulate(known, two, min(target.n_left, _round_up(max(25, least // 2), abreast)), rng)
                estimate = two.estimate()
                bar.show("production", effective=_worth(estimate), error=estimate.error)
        except Interrupted as interrupt:
            if len(two.picks) < _FEWEST_EFFECTIVE:
                raise
            return two, two.estimate(), interrupt
        return two, estimate, None


def _is_precise(estimate: Estimate, wanted: int) -> bool:
    """Whether evidence and means are known as well as it was wanted."""
    return estimate.simulated_error < _PRECISE and _worth(estimate) >= wanted


def _worth(estimate: Estimate) -> float:
    """How many independent draws would tell as much about the means."""
    means = estimate.moment_errors[: len(estimate.moment_errors) // 2]
    worth = float(1 / max(float(means.max()) ** 2, 1e-12))
    return worth if estimate.effective >= _FEWEST_EFFECTIVE else min(worth, estimate.effective)


def _simulate(known: Simulations, two: TwoStage, n: int, rng: np.random.Generator) -> None:
    """Simulate the next picks; of those that an interrupt leaves, which are in random order, all that are known."""
    picks = two.pick(n, rng)
    _, first, back = np.unique(picks, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rows, back = picks[first[order]], np.argsort(order)[back]
    try:
        two.add(picks, known.evaluate(two.z[rows])[back])
    except Interrupted as interrupt:
        is_known = back < len(interrupt.values)
        two.add(picks[is_known], interrupt.values[back[is_known]])
        raise


def _assembled(
    known: Simulations,
    learner: Learner,
    found: FoundEnds,
    two: TwoStage,
    estimate: Estimate,
    wanted: int,
    cut_short: Interrupted | None,
    rng: np.random.Generator,
) -> Posterior:
    """The posterior with what there is to know about it."""
    target = known.target
    log_weights = two.calibrated(estimate)
    # Draws of equal weight: of a draw so far out that it has hardly any weight, nothing but a moment would remain.
    size = effective_size(log_weights)
    most = _DRAWS if known.model is None else _NUMBERS / known.outputs.shape[1]
    kept = systematic(normalise(log_weights), int(np.clip(min(most, size), _FEWEST_KEPT, _DRAWS)), rng)
    log_weights = np.full(len(kept), float(log_sum_exp(log_weights)) - math.log(len(kept) * _DRAWS))
    z = two.z[kept]
    x = target.parameters(z)
    emulated = learner.target.log_likelihood(z)
    if known.model is not None:
        known.drawn_outputs = learner.emulator.outputs(z)
    weights = normalise(log_weights)
    problems = value_problems(target, z, weights)
    remarks = [
        *problems,
        *_doubts(estimate, found),
        *_remarks(estimate, wanted, target, cut_short),
        *shape_remarks(target, z, x, weights),
    ]
    n = found.n_climbs
    unseen = 1 - 0.05 ** (1 / n) if n else 1.0
    diagnostics: dict[str, Any] = {
        "pareto_k": estimate.pareto_k,
        "effective_size": min(_worth(estimate), size),
        "picks": len(two.picks),
        "spread": estimate.spread,
        "misplaced": estimate.misplaced,
        "validation": learner.validation,
        "modes": target.parameters(known.z[[end.row for end in found.ends if end.n_climbs]]),
        "climbs": np.array([end.n_climbs for end in found.ends if end.n_climbs], dtype=int),
        "search_settled": found.is_sure and not found.doubt,
        "noise": target.noise,
        "unattractive": unseen,
    }
    sentence = f"Modes that attract less than {100 * unseen:.2g} % of the starts of searches cannot be ruled out."
    has_error = not problems and estimate.spread < _USELESS and estimate.effective >= _FEWEST_EFFECTIVE
    return Posterior(
        names=target.prior.names,
        weighted=WeightedDraws(
            target.prior.gathered(x, weights), log_weights, emulated, target.prior.parameter_log_density(x)
        ),
        log_evidence=estimate.log_evidence,
        log_evidence_error=estimate.error if has_error else math.inf,
        n_evaluations=target.n_evaluations,
        n_failed=target.n_failed,
        method="emulated" if cut_short is None else "interrupted",
        diagnostics=diagnostics,
        success=is_success(remarks),
        message=f"{message(remarks, None)} {sentence}",
        remarks=tuple(remarks),
    )


def _doubts(estimate: Estimate, found: FoundEnds) -> list[Remark]:
    """What makes the result doubtful."""
    texts = []
    if estimate.effective < _FEWEST_EFFECTIVE:
        texts.append(f"The simulated draws are worth only {estimate.effective:.0f}; raise maxfev")
    elif estimate.pareto_k > TRUSTED_K and estimate.largest > _DOMINATES:
        texts.append("A few simulated draws decide the result: the emulator misses part of the posterior; raise maxfev")
    elif estimate.error > _VAGUE:
        texts.append(f"The log evidence is known to {estimate.error:.2g} only; raise maxfev")
    elif not estimate.spread < _USELESS:
        texts.append("The emulator is too poor for this posterior; raise maxfev, or take emulate=False")
    if not found.n_climbs:
        texts.append("There was no room for a search, so any mode may have been missed; raise maxfev")
    elif not found.is_sure:
        times = "one search" if found.n_top == 1 else f"{found.n_top} searches"
        what = "mode" if found.ends[0].is_determined else "place, a plateau,"
        texts.append(f"The heaviest {what} was reached by {times} only, so there may be others; raise maxfev")
    return [Remark(DOUBTFUL, text) for text in [*texts, found.doubt] if text]


def _remarks(estimate: Estimate, wanted: int, target: Target, cut_short: Interrupted | None) -> list[Remark]:
    """Fewer draws than wanted, and how well the emulator did."""
    remarks = []
    if cut_short is not None:
        why = cut_short.why.rstrip(".") or "Interrupted"
        remarks.append(Remark(FEWER, f"{why}: the draws are worth {_worth(estimate):.0f} of {wanted}"))
    elif not _is_precise(estimate, wanted):
        text = f"The draws are worth {_worth(estimate):.0f} of {wanted} independent ones, for maxfev={target.maxfev}"
        remarks.append(Remark(FEWER, text))
    text = f"The emulator misplaced {estimate.misplaced:.1%} of the posterior before it was corrected"
    return [*remarks, Remark(SHAPE, text)]
