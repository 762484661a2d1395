"""Compare `paoswarm.sample` with other samplers, on problems with known answers.

It takes hours. Every run has its own process and becomes a row of
``benchmarks/results/samplers.csv``. Existing rows are not run again, so the benchmark can be interrupted and continued.
The first seed is run for all samplers and problems before the second, so that an interrupted benchmark is balanced.
``--table`` reads the file and runs nothing.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import resource
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import samplers_table
from posterior_problems import PROBLEMS, Problem, load
from scipy.special import ndtri

FILE = Path(__file__).parent / "results" / "samplers.csv"
LIMIT = 300_000  # evaluations per run
SECONDS = 300.0  # CPU time per run
BUDGET = 60_000  # evaluations for the samplers that take a budget
COLUMNS = [
    *("sampler", "version", "problem", "seed", "evaluations", "log_evidence", "stated", "finished", "stopped_by"),
    *("cpu_seconds", "mean", "sd"),
]


class Outcome(NamedTuple):
    """The result of a run; NaN for what the sampler does not report."""

    evaluations: int
    log_evidence: float
    stated: float
    mean: np.ndarray
    sd: np.ndarray
    stopped_by: str = ""  # the limit that ended the run; empty for a run that finished


class LimitReached(Exception):
    """Raised by the likelihood to stop a sampler at its limit."""


class Counted:
    """A log likelihood of points ``(m, d)`` or ``(d,)`` with a limit on points and on CPU time."""

    def __init__(self, problem: Problem, limit: int) -> None:
        self._problem, self._limit = problem, limit
        self.rows = 0
        self.stopped_by = ""

    def __call__(self, x: np.ndarray) -> Any:
        """Return log likelihoods, or raise `LimitReached`."""
        if x.ndim == 1:
            return float(self(x[None])[0])
        if self.rows + len(x) > self._limit:
            self.stopped_by = "evaluations"
        elif time.process_time() > SECONDS:
            self.stopped_by = "seconds"
        if self.stopped_by:
            raise LimitReached
        self.rows += len(x)
        return self._problem.log_likelihood(x)

    def outcome(self, log_evidence: float, stated: float, x: np.ndarray, weights: np.ndarray | None = None) -> Outcome:
        """Return the outcome for draws whose weights need not sum to one."""
        mean = np.average(x, axis=0, weights=weights)
        sd = np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))
        return Outcome(self.rows, float(log_evidence), float(stated), mean, sd, self.stopped_by)


def nothing(problem: Problem) -> Outcome:
    unknown = np.full(len(problem.prior), math.nan)
    return Outcome(0, math.nan, math.nan, unknown, unknown, "failure")


def log_prior(problem: Problem, x: np.ndarray) -> np.ndarray:
    return np.sum([law.logpdf(column) for law, column in zip(problem.prior, x.T, strict=True)], axis=0)


def draw(problem: Problem, n: int, rng: np.random.Generator) -> np.ndarray:
    return np.stack([law.rvs(n, random_state=rng) for law in problem.prior], axis=1)


def prior_transform(problem: Problem) -> Callable[[np.ndarray], np.ndarray]:
    """Return the map of one point from the unit cube to the prior. SciPy's ``ppf`` would take most of the run time."""
    quantiles: dict[str, Callable[[Any], Any]] = {
        "uniform": lambda u: u,
        "norm": ndtri,
        "halfcauchy": lambda u: np.tan(math.pi / 2 * u),
    }
    names = np.array([law.dist.name for law in problem.prior])
    low, high = np.array([law.ppf([0.25, 0.75]) for law in problem.prior]).T
    standard = np.array([[quantiles[name](u) for u in (0.25, 0.75)] for name in names]).T
    scale = (high - low) / (standard[1] - standard[0])
    shift = low - scale * standard[0]
    places = [(quantiles[name], np.flatnonzero(names == name)) for name in dict.fromkeys(names)]

    def transform(u: np.ndarray) -> np.ndarray:
        z = np.empty_like(u)
        for quantile, where in places:
            z[where] = quantile(u[where])
        return shift + scale * z

    return transform


