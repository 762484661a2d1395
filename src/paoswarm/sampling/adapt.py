r"""Phase A: explore, find modes, temper, fit, and freeze a proposal.

Nothing computed here enters the evidence: it only decides from where the production draws. Every point is kept in a
pool with the density from which it came, so that at any inverse temperature :math:`\beta` its weight is

.. math:: w_i(\beta) = \frac{\pi(z_i)\, L(z_i)^\beta}{\sum_s n_s\, q_s(z_i)}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from paoswarm.core.walled import Floats
from paoswarm.core.weights import effective_size, log_sum_exp, normalise, systematic
from paoswarm.sampling.circle import Wrapped
from paoswarm.sampling.mixture import SIZES, Blend, Density, Mixture, fit
from paoswarm.sampling.modes import Mode, choose_starts, find_modes, merge, near
from paoswarm.sampling.target import Target
from paoswarm.sampling.warp import Warped, choose_warped, to_line

_FEW = (1, 2, 4, 8, 16)  # where the fit is only a guard
_FIT_POINTS = 2000  # at most; more do not change a fit that a thousand draws are to follow
_TAIL = 4.0  # degrees of freedom of the heavy share
_WIDER = 1.2  # and its scale
_STARTS = 16  # of climbs, in a round
_ROUNDS = 6  # of climbs, at most
_RICH = 4  # new modes in a round that promise more in another
_STAGES = 60  # at most
_RESERVE = 0.35  # of the budget, kept for production
_RESERVE_AGAIN = 0.6  # of what is left after a production that went badly
_HEAVY = 0.1  # share of what is not covered that makes a point worth a climb
_CLIMBS_AGAIN = 6  # times at most


class NothingFound(ValueError):
    """No first draw has a positive likelihood."""


class Pool:
    """Every point drawn from a known density, with its values."""

    def __init__(self, dim: int) -> None:
        self.z: Floats = np.empty((0, dim))
        self.log_prior: Floats = np.empty(0)
        self.log_likelihood: Floats = np.empty(0)
        self._log_mixed: Floats = np.empty(0)  # log sum_s n_s q_s
        self._sources: list[tuple[int, Density]] = []

    def add(self, source: Density, z: Floats, log_prior: Floats, log_likelihood: Floats) -> None:
        """Points drawn from ``source``. Those of prior zero count as drawn, but are not kept."""
        n = len(z)
        kept = np.isfinite(log_prior)
        z, log_prior, log_likelihood = z[kept], log_prior[kept], log_likelihood[kept]
        if len(self.z):
            self._log_mixed = np.logaddexp(self._log_mixed, math.log(n) + source.log_density(self.z))
        self._sources.append((n, source))
        mixed = [math.log(m) + q.log_density(z) for m, q in self._sources]
        self.z = np.concatenate([self.z, z])
        self.log_prior = np.concatenate([self.log_prior, log_prior])
        self.log_likelihood = np.concatenate([self.log_likelihood, log_likelihood])
        self._log_mixed = np.concatenate([self._log_mixed, np.logaddexp.reduce(mixed, axis=0)])

    def log_weight(self, beta: float) -> Floats:
        """Log weights whose sum estimates the integral of ``prior L^beta``."""
        heat = beta * self.log_likelihood if beta > 0 else 0.0
        return self.log_prior + heat - self._log_mixed

    def front(self, size: float) -> float:
        """How far tempering from the prior has come: up to here the pool is worth ``size`` points throughout."""
        reached = 0.0
        for beta in np.concatenate([np.geomspace(1e-12, 0.1, 111), np.linspace(0.1, 1, 31)[1:]]).tolist():
            if effective_size(self.log_weight(beta)) < size:
                break
            reached = beta
        return reached

    def milder(self, beta: float, keep: float) -> float:
        """The inverse temperature from which a step to ``beta`` leaves the share ``keep`` of the effective size."""
        top = self.log_weight(beta)
        low, high = 0.0, beta
        for _ in range(30):
            middle = 0.5 * (low + high)
            base = self.log_weight(middle)
            with np.errstate(invalid="ignore"):
                ratio = np.where(np.isfinite(top), 2 * top - base, -np.inf)
            left = math.exp(float(2 * log_sum_exp(top) - log_sum_exp(ratio) - log_sum_exp(base)))
            low, high = (middle, high) if left < keep else (low, middle)
        return 0.5 * (low + high)


class Frozen(NamedTuple):
    """What the adaptation leaves behind; during a production nothing of it changes."""

    proposal: Blend
    predicted_efficiency: float  # effective draws per draw
    pool: Pool
    ladder: Density  # the modes at all scales
    modes: list[Mode]
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
        Called after every stage with a dict of its inverse temperature, efficiency and evaluations.
    """
    d = target.dim
    allowed = target.n_left
    pool = Pool(d) if pool is None else pool
    prior = _Prior(target)
    n_prior = min(min(1000 * d, 10_000) if n_prior is None else n_prior, max(1, allowed // 5))
    _draw(target, pool, prior, n_prior, rng)
    starts = pool.z[choose_starts(pool.z, pool.log_prior + pool.log_likelihood, _ROUNDS * _STARTS)]
    if start_points is not None:
        starts = np.concatenate([target.coordinates(start_points), starts])
    if len(starts) == 0:
        raise NothingFound(
            f"the likelihood is zero or failed at all {n_prior} draws from the prior; give points with more as start="
        )
    modes, settled = _search(target, starts, min(16_000, allowed // 4))
    ladder = _ladder(modes, target)
    _draw(target, pool, ladder, min(1000 + 200 * d, allowed // 10), rng)
    diagnostics = {"stages": [], "unseen": 3 / n_prior, "search_settled": settled}
    plan = Frozen(_blend([], (), ladder, prior), 0.0, pool, ladder, modes, diagnostics)
    return _refine(target, plan, n_effective, int(_RESERVE * allowed), rng, callback)


def _search(target: Target, starts: Floats, n_max: int) -> tuple[list[Mode], bool]:
    """Climb in rounds, for as long as a round finds so many new modes that others must have been missed.

    Also whether it ended because a round did not.
    """
    end = target.n_evaluations + n_max
    modes: list[Mode] = []
    for first in range(0, len(starts), _STARTS):
        known = len(modes)
        found = find_modes(target, starts[first : first + _STARTS], end - target.n_evaluations)
        modes = merge(modes + found, target.circle)
        if len(modes) - known < _RICH:
            return modes, True
    return modes, False


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
    for _ in range(_STAGES):
        if climbed < _CLIMBS_AGAIN and (starts := _unexplained(target, pool, best, plan.modes)) is not None:
            climbed += 1
            plan = _climb_again(target, plan, starts, rng)
            ladder = plan.ladder
        front = pool.front(max(150, 15 * d))
        beta = 1.0 if effective_size(pool.log_weight(1.0)) >= 2 * d + 2 else front
        laws = _laws(pool, target, beta, front, rng)
        best = _better(pool, best, _blend(laws[:2], (0.72, 0.24), ladder, prior))
        expected = _efficiency(pool, best)
        production = n_effective / max(expected, 0.02)
        n = n_stage if beta < 1 else int(np.clip(0.3 * production, n_stage, 4 * n_stage))
        if good == 2 or target.n_left - n < min(production, reserve):
            break
        wide = _blend(laws, (0.4, 0.24, 0.18, 0.14), ladder, prior)
        first = len(pool.z)
        _draw(target, pool, wide, n, rng)
        log_w = pool.log_prior[first:] + pool.log_likelihood[first:] - wide.log_density(pool.z[first:])
        found = _efficiency(pool, best, first, log_w)
        good = good + 1 if beta == 1 and found > 0.75 * expected else 0
        stage = {"beta": beta, "expected": expected, "efficiency": found, "evaluations": target.n_evaluations}
        plan.diagnostics["stages"].append(stage)
        if callback is not None:
            callback(stage)
    return plan._replace(proposal=best, predicted_efficiency=_efficiency(pool, best))


def _unexplained(target: Target, pool: Pool, proposal: Density, modes: list[Mode]) -> Floats | None:
    r"""Points by no known mode that the proposal covers so badly that they make up :math:`E_\pi[\gamma/q]`."""
    log_w = pool.log_weight(1.0)
    score = log_w + pool.log_prior + pool.log_likelihood - proposal.log_density(pool.z)
    if not np.isfinite(score).any():
        return None
    share = normalise(score)
    heavy = [i for i in np.argsort(-share)[:8] if share[i] > _HEAVY and not near(pool.z[i], modes, 3.0, target.circle)]
    return pool.z[heavy] if heavy else None


def _climb_again(target: Target, plan: Frozen, starts: Floats, rng: np.random.Generator) -> Frozen:
    """Modes and ladder with those that are found from new starts, from around which a few points are drawn."""
    found = find_modes(target, starts, min(4000, target.n_left // 8))
    modes = merge(plan.modes + found, target.circle)
    ladder = _ladder(modes, target)
    _draw(target, plan.pool, ladder, min(200 + 40 * target.dim, target.n_left // 10), rng)
    return plan._replace(modes=modes, ladder=ladder)


def _efficiency(pool: Pool, proposal: Density, first: int = 0, log_w: Floats | None = None) -> float:
    r"""Effective draws per draw from ``proposal``, :math:`1 / E_\pi[\gamma / (Z q)]`; no likelihood call.

    The expectation is over the pool, or over its points from ``first`` on with weights ``log_w``.
    """
    whole = pool.log_weight(1.0)
    if not np.isfinite(whole).any():
        return 0.0
    log_w = whole if log_w is None else log_w
    if not np.isfinite(log_w).any():
        return 0.0
    log_ratio = pool.log_prior[first:] + pool.log_likelihood[first:] - proposal.log_density(pool.z[first:])
    return math.exp(float(log_sum_exp(whole) + log_sum_exp(log_w) - log_sum_exp(log_w + log_ratio)))


def _better(pool: Pool, old: Blend, new: Blend) -> Blend:
    """The more efficient of two, so that an unlucky fit does no harm."""
    return new if _efficiency(pool, new) >= _efficiency(pool, old) else old


def _ladder(modes: list[Mode], target: Target) -> Density:
    """Student-t laws around every mode, from its own scale to that of the prior: what surrounds a spike is seen too."""
    ratio, width = 1 + 3 / math.sqrt(target.dim), 0.6 if target.is_box else 1.0
    if not modes:  # no budget to climb with
        modes = [Mode(np.zeros(target.dim), 0.0, width * np.eye(target.dim), 0.0)]
    weight, mean, factor = [], [], []
    for mode in modes:
        size = np.linalg.norm(mode.factor, ord=2)
        levels = 1 + min(6, max(0, math.ceil(math.log(width / size) / math.log(ratio))))
        for level in range(levels):
            part = math.exp(0.25 * (mode.log_mass - modes[0].log_mass))  # Laplace's mass is only a guess
            weight.append(part * (0.5 if level == 0 else 0.5 / (levels - 1)))
            mean.append(mode.z)
            factor.append(ratio**level * mode.factor)
    share = np.array(weight)
    return _wrapped(Mixture(share / share.sum(), np.array(mean), np.array(factor), _TAIL), target)


def _fit(pool: Pool, target: Target, beta: float, rng: np.random.Generator, sizes: tuple[int, ...]) -> Density:
    """Normal mixture with a heavy-tailed share for the pool at ``beta``, in the coordinates that suit it."""
    weight = normalise(pool.log_weight(beta))
    index, count = np.unique(systematic(weight, min(_FIT_POINTS, 400 + 300 * pool.z.shape[1]), rng), return_counts=True)
    points, counts = pool.z[index], count.astype(float)
    if target.circle is not None:
        points = target.circle.gathered(points, counts)
    warped = choose_warped(points, counts, target.walled)
    law = _heavy(_fitted(to_line(points, warped), counts, rng, sizes))
    return _wrapped(Warped(law, warped) if warped.any() else law, target)


def _wrapped(density: Density, target: Target) -> Density:
    return density if target.circle is None else Wrapped(density, target.circle)


def _fitted(points: Floats, counts: Floats, rng: np.random.Generator, sizes: tuple[int, ...]) -> Mixture:
    """The number of components by held-out log density."""
    if len(points) < 4 * (points.shape[1] + 2):  # too few to hold any out
        return fit(points, counts, 1, rng)
    half = rng.permutation(len(points)) % 2 == 0
    best, best_score, worse = 1, -math.inf, 0
    for k in sizes:
        if k > 1 and k * (points.shape[1] + 2) > 0.5 * len(points):
            break
        score = 0.0
        for train in (half, ~half):
            mixture = fit(points[train], counts[train], k, rng)
            score += float(counts[~train] @ _heavy(mixture).log_density(points[~train]))
        if score > best_score:
            best, best_score, worse = k, score, 0
        else:
            worse += 1
            if worse == 2:
                break
    return fit(points, counts, best, rng)


def _heavy(mixture: Mixture) -> Blend:
    return Blend(np.array([0.9, 0.1]), (mixture, mixture.widened(_WIDER, _TAIL)))


def _laws(pool: Pool, target: Target, beta: float, front: float, rng: np.random.Generator) -> list[Density]:
    """Fits at ``beta`` and at three milder temperatures, each a step that keeps a quarter of the effective size.

    The last is taken at the front of tempering from the prior where that lies further back.
    """
    laws = [_fit(pool, target, beta, rng, SIZES)]
    for step in range(3):
        beta = pool.milder(beta, 0.25)
        laws.append(_fit(pool, target, min(beta, front) if step == 2 else beta, rng, _FEW))
    return laws


def _blend(laws: list[Density], shares: tuple[float, ...], ladder: Density, prior: Density) -> Blend:
    """Fits, and what guards them: the modes at all scales, and the prior."""
    share = np.array([*shares, 0.03, 0.01])
    return Blend(share / share.sum(), (*laws, ladder, prior))
