"""What one more point says about a slope: the update (F4)."""

from __future__ import annotations

import numpy as np

from paoswarm.core.arrays import Floats


def updated(slope: Floats, doubt: Floats, step: Floats, change: Floats, floor: float) -> tuple[Floats, Floats]:
    """The slope ``(m, n)`` and K of outputs that change so much over a step (F4); ``floor`` is the length e."""
    along = doubt @ step
    far = float(step @ step)
    variance = float(step @ along) + far * far / 4 + floor**4
    return slope + np.outer(change - slope @ step, along / variance), doubt - np.outer(along, along / variance)
