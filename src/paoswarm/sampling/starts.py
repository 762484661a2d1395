"""Where to climb from: known points, promising draws, draws that no known mode explains, points badly covered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import OptimizeResult
from scipy.spatial import KDTree

from paoswarm.core.arrays import Floats
from paoswarm.core.blas import on_one_thread
from paoswarm.core.weights import normalise
from paoswarm.evaluate.interrupts import uninterrupted
from paoswarm.sampling.climbs import Mode, distance, is_near
from paoswarm.sampling.densities import Circle, Density
from paoswarm.sampling.proposals import DrawPool
from paoswarm.sampling.target import Target
from paoswarm.space.space import Fixed, Space

_SPACING = 0.5  # least distance between starts, in typical distances between draws
_SORTED = 2000  # best draws among which starts are chosen
_TREND_DRAWS = 4  # draws per coefficient of the trend, below which there is no trend
_TREND_FITTED = 10_000  # draws to which the trend is fitted, at most
_TREND_TERMS = 300  # terms (22 dimensions) up to which each round has a matrix of its own
_TREND_ROUNDS = 6  # rounds of reweighting in the fit of the trend
_CAUCHY = 1.5  # median deviations from the trend at which a draw has half the weight
_HEAVY = 0.1  # share of E[posterior / proposal] from which on a point is badly covered
_EXPLAINED = 3.0  # standard deviations of a higher mode within which it is not climbed from
EXAMINED = 48  # draws examined per round that exceed the modes, and as many at random
_DOUBTFUL = 6  # starts per round where some draws are doubtful; half as many where none is
_ON_THE_WAY = (0.03, 0.1, 0.3, 0.6)  # shares of the way to the nearest mode where a valley is looked for
_STRANGE = 8.0  # median surprises of a mode's draws, above which a draw is strange
_SURPRISE = 1.0  # surprise in log height, up to which no draw is strange
_COMPARED = 10_000  # draws that are compared with their neighbours, at most
_NEIGHBOURS = 2  # neighbours per dimension with which a draw is compared
_TREE_DIMS = 16  # dimensions up to which a tree is faster than all distances
_BLOCK = 1000  # points whose distances to all others are held at a time
_PIECES = 20  # pieces of the curve that describes how heights fall around a mode
_PER_PIECE = 10  # draws per piece, below which there is no curve
_CURVE_BEYOND = 3.0  # log drop by which the curve may leave its range
_RATE_ROUNDS = 4  # rounds that assign draws to modes and measure how fast heights fall
_LEAST_DROP = 1e-3  # least drop of log height from a mode to a draw
_FROM_SWARM = 32  # best points of a swarm to start from, spread out


class Draws(NamedTuple):
    """Points in the sampler's coordinates, and their log posterior up to a constant."""

    z: Floats  # (n, d)
    height: Floats  # (n,); -inf where the likelihood is zero or failed


