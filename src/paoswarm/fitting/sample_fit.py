"""Posterior draws that start from a fit: from all that it has simulated, and from where its searches have ended.

The prior is that of the cube; unknown standard deviations, scales and offsets are integrated out (F11).
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import flag, whole_number
from paoswarm._extras import ProgressBar
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.random import generator
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.comparison import DataComparison
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.evaluate.interrupts import delays_interrupts
from paoswarm.fitting.cube import Cube, FittedVariables
from paoswarm.least_squares.trust_region import Region
from paoswarm.methods.agreement import CONVERGED, KNOWN
from paoswarm.sampling.adapt import UNSURE, Frozen, PriorDensity, draw_into, refine
from paoswarm.sampling.assemble_posterior import draw_posterior
from paoswarm.sampling.climbs import Mode
from paoswarm.sampling.emulated.emulate import emulated_posterior
from paoswarm.sampling.emulated.number_search import FoundEnds
from paoswarm.sampling.emulated.output_search import ends_at
from paoswarm.sampling.emulated.simulations import Simulations
from paoswarm.sampling.likelihood import BatchLikelihood, DataLikelihood
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.prior import UniformBox
from paoswarm.sampling.proposals import DrawPool, blend, make_ladder
from paoswarm.sampling.sample import DEFAULT_BUDGET, MOST_UNKNOWNS, read_wanted, recorded_size, sampled
from paoswarm.sampling.target import Target
from paoswarm.store.encoding import encode
from paoswarm.store.journal import Journal
from paoswarm.store.store import RecordedRun, Store

if TYPE_CHECKING:
    from paoswarm.fitting.fit_call import FitCall
    from paoswarm.fitting.fit_result import Fit


_PILOT = 40  # draws for each unknown that judge the first proposal


class CubePrior(UniformBox):
    """Uniform on the cube of a fit, with laws of the user on some of its axes as part of the likelihood."""

    def __init__(self, cube: Cube, variables: FittedVariables, comparison: DataComparison) -> None:
        super().__init__(variables.names, cube.low, cube.low + cube.width, cube.is_round.tolist())
        self._variables = variables
        keys = list(variables.names) if cube.space.names is not None else np.flatnonzero(variables.is_fitted).tolist()
        self._laws = [(keys.index(one.key), one.law) for one in comparison.beliefs.priors]
        ends = variables.numbers(np.stack([cube.low, cube.low + cube.width]))
        self._masses = [math.log(law.cdf(ends[1, i]) - law.cdf(ends[0, i])) for i, law in self._laws]

    def parameters(self, z: Array) -> Array:
        """The user's numbers."""
        return self._variables.numbers(super().parameters(z))

    def coordinates(self, x: Floats) -> Floats:
        """The sampler's coordinates of the user's numbers."""
        return super().coordinates(self._variables.coordinates(x))

    def parameter_log_density(self, x: Floats) -> Floats:
        """Log density of the user's numbers, with the user's laws."""
        x = np.atleast_2d(x)
        density = super().parameter_log_density(self._variables.coordinates(x))
        return density - np.log(np.where(self._variables.is_log, x, 1.0)).sum(axis=1) + self.excess(x)

    def excess(self, x: Floats) -> Floats:
        """By how much the laws of the user exceed the uniform ones: logarithms of the ratios, for rows of ``x``."""
        total = np.zeros(len(x))
        for (i, law), mass in zip(self._laws, self._masses, strict=True):
            uniform = -np.log(2 * self._half[i]) - (np.log(x[:, i]) if self._variables.is_log[i] else 0.0)
            total += law.logpdf(x[:, i]) - mass - uniform
        return total


@dataclass(frozen=True)
class FitLikelihood(DataLikelihood):
    """The log likelihood at the user's continuous numbers, with the user's priors. It can be sent between processes.

    The simulator takes points as it gets them in the fit.
    """

    variables: FittedVariables
    prior: CubePrior
    region: Region

    def __call__(self, x: Floats) -> Any:
        """Simulate at a point, unless it is not allowed there."""
        u = self.variables.coordinates(x)
        if not self.region.allows((u - self.prior.low) / (self.prior.high - self.prior.low)):
            return -math.inf
        point = self.variables.point(u)
        beliefs = self.comparison.beliefs.residuals(point)
        if not np.isfinite(beliefs).all():
            return -math.inf
        return self.compared(x, self.simulate(point), beliefs)

    def of_outputs(self, outputs: Floats, x: Floats) -> Floats:
        """Log likelihoods ``(k,)`` for outputs and residuals of beliefs ``(k, m)`` at numbers ``(k, d)``."""
        beliefs = self.comparison.beliefs
        penalty = outputs[:, outputs.shape[1] - beliefs.count + len(beliefs.priors) :]
        return super().of_outputs(outputs, x) - 0.5 * (penalty**2).sum(axis=1) + self.prior.excess(x)

    def at_point(self, point: Floats, vector: Floats) -> float:
        """The same at a point of the cube where the vector of outputs and beliefs is known; minus infinity for NaN."""
        x = self.numbers(point[None])
        found = float(self.of_outputs(vector[None], x)[0])
        return found if math.isfinite(found) else -math.inf

    def numbers(self, points: Floats) -> Floats:
        """The user's numbers at points ``(k, n)`` of the cube."""
        return self.variables.numbers(self.prior.low + points * (self.prior.high - self.prior.low))


