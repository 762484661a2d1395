"""Where the posterior peaks: Newton climbs from many starts at once, Laplace's law at the top.

Tempering loses a narrow mode, since at middle temperatures it holds next to no mass. A climb does not.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.sampling.periodic_coordinates import Circle
from paoswarm.sampling.target import Target

_DAMPING = np.array([0.0, 0.3, 3.0, 30.0, 300.0])  # Levenberg's, tried together
_PATIENCE = 8  # rounds after which the lower half of the unfinished climbs is given up
_ROUNDS = 25  # that a climb may need
_AWAY = 1e6  # standard deviations of the prior beyond which nothing that can be normalised leads
_NEGLIGIBLE = 20.0  # difference of log mass to the heaviest mode, beyond which one is not worth a draw


class Mode(NamedTuple):
    """A peak of the posterior with the normal law that touches it there."""

    z: Floats
    factor: Floats  # lower Cholesky factor of the inverse curvature
    log_mass: float  # Laplace: log height + d/2 log(2 pi) + log det factor
    is_settled: bool = False  # whether the climb has arrived, and was not given up on the way
    is_peak: bool = False  # whether it has arrived on a round top, not on a ridge or a plateau
    n_climbs: int = 1  # that have ended there

    @property
    def height(self) -> float:
        """Log posterior at the top, but for a constant."""
        return self.log_mass - float(_log_volume(self.factor))


class Climbs(NamedTuple):
    """Many climbs in lock-step."""

    z: Floats  # (s, d)
    value: Floats  # (s,)
    factor: Floats  # (s, d, d), step sizes: z + factor @ y with y of order 1
    done: NDArray[np.bool_]  # (s,)
    stalled: NDArray[np.intp]  # (s,) rounds without a gain that matters
    on_top: NDArray[np.bool_]  # (s,) where the posterior bends down alike in all directions

    def part(self, index: NDArray[np.intp]) -> Climbs:
        """Some of them."""
        return Climbs._make(array[index] for array in self)


class Found(NamedTuple):
    """What climbs have come to."""

    modes: list[Mode]  # distinct ones, heaviest first, none negligible
    n_ended: int  # climbs that came to an end before the budget did
    ends: list[Mode]  # of all climbs


def find_modes(target: Target, starts: Floats, n_max: int) -> Found:
    """Climb from the starts, spending at most ``n_max`` likelihood evaluations.

    Each round measures gradient and curvature by differences in coordinates in which the curvature of the last round
    was one, so that steps fit the scale of the posterior whatever the scale of the box. Only as many climbs are under
    way as the budget can carry to a top; the next start sets out when one has arrived, or has fallen behind.
    """
    d = target.dim
    end = target.n_evaluations + n_max
    starts = target.inside(starts[:n_max])
    value = target.height(starts)
    known = np.isfinite(value)
    s = int(known.sum())
    climbs = Climbs(
        starts[known],
        value[known],
        np.broadcast_to(0.05 * np.eye(d), (s, d, d)).copy(),
        np.zeros(s, dtype=bool),
        np.zeros(s, dtype=int),
        np.zeros(s, dtype=bool),
    )
    per_round = _round_cost(d)
    abreast = max(2, n_max // (_ROUNDS * per_round))
    rounds, settled = np.zeros(s, dtype=int), np.zeros(s, dtype=bool)
    while True:
        active = np.flatnonzero(~climbs.done)[: min(abreast, (end - target.n_evaluations) // per_round)]
        if len(active) == 0:
            break
        part = _climb(target, climbs.part(active))
        for whole, new in zip(climbs, part, strict=True):
            whole[active] = new
        _check_bounded(target, part)
        rounds[active] += 1
        settled[active] = climbs.done[active]
        _stop_followers(climbs, settled, target.circle)
        due = active[(rounds[active] % _PATIENCE == 0) & ~climbs.done[active]]
        behind = due[np.argsort(climbs.value[due], kind="stable")][: len(due) // 2]
        climbs.done[behind] = True
    ends = _ends(climbs, settled)
    return Found(merge(ends, target.circle), int(climbs.done.sum()), ends)


def _check_bounded(target: Target, climbs: Climbs) -> None:
    """Raise where a climb has gone so far that it will never end."""
    lost = np.flatnonzero(np.abs(climbs.z).max(axis=1) > _AWAY)
    if len(lost):
        where = target.parameters(climbs.z[lost])[0]
        raise ValueError(
            f"the log likelihood grows faster than the prior falls: it leads to x = {where} and beyond, and such a "
            "posterior cannot be normalised; is its sign right?"
        )


def climb_cost(dim: int) -> int:
    """Likelihood evaluations of a climb that is soon over."""
    return _PATIENCE * _round_cost(dim)


def _round_cost(dim: int) -> int:
    return 2 * dim + dim * (dim - 1) // 2 + len(_DAMPING)


def _climb(target: Target, climbs: Climbs) -> Climbs:
    """One round of every climb: a saddle-free Newton step, damped as far as it needs to be."""
    s, d = climbs.z.shape
    around, heights, gradient, curvature = _differences(target, climbs)
    bend, axes = np.linalg.eigh(curvature)
    stiff = np.clip(np.abs(bend), 1e-2, 1e4)
    along = np.einsum("sij,si->sj", axes, gradient)
    gain = 0.5 * (along**2 / stiff).sum(axis=1)
    steps = along[:, None] / (stiff[:, None] + _DAMPING[:, None] * np.median(stiff, axis=1)[:, None, None])
    trials = target.inside(climbs.z[:, None] + np.einsum("sij,sjk,smk->smi", climbs.factor, axes, steps))
    tried = target.height(trials.reshape(-1, d)).reshape(s, -1)
    points = np.concatenate([climbs.z[:, None], around, trials], axis=1)
    values = np.concatenate([climbs.value[:, None], heights, tried], axis=1)
    best = np.argmax(values, axis=1)
    z, value = points[np.arange(s), best], values[np.arange(s), best]
    shape = np.einsum("sij,sjk->sik", climbs.factor, axes / np.sqrt(stiff)[:, None, :])
    factor = _bounded(shape, 0.6 if target.is_box else 1.0)
    still = value - climbs.value < 0.05
    round_enough = (stiff.max(axis=1) < 2) & (bend.min(axis=1) > 0.5)
    on_a_ridge = climbs.stalled >= 2  # a curved or flat top never looks round
    done = still & (gain < 0.5) & (round_enough | on_a_ridge)
    return Climbs(z, value, factor, done, np.where(still, climbs.stalled + 1, 0), round_enough)


def _differences(target: Target, climbs: Climbs) -> tuple[Floats, Floats, Floats, Floats]:
    """Points around every climb and their heights; gradient and negative curvature in the climb's own units."""
    s, d = climbs.z.shape
    size = 0.5  # half a standard deviation, once the units fit
    rows, columns = np.triu_indices(d, 1)
    eye = np.eye(d)
    stencil = size * np.concatenate([eye, -eye, eye[rows] + eye[columns]])
    around = target.inside(climbs.z[:, None] + np.einsum("mj,sij->smi", stencil, climbs.factor))
    heights = target.height(around.reshape(-1, d)).reshape(s, -1)
    centre = climbs.value[:, None]
    finite = np.isfinite(heights)
    lowest = np.minimum(np.where(finite, heights, centre).min(axis=1, keepdims=True), centre)
    filled = np.where(finite, heights, lowest - 10)  # a hole is a place to go away from, not to measure by
    plus, minus, cross = filled[:, :d], filled[:, d : 2 * d], filled[:, 2 * d :]
    curvature = np.zeros((s, d, d))
    curvature[:, rows, columns] = -(cross - plus[:, rows] - plus[:, columns] + centre) / size**2
    curvature += np.swapaxes(curvature, 1, 2)
    curvature[:, np.arange(d), np.arange(d)] = -(plus + minus - 2 * centre) / size**2
    return around, heights, (plus - minus) / (2 * size), curvature