def paoswarm(problem: Problem, seed: int, limit: int) -> Outcome:
    import paoswarm as ps

    counted = Counted(problem, limit)
    found = ps.sample(counted, problem.prior, vectorized=True, maxfev=BUDGET, rng=seed)
    return counted.outcome(found.log_evidence, found.log_evidence_error, found.weighted.draws, found.weighted.weights)


def dynesty(problem: Problem, seed: int, limit: int) -> Outcome:
    """Defaults of ``NestedSampler``: 500 live points, bounds and moves by dimension."""
    from dynesty import NestedSampler

    counted = Counted(problem, limit)
    rng = np.random.default_rng(seed)
    sampler = NestedSampler(counted, prior_transform(problem), len(problem.prior), rstate=rng)
    try:
        sampler.run_nested(print_progress=False)  # maxcall would also count moves out of the prior
    except LimitReached:
        for _ in sampler.add_live_points():
            pass
    found = sampler.results
    return counted.outcome(found.logz[-1], found.logzerr[-1], found.samples, found.importance_weights())


def pocomc(problem: Problem, seed: int, limit: int) -> Outcome:
    """Defaults: 512 effective particles, a neural spline flow, 4096 draws for the posterior and for the evidence."""
    import pocomc as pc
    import torch

    torch.set_num_threads(1)
    counted = Counted(problem, limit)
    sampler = pc.Sampler(pc.Prior(problem.prior), counted, vectorize=True, random_state=seed)
    try:
        sampler.run(progress=False)
        log_evidence, stated = sampler.evidence()
    except LimitReached:
        log_evidence, stated = sampler.particles.compute_logw_and_logz(1.0)[1], math.nan
    x, weights, *_ = sampler.posterior()
    return counted.outcome(log_evidence, stated, x, weights)


