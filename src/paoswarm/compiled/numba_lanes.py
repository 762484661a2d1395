"""Where an adaptive run stands, as arrays for numba.

A run has a *lane* for each of its series: the search that is under way. One lane more holds the best search that has
ended, as it was then. Row ``k`` of every array belongs to lane ``k``. Arrays of the same shape are one array, because
numba takes long to compile functions of many arrays; their names below are its second index. They are as long as the
largest swarm needs, and grow with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

# Vectors (d,): the best point of the search; `DenseLaw`; the centre of the law for which the model was fitted.
FOUND, CENTRE, LENGTHS, PATH_SCALE, PATH, FIT_CENTRE = range(6)
# Matrices (d, d): `DenseLaw`; what makes its law standard normal, for the model.
COVARIANCE, AXES, ROOT, FIT_AXES = range(4)
# Points (n, d): of the swarm; and those of a generation, as the method draws them.
POSITION, BEST, DRAWN = range(3)
# One number for each particle (n,): of the swarm, `Rates`, `Generation` and `Trial`.
VALUE, BEST_VALUE, AGE, WEIGHTS, PREDICTED, MEASURED, STEP, RATE, ASKED = range(9)
# Lists of their own lengths: `Course`, of all generations; `Element`; coefficients of the model.
BESTS, MEDIANS, RANGES, STEPS, RATES, COEFFICIENTS = range(6)

_compiled = numba.njit(nogil=True, cache=True, error_model="numpy")


def _record(whole: str, real: str) -> Any:
    """A record of whole and real numbers."""
    return np.dtype([*((name, np.int64) for name in whole.split()), *((name, np.float64) for name in real.split())])


# Numbers of a search; the names are those of `Lane`, `DenseLaw`, `Rates`, `Trust`, `Course`, `QuadraticModel`,
# `Generation` and `Element`.
LANE = _record(
    "is_used search series is_dense has_model n n_first used began hopeless drawn_generations "
    "law_generation is_singular mu patience trust_wait trust_period generations n_ranges n_known first_known "
    "is_fitted fit_generation is_full is_open is_predicted n_asked period evaluations stalled n_replaced",
    "most spread first_value value scale effective path_scale_rate damping_scale path_rate rank_one rank_many length "
    "total_weight agreeing pairs apart negligible lowest unit radius horizon noise",
)
RUN = _record(
    "status rule nit nfev n_failed stale n_begun n_ended n_history n_searches n_here n_places n_once n_equal n_worse",
    "value",
)
TALLY = _record("spent has_reached", "reached")
SEARCH = _record("series n_particles evaluations ending began ended", "value first_value")


class Lanes(NamedTuple):
    """All searches of a run that are under way, and the best one that has ended."""

    own: Any  # (k + 1,) `LANE`
    vectors: Any  # (k + 1, 6, d)
    matrices: Any  # (k + 1, 4, d, d)
    points: Any  # (k + 1, 3, n, d)
    numbers: Any  # (k + 1, 9, n)
    lists: Any  # (k + 1, 6, time)
    known: Any  # (k + 1, m, d + 1) evaluated points for the model, in widths of the bounds, and their values
    replaced: Any  # (k + 1, 3 n, d) bests that were replaced: two for each particle are kept, and one may be added


class Run(NamedTuple):
    """Everything that a run needs to go on."""

    facts: Any  # (1,) `RUN`
    x: Any  # (d,) the best point
    series: Any  # (k,) how searches follow each other, see `search_plan`
    tallies: Any  # (k,) `TALLY`
    searches: Any  # (s,) `SEARCH`, those that have ended
    ends: Any  # (s, d) their best points
    history: Any  # the best value after each generation
    lanes: Lanes


def new_run(series: Any, d: int, n_first: int, n_coefficients: int, n_fitted: int) -> Run:
    """Room for a run of these series that begins with ``n_first`` particles; a model takes ``n_fitted`` points."""
    k, n, time = len(series) + 1, n_first, max(256, n_coefficients)
    facts = np.zeros(1, dtype=RUN)
    facts["value"] = np.inf
    return Run(
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
            numbers=np.zeros((k, 9, n)),
            lists=np.zeros((k, 6, time)),
            known=np.zeros((k, 2 * max(3 * n_fitted, 4 * n), d + 1)),
            replaced=np.zeros((k, 3 * n, d)),
        ),
    )


@_compiled
def with_room(run, n):
    """The run with room for searches of ``n`` particles."""
    own, vectors, matrices, points, numbers, lists, known, replaced = run.lanes
    if n <= numbers.shape[2]:
        return run
    k, before, d = len(own), numbers.shape[2], points.shape[3]
    n = max(n, 2 * before)
    wide_points, wide_numbers = np.empty((k, 3, n, d)), np.empty((k, 9, n))
    wide_known, wide_replaced = np.empty((k, max(known.shape[1], 8 * n), d + 1)), np.empty((k, 3 * n, d))
    for i in range(k):
        for row in range(3):
            copy(points[i, row].reshape(-1), wide_points[i, row].reshape(-1))
        for row in range(9):
            copy(numbers[i, row], wide_numbers[i, row])
        copy(known[i].reshape(-1), wide_known[i].reshape(-1))
        copy(replaced[i].reshape(-1), wide_replaced[i].reshape(-1))
    lanes = Lanes(own, vectors, matrices, wide_points, wide_numbers, lists, wide_known, wide_replaced)
    return Run(run.facts, run.x, run.series, run.tallies, run.searches, run.ends, run.history, lanes)


@_compiled
def with_time(run):
    """The run with room for one more generation of every search, and one more end."""
    own, vectors, matrices, points, numbers, lists, known, replaced = run.lanes
    needed = max(run.facts[0].n_history, run.facts[0].n_ended)
    for k in range(len(own)):
        needed = max(needed, own[k].generations)
    before = len(run.history)
    if needed + 1 < before:
        return run
    size, d = 2 * before, run.ends.shape[1]
    longer, history = np.empty((len(own), 6, size)), np.empty(size)
    searches, ends = np.empty(size, dtype=run.searches.dtype), np.empty((size, d))
    copy(run.history, history)
    copy(run.ends.reshape(-1), ends.reshape(-1))
    for i in range(before):
        searches[i] = run.searches[i]
    for k in range(len(own)):
        for row in range(6):
            copy(lists[k, row], longer[k, row])
    lanes = Lanes(own, vectors, matrices, points, numbers, longer, known, replaced)
    return Run(run.facts, run.x, run.series, run.tallies, searches, ends, history, lanes)


@_compiled
def keep(lanes, k):
    """Copy the search of lane ``k`` into the last lane, that of the best search which has ended."""
    own, vectors, matrices, points, numbers, lists, _, _ = lanes
    last = len(own) - 1
    own[last] = own[k]
    copy(vectors[k].reshape(-1), vectors[last].reshape(-1))
    copy(matrices[k].reshape(-1), matrices[last].reshape(-1))
    copy(points[k].reshape(-1), points[last].reshape(-1))
    copy(numbers[k].reshape(-1), numbers[last].reshape(-1))
    copy(lists[k, STEPS], lists[last, STEPS])
    copy(lists[k, RATES], lists[last, RATES])


@_compiled
def copy(source, target):
    """Copy a line of numbers to the beginning of another one."""
    for i in range(len(source)):
        target[i] = source[i]