def _bounded(shape: Floats, width: float) -> Floats:
    """Lower Cholesky factors of the covariances ``shape shape^T``, no axis wider than the prior."""
    left, sizes, _ = np.linalg.svd(shape)
    sizes = np.clip(sizes, 1e-12, width)
    root = left * sizes[:, None, :]
    _, upper = np.linalg.qr(np.swapaxes(root, 1, 2))
    lower = np.swapaxes(upper, 1, 2)
    return lower * np.where(np.diagonal(lower, axis1=1, axis2=2) < 0, -1.0, 1.0)[:, None, :]


def _stop_followers(climbs: Climbs, settled: NDArray[np.bool_], circle: Circle | None) -> None:
    """A climb that has come within one standard deviation of a higher, settled one has nothing left to find."""
    for i in np.flatnonzero(settled):
        away = distance(climbs.z, climbs.z[i], climbs.factor[i], circle)
        climbs.done[:] |= (away < 1) & (climbs.value <= climbs.value[i])


def _ends(climbs: Climbs, settled: NDArray[np.bool_]) -> list[Mode]:
    """Where all climbs have come to, the settled ones first."""
    log_mass = (climbs.value + _log_volume(climbs.factor)).tolist()
    order = np.argsort(~settled, kind="stable").tolist()
    peak = (settled & climbs.on_top).tolist()
    ended = climbs.done.astype(int).tolist()
    return [Mode(climbs.z[i], climbs.factor[i], log_mass[i], bool(settled[i]), peak[i], ended[i]) for i in order]


