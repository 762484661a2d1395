r"""Rounds of learning: where the emulator is, what it is worth, and which points to simulate next.

The emulated posterior costs nothing, so it is sampled as any other (`paoswarm.sampling.adapt`). A batch of points is

- draws from it, which say before they are learnt how wrong the emulator is where it matters,
- draws from it at the temperature 2, and draws as if the log likelihood were higher by its standard deviation, which
  say the same about the tails,
- and points that make the errors elsewhere smallest, chosen one by one: with the covariance :math:`C` of the errors at
  candidates, a simulation at :math:`j` takes :math:`\sum_i C_{ij}^2 / C_{jj}` of the variance away.           (E5)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, normalise, systematic
from paoswarm.sampling.adapt import Frozen, PriorDensity, draw_into, refine
from paoswarm.sampling.climbs import Mode, climb
from paoswarm.sampling.densities import Density
from paoswarm.sampling.emulated.emulator import EmulatedTarget, Emulator, Frame
from paoswarm.sampling.emulated.simulations import Simulations
from paoswarm.sampling.emulated.two_stage import TwoStage
from paoswarm.sampling.proposals import DrawPool, blend, fit_laws, make_ladder
from paoswarm.sampling.target import Target

_DRAWS = (500, 100)  # of the emulated posterior, at a time: this number, and so many more for each unknown
_CLIMBING = 10_000  # evaluations of the emulator for climbs to its modes, at most
_MOST_STAGES = 3
_ENOUGH, _ENOUGH_EACH = 150, 20  # effective draws: this number, and so many more for each unknown
_FRONT = 30.0  # for each unknown, with which a temperature is reached
_REACHED = 2.0  # for each unknown, from which on the posterior itself is fitted
_SHARES = (0.4, 0.24, 0.18, 0.14)  # of the fits in what is drawn from next, the sharpest first
_EFFICIENT = 0.2  # share of the first stage's draws below which another proposal is made
_PLANNED = 1000  # effective draws that a proposal is adapted for
_CANDIDATES = 150  # draws from which a batch is chosen, at either temperature
_WARM = 0.5  # inverse temperature of the warm ones
_FOR_FRAME = 4.0  # effective draws for each unknown that give mean and scale
_LARGEST_ERROR = 20.0  # standard deviation of the log likelihood above which it says no more
_CLIPPED = 3.0  # largest miss of a validation: one wild point must not hide what the others say
_OF_EACH = (0.34, 0.25, 0.25)  # shares of draws, warm draws and unsure ones in a batch
_WANES = 2.0  # log height, below the typical one, over which a miss in the tails loses its weight
_FAILED = 0.3  # what a failed simulation counts as
_GOOD = (0.08, 0.01)  # errors of the log likelihood, and more for each unknown, with which learning ends
_GOOD_WARM = 0.3  # the same in the tails
# Batches in a row. Of 45 runs on six problems, two of them bent, errors were beyond 3 stated ones in 4 % with two
# batches and in none with three; that takes four evaluations more.
_N_GOOD = 3
_ONE_FOR_ALL = 0.8  # share of the local emulators' error below which one emulator takes their place


class LearningBatch(NamedTuple):
    """Points to simulate next; the first ``n_plain`` are draws, the next ``n_tails`` are of the tails."""

    z: Floats
    n_plain: int
    n_tails: int


class Learner:
    """The emulator, and a proposal for the emulated posterior, from all simulations so far."""

    def __init__(self, known: Simulations, frames: list[Frame], by_outputs: bool, rng: np.random.Generator) -> None:
        self._known, self._rng = known, rng
        self.emulator = Emulator(known, frames, by_outputs)
        self._laws: list[Density] = []
        self._modes: list[Mode]
        self._ladder: Density
        self.pool: DrawPool
        self._sample()
        self.validation: list[float] = []  # of the draws, batch by batch
        self.warm_validation: list[float] = []

    @property
    def target(self) -> EmulatedTarget:
        """The emulated posterior."""
        return EmulatedTarget(self._known, self.emulator)

    @property
    def is_good(self) -> bool:
        """Whether the emulator was right in the last batches, at draws and in the tails."""
        if len(self.validation) < _N_GOOD:
            return False
        limit = _GOOD[0] + _GOOD[1] * self._known.target.dim
        return max(self.validation[-_N_GOOD:]) < limit and max(self.warm_validation[-_N_GOOD:]) < _GOOD_WARM

    def learn(self) -> None:
        """Fit the emulator to all simulations, in coordinates whitened by the emulated posterior; sample it anew."""
        frames = self._frames()
        self.emulator = Emulator(self._known, frames, self.emulator.by_outputs, self.emulator.scales)
        if len(frames) > 1 and self._is_sampled(np.ones(len(self.pool.z), dtype=bool)):
            one = Emulator(self._known, [self._frame_of_all()], self.emulator.by_outputs)
            if one.error < _ONE_FOR_ALL * self.emulator.error:
                self.emulator = one
        self._sample()

    def _sample(self) -> None:
        """Sample the emulated posterior, as well as a batch needs it."""
        target, d = self.target, self._known.target.dim
        owner, height = self.emulator.owner(self._known.z), self._known.height
        best = [np.flatnonzero(owner == i)[np.argmax(height[owner == i])] for i in range(len(self.emulator.frames))]
        self._modes = climb(target, self._known.z[best], _CLIMBING).modes
        self._ladder, self.pool = make_ladder(self._modes, target), DrawPool(d)
        prior, n = PriorDensity(target), _DRAWS[0] + _DRAWS[1] * d
        draw_into(target, self.pool, blend(self._laws, _SHARES[: len(self._laws)], self._ladder, prior), n, self._rng)
        for _ in range(_MOST_STAGES):
            size = effective_size(self.pool.log_weight(1.0))
            if size >= _ENOUGH + _ENOUGH_EACH * d:
                break
            front = self.pool.front(_FRONT * d)
            self._laws = fit_laws(self.pool, target, 1.0 if size >= _REACHED * (d + 1) else front, front, self._rng)
            draw_into(target, self.pool, blend(self._laws, _SHARES, self._ladder, prior), n, self._rng)
        lower, upper = target.bounds(self.pool.z)
        rest = self.pool.log_weight(0.0)
        # Far from all points the trend may rise: such places are explored, but are no part of what is known.
        self._log_weights, self._log_warm, self._log_upper = rest + lower, rest + _WARM * lower, rest + upper

    def first_stage(self, n: int) -> TwoStage:
        """``n`` draws from a proposal that is adapted to the emulated posterior with as many draws as that takes."""
        found: list[TwoStage] = []
        for is_careful in (False, True):  # a proposal may follow a trend that rises far from all points
            target = EmulatedTarget(self._known, self.emulator, is_careful=is_careful)
            start = blend(self._laws[:1], _SHARES[: len(self._laws[:1])], self._ladder, PriorDensity(target))
            pool = DrawPool(target.dim)
            draw_into(target, pool, start, _DRAWS[0] + _DRAWS[1] * target.dim, self._rng)
            plan = Frozen(start, 0.0, pool, self._ladder, self._modes, "", True, {"stages": []})
            proposal = refine(target, plan, _PLANNED, self._rng).proposal
            found.append(TwoStage.drawn(n, proposal, target, self._rng))
            if effective_size(found[-1].log_weights) >= _EFFICIENT * n:
                break
        return max(found, key=lambda one: effective_size(one.log_weights))

    def _frames(self) -> list[Frame]:
        """Means and scales of the emulated posterior, mode by mode; where too few draws are, by its curvature."""
        pool, log_weights = self.pool, self._log_weights
        owner, home = self.emulator.owner(pool.z), self.emulator.owner(np.array([mode.z for mode in self._modes]))
        found = []
        for i, frame in enumerate(self.emulator.frames):
            mine = (owner == i) & np.isfinite(log_weights)
            peaks = [mode for mode, at in zip(self._modes, home, strict=True) if at == i]
            if self._is_sampled(mine):
                found.append(_moments(pool.z[mine], log_weights[mine], self._known.target))
            else:
                found.append(Frame(peaks[0].z, peaks[0].factor) if peaks else frame)
        return found

    def _is_sampled(self, rows: NDArray[np.bool_]) -> bool:
        """Whether these draws give mean and scale."""
        return bool(rows.any()) and effective_size(self._log_weights[rows]) > _FOR_FRAME * self.pool.z.shape[1]

    def _frame_of_all(self) -> Frame:
        kept = np.isfinite(self._log_weights)
        return _moments(self.pool.z[kept], self._log_weights[kept], self._known.target)

    def batch(self, n: int) -> LearningBatch:
        """The next ``n`` points."""
        kinds = [self._draws(one) for one in (self._log_weights, self._log_warm, self._log_upper)]
        numbers = [max(1, round(share * n)) for share in _OF_EACH]
        firsts = np.cumsum([0, *map(len, kinds)]).tolist()
        candidates = np.concatenate(kinds)
        chosen: list[int] = []
        for first, kind, number in zip(firsts, kinds, numbers, strict=False):  # ``firsts`` has the end as well
            number = min(number, len(kind), n - len(chosen))
            chosen += (first + self._rng.choice(len(kind), number, replace=False)).tolist()
        n_plain = sum(one < firsts[1] for one in chosen)
        n_drawn = len(chosen)
        error = np.minimum(self.emulator.error_at(candidates), _LARGEST_ERROR)
        left = self.emulator.covariance(candidates, error)
        for j in chosen:
            left = _without(left, j)
        while len(chosen) < min(n, len(candidates)):
            gain = np.square(left).sum(axis=0) / (np.diag(left) + 1e-4)  # (E5)
            gain[chosen] = -1.0
            chosen.append(int(np.argmax(gain)))
            left = _without(left, chosen[-1])
        return LearningBatch(candidates[chosen], n_plain, n_drawn - n_plain)

    def _draws(self, log_weights: Floats) -> Floats:
        """Different draws of the emulated posterior's pool, by weight."""
        rows = np.unique(systematic(normalise(log_weights), _CANDIDATES, self._rng))
        found: Floats = self.pool.z[rows]
        return found

    def simulate(self, batch: LearningBatch) -> None:
        """Simulate a batch, and note how wrong the emulator was at draws, and in the tails as far as that matters."""
        n, n_tails = batch.n_plain, batch.n_plain + batch.n_tails
        expected, log_prior = self.emulator.predict(batch.z), self._known.target.log_prior(batch.z)
        expected[n:] = self.target.bounds(batch.z[n:])[0]
        values = self._known.evaluate(batch.z)
        has_failed = ~np.isfinite(values)
        missed = np.square(np.where(has_failed, _FAILED, np.clip(values - expected, -_CLIPPED, _CLIPPED)))
        height = log_prior + np.where(has_failed, expected, np.maximum(values, expected))
        depth = float(self._known.height.max()) - 0.5 * batch.z.shape[1] - height
        missed[n:] *= np.exp(-np.maximum(depth[n:], 0.0) / _WANES)
        self.validation.append(math.sqrt(float(missed[:n].mean())))
        self.warm_validation.append(math.sqrt(float(missed[n:n_tails].mean())) if batch.n_tails else 0.0)


def _moments(z: Floats, log_weights: Floats, target: Target) -> Frame:
    """Mean and scale of weighted draws."""
    weights = normalise(log_weights)
    z = z if target.circle is None else target.circle.gathered(z, weights)
    centre = weights @ z
    away = z - centre
    covariance: Floats = (away * weights[:, None]).T @ away
    factor: Floats = np.linalg.cholesky(covariance + 1e-12 * np.diag(np.diag(covariance))).astype(float)
    return Frame(centre, factor)


def _without(left: Floats, j: int) -> Floats:
    """The covariance of errors after a simulation at a candidate."""
    found: Floats = left - np.outer(left[:, j], left[j]) / (left[j, j] + 1e-6)
    return found
