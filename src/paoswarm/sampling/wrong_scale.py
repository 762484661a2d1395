"""Recognise a likelihood, or a negative log likelihood, where a log likelihood is expected.

Both run without an error and give a wrong posterior. The values at the first draws from the prior show most such
mistakes. The tests are strict: a log likelihood that is one should never be doubted.
"""

from __future__ import annotations

import numpy as np

from paoswarm._text import warn_user
from paoswarm.core.arrays import Floats

_FEWEST = 50  # values needed for a judgement
_RATIO = 1e4  # of two positive values: a likelihood varies by powers of ten, a log likelihood does not
_TINY = 1e-3  # a tenth of the likelihoods is smaller; negative log likelihoods that vary so much are larger
_POSITIVE = 0.75  # share of positive values of a negative log likelihood; those near the best fit may be negative
_RISE = 10.0  # log units by which a negative log likelihood must grow above its median
_EXPLAINED = 0.6  # share of the variance that a sum of parabolas must explain


def warn_of_wrong_scale(z: Floats, values: Floats) -> None:
    """Warn if the values at draws ``z`` from the prior look like likelihoods, or like negative log likelihoods."""
    is_known = np.isfinite(values)
    z, values = z[is_known], values[is_known]
    if len(values) < max(_FEWEST, 4 * z.shape[1]):
        return
    if looks_like_likelihood(values):
        positive = values[values > 0]
        text = (
            f"log_likelihood looks like a likelihood: none of {len(values)} values is negative, and they vary from "
            f"{positive.min():.2g} to {positive.max():.2g}. Return its natural logarithm: logpdf, not pdf"
        )
    elif looks_like_negative_log_likelihood(z, values):
        text = (
            "log_likelihood may have the wrong sign: its lowest value lies inside the prior, and it grows in every "
            f"direction, from {values.min():.4g} to {values.max():.4g}. Return the log likelihood, which is highest at "
            "the best fit"
        )
    else:
        return
    warn_user(text)


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
