"""Modes of the posterior, and Newton climbs to them from many starts at once.

Tempering loses a narrow mode because it holds almost no mass at intermediate temperatures. A climb does not lose it.
The constants of this file, and those of the other files of the search, are explained in docs/sampling_constants.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.sampling.densities import Circle
from paoswarm.sampling.target import Target

_SAME = 2.0  # standard deviations of a mode within which a place belongs to it
_LIGHT = 3.0  # difference of log mass to the heaviest mode, from which on a mode does not matter
_NEGLIGIBLE = 20.0  # difference of log mass to the heaviest mode, from which on a mode is dropped
# Scales are those of the sampler's coordinates: a box is [-1, 1], other priors are standard normal.
_FIRST_SCALE = 0.05  # standard deviation that a climb assumes at its start
_STENCIL = 0.5  # steps of the finite differences, in standard deviations
_DAMPING = (0.0, 0.3, 3.0, 30.0, 300.0)  # Levenberg's damping, all values tried in each round
_CURVATURES = (1e-2, 1e4)  # limits of the change of a squared scale in one round
_SCALES = (1e-12, 0.6, 1.0)  # limits of a standard deviation: least, most in a box, most otherwise
_HOLE = 10.0  # log height by which a failed point counts as lower than the lowest point around it
_STILL = 0.05  # gain of log height in a round, below which a climb has stalled
_STALLS = 2  # stalled rounds after which a climb may end at a top that is not round
_PROMISE = 0.5  # gain of log height promised by the quadratic model, above which a climb goes on
_ROUND = 2.0  # ratio of measured and assumed curvature up to which a top is round
_FOLLOWS = 1.0  # standard deviations of a higher mode within which a climb is stopped
_PATIENCE = 8  # rounds after which the lower half of the unfinished climbs is given up
_ROUNDS = 25  # rounds that a climb may need; limits how many climbs go on at the same time
_FULL_ROUNDS = 2  # of these, rounds with differences of pairs in many dimensions
_FEW_PAIRS = 5  # dimensions up to which there are no more pairs than other differences
_ABREAST = 2  # climbs that go on at the same time, at least
_AWAY = 1e6  # prior standard deviations that no climb to a proper posterior reaches


class Mode(NamedTuple):
    """A place where a climb ended, with the normal law that has the same curvature there."""

    z: Floats
    factor: Floats  # lower Cholesky factor of the inverse curvature
    log_mass: float  # Laplace: log height + d/2 log(2 pi) + log det factor
    is_settled: bool = False  # whether the climb arrived; False if it was given up on the way
    is_peak: bool = False  # whether it arrived at a round top, not on a ridge or a plateau
    n_climbs: int = 1  # number of climbs that ended here

    @property
    def height(self) -> float:
        """Log posterior at the top, up to a constant."""
        return self.log_mass - float(log_volume(self.factor))


def merge(modes: list[Mode], circle: Circle | None, *, keep_negligible: bool = False) -> list[Mode]:
    """Return the distinct modes, heaviest first, without the negligible ones.

    Of several modes that are the same, the first is kept, with the number of climbs of all. A climb that was given up
    has the curvature of some lower place. Its mass is therefore limited to that of the heaviest mode with an arrival.
    """
    limit = max((mode.log_mass for mode in modes if mode.is_settled), default=math.inf)
    modes = [mode._replace(log_mass=min(mode.log_mass, limit)) for mode in modes]
    heaviest = max((mode.log_mass for mode in modes), default=-math.inf)
    least = -math.inf if keep_negligible else heaviest - _NEGLIGIBLE
    kept: list[Mode] = []
    for mode in modes:
        home = next((i for i, other in enumerate(kept) if not is_new(mode, [other], circle)), None)
        if home is not None:
            kept[home] = kept[home]._replace(n_climbs=kept[home].n_climbs + mode.n_climbs)
        elif mode.log_mass > least:
            kept.append(mode)
    return sorted(kept, key=lambda mode: -mode.log_mass)


def is_new(mode: Mode, modes: list[Mode], circle: Circle | None) -> bool:
    """Whether a mode is none of the others.

    A mode with an arrival is never the same as a place where a climb was given up. Of two peaks, each must lie near the
    other: a narrow peak on the slope of a wide one is a mode of its own.
    """
    homes = [other for other in modes if other.is_settled or not mode.is_settled]
    homes = [other for other in homes if not (mode.is_peak and other.is_peak) or is_near(other.z, [mode], circle)]
    return not is_near(mode.z, homes, circle)


def is_near(z: Floats, modes: list[Mode], circle: Circle | None, reach: float | None = None) -> bool:
    """Whether a point lies within ``reach`` standard deviations (by default `_SAME`) of one of the modes."""
    reach = _SAME if reach is None else reach
    return any(distance(z[None], mode.z, mode.factor, circle)[0] <= reach for mode in modes)


def matters(mode: Mode, modes: list[Mode]) -> bool:
    """Whether a mode is not light, compared with ``modes[0]``, the heaviest."""
    return mode.log_mass > modes[0].log_mass - _LIGHT


def distance(z: Floats, centre: Floats, factor: Floats, circle: Circle | None) -> Floats:
    """Mahalanobis distance of the rows of ``z`` from a centre, the short way round a circle."""
    away = z - centre if circle is None else circle.nearest(z - centre)
    return np.linalg.norm(np.linalg.solve(factor, away.T), axis=0)


def log_volume(factor: Floats) -> Floats:
    """Log integral of a normal law whose density is one at its centre."""
    scale = np.diagonal(factor, axis1=-2, axis2=-1)
    return np.asarray(0.5 * factor.shape[-1] * math.log(2 * math.pi) + np.log(scale).sum(axis=-1))


Height = Callable[[Floats], Floats]  # of points in the sampler's coordinates, a logarithm


class Climbs(NamedTuple):
    """The state of many climbs, one row each."""

    z: Floats  # (s, d)
    value: Floats  # (s,) log heights
    factor: Floats  # (s, d, d) scales: z + factor @ y with y of order 1
    is_done: NDArray[np.bool_]  # (s,) arrived, stopped as a follower, or given up
    has_arrived: NDArray[np.bool_]  # (s,)
    is_round: NDArray[np.bool_]  # (s,) whether the posterior curves down as assumed in all directions
    is_known: NDArray[np.bool_]  # (s,) whether the scales are those of the posterior here, as far as was seen
    n_stalled: NDArray[np.intp]  # (s,) rounds in a row without a gain that matters
    n_rounds: NDArray[np.intp]  # (s,)


class Climbed(NamedTuple):
    """Where climbs have ended."""

    modes: list[Mode]  # distinct, heaviest first, none negligible
    ends: list[Mode]  # the ends of all climbs; n_climbs is 0 if the budget ended first


def climb(
    target: Target,
    starts: Floats,
    n_max: int,
    scale: Floats | None = None,
    height: Height | None = None,
    known: Sequence[Mode] = (),
) -> Climbed:
    """Climb from the starts, with at most ``n_max`` likelihood evaluations.

    ``scale`` is the lower Cholesky factor ``(d, d)`` of the covariance that a climb assumes at its start. ``height`` is
    what is climbed, by default the log posterior.

    Each round measures gradient and curvature by finite differences, in coordinates in which the curvature of the last
    round was one. So the steps fit the scale of the posterior, whatever the scale of the prior. With many parameters
    the differences of pairs are most of the cost. They are left out while the last round has gained what it promised,
    and where a mode that is ``known``, or that another climb has found, lends its scales. Climbs end near such a mode
    if they are lower. Only as many go on at the same time as the budget can carry to a top. The next start sets out
    when a climb has arrived or was given up.
    """
    height = target.height if height is None else height
    end = target.n_evaluations + n_max
    tops = [mode for mode in known if mode.is_peak]
    climbs = _begin(target, height, starts[:n_max], tops[0].factor if tops and scale is None else scale)
    climbs.is_known[:] = bool(tops)
    abreast = max(_ABREAST, n_max // (_ROUNDS * _round_cost(target.dim)))
    while True:
        affordable = (end - target.n_evaluations) // _round_cost(target.dim)
        active = np.flatnonzero(~climbs.is_done)[: min(abreast, affordable)]
        if len(active) == 0:
            break
        for part in (active[climbs.is_known[active]], active[~climbs.is_known[active]]):
            if len(part):
                moved = _newton_round(target, height, Climbs._make(array[part] for array in climbs))
                _check_bounded(target, moved)
                for rows, new in zip(climbs, moved, strict=True):
                    rows[part] = new
        _stop_followers(climbs, tops, target.circle)
        _give_up_lower_half(climbs, active)
    ends = _ends(climbs)
    return Climbed(merge(ends, target.circle), ends)


def climb_cost(dim: int) -> int:
    """Likelihood evaluations of a climb that takes few rounds."""
    return _FULL_ROUNDS * _round_cost(dim) + (_PATIENCE - _FULL_ROUNDS) * _round_cost(dim, is_known=True)


def _round_cost(dim: int, *, is_known: bool = False) -> int:
    n_pairs = 0 if is_known and dim > _FEW_PAIRS else dim * (dim - 1) // 2
    return 2 * dim + n_pairs + len(_DAMPING)


def _begin(target: Target, height: Height, starts: Floats, scale: Floats | None) -> Climbs:
    """Climbs that have not moved yet; starts without a finite height are left out."""
    starts = target.inside(starts)
    value = height(starts)
    finite = np.isfinite(value)
    s, d = int(finite.sum()), target.dim
    factor = np.broadcast_to(_FIRST_SCALE * np.eye(d) if scale is None else scale, (s, d, d)).copy()
    return Climbs(starts[finite], value[finite], factor, *np.zeros((4, s), dtype=bool), *np.zeros((2, s), dtype=int))


def _newton_round(target: Target, height: Height, climbs: Climbs) -> Climbs:
    """One saddle-free Newton step of every climb, with the damping that gains most."""
    s, d = climbs.z.shape
    around, heights, gradient, curvature = _differences(target, height, climbs)
    bend, axes = np.linalg.eigh(curvature)
    stiff = np.clip(np.abs(bend), *_CURVATURES)
    along = np.einsum("sij,si->sj", axes, gradient)
    promised = 0.5 * (along**2 / stiff).sum(axis=1)
    damping = np.array(_DAMPING)[:, None] * np.median(stiff, axis=1)[:, None, None]
    steps = along[:, None] / (stiff[:, None] + damping)
    trials = target.inside(climbs.z[:, None] + np.einsum("sij,sjk,smk->smi", climbs.factor, axes, steps))
    tried = height(trials.reshape(-1, d)).reshape(s, -1)
    points = np.concatenate([climbs.z[:, None], around, trials], axis=1)
    values = np.concatenate([climbs.value[:, None], heights, tried], axis=1)
    best = np.argmax(values, axis=1)
    z, value = points[np.arange(s), best], values[np.arange(s), best]
    factor = _bounded(np.einsum("sij,sjk->sik", climbs.factor, axes / np.sqrt(stiff)[:, None, :]), target.is_box)
    gain = value - climbs.value
    is_still = gain < _STILL
    has_pairs = around.shape[1] > 2 * d or d == 1
    fits = (stiff.max(axis=1) < _ROUND**2) & (bend.min(axis=1) > _ROUND**-2)
    is_far = gain > d  # more than the height of most of the posterior's mass below its top
    is_known = (is_far | (fits & (gain > 0.5 * promised) & ~is_still)) & (d > _FEW_PAIRS)
    is_round = (stiff.max(axis=1) < _ROUND) & (bend.min(axis=1) > 1 / _ROUND)
    is_ridge = climbs.n_stalled >= _STALLS  # a curved or flat top never looks round
    arrived = is_still & (promised < _PROMISE) & (is_round | is_ridge) & has_pairs
    n_stalled = np.where(is_still, climbs.n_stalled + has_pairs, 0)
    return Climbs(z, value, factor, arrived, arrived, is_round, is_known, n_stalled, climbs.n_rounds + 1)


def _differences(target: Target, height: Height, climbs: Climbs) -> tuple[Floats, Floats, Floats, Floats]:
    """Points around every climb and their heights; gradient and negative curvature in the climb's own scales."""
    s, d = climbs.z.shape
    rows, columns = np.triu_indices(d, 1)
    eye = np.eye(d)
    pairs = np.empty((0, d)) if climbs.is_known.all() else eye[rows] + eye[columns]
    stencil = _STENCIL * np.concatenate([eye, -eye, pairs])
    around = target.inside(climbs.z[:, None] + np.einsum("mj,sij->smi", stencil, climbs.factor))
    heights = height(around.reshape(-1, d)).reshape(s, -1)
    centre = climbs.value[:, None]
    finite = np.isfinite(heights)
    lowest = np.minimum(np.where(finite, heights, centre).min(axis=1, keepdims=True), centre)
    filled = np.where(finite, heights, lowest - _HOLE)  # low enough to move away from, not so low as to spoil the model
    plus, minus, cross = filled[:, :d], filled[:, d : 2 * d], filled[:, 2 * d :]
    curvature = np.zeros((s, d, d))
    if len(pairs):
        curvature[:, rows, columns] = -(cross - plus[:, rows] - plus[:, columns] + centre) / _STENCIL**2
    curvature += np.swapaxes(curvature, 1, 2)
    curvature[:, np.arange(d), np.arange(d)] = -(plus + minus - 2 * centre) / _STENCIL**2
    return around, heights, (plus - minus) / (2 * _STENCIL), curvature


