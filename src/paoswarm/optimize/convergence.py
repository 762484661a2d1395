"""When a run has converged: judged on positions, on values with rounding in mind, and on patience.

Positions alone do not do. If the minimum is not zero, values near it are equal after rounding: no particle improves any
more, the bests freeze, and the swarm keeps a spread of 1e-10 to 1e-8 box widths. Under noise, on plateaus, and in a
swarm that is split over several minima, it stays wider still. ``benchmarks/ends.py`` measures how often these rules
stop too early and how often they do not stop a run that is done.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import Swarm

# Bests that differ by less, relative to the best value, are equal but for rounding. A sum of squares over a few
# thousand data is not more accurate.
SAME = 1e-14
# Box widths. All particles of a wider swarm may have the same value because they are on one step of a rounded function.
NEAR = 1e-4
_PATIENCE = 20  # generations without a better point, for each unknown and one more


class Rule(IntEnum):
    """Which rule ended a run."""

    NONE = 0
    SPREAD = 1
    VALUES = 2
    PATIENCE = 3
    OWN = 4  # of the method
    COMPLETE = 5  # every point there is was evaluated
    NOTHING_NEW = 6  # no new points are found


def patience(n_unknowns: int) -> int:
    """Generations without a better point after which a run has converged."""
    return _PATIENCE * (1 + n_unknowns)


def judge(swarm: Swarm, spread: Floats, stale: Any, tol: float) -> NDArray[np.int64] | None:
    """The `Rule` by which each run has converged; None if no run has.

    ``spread`` is that of the particles, in widths of the bounds; ``stale`` counts generations without a better point.
    """
    is_near = spread < max(tol, NEAR)
    is_stale = np.asarray(stale >= patience(swarm.n_dimensions))
    if not is_near.any() and not is_stale.any():
        return None
    rule = np.where(is_stale, Rule.PATIENCE, Rule.NONE)
    if swarm.repeats is None:  # means of measurements agree by chance
        rule = np.where((spread < NEAR) & _agree(swarm), Rule.VALUES, rule)
    return np.where(spread < tol, Rule.SPREAD, rule)


def _agree(swarm: Swarm) -> Any:
    """Whether the best values of all particles are the same but for rounding."""
    best = swarm.global_value
    with np.errstate(invalid="ignore", over="ignore"):  # infinities
        return swarm.best_value.max(axis=-1) - best <= SAME * np.abs(best)


def sentence(rule: Rule, tol: float, n_unknowns: int, method: object) -> str:
    """The rule that ended a run as a sentence."""
    return {
        Rule.NONE: "Converged.",
        Rule.SPREAD: f"Converged: the swarm's spread is below tol={tol:g}.",
        Rule.VALUES: "Converged: the best values of all particles are equal to rounding.",
        Rule.PATIENCE: f"Converged: no better point in the last {patience(n_unknowns)} generations.",
        Rule.COMPLETE: "Converged: every point of the space was evaluated.",
        Rule.NOTHING_NEW: "Converged: the swarm finds no points that were not evaluated before.",
        Rule.OWN: f"Converged, by the rule of {type(method).__name__}.",
    }[rule]
