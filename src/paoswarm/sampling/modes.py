"""A mode of the posterior, and which modes are the same.

The constants of this file, and those of the other files of the search, are explained in docs/sampling_constants.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.sampling.periodic_coordinates import Circle

_SAME = 2.0  # standard deviations of a mode within which a place belongs to it
_LIGHT = 3.0  # difference of log mass to the heaviest mode, from which on a mode does not matter
_NEGLIGIBLE = 20.0  # difference of log mass to the heaviest mode, from which on a mode is dropped


class Mode(NamedTuple):
    """A place where a climb ended, with the normal law that has the same curvature there."""

    z: Floats
    factor: Floats  # lower Cholesky factor of the inverse curvature
    log_mass: float  # Laplace: log height + d/2 log(2 pi) + log det factor
    is_settled: bool = False  # whether the climb arrived; False if it was given up on the way
    is_peak: bool = False  # whether it arrived at a round top, not on a ridge or a plateau
    n_climbs: int = 1  # number of climbs that ended here

    @property
    def height(self) -> float:
        """Log posterior at the top, up to a constant."""
        return self.log_mass - float(log_volume(self.factor))


def merge(modes: list[Mode], circle: Circle | None, *, keep_negligible: bool = False) -> list[Mode]:
    """Return the distinct modes, heaviest first, without the negligible ones.

    Of several modes that are the same, the first is kept, with the number of climbs of all. A climb that was given up
    has the curvature of some lower place. Its mass is therefore limited to that of the heaviest mode with an arrival.
    """
    limit = max((mode.log_mass for mode in modes if mode.is_settled), default=math.inf)
    modes = [mode._replace(log_mass=min(mode.log_mass, limit)) for mode in modes]
    heaviest = max((mode.log_mass for mode in modes), default=-math.inf)
    least = -math.inf if keep_negligible else heaviest - _NEGLIGIBLE
    kept: list[Mode] = []
    for mode in modes:
        home = next((i for i, other in enumerate(kept) if not is_new(mode, [other], circle)), None)
        if home is not None:
            kept[home] = kept[home]._replace(n_climbs=kept[home].n_climbs + mode.n_climbs)
        elif mode.log_mass > least:
            kept.append(mode)
    return sorted(kept, key=lambda mode: -mode.log_mass)


def is_new(mode: Mode, modes: list[Mode], circle: Circle | None) -> bool:
    """Whether a mode is none of the others.

    A mode with an arrival is never the same as a place where a climb was given up. Of two peaks, each must lie near the
    other: a narrow peak on the slope of a wide one is a mode of its own.
    """
    homes = [other for other in modes if other.is_settled or not mode.is_settled]
    homes = [other for other in homes if not (mode.is_peak and other.is_peak) or is_near(other.z, [mode], circle)]
    return not is_near(mode.z, homes, circle)


def is_near(z: Floats, modes: list[Mode], circle: Circle | None, reach: float | None = None) -> bool:
    """Whether a point lies within ``reach`` standard deviations (by default `_SAME`) of one of the modes."""
    reach = _SAME if reach is None else reach
    return any(distance(z[None], mode.z, mode.factor, circle)[0] <= reach for mode in modes)


def matters(mode: Mode, modes: list[Mode]) -> bool:
    """Whether a mode is not light, compared with ``modes[0]``, the heaviest."""
    return mode.log_mass > modes[0].log_mass - _LIGHT


def distance(z: Floats, centre: Floats, factor: Floats, circle: Circle | None) -> Floats:
    """Mahalanobis distance of the rows of ``z`` from a centre, the short way round a circle."""
    away = z - centre if circle is None else circle.nearest(z - centre)
    return np.linalg.norm(np.linalg.solve(factor, away.T), axis=0)


def log_volume(factor: Floats) -> Floats:
    """Log integral of a normal law whose density is one at its centre."""
    scale = np.diagonal(factor, axis1=-2, axis2=-1)
    return np.asarray(0.5 * factor.shape[-1] * math.log(2 * math.pi) + np.log(scale).sum(axis=-1))
