"""What one more point says about a slope: the update (F4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats


class Updated(NamedTuple):
    """A slope after a point."""

    slope: Floats  # (m, n)
    doubt: Floats  # (n, n), K
    surprise: Floats  # (m,), what the slope did not predict
    variance: float  # v: the expected square of its length, for a curvature of one


def updated(slope: Floats, doubt: Floats, step: Floats, change: Floats, floor: float) -> Updated:
    """The slope of outputs that change so much over a step, and the doubt in it (F4); ``floor`` is the length e."""
    along = doubt @ step
    far = float(step @ step)
    variance = float(step @ along) + far * far / 4 + floor**4
    surprise = change - slope @ step
    return Updated(
        slope + np.outer(surprise, along / variance), doubt - np.outer(along, along / variance), surprise, variance
    )
