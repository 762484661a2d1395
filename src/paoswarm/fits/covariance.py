"""From the quadratic model at a minimum to the covariance of the unknowns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.fits.settle import Settled

_WEAK, _FLAT = 4e-4, 1e-10  # curvatures: worth a doubt; cannot be told from zero
_AFFECTED = 0.1  # standard errors


class Covariance(NamedTuple):
    """The covariance, and directions in which there is none."""

    matrix: Floats  # (d, d)
    root: Floats  # (d, k): the covariance is this times its transpose
    standard_errors: Floats  # (d,)
    hessian: Floats  # (d, d)
    flat: Floats  # (d, j): directions in which the function does not change
    downhill: Floats  # (d, j): directions in which it falls


def covariance_of(settled: Settled, unit: float) -> Covariance:
    """The covariance ``B inv(M) B'``, scaled to a function that rises by ``unit`` one standard error away.

    Directions that are flat, or lead downhill, are left out. The unknowns that they move have infinite errors, or none.
    """
    basis, model, apart = settled.basis, settled.found.model, settled.found.disagreement
    d = len(basis)
    curvatures, axes = np.linalg.eigh(model.m)
    doubt = np.einsum("ji,jk,ki->i", np.abs(axes), apart, np.abs(axes))
    is_flat = (np.abs(curvatures) < _WEAK) & (np.abs(curvatures) <= 3 * doubt + _FLAT)
    is_good = ~is_flat & (curvatures > 0)
    unscaled = basis @ axes
    directions = unscaled / np.sqrt(np.maximum(np.abs(curvatures), _FLAT))
    root = directions[:, is_good] * np.sqrt(unit / settled.rise)
    matrix = root @ root.T
    errors = np.sqrt(np.diag(matrix))
    free = np.abs(basis).max(axis=1) > 0
    hessian = np.full((d, d), np.nan)
    inverse = np.linalg.inv(basis[free])
    hessian[np.ix_(free, free)] = 2 * settled.rise * inverse.T @ model.m @ inverse
    is_downhill = ~is_flat & ~is_good
    for is_left_out, instead in ((is_downhill, np.nan), (is_flat, np.inf)):
        if is_left_out.any():
            affected = (np.abs(directions[:, is_left_out]) > _AFFECTED * errors[:, None]).any(axis=1) & free
            errors = np.where(affected, instead, errors)
    errors = np.where(free, errors, np.nan)
    known = np.isfinite(errors)
    matrix = np.where(known[:, None] & known, matrix, np.nan)
    np.fill_diagonal(matrix, errors**2)
    return Covariance(matrix, root, errors, (hessian + hessian.T) / 2, unscaled[:, is_flat], unscaled[:, is_downhill])
