"""`sample`: posterior draws and evidence without gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from paoswarm.checks import flag, whole_number
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, generator
from paoswarm.core.weights import effective_size
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import RAISED, Objective
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.recording import open_evaluator
from paoswarm.sampling.adapt import Frozen, NothingFound, adapt
from paoswarm.sampling.assemble_posterior import found, from_pool, make_posterior, verdict, with_caveat
from paoswarm.sampling.bar import Bar
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.importance import produce
from paoswarm.sampling.mixture import fit
from paoswarm.sampling.move_cost import metropolis_cost
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.proposal_path import Bridge
from paoswarm.sampling.read_prior import read_prior
from paoswarm.sampling.read_start import is_search, known_points
from paoswarm.sampling.target import Interrupted, Target
from paoswarm.sampling.tempered import doubt, pass_cost, tempered
from paoswarm.storage.encoding import encode
from paoswarm.storage.journal import Journal
from paoswarm.storage.store import Run, Store

_INEFFICIENT = 0.02  # effective draws per evaluation, below which moves may be cheaper than importance sampling
_CAUTION = 2.0  # by which the predicted cost of moves is too low
_LEAST = 100  # effective draws; with fewer there is no tail of weights to judge
_PATIENCE = 100  # exceptions in a row, from the first draw on
_WORTH_MOVING = 10_000  # evaluations that two tempered passes need at least


def sample(
    log_likelihood: Objective,
    prior: Any,
    *,
    n_effective: int = 2000,
    n_particles: int | None = None,
    vectorized: bool = False,
    workers: Any = 1,
    timeout: float | None = None,
    retries: int = 1,
    start: Any = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
    progress: bool = False,
    maxfev: int | None = None,
    rng: Seed = None,
    store: Any = None,
) -> Posterior:
    r"""Draw from a posterior and compute the evidence of the model, without gradients.

    Parameters
    ----------
    log_likelihood : callable
        ``log_likelihood(x) -> float`` with the parameters ``x`` of shape ``(d,)``, in the prior's order; with
        ``vectorized=True``, ``(m, d) -> (m,)``. NaN or an exception counts as likelihood zero, and
        so does what is below -1e100; +inf is an error.
    prior : dict, list, frozen multivariate_normal, or tuple
        By parameter, with or without names, a frozen `scipy.stats` distribution or a pair ``(low, high)`` for a
        uniform one. Correlated priors: a frozen ``scipy.stats.multivariate_normal``, or ``(names, law)`` with one; or
        ``(names, transform)`` with a function that maps independent uniform deviates ``(m, d)`` to parameters
        ``(m, d)``, or ``(names, transform, log_density)``, where the density ``(m, d) -> (m,)`` of the parameters is
        only reported. Instead of names their number will do.
    n_effective : int
        How many independent draws the result shall be worth, 100 at least.
    n_particles : int, optional
        Draws from the prior with which the search begins; 1000 per parameter, at most 10,000, unless given. A mode
        whose basin holds less than ``30 / n_particles`` of the prior may be missed; more draws find smaller ones.
    vectorized, workers, timeout, retries
        As in `minimize`.
    start : result, array (m, d) or dict, optional
        What is known already: a result of `minimize` or `minimize_many` (or a list of them), points near modes, or
        their values by parameter. It is looked at besides what the draws from the prior show, not instead.
    callback : callable, optional
        Called after every stage of the adaptation with a dict of inverse temperature, efficiency, effective draws of
        its pool and evaluations; what it returns is not looked at.
    progress : bool
        Show evaluations, inverse temperature, effective draws and efficiency (needs tqdm).
    maxfev : int, optional
        Likelihood evaluations at most; never exceeded. (A vectorised likelihood that raises is called again for each
        point of its batch; better to return NaN there.)
    rng : int, Generator, SeedSequence or None
        Seed.
    store : path or Store, optional
        A file that keeps every evaluation: the same call again goes on where an earlier one was killed or interrupted,
        as in `minimize`.

    Returns
    -------
    Posterior

    Notes
    -----
    First everything is adapted: draws from the prior, climbs to modes (and swarms, where there are very many), a
    tempered pool, mixtures of normal laws fitted to it. Then the proposal :math:`q` is frozen, and new draws are
    weighted by :math:`w = p L / q`: their mean is an unbiased estimate of the evidence, whatever the quality of the
    fit. Where that would be too inefficient, a swarm drawn from :math:`q` is tempered towards the posterior, moved by
    PAO's exact steps with a Metropolis correction.

    **No diagnostic sees a mode that no draw has come near.** The error is conditional on the modes that were found.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> from scipy import stats
    >>> data = np.array([1.2, 0.8, 1.9, 1.4])
    >>> def log_likelihood(x):
    ...     return stats.norm.logpdf(data, x[0], 0.5).sum()
    >>> posterior = ps.sample(log_likelihood, {"level": stats.norm(0, 10)}, n_effective=500, rng=1)
    >>> bool(abs(posterior.mean()[0] - 1.324) < 0.05)
    True
    """
    law = read_prior(prior)
    wanted = max(whole_number("n_effective", n_effective, 1), _LEAST)
    budget = None if maxfev is None else whole_number("maxfev", maxfev, 10)
    first = None if n_particles is None else whole_number("n_particles", n_particles, 2)
    flag("progress", progress)
    points = known_points(start, law.names)
    calling = CallOptions(vectorized, workers, timeout, retries)
    journal = None
    if store is not None:
        store = Store.of(store)
        rng, seed = store.seeded(rng)
        problem = {"prior": encode(prior), "n_particles": first, "start": encode(points), "rng": seed}
        limits = {"n_effective": wanted, "maxfev": budget, "expected": budget}
        journal = Journal(store, Run("sample", problem, limits, calling.described), log_likelihood)
    source = generator(rng)
    with (
        journal or nullcontext(),
        open_evaluator(log_likelihood, journal, calling) as evaluate,
        Bar(progress, budget) as bar,
    ):
        evaluate.count = bar.count if progress else None

        def measure(x: Floats) -> Floats:
            values, end = evaluate.until(None, x)
            if end is not None:
                raise Interrupted(values, str(end))
            return values

        def measure_first(x: Floats) -> Floats:
            """Some of the points before the others: a function that never works need not be called often."""
            if target.n_evaluations or len(x) <= _PATIENCE:
                return measure(x)
            known = measure(x[:_PATIENCE])
            if evaluate.kinds[RAISED] == _PATIENCE:
                raise NothingFound(f"log_likelihood raised an exception at all of the first {_PATIENCE} draws")
            try:
                return np.concatenate([known, measure(x[_PATIENCE:])])
            except Interrupted as interrupt:
                raise Interrupted(np.concatenate([known, interrupt.values]), interrupt.why) from None

        target = Target(measure_first, law, budget)
        if points is not None:
            if is_search(start):  # which may have looked elsewhere as well
                points = target.within(points)
            target.coordinates(points)  # raises before the first evaluation
        pool = Pool(target.dim)

        def after_stage(stage: dict[str, Any]) -> None:
            bar.say("adaptation", beta=stage["beta"], effective=stage["effective"], efficiency=stage["efficiency"])
            if callback is not None and not evaluate.replayed:
                callback(stage)

        try:
            frozen = adapt(
                target, source, n_effective=wanted, start_points=points, n_prior=first, pool=pool, callback=after_stage
            )
            if _should_move(target, frozen, source):
                posterior = _by_moves(target, frozen, source, wanted, bar)
            else:
                posterior = _by_importance(target, frozen, source, wanted, bar)
        except NothingFound as error:
            why = f"; the first failed {evaluate.first_failure()}" if evaluate.failures else ""
            raise ValueError(f"{error}{why}") from evaluate.explain_total_failure().__cause__
        except KeyboardInterrupt as error:
            why = getattr(error, "why", "")  # the workers do not answer any more
            if not np.isfinite(pool.log_weight(1.0)).any():
                where = f"; they are in {journal.path}, and the same call goes on" if journal else ""
                early = f"interrupted after {target.n_evaluations} evaluations, too early for a posterior{where}"
                raise (EngineDown(why) if why else KeyboardInterrupt(early)) from None
            posterior = from_pool(target, pool, why or "interrupted")
        if journal is not None:
            journal.end(posterior.method, posterior.message, final=posterior.method != "interrupted")
    evaluate.warn(worth="likelihood zero")
    return posterior


def _should_move(target: Target, frozen: Frozen, rng: np.random.Generator) -> bool:
    """Whether moves promise more than importance sampling, judged from the pool and a few trial moves.

    Where the budget does not pay for the fewest effective draws, or the pool is too poor to make trial moves from,
    importance sampling has nothing to offer.
    """
    if frozen.predicted_efficiency >= _INEFFICIENT or target.n_left < _WORTH_MOVING:
        return False
    pool = frozen.pool
    log_w = pool.log_weight(1.0)
    if effective_size(log_w) < 4 * target.dim or frozen.predicted_efficiency * target.n_left < _LEAST:
        return True
    reference = fit(pool.z, np.exp(log_w - log_w.max()), 1, rng, 8.0)
    cost = metropolis_cost(target, pool.z, pool.log_likelihood, log_w, reference, rng, circle=target.circle)
    return _CAUTION * cost < 1 / max(frozen.predicted_efficiency, 1e-9)


def _by_importance(target: Target, frozen: Frozen, rng: np.random.Generator, n_effective: int, bar: Bar) -> Posterior:
    bar.say("production", efficiency=frozen.predicted_efficiency)
    made, frozen = produce(target, frozen, n_effective, rng)
    if made.cut_short is None and made.message and frozen.is_trusted and target.n_left >= _WORTH_MOVING:
        moved = _by_moves(target, frozen, rng, n_effective, bar)
        if math.isfinite(moved.log_evidence_error):
            return moved
    diagnostics = {
        "pareto_k": made.pareto_k,
        "effective_size": made.effective_size,
        "halves": made.halves,
        "widened": made.widened,
        **found(target, frozen),
    }
    return make_posterior(
        target,
        made.draws,
        made.log_weights,
        made.log_likelihood,
        made.log_evidence,
        made.error if frozen.is_trusted else math.inf,
        "importance" if made.cut_short is None else "interrupted",
        diagnostics,
        with_caveat(verdict(target, made, n_effective), frozen),
    )


def _by_moves(target: Target, frozen: Frozen, rng: np.random.Generator, n_effective: int, bar: Bar) -> Posterior:
    """From the proposal on by tempered moves: one pass that plans, one with the plan frozen, which is unbiased."""
    bridge = Bridge(target, frozen.proposal)

    def show(beta: float, log_evidence: float) -> None:
        bar.say("moves", beta=beta, log_evidence=log_evidence)

    made = tempered(bridge, rng, callback=show)
    message = "the budget did not pay for a second pass with a frozen plan, so no error is stated; raise maxfev"
    if made.complete and target.n_left >= pass_cost(made.plan):
        made = tempered(bridge, rng, made.plan, chains=max(96, n_effective // 4), callback=show)
        message = doubt(made)
    elif not made.complete:
        message = "the budget ended before the posterior was reached; raise maxfev"
    error = math.inf if message or not frozen.is_trusted else made.log_evidence_error
    diagnostics = {
        "pareto_k": math.nan,
        **made.diagnostics,
        **found(target, frozen),
    }
    log_likelihood = bridge.true_log_likelihood(made.draws, made.log_likelihood)
    return make_posterior(
        target,
        made.draws,
        made.log_weights,
        log_likelihood,
        made.log_evidence,
        error,
        "tempered",
        diagnostics,
        with_caveat(message, frozen),
    )
