r"""Draws from a proposal on a device, and chains that move there, as functions of their numbers.

A proposal is a mixture of normal and Student-t components, some of them on the line instead of in the box (S13), and of
the prior, which is such a component too: a normal deviate mapped by (S13) is uniform. Draw :math:`i` comes from the
component in whose interval of the cumulated shares the number

.. math:: \big(s + i\,g\big) \bmod 1, \qquad g = \frac{\sqrt5 - 1}2 \tag{S23}

falls, for a random :math:`s`: it is uniform, and every run of draws holds every component by its share to within a few.
All other numbers are counter-based (E1): a draw depends on its number and the key alone, not on batches or devices. So
does a move of a chain on the key, the number of the chain and that of the move. The chains of a stage are divided into
batches that fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr, ndtri
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.engines import jax_noise
from paoswarm.sampling.adapt import PriorDensity
from paoswarm.sampling.densities import FARTHEST, Blend, Circle, Density, Mixture, Warped, Wrapped
from paoswarm.sampling.moves import RHO, ChainStates, Indices, Moved, correlated, move
from paoswarm.sampling.tempered import Stage

GOLDEN = 0x9E3779B9  # g of (S23) in units of 2^-32
_COMPONENTS = (4, 32)  # of a reference: components of weight zero fill it up to one of these numbers


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


class BatchSummary(NamedTuple):
    """What the likelihood was at the proposals of a batch."""

    n_inside: Any
    n_failed: Any
    highest: Any  # the largest log likelihood
    at: Any  # where it was, (d,)


class CounterRandom:
    """Random numbers of one move of many chains, with the methods of NumPy's generator that `move` calls."""

    def __init__(self, key: Any, number: Any) -> None:
        self._key, self._number, self._slot = key, number, 0

    def random(self, shape: Any) -> Any:
        """Uniform deviates."""
        return self._columns(1)[:, 0].reshape(shape)

    def standard_normal(self, shape: tuple[int, ...]) -> Any:
        """Normal deviates ``(n, d)`` or ``(2, n, d)``."""
        *several, n, d = shape
        count = int(np.prod(several))
        return jnp.moveaxis(ndtri(self._columns(count * d)).reshape(n, count, d), 1, 0).reshape(shape)

    def gamma(self, a: float, size: Any) -> Any:
        """Gamma deviates whose shape is half of a whole number."""
        found = 0.5 * chi_square(self._key, self._number, round(2 * a), self._slot)
        self._slot += round(2 * a)
        return found.reshape(size)

    def choice(self, k: int, size: int, p: Any) -> Any:
        """Whole numbers below ``k`` with these probabilities."""
        return jnp.minimum(jnp.searchsorted(jnp.cumsum(p), self.random(size), side="right"), k - 1)

    def _columns(self, count: int) -> Any:
        found = uniforms(self._key, self._number, jnp.arange(self._slot, self._slot + count, dtype=jnp.uint32))
        self._slot += count
        return found


class TracedBridge:
    """`paoswarm.sampling.target.Bridge` of a target whose prior and likelihood can be traced."""

    def __init__(
        self, proposal: Density, log_prior: Callable[[Any], Any], log_likelihood: Callable[[Any, Any], Any], zero: float
    ) -> None:
        self.log_prior = proposal.log_density
        self._log_prior, self._log_likelihood, self._zero = log_prior, log_likelihood, zero
        self.evaluated: tuple[Any, Any] = (None, None)  # where the prior is positive, and the latest log likelihoods

    def log_likelihood(self, z: Any) -> Any:
        """The logarithm of ``p L / q``; -inf where the prior is zero or the call failed."""
        log_prior = self._log_prior(z)
        inside = jnp.isfinite(log_prior)
        found = self._log_likelihood(z, log_prior)
        self.evaluated = inside, found
        known = inside & (found >= self._zero)
        return jnp.where(known, log_prior + found - self.log_prior(z), -jnp.inf)  # (S18)


