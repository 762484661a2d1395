"""Where an adaptive run stands, as arrays for numba.

A run has a *lane* for each of its series: the search that is under way. One lane more holds the best search that has
ended, as it was then. Row ``k`` of every array belongs to lane ``k``. Arrays of the same shape are one array, because
numba takes long to compile functions of many arrays; their names below are its second index. Where a run wants more
room, compiled code stops and `with_room` makes it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.engines.adaptive_kernels import inner
from paoswarm.engines.search_plan import SearchPlan
from paoswarm.methods import agreement
from paoswarm.methods.agreement import Agreement, Search
from paoswarm.methods.dense_learning import DenseLaw, DenseProgress
from paoswarm.methods.dense_pao import DenseMemory
from paoswarm.methods.element_pao import PERIODS, ElementMemory
from paoswarm.methods.quadratic_model import Trust
from paoswarm.methods.sharing import NOBODY, Lane, Sharing, Start, Tally, shown

GOES_ON = 0
CONVERGED, KNOWN, HOPELESS, CUT_SHORT = range(1, 5)  # how a search ends
ENDINGS = ("", agreement.CONVERGED, agreement.KNOWN, agreement.HOPELESS, agreement.CUT_SHORT)
# Vectors (d,): the best point of the search; `DenseLaw`; `QuadraticModel`.
FOUND, CENTRE, LENGTHS, PATH_SCALE, PATH, MODEL_CENTRE = range(6)
# Matrices (d, d): `DenseLaw`, `QuadraticModel`.
COVARIANCE, AXES, ROOT, WHITENING = range(4)
# Points (n, d): of the swarm; and those of a generation, as the method draws them.
POSITION, BEST, DRAWN = range(3)
# One number for each particle (n,): of the swarm, `Generation` and `Trial`.
VALUE, BEST_VALUE, AGE, PREDICTED, MEASURED, STEP, RATE, ASKED = range(8)
# Lists of their own lengths: `DenseProgress`; `ElementMemory`; coefficients of the model.
BESTS, MEDIANS, RANGES, STEPS, RATES, COEFFICIENTS = range(6)


def _record(whole: str, real: str) -> Any:
    """A record of whole and real numbers."""
    return np.dtype([*((name, np.int64) for name in whole.split()), *((name, np.float64) for name in real.split())])


# Numbers of a search; the names are those of `Lane`, `DenseLaw`, `Trust`, `DenseProgress`, `QuadraticModel`,
# `Generation` and `ElementMemory`.
LANE = _record(
    "is_used search series is_dense has_model n n_first used began hopeless drawn_generations "
    "law_generation is_singular trust_wait trust_period generations n_bests n_ranges n_known first_known "
    "is_fitted fit_generation is_full is_open is_predicted n_asked period evaluations stalled n_replaced "
    "accurate marked_used",
    "most spread first_value typical value scale agreeing pairs apart negligible lowest unit radius horizon noise "
    "marked_value marked_reach",
)
RUN = _record(
    "status rule wanted nit nfev n_failed n_begun n_ended n_history "
    "n_searches n_here n_places n_equal n_worse n_open is_undercut",
    "value",
)
TALLY = _record("spent has_reached", "reached")
SEARCH = _record("series n_particles evaluations ending began ended place", "value first_value accuracy reach")


class Lanes(NamedTuple):
    """All searches of a run that are under way, and the best one that has ended."""

    own: Any  # (k + 1,) `LANE`
    vectors: Any  # (k + 1, 6, d)
    matrices: Any  # (k + 1, 4, d, d)
    points: Any  # (k + 1, 3, n, d)
    numbers: Any  # (k + 1, 8, n)
    lists: Any  # (k + 1, 6, time)
    known: Any  # (k + 1, m, d + 1) evaluated points for the model, in widths of the bounds, and their values
    replaced: Any  # (k + 1, 3 n, d) bests that were replaced: two for each particle are kept, and one may be added


class AdaptiveRun(NamedTuple):
    """Everything that a run needs to go on."""

    facts: Any  # (1,) `RUN`
    x: Any  # (d,) the best point
    series: Any  # (k,) how searches follow each other, see `search_plan`
    tallies: Any  # (k,) `TALLY`
    searches: Any  # (s,) `SEARCH`, those that have ended
    ends: Any  # (s, d) their best points
    history: Any  # the best value after each generation
    lanes: Lanes


def new_run(series: Any, d: int, n_first: int, n_coefficients: int, n_fitted: int) -> AdaptiveRun:
    """Room for a run of these series that begins with ``n_first`` particles; a model takes ``n_fitted`` points."""
    k, n, time = len(series) + 1, n_first, max(256, n_coefficients)
    facts = np.zeros(1, dtype=RUN)
    facts["value"] = np.inf
    return AdaptiveRun(
        facts=facts,
        x=np.zeros(d),
        series=series,
        tallies=np.zeros(k - 1, dtype=TALLY),
        searches=np.zeros(time, dtype=SEARCH),
        ends=np.zeros((time, d)),
        history=np.zeros(time),
        lanes=Lanes(
            own=np.zeros(k, dtype=LANE),
            vectors=np.zeros((k, 6, d)),
            matrices=np.zeros((k, 4, d, d)),
            points=np.zeros((k, 3, n, d)),
            numbers=np.zeros((k, 8, n)),
            lists=np.zeros((k, 6, time)),
            known=np.zeros((k, 2 * max(3 * n_fitted, 4 * n), d + 1)),
            replaced=np.zeros((k, 3 * n, d)),
        ),
    )


def with_room(run: AdaptiveRun) -> AdaptiveRun:
    """The run with all the room that it wants: `adaptive_engine.advance` stops where it has too little."""
    lanes, facts = run.lanes, run.facts[0]
    n = max(int(facts["wanted"]), lanes.numbers.shape[2])
    time = len(run.history) * (2 if is_full(run) else 1)
    return run._replace(
        searches=_longer(run.searches, 0, time),
        ends=_longer(run.ends, 0, time),
        history=_longer(run.history, 0, time),
        lanes=lanes._replace(
            points=_longer(lanes.points, 2, n),
            numbers=_longer(lanes.numbers, 2, n),
            lists=_longer(lanes.lists, 2, time),
            known=_longer(lanes.known, 1, max(lanes.known.shape[1], 8 * n)),
            replaced=_longer(lanes.replaced, 1, 3 * n),
        ),
    )


def _longer(array: Any, axis: int, size: int) -> Any:
    """The array with room for ``size`` entries along an axis."""
    missing = size - array.shape[axis]
    shape = (*array.shape[:axis], missing, *array.shape[axis + 1 :])
    return np.concatenate([array, np.zeros(shape, dtype=array.dtype)], axis=axis) if missing else array


@numba.njit(nogil=True, cache=True, error_model="numpy")
def is_full(run):
    """Whether there is no room for another generation of every search, or for another end."""
    facts, own = run.facts[0], run.lanes.own
    needed = max(facts.n_history, facts.n_ended)
    for k in range(len(own)):
        needed = max(needed, own[k].generations)
    return needed + 1 >= len(run.history)


@inner
def keep(lanes, k):
    """Copy the search of lane ``k`` into the last lane, that of the best search which has ended."""
    last = len(lanes.own) - 1
    lanes.own[last] = lanes.own[k]
    d, n = lanes.vectors.shape[2], lanes.own[k].n
    for j in range(d):
        for row in range(lanes.vectors.shape[1]):
            lanes.vectors[last, row, j] = lanes.vectors[k, row, j]
        for row in range(lanes.matrices.shape[1]):
            copy(lanes.matrices[k, row, j], lanes.matrices[last, row, j])
    for i in range(n):
        for row in range(lanes.points.shape[1]):
            copy(lanes.points[k, row, i], lanes.points[last, row, i])
        for row in range(lanes.numbers.shape[1]):
            lanes.numbers[last, row, i] = lanes.numbers[k, row, i]
    for row in (STEPS, RATES):
        copy(lanes.lists[k, row], lanes.lists[last, row])


@inner
def copy(source, target):
    """Copy a line of numbers to the beginning of another one."""
    for i in range(len(source)):
        target[i] = source[i]


@inner
def copy_rows(source, target):
    """Copy rows of numbers to the first rows of another array."""
    for i in range(len(source)):
        copy(source[i], target[i])


def agreement_of(run: AdaptiveRun) -> Agreement:
    """How the searches of a run agree."""
    facts = run.facts[0]
    return Agreement(
        n_searches=int(facts["n_searches"]),
        n_here=int(facts["n_here"]),
        n_places=int(facts["n_places"]),
        n_equal=int(facts["n_equal"]),
        n_worse=int(facts["n_worse"]),
        n_open=int(facts["n_open"]),
        is_best=not facts["is_undercut"],
    )


def swarm_of(run: AdaptiveRun, plan: SearchPlan, lower: Floats, upper: Floats) -> Swarm:
    """The swarm of a run; with what its searches remember, if there are several."""
    if plan.is_single:
        return _swarm(run, 0, lower, upper)
    last = len(plan.series)
    lanes = [_lane(run, k, plan, lower, upper) for k in range(last) if run.lanes.own[k]["is_used"]]
    lanes = [lane for lane in lanes if lane.used]  # one whose first swarm the budget did not pay for has not begun
    best = None
    if run.lanes.own[last]["is_used"]:
        best = _lane(run, last, plan, lower, upper)
    tallies = [Tally(int(one["spent"]), float(one["reached"]) if one["has_reached"] else None) for one in run.tallies]
    sharing = Sharing(
        tallies=tuple(tallies),
        lanes=tuple(sorted(lanes, key=lambda lane: lane.search)),
        shown=NOBODY,
        n_begun=len(lanes) + int(run.facts[0]["n_ended"]),
        searches=_searches(run, plan),
        agreement=agreement_of(run),
        ended_best=best,
    )
    return shown(lanes[0].swarm if best is None else best.swarm, sharing)


def _searches(run: AdaptiveRun, plan: SearchPlan) -> tuple[Search, ...]:
    """The searches that have ended."""
    count = int(run.facts[0]["n_ended"])
    ended = [dict(zip(SEARCH.names, one, strict=True)) for one in run.searches[:count].tolist()]
    return tuple(
        Search(
            series=one["series"],
            n_particles=one["n_particles"],
            evaluations=one["evaluations"],
            x=run.ends[i].copy(),
            value=one["value"],
            ending=ENDINGS[one["ending"]],
            first_value=one["first_value"],
            kind=plan.kind(one["series"]),
            began=one["began"],
            ended=one["ended"],
            accuracy=one["accuracy"],
            reach=one["reach"],
            place=one["place"],
        )
        for i, one in enumerate(ended)
    )


def _start(run: AdaptiveRun, k: int, plan: SearchPlan) -> Start:
    own = run.lanes.own[k]
    numbers = (float(own[name]) for name in ("spread", "horizon", "most"))
    return plan.start(int(own["series"]), int(own["n_first"]), *numbers)


def _lane(run: AdaptiveRun, k: int, plan: SearchPlan, lower: Floats, upper: Floats) -> Lane:
    """A search that is under way, or the best one that has ended."""
    own = run.lanes.own[k]
    return Lane(
        search=int(own["search"]),
        series=int(own["series"]),
        start=_start(run, k, plan),
        swarm=_swarm(run, k, lower, upper),
        began=int(own["began"]),
        n_particles=int(own["n_first"]),
        used=int(own["used"]),
        first_value=float(own["first_value"]),
        value=float(own["value"]),
        x=run.lanes.vectors[k, FOUND].copy(),
        hopeless=int(own["hopeless"]),
        typical=float(own["typical"]),
        accurate=int(own["accurate"]),
    )


def _swarm(run: AdaptiveRun, k: int, lower: Floats, upper: Floats) -> Swarm:
    """The swarm of one search, with its memory."""
    own, points, numbers = run.lanes.own[k], run.lanes.points[k], run.lanes.numbers[k]
    n = int(own["n"])
    bests, best_value = points[BEST, :n].copy(), numbers[BEST_VALUE, :n].copy()
    leader = int(order.best(best_value))
    return Swarm(
        position=points[POSITION, :n].copy(),
        velocity=np.zeros_like(bests),
        value=numbers[VALUE, :n].copy(),
        best_position=bests,
        best_value=best_value,
        age=numbers[AGE, :n].copy(),
        repeats=None,
        global_best=bests[leader : leader + 1].repeat(n, axis=0),
        global_value=best_value[leader],
        lower=lower[None].repeat(n, axis=0),
        upper=upper[None].repeat(n, axis=0),
        memory=_dense(run, k) if own["is_dense"] else _element(run, k),
    )


def _dense(run: AdaptiveRun, k: int) -> DenseMemory:
    own, d = run.lanes.own[k], run.lanes.vectors.shape[2]
    vectors, matrices, lists = run.lanes.vectors[k].copy(), run.lanes.matrices[k].copy(), run.lanes.lists[k]
    law = DenseLaw(
        centre=vectors[CENTRE],
        scale=float(own["scale"]),
        covariance=matrices[COVARIANCE],
        axes=matrices[AXES],
        lengths=vectors[LENGTHS],
        root=matrices[ROOT],
        path_scale=vectors[PATH_SCALE],
        path=vectors[PATH],
        generation=int(own["law_generation"]),
        is_singular=bool(own["is_singular"]),
    )
    trust = Trust(float(own["agreeing"]), float(own["pairs"]), int(own["trust_wait"]), int(own["trust_period"]))
    n, n_ranges = int(own["n_bests"]), int(own["n_ranges"])
    progress = DenseProgress(
        bests=lists[BESTS, :n].copy(),
        medians=lists[MEDIANS, :n].copy(),
        ranges=lists[RANGES, :n_ranges].copy(),
        spread=float(own["apart"]),
        negligible=float(own["negligible"]),
        generations=int(own["generations"]),
    )
    return DenseMemory(law, np.empty((0, d)), np.empty(0), trust, None, None, progress)


def _element(run: AdaptiveRun, k: int) -> ElementMemory:
    own, lists = run.lanes.own[k], run.lanes.lists[k]
    return ElementMemory(
        steps=lists[STEPS, :PERIODS].copy(),
        rates=lists[RATES, :PERIODS].copy(),
        period=int(own["period"]),
        replaced=run.lanes.replaced[k, : int(own["n_replaced"])].copy(),
        evaluations=int(own["evaluations"]),
        n_first=int(own["n_first"]),
        stalled=int(own["stalled"]),
    )
