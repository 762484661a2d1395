r"""Rounds of learning: where the emulator is, what it is worth, and which points to simulate next.

The emulated posterior costs nothing, so it is sampled as any other (`paoswarm.sampling.adapt`). A batch of points is

- draws from it, which say before they are learnt how wrong the emulator is where it matters,
- draws from it at the temperature 2, which say the same about the tails,
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
from paoswarm.sampling.proposals import DrawPool, blend, fit_laws, make_ladder
from paoswarm.sampling.target import Target

_DRAWS = (500, 100)  # of the emulated posterior, at a time: this number, and so many more for each unknown
_CLIMBING = 10_000  # evaluations of the emulator for climbs to its modes, at most
_MOST_STAGES = 3
_ENOUGH, _ENOUGH_EACH = 150, 20  # effective draws: this number, and so many more for each unknown
_FRONT = 30.0  # for each unknown, with which a temperature is reached
_REACHED = 2.0  # for each unknown, from which on the posterior itself is fitted
_SHARES = (0.4, 0.24, 0.18, 0.14)  # of the fits in what is drawn from next, the sharpest first
_PLANNED = 1000  # effective draws that a proposal is adapted for
_CANDIDATES = 150  # draws from which a batch is chosen, at either temperature
_WARM = 0.5  # inverse temperature of the warm ones
_FOR_FRAME = 4.0  # effective draws for each unknown that give mean and scale
_LARGEST_ERROR = 20.0  # standard deviation of the log likelihood above which it says no more
_CLIPPED = 3.0  # largest miss of a validation: one wild point must not hide what the others say
_FAILED = 0.3  # what a failed simulation counts as
_GOOD = (0.08, 0.01)  # errors of the log likelihood, and more for each unknown, with which learning ends
_GOOD_WARM = 0.3  # the same in the tails
_ONE_FOR_ALL = 0.8  # share of the local emulators' error below which one emulator takes their place


class Batch(NamedTuple):
    """Points to simulate next; the first ``n_plain`` are draws, the next ``n_warm`` warm ones."""

    z: Floats
    n_plain: int
    n_warm: int


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
        """Whether the emulator was right in the last two batches, at draws and in the tails."""
        if len(self.validation) < 2:
            return False
        limit = _GOOD[0] + _GOOD[1] * self._known.target.dim
        return max(self.validation[-2:]) < limit and max(self.warm_validation[-2:]) < _GOOD_WARM

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

    def freeze(self) -> Frozen:
        """A proposal for the emulated posterior, adapted with as many draws as that takes."""
        target = self.target
        start = blend(self._laws[:1], _SHARES[: len(self._laws[:1])], self._ladder, PriorDensity(target))
        plan = Frozen(start, 0.0, self.pool, self._ladder, self._modes, "", True, {"stages": []})
        return refine(target, plan, _PLANNED, self._rng)

    def _frames(self) -> list[Frame]:
        """Means and scales of the emulated posterior, mode by mode; where too few draws are, by its curvature."""
        pool = self.pool
        owner, home = self.emulator.owner(pool.z), self.emulator.owner(np.array([mode.z for mode in self._modes]))
        found = []
        for i, frame in enumerate(self.emulator.frames):
            mine = (owner == i) & np.isfinite(pool.log_weight(1.0))
            peaks = [mode for mode, at in zip(self._modes, home, strict=True) if at == i]
            if self._is_sampled(mine):
                found.append(_moments(pool.z[mine], pool.log_weight(1.0)[mine], self._known.target))
            else:
                found.append(Frame(peaks[0].z, peaks[0].factor) if peaks else frame)
        return found

    def _is_sampled(self, rows: NDArray[np.bool_]) -> bool:
        """Whether these draws give mean and scale."""
        return bool(rows.any()) and effective_size(self.pool.log_weight(1.0)[rows]) > _FOR_FRAME * self.pool.z.shape[1]

    def _frame_of_all(self) -> Frame:
        log_w = self.pool.log_weight(1.0)
        kept = np.isfinite(log_w)
        return _moments(self.pool.z[kept], log_w[kept], self._known.target)

    def batch(self, n: int) -> Batch:
        """The next ``n`` points."""
        plain, warm = self._draws(1.0), self._draws(_WARM)
        candidates = np.concatenate([plain, warm])
        n_plain = min(max(1, n // 2), len(plain))
        n_warm = min(max(1, n // 4), len(warm), n - n_plain)
        chosen = self._rng.choice(len(plain), n_plain, replace=False).tolist()
        chosen += (len(plain) + self._rng.choice(len(warm), n_warm, replace=False)).tolist()
        error = np.minimum(self.emulator.error_at(candidates), _LARGEST_ERROR)
        left = self.emulator.covariance(candidates, error)
        for j in chosen:
            left = _without(left, j)
        while len(chosen) < min(n, len(candidates)):
            gain = np.square(left).sum(axis=0) / (np.diag(left) + 1e-4)  # (E5)
            gain[chosen] = -1.0
            chosen.append(int(np.argmax(gain)))
            left = _without(left, chosen[-1])
        return Batch(candidates[chosen], n_plain, n_warm)

    def _draws(self, beta: float) -> Floats:
        """Different draws from the emulated posterior at an inverse temperature."""
        pool = self.pool
        rows = np.unique(systematic(normalise(pool.log_weight(beta)), _CANDIDATES, self._rng))
        found: Floats = pool.z[rows]
        return found

    def simulate(self, batch: Batch) -> None:
        """Simulate a batch, and note how wrong the emulator was."""
        expected = self.emulator.predict(batch.z)
        missed = self._known.evaluate(batch.z) - expected
        missed = np.where(np.isfinite(missed), np.clip(missed, -_CLIPPED, _CLIPPED), _FAILED)
        sizes = np.square(missed)
        self.validation.append(math.sqrt(float(sizes[: batch.n_plain].mean())))
        warm = sizes[batch.n_plain : batch.n_plain + batch.n_warm]
        self.warm_validation.append(math.sqrt(float(warm.mean())) if len(warm) else self.validation[-1])


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
