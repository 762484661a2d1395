"""Adaptive runs of a compiled engine as the rest of the library knows them: swarms with the memory of their methods.

So results of all engines are alike, and a run can be continued with ``engine="numpy"``. Only the points for the
quadratic model are left behind: they would take most of the memory of thousands of results.
"""

from __future__ import annotations

import numpy as np

from paoswarm.algorithms.agreement import Agreement, Search
from paoswarm.algorithms.dense_learning import DenseLaw
from paoswarm.algorithms.dense_pao import Dense
from paoswarm.algorithms.dense_progress import DenseProgress
from paoswarm.algorithms.element_pao import PERIODS, Element
from paoswarm.algorithms.quadratic_model import Trust
from paoswarm.algorithms.sharing import NOBODY, Lane, Leader, Sharing, Start, Tally, shown
from paoswarm.compiled import numba_lanes as rows
from paoswarm.compiled.numba_agreement import ENDINGS
from paoswarm.compiled.numba_lanes import Run
from paoswarm.compiled.search_plan import SearchPlan
from paoswarm.core import order
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm


def agreement_of(run: Run) -> Agreement:
    """How the searches of a run agree."""
    facts = run.facts[0]
    return Agreement(
        n_searches=int(facts["n_searches"]),
        n_here=int(facts["n_here"]),
        n_places=int(facts["n_places"]),
        n_once=int(facts["n_once"]),
        n_equal=int(facts["n_equal"]),
        n_worse=int(facts["n_worse"]),
    )


def swarm_of(run: Run, plan: SearchPlan, lower: Floats, upper: Floats) -> Swarm:
    """The swarm of a run; with what its searches remember, if there are several."""
    if plan.is_single:
        return _swarm(run, 0, lower, upper)
    last = len(plan.series)
    lanes = [_lane(run, k, plan, lower, upper) for k in range(last) if run.lanes.own[k]["is_used"]]
    lanes = [lane for lane in lanes if lane.used]  # one whose first swarm the budget did not pay for has not begun
    best = None
    if run.lanes.own[last]["is_used"]:
        best = Leader(
            float(run.lanes.own[last]["value"]), _start(run, last, plan).method, _swarm(run, last, lower, upper)
        )
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


def _searches(run: Run, plan: SearchPlan) -> tuple[Search, ...]:
    """The searches that have ended."""
    count = int(run.facts[0]["n_ended"])
    ended = [dict(zip(rows.SEARCH.names, one, strict=True)) for one in run.searches[:count].tolist()]
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
        )
        for i, one in enumerate(ended)
    )


def _start(run: Run, k: int, plan: SearchPlan) -> Start:
    own = run.lanes.own[k]
    numbers = (float(own[name]) for name in ("spread", "horizon", "most"))
    return plan.start(int(own["series"]), int(own["n_first"]), *numbers)


def _lane(run: Run, k: int, plan: SearchPlan, lower: Floats, upper: Floats) -> Lane:
    """A search that is under way."""
    own = run.lanes.own[k]
    return Lane(
        search=int(own["search"]),
        series=k,
        start=_start(run, k, plan),
        swarm=_swarm(run, k, lower, upper),
        began=int(own["began"]),
        n_particles=int(own["n_first"]),
        used=int(own["used"]),
        first_value=float(own["first_value"]),
        value=float(own["value"]),
        x=run.lanes.vectors[k, rows.FOUND].copy(),
        hopeless=int(own["hopeless"]),
    )


def _swarm(run: Run, k: int, lower: Floats, upper: Floats) -> Swarm:
    """The swarm of one search, with its memory."""
    own, points, numbers = run.lanes.own[k], run.lanes.points[k], run.lanes.numbers[k]
    n = int(own["n"])
    bests, best_value = points[rows.BEST, :n].copy(), numbers[rows.BEST_VALUE, :n].copy()
    leader = int(order.best(best_value))
    return Swarm(
        position=points[rows.POSITION, :n].copy(),
        velocity=np.zeros_like(bests),
        value=numbers[rows.VALUE, :n].copy(),
        best_position=bests,
        best_value=best_value,
        age=numbers[rows.AGE, :n].copy(),
        repeats=None,
        global_best=bests[leader : leader + 1].repeat(n, axis=0),
        global_value=best_value[leader],
        lower=lower[None].repeat(n, axis=0),
        upper=upper[None].repeat(n, axis=0),
        memory=_dense(run, k) if own["is_dense"] else _element(run, k),
    )


def _dense(run: Run, k: int) -> Dense:
    own, d = run.lanes.own[k], run.lanes.vectors.shape[2]
    vectors, matrices, lists = run.lanes.vectors[k].copy(), run.lanes.matrices[k].copy(), run.lanes.lists[k]
    law = DenseLaw(
        centre=vectors[rows.CENTRE],
        scale=float(own["scale"]),
        covariance=matrices[rows.COVARIANCE],
        axes=matrices[rows.AXES],
        lengths=vectors[rows.LENGTHS],
        root=matrices[rows.ROOT],
        path_scale=vectors[rows.PATH_SCALE],
        path=vectors[rows.PATH],
        generation=int(own["law_generation"]),
        is_singular=bool(own["is_singular"]),
    )
    trust = Trust(float(own["agreeing"]), float(own["pairs"]), int(own["trust_wait"]), int(own["trust_period"]))
    n, n_ranges = int(own["n_bests"]), int(own["n_ranges"])
    progress = DenseProgress(
        bests=lists[rows.BESTS, :n].copy(),
        medians=lists[rows.MEDIANS, :n].copy(),
        ranges=lists[rows.RANGES, :n_ranges].copy(),
        spread=float(own["apart"]),
        negligible=float(own["negligible"]),
        generations=int(own["generations"]),
    )
    return Dense(law, np.empty((0, d)), np.empty(0), trust, None, None, progress)


def _element(run: Run, k: int) -> Element:
    own, lists = run.lanes.own[k], run.lanes.lists[k]
    return Element(
        steps=lists[rows.STEPS, :PERIODS].copy(),
        rates=lists[rows.RATES, :PERIODS].copy(),
        period=int(own["period"]),
        replaced=run.lanes.replaced[k, : int(own["n_replaced"])].copy(),
        evaluations=int(own["evaluations"]),
        n_first=int(own["n_first"]),
        stalled=int(own["stalled"]),
    )