class DeviceChains:
    """The chains of a stage on the device, moved in batches by the compiled `step_of_size`.

    ``note`` is called with a `BatchSummary` of every batch of proposals.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        size: int,
        state: ChainStates,
        stage: Stage,
        rng: np.random.Generator,
        note: Callable[[BatchSummary], None],
    ) -> None:
        self._step, self._size, self._note = step, size, note
        self._state = state
        self._key = rng.integers(2**32, size=2, dtype=np.uint32)
        self._reference = filled(stage.references[0])
        self._beta = np.float64(stage.beta)
        self._n_moves = 0
        with jax.enable_x64(True):
            self._batches = [
                ChainStates(*(jnp.asarray(filled_up(array[first : first + size], size)) for array in state))
                for first in range(0, len(state.z), size)
            ]

    def move(self, which: Indices, jump: Floats) -> tuple[ChainStates, Moved]:
        """Move every chain once; where they stand, and the record of the move, on the host."""
        self._n_moves += 1
        found = []
        with jax.enable_x64(True):
            for number, batch in enumerate(self._batches):
                rows = slice(number * self._size, (number + 1) * self._size)
                given = filled_up(which[rows], self._size), filled_up(jump[rows], self._size)
                at = np.array([rows.start, len(which[rows]), self._n_moves], dtype=np.uint32)
                self._batches[number], *record = self._step(batch, self._reference, self._beta, *given, self._key, at)
                found.append(record)
            records = [[np.asarray(array) for array in record[:5]] for record in found]
        for record in found:
            self._note(BatchSummary(*map(np.asarray, record[5])))
        n = len(which)
        z, log_prior, log_likelihood, probability, accepted = (
            np.concatenate(column)[:n] for column in zip(*records, strict=True)
        )
        proposal = ChainStates(z, z, log_prior, log_likelihood)  # the velocities stay on the device
        here = self._state
        self._state = ChainStates(
            np.where(accepted[:, None], z, here.z),
            here.v,
            np.where(accepted, log_prior, here.log_prior),
            np.where(accepted, log_likelihood, here.log_likelihood),
        )
        return self._state, Moved(proposal, probability, accepted)


def step_of_size(target: TracedBridge, circle: Circle | None, freedom: float, size: int) -> Callable[..., Any]:
    """The function that moves a batch of chains, to be compiled."""
    springs = correlated(RHO)
    A, noise = springs.A, springs.noise

    def step(
        state: ChainStates, reference: tuple[Any, ...], beta: Any, which: Any, jump: Any, key: Any, at: Any
    ) -> tuple[Any, ...]:
        first, count, turn = at
        source = CounterRandom(
            jnp.stack([key[0], jax_noise.hashed(key[1] + jax_noise.hashed(turn))]), numbers(first, size)
        )
        spring = springs._replace(A=jnp.asarray(A)[which], noise=jnp.asarray(noise)[which])
        weight, mean, factor = reference
        mixture = Mixture(weight, mean, factor, freedom)
        new, tried = move(state, target, beta, mixture, spring, source, jump=jump, circle=circle)
        z, _, log_prior, log_likelihood = tried.proposal
        inside, found = target.evaluated
        inside &= jnp.arange(size) < count  # the others only fill up the batch
        known = jnp.where(inside & ~jnp.isnan(found), found, -jnp.inf)
        top = jnp.argmax(known)
        seen = BatchSummary(inside.sum(), (inside & jnp.isnan(found)).sum(), known[top], z[top])
        return new, z, log_prior, log_likelihood, tried.probability, tried.accepted, seen

    return step


def filled(mixture: Mixture) -> tuple[Floats, Floats, Floats]:
    """Weights, means and factors of a mixture with more components of weight zero, so that few sizes are compiled."""
    k, d = mixture.mean.shape
    more = next((size for size in _COMPONENTS if size >= k), k) - k
    return (
        np.concatenate([mixture.weight, np.zeros(more)]),
        np.concatenate([mixture.mean, np.zeros((more, d))]),
        np.concatenate([mixture.factor, np.broadcast_to(np.eye(d), (more, d, d))]),
    )


def filled_up(array: Any, size: int) -> Any:
    """An array whose last row is repeated up to a size."""
    return np.concatenate([array, np.broadcast_to(array[-1:], (size - len(array), *array.shape[1:]))])
