"""Where an adaptive run stands, as arrays for numba.

A run has a *lane* for each of its series: the search that is under way. One lane more holds the best search that has
ended, as it was then. Row ``k`` of every array belongs to lane ``k``. Rows are as long as the largest swarm needs, and
grow with it. `lane` returns the part of the arrays that one search uses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")
RECENT = 20  # generations whose quartiles are kept
PERIODS = 6  # time steps and rates that an element-wise swarm has learnt

_INT, _FLOAT = np.int64, np.float64


def _record(whole: str, real: str) -> Any:
    """A record of whole and real numbers."""
    return np.dtype([*((name, _INT) for name in whole.split()), *((name, _FLOAT) for name in real.split())])


# One search. The names are those of `Lane`, `DenseLaw`, `Rates`, `Trust`, `Course`, `QuadraticModel`, `Generation` and
# `Element`; a prefix says which, where they are not unique.
LANE = _record(
    "is_used search is_dense has_model n n_first used began hopeless drawn_generations series "
    "law_generation is_singular mu patience "
    "trust_wait trust_period "
    "generations n_ranges "
    "n_known first_known "
    "is_fitted fit_generation is_full "
    "is_open is_led is_predicted n_asked "
    "period evaluations stalled n_replaced",
    "most spread first_value value "
    "scale effective path_scale_rate damping_scale path_rate rank_one rank_many length total_weight "
    "agreeing pairs "
    "apart negligible "
    "lowest unit radius "
    "horizon noise",
)
RUN = _record(
    "status rule nit nfev n_failed stale n_begun n_ended n_history "
    "n_searches n_here n_places n_once n_equal n_worse",
    "value",
)
TALLY = _record("spent has_reached", "reached")
SEARCH = _record("series n_particles evaluations ending began ended", "value first_value")


class Law(NamedTuple):
    """As `DenseLaw`."""

    centre: Any  # (d,)
    covariance: Any  # (d, d)
    axes: Any  # (d, d)
    lengths: Any  # (d,)
    root: Any  # (d, d)
    path_scale: Any  # (d,)
    path: Any  # (d,)


class Particles(NamedTuple):
    """The swarm, and its generation between the draw and the last of its values."""

    position: Any  # (n, d)
    best_position: Any  # (n, d)
    drawn: Any  # (n, d) in widths of the bounds, may lie outside
    value: Any  # (n,)
    best_value: Any  # (n,)
    age: Any  # (n,)
    weights: Any  # (n,) of the ranks, as in `Rates`
    predicted: Any  # (n,) by the model
    measured: Any  # (n,) NaN where not yet
    step: Any  # (n,) as in `Trial`
    rate: Any  # (n,)
    asked: Any  # (n,) numbers of the particles whose values are asked for


class Known(NamedTuple):
    """Recently evaluated points for the model, in widths of the bounds."""

    x: Any  # (m, d)
    f: Any  # (m,)


class Course(NamedTuple):
    """As `dense_ends.Course`, but of all generations."""

    bests: Any
    medians: Any
    ranges: Any


class Model(NamedTuple):
    """As `QuadraticModel`, with the axes in which the law was standard normal."""

    centre: Any  # (d,)
    axes: Any  # (d, d)
    coefficients: Any


class Learnt(NamedTuple):
    """As `Element`."""

    steps: Any
    rates: Any
    replaced: Any  # (3 n, d): two for each particle are kept, and one may be added


class Lane(NamedTuple):
    """One search; or all of a run, with one more axis."""

    own: Any  # (1,) `LANE`
    found: Any  # (d,) the best point of the search
    law: Law
    swarm: Particles
    known: Known
    course: Course
    model: Model
    learnt: Learnt


class Run(NamedTuple):
    """Everything that a run needs to go on."""

    facts: Any  # (1,) `RUN`
    x: Any  # (d,) the best point
    series: Any  # (k,) how searches follow each other, see `search_plan`
    tallies: Any  # (k,) `TALLY`
    searches: Any  # (s,) `SEARCH`, those that have ended
    ends: Any  # (s, d) their best points
    history: Any  # the best value after each generation
    lanes: Lane


def new_run(series: Any, d: int, n_first: int, n_coefficients: int, n_fitted: int) -> Run:
    """Room for a run of these series that begins with ``n_first`` particles; a model takes ``n_fitted`` points."""
    k, n, time = len(series) + 1, n_first, 256
    m = 2 * max(3 * n_fitted, 4 * n)
    facts = np.zeros(1, dtype=RUN)
    facts["value"] = np.inf

    def vectors(count: int, *shape: int) -> list[Any]:
        return [np.zeros((k, *shape)) for _ in range(count)]

    centre, lengths, path_scale, path, found, fit_centre = vectors(6, d)
    covariance, axes, root, fit_axes = vectors(4, d, d)
    lanes = Lane(
        own=np.zeros(k, dtype=LANE),
        found=found,
        law=Law(centre, covariance, axes, lengths, root, path_scale, path),
        swarm=Particles(*vectors(3, n, d), *vectors(8, n), np.zeros((k, n), dtype=np.int64)),
        known=Known(np.zeros((k, m, d)), np.zeros((k, m))),
        course=Course(*vectors(2, time), np.zeros((k, RECENT))),
        model=Model(fit_centre, fit_axes, np.zeros((k, n_coefficients))),
        learnt=Learnt(*vectors(2, PERIODS), np.zeros((k, 3 * n, d))),
    )
    return Run(
        facts=facts,
        x=np.zeros(d),
        series=series,
        tallies=np.zeros(k - 1, dtype=TALLY),
        searches=np.zeros(time, dtype=SEARCH),
        ends=np.zeros((time, d)),
        history=np.zeros(time),
        lanes=lanes,
    )


@_compiled
def lane(run, k):
    """Lane ``k`` of a run, as views: what is written to them is written to the run."""
    own, found, law, swarm, known, course, model, learnt = run.lanes
    n = own[k].n
    return Lane(
        own[k : k + 1],
        found[k],
        Law(
            law.centre[k], law.covariance[k], law.axes[k], law.lengths[k], law.root[k], law.path_scale[k], law.path[k]
        ),
        Particles(
            swarm.position[k, :n], swarm.best_position[k, :n], swarm.drawn[k, :n], swarm.value[k, :n],
            swarm.best_value[k, :n], swarm.age[k, :n], swarm.weights[k, :n], swarm.predicted[k, :n],
            swarm.measured[k, :n], swarm.step[k, :n], swarm.rate[k, :n], swarm.asked[k, :n],
        ),
        Known(known.x[k], known.f[k]),
        Course(course.bests[k], course.medians[k], course.ranges[k]),
        Model(model.centre[k], model.axes[k], model.coefficients[k]),
        Learnt(learnt.steps[k], learnt.rates[k], learnt.replaced[k]),
    )  # fmt: skip


@_compiled
def with_room(run, n):
    """The run with room for searches of ``n`` particles."""
    own, found, law, swarm, known, course, model, learnt = run.lanes
    if n <= swarm.value.shape[1]:
        return run
    n = max(n, 2 * swarm.value.shape[1])
    m = max(known.f.shape[1], 8 * n)
    wider = Particles(
        _wider_points(swarm.position, n), _wider_points(swarm.best_position, n), _wider_points(swarm.drawn, n),
        _wider(swarm.value, n), _wider(swarm.best_value, n), _wider(swarm.age, n), _wider(swarm.weights, n),
        _wider(swarm.predicted, n), _wider(swarm.measured, n), _wider(swarm.step, n), _wider(swarm.rate, n),
        _wider(swarm.asked, n),
    )  # fmt: skip
    known = Known(_wider_points(known.x, m), _wider(known.f, m))
    learnt = Learnt(learnt.steps, learnt.rates, _wider_points(learnt.replaced, 3 * n))
    return _with_lanes(run, Lane(own, found, law, wider, known, course, model, learnt))


@_compiled
def with_time(run):
    """The run with room for one more generation of every search, and one more end."""
    own, found, law, swarm, known, course, model, learnt = run.lanes
    needed = max(run.facts[0].n_history, run.facts[0].n_ended)
    for k in range(len(own)):
        needed = max(needed, own[k].generations)
    if needed + 1 < len(run.history):
        return run
    size = 2 * len(run.history)
    course = Course(_wider(course.bests, size), _wider(course.medians, size), course.ranges)
    run = _with_lanes(run, Lane(own, found, law, swarm, known, course, model, learnt))
    history, searches = np.empty(size), np.empty(size, dtype=run.searches.dtype)
    ends = np.empty((size, run.ends.shape[1]))
    history[: len(run.history)] = run.history
    searches[: len(run.searches)] = run.searches
    ends[: len(run.ends)] = run.ends
    return Run(run.facts, run.x, run.series, run.tallies, searches, ends, history, run.lanes)


@_compiled
def keep(run, k):
    """Copy the search of lane ``k`` into the last lane, that of the best search which has ended."""
    own, found, law, swarm, _, _, _, learnt = run.lanes
    last, n = len(own) - 1, own[k].n
    own[last] = own[k]
    found[last] = found[k]
    law.centre[last], law.lengths[last] = law.centre[k], law.lengths[k]
    law.covariance[last], law.axes[last], law.root[last] = law.covariance[k], law.axes[k], law.root[k]
    law.path_scale[last], law.path[last] = law.path_scale[k], law.path[k]
    swarm.position[last, :n], swarm.best_position[last, :n] = swarm.position[k, :n], swarm.best_position[k, :n]
    swarm.value[last, :n], swarm.best_value[last, :n] = swarm.value[k, :n], swarm.best_value[k, :n]
    swarm.age[last, :n] = swarm.age[k, :n]
    learnt.steps[last], learnt.rates[last] = learnt.steps[k], learnt.rates[k]


@_compiled
def _with_lanes(run, lanes):
    return Run(run.facts, run.x, run.series, run.tallies, run.searches, run.ends, run.history, lanes)


@_compiled
def _wider(array, size):
    wider = np.empty((array.shape[0], size), dtype=array.dtype)
    wider[:, : array.shape[1]] = array
    return wider


@_compiled
def _wider_points(array, size):
    wider = np.empty((array.shape[0], size, array.shape[2]))
    wider[:, : array.shape[1]] = array
    return wider
