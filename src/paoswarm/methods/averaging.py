r"""How a dense swarm searches a noisy objective: it stays wide enough to see a slope, and its centres are averaged.

Where noise decides the ranks, a cloud contracts around a chance point. So it widens instead, and has more particles,
unless two particles differ, in the median, by twice as much as two measurements of one point do:

.. math:: \operatorname{med} |f_i - f_j| > 2 \operatorname{med} |f' - f''|                          \tag{A20}

Medians of differences serve for every law of the noise. The answer is no particle: the best of many noisy values was
lucky. It is the mean of the centres in which late ones count more (Shamir & Zhang 2013, arXiv:1212.1824, with
:math:`\eta = 3`), of the :math:`k` generations since noise hides the slope:

.. math:: \bar a_k = \bar a_{k-1} + \frac{\eta + 1}{\eta + k} (a_k - \bar a_{k-1})                    \tag{A21}

If values have fallen meanwhile, the centre still moves, and :math:`k` is halved. Every generation measures the answer
once more. The mean of these values has the same weights. Earlier answers were worse, so it is rather too high.

A search that does not know about noise looks for a sign of it that costs nothing: its cloud has become five times
narrower, and the values of its particles differ by as much as before. Then a point is measured again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paoswarm.core import order, swarm
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm
from paoswarm.methods.dense_learning import Law, longest, median, variances

# Chosen on a sphere, Rosenbrock's and Rastrigin's function of five unknowns with noise of standard deviation 1. If the
# cloud may contract, the true value of the answer is 28, 14 and 1.0 times larger. A ratio of 1.4 instead of 2, or 16 or
# 64 particles instead of 32, or no widening change it by less than three times; 8 particles lose more.
_VISIBLE = 2.0  # (A20)
_MOVING = 5.0  # the same ratio of a swarm that is on its way: its latest centre is the best one
_WIDER, _WIDEST = 1.05, 0.2  # factor from generation to generation, and widths of the bounds to which it widens
_LARGER = 4  # times as many particles as usual where noise hides the slope
_FALLEN = 3.0  # standard errors by which values must have fallen to say that the centre still moves
_ENOUGH, _PER_UNKNOWN = 10, 2  # generations in the mean of a search that is compared with others
_FEWEST = 8  # generations that can be halved
_LATE = 3.0  # eta
_KEPT = 40  # differences of which the median is taken
_NORMAL = 0.6744897501960817 * math.sqrt(2)  # median difference of two standard normal deviates
# In 16 runs of 4000 evaluations on each of the three functions, 5 noticed noise in all, 10 in 38 of 48. Without noise,
# in 72 runs on bbob in 2, 5 and 10 unknowns, 5 measured 107 points again and none in 34 runs; 10 measured 39.
_NARROWER = 5.0


class Contraction(NamedTuple):
    """How far a cloud has contracted since the values of its particles were last twice as far apart."""

    apart: float = math.inf  # how far they were apart then
    width: float = math.inf  # of the cloud then
    now: float = math.inf  # and now

    def after(self, apart: float, width: float) -> Contraction:
        """After a generation whose values were so far apart."""
        has_halved = apart < 0.5 * self.apart
        return Contraction(apart, width, width) if has_halved else self._replace(now=width)

    @property
    def is_strange(self) -> bool:
        """Whether values would be those of a very rugged function, if they were not noisy."""
        return _NARROWER * self.now < self.width and self.apart > 0


class Averaging(NamedTuple):
    """What a search knows about the noise, and its answer. Points are in widths of the bounds."""

    x: Floats  # (d,) the answer
    generations: int = 1  # in its mean
    value: float = math.nan  # the mean of its measurements
    variance: float = 1.0  # of that mean, in units of the variance of one measurement
    latest: float = math.nan  # the latest of these measurements
    shown: Any = None  # (d,) where it was made, as the swarm remembers it
    level: float = math.nan  # the mean of the medians of these generations
    late: float = math.nan  # the same with the weights of the answer
    apart: Floats = np.empty(0)  # differences between the values of two particles
    repeated: Floats = np.empty(0)  # differences between two measurements at one point

    @property
    def noise(self) -> float:
        """Standard deviation of one measurement, by the median difference of two."""
        return median(self.repeated) / _NORMAL if len(self.repeated) else 0.0

    @property
    def is_settled(self) -> bool:
        """Whether the mean is that of enough generations to be compared with those of other searches."""
        return self.generations >= _ENOUGH + _PER_UNKNOWN * len(self.x)

    def has_signal(self, least: float) -> bool:
        """Whether two particles differ by ``least`` times as much as two measurements of one point."""
        if not len(self.repeated) or not len(self.apart):
            return True
        return median(self.apart) > least * median(self.repeated)


def _repeats(known: Averaging, state: Swarm) -> Floats:
    """The measurements of the shown answer that the driver has made since."""
    repeats = state.repeats
    assert repeats is not None
    before = 1 / known.variance
    is_new = (state.best_position == known.shown).all(axis=1) & (repeats.count > before)
    count = repeats.count[is_new]
    measured: Floats = known.value + (state.best_value[is_new] - known.value) * count / (count - before)
    return measured


def _differences(values: Floats) -> Floats:
    """Between the first and the second value, the third and the fourth, and so on."""
    pairs = values[: len(values) // 2 * 2].reshape(-1, 2)
    pairs = pairs[order.is_feasible(pairs).all(axis=1)]
    differences: Floats = np.abs(pairs[:, 0] - pairs[:, 1])
    return differences


def with_trial(known: Averaging, state: Swarm, position: Floats, value: float) -> Averaging:
    """After the answer was measured at a ``position``, and the shown one again by the driver."""
    again = _repeats(known, state) if known.shown is not None else np.empty(0)
    again = again[order.is_feasible(again)]
    repeated = np.concatenate((known.repeated, _differences(np.append(again, known.latest))))[-_KEPT:]
    weight = (_LATE + 1) / (_LATE + known.generations)
    values = np.append(again, value) if known.generations > 1 else np.array([value])
    kept = known.value if known.generations > 1 else 0.0
    return known._replace(
        value=kept + weight * (float(values.mean()) - kept),
        variance=(1 - weight) ** 2 * known.variance + weight**2 / len(values),
        latest=value,
        shown=state.snapped(position),
        repeated=repeated,
    )


def with_particles(known: Averaging, values: Floats) -> Averaging:
    """After the particles of a generation were measured; the mean begins later if it holds values that were worse."""
    apart = np.concatenate((known.apart, _differences(values)))[-_KEPT:]
    now, k = median(values), known.generations
    if k == 1 or not math.isfinite(known.level):
        return known._replace(apart=apart, level=now, late=now)
    level = known.level + (now - known.level) / k
    late = known.late + (_LATE + 1) / (_LATE + k) * (now - known.late)
    # The means have 1/k and 16/7k of the variance of a median, pi/2n, and the covariance 1/k.
    error = math.sqrt((math.pi / 2) * (9 / 7) / (len(values) * k)) * median(apart) / _NORMAL
    if k > _FEWEST and late < level - _FALLEN * error:
        k, level = k // 2, late
    return known._replace(apart=apart, level=level, late=late, generations=k)


def with_centre(known: Averaging, centre: Floats) -> Averaging:
    """With the centre of the next generation (A21)."""
    if known.has_signal(_MOVING):
        return known._replace(x=centre, generations=1)
    k = known.generations + 1
    return known._replace(x=known.x + (_LATE + 1) / (_LATE + k) * (centre - known.x), generations=k)


def widened(known: Averaging, law: Law, before: Law) -> Law:
    """A law a little wider than the one ``before``, if noise hides the slope (A20)."""
    if known.has_signal(_VISIBLE):
        return law
    narrower = math.sqrt(variances(before).sum() / variances(law).sum()) * before.scale / law.scale
    wider = _WIDER if longest(before) < _WIDEST else 1.0
    return law._replace(scale=law.scale * max(1.0, narrower * wider))


def grown(state: Swarm, known: Averaging, usual: int) -> Swarm:
    """The swarm with four times as many particles as ``usual``, if noise hides the slope and it has fewer."""
    missing = _LARGER * usual - state.n_particles
    if missing <= 0 or known.has_signal(_VISIBLE):
        return state
    position = np.resize(state.position, (missing, state.n_dimensions))
    return state.joined_by(position, np.resize(state.value, missing))


def with_answer(state: Swarm, known: Averaging) -> Swarm:
    """The swarm that remembers the answer and nothing else."""
    repeats: Any = state.repeats
    if not order.is_feasible(known.value):
        return state
    freedom = float(len(known.repeated))
    repeats = repeats._replace(
        count=np.full_like(state.best_value, 1 / known.variance),
        squares=repeats.squares * 0 + known.noise**2 * freedom,
        freedom=repeats.freedom * 0 + freedom,
    )
    shown = np.broadcast_to(known.shown, state.best_position.shape).copy()
    return swarm.with_leader(
        state._replace(best_position=shown, best_value=np.full_like(state.best_value, known.value), repeats=repeats)
    )
