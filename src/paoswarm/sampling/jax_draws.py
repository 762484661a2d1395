r"""Draws from a proposal on a device, as a function of their numbers.

A proposal is a mixture of normal and Student-t components, some of them on the line instead of in the box (S13), and of
the prior, which is such a component too: a normal deviate mapped by (S13) is uniform. Draw :math:`i` comes from the
component in whose interval of the cumulated shares the number

.. math:: \big(s + i\,g\big) \bmod 1, \qquad g = \frac{\sqrt5 - 1}2 \tag{S23}

falls, for a random :math:`s`: it is uniform, and every run of draws holds every component by its share to within a few.
All other numbers are counter-based (E1): a draw depends on its number and the key alone, not on batches or devices.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr, ndtri
from numpy.typing import NDArray

from paoswarm.compiled import jax_noise
from paoswarm.core.arrays import Floats
from paoswarm.sampling.adapt import PriorDensity
from paoswarm.sampling.mixture import Blend, Density, Mixture
from paoswarm.sampling.periodic_coordinates import Circle, Wrapped
from paoswarm.sampling.unbounded_coordinates import FARTHEST, Warped

GOLDEN = 0x9E3779B9  # g of (S23) in units of 2^-32


class Components(NamedTuple):
    """A proposal as one flat mixture of k components."""

    cumulative: Floats  # (k,) shares up to and including each component
    mean: Floats  # (k, d)
    factor: Floats  # (k, d, d)
    freedom: Floats  # (k,) degrees of freedom, infinite for normal components
    warped: NDArray[np.bool_]  # (k, d) coordinates in which it lives on the line


def components(proposal: Density, dim: int) -> Components:
    """The components of a proposal made by `paoswarm.sampling.proposals`."""
    leaves = [leaf[:5] for leaf in _parts(proposal, dim)]
    share, mean, factor, freedom, warped = (np.concatenate(column) for column in zip(*leaves, strict=True))
    return Components(np.cumsum(share) / share.sum(), mean, factor, freedom, warped)


def merged(proposal: Density, dim: int, circle: Circle | None) -> Density:
    """The same density with one part for all components of a kind: compiled faster, and fewer, larger products."""
    kinds: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for leaf in _parts(proposal, dim):
        kinds.setdefault((leaf[3][0], *leaf[4][0].tolist(), leaf[5]), []).append(leaf)
    shares, parts = [], []
    for (freedom, *_), leaves in kinds.items():
        weight, mean, factor = (np.concatenate([leaf[i] for leaf in leaves]) for i in range(3))
        warped, prior = leaves[0][4][0], leaves[0][5]
        part: Density = Mixture(weight / weight.sum(), mean, factor, freedom)
        if prior is None:
            part = Warped(part, warped) if warped.any() else part
            part = part if circle is None else Wrapped(part, circle)
        shares.append(weight.sum())
        parts.append(part if prior is None else prior)
    return Blend(np.array(shares) / sum(shares), tuple(parts))


def _parts(density: Density, dim: int) -> list[tuple[Any, ...]]:
    """The leaves of a proposal: the fields of `Components`, with shares, and the prior if it is the prior."""
    if isinstance(density, Blend):
        each = zip(density.share.tolist(), density.parts, strict=True)
        return [(share * part[0], *part[1:]) for share, inner in each for part in _parts(inner, dim)]
    if isinstance(density, Wrapped):  # all draws are wrapped in the end
        return _parts(density.density, dim)
    if isinstance(density, Warped):
        return [(*part[:4], part[4] | density.which, part[5]) for part in _parts(density.density, dim)]
    if isinstance(density, PriorDensity):
        normal = (np.ones(1), np.zeros((1, dim)), np.eye(dim)[None], np.full(1, math.inf))
        return [(*normal, density.bounded[None], density)]
    if isinstance(density, Mixture):
        k = len(density.weight)
        flat = np.zeros((k, dim), dtype=bool)
        share = density.weight / density.weight.sum()
        return [(share, density.mean, density.factor, np.full(k, density.freedom), flat, None)]
    raise TypeError(f"draws from {type(density).__name__} need engine='numpy'")


def draw(
    parts: Components, circle: Circle | None, freedoms: tuple[float, ...], start: Any, number: Any, key: Any
) -> Any:
    """The draws ``(m, d)`` with these numbers ``(m,)``, in the sampler's coordinates; to be traced.

    ``freedoms`` are the finite degrees of freedom that occur, ``start`` is that of (S23) in units of 2^-32, and ``key``
    has two words.
    """
    d = parts.mean.shape[1]
    tick = (number * jnp.uint32(GOLDEN) + start).astype(np.float64) * 2.0**-32  # (S23)
    which = jnp.minimum(jnp.searchsorted(parts.cumulative, tick, side="right"), len(parts.cumulative) - 1)
    noise = ndtri(uniforms(key, number, jnp.arange(d, dtype=jnp.uint32)))
    freedom = parts.freedom[which]
    for nu in freedoms:
        scale = jnp.sqrt(chi_square(key, number, nu, d) / nu)
        noise = jnp.where((freedom == nu)[:, None], noise / scale[:, None], noise)
    y = parts.mean[which] + jnp.einsum("nij,nj->ni", parts.factor[which], noise)
    z = jnp.where(parts.warped[which] & (abs(y) < FARTHEST), ndtr(y) - ndtr(-y), y)
    return z if circle is None else jnp.where(circle.has_image(z)[:, None], circle.nearest(z), z)


def uniforms(key: Any, number: Any, slots: Any) -> Any:
    """Uniform deviates ``(m, s)`` with 52 bits for each number and slot, neither 0 nor 1."""
    mixed = jax_noise.hashed(key[1] + jax_noise.hashed(slots))
    first, second = jax_noise.philox(number[:, None], key[0], mixed[None, :])
    high, low = (first >> 6).astype(np.float64), (second >> 6).astype(np.float64)
    return (high * 2.0**26 + low + 0.5) * 2.0**-52


def chi_square(key: Any, number: Any, freedom: float, slot: int) -> Any:
    """Chi-square deviates ``(m,)`` of whole degrees of freedom: exponential ones, and a squared normal one if odd.

    They take the slots from ``slot`` on.
    """
    pairs, odd = divmod(int(freedom), 2)
    if freedom != 2 * pairs + odd:
        raise ValueError(f"degrees of freedom must be whole, got {freedom}")
    u = uniforms(key, number, jnp.arange(slot, slot + pairs + odd, dtype=jnp.uint32))
    return -2 * jnp.log(u[:, :pairs]).sum(axis=1) + (ndtri(u[:, pairs]) ** 2 if odd else 0.0)


def numbers(first: Any, count: int) -> Any:
    """The numbers of ``count`` draws from ``first`` on."""
    return lax.iota(jnp.uint32, count) + jnp.asarray(first, dtype=jnp.uint32)
