"""The posterior of a stored `sample` as tables and histograms, ready to be drawn."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paoswarm.results import Posterior

_BINS = 40
_CELLS = 28
_MOST_SHOWN = 6  # parameters in the corner plot


def describe(posterior: Posterior, is_log: NDArray[np.bool_]) -> dict[str, Any]:
    """Return tables and histograms of a posterior, ready to be drawn; of some parameters those of the logarithm."""
    draws, weights = posterior.weighted.draws, posterior.weighted.weights
    shown = list(range(min(_MOST_SHOWN, draws.shape[1])))
    is_log = is_log & (draws > 0).all(axis=0)
    draws = np.where(is_log, np.log10(np.where(is_log, draws, 1.0)), draws)
    edges = [_edges(posterior, j, is_log[j], _BINS) for j in shown]
    coarse = [_edges(posterior, j, is_log[j], _CELLS) for j in shown]
    return {
        "names": [name[:80] for name in posterior.names],
        "is_log": is_log.tolist(),
        "mean": posterior.mean(),
        "sd": posterior.std(),
        "quantiles": np.stack([posterior.quantile(p) for p in (0.025, 0.5, 0.975)]),
        "log_evidence": posterior.log_evidence,
        "log_evidence_error": posterior.log_evidence_error,
        "effective_size": posterior.effective_size,
        "method": posterior.method,
        "message": posterior.message.split(" All ")[0],
        "marginals": [
            {
                "edges": 10**edge if is_log[j] else edge,
                "density": np.histogram(draws[:, j], edge, weights=weights, density=True)[0],
            }
            for j, edge in zip(shown, edges, strict=True)
        ],
        "pairs": [
            {
                "across": i,
                "up": j,
                "edges": [10 ** coarse[k] if is_log[k] else coarse[k] for k in (i, j)],
                "share": np.histogram2d(draws[:, j], draws[:, i], (coarse[j], coarse[i]), weights=weights)[0],
            }
            for i, j in combinations(shown, 2)
        ],
    }


def _edges(posterior: Posterior, j: int, is_log: bool, bins: int) -> NDArray[np.float64]:
    """Return the edges of a histogram, on the scale: from the 0.1 % to the 99.9 % quantile, a little wider."""
    low, high = (float(posterior.quantile(p)[j]) for p in (0.001, 0.999))
    low, high = (math.log10(low), math.log10(high)) if is_log else (low, high)
    room = 0.05 * (high - low) or 0.5
    return np.linspace(low - room, high + room, bins + 1)