def choose_starts(draws: Draws, n: int) -> NDArray[np.intp]:
    """Indices of the ``n`` most promising draws: by turns the highest, and those that most exceed a global trend.

    The trend is a quadratic in ``z``, fitted robustly. A narrow mode in the tails of a wide one is low, but higher than
    the wide one explains. Draws that are close to a chosen one are passed over.
    """
    finite = np.flatnonzero(np.isfinite(draws.height))
    if len(finite) == 0:
        return finite
    z, height = draws.z[finite], draws.height[finite]
    highest = spread_out(z, height, (n + 1) // 2)
    n_coefficients = (z.shape[1] + 1) * (z.shape[1] + 2) // 2
    if len(finite) <= _TREND_DRAWS * n_coefficients:
        return finite[highest]
    both = spread_out(z, height - trend(z, height), n // 2, highest)
    surprising = both[len(highest) :]
    return finite[by_turns(highest, surprising)]


def by_turns(*each: Sequence[int]) -> list[int]:
    """The first of each sequence, the second of each, and so on."""
    return [i for several in zip_longest(*each) for i in several if i is not None]


def spread_out(points: Floats, score: Floats, n: int, chosen: Sequence[int] = ()) -> list[int]:
    """The indices ``chosen``, then up to ``n`` more in falling order of score, none close to another."""
    sd = points.std(axis=0)
    scaled = points / np.where(sd > 0, sd, 1.0)
    spacing = _SPACING * math.sqrt(scaled.shape[1]) * len(points) ** (-1 / scaled.shape[1])
    found = list(chosen)
    for i in np.argsort(-score, kind="stable")[:_SORTED].tolist():
        if n == 0:
            break
        if (((scaled[found] - scaled[i]) ** 2).sum(axis=1) > spacing**2).all():
            found.append(i)
            n -= 1
    return found


@on_one_thread
def trend(z: Floats, height: Floats) -> Floats:
    """Quadratic regression of height on place. Cauchy weights keep single modes from bending it.

    Each round regresses what the last has left. With very many terms all share one matrix, that of equal weights.
    """
    terms, seen = _quadratic_terms(z[:_TREND_FITTED]), height[:_TREND_FITTED]
    least = 1e-12 * np.ptp(seen) + 1e-100  # an exact quadratic leaves no deviation to divide by
    coefficients, factor = np.zeros(terms.shape[1]), None
    coefficients[0] = np.median(seen)
    for _ in range(_TREND_ROUNDS):
        away = seen - terms @ coefficients
        weights = 1 / (1 + (away / (_CAUCHY * np.median(np.abs(away)) + least)) ** 2)
        if factor is None or terms.shape[1] <= _TREND_TERMS:
            root = np.sqrt(weights)[:, None] * terms if terms.shape[1] <= _TREND_TERMS else terms
            square = root.T @ root
            square[np.diag_indices_from(square)] *= 1 + 1e-10  # there may be fewer draws than terms
            factor = cho_factor(square, overwrite_a=True)
        coefficients += cho_solve(factor, terms.T @ (weights * away))
    parts = range(0, len(z), _TREND_FITTED)
    return np.concatenate([_quadratic_terms(z[i : i + _TREND_FITTED]) @ coefficients for i in parts])


def _quadratic_terms(z: Floats) -> Floats:
    """Terms of a quadratic, a row for every point."""
    rows, columns = np.triu_indices(z.shape[1])
    return np.concatenate([np.ones((1, len(z))), z.T, z.T[rows] * z.T[columns]]).T


def badly_covered(target: Target, pool: DrawPool, proposal: Density, modes: list[Mode]) -> Floats:
    r"""Points ``(m, d)`` that dominate :math:`E_\pi[\gamma/q]` and have no higher mode nearby; often none."""
    height = pool.height
    score = pool.log_weight(1.0) + height - proposal.log_density(pool.z)
    if not np.isfinite(score).any():
        return pool.z[:0]
    share = normalise(score)
    heavy = [i for i in np.argsort(-share)[: int(1 / _HEAVY)].tolist() if share[i] > _HEAVY]

    def is_explained(i: int) -> bool:
        higher = [mode for mode in modes if mode.height > height[i]]
        return is_near(pool.z[i], higher, target.circle, _EXPLAINED)

    return pool.z[[i for i in heavy if not is_explained(i)]]


def find_doubtful(target: Target, draws: Draws, tops: list[Mode], climbed: Set[int], at_random: list[int]) -> list[int]:
    """Indices of a few draws that may lead to other modes than ``tops``, the known ones.

    They are by turns strange draws, draws behind a valley, and draws ``at_random``. None is in ``climbed``. Many draws
    around a mode look strange where most draws belong to another kind of mode, hence the turns.
    """
    strange, behind = [], []
    if any(mode.is_peak for mode in tops):
        some, is_strange = unexplained(draws, tops, EXAMINED, target.circle)
        both = np.concatenate([some, np.array(at_random, dtype=np.intp)])
        is_behind = behind_valleys(target, Draws(draws.z[both], draws.height[both]), tops)
        strange, behind = some[is_strange].tolist(), both[is_behind].tolist()
    chosen = [i for i in dict.fromkeys(by_turns(strange, behind, at_random)) if i not in climbed]
    return chosen[: _DOUBTFUL if strange or behind else _DOUBTFUL // 2]


def doubtful_cost() -> int:
    """Likelihood evaluations of `find_doubtful`, at most."""
    return 2 * EXAMINED * len(_ON_THE_WAY)


def nearest_of(points: Floats, at: Floats, count: int) -> NDArray[np.intp]:
    """Indices ``(m, count)`` of the points that are nearest to each row of ``at``; of all, if there are fewer."""
    count = min(count, len(points))
    if points.shape[1] <= _TREE_DIMS:
        with uninterrupted():  # its threads would go on, and write to arrays that are freed
            return np.asarray(KDTree(points).query(at, k=[*range(1, count + 1)], workers=-1)[1])
    square = (points**2).sum(axis=1)
    blocks = (square - 2 * at[i : i + _BLOCK] @ points.T for i in range(0, len(at), _BLOCK))
    return np.concatenate([np.argpartition(block, count - 1, axis=1)[:, :count] for block in blocks])


def unexplained(
    draws: Draws, modes: list[Mode], n: int, circle: Circle | None
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Indices of the ``n`` draws that most exceed what the modes explain, and a mask of those that are strange.

    The modes take turns. A draw belongs to the mode that explains the greatest height there. Its excess over that
    height is compared with the excess of its nearest neighbours: where a mode explains a slope badly, it does so for
    all of them. The difference is its surprise. A draw is strange if its surprise is far above what is usual for its
    mode.
    """
    finite = np.flatnonzero(np.isfinite(draws.height))
    z, height = draws.z[finite], draws.height[finite]
    owner, excess = _excess(z, height, modes, circle)
    compared = np.argsort(-excess, kind="stable")[:_COMPARED]
    nearest = nearest_of(z[:_COMPARED], z[compared], _NEIGHBOURS * z.shape[1] + 1)
    surprise = np.full(len(z), -np.inf)
    surprise[compared] = excess[compared] - np.median(excess[nearest], axis=1)
    is_strange = np.zeros(len(z), dtype=bool)
    each = []
    for k in range(len(modes)):
        own = compared[owner[compared] == k]
        if len(own):
            is_strange[own] = surprise[own] > max(_SURPRISE, _STRANGE * float(np.median(np.abs(surprise[own]))))
            each.append(own[spread_out(z[own], surprise[own], n)].tolist())
    turns = by_turns(*each)[:n]
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


def is_search(start: Any) -> bool:
    """Whether it is an optimisation result, or a list of results."""
    several = isinstance(start, list | tuple) and any(isinstance(one, OptimizeResult) for one in start)
    return several or isinstance(start, OptimizeResult)


def known_points(start: Any, names: list[str]) -> Floats | None:
    """Points near modes ``(m, d)``; for a result of `minimize`, its best point and the best points of its particles."""
    if start is None:
        return None
    is_result = isinstance(start, OptimizeResult)
    if is_search(start) and not is_result:
        return np.concatenate([points for one in start if (points := known_points(one, names)) is not None])
    if is_result and "swarm" in start:
        return _points_of_result(start, names)
    rows = _in_order(start, names) if isinstance(start, Mapping) and not is_result else start
    try:
        points = np.atleast_2d(np.asarray(rows, dtype=float))
    except (TypeError, ValueError):
        points = np.empty(())
    if points.ndim != 2 or points.size == 0:
        raise TypeError(
            "start must be a result of minimize or minimize_many, points of shape (m, d), or a dict of values by name, "
            f"got {start!r}"
        )
    return points


def _in_order(start: Mapping[str, Any], names: list[str]) -> NDArray[Any]:
    """Values by name as rows, in the order of the names."""
    if set(start) != set(names):
        raise ValueError(f"start must name every parameter of the prior, {names}, got {list(start)}")
    try:
        return np.stack(np.broadcast_arrays(*(start[name] for name in names)), axis=-1)
    except ValueError:
        raise ValueError(f"start must have the same number of values for every parameter, got {start}") from None


def _points_of_result(result: OptimizeResult, names: list[str]) -> Floats:
    """The best point of a result, and the best points of its particles."""
    swarms = result.swarm if type(result.swarm) is tuple else (result.swarm,)  # runs may differ in size
    value = np.concatenate([swarm.best_value.reshape(-1) for swarm in swarms])
    best = np.concatenate([swarm.best_position.reshape(-1, swarm.n_dimensions) for swarm in swarms])
    best = best[np.isfinite(value)]
    best = best[spread_out(best, -value[np.isfinite(value)], _FROM_SWARM)]
    if "space" not in result:
        return np.concatenate([np.atleast_2d(result.x), best])
    return _parameters(result.space, np.concatenate([np.atleast_2d(result.x), result.space.rows(best)]), names)


def _parameters(space: Space, rows: Floats, names: list[str]) -> Floats:
    """The parameters of a prior among the variables of a space: by name, or those that are not fixed."""
    if space.names is None:
        return rows[:, [not isinstance(one, Fixed) for one in space.variables]]
    if missing := [name for name in names if name not in space.names]:
        raise ValueError(f"start: the result has no variable {missing[0]!r}, which the prior has")
    return rows[:, [space.names.index(name) for name in names]]
