"""The target: prior and likelihood in the sampler's coordinates, with a count of every evaluation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats
from paoswarm.sampling.in_parts import map_rows
from paoswarm.sampling.mixture import Density
from paoswarm.sampling.read_prior import read_prior

ZERO = -1e100  # log likelihoods below count as likelihood zero; they would overflow when squared
_MOST = 1e100  # no log likelihood of data is above, and it would overflow too
NOISY = 0.1  # difference of two log likelihoods at one point above which the evidence has no error

MORE = "raise maxfev if it is set, else n_effective"


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

    def first(self, n: int) -> Drawn:
        """The first draws."""
        return Drawn(self.z[:n], self.log_prior[:n], self.log_likelihood[:n], self.log_proposal[:n], self.cut_short)


class Target:
    """Prior and likelihood in the sampler's coordinates ``z``, see `paoswarm.sampling.prior`.

    Parameters
    ----------
    log_likelihood : callable
        Maps parameters ``x`` to values, ``(m, d) -> (m,)``.
    prior : Prior
        Or anything that `read_prior` accepts.
    maxfev : int, optional
        Maximum number of likelihood evaluations.
    """

    against_noise = (  # what to do, in short and at length
        "use the same seed at every point",
        "Use the same seed at every point, or average until the values differ by much less than one",
    )

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
            values[done] = self._counted(x, interrupt.values)
            raise Interrupted(values[: done[-1] + 1 if len(done) else 0], interrupt.why) from None
        values[allowed] = self._counted(x, found)
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

    def _counted(self, x: Any, found: Floats) -> Floats:
        """Count the values found at the first rows of ``x``; a failed point gets likelihood zero."""
        self.n_evaluations += len(found)
        if (found > _MOST).any():
            highest = int(np.nanargmax(found))
            self.check_highest(found[highest], x, highest)
        failed = np.isnan(found)
        self.n_failed += int(failed.sum())
        return np.where(failed | (found < ZERO), -np.inf, found)

    @staticmethod
    def check_highest(value: float, x: Any, row: int) -> None:
        """Raise if the largest log likelihood, that of a row of ``x``, cannot be one."""
        if value > _MOST:
            raise ValueError(
                f"log_likelihood is {value:+g} at {x[row]}: log likelihoods must be at most {_MOST:g}. Is its sign "
                "right, and its scale?"
            )

    def _again(self, z: Floats) -> Floats:
        """The log likelihood at points that were evaluated before."""
        return self.log_likelihood(z)

    def measure_again(self, z: Floats, before: Floats) -> None:
        """Evaluate points a second time, and warn if the likelihood is noisy."""
        again = self._again(z)
        both = np.isfinite(before) & np.isfinite(again)
        difference = np.where(both, np.abs(np.where(both, again, 0.0) - np.where(both, before, 0.0)), 0.0)
        self.noise = max(self.noise, float(difference.max(initial=0.0)))
        if self.noise > NOISY:
            i = int(np.argmax(difference))
            warn_user(
                f"log_likelihood is noisy: at x = {self.parameters(z[i : i + 1])[0]} it was {before[i]:.6g} and then "
                f"{again[i]:.6g}, but sample treats every value as exact. {self.against_noise[1]}"
            )
