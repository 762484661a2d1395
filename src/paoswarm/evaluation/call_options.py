"""How the user's function is called: the arguments that `minimize`, `minimize_many` and `sample` share."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paoswarm._checks import flag, real_number, whole_number
from paoswarm.evaluation.worker import RetryPolicy


class CallOptions(NamedTuple):
    """How the function is called; see the arguments of the same names of `minimize`."""

    vectorized: bool = False
    workers: Any = 1
    timeout: float | None = None
    retries: int = 1

    def checked(self) -> CallOptions:
        """The same options; raise if one of them makes no sense."""
        flag("vectorized", self.vectorized)
        if isinstance(self.workers, int | np.integer) and self.workers != -1:
            whole_number("workers", self.workers, 1)
        _ = self.retry_policy
        return self

    @property
    def described(self) -> dict[str, Any]:
        """These options as JSON, without an executor or a map-like: a resumed run must be given that again."""
        counted = isinstance(self.workers, int | np.integer)
        limit, retries = self.retry_policy
        workers = int(self.workers) if counted else None
        return {"vectorized": bool(self.vectorized), "workers": workers, "timeout": limit, "retries": retries}

    @property
    def retry_policy(self) -> RetryPolicy:
        """The time limit and the retries of a point, checked."""
        limit = None if self.timeout is None else real_number("timeout", self.timeout, 0.0, may_equal=False)
        limit = None if limit == math.inf else limit
        return RetryPolicy(limit, whole_number("retries", self.retries, 0))
