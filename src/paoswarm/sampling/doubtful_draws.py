"""Draws that the known modes do not explain: they may lead to other modes."""

from __future__ import annotations

from collections.abc import Set
from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from paoswarm.core.arrays import Floats
from paoswarm.sampling.modes import Mode, distance
from paoswarm.sampling.periodic_coordinates import Circle
from paoswarm.sampling.starts import Draws, spread_out
from paoswarm.sampling.target import Target

_EXAMINED = 48  # draws examined per round that exceed the modes, and as many at random
_DOUBTFUL = 6  # starts per round where some draws are doubtful; half as many where none is
_ON_THE_WAY = (0.03, 0.1, 0.3, 0.6)  # shares of the way to the nearest mode where a valley is looked for
_STRANGE = 8.0  # median surprises of a mode's draws, above which a draw is strange
_SURPRISE = 1.0  # surprise in log height, up to which no draw is strange
_COMPARED = 10_000  # draws that are compared with their neighbours, at most
_NEIGHBOURS = 2  # neighbours per dimension with which a draw is compared
_PIECES = 20  # pieces of the curve that describes how heights fall around a mode
_PER_PIECE = 10  # draws per piece, below which there is no curve
_CURVE_BEYOND = 3.0  # log drop by which the curve may leave its range
_RATE_ROUNDS = 4  # rounds that assign draws to modes and measure how fast heights fall
_LEAST_DROP = 1e-3  # least drop of log height from a mode to a draw


def find_doubtful(target: Target, draws: Draws, tops: list[Mode], climbed: Set[int], at_random: list[int]) -> list[int]:
    """Indices of a few draws that may lead to other modes than ``tops``, the known ones.

    They are by turns strange draws, draws behind a valley, and draws ``at_random``. None is in ``climbed``. Many draws
    around a mode look strange where most draws belong to another kind of mode, hence the turns.
    """
    strange, behind = [], []
    if any(mode.is_peak for mode in tops):
        some, is_strange = unexplained(draws, tops, _EXAMINED, target.circle)
        both = np.concatenate([some, np.array(at_random, dtype=np.intp)])
        is_behind = behind_valleys(target, Draws(draws.z[both], draws.height[both]), tops)
        strange, behind = some[is_strange].tolist(), both[is_behind].tolist()
    by_turns = chain.from_iterable(zip_longest(strange, behind, at_random))
    chosen = [i for i in dict.fromkeys(by_turns) if i is not None and i not in climbed]
    return chosen[: _DOUBTFUL if strange or behind else _DOUBTFUL // 2]


def n_examined() -> int:
    """Number of draws at random that `find_doubtful` wants."""
    return _EXAMINED


def doubtful_cost() -> int:
    """Likelihood evaluations of `find_doubtful`, at most."""
    return 2 * _EXAMINED * len(_ON_THE_WAY)


def unexplained(
    draws: Draws, modes: list[Mode], n: int, circle: Circle | None
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Indices of the ``n`` draws that most exceed what the modes explain, by turns of each mode; which are strange.

    A draw belongs to the mode that explains the greatest height there. Its excess over that height is compared with the
    excess of its nearest neighbours: where a mode explains a slope badly, it does so for all of them. The difference is
    its surprise. A draw is strange if its surprise is far above what is usual for its mode.
    """
    finite = np.flatnonzero(np.isfinite(draws.height))
    z, height = draws.z[finite], draws.height[finite]
    owner, excess = _excess(z, height, modes, circle)
    compared = np.argsort(-excess, kind="stable")[:_COMPARED]
    tree = KDTree(z[:_COMPARED])
    nearest = tree.query(z[compared], k=min(_NEIGHBOURS * z.shape[1] + 1, tree.n), workers=-1)[1]
    surprise = np.full(len(z), -np.inf)
    surprise[compared] = excess[compared] - np.median(excess[nearest.reshape(len(compared), -1)], axis=1)
    is_strange = np.zeros(len(z), dtype=bool)
    each = []
    for k in range(len(modes)):
        own = compared[owner[compared] == k]
        if len(own):
            is_strange[own] = surprise[own] > max(_SURPRISE, _STRANGE * float(np.median(np.abs(surprise[own]))))
            each.append(own[spread_out(z[own], surprise[own], n)].tolist())
    turns = [i for several in zip_longest(*each) for i in several if i is not None][:n]
    return finite[turns], is_strange[turns]


def _excess(z: Floats, height: Floats, modes: list[Mode], circle: Circle | None) -> tuple[NDArray[np.intp], Floats]:
    """The mode that every draw belongs to, and its height above what this mode explains.

    The height falls from the top of a mode with the squared distance in its standard deviations. The rate is the median
    over all draws that belong to it. Where a mode has many draws, a curve of medians takes the place of the rate. Being
    medians, neither is bent by other modes.
    """
    away = np.stack([distance(z, mode.z, mode.factor, circle) ** 2 for mode in modes]) + 1e-100  # never zero
    top = np.array([[mode.height] for mode in modes])
    drop = np.maximum(top - height, _LEAST_DROP)
    rate = np.full((len(modes), 1), 0.5)  # of a normal law
    for _ in range(_RATE_ROUNDS):
        owner = np.argmax(top - rate * away, axis=0)
        for k in np.unique(owner):
            own = owner == k
            rate[k] = np.median(drop[k, own] / away[k, own])
    excess = height - (top - rate * away)[owner, np.arange(len(z))]
    for k in np.unique(owner):
        own = np.flatnonzero(owner == k)
        if len(own) > _PER_PIECE * _PIECES:
            pieces = np.array_split(own[np.argsort(away[k, own], kind="stable")], _PIECES)
            knots = np.log([[np.median(a[k, piece]) for piece in pieces] for a in (away, drop)])
            excess[own] = height[own] - (top[k] - np.exp(_curve(np.log(away[k, own]), *knots)))
    return owner, excess


def _curve(x: Floats, knots: Floats, values: Floats) -> Floats:
    """Straight pieces between the knots; the outer ones are continued, but not far."""
    piece = np.clip(np.searchsorted(knots, x), 1, len(knots) - 1)
    slope = np.diff(values) / (np.diff(knots) + 1e-100)
    straight = values[piece] + slope[piece - 1] * (x - knots[piece])
    return np.clip(straight, values.min() - _CURVE_BEYOND, values.max() + _CURVE_BEYOND)


def behind_valleys(target: Target, draws: Draws, modes: list[Mode]) -> NDArray[np.bool_]:
    """Which draws are separated from the nearest mode by lower ground, at a few places on the straight way.

    Those are likely to lead elsewhere. The others may do so as well: from afar a valley can be too narrow to be hit.
    """
    z = draws.z
    if len(z) == 0:
        return np.zeros(0, dtype=bool)
    ways = np.stack([mode.z for mode in modes]) - z[:, None]
    ways = ways if target.circle is None else target.circle.nearest(ways)
    way = ways[np.arange(len(z)), np.argmin((ways**2).sum(axis=2), axis=1)]
    places = z[:, None] + np.array(_ON_THE_WAY)[:, None] * way[:, None]
    heights = target.height(places.reshape(-1, target.dim)).reshape(len(z), -1)
    return heights.min(axis=1) < draws.height
