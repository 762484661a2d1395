r"""Noise scales: :math:`\nu` in the noise variance :math:`\sigma^2 = q\,\nu`.

A noise scale is a function of the swarm. It returns variances that broadcast to ``(*batch, n, d)``, or `Dense` for
noise that is correlated between elements. It may depend on anything in the swarm, but not on the random draw it scales.

>>> import paoswarm as ps
>>> def tenth_of_the_box(swarm):
...     return (0.1 * (swarm.upper - swarm.lower)) ** 2
>>> method = ps.PAO(noise_scale=tenth_of_the_box)
"""

from __future__ import annotations

from typing import NamedTuple

from paoswarm.core.arrays import Array, namespace
from paoswarm.core.blas import on_one_thread
from paoswarm.core.swarm import Swarm


class Dense(NamedTuple):
    """Noise that is correlated between the elements of a particle.

    Attributes
    ----------
    covariance : array (..., d, d) or (..., n, d, d)
        Covariance between the elements of a particle; may be singular.
    strength : array (..., n) or None
        Factor on the covariance of each particle.
    """

    covariance: Array
    strength: Array | None = None


def spread(swarm: Swarm) -> Array:
    r"""Element-wise squared distance from local to global best, :math:`\nu_{ij} = (l_{ij} - g_j)^2`; the default."""
    apart = swarm.best_position - swarm.global_best
    return apart * apart


def mean_to_best(swarm: Swarm) -> Array:
    r"""Squared distance between the average particle and the global best, one number per swarm (the paper's text)."""
    xp = namespace(swarm.position)
    apart = xp.mean(swarm.position, axis=-2, keepdims=True) - swarm.global_best[..., :1, :]
    return xp.sum(apart * apart, axis=-1, keepdims=True)


def covariance(swarm: Swarm) -> Dense:
    r"""Dense noise shaped like the cloud of bests, for valleys that are not parallel to the axes.

    With :math:`e_i = l_i - g` and :math:`C = \frac1n \sum_i e_i e_i^T`, the noise of particle i has the covariance
    :math:`(1.2 + 2.5\,d/n)\; \frac{e_i^T C^{-1} e_i}{d}\; C`. Like `spread`, it is zero for the best particle and grows
    with the distance between a particle's best and the global best. But distances are measured relative to the shape of
    the cloud, so the swarm behaves the same on a problem and on its rotated or stretched version.

    The factor was fitted to a few swarms; it keeps the estimated shape from collapsing. Use more than six particles per
    unknown. On separable problems with many local minima, `spread` is better.
    """
    xp = namespace(swarm.position)
    n, d = swarm.n_particles, swarm.n_dimensions
    apart = swarm.best_position - swarm.global_best
    shape = apart.mT @ apart / n
    size, vectors, values = _principal(shape)
    standard = (apart / xp.where(size > 0, size, 1.0)[..., None, :]) @ vectors
    floor = 1e-13  # smaller eigenvalues of a correlation matrix are rounding errors
    distance = xp.sum(standard * standard / xp.where(values > floor, values, xp.inf)[..., None, :], axis=-1) / d
    return Dense(shape, (1.2 + 2.5 * d / n) * distance)


def square_root(matrix: Array) -> Array:
    """Return a factor ``B`` with ``B B^T = matrix``, for a covariance that may be singular.

    It does not depend on the signs of the eigenvectors, which depend on rounding.
    """
    xp = namespace(matrix)
    size, vectors, values = _principal(matrix)
    root = (vectors * xp.sqrt(values)[..., None, :]) @ xp.matrix_transpose(vectors)
    return size[..., None] * root


@on_one_thread
def _principal(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the standard deviations of a covariance, and eigenvectors and eigenvalues of its correlation matrix.

    The correlation matrix keeps full precision even if the covariance is badly scaled.
    """
    xp = namespace(matrix)
    size = xp.sqrt(xp.linalg.diagonal(matrix))
    safe = xp.where(size > 0, size, 1.0)
    values, vectors = xp.linalg.eigh(matrix / safe[..., None, :] / safe[..., None])
    return size, vectors, xp.clip(values, 0.0, xp.inf)


def correlate(factor: Array, normal: Array) -> Array:
    """Give independent deviates ``(..., d)`` the covariance of a factor ``(..., d, d)``."""
    return (factor @ normal[..., None])[..., 0]
