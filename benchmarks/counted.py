"""An objective that counts its evaluations and notes when it has come close to the minimum."""

from __future__ import annotations

import numpy as np
from searchers import Done

LARGEST = 1e30  # larger values, and those that are no numbers, count as this: not every search can do with them


class Counted:
    """An objective ``(m, d) -> (m,)`` that notes when each target, a distance from the minimum, is reached first."""

    def __init__(self, problem, budget, targets):
        self.problem, self.bounds, self.budget = problem, np.asarray(problem.bounds), budget
        self.targets, self.minimum = targets, problem.minimum
        self.evaluations, self.excess = 0, np.inf
        self.hits: list[int] = []

    @property
    def left(self):
        """Evaluations that are left."""
        return self.budget - self.evaluations

    @property
    def is_done(self):
        """Whether nothing is left to do."""
        return self.left <= 0 or len(self.hits) == len(self.targets)

    def __call__(self, x):
        """The values at points ``(m, d)``."""
        if self.is_done:
            raise Done
        rows = x[: self.left]
        values = np.nan_to_num(self.problem(rows), nan=LARGEST, posinf=LARGEST).clip(max=LARGEST)
        best = np.minimum.accumulate(values) - self.minimum
        while not self.is_done and best[-1] <= self.targets[len(self.hits)]:
            self.hits.append(self.evaluations + 1 + int(np.argmax(best <= self.targets[len(self.hits)])))
        self.evaluations += len(rows)
        self.excess = min(self.excess, float(best[-1]))
        if self.is_done:
            raise Done
        return values
