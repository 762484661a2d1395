"""Whether a model is to be trusted: it is, as long as it puts new points into the right order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats

ENOUGH = 0.7  # Kendall's tau between predicted and measured order
MEMORY = 0.7  # weight of the past in it, per test
LONGEST_WAIT = 8  # generations between two tests of a model that failed


class Trust(NamedTuple):
    """Running comparison of predicted and measured orders."""

    agreeing: float = 0.0  # pairs in the right order minus pairs in the wrong one
    pairs: float = 0.0
    wait: int = 0  # generations until the next test
    period: int = 1

    @property
    def is_given(self) -> bool:
        """Whether the model has passed its recent tests (A6)."""
        return self.pairs > 0 and self.agreeing >= ENOUGH * self.pairs

    @property
    def is_due(self) -> bool:
        """Whether the model should be fitted in this generation."""
        return self.wait <= 1

    def waiting(self) -> Trust:
        """A generation later, without a test."""
        return self._replace(wait=max(0, self.wait - 1))


def after_test(trust: Trust, predicted: Floats, measured: Floats) -> Trust:
    """The trust after a generation: a model that fails is tested less and less often."""
    n = len(predicted)
    with np.errstate(invalid="ignore"):  # between two failed points there is no order
        agreeing = np.sign(predicted[:, None] - predicted) * np.sign(measured[:, None] - measured)
    tested = trust._replace(
        agreeing=MEMORY * trust.agreeing + float(np.nansum(agreeing)) / 2,
        pairs=MEMORY * trust.pairs + n * (n - 1) / 2,
    )
    period = 1 if tested.is_given else min(2 * trust.period, LONGEST_WAIT)
    return tested._replace(period=period, wait=period)
