"""`sample`: posterior draws and evidence without gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from paoswarm._checks import explains_keywords, flag, whole_number
from paoswarm._extras import ProgressBar
from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, generator
from paoswarm.core.weights import effective_size
from paoswarm.evaluation.call_options import CallOptions
from paoswarm.evaluation.calls import RAISED, Objective
from paoswarm.evaluation.engines import EngineDown
from paoswarm.evaluation.recording import open_evaluator
from paoswarm.sampling.adapt import Frozen, NothingFound, adapt
from paoswarm.sampling.assemble_posterior import (
    adaptation_diagnostics,
    interrupted_posterior,
    make_posterior,
    production_remarks,
    search_remarks,
)
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.engine import make_target, read_traced
from paoswarm.sampling.importance import produce
from paoswarm.sampling.mixture import fit
from paoswarm.sampling.move_cost import metropolis_cost
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.proposal_path import Bridge
from paoswarm.sampling.read_prior import as_given, read_prior
from paoswarm.sampling.read_start import is_search, known_points
from paoswarm.sampling.target import Interrupted, Target
from paoswarm.sampling.tempered import pass_cost, pass_problem, tempered
from paoswarm.sampling.verdict import DOUBTFUL, Remark
from paoswarm.spaces.lmfit_parameters import ParametersSpace, are_parameters
from paoswarm.spaces.names import numbered, text_by_name
from paoswarm.storage.encoding import encode
from paoswarm.storage.journal import Journal
from paoswarm.storage.store import Run, Store

_INEFFICIENT = 0.02  # effective draws per evaluation below which moves may be cheaper than importance sampling
_CAUTION = 2.0  # factor by which the predicted cost of moves is assumed to be too low
_LEAST = 100  # effective draws; with fewer the tail of the weights cannot be judged
_SEARCH = 300  # evaluations, times (d + 1), that the search for modes takes at least (measured on normal posteriors)
_PATIENCE = 100  # first draws that may all raise an exception before the run ends
_AGAIN = 4  # of the heaviest draws, evaluated again at the end
_WORTH_MOVING = 10_000  # evaluations that two tempered passes need at least


@explains_keywords()
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
    maxfev: float | None = None,
    rng: Seed = None,
    store: Any = None,
    engine: Any = "numpy",
) -> Posterior:
    r"""Draw from a posterior and compute the evidence of the model, without gradients.

    Parameters
    ----------
    log_likelihood : callable
        ``log_likelihood(x) -> float`` with the parameters ``x`` of shape ``(d,)``, in the prior's order; with
        ``vectorized=True``, ``(m, d) -> (m,)``. If the prior is a dict, ``x["name"]`` is a parameter or a fixed value,
        so a function written for the dicts of `minimize` works here too. NaN, an exception and values below -1e100
        count as likelihood zero; +inf is an error.
    prior : dict, list, frozen multivariate_normal, or tuple
        A dict (by name) or list with an entry for each parameter: a frozen `scipy.stats` distribution, a pair
        ``(low, high)`` for a uniform one, ``Real(low, high, log=True)`` for a log-uniform one, `Periodic` for an angle
        or a phase, or a number that is fixed. Correlated priors are given as

        - a frozen ``scipy.stats.multivariate_normal``, or ``(names, distribution)`` with one;
        - ``(names, transform)``, where the function maps independent uniform deviates ``(m, d)`` to parameters
          ``(m, d)``;
        - ``(names, transform, log_density)``, where the log density ``(m, d) -> (m,)`` of the parameters is only
          reported.

        The number of parameters may stand for their names. With ``lmfit.Parameters``, those that vary are uniform
        between their bounds, and ``log_likelihood`` gets ``Parameters``.
    n_effective : int
        Wanted effective sample size, at least 100. With fewer the error of the evidence would not be known.
    n_particles : int, optional
        Number of first draws from the prior; by default 1000 per parameter, at most 10,000. Modes that cover less than
        ``30 / n_particles`` of the prior may be missed.
    vectorized, workers, timeout, retries
        As in `minimize`.
    start : result, array (m, d) or dict, optional
        Points near known modes: a result of `minimize` or `minimize_many` (or a list of them), an array, or a dict of
        values by parameter. They are used in addition to the draws from the prior.
    callback : callable, optional
        Called after every stage of the adaptation with a dict of inverse temperature, efficiency, effective size of
        the pool and evaluations. Its return value is ignored.
    progress : bool
        Show evaluations, inverse temperature, effective draws and efficiency (needs tqdm).
    maxfev : int, optional
        Maximum number of likelihood evaluations; never exceeded. With fewer than about ``300 (d + 1)`` the search for
        modes is incomplete, and there is a warning. (A vectorised likelihood that raises an exception is
        called again for each point of its batch; return NaN instead.)
    rng : int, Generator, SeedSequence or None
        Seed.
    store : path or Store, optional
        A file that keeps every evaluation. If the run is killed or interrupted, repeat the same call to continue it, as
        in `minimize`.
    engine : str or ps.compiled.Jax
        ``"numpy"``, or ``"jax"`` for a log likelihood of one point that JAX can trace; ``"auto"`` takes JAX for a
        function of ``jax.jit``. With JAX the draws are made, evaluated and weighted on the device that JAX uses, in
        batches of up to 131,072. The likelihood is evaluated in double precision;
        ``ps.compiled.Jax(precision="single")`` says otherwise. JAX makes the batches, so there are no ``vectorized``,
        ``workers``, ``timeout`` and ``store``.

    Returns
    -------
    Posterior

    Notes
    -----
    First a proposal :math:`q` is adapted. This takes draws from the prior, climbs to modes (and swarms, if there are
    very many), a tempered pool of draws, and mixtures of normal distributions fitted to the pool. Then the proposal is
    frozen, and new draws are weighted by :math:`w = p L / q`. The mean weight is an unbiased estimate of the evidence,
    whatever the quality of the fit.

    If that would be too inefficient, a swarm drawn from :math:`q` is tempered towards the posterior. It moves by PAO's
    exact steps with a Metropolis correction.

    **No diagnostic can detect a mode that no draw has come near.** The error is conditional on the modes that were
    found.

    Examples
    --------
    >>> import numpy as np
    >>> import paoswarm as ps
    >>> from scipy import stats
    >>> data = np.array([1.2, 0.8, 1.9, 1.4])
    >>> def log_likelihood(x):
    ...     return stats.norm.logpdf(data, x[0], 0.5).sum()
    >>> posterior = ps.sample(log_likelihood, {"level": stats.norm(0, 10)}, n_effective=500, rng=1)
    >>> print(f"{posterior.mean()[0]:.1f} +- {posterior.std()[0]:.2f}")
    1.3 +- 0.25
    """
    fun = as_given(log_likelihood, prior) if callable(log_likelihood) else log_likelihood
    prior = ParametersSpace(prior).description if are_parameters(prior) else prior
    law = read_prior(prior)
    wanted = whole_number("n_effective", n_effective, 1)
    if wanted < _LEAST:
        raise ValueError(
            f"n_effective must be at least {_LEAST}, got {wanted}: with fewer effective draws the tail of the weights "
            "cannot be judged, and the error of the evidence is not known"
        )
    budget = None if maxfev is None else _read_budget(maxfev, law.dim, start is not None)
    first = None if n_particles is None else whole_number("n_particles", n_particles, 2)
    flag("progress", progress)
    points = known_points(start, law.names)
    traced = read_traced(engine, fun, law.dim, vectorized=vectorized, workers=workers, timeout=timeout, store=store)
    calling = CallOptions(vectorized or traced is not None, workers, timeout, retries)
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
        open_evaluator(traced or fun, journal, calling, minus_inf_fails=False) as evaluate,
        ProgressBar(progress, budget) as bar,
    ):
        evaluate.count = bar.count if progress else None
        if law.names != numbered(law.dim):
            evaluate.log.text = lambda x: text_by_name(dict(zip(law.names, x.tolist(), strict=True)))

        def measure(x: Floats) -> Floats:
            values, end = evaluate.until(None, x)
            if end is not None:
                raise Interrupted(values, str(end))
            return values

        def measure_first(x: Floats) -> Floats:
            """Evaluate a few points first: a function that always raises an exception should not be called often."""
            if target.n_evaluations or len(x) <= _PATIENCE:
                return measure(x)
            first_values = measure(x[:_PATIENCE])
            if evaluate.kinds[RAISED] == _PATIENCE:
                raise NothingFound(f"log_likelihood raised an exception at all of the first {_PATIENCE} draws")
            try:
                return np.concatenate([first_values, measure(x[_PATIENCE:])])
            except Interrupted as interrupt:
                raise Interrupted(np.concatenate([first_values, interrupt.values]), interrupt.why) from None

        target = make_target(measure_first, law, budget, traced, evaluate.count)
        if points is not None:
            if is_search(start):  # an optimisation may have had wider bounds than the prior
                points = target.within(points)
            target.coordinates(points)  # raises before the first evaluation
        pool = Pool(target.dim)

        def after_stage(stage: dict[str, Any]) -> None:
            bar.show("adaptation", beta=stage["beta"], effective=stage["effective"], efficiency=stage["efficiency"])
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
            why = f"; {evaluate.first_failure()}" if evaluate.failures else ""
            raise ValueError(f"{error}{why}") from evaluate.explain_total_failure().__cause__
        except KeyboardInterrupt as error:
            why = getattr(error, "why", "")  # set if the workers failed
            if not np.isfinite(pool.log_weight(1.0)).any():
                where = f"; they are stored in {journal.path}: repeat the call to continue" if journal else ""
                early = f"interrupted after {target.n_evaluations} evaluations, too early for a posterior{where}"
                raise (EngineDown(why) if why else KeyboardInterrupt(early)) from None
            posterior = interrupted_posterior(target, pool, why or "Interrupted")
        posterior = replace(posterior, seed=int(source.integers(2**63)))
        if journal is not None:
            journal.end(posterior.method, posterior.message, final=posterior.method != "interrupted")
            said = posterior.message + journal.origin(posterior.n_evaluations)
            posterior = replace(posterior, message=said.lstrip())
    evaluate.warn(worth="likelihood zero")
    return posterior


def _read_budget(maxfev: float, dim: int, are_modes_known: bool) -> int:
    """Check ``maxfev``, and warn if it is too small for the search for modes."""
    budget = whole_number("maxfev", maxfev, 10)
    if budget < (least := _SEARCH * (dim + 1)) and not are_modes_known:
        warn_user(
            f"maxfev={budget} is too small to search for modes, so modes may be missed: with {dim} "
            f"parameter{'s' if dim > 1 else ''} the search takes about {least} evaluations if there is one mode, and "
            f"more if there are several. Then every effective draw takes at least one more. Raise maxfev to {least} or "
            "more, or give points near the modes (start=)"
        )
    return budget


def _should_move(target: Target, frozen: Frozen, rng: np.random.Generator) -> bool:
    """Whether moves are likely to be cheaper than importance sampling, judged from the pool and a few trial moves.

    Without trial moves the answer is yes if the budget does not pay for the fewest effective draws by importance
    sampling, or if the pool is too poor for trial moves.
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
        **adaptation_diagnostics(target, frozen),
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
        [*production_remarks(target, made, n_effective), *search_remarks(frozen)],
    )


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
    error = math.inf if problem or not frozen.is_trusted else made.log_evidence_error
    diagnostics = {"pareto_k": math.nan, **made.diagnostics, **adaptation_diagnostics(target, frozen)}
    log_likelihood = bridge.true_log_likelihood(made.draws, made.log_likelihood)
    _measure_again(target, made.draws, made.log_weights, log_likelihood)
    return make_posterior(
        target,
        made.draws,
        made.log_weights,
        log_likelihood,
        made.log_evidence,
        error,
        "tempered",
        diagnostics,
        [*([Remark(DOUBTFUL, problem)] if problem else []), *search_remarks(frozen)],
    )
