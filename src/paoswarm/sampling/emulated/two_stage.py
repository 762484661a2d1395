r"""Production in two stages: many draws that cost nothing, and few of them simulated.

Draws :math:`z_1 \dots z_M` from a frozen proposal :math:`q` have emulated weights
:math:`\hat w_j = p(z_j)\, \hat L(z_j) / q(z_j)`. Of them :math:`n` indices :math:`J_k` are drawn by a selection law
:math:`r_j` that follows the emulated weights, their root, the weights that they may be where the emulator is unsure,
and, as a safeguard, nothing at all. Only these are simulated:
:math:`w = p L / q`. With :math:`t_k = w_{J_k} / (M r_{J_k})` and :math:`c_k = \hat w_{J_k} / (M r_{J_k})`,

.. math:: \hat Z = \frac1n \sum_k \big[t_k - b_k (c_k - \bar w)\big], \qquad \bar w = \frac1M \sum_j \hat w_j \tag{E3}

is an unbiased estimate of the evidence for *any* positive function :math:`\hat L`: given the first stage
:math:`E\, t_k = \frac1M \sum_j w_j` and :math:`E\, c_k = \bar w`. Each :math:`b_k = \sum t / \sum c` is taken over
the other half of the picks, so it does not depend on the term that it multiplies; it takes up a wrong level of the
emulator. A good emulator leaves little to simulate:

.. math:: \operatorname{var} \ln \hat Z \approx \frac{\operatorname{var}_k (t_k - b c_k)}{n Z^2}
          + \frac{b^2 \operatorname{var}_j \hat w_j}{M Z^2}                                                 \tag{E4}

Integrals of functions :math:`g` are the same with :math:`g` inside. The draws of the result are those of the first
stage; their weights are the emulated ones times :math:`\exp(\lambda \cdot g)`, where :math:`g` are the coordinates and
their squares, and :math:`\lambda` gives them the estimated means (calibration of survey weights, Deville and Särndal
1992).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.weights import effective_size, log_sum_exp, normalise, pareto_k, systematic
from paoswarm.sampling.densities import Density

# Of the selection law: emulated weights, their root, what they may be where the emulator is unsure, all draws alike.
_SHARES = (0.5, 0.15, 0.25, 0.1)
_NEWTON_STEPS = 50
_SHORTEST = 1e-6  # share of a step that gains nothing: the minimum is reached


class Estimate(NamedTuple):
    """What the simulated picks say."""

    log_evidence: float
    error: float  # standard error of the log evidence
    simulated_error: float  # the part of it that more picks make smaller
    spread: float  # standard deviation of the terms of (E3), relative to the evidence
    effective: float  # Kish's size of the picks
    pareto_k: float
    largest: float  # the largest t, in means
    misplaced: float  # total variation between emulated and true posterior
    moments: Floats  # (2 d,) means of the calibrated functions
    moment_errors: Floats  # (2 d,)


class TwoStage:
    """Draws of the first stage, and the picks that were simulated so far."""

    def __init__(
        self, z: Floats, log_prior: Floats, log_emulated: Floats, log_proposal: Floats, log_upper: Floats | None = None
    ) -> None:
        self.z, self._log_rest = z, log_prior - log_proposal
        log_weights = self._log_rest + log_emulated
        self._shift = float(np.max(log_weights))
        with np.errstate(invalid="ignore"):
            self._emulated = np.exp(log_weights - self._shift)
        inside = np.isfinite(log_prior)
        log_upper = log_weights if log_upper is None else self._log_rest + log_upper
        upper = np.exp(log_upper - np.max(log_upper))
        parts = (self._emulated, np.sqrt(self._emulated), upper, inside.astype(float))
        self._chance: Floats = np.sum(
            [share * one / one.sum() for share, one in zip(_SHARES, parts, strict=True)], axis=0
        )
        self.log_weights: Floats = np.where(inside, log_weights, -np.inf)
        self.picks: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._log_likelihood: Floats = np.empty(0)
        centre = self._emulated @ z / self._emulated.sum()
        scale = np.sqrt(self._emulated @ (z - centre) ** 2 / self._emulated.sum()) + 1e-300
        standard = (z - centre) / scale
        self._functions = np.concatenate([standard, standard**2], axis=1)
        self._functions[~inside] = 0.0

    @classmethod
    def drawn(cls, n: int, proposal: Density, target: Any, rng: np.random.Generator) -> TwoStage:
        """The first stage: draws from a proposal, weighted by an emulated target."""
        z = rng.permutation(proposal.sample(n, rng, True))
        lower, upper = target.bounds(z)
        return cls(z, target.log_prior(z), lower, proposal.log_density(z), upper)

    def pick(self, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """The next rows to simulate; some may occur more than once."""
        return rng.permutation(systematic(self._chance, n, rng))

    def add(self, picks: NDArray[np.intp], log_likelihood: Floats) -> None:
        """Take what was simulated."""
        self.picks = np.concatenate([self.picks, picks])
        self._log_likelihood = np.concatenate([self._log_likelihood, log_likelihood])

    def estimate(self) -> Estimate:
        """Evidence (E3), its error (E4), moments, and what the true values say about the emulator."""
        n, m = len(self.picks), len(self.z)
        chance = m * self._chance[self.picks]
        true = np.exp(self._log_rest[self.picks] + self._log_likelihood - self._shift) / chance  # t
        known = self._emulated[self.picks] / chance  # c
        half = np.arange(n) % 2 == 0
        sums = np.array([[a[which].sum() for which in (half, ~half)] for a in (true, known)])
        levels = sums[0] / np.maximum(sums[1], 1e-300)
        level = np.where(half, levels[1], levels[0])  # b
        mean = float(self._emulated.mean())
        terms = true - level * (known - mean)
        evidence = float(terms.mean())
        if not evidence > 0:  # too few picks for such an emulator: without it the estimate is positive
            terms, evidence = true, float(true.mean())
            level = np.zeros(n)
        spread = float(terms.std(ddof=1)) / evidence if evidence > 0 else math.inf
        first = (
            float(level.mean()) * float(self._emulated.std()) / math.sqrt(m) / evidence if evidence > 0 else math.inf
        )
        moments, errors = self._moments(true, known, level, evidence)
        with np.errstate(divide="ignore"):
            log_true = np.log(true)
        return Estimate(
            log_evidence=math.log(evidence) + self._shift if evidence > 0 else -math.inf,
            error=math.hypot(spread / math.sqrt(n), first),
            simulated_error=spread / math.sqrt(n),
            spread=spread,
            effective=effective_size(log_true),
            pareto_k=pareto_k(log_true),
            largest=float(true.max() / max(true.mean(), 1e-300)),
            misplaced=0.5 * float(np.mean(np.abs(true / max(evidence, 1e-300) - known / mean))),
            moments=moments,
            moment_errors=errors,
        )

    def _moments(self, true: Floats, known: Floats, level: Floats, evidence: float) -> tuple[Floats, Floats]:
        """Means of the calibrated functions: with the emulator, or by the weights alone where these are steadier."""
        n, g = len(true), self._functions[self.picks]
        total = max(evidence, 1e-300)
        emulated = self._emulated @ self._functions / len(self.z)
        with_emulator = ((true - level * known)[:, None] * g + level[:, None] * emulated) / total
        alone = true[:, None] * g / max(float(true.mean()), 1e-300)
        # A ratio: the terms' deviations from its value times the denominator's terms.
        share = ((true - level * known) + level * float(self._emulated.mean())) / total
        first, second = with_emulator.mean(axis=0), alone.mean(axis=0)
        first_sd = (with_emulator - share[:, None] * first).std(axis=0, ddof=1)
        second_sd = (alone - true[:, None] / max(float(true.mean()), 1e-300) * second).std(axis=0, ddof=1)
        is_better = first_sd <= second_sd
        cheap = np.sqrt(((self._emulated[:, None] * (self._functions - first)) ** 2).mean(axis=0) / len(self.z))
        cheap = cheap * float(level.mean()) / total
        errors = np.where(is_better, np.hypot(first_sd / math.sqrt(n), cheap), second_sd / math.sqrt(n))
        return np.where(is_better, first, second), errors

    def calibrated(self, estimate: Estimate) -> Floats:
        r"""Log weights of the draws of the first stage that have the estimated means.

        :math:`\lambda` minimises the convex function :math:`\ln \sum_j w_j e^{\lambda (g_j - m)} + \tfrac12 \sum_i
        s_i^2 \lambda_i^2` with the means :math:`m` and their errors :math:`s`, which keep it finite.
        """
        used = np.flatnonzero(np.isfinite(self.log_weights))
        base, g = self.log_weights[used], self._functions[used] - estimate.moments
        ridge = np.square(estimate.moment_errors)

        def height(tilt: Floats) -> float:
            return float(log_sum_exp(base + g @ tilt)) + 0.5 * float(ridge @ tilt**2)

        tilt = np.zeros(g.shape[1])
        now = height(tilt)
        for _ in range(_NEWTON_STEPS):
            weights = normalise(base + g @ tilt)
            mean = weights @ g
            slope, away = mean + ridge * tilt, g - mean
            step = np.linalg.solve((away * weights[:, None]).T @ away + np.diag(ridge + 1e-12), slope)
            share = 1.0
            while not height(tilt - share * step) < now and share > _SHORTEST:
                share /= 2
            if share <= _SHORTEST:
                break
            tilt = tilt - share * step
            now = height(tilt)
        out = np.full(len(self.z), -np.inf)
        out[used] = base + g @ tilt
        return out
