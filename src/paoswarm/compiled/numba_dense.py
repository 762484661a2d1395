"""The dense adaptive swarm for numba: its kernels, and the arrays of a lane on which they work.

Every function is about the search in lane ``k``, whose arrays it changes.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.algorithms.dense_learning import DenseLaw
from paoswarm.algorithms.dense_progress import EVALUATED, DenseProgress
from paoswarm.algorithms.quadratic_model import QuadraticModel, Trust
from paoswarm.compiled.numba_lanes import (
    AGE,
    ASKED,
    AXES,
    BEST,
    BEST_VALUE,
    BESTS,
    CENTRE,
    COEFFICIENTS,
    COVARIANCE,
    DRAWN,
    LENGTHS,
    MEASURED,
    MEDIANS,
    MODEL_CENTRE,
    PATH,
    PATH_SCALE,
    POSITION,
    PREDICTED,
    RANGES,
    ROOT,
    VALUE,
    WHITENING,
    copy,
    copy_rows,
)
from paoswarm.compiled.one_text import inner, law, model, progress
from paoswarm.core.order import FIRST_INFEASIBLE


@inner
def law_of(lanes, k):
    """The law of the search; it shares the memory of the lane."""
    own, vectors, matrices = lanes.own[k], lanes.vectors[k], lanes.matrices[k]
    return DenseLaw(
        vectors[CENTRE], own.scale, matrices[COVARIANCE], matrices[AXES], vectors[LENGTHS], matrices[ROOT],
        vectors[PATH_SCALE], vectors[PATH], own.law_generation, own.is_singular != 0,
    )  # fmt: skip


@inner
def _keep_law(lanes, k, now):
    own, vectors, matrices = lanes.own[k], lanes.vectors[k], lanes.matrices[k]
    own.scale, own.law_generation, own.is_singular = now.scale, now.generation, now.is_singular
    copy(now.centre, vectors[CENTRE])
    copy(now.lengths, vectors[LENGTHS])
    copy(now.path_scale, vectors[PATH_SCALE])
    copy(now.path, vectors[PATH])
    copy_rows(now.covariance, matrices[COVARIANCE])
    copy_rows(now.axes, matrices[AXES])
    copy_rows(now.root, matrices[ROOT])


@inner
def _progress_of(lanes, k):
    own, lists = lanes.own[k], lanes.lists[k]
    return DenseProgress(
        lists[BESTS, : own.n_bests], lists[MEDIANS, : own.n_bests], lists[RANGES, : own.n_ranges],
        own.apart, own.negligible, own.generations,
    )  # fmt: skip


@inner
def _keep_progress(lanes, k, now):
    own, lists = lanes.own[k], lanes.lists[k]
    own.n_bests, own.n_ranges = len(now.bests), len(now.ranges)
    own.apart, own.negligible, own.generations = now.spread, now.negligible, now.generations
    copy(now.bests, lists[BESTS])
    copy(now.medians, lists[MEDIANS])
    copy(now.ranges, lists[RANGES])


@inner
def _model_of(lanes, k):
    own = lanes.own[k]
    return QuadraticModel(
        lanes.vectors[k, MODEL_CENTRE], lanes.matrices[k, WHITENING], own.fit_generation, own.is_full != 0,
        lanes.lists[k, COEFFICIENTS, : own.is_fitted], own.lowest, own.unit, own.radius,
    )  # fmt: skip


@inner
def _keep_model(lanes, k, now):
    own = lanes.own[k]
    own.is_fitted, own.fit_generation, own.is_full = len(now.coefficients), now.generation, now.is_full
    own.lowest, own.unit, own.radius = now.lowest, now.unit, now.radius
    copy(now.centre, lanes.vectors[k, MODEL_CENTRE])
    copy_rows(now.whitening, lanes.matrices[k, WHITENING])
    copy(now.coefficients, lanes.lists[k, COEFFICIENTS])


@inner
def _trust_of(own):
    return Trust(own.agreeing, own.pairs, own.trust_wait, own.trust_period)


@inner
def _keep_trust(own, now):
    own.agreeing, own.pairs, own.trust_wait, own.trust_period = now.agreeing, now.pairs, now.wait, now.period


@inner
def begin_dense(lanes, k, low, high):
    """A round cloud around the best point of a first swarm."""
    own, drawn, bests = lanes.own[k], lanes.points[k, DRAWN], lanes.numbers[k, BEST_VALUE]
    leader = 0
    for i in range(own.n):
        lanes.numbers[k, ASKED, i] = i
        for j in range(len(low)):
            drawn[i, j] = (lanes.points[k, BEST, i, j] - low[j]) / (high[j] - low[j])
        if bests[i] < bests[leader]:
            leader = i
    _keep_law(lanes, k, law.first_law(drawn[leader], own.spread))
    _keep_progress(lanes, k, progress.first_progress(bests[: own.n]))
    own.agreeing, own.pairs, own.trust_wait, own.trust_period = 0.0, 0.0, 0, 1
    own.n_known, own.first_known, own.is_fitted, own.is_open, own.n_asked = 0, 0, 0, 0, own.n
    _remember(lanes, k, bests)


@inner
def _inside(x):
    return np.minimum(np.maximum(x, 0.0), 1.0)


@inner
def ask_dense(lanes, k, normal):
    """Draw the particles of a generation, and choose those to evaluate; ``normal`` (n, d) are standard deviates."""
    own, numbers = lanes.own[k], lanes.numbers[k]
    n, d = normal.shape
    now, trust = law_of(lanes, k), _trust_of(own)
    x = law.draws(now, normal)
    own.is_predicted, own.n_asked = 0, n
    for i in range(n):
        numbers[ASKED, i], numbers[MEASURED, i] = i, np.nan
    is_new = not own.is_fitted or now.generation - own.fit_generation >= model.generations_between_fits(d)
    if is_new:
        own.is_fitted = 0
        if own.has_model and model.is_due(trust):
            known = lanes.known[k, own.first_known : own.first_known + own.n_known]
            _keep_model(lanes, k, model.fit(now, known[:, :d].copy(), known[:, d].copy()))
    if own.is_fitted and model.is_due(trust):
        fitted = _model_of(lanes, k)
        own.is_predicted, is_led = 1, model.is_trusted(trust)
        if is_led and is_new:
            copy(model.minimum(fitted, now), x[n - 1])  # the scout
        predicted = model.predict(fitted, _inside(x))
        copy(predicted, numbers[PREDICTED])
        if is_led:
            asked = progress.asked_of(predicted, min(n, max(2, math.ceil(EVALUATED * n))), is_new)
            own.n_asked = len(asked)
            copy(asked, numbers[ASKED])
    copy_rows(x, lanes.points[k, DRAWN])


@inner
def tell_dense(lanes, k, points, values):
    """Complete the generation, or open it again if the model was wrong; then learn.

    ``points`` (m, d) were asked for and have these ``values`` (m,).
    """
    own, numbers = lanes.own[k], lanes.numbers[k]
    n, m, d = own.n, own.n_asked, points.shape[1]
    asked = numbers[ASKED, :m].astype(np.int64)
    for i in range(m):
        numbers[MEASURED, asked[i]] = np.inf if math.isnan(values[i]) else values[i]
        record(lanes, k, asked[i], points[i], values[i])
    _remember(lanes, k, values)
    measured, predicted = numbers[MEASURED, :n], numbers[PREDICTED, :n]
    if not own.is_predicted:
        _keep_trust(own, model.untested(_trust_of(own)))
    elif not own.is_open:
        trust = model.after_test(_trust_of(own), predicted[asked], measured[asked])
        _keep_trust(own, trust)
        if m < n:
            if not model.is_trusted(trust):
                _open_again(own, numbers)
                return
            measured = progress.completed(measured, predicted, asked)
    if not own.is_predicted or own.is_open:
        own.is_fitted = 0
    own.is_open = 0
    x = lanes.points[k, DRAWN, :n]
    now, seen = progress.after_generation(
        law_of(lanes, k), law.rates(n, d), _progress_of(lanes, k), x, measured, x - _inside(x)
    )
    _keep_law(lanes, k, now)
    _keep_progress(lanes, k, seen)


@inner
def record(lanes, k, particle, x, value):
    """A particle was evaluated: its best moves only if the new point is better."""
    points, numbers = lanes.points[k], lanes.numbers[k]
    is_better = value < numbers[BEST_VALUE, particle]
    numbers[VALUE, particle] = value
    numbers[AGE, particle] = 0 if is_better else numbers[AGE, particle] + 1
    copy(x, points[POSITION, particle])
    if is_better:
        numbers[BEST_VALUE, particle] = value
        copy(x, points[BEST, particle])


@inner
def _remember(lanes, k, values):
    """Keep the points that were asked for, for the model; as many as it needs are kept."""
    own, known, drawn = lanes.own[k], lanes.known[k], lanes.points[k, DRAWN]
    d, m = drawn.shape[1], own.n_asked
    if own.first_known + own.n_known + m > len(known):
        for i in range(own.n_known):
            copy(known[own.first_known + i], known[i])
        own.first_known = 0
    for i in range(m):
        if values[i] < FIRST_INFEASIBLE:
            at, particle = own.first_known + own.n_known, int(lanes.numbers[k, ASKED, i])
            for j in range(d):
                known[at, j] = min(max(drawn[particle, j], 0.0), 1.0)
            known[at, d] = values[i]
            own.n_known += 1
    kept = max(3 * model.points_for(model.n_coefficients(d)), 4 * m)
    if own.n_known > kept:
        own.first_known += own.n_known - kept
        own.n_known = kept


@inner
def _open_again(own, numbers):
    """Ask for the particles that were left out."""
    own.is_open, own.n_asked = 1, 0
    for i in range(own.n):
        if math.isnan(numbers[MEASURED, i]):
            numbers[ASKED, own.n_asked] = i
            own.n_asked += 1


@inner
def end_of_dense(lanes, k):
    """Why the search is over, as `dense_progress.end_of` says."""
    return progress.end_of(law_of(lanes, k), _progress_of(lanes, k), lanes.own[k].n, lanes.own[k].spread)