def _bounded(shape: Floats, is_box: bool) -> Floats:
    """Lower Cholesky factors of the covariances ``shape shape^T``, with no axis wider than the prior."""
    left, sizes, _ = np.linalg.svd(shape)
    least, most_in_a_box, most = _SCALES
    sizes = np.clip(sizes, least, most_in_a_box if is_box else most)
    root = left * sizes[:, None, :]
    _, upper = np.linalg.qr(np.swapaxes(root, 1, 2))
    lower = np.swapaxes(upper, 1, 2)
    return lower * np.where(np.diagonal(lower, axis1=1, axis2=2) < 0, -1.0, 1.0)[:, None, :]


def _check_bounded(target: Target, climbs: Climbs) -> None:
    """Raise if a climb has gone so far that it will never end."""
    lost = np.flatnonzero(np.abs(climbs.z).max(axis=1) > _AWAY)
    if len(lost):
        where = target.parameters(climbs.z[lost])[0]
        raise ValueError(
            f"the log likelihood grows faster than the prior falls: climbs lead to x = {where} and beyond. Such a "
            "posterior cannot be normalised; is its sign right?"
        )


def _stop_followers(climbs: Climbs, tops: list[Mode], circle: Circle | None) -> None:
    """Stop climbs that have come close to a higher top: they would end there. Climbs to come begin with its scales."""
    found = [(climbs.z[i], climbs.factor[i], climbs.value[i]) for i in np.flatnonzero(climbs.has_arrived)]
    for z, factor, value in [*((top.z, top.factor, top.height) for top in tops), *found]:
        climbs.is_done[:] |= (distance(climbs.z, z, factor, circle) < _FOLLOWS) & (climbs.value <= value)
    if len(round_tops := np.flatnonzero(climbs.has_arrived & climbs.is_round)) and climbs.z.shape[1] > _FEW_PAIRS:
        waiting = climbs.n_rounds == 0
        climbs.factor[waiting], climbs.is_known[waiting] = climbs.factor[round_tops[0]], True


def _give_up_lower_half(climbs: Climbs, active: NDArray[np.intp]) -> None:
    """Of the active climbs that have used up their patience, give up the lower half."""
    due = active[(climbs.n_rounds[active] % _PATIENCE == 0) & ~climbs.is_done[active]]
    behind = due[np.argsort(climbs.value[due], kind="stable")][: len(due) // 2]
    climbs.is_done[behind] = True


def _ends(climbs: Climbs) -> list[Mode]:
    """Where all climbs are now, those that have arrived first."""
    log_mass = climbs.value + log_volume(climbs.factor)
    is_peak, n_ended = climbs.has_arrived & climbs.is_round, climbs.is_done.astype(int)
    each = (array.tolist() for array in (log_mass, climbs.has_arrived, is_peak, n_ended))
    modes = [Mode(*row) for row in zip(climbs.z, climbs.factor, *each, strict=True)]
    return sorted(modes, key=lambda mode: not mode.is_settled)
