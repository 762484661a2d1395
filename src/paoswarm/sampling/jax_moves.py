"""Chains that move on a device: `paoswarm.sampling.kernels.move`, traced, with counter-based random numbers.

A move of a chain depends on the key, the number of the chain and that of the move alone. All chains of a stage are
divided into batches that fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from paoswarm.compiled import jax_noise
from paoswarm.core.arrays import Floats
from paoswarm.sampling.jax_draws import chi_square, numbers, uniforms
from paoswarm.sampling.kernels import RHO, Indices, Moved, State, correlated, move
from paoswarm.sampling.mixture import Density, Mixture
from paoswarm.sampling.periodic_coordinates import Circle
from paoswarm.sampling.tempering_stages import Stage

_COMPONENTS = (4, 32)  # of a reference: components of weight zero fill it up to one of these numbers


class Seen(NamedTuple):
    """What the likelihood was at the proposals of a batch."""

    n_inside: Any
    n_failed: Any
    highest: Any  # the largest log likelihood
    at: Any  # where it was, (d,)


class Evaluated(NamedTuple):
    """Where the prior is positive, and the log likelihoods, as they were returned; both ``(m,)``."""

    inside: Any
    found: Any


class Source:
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
    """`paoswarm.sampling.proposal_path.Bridge` of a target whose prior and likelihood can be traced."""

    def __init__(
        self, proposal: Density, log_prior: Callable[[Any], Any], log_likelihood: Callable[[Any, Any], Any], zero: float
    ) -> None:
        self.log_prior = proposal.log_density
        self._log_prior, self._log_likelihood, self._zero = log_prior, log_likelihood, zero
        self.evaluated = Evaluated(None, None)  # the latest

    def log_likelihood(self, z: Any) -> Any:
        """The logarithm of ``p L / q``; -inf where the prior is zero or the call failed."""
        log_prior = self._log_prior(z)
        inside = jnp.isfinite(log_prior)
        found = self._log_likelihood(z, log_prior)
        self.evaluated = Evaluated(inside, found)
        known = inside & (found >= self._zero)
        return jnp.where(known, log_prior + found - self.log_prior(z), -jnp.inf)  # (S18)


class DeviceChains:
    """The chains of a stage on the device.

    Parameters
    ----------
    step : callable
        What `step_of_size` returns, compiled.
    size : int
        Chains in a batch.
    note : callable
        Called with what was `Seen` at every batch of proposals.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        size: int,
        state: State,
        stage: Stage,
        rng: np.random.Generator,
        note: Callable[[Seen], None],
    ) -> None:
        self._step, self._size, self._note = step, size, note
        self._state = state
        self._key = rng.integers(2**32, size=2, dtype=np.uint32)
        self._reference = filled(stage.references[0])
        self._beta = np.float64(stage.beta)
        self._n_moves = 0
        with jax.enable_x64(True):
            self._batches = [
                State(*(jnp.asarray(filled_up(array[first : first + size], size)) for array in state))
                for first in range(0, len(state.z), size)
            ]

    def move(self, which: Indices, jump: Floats) -> tuple[State, Moved]:
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
            self._note(Seen(*map(np.asarray, record[5])))
        n = len(which)
        z, log_prior, log_likelihood, probability, accepted = (
            np.concatenate(column)[:n] for column in zip(*records, strict=True)
        )
        proposal = State(z, z, log_prior, log_likelihood)  # the velocities stay on the device
        here = self._state
        self._state = State(
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
        state: State, reference: tuple[Any, ...], beta: Any, which: Any, jump: Any, key: Any, at: Any
    ) -> tuple[Any, ...]:
        first, count, turn = at
        source = Source(jnp.stack([key[0], jax_noise.hashed(key[1] + jax_noise.hashed(turn))]), numbers(first, size))
        spring = springs._replace(A=jnp.asarray(A)[which], noise=jnp.asarray(noise)[which])
        weight, mean, factor = reference
        mixture = Mixture(weight, mean, factor, freedom)
        new, tried = move(state, target, beta, mixture, spring, source, jump=jump, circle=circle)
        z, _, log_prior, log_likelihood = tried.proposal
        inside, found = target.evaluated
        inside &= jnp.arange(size) < count  # the others only fill up the batch
        known = jnp.where(inside & ~jnp.isnan(found), found, -jnp.inf)
        top = jnp.argmax(known)
        seen = Seen(inside.sum(), (inside & jnp.isnan(found)).sum(), known[top], z[top])
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
