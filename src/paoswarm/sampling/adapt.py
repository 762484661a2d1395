"""Phase A: explore, find modes, temper, fit, and freeze a proposal.

Nothing computed here enters the evidence: it only decides from where the production draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, normalise
from paoswarm.sampling.draw_pool import Pool
from paoswarm.sampling.mixture import Blend, Density
from paoswarm.sampling.modes import Mode, find_modes, is_new, merge, near
from paoswarm.sampling.proposals import blend, fit_laws, make_ladder
from paoswarm.sampling.search import matters, search
from paoswarm.sampling.target import Target

_AGAIN = 3  # points that are evaluated twice, to see whether the likelihood is noisy
_SEEN = 30  # first draws to be expected in a basin, from which on it was never missed (benchmarks/modes.py)
_KEPT = 10_000  # draws from the prior; more of them only show where to climb from
_STAGES = 60  # at most
_WINDOW, _PROGRESS = 8, 1.2  # so many stages have to bring so much, or more of them are not worth their cost
_RESERVE = 0.35  # of the budget, kept for production
_RESERVE_AGAIN = 0.6  # of what is left after a production that went badly
_HEAVY = 0.1  # share of what is not covered that makes a point worth a climb
_CLIMBS_AGAIN = 6  # times at most

_LATE = "a mode that matters was found by chance, after the search for modes had missed it: others may be missing"


class NothingFound(ValueError):
    """No first draw has a positive likelihood."""


class Frozen(NamedTuple):
    """What the adaptation leaves behind; during a production nothing of it changes."""

    proposal: Blend
    predicted_efficiency: float  # effective draws per draw
    pool: Pool
    ladder: Density  # the modes at all scales
    modes: list[Mode]
    incomplete: str  # why modes may be missing; empty if nothing speaks for it
    is_trusted: bool  # whether an error can be stated for those that were found
    diagnostics: dict[str, Any]  # see `Posterior`


class _Prior:
    """The prior as a density to draw from."""

    def __init__(self, target: Target) -> None:
        self.log_density = target.log_prior
        self._draw = target.draw_prior

    def sample(self, n: int, rng: np.random.Generator, stratified: bool = False) -> Floats:
        return self._draw(n, rng)


def adapt(
    target: Target,
    rng: np.random.Generator,
    *,
    n_effective: int,
    start_points: ArrayLike | None = None,
    n_prior: int | None = None,
    pool: Pool | None = None,
    callback: Callable[[dict[str, Any]], object] | None = None,
) -> Frozen:
    """Learn where the posterior is, and freeze a proposal for it.

    Parameters
    ----------
    target : Target
    rng : numpy.random.Generator
    n_effective : int
        The effective size that production will be asked for; stages are sized, and evaluations kept back, for it.
    start_points : array (m, d), optional
        Parameters near modes that are known already.
    n_prior : int, optional
        Draws from the prior with which it begins.
    pool : Pool, optional
        An empty one, to be filled: what is there when the run is interrupted.
    callback : callable, optional
        Called after every stage with a dict of its inverse temperature, efficiency, evaluations, and of how many
        effective draws the pool is worth.
    """
    d = target.dim
    allowed = target.n_left
    pool = Pool(d) if pool is None else pool
    prior = _Prior(target)
    n_prior = min(min(1000 * d, 10_000) if n_prior is None else n_prior, max(1, allowed // 5))
    z = prior.sample(n_prior, rng)
    log_prior, log_likelihood = target.log_prior(z), target.log_likelihood(z)
    pool.add(prior, z[:_KEPT], log_prior[:_KEPT], log_likelihood[:_KEPT])
    height = log_prior + log_likelihood
    known = np.empty((0, d)) if start_points is None else target.coordinates(start_points)
    is_anywhere = bool(np.isfinite(height).any())
    if not is_anywhere and len(known) == 0:
        raise NothingFound(
            f"the likelihood is zero or failed at all {n_prior} draws from the prior; try more of them (n_particles=), "
            "or give points with more as start="
        )
    highest = np.argsort(-log_likelihood)[: min(_AGAIN, target.n_left // 20)]
    target.measure_again(z[highest], log_likelihood[highest])
    modes, incomplete, is_trusted = search(target, z, height, known, allowed // 4, rng)
    if not is_anywhere and not modes:
        raise NothingFound(
            f"the likelihood is zero or failed at all {n_prior} draws from the prior, and no climb from start= came to "
            "more; raise maxfev, or give points with more"
        )
    ladder = make_ladder(modes, target)
    _draw(target, pool, ladder, min(1000 + 200 * d, allowed // 10), rng)
    diagnostics = {"stages": [], "unseen": min(1.0, _SEEN / n_prior)}
    plan = Frozen(blend([], (), ladder, prior), 0.0, pool, ladder, modes, incomplete, is_trusted, diagnostics)
    return _refine(target, plan, n_effective, int(_RESERVE * allowed), rng, callback)


def improve(
    target: Target,
    frozen: Frozen,
    draws: Floats,
    log_likelihood: Floats,
    n_effective: int,
    rng: np.random.Generator,
) -> Frozen:
    """Adapt further, with the draws of a production that went badly in the pool, and freeze anew."""
    frozen.pool.add(frozen.proposal, draws, target.log_prior(draws), log_likelihood)
    return _refine(target, frozen, n_effective, int(_RESERVE_AGAIN * target.n_left), rng, None)


def _draw(target: Target, pool: Pool, source: Density, n: int, rng: np.random.Generator) -> None:
    n = min(n, target.n_left)
    if n > 0:
        z = source.sample(n, rng, True)
        pool.add(source, z, target.log_prior(z), target.log_likelihood(z))


def _refine(
    target: Target,
    plan: Frozen,
    n_effective: int,
    reserve: int,
    rng: np.random.Generator,
    callback: Callable[[dict[str, Any]], object] | None,
) -> Frozen:
    """Fit, draw more widely than the fit, fit again, until twice in a row the wide draws find nothing new."""
    d, pool, ladder, best = target.dim, plan.pool, plan.ladder, plan.proposal
    prior = _Prior(target)
    n_stage = max(800, 80 * d)
    good = climbed = 0
    reached: list[float] = []  # efficiencies at the posterior's own temperature
    for _ in range(_STAGES):
        if climbed < _CLIMBS_AGAIN and (starts := _unexplained(target, pool, best, plan.modes)) is not None:
            climbed += 1
            plan = _climb_again(target, plan, starts, rng)
            ladder = plan.ladder
        front = pool.front(max(150, 15 * d))
        beta = 1.0 if effective_size(pool.log_weight(1.0)) >= 2 * d + 2 else front
        laws = fit_laws(pool, target, beta, front, rng)
        best = _better(pool, best, blend(laws[:2], (0.72, 0.24), ladder, prior))
        expected = pool.efficiency(best)
        production = n_effective / max(expected, 0.02)
        n = n_stage if beta < 1 else int(np.clip(0.3 * production, n_stage, 4 * n_stage))
        reached += [expected] if beta == 1 else []
        stagnates = len(reached) > _WINDOW and expected < _PROGRESS * reached[-1 - _WINDOW]
        if good == 2 or stagnates or target.n_left - n < min(production, reserve):
            break
        wide = blend(laws, (0.4, 0.24, 0.18, 0.14), ladder, prior)
        first = len(pool.z)
        _draw(target, pool, wide, n, rng)
        log_w = pool.log_prior[first:] + pool.log_likelihood[first:] - wide.log_density(pool.z[first:])
        found = pool.efficiency(best, first, log_w)
        good = good + 1 if beta == 1 and found > 0.75 * expected else 0
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


def _unexplained(target: Target, pool: Pool, proposal: Density, modes: list[Mode]) -> Floats | None:
    r"""Points that the proposal covers so badly that they make up :math:`E_\pi[\gamma/q]`, by no mode as high."""
    height = pool.log_prior + pool.log_likelihood
    score = pool.log_weight(1.0) + height - proposal.log_density(pool.z)
    if not np.isfinite(score).any():
        return None
    share = normalise(score)
    heavy = [i for i in np.argsort(-share)[:8] if share[i] > _HEAVY]
    above = {i: [mode for mode in modes if mode.height > height[i]] for i in heavy}
    heavy = [i for i in heavy if not near(pool.z[i], above[i], 3.0, target.circle)]
    return pool.z[heavy] if heavy else None


def _climb_again(target: Target, plan: Frozen, starts: Floats, rng: np.random.Generator) -> Frozen:
    """Modes and ladder with those that are found from new starts, from around which a few points are drawn."""
    found = find_modes(target, starts, min(4000, target.n_left // 8)).modes
    modes = merge(plan.modes + found, target.circle)
    is_late = any(matters(mode, modes) and is_new(mode, plan.modes, target.circle) for mode in found)
    incomplete = plan.incomplete or (_LATE if is_late else "")
    ladder = make_ladder(modes, target)
    _draw(target, plan.pool, ladder, min(200 + 40 * target.dim, target.n_left // 10), rng)
    return plan._replace(modes=modes, ladder=ladder, incomplete=incomplete)


def _better(pool: Pool, old: Blend, new: Blend) -> Blend:
    """The more efficient of two, so that an unlucky fit does no harm."""
    return new if pool.efficiency(new) >= pool.efficiency(old) else old
