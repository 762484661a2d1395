r"""Posterior draws that start from a fit: from normal laws around its places, not from the prior.

The prior is that of the cube; unknown standard deviations, scales and offsets are integrated out (F11).

Normal laws with the covariance (F9) around the best point, and around known points that are too high to belong to it,
make the first proposal. A few draws say how good it is. If it is good, it is used as it is. If not, laws are fitted to
the draws, as `sample` does.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from paoswarm._checks import flag, whole_number
from paoswarm._extras import ProgressBar
from paoswarm.core.arrays import Array, Floats
from paoswarm.core.random import generator
from paoswarm.core.weights import effective_size
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.comparison import DataComparison
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.fitting.cube import Cube, FittedVariables
from paoswarm.least_squares.descent import Descent
from paoswarm.least_squares.trust_region import Region
from paoswarm.sampling.adapt import UNSURE, Frozen, PriorDensity, draw_into, refine
from paoswarm.sampling.climbs import Mode, distance, log_volume
from paoswarm.sampling.densities import Blend, Circle, Mixture
from paoswarm.sampling.likelihood import BatchLikelihood, DataLikelihood
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.prior import UniformBox
from paoswarm.sampling.proposals import DrawPool, blend, fit_laws, make_ladder, with_heavy_tail, wrapped
from paoswarm.sampling.sample import read_wanted, sampled
from paoswarm.sampling.target import Target
from paoswarm.store.encoding import encode
from paoswarm.store.journal import Journal
from paoswarm.store.store import RecordedRun, Store

if TYPE_CHECKING:
    from paoswarm.fitting.fit_call import FitCall
    from paoswarm.fitting.fit_result import Fit

_WIDEST = 0.6  # standard deviation in widths along directions that the data do not determine: those of a wide uniform
_LOWEST = 10.0  # log height, and a half more for each unknown, by which a known point that matters may be lower
_SURPRISING = 3.0  # log height by which it exceeds the laws around the modes
_MOST_MODES, _LOOKED_AT = 20, 200  # modes, and known points for each unknown, at most
_PILOT, _PILOT_EACH = 100, 20  # draws that judge a proposal: this number, and so many for each unknown
_ROUNDS = 6  # of such draws, at most, each followed by a new fit
_GOOD = 0.5  # efficiency from which on a proposal is not improved: the rest costs more than it saves
_USABLE = 0.05  # efficiency below which the full adaptation of `sample` takes over
_MOST_FREEDOM = 30  # degrees of freedom of the proposal: with more it is as good as normal


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
    journal = None
    if store is not None:
        store = Store.of(store)
        rng, seed = store.seeded(rng)
        free = [one for one, fitted in zip(call.space.variables, variables.is_fitted, strict=True) if fitted]
        own = {"prior": encode(dict(zip(prior.names, free, strict=True))), "fit": encode(solution.point), "rng": seed}
        limits = {"n_effective": wanted, "maxfev": budget, "expected": budget}
        journal = Journal(store, RecordedRun("sample", own, limits, options.described), call.to_fingerprint())
    source = generator(rng)
    with (
        journal or nullcontext(),
        Evaluator(likelihood, options, journal, minus_inf_fails=False, n_details=len(solution.outputs)) as evaluate,
        ProgressBar(flag("progress", progress), budget) as bar,
    ):
        count = bar.count if progress else None
        batches = BatchLikelihood(evaluate, prior.names, count, likelihood.of_outputs, _known(fit, likelihood))
        target = Target(batches, prior, budget)
        modes = _modes(fit, likelihood, target.circle)
        freedom = _MOST_FREEDOM if solution.is_noise_known else min(max(solution.degrees_of_freedom, 3), _MOST_FREEDOM)
        plan = partial(_plan, target, modes, is_sure=fit.success, freedom=freedom, wanted=wanted, rng=source)
        posterior = sampled(target, batches, plan, source, wanted, bar, journal)
    batches.warn()
    drawn = posterior.weighted
    alone = None if drawn.log_likelihood is None else drawn.log_likelihood - prior.excess(drawn.draws)
    message = f"{posterior.message} Modes that no search of the fit has seen cannot be ruled out."
    posterior = replace(posterior, message=message, weighted=replace(drawn, log_likelihood=alone))
    return batches.seen(posterior, prior, call.comparison, variables.given)


def _known(fit: Fit, likelihood: FitLikelihood) -> tuple[Floats, Floats]:
    """All points of the best cell that were simulated, as the user's numbers, and their outputs; NaN if they failed."""
    pool, m = fit.pool(), len(fit.solution.outputs)
    outputs = [one if len(one) else np.full(m, np.nan) for one in pool.outputs]
    return likelihood.numbers(pool.points), np.array(outputs).reshape(-1, m)


