r"""How hard a particle is shaken: the noise scale :math:`\nu` in :math:`\sigma^2 = q\,\nu`.

A noise scale is a function of the swarm. It returns variances that broadcast to ``(*batch, n, d)``, or `Dense`
for noise that is correlated between elements. It may depend on anything in the swarm, but not on the draw it scales.

>>> import paoswarm as ps
>>> def tenth_of_the_box(swarm):
...     return (0.1 * (swarm.upper - swarm.lower)) ** 2
>>> method = ps.PAO(noise_scale=tenth_of_the_box)
"""

from __future__ import annotations

from typing import NamedTuple

from paoswarm.core.arrays import Array, namespace
from paoswarm.core.swarm import Swarm


class Dense(NamedTuple):
    """Correlated noise.

    Attributes
    ----------
    covariance : array (..., d, d) or (..., n, d, d)
        Between the elements of a particle; may be singular.
    strength : array (..., n) or None
        Factor on the covariance of each particle.
    """

    covariance: Array
    strength: Array | None = None


def spread(swarm: Swarm) -> Array:
    r"""Element-wise squared distance of local and global best, :math:`\nu_{ij} = (l_{ij} - g_j)^2`. The default."""
    apart = swarm.best_position - swarm.global_best
    return apart * apart


def mean_to_best(swarm: Swarm) -> Array:
    r"""Squared distance of the average particle and the global best, one number per swarm (the paper's text)."""
    xp = namespace(swarm.position)
    apart = xp.mean(swarm.position, axis=-2, keepdims=True) - swarm.global_best[..., :1, :]
    return xp.sum(apart * apart, axis=-1, keepdims=True)


def covariance(swarm: Swarm) -> Dense:
    r"""Dense noise shaped like the cloud of bests, for valleys that are not parallel to the axes.

    With :math:`e_i = l_i - g` and :math:`C = \frac1n \sum_i e_i e_i^T`, particle i is shaken with the covariance
    :math:`(1.2 + 2.5\,d/n)\; \frac{e_i^T C^{-1} e_i}{d}\; C`: as `spread`, it is zero for the best particle and grows
    with the distance of a particle's best, but distances are measured in the cloud's own shape, so that the
    swarm behaves alike on a problem and on its rotated or stretched version. The factor, fitted to a few swarms,
    keeps the estimated shape from collapsing; more than six particles per unknown are advisable. On separable
    many-peaked problems `spread` is better.
    """
    xp = namespace(swarm.position)
    n, d = swarm.n_particles, swarm.n_dimensions
    apart = swarm.best_position - swarm.global_best
    shape = apart.mT @ apart / n
    size, vectors, values = _principal(shape)
    standard = (apart / xp.where(size > 0, size, 1.0)[..., None, :]) @ vectors
    floor = 1e-13  # of a correlation matrix: directions below it are rounding errors
    distance = xp.sum(standard * standard / xp.where(values > floor, values, xp.inf)[..., None, :], axis=-1) / d
    return Dense(shape, (1.2 + 2.5 * d / n) * distance)


def square_root(matrix: Array) -> Array:
    """A factor ``B`` with ``B B^T = matrix`` for a covariance that may be singular.

    It does not depend on the signs of the eigenvectors, which rounding decides.
    """
    xp = namespace(matrix)
    size, vectors, values = _principal(matrix)
    root = (vectors * xp.sqrt(values)[..., None, :]) @ xp.matrix_transpose(vectors)
    return size[..., None] * root


def _principal(matrix: Array) -> tuple[Array, Array, Array]:
    """Scales, eigenvectors and eigenvalues of the correlation matrix: a badly scaled covariance loses no digits."""
    xp = namespace(matrix)
    size = xp.sqrt(xp.linalg.diagonal(matrix))
    safe = xp.where(size > 0, size, 1.0)
    values, vectors = xp.linalg.eigh(matrix / safe[..., None, :] / safe[..., None])
    return size, vectors, xp.clip(values, 0.0, xp.inf)


def correlate(factor: Array, normal: Array) -> Array:
    """Give independent deviates ``(..., d)`` the covariance of a factor ``(..., d, d)``."""
    return (factor @ normal[..., None])[..., 0]