@delays_interrupts
def sample_fit(
    fit: Fit, *, n_effective: int, maxfev: float | None, workers: Any, progress: bool, rng: Any, store: Any
) -> Posterior:
    """Draw from the posterior of a fit; see `Fit.sample`."""
    call: FitCall = fit["_call"]
    solution = fit.solution
    cube, cell = call.cube, solution.cell
    variables = cube.variables(solution.point, cell)
    prior = CubePrior(cube, variables, call.comparison)
    likelihood = FitLikelihood(call.objective.simulate, call.comparison, variables, prior, call.regions[cell])
    wanted = read_wanted(n_effective)
    budget = None if maxfev is None else whole_number("maxfev", maxfev, 10)
    in_batches = replace(call.options.workers, asynchronous=False)  # the fit may have been asynchronous
    options = CallOptions(False, in_batches if workers is None else Workers.of_batches(workers))
    journal, abreast = None, options.workers.count
    if store is not None:
        store = Store.of(store)
        rng, seed = store.seeded(rng)
        free = [one for one, fitted in zip(call.space.variables, variables.is_fitted, strict=True) if fitted]
        abreast = recorded_size(store, options.workers)
        own = {
            "emulate": abreast,
            "prior": encode(dict(zip(prior.names, free, strict=True))),
            "fit": encode(solution.point),
            "rng": seed,
        }
        limits = {"n_effective": wanted, "maxfev": budget, "expected": budget}
        journal = Journal(store, RecordedRun("sample", own, limits, options.described), call.to_fingerprint())
    source = generator(rng)
    with (
        journal or nullcontext(),
        Evaluator(likelihood, options, journal, minus_inf_fails=False, n_details=len(solution.outputs)) as evaluate,
        ProgressBar(flag("progress", progress), budget) as bar,
    ):
        count = bar.count if progress else None
        simulated = _known(fit, likelihood)
        batches = BatchLikelihood(
            evaluate, prior.names, count, likelihood.of_outputs, simulated, comparison=call.comparison
        )
        is_emulated = prior.dim <= MOST_UNKNOWNS
        if budget is None and is_emulated:
            budget = DEFAULT_BUDGET * (prior.dim + 2)
        target = Target(batches, prior, budget)
        region = call.regions[cell]

        def allows(z: Floats) -> NDArray[np.bool_]:
            return np.array([region.allows(point) for point in (z + 1) / 2], dtype=bool)

        known = Simulations(target, batches, None if call.excess is None else allows)

        def draw(pool: DrawPool) -> Posterior:
            values = likelihood.of_outputs(simulated[1], simulated[0])
            known.keep(2 * fit.pool().points - 1, np.where(np.isnan(values), -math.inf, values), simulated[1])
            found = _found(fit, known)
            if is_emulated:
                return emulated_posterior(known, lambda *_: found, source, wanted, abreast, bar, lambda _: None)
            return draw_posterior(target, _plan(target, found, pool, wanted, source), source, wanted, bar)

        posterior = sampled(target, batches, draw, source, journal)
    batches.warn()
    drawn = posterior.weighted
    alone = None if drawn.log_likelihood is None else drawn.log_likelihood - prior.excess(drawn.draws)
    posterior = replace(posterior, weighted=replace(drawn, log_likelihood=alone))
    return batches.seen(posterior, prior, call.comparison, variables.given, known.drawn_outputs)


def _plan(target: Target, found: FoundEnds, pool: DrawPool, wanted: int, rng: np.random.Generator) -> Frozen:
    """A proposal that starts from normal laws around the ends; with many unknowns it is better than an emulator."""
    modes = [Mode(*one.frame, one.log_mass, is_settled=True, is_peak=True) for one in found.ends]
    ladder = make_ladder(sorted(modes, key=lambda mode: -mode.log_mass), target)
    draw_into(target, pool, ladder, _PILOT * target.dim, rng)
    first = blend([], (), ladder, PriorDensity(target))
    unsure = "" if found.is_sure else UNSURE
    return refine(target, Frozen(first, 0.0, pool, ladder, modes, unsure, True, {"stages": []}), wanted, rng)


def _found(fit: Fit, known: Simulations) -> FoundEnds:
    """Where the searches of the fit have ended."""
    solution = fit.solution
    reach = np.ones(solution.cube.n)
    rows = range(len(known))
    ends = ends_at(known, rows, fit.pool(), solution.loss, fit["_precision"], reach, solution.jacobian)
    ends[0] = ends[0]._replace(n_climbs=fit.agreement.n_here)
    n_ended = sum(one.ending in (CONVERGED, KNOWN) for one in fit.searches)
    return FoundEnds(ends, n_ended, fit.success)


def _known(fit: Fit, likelihood: FitLikelihood) -> tuple[Floats, Floats]:
    """All points of the best cell that were simulated, as the user's numbers, and their outputs; NaN if they failed."""
    pool, m = fit.pool(), len(fit.solution.outputs)
    outputs = [one if len(one) else np.full(m, np.nan) for one in pool.outputs]
    return likelihood.numbers(pool.points), np.array(outputs).reshape(-1, m)