def merge(modes: list[Mode], circle: Circle | None, negligible: float = _NEGLIGIBLE) -> list[Mode]:
    """Modes by falling Laplace mass, none negligible; of those that lie within each other the first, for all climbs.

    Where a climb was given up counts for no more than the heaviest where one has arrived: its scale may belong to an
    earlier, lower place.
    """
    most = max((mode.log_mass for mode in modes if mode.is_settled), default=math.inf)
    modes = [mode._replace(log_mass=min(mode.log_mass, most)) for mode in modes]
    top = max((mode.log_mass for mode in modes), default=-math.inf)
    kept: list[Mode] = []
    for mode in modes:
        home = next((i for i, other in enumerate(kept) if not is_new(mode, [other], circle)), None)
        if home is not None:
            kept[home] = kept[home]._replace(n_climbs=kept[home].n_climbs + mode.n_climbs)
        elif mode.log_mass > top - negligible:
            kept.append(mode)
    return sorted(kept, key=lambda mode: -mode.log_mass)


def is_new(mode: Mode, modes: list[Mode], circle: Circle | None) -> bool:
    """Whether it belongs to none of the others.

    One that has arrived does not belong to a place where a climb was given up, nor a narrow peak to a wide one.
    """
    homes = [other for other in modes if other.is_settled or not mode.is_settled]
    homes = [other for other in homes if not (mode.is_peak and other.is_peak) or near(other.z, [mode], 2.0, circle)]
    return not near(mode.z, homes, 2.0, circle)


def near(z: Floats, modes: list[Mode], reach: float, circle: Circle | None) -> bool:
    """Whether a point lies within so many standard deviations of one of the modes."""
    return any(distance(z[None], mode.z, mode.factor, circle)[0] <= reach for mode in modes)


def distance(z: Floats, centre: Floats, factor: Floats, circle: Circle | None) -> Floats:
    """Mahalanobis distance of the rows of ``z``, the short way round a circle."""
    away = z - centre if circle is None else circle.nearest(z - centre)
    return np.linalg.norm(np.linalg.solve(factor, away.T), axis=0)


def _log_volume(factor: Floats) -> Floats:
    """Integral of a normal law of height one."""
    scale = np.diagonal(factor, axis1=-2, axis2=-1)
    return np.asarray(0.5 * factor.shape[-1] * math.log(2 * math.pi) + np.log(scale).sum(axis=-1))
