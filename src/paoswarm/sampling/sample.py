"""`sample`: posterior draws and evidence without gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import OptimizeResult

from paoswarm._checks import explains_keywords, flag, positive_number, whole_number
from paoswarm._extras import ProgressBar, need
from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, generator
from paoswarm.engines.engines import Jax, Numba, read_engine
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.calls import Objective
from paoswarm.evaluate.engines import EngineDown
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.evaluate.interrupts import delays_interrupts, interruptible
from paoswarm.sampling.adapt import NothingFound, adapt
from paoswarm.sampling.assemble_posterior import LEAST, draw_posterior, interrupted_posterior
from paoswarm.sampling.emulated.emulate import emulated_posterior, explore
from paoswarm.sampling.emulated.simulations import Simulations
from paoswarm.sampling.likelihood import BatchLikelihood, Called, read_function
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.prior import Prior
from paoswarm.sampling.proposals import DrawPool
from paoswarm.sampling.read_prior import read_prior
from paoswarm.sampling.starts import is_search, known_points
from paoswarm.sampling.target import Target
from paoswarm.space.lmfit_parameters import OfParameters, ParametersSpace, are_parameters
from paoswarm.store.encoding import encode
from paoswarm.store.journal import Journal
from paoswarm.store.store import RecordedRun, Store

if TYPE_CHECKING:
    from paoswarm.sampling.jax_target import JaxLikelihood

MOST_UNKNOWNS = 12  # with more, the emulator is no better than draws
DEFAULT_BUDGET = 200  # simulations, times (d + 2), at most, if maxfev is not given and an emulator is used
USUAL_BUDGET = 50  # the same that most take
_SEARCH = 300  # evaluations, times (d + 1), that the search for modes takes at least (measured on normal posteriors)
# What JAX does not have, and the values that say that it is not wanted.
_LACKING: dict[str, Any] = {
    "vectorized": False,
    "workers": Workers(),
    "store": None,
    "time_limit": None,
    "unbiased": False,
}


@explains_keywords(
    simulate="give the simulator first, then the prior and data",
    space="the second argument is the prior; a space counts as a uniform one",
    priors="the second argument is the prior of all parameters",
    penalty="add it to a log likelihood of your own, or use ps.fit(...).sample()",
)
@delays_interrupts
def sample(
    log_likelihood: Objective,
    prior: Any,
    data: Any = None,
    *,
    sigma: Any = None,
    likelihood: Any = "normal",
    xdata: Any = None,
    args: Any = (),
    n_effective: int = 2000,
    n_particles: int | None = None,
    unbiased: bool = False,
    vectorized: bool = False,
    workers: Any = 1,
    start: Any = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
    progress: bool = False,
    maxfev: float | None = None,
    time_limit: float | None = None,
    emulate: bool | None = None,
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
        count as likelihood zero; +inf is an error. With ``data``, the simulator, as in `fit`: it returns predictions
        in the form of the data, and gets a dict if the prior is one.
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
    data, sigma, likelihood, xdata : optional
        What the simulator should return, and the law of the noise, as in `fit`. A ``sigma`` that is not given is
        integrated out with the prior ``1 / sigma``, a scale or offset of `Scaled` data with a flat one (F11): then
        evidences can be compared between models of the same data that leave the same unknown.
    args : tuple
        More arguments of the function.
    n_effective : int
        Wanted effective sample size, at least 100. With fewer the error of the evidence would not be known.
    n_particles : int, optional
        Number of first draws from the prior; by default 1000 per parameter, at most 10,000. Modes that cover less than
        ``30 / n_particles`` of the prior may be missed.
    unbiased : bool
        Whether values are logarithms of estimates of the likelihood that differ from call to call, and whose mean is
        the likelihood itself. Draws and evidence are then right for the exact one (pseudo-marginal). If the logarithms
        have normal noise of standard deviation s, that takes exp(s^2) times the draws.
    vectorized, workers
        As in `minimize`. A simulator is called for one point at a time.
    start : result, array (m, d) or dict, optional
        Points near known modes: a result of `minimize` or `minimize_many` (or a list of them), of `fit`, an array, or
        a dict of values by parameter. They are used in addition to the draws from the prior.
    callback : callable, optional
        Called after every stage of the adaptation with a dict of inverse temperature, efficiency, effective size of
        the pool and evaluations. Its return value is ignored.
    progress : bool
        Show evaluations, inverse temperature, effective draws and efficiency (needs tqdm).
    maxfev : int, optional
        Maximum number of likelihood evaluations; never exceeded. (A vectorised likelihood that raises an exception is
        called again for each point of its batch; return NaN instead.)
    time_limit : float, optional
        Seconds after which no evaluation begins. The draws so far make the posterior; its error may not be known.
    emulate : bool, optional
        Whether an emulator learns the likelihood, or with ``data`` the simulator's outputs, from few evaluations and
        proposes the draws; then hundreds of evaluations do what takes thousands without. It takes milliseconds for each
        of them, and which points are evaluated depends on the number of workers. By default it does with up to 12
        parameters, if there is ``data``, or if ``maxfev`` is below ``300 (d + 1)``. Without ``maxfev`` it takes at most
        ``200 (d + 2)``.
    rng : int, Generator, SeedSequence or None
        Seed.
    store : path or Store, optional
        A file that keeps every evaluation, with all outputs of a simulator. If the run is killed or interrupted,
        repeat the same call to continue it, as in `minimize`.
    engine : str or ps.engines.Jax
        ``"numpy"``, or ``"jax"`` for a log likelihood of one point that JAX can trace; ``"auto"`` takes JAX for a
        function of ``jax.jit``. With JAX the draws are made, evaluated and weighted on the device that JAX uses, in
        batches of up to 131,072. The likelihood is evaluated in double precision;
        ``ps.engines.Jax(precision="single")`` says otherwise. JAX makes the batches, so there are no ``vectorized``,
        ``workers`` and ``store``.

    Returns
    -------
    Posterior

    Notes
    -----
    First a proposal :math:`q` is adapted. This takes draws from the prior, climbs to modes (and swarms, if there are
    very many), a tempered pool of draws, and mixtures of normal distributions fitted to the pool. Then the proposal is
    frozen, and new draws are weighted by :math:`w = p L / q`. The mean weight is an unbiased estimate of the evidence,
    whatever the quality of the fit.

    With an emulator :math:`q` is adapted to the emulated posterior, from which any number of draws are free. A few of
    them are simulated, and correct what the emulator says: the evidence is unbiased whatever its quality (E3).

    If importance sampling would be too inefficient, a swarm drawn from :math:`q` is tempered towards the posterior. It
    moves by PAO's exact steps with a Metropolis correction.

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
    called = read_function(log_likelihood, prior, data, sigma, likelihood, xdata, args)
    prior = ParametersSpace(prior).description if are_parameters(prior) else prior
    law = read_prior(prior)
    wanted = read_wanted(n_effective)
    budget = None if maxfev is None else whole_number("maxfev", maxfev, 10)
    seconds = None if time_limit is None else positive_number("time_limit", time_limit)
    first = None if n_particles is None else whole_number("n_particles", n_particles, 2)
    flag("progress", progress)
    points = known_points(_best_of(start, law.names), law.names)
    workers = Workers.of_batches(workers)
    called.check(law.dim, vectorized=flag("vectorized", vectorized), unbiased=unbiased, engine=engine)
    options = {"vectorized": vectorized, "workers": workers, "store": store, "time_limit": seconds}
    traced = read_traced(engine, called.fun, law.dim, unbiased=flag("unbiased", unbiased), **options)
    calling = CallOptions(vectorized or traced is not None, workers)
    store = None if store is None else Store.of(store)
    others = (unbiased, first is not None, traced is not None)
    abreast = read_emulate(emulate, store, workers, law.dim, budget, called, others, has_start=start is not None)
    if abreast and budget is None:
        budget = DEFAULT_BUDGET * (law.dim + 2)
    journal = None
    if store is not None:
        rng, seed = store.seeded(rng)
        problem = {"prior": encode(prior), "n_particles": first, "start": encode(points), "rng": seed}
        problem |= called.about | ({"unbiased": True} if unbiased else {}) | ({"emulate": abreast} if abreast else {})
        limits = {"n_effective": wanted, "maxfev": budget, "expected": budget, "time_limit": seconds}
        journal = Journal(store, RecordedRun("sample", problem, limits, calling.described), called.fingerprint)
    source = generator(rng)
    with (
        journal or nullcontext(),
        Evaluator(
            traced or called.fun, calling, journal, minus_inf_fails=False, n_details=called.n_outputs
        ) as evaluate,
        ProgressBar(progress, budget) as bar,
    ):
        count = bar.count if progress else None
        batches = BatchLikelihood(
            evaluate, law.names, count, called.of_outputs, time_limit=seconds, comparison=called.comparison
        )
        target = make_target(batches, law, budget, traced, count)
        target.is_random = unbiased
        if points is not None:  # an optimisation may have had wider bounds than the prior
            points = target.coordinates(target.within(points) if is_search(start) else points)

        def call_back(stage: dict[str, Any]) -> None:
            if callback is not None and not batches.is_replayed:
                with interruptible():
                    callback(stage)

        def after_stage(stage: dict[str, Any]) -> None:
            bar.show("adaptation", beta=stage["beta"], effective=stage["effective"], efficiency=stage["efficiency"])
            call_back(stage)

        known = Simulations(target, batches if called.comparison is not None else None)

        def draw(pool: DrawPool) -> Posterior:
            if not abreast:
                plan = adapt(
                    target, source, n_effective=wanted, known=points, n_prior=first, pool=pool, callback=after_stage
                )
                return draw_posterior(target, plan, source, wanted, bar)
            search = partial(explore, known, points, abreast, source)
            usual = math.inf if maxfev is not None else USUAL_BUDGET * (law.dim + 2)
            return emulated_posterior(known, search, source, wanted, abreast, bar, call_back, usual)

        posterior = sampled(target, batches, draw, source, journal)
    batches.warn()
    return batches.seen(posterior, law, called.comparison, called.as_given, known.drawn_outputs)


def _best_of(start: Any, names: list[str]) -> Any:
    """In place of a result without a swarm, that of a fit or of SciPy, its best point."""
    if not isinstance(start, OptimizeResult) or "swarm" in start:
        return start
    best = getattr(start, "best", None)
    if not isinstance(best, Mapping):
        return start.x
    if missing := [name for name in names if name not in best]:
        raise ValueError(f"start: the result has no unknown {missing[0]!r}, which the prior has")
    return {name: best[name] for name in names}


def sampled(
    target: Target,
    likelihood: BatchLikelihood,
    draw: Callable[[DrawPool], Posterior],
    rng: np.random.Generator,
    journal: Journal | None,
) -> Posterior:
    """Draw, and say where draws came from; ``draw`` may fill a pool, from which an interrupt makes a posterior."""
    pool = DrawPool(target.dim)
    try:
        posterior = draw(pool)
    except NothingFound as error:
        raise likelihood.explained(error) from likelihood.cause
    except KeyboardInterrupt as error:
        posterior = _interrupted(error, target, likelihood, pool, journal)
    posterior = replace(posterior, seed=int(rng.integers(2**63)))
    if journal is None:
        return posterior
    journal.end(posterior.method, posterior.message, final=posterior.method != "interrupted")
    origin = journal.origin(posterior.n_evaluations)
    return replace(posterior, message=(posterior.message + origin).lstrip())


def _interrupted(
    error: KeyboardInterrupt, target: Target, likelihood: BatchLikelihood, pool: DrawPool, journal: Journal | None
) -> Posterior:
    """The posterior of the draws so far; raise if there is none."""
    why = getattr(error, "why", "")  # set if the workers failed, or if the time is up
    if np.isfinite(pool.log_weight(1.0)).any():
        return interrupted_posterior(target, pool, why or "Interrupted")
    where = f"; they are stored in {journal.path}: repeat the call to continue" if journal else ""
    early = f"interrupted after {target.n_evaluations} evaluations, too early for a posterior{where}"
    if likelihood.is_late:
        raise ValueError(f"{why}: {early}")
    raise (EngineDown(why) if why else KeyboardInterrupt(early)) from None


def read_wanted(n_effective: int) -> int:
    """Check ``n_effective``."""
    wanted = whole_number("n_effective", n_effective, 1)
    if wanted < LEAST:
        raise ValueError(
            f"n_effective must be at least {LEAST}, got {wanted}: with fewer effective draws the tail of the weights "
            "cannot be judged, and the error of the evidence is not known"
        )
    return wanted


_WITHOUT = (  # what an emulator cannot do
    "unbiased=True: it would learn the noise; average more, and leave it out",
    "n_particles=: it takes few first draws",
    "engine='jax', which makes millions of evaluations where it saves them",
)


def recorded_size(store: Store | None, workers: Workers) -> int:
    """How many points an emulator asks for at once: as many as a recorded run, else as there are workers."""
    recorded = None if store is None else store.recorded("emulate")
    return recorded if isinstance(recorded, int) and recorded > 0 else workers.count


def read_emulate(
    emulate: bool | None,
    store: Store | None,
    workers: Workers,
    dim: int,
    budget: int | None,
    called: Called,
    others: tuple[bool, bool, bool],
    *,
    has_start: bool,
) -> int:
    """How many points an emulator asks for at once, as many as the store has recorded; 0 if there is none.

    There is one if it is wanted, or if nothing says no and simulations are few; ``others`` say no, see `_WITHOUT`.
    """
    at_once = recorded_size(store, workers)
    if store is not None and emulate is None:
        emulate = {None: False, 0: None}.get(store.recorded("emulate", 0), True)  # None: the recorded run has none
    if emulate is not None and flag("emulate", emulate):
        if wrong := [text for text, is_given in zip(_WITHOUT, others, strict=True) if is_given]:
            raise ValueError(f"emulate=True does not go with {wrong[0]}")
        return at_once
    is_small = budget is not None and budget < _SEARCH * (dim + 1)
    is_simulated = called.comparison is not None
    if emulate is None and not any(others) and dim <= MOST_UNKNOWNS and (is_small or is_simulated):
        return at_once
    if is_small and not has_start:
        least = _SEARCH * (dim + 1)
        warn_user(
            f"maxfev={budget} is too small to search for modes, so modes may be missed: with {dim} "
            f"parameter{'s' if dim > 1 else ''} the search takes about {least} evaluations if there is one mode, and "
            f"more if there are several. Then every effective draw takes at least one more. Raise maxfev to {least} or "
            "more"
        )
    return 0


def read_traced(engine: Any, fun: Any, dim: int, **options: Any) -> JaxLikelihood | None:
    """The log likelihood made ready for JAX; None for NumPy. Raise if the engine, or an option for it, is unknown."""
    described = read_engine(engine, getattr(fun, "fun", fun))
    if engine == "auto" and described is not None:  # a function that was compiled with JAX, or with numba
        described = None if isinstance(described, Numba) else Jax()
    if described is None:
        return None
    if not isinstance(described, Jax):
        raise ValueError(f"sample has engine='numpy' and engine='jax', got {engine!r}")
    if wanted := [name for name, default in _LACKING.items() if options.get(name, default) != default]:
        if engine == "auto":
            return None
        raise ValueError(
            f"sample does not have {wanted[0]} with engine='jax', which evaluates all draws of a batch at once; "
            "engine='numpy' has it"
        )
    if isinstance(fun, OfParameters):
        raise ValueError("JAX cannot trace functions of lmfit.Parameters; use engine='numpy'")
    need("jax", extra="jax", user="engine='jax'")
    from paoswarm.sampling.jax_target import JaxLikelihood

    return JaxLikelihood(fun, dim, described.precision or "double")


def make_target(
    log_likelihood: Callable[[Floats], ArrayLike],
    prior: Prior,
    maxfev: int | None,
    traced: JaxLikelihood | None,
    count: Callable[[int], None] | None,
) -> Target:
    """The target for an engine; ``log_likelihood`` evaluates batches on the host's side."""
    if traced is None:
        return Target(log_likelihood, prior, maxfev)
    from paoswarm.sampling.jax_target import JaxTarget

    return JaxTarget(log_likelihood, prior, maxfev, traced, count)
