"""The swarms of adaptive searches for numba: the kernels of both kinds, and the arrays of a lane on which they work.

Every function of ``lanes`` is about the search in lane ``k``, whose arrays it changes.
"""

from __future__ import annotations

import math

import numpy as np

from paoswarm.core.order import FIRST_INFEASIBLE
from paoswarm.engines.adaptive_kernels import element, inner, law, model, once, progress, ranked
from paoswarm.engines.adaptive_state import (
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
    RATE,
    RATES,
    ROOT,
    STEP,
    STEPS,
    VALUE,
    WHITENING,
    copy,
    copy_rows,
)
from paoswarm.engines.numba_noise import generation_key, philox
from paoswarm.methods.dense_learning import EVALUATED, DenseLaw, DenseProgress
from paoswarm.methods.element_pao import PERIODS, TRIES, Chances, ElementMemory, ElementSteps
from paoswarm.methods.quadratic_model import QuadraticModel, Trust


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


@once
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


@once
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


@once
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


@once
def _open_again(own, numbers):
    """Ask for the particles that were left out."""
    own.is_open, own.n_asked = 1, 0
    for i in range(own.n):
        if math.isnan(numbers[MEASURED, i]):
            numbers[ASKED, own.n_asked] = i
            own.n_asked += 1


@inner
def end_of_dense(lanes, k):
    """Why the search is over, as `dense_learning.end_of` says."""
    own = lanes.own[k]
    is_led = own.has_model and model.is_trusted(_trust_of(own))
    return progress.end_of(law_of(lanes, k), _progress_of(lanes, k), own.n, own.spread, is_led)


_UNIT = 2.0**-32
_U32 = np.uint32


@inner
def _memory_of(lanes, k):
    own, lists = lanes.own[k], lanes.lists[k]
    replaced = lanes.replaced[k, : own.n_replaced]
    counts = own.evaluations, own.n_first, own.stalled
    return ElementMemory(lists[STEPS, :PERIODS], lists[RATES, :PERIODS], own.period, replaced, *counts)


@inner
def _keep_memory(lanes, k, now):
    own, lists = lanes.own[k], lanes.lists[k]
    own.period, own.n_replaced = now.period, len(now.replaced)
    own.evaluations, own.n_first, own.stalled = now.evaluations, now.n_first, now.stalled
    copy(now.steps, lists[STEPS])
    copy(now.rates, lists[RATES])
    copy_rows(now.replaced, lanes.replaced[k])


@once
def begin_element(lanes, k):
    """Nothing is learnt yet."""
    _keep_memory(lanes, k, element.first_memory(lanes.own[k].n, lanes.points.shape[3]))


@once
def ask_element(lanes, k, key, low, high, normal, uniform):
    """Draw one point for each particle.

    ``normal`` and ``uniform`` (n, d) are deviates; those of particles follow from the ``key`` of the search (E5).
    """
    own, numbers = lanes.own[k], lanes.numbers[k]
    n = len(normal)
    bests = lanes.points[k, BEST, :n]
    ranking = ranked(numbers[BEST_VALUE, :n])
    chances = _chances(key, 4 * own.drawn_generations, normal, uniform)
    x, made = element.proposed(_memory_of(lanes, k), bests, bests[ranking[0]], ranking, chances, own.noise)
    copy_rows(element.brought_inside(x, bests, low, high), lanes.points[k, DRAWN])
    copy(made.step, numbers[STEP])
    copy(made.rate, numbers[RATE])
    own.n_asked = n
    for i in range(n):
        numbers[ASKED, i] = i


@once
def _chances(key, word, normal, uniform):
    """The random numbers of particles; four pairs for each, and those of its time step."""
    n = len(normal)
    period, rate, always, step = np.empty(n), np.empty(n), np.empty(n), np.empty((TRIES, n))
    which = np.empty((3, n))
    for_particle, for_step = generation_key(key, word + 2), generation_key(key, word + 3)
    for i in range(n):
        a, b = philox(_U32(4 * i), key[0], for_particle)
        period[i], which[0, i] = a * _UNIT, b * _UNIT
        a, b = philox(_U32(4 * i + 1), key[0], for_particle)
        which[1, i], which[2, i] = a * _UNIT, b * _UNIT
        a, b = philox(_U32(4 * i + 2), key[0], for_particle)
        always[i] = a * _UNIT
        a, b = philox(_U32(4 * i + 3), key[0], for_particle)
        rate[i] = math.sqrt(-2 * math.log((a >> _U32(1)) * 2.0**-31 + _UNIT)) * math.cos(2 * math.pi * _UNIT * b)
        for c in range(TRIES):
            step[c, i] = philox(_U32(TRIES * i + c), key[0], for_step)[0] * _UNIT
    return Chances(period, rate, step, which, normal, uniform, always)


@once
def tell_element(lanes, k, points, values):
    """Keep the better of each pair, learn from the gains, and shrink."""
    own, numbers = lanes.own[k], lanes.numbers[k]
    n, d = points.shape
    before, bests = numbers[BEST_VALUE, :n].copy(), lanes.points[k, BEST, :n].copy()
    for i in range(n):
        record(lanes, k, i, points[i], values[i])
    after = numbers[BEST_VALUE, :n]
    made = ElementSteps(numbers[STEP, :n], numbers[RATE, :n])
    is_better = after.min() < before.min()
    now = element.learnt(_memory_of(lanes, k), made, numbers[AGE, :n] == 0, bests, before, after, is_better)
    remain = element.size(now, own.horizon, d)
    if remain < n:
        _reduce(lanes, k, n, remain)
    _keep_memory(lanes, k, element.shortened(now, own.n))


@once
def _reduce(lanes, k, n, remain):
    """Keep the best particles only, best first."""
    ranking = ranked(lanes.numbers[k, BEST_VALUE, :n])
    numbers, points = lanes.numbers[k].copy(), lanes.points[k].copy()
    for i in range(remain):
        one = ranking[i]
        for row in (VALUE, BEST_VALUE, AGE):
            lanes.numbers[k, row, i] = numbers[row, one]
        for row in (POSITION, BEST):
            copy(points[row, one], lanes.points[k, row, i])
    lanes.own[k].n = remain


@inner
def leader_of(lanes, k):
    """The number of the particle with the best point."""
    return np.argmin(lanes.numbers[k, BEST_VALUE, : lanes.own[k].n])


@inner
def reach(lanes, k, width):
    """Root mean square distance of the particles from the best point, in widths of the bounds."""
    points, n, d = lanes.points[k], lanes.own[k].n, len(width)
    leader = leader_of(lanes, k)
    total = 0.0
    for i in range(n):
        for j in range(d):
            total += ((points[POSITION, i, j] - points[BEST, leader, j]) / width[j]) ** 2
    return math.sqrt(total / (n * d))


@inner
def is_element_over(lanes, k, width):
    """Whether the bests are equal, or progress has ended."""
    own = lanes.own[k]
    values = lanes.numbers[k, BEST_VALUE, : own.n]
    return element.is_over(_memory_of(lanes, k), values, reach(lanes, k, width), own.horizon, len(width))