def emcee(problem: Problem, seed: int, limit: int) -> Outcome:
    """4 d walkers, started at the best prior draws (a tenth of the budget); half of the chain is burn-in."""
    from emcee import EnsembleSampler

    counted = Counted(problem, limit)
    rng = np.random.default_rng(seed)
    walkers = max(32, 4 * len(problem.prior))

    def log_posterior(x: np.ndarray) -> np.ndarray:
        value = log_prior(problem, x)
        inside = np.isfinite(value)
        if inside.any():
            value[inside] += counted(x[inside])
        return np.where(np.isnan(value), -np.inf, value)

    first = draw(problem, BUDGET // 10, rng)
    start = first[np.argsort(log_posterior(first))[-walkers:]]
    sampler = EnsembleSampler(walkers, len(problem.prior), log_posterior, vectorize=True)
    sampler.random_state = np.random.RandomState(seed).get_state()
    steps = (BUDGET - BUDGET // 10) // walkers - 1
    try:
        sampler.run_mcmc(start, steps)
    except LimitReached:
        steps = sampler.iteration
    return counted.outcome(math.nan, math.nan, sampler.get_chain(discard=steps // 2, flat=True))


def blackjax(problem: Problem, seed: int, limit: int, particles: int = 1000, moves: int = 20) -> Outcome:
    """Adaptive tempered SMC with random-walk Metropolis moves; it reports no error of the evidence."""
    import blackjax as bj
    import jax
    import jax.numpy as jnp
    from blackjax.smc import extend_params, resampling

    jax.config.update("jax_enable_x64", True)
    counted = Counted(problem, limit)
    d = len(problem.prior)

    def likelihood(x: np.ndarray) -> np.ndarray:
        rows = np.asarray(x).reshape(-1, d)
        inside = np.isfinite(log_prior(problem, rows))  # outside the prior the likelihood is not needed and not counted
        value = np.zeros(len(rows))
        try:
            value[inside] = np.nan_to_num(counted(rows[inside]), nan=-1e300, neginf=-1e300)
        except LimitReached:
            value[:] = math.nan  # JAX would garble an exception; the loop below checks
        return value.reshape(x.shape[:-1])

    def through(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
        shape = jax.ShapeDtypeStruct((), jnp.float64)
        return lambda x: jax.pure_callback(function, shape, x, vmap_method="expand_dims")

    def prior(x: np.ndarray) -> np.ndarray:
        return log_prior(problem, np.asarray(x).reshape(-1, d)).reshape(x.shape[:-1])

    def step_size(weights: Any, x: Any) -> dict[str, Any]:
        covariance = jnp.cov(x.T, aweights=weights) + 1e-12 * jnp.diag(jnp.var(x, axis=0))
        return extend_params({"sigma": jnp.linalg.cholesky(2.38**2 / d * covariance)})

    def walk(key: Any, state: Any, log_density: Any, sigma: Any) -> Any:
        return bj.additive_step_random_walk.build_kernel()(key, state, log_density, bj.mcmc.random_walk.normal(sigma))

    x = jnp.asarray(draw(problem, particles, np.random.default_rng(seed)))
    smc = bj.inner_kernel_tuning(
        smc_algorithm=bj.adaptive_tempered_smc,
        logprior_fn=through(prior),
        loglikelihood_fn=through(likelihood),
        mcmc_step_fn=walk,
        mcmc_init_fn=bj.additive_step_random_walk.init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=lambda key, state, info: step_size(state.weights, state.particles),
        initial_parameter_value=step_size(jnp.ones(particles), x),
        num_mcmc_steps=moves,
        target_ess=0.5,
    )
    state, step = smc.init(x), jax.jit(smc.step)
    log_evidence, key = 0.0, jax.random.key(seed)
    while state.sampler_state.tempering_param < 1:
        key, now = jax.random.split(key)
        new, info = step(now, state)
        jax.block_until_ready(new)
        if counted.stopped_by:
            break
        state, log_evidence = new, log_evidence + float(info.log_likelihood_increment)
    final = state.sampler_state
    return counted.outcome(log_evidence, math.nan, np.asarray(final.particles), np.asarray(final.weights))


SAMPLERS = {f.__name__: f for f in (paoswarm, dynesty, pocomc, emcee, blackjax)}


def attempt(sampler: str, name: str, seed: int) -> dict[str, Any]:
    """Make one run and return its row. The operating system kills this process if it exceeds its CPU time."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(3 * SECONDS),) * 2)
    problem = load(name)
    try:
        found = SAMPLERS[sampler](problem, seed, LIMIT)
    except ImportError:
        raise
    except Exception:  # a failed run gets a row too
        traceback.print_exc()
        found = nothing(problem)
    return row(sampler, name, seed, found, round(time.process_time(), 2))


def row(sampler: str, name: str, seed: int, found: Outcome, spent: float) -> dict[str, Any]:
    vectors = [";".join(f"{value:.10g}" for value in vector) for vector in (found.mean, found.sd)]
    numbers = [found.evaluations, f"{found.log_evidence:.6f}", f"{found.stated:.6f}", not found.stopped_by]
    values = [sampler, version(sampler), name, seed, *numbers, found.stopped_by, spent, *vectors]
    return dict(zip(COLUMNS, values, strict=True))


def read() -> list[dict[str, str]]:
    if not FILE.exists():
        return []
    with FILE.open(newline="") as file:
        return list(csv.DictReader(file))


def append(values: dict[str, Any]) -> None:
    FILE.parent.mkdir(exist_ok=True)
    new = not FILE.exists()
    with FILE.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLERS), default=list(SAMPLERS))
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds, starting at 0")
    parser.add_argument("--table", action="store_true", help="print the table of the finished runs, run nothing")
    parser.add_argument("--markdown", action="store_true", help="the same table in Markdown")
    options = parser.parse_args()
    if options.table or options.markdown:
        print(samplers_table.table(read(), options.samplers, options.problems, options.seeds, options.markdown))
        return
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})  # one run, one core
    runs = [(s, p, i) for i in range(options.seeds) for s in options.samplers for p in options.problems]
    for sampler, name, seed in runs:
        done = {(line["sampler"], line["problem"], line["seed"]) for line in read()}
        if (sampler, name, str(seed)) in done:
            continue
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            try:
                values = pool.submit(attempt, sampler, name, seed).result()
            except BrokenProcessPool:  # killed by the operating system
                values = row(sampler, name, seed, nothing(load(name)), 3 * SECONDS)
        append(values)
        print(*list(values.values())[:-2], flush=True)


if __name__ == "__main__":
    main()