def _modes(fit: Fit, likelihood: FitLikelihood, circle: Circle | None) -> list[Mode]:
    """The best point, and known points of its cell that are higher than normal laws around these would have it."""
    solution, points = fit.solution, fit.pool()
    n = solution.cube.n
    found = [_mode(solution.point, solution.outputs, solution.jacobian, fit, likelihood)]
    lowest = found[0].height - _LOWEST - n / 2
    for number in np.argsort(points.values)[: _LOOKED_AT * n].tolist():
        point, outputs = points.points[number], points.outputs[number]
        height = likelihood.at_point(point, outputs) if len(outputs) else -math.inf
        if not height > lowest or len(found) == _MOST_MODES:
            break
        z = 2 * point[None] - 1
        expected = max(one.height - distance(z, one.z, one.factor, circle)[0] ** 2 / 2 for one in found)
        if height > expected + _SURPRISING:
            rough = Descent(0, points, number, solution.loss, fit["_precision"])
            found.append(_mode(point, outputs, rough.jacobian, fit, likelihood))
    return sorted(found, key=lambda mode: -mode.log_mass)


def _mode(point: Floats, outputs: Floats, jacobian: Floats, fit: Fit, likelihood: FitLikelihood) -> Mode:
    """A place, with the covariance (F9) there; where the data determine nothing it is as wide as the cube."""
    solution = fit.solution
    loss, n = solution.loss, solution.cube.n
    around = loss.around(outputs)
    unit = solution.unit * (around.root / solution.around.root) ** 2 if solution.around.root > 0 else math.nan
    slope = loss.slope(around, jacobian)
    precision = slope.T @ slope / unit if math.isfinite(unit) and unit > 0 else np.zeros((n, n))
    factor = 2 * np.linalg.cholesky(np.linalg.inv(precision + np.eye(n) / _WIDEST**2))
    height = likelihood.at_point(point, outputs)
    is_peak = float(np.linalg.norm(factor.T @ slope.T @ around.residuals)) < 2 * unit  # a standard error away
    return Mode(2 * point - 1, factor, height + float(log_volume(factor)), is_settled=True, is_peak=is_peak)


def _plan(
    target: Target,
    modes: list[Mode],
    pool: DrawPool,
    *,
    is_sure: bool,
    freedom: int,
    wanted: int,
    rng: np.random.Generator,
) -> Frozen:
    """A proposal that starts from the modes."""
    d, prior, ladder = target.dim, PriorDensity(target), make_ladder(modes, target)
    shares = np.exp([mode.log_mass - modes[0].log_mass for mode in modes])
    around = Mixture(
        shares / shares.sum(), np.array([mode.z for mode in modes]), np.array([mode.factor for mode in modes]), freedom
    )
    best: Blend = blend([wrapped(with_heavy_tail(around), target)], (1.0,), ladder, prior)
    efficiencies: list[float] = []
    for _ in range(_ROUNDS):
        draw_into(target, pool, best, _PILOT + _PILOT_EACH * d, rng)
        efficiencies.append(pool.efficiency(best))
        if efficiencies[-1] >= _GOOD or effective_size(pool.log_weight(1.0)) < 2 * (d + 1):
            break
        laws = fit_laws(pool, target, 1.0, 1.0, rng)[:1]
        best = max(blend(laws, (1.0,), ladder, prior), best, key=pool.efficiency)
    unsure = "" if is_sure else UNSURE
    plan = Frozen(best, pool.efficiency(best), pool, ladder, modes, unsure, True, {"stages": []})
    return plan if plan.predicted_efficiency >= _USABLE else refine(target, plan, wanted, rng)
