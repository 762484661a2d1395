r"""The target: prior and likelihood in the sampler's coordinates, with a count of every evaluation.

A `Bridge` is the same target for a path that starts at any normalised density :math:`q` instead of the prior:

.. math:: \pi_\beta \propto q \, \Big(\frac{p\,L}{q}\Big)^\beta, \qquad \beta \text{ from 0 to 1.} \tag{S18}

If :math:`q` is the proposal of the adaptation, tempering starts in the modes that were found, however narrow.
Importance sampling is the special case of a single step.

`warn_of_wrong_scale` recognises a likelihood, or a negative log likelihood, where a log likelihood is expected. Both
run without an error and give a wrong posterior. The values at the first draws from the prior show most such mistakes.
The tests are strict: a log likelihood that is one should never be doubted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.sampling.densities import Density
from paoswarm.sampling.read_prior import read_prior

_PART = 2**15  # rows
_MANY = 2**20  # rows from which on threads pay
_THREADS = 8  # at most
ZERO = -1e100  # log likelihoods below count as likelihood zero; they would overflow when squared
_MOST = 1e100  # no log likelihood of data is above, and it would overflow too
NOISY = 0.1  # difference of two log likelihoods at one point above which the evidence has no error
MORE = "raise maxfev if it is set, else n_effective"
_FEWEST = 50  # values needed for a judgement
_RATIO = 1e4  # of two positive values: a likelihood varies by powers of ten, a log likelihood does not
_TINY = 1e-3  # a tenth of the likelihoods is smaller; negative log likelihoods that vary so much are larger
_POSITIVE = 0.75  # share of positive values of a negative log likelihood; those near the best fit may be negative
_RISE = 10.0  # log units by which a negative log likelihood must grow above its median
_EXPLAINED = 0.6  # share of the variance that a sum of parabolas must explain


def map_rows(function: Callable[[Floats], Floats], z: Floats, kept: NDArray[np.bool_]) -> Floats:
    """Apply a function that maps rows one by one, ``(m, d) -> (m, d)``, to those that are kept.

    The parts stay in the cache, and several threads work on them: NumPy lets others run. So the function must be safe
    to call in several threads.
    """
    edges = [*range(0, len(z), _PART), len(z)]
    parts = [slice(*pair) for pair in pairwise(edges)]
    places = np.concatenate([[0], np.cumsum([np.count_nonzero(kept[part]) for part in parts])]).astype(int).tolist()
    x = np.empty((places[-1], z.shape[1]))

    def work(number: int) -> None:
        rows, chosen = z[parts[number]], kept[parts[number]]
        x[places[number] : places[number + 1]] = function(rows if chosen.all() else rows[chosen])

    threads = min(_THREADS, os.cpu_count() or 1) if len(z) >= _MANY else 1
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(len(parts))))
    return x


class BudgetSpent(RuntimeError):
    """More likelihood evaluations are needed than ``maxfev`` leaves."""


class Interrupted(KeyboardInterrupt):
    """The run was interrupted, or the workers failed (``why``), when ``values`` of the first points were known."""

    def __init__(self, values: Floats, why: str = "") -> None:
        super().__init__()
        self.values, self.why = values, why


class Drawn(NamedTuple):
    """Draws ``(n, d)`` from a proposal, with all that their weights are made of, ``(n,)`` each."""

    z: Floats
    log_prior: Floats
    log_likelihood: Floats
    log_proposal: Floats
    cut_short: Interrupted | None = None  # the interrupt that came before the last draw


class Target:
    """Prior and likelihood in the sampler's coordinates ``z``, see `paoswarm.sampling.prior`.

    ``log_likelihood`` maps parameters ``x`` to values, ``(m, d) -> (m,)``; it is called for ``maxfev`` points at most.
    """

    against_noise = (  # what to do, in short and at length
        "use the same seed at every point",
        "Use the same seed at every point, or average until the values differ by much less than one; if they are "
        "logarithms of unbiased estimates of the likelihood, say unbiased=True",
    )

    is_random = False  # whether values are logarithms of unbiased estimates, which differ from call to call

    def __init__(self, log_likelihood: Callable[[Floats], ArrayLike], prior: Any, maxfev: int | None = None) -> None:
        self.prior = read_prior(prior)
        self.dim = self.prior.dim
        self.is_box = self.prior.is_box
        self.walled = self.prior.walled
        self.circle = self.prior.circle
        self.maxfev = maxfev
        self.n_evaluations = 0
        self.n_failed = 0
        self.noise = 0.0  # largest difference of two log likelihoods at one point
        self._log_likelihood = log_likelihood
        self.parameters = self.prior.parameters
        self.log_prior = self.prior.log_density
        self.draw_prior = self.prior.draw
        self.inside = self.prior.inside

    def kept_parameters(self, z: Floats, kept: NDArray[np.bool_]) -> Floats:
        """The parameters at some of the rows of ``z``, of which there may be millions."""
        if self.prior.is_ours:
            return map_rows(self.prior.parameters, z, kept)
        return self.parameters(z[kept])

    @property
    def n_left(self) -> int:
        """Likelihood evaluations that ``maxfev`` still allows."""
        return sys.maxsize if self.maxfev is None else self.maxfev - self.n_evaluations

    def coordinates(self, x: ArrayLike) -> Floats:
        """Map parameters ``x`` to the sampler's coordinates; raise if any lies outside the prior."""
        points = np.atleast_2d(np.asarray(x, dtype=float))
        if points.shape[1] != self.dim:
            raise ValueError(f"start has points of {points.shape[1]} parameters, the prior has {self.dim}")
        if not np.isfinite(points).all():
            raise ValueError("start must be finite, got NaN or infinite values")
        z, outside = self._placed(points)
        if outside.any():
            raise ValueError(
                f"start: the point {points[np.argmax(outside)]} lies outside the prior, or too far in its tail"
            )
        return z

    def within(self, x: Floats) -> Floats:
        """Select the rows of ``x`` at which the prior is positive."""
        return x[~self._placed(x)[1]]

    def _placed(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Coordinates of the parameters ``x``, and which of them lie outside the prior."""
        z = self.prior.coordinates(x)
        return z, np.asarray(~(np.abs(self.inside(z) - z).max(axis=1) <= 1e-9))

    def log_likelihood(self, z: Floats) -> Floats:
        """Log likelihood of the rows of ``z``; -inf where the prior is zero (not evaluated) or the call failed."""
        allowed = np.isfinite(self.log_prior(z))
        m = int(allowed.sum())
        if m > self.n_left:
            raise BudgetSpent(f"{m} likelihood evaluations are needed, but maxfev={self.maxfev} leaves {self.n_left}")
        values = np.full(len(z), -np.inf)
        if m == 0:
            return values
        x = self.parameters(z[allowed])
        try:
            found = np.asarray(self._log_likelihood(x.copy()), dtype=float)
            if found.shape != (m,):
                raise ValueError(f"log_likelihood returned shape {found.shape} for {m} points; it must be ({m},)")
        except Interrupted as interrupt:
            done = np.flatnonzero(allowed)[: len(interrupt.values)]
            values[done] = self._counted(interrupt.values, x.__getitem__)
            raise Interrupted(values[: done[-1] + 1 if len(done) else 0], interrupt.why) from None
        values[allowed] = self._counted(found, x.__getitem__)
        return values

    def draw(self, proposal: Density, n: int, rng: np.random.Generator) -> Drawn:
        """Draw ``n`` points from a proposal and evaluate them; fewer if there is an interrupt."""
        z = proposal.sample(n, rng)
        cut_short = None
        try:
            log_likelihood = self.log_likelihood(z)
        except Interrupted as interrupt:
            log_likelihood, cut_short = interrupt.values, interrupt
            z = z[: len(log_likelihood)]
        return Drawn(z, self.log_prior(z), log_likelihood, proposal.log_density(z), cut_short)

    def draw_evaluated(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """``n`` draws from the prior, and their log likelihoods."""
        z = self.draw_prior(n, rng)
        return z, self.log_likelihood(z)

    def log_proposal(self, proposal: Density, z: Floats) -> Floats:
        """Log density of a proposal."""
        density: Floats = proposal.log_density(z)
        return density

    def chains(self, state: Any, stage: Any, rng: np.random.Generator) -> Any:
        """Chains of `tempered` that move on a device: none, they move here."""
        return None

    def bridged_chains(self, proposal: Density, state: Any, stage: Any, rng: np.random.Generator) -> Any:
        """The same with ``p L / q`` as the likelihood, see `Bridge`."""
        return None

    def height(self, z: Floats) -> Floats:
        """Log posterior up to a constant, at the nearest points where the prior is positive."""
        z = self.inside(z)
        return self.log_prior(z) + self.log_likelihood(z)

    def _counted(self, found: Floats, point: Callable[[int], Floats]) -> Floats:
        """Count the values found; a failed point gets likelihood zero. ``point`` gives the parameters of a row."""
        self.n_evaluations += len(found)
        if (found > _MOST).any():
            highest = int(np.nanargmax(found))
            self.check_highest(found[highest], lambda: point(highest))
        failed = np.isnan(found)
        self.n_failed += int(failed.sum())
        return np.where(failed | (found < ZERO), -np.inf, found)

    @staticmethod
    def check_highest(value: float, point: Callable[[], Floats]) -> None:
        """Raise if the largest log likelihood cannot be one; ``point`` gives its parameters."""
        if value > _MOST:
            raise ValueError(
                f"log_likelihood is {value:+g} at {point()}: log likelihoods must be at most {_MOST:g}. Is its sign "
                "right, and its scale?"
            )

    def _again(self, z: Floats) -> Floats:
        """The log likelihood at points that were evaluated before."""
        return self.log_likelihood(z)

    def measure_again(self, z: Floats, before: Floats) -> None:
        """Evaluate points a second time, and warn if the likelihood is noisy; not if it may be."""
        if self.is_random:
            return
        again = self._again(z)
        both = np.isfinite(before) & np.isfinite(again)
        difference = np.abs(np.where(both, again, 0.0) - np.where(both, before, 0.0))
        self.noise = max(self.noise, float(difference.max(initial=0.0)))
        if self.noise > NOISY:
            i = int(np.argmax(difference))
            warn_user(
                f"log_likelihood is noisy: at x = {self.parameters(z[i : i + 1])[0]} it was {before[i]:.6g} and then "
                f"{again[i]:.6g}, but sample treats every value as exact. {self.against_noise[1]}"
            )


def warn_of_wrong_scale(z: Floats, values: Floats) -> None:
    """Warn if the values at draws ``z`` from the prior look like likelihoods, or like negative log likelihoods."""
    is_known = np.isfinite(values)
    z, values = z[is_known], values[is_known]
    if len(values) < max(_FEWEST, 4 * z.shape[1]):
        return
    if looks_like_likelihood(values):
        positive = values[values > 0]
        warn_user(
            f"log_likelihood looks like a likelihood: none of {len(values)} values is negative, and they vary from "
            f"{positive.min():.2g} to {positive.max():.2g}. Return its natural logarithm: logpdf, not pdf"
        )
    elif looks_like_negative_log_likelihood(z, values):
        warn_user(
            "log_likelihood may have the wrong sign: its lowest value lies inside the prior, and it grows in every "
            f"direction, from {values.min():.4g} to {values.max():.4g}. Return the log likelihood, which is highest at "
            "the best fit"
        )


def looks_like_likelihood(values: Floats) -> bool:
    """Whether no value is negative, many are tiny, and the positive ones differ by powers of ten."""
    positive = values[values > 0]
    if (values < 0).any() or len(positive) < _FEWEST:
        return False
    low, high = np.quantile(positive, [0.1, 0.9])
    return bool(low < _TINY and low * _RATIO < high)


def looks_like_negative_log_likelihood(z: Floats, values: Floats) -> bool:
    """Whether the values are positive and grow in every direction from a point inside the prior."""
    middle = np.median(values)
    if np.mean(values > 0) < _POSITIVE or values.max() - middle < max(_RISE, middle - values.min()):
        return False
    return _is_bowl(z, values) or (values.min() > 0 and _is_bowl(z, np.log(values)))


def _is_bowl(z: Floats, values: Floats) -> bool:
    """Whether a sum of parabolas explains the values, all open upwards, with their lowest point inside the draws."""
    columns = np.concatenate([np.ones((len(z), 1)), z, z**2], axis=1)
    fitted, *_ = np.linalg.lstsq(columns, values, rcond=None)
    slope, curvature = np.split(fitted[1:], 2)
    if not (curvature > 0).all() or np.var(values - columns @ fitted) > (1 - _EXPLAINED) * np.var(values):
        return False
    lowest = -slope / (2 * curvature)
    return bool((np.abs(lowest) < np.quantile(np.abs(z), 0.9, axis=0)).all())


class Bridge:
    """A target with the proposal as its prior and ``p L / q`` as its likelihood, (S18).

    Their product is ``p L``, so the evidence does not change.
    """

    def __init__(self, target: Target, proposal: Density) -> None:
        self._target, self._proposal = target, proposal
        self.circle = target.circle

    @property
    def n_left(self) -> int:
        """Likelihood evaluations that ``maxfev`` still allows."""
        return self._target.n_left

    def draw_evaluated(self, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draws from the proposal, and the logarithm of ``p L / q``; it is zero outside the prior's support."""
        made = self._target.draw(self._proposal, n, rng)
        if made.cut_short is not None:
            raise made.cut_short
        return made.z, made.log_prior + made.log_likelihood - made.log_proposal  # (S18)

    def log_prior(self, z: Floats) -> Floats:
        """Log density of the proposal."""
        return self._target.log_proposal(self._proposal, z)

    def log_likelihood(self, z: Floats) -> Floats:
        """The logarithm of ``p L / q``; each row costs one likelihood evaluation."""
        log_prior = self._target.log_prior(z)
        inside = np.isfinite(log_prior)
        ratio = np.full(len(z), -np.inf)
        if inside.any():
            z = z[inside]
            ratio[inside] = log_prior[inside] + self._target.log_likelihood(z) - self._proposal.log_density(z)  # (S18)
        return ratio

    def chains(self, state: Any, stage: Any, rng: np.random.Generator) -> Any:
        """Chains of `tempered` that move on a device; None if they move here."""
        return self._target.bridged_chains(self._proposal, state, stage, rng)

    def true_log_likelihood(self, z: Floats, log_ratio: Floats) -> Floats:
        """The target's log likelihood, recovered from the log ratio without an evaluation."""
        return log_ratio + self.log_prior(z) - self._target.log_prior(z)
