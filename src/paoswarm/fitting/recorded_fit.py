"""The data of a stored fit, and how outputs are compared with them: for those who look at a store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from paoswarm.core.arrays import Floats
from paoswarm.fitting.beliefs import Beliefs
from paoswarm.fitting.comparison import Comparison
from paoswarm.store.encoding import decode


def recorded_comparison(problem: dict[str, Any], outputs: Floats) -> Comparison:
    """How a simulation ``(m,)`` of a stored fit is compared with its data; residuals of beliefs come last."""
    given = {name: decode(problem.get(name)) for name in ("data", "sigma", "likelihood")}
    comparison = Comparison.read(**given, beliefs=Beliefs())
    n_beliefs = 0 if comparison.outputs is None else len(outputs) - len(comparison.outputs.data)
    return replace(comparison, beliefs=Beliefs(count=n_beliefs))
