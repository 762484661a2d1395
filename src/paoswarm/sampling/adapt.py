"""Phase A: search for modes, temper, fit, and freeze a proposal.

Nothing computed here enters the evidence. It only decides where the production draws from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size
from paoswarm.sampling.climbs import Mode, climb_cost, is_new
from paoswarm.sampling.densities import Blend, Density
from paoswarm.sampling.proposals import DrawPool, blend, fit_laws, make_ladder
from paoswarm.sampling.search import explore, explore_again
from paoswarm.sampling.starts import Draws, badly_covered
from paoswarm.sampling.target import Target, warn_of_wrong_scale

_TYPICAL_DIM = 10  # number of parameters: first draws are for so many at most, stages for so many at least
_FIRST_DRAWS = 1000  # draws from the prior per parameter, unless the caller chooses
_FIRST_SHARE = 0.2  # share of maxfev for draws from the prior, at most
_SEEN = 30  # first draws expected in a basin, from which on it was never missed
_EXTRA_SHARE = 0.1  # share of what is left of maxfev for each of the next three, at most
_CHECKED_TWICE = 3  # points evaluated twice, to see whether the likelihood is noisy
_LADDER_DRAWS = (1000, 200)  # draws around the modes: this number, and so many more per parameter
_LADDER_DRAWS_AGAIN = (200, 40)  # draws around the modes after later climbs, likewise
_SEARCH_SHARE = 0.25  # share of maxfev for climbs
_STAGES = 60  # stages, at most
_STAGE_DRAWS = 80  # draws in a stage, per parameter
_STAGE_GROWTH = 4  # factor by which a stage at the posterior's own temperature is larger, at most
_STAGE_SHARE = 0.3  # draws in such a stage, as a share of what the production will need
_FRONT = 15  # effective draws per parameter from which on a temperature counts as reached
_REACHED = 2  # effective draws per parameter from which on the posterior itself is fitted
_BEST_SHARES = (0.72, 0.24)  # shares of the two sharpest fits in the proposal
_WIDE_SHARES = (0.4, 0.24, 0.18, 0.14)  # shares of the four fits in what a stage draws from
_LEAST_EFFICIENCY = 0.02  # least efficiency for which a production is planned
_HOLDS = 0.75  # share of the expected efficiency that confirms it
_CONFIRMED = 2  # stages in a row that confirm the efficiency and end the adaptation
_WINDOW = 8  # stages within which there must be progress
_PROGRESS = 1.2  # factor of efficiency that counts as progress
_RESERVE = 0.35  # share of maxfev kept for production
_RESERVE_AGAIN = 0.6  # share of what is left that is kept after a production that went badly
_AGAIN = 6  # times that badly covered points are climbed from, at most
_AGAIN_BUDGET = 4000  # evaluations for the climbs from badly covered points, each time
_POOLED = 100_000  # draws of a production that are added to the pool, at most: each is weighed by all proposals
_AGAIN_SHARE = 0.125  # share of what is left of maxfev for these climbs, at most

UNSURE = "the searches of the fit had not agreed when it ended, so modes may be missing"
LATE = "an important mode was found late, after the search for modes: others like it may be missing"
_FLAT = (
    "the likelihood is the same at all first draws, and no climb came to more: a peak elsewhere was not seen, so no "
    "standard error is given"
)


class NothingFound(ValueError):
    """No first draw has a positive likelihood."""


class Frozen(NamedTuple):
    """The result of the adaptation; it does not change during a production."""

    proposal: Blend
    predicted_efficiency: float  # effective draws per draw
    pool: DrawPool
    ladder: Density  # the modes at all scales
    modes: list[Mode]
    incomplete: str  # why modes may be missing; empty if there is no sign of any
    is_trusted: bool  # whether an error can be stated for those that were found
    diagnostics: dict[str, Any]  # see `Posterior`


class PriorDensity:
    """The prior as a density to draw from; it is uniform in the ``bounded`` coordinates, normal in the others."""

    def __init__(self, target: Target) -> None:
        self.log_density = target.log_prior
        self.bounded = target.walled if target.circle is None else target.walled | np.isfinite(target.circle.width)
        self._draw = target.draw_prior

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        """``n`` independent draws."""
        return self._draw(n, rng)


def adapt(
    target: Target,
    rng: np.random.Generator,
    *,
    n_effective: int,
    known: Floats | None = None,
    n_prior: int | None = None,
    pool: DrawPool | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> Frozen:
    """Learn where the posterior is, and freeze a proposal for it.

    The effective size that production will be asked for sets the size of stages and the evaluations kept back. There
    may be ``known`` points near modes, in the target's coordinates, a number of first draws from the prior, an empty
    pool to fill, so that the caller has the draws if the run is interrupted, and a callback after every stage, with a
    dict.
    """
    d, allowed = target.dim, target.n_left
    pool = DrawPool(d) if pool is None else pool
    n_prior = _FIRST_DRAWS * min(d, _TYPICAL_DIM) if n_prior is None else n_prior
    n_prior = min(n_prior, max(1, int(_FIRST_SHARE * allowed)))
    z = target.draw_prior(n_prior, rng)
    log_prior, log_likelihood = target.log_prior(z), target.log_likelihood(z)
    kept = slice(_FIRST_DRAWS * _TYPICAL_DIM)  # more of them only show where to climb from
    pool.add(PriorDensity(target), z[kept], log_prior[kept], log_likelihood[kept])
    known = np.empty((0, d)) if known is None else known
    nothing = f"the likelihood is zero or failed at all {n_prior} draws from the prior"
    has_height = bool(np.isfinite(log_prior + log_likelihood).any())
    if not has_height and len(known) == 0:
        raise NothingFound(f"{nothing}; draw more (n_particles=), or give points with a positive likelihood as start=")
    highest = np.argsort(-log_likelihood)[: min(_CHECKED_TWICE, int(_EXTRA_SHARE * target.n_left))]
    target.measure_again(z[highest], log_likelihood[highest])
    warn_of_wrong_scale(z, log_likelihood)
    found = explore(target, Draws(z, log_prior + log_likelihood), known, int(_SEARCH_SHARE * allowed), rng)
    if not has_height and not found.modes:
        raise NothingFound(
            f"{nothing}, and no climb from start= found a positive likelihood; raise maxfev, or give points with a "
            "positive likelihood"
        )
    if _is_flat(log_likelihood, target.n_failed) and not _is_higher(target, found.modes, log_likelihood.max()):
        found = found._replace(incomplete=_FLAT, is_trusted=False)
    ladder = make_ladder(found.modes, target)
    draw_into(target, pool, ladder, _n_ladder(target, _LADDER_DRAWS, allowed), rng)
    diagnostics = {"stages": [], "unseen": min(1.0, _SEEN / n_prior)}
    first = blend([], (), ladder, PriorDensity(target))
    plan = Frozen(first, 0.0, pool, ladder, found.modes, found.incomplete, found.is_trusted, diagnostics)

    def after_stage(stage: dict[str, Any]) -> None:
        if len(plan.diagnostics["stages"]) == _WINDOW:
            _warn_of_cost(stage, n_effective)
        if callback is not None:
            callback(stage)

    return _refine(target, plan, n_effective, int(_RESERVE * allowed), rng, after_stage)


def _is_flat(log_likelihood: Floats, n_failed: int) -> bool:
    """Whether all draws that did not fail have the same likelihood; likelihood zero counts as a value."""
    finite = np.isfinite(log_likelihood)
    return len(finite) - int(finite.sum()) <= n_failed and len(np.unique(log_likelihood[finite])) == 1


def _is_higher(target: Target, modes: list[Mode], log_likelihood: float) -> bool:
    """Whether a mode has a greater likelihood, by more than rounding errors."""
    least = log_likelihood + 1e-6 * max(1.0, abs(log_likelihood))
    return any(mode.height - target.log_prior(mode.z[None])[0] > least for mode in modes)


def keep(target: Target, frozen: Frozen, draws: Floats, log_likelihood: Floats) -> None:
    """Add the draws of a production to the pool; of very many the first, which are as good as any."""
    draws, log_likelihood = draws[:_POOLED], log_likelihood[:_POOLED]
    frozen.pool.add(frozen.proposal, draws, target.log_prior(draws), log_likelihood)


def reach_out(target: Target, frozen: Frozen, places: list[Mode], rng: np.random.Generator) -> Frozen:
    """Climb from places that the proposal does not cover, and draw around them and around new modes."""
    budget = min(len(places) * climb_cost(target.dim), int(_AGAIN_SHARE * target.n_left))
    modes, _ = explore_again(target, frozen.modes, np.array([place.z for place in places]), budget)
    heaviest = modes[0].log_mass if modes else 0.0
    places = [place._replace(log_mass=heaviest) for place in places]
    new = [mode for mode in modes if is_new(mode, frozen.modes, target.circle)]
    draw_into(
        target,
        frozen.pool,
        make_ladder([*new, *places], target),
        _n_ladder(target, _LADDER_DRAWS_AGAIN, target.n_left),
        rng,
    )
    return frozen._replace(modes=modes, ladder=make_ladder([*modes, *places], target))


def refine(target: Target, frozen: Frozen, n_effective: int, rng: np.random.Generator) -> Frozen:
    """Adapt a first proposal, and freeze it."""
    return _refine(target, frozen, n_effective, int(_RESERVE * target.n_left), rng, None)


def refine_again(target: Target, frozen: Frozen, n_effective: int, rng: np.random.Generator) -> Frozen:
    """Adapt further with the draws that are in the pool, and freeze anew."""
    return _refine(target, frozen, n_effective, int(_RESERVE_AGAIN * target.n_left), rng, None)


def draw_into(target: Target, pool: DrawPool, source: Density, n: int, rng: np.random.Generator) -> None:
    """Add up to ``n`` draws from ``source`` to the pool."""
    n = min(n, target.n_left)
    if n > 0:
        z = source.sample(n, rng, True)
        pool.add(source, z, target.log_prior(z), target.log_likelihood(z))


def _n_ladder(target: Target, numbers: tuple[int, int], allowed: int) -> int:
    """Number of draws around the modes."""
    constant, per_parameter = numbers
    return min(constant + per_parameter * target.dim, int(_EXTRA_SHARE * allowed))


def _refine(
    target: Target,
    plan: Frozen,
    n_effective: int,
    reserve: int,
    rng: np.random.Generator,
    callback: Callable[[dict[str, Any]], object] | None,
) -> Frozen:
    """Fit, draw more widely than the fit, and fit again, until the wide draws confirm the fit twice in a row."""
    d, pool, best, prior = target.dim, plan.pool, plan.proposal, PriorDensity(target)
    n_confirmed = n_again = 0
    reached: list[float] = []  # efficiencies at the posterior's own temperature
    for _ in range(_STAGES):
        if n_again < _AGAIN and len(starts := badly_covered(target, pool, best, plan.modes)):
            n_again += 1
            plan = _climb_again(target, plan, starts, rng)
        front = pool.front(_FRONT * max(d, _TYPICAL_DIM))
        beta = 1.0 if effective_size(pool.log_weight(1.0)) >= _REACHED * (d + 1) else front
        laws = fit_laws(pool, target, beta, front, rng)
        fitted = blend(laws[:2], _BEST_SHARES, plan.ladder, prior)
        best = max(fitted, best, key=pool.efficiency)  # an unlucky fit does no harm
        expected = pool.efficiency(best)
        reached += [expected] if beta == 1 else []
        production = n_effective / max(expected, _LEAST_EFFICIENCY)
        n = _stage_size(d, beta, production)
        stagnates = len(reached) > _WINDOW and expected < _PROGRESS * reached[-1 - _WINDOW]
        if n_confirmed == _CONFIRMED or stagnates or target.n_left - n < min(production, reserve):
            break
        found = _draw_stage(target, pool, blend(laws, _WIDE_SHARES, plan.ladder, prior), best, n, rng)
        n_confirmed = n_confirmed + 1 if beta == 1 and found > _HOLDS * expected else 0
        stage = {
            "beta": beta,
            "expected": expected,
            "efficiency": found,
            "effective": effective_size(pool.log_weight(1.0)),
            "evaluations": target.n_evaluations,
        }
        plan.diagnostics["stages"].append(stage)
        if callback is not None:
            callback(stage)
    return plan._replace(proposal=best, predicted_efficiency=pool.efficiency(best))


def _warn_of_cost(stage: dict[str, Any], n_effective: int) -> None:
    """Warn if the first stages let expect a long run."""
    efficiency = min(stage["expected"], stage["efficiency"])
    if stage["beta"] == 1 and efficiency >= _LEAST_EFFICIENCY:
        return
    found = (
        f"one effective draw in {1 / max(efficiency, 1e-9):.3g}" if stage["beta"] == 1 else "hardly any effective draw"
    )
    warn_user(
        f"after {stage['evaluations']} evaluations the proposal gives {found}: if it does not improve, {n_effective} "
        "effective draws take very long, and the run may end without an error of the evidence. If this is a hierarchy, "
        "write it with deviates, theta = mu + tau * eta, instead of group means; lower n_effective; or set maxfev"
    )


def _stage_size(dim: int, beta: float, production: float) -> int:
    """Number of draws in a stage; at the posterior's own temperature it grows with the planned production."""
    n = _STAGE_DRAWS * max(dim, _TYPICAL_DIM)
    return n if beta < 1 else int(np.clip(_STAGE_SHARE * production, n, _STAGE_GROWTH * n))


def _draw_stage(target: Target, pool: DrawPool, wide: Blend, best: Blend, n: int, rng: np.random.Generator) -> float:
    """Add draws from a wide proposal to the pool. Return the efficiency of the best proposal, judged by them alone."""
    first = len(pool.z)
    draw_into(target, pool, wide, n, rng)
    log_w = pool.height[first:] - wide.log_density(pool.z[first:])
    return pool.efficiency(best, first, log_w)


def _climb_again(target: Target, plan: Frozen, starts: Floats, rng: np.random.Generator) -> Frozen:
    """Climb from badly covered points, and draw some points around all modes."""
    budget = min(_AGAIN_BUDGET, int(_AGAIN_SHARE * target.n_left))
    modes, is_late = explore_again(target, plan.modes, starts, budget)
    ladder = make_ladder(modes, target)
    draw_into(target, plan.pool, ladder, _n_ladder(target, _LADDER_DRAWS_AGAIN, target.n_left), rng)
    return plan._replace(modes=modes, ladder=ladder, incomplete=plan.incomplete or (LATE if is_late else ""))
