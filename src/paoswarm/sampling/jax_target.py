"""A target whose likelihood JAX traces: draws, prior, likelihood and proposal density in one compiled function.

Draws come in large batches, because a device needs many of them at once. What is known of each draw is copied to the
host, where weights are summed in double precision. The search for modes and the fits stay on the host, and so do small
productions. They evaluate few points, in batches of the likelihood alone, of few sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from paoswarm.core.arrays import Floats
from paoswarm.engines.jax_constants import with_own_constants
from paoswarm.evaluate.interrupts import interruptible
from paoswarm.sampling.densities import Density
from paoswarm.sampling.jax_draws import (
    BatchSummary,
    Components,
    DeviceChains,
    TracedBridge,
    components,
    draw,
    filled,
    filled_up,
    merged,
    numbers,
    step_of_size,
)
from paoswarm.sampling.moves import ChainStates
from paoswarm.sampling.prior import Prior
from paoswarm.sampling.target import ZERO, Drawn, Interrupted, Target
from paoswarm.sampling.tempered import Stage
from paoswarm.space.names import ByName, Named, WithFixed

# Points in a call. Each size is compiled once, which takes a GPU longer than points that only fill up a batch.
_SIZES = {"cpu": (64, 512, 4096, 32768)}
_DEVICE_SIZES = (1024, 16384)
_BINARY = ("add", "sub", "mul", "truediv", "pow", "matmul")
_LARGEST = 2**17  # draws in a batch
_SMALLEST = 2**10
_MEMORY = {"cpu": 2**27}  # bytes for what a batch computes on the way: on a processor, about what caches hold
_DEVICE_MEMORY = 2**32  # the same on other devices, at most
_TOO_COARSE = (
    "Single precision is too coarse for it: use engine='jax', which has double precision, or leave out what is constant"
)
_DRAWS = 30_000  # from which on the device makes them: before, compiling takes longer than the host does
_CHAINS = 10_000  # from which on a device moves them, likewise
_AHEAD = 6  # batches that are made and copied while another is checked
_COPIES = 4  # batches that are copied at the same time


class JaxLikelihood:
    """The log likelihood of one point as a function that JAX compiles for many.

    ``fun`` is what `as_given` returns: a function of parameters ``(d,)``, perhaps with names. It is evaluated in double
    or single precision, and values are returned in double precision.
    """

    def __init__(self, fun: Callable[..., Any], dim: int, precision: str) -> None:
        self.name = getattr(getattr(fun, "fun", fun), "__name__", "log_likelihood")
        self._fun = _traceable(fun, dim)
        self.is_single = precision == "single"
        self.dtype = np.dtype(np.float32 if self.is_single else np.float64)
        self.compiled = jax.jit(self.values)
        try:
            self._check(dim)
        except TypeError:
            if not isinstance(fun, ByName) or fun.fixed:
                raise
            # Functions of jax.numpy refuse a point with names. The function may do without names.
            named, self._fun = self._fun, _traceable(fun.fun, dim)
            try:
                self._check(dim)
            except TypeError:
                self._fun = named
                self._check(dim)

    def values(self, x: Any) -> Any:
        """The function at points ``(m, d)`` of its precision, to be traced `within` that precision."""
        return jax.vmap(self._fun)(x)

    def within(self) -> ExitStack:
        """A context with the precision of the function; products of matrices are not rounded further."""
        stack = ExitStack()
        stack.enter_context(jax.enable_x64(not self.is_single))
        stack.enter_context(jax.default_matmul_precision("highest"))
        return stack

    def __call__(self, x: Floats) -> Floats:
        """The function at points ``(m, d)`` of NumPy, in batches that are filled up to one of few sizes."""
        with self.within():
            return self._in_batches(self.compiled, x.astype(self.dtype, copy=False))

    def exact(self, x: Floats) -> Floats:
        """The same in double precision, whatever the precision of the function."""
        with jax.enable_x64(True):
            return self._in_batches(jax.jit(jax.vmap(self._fun)), x)

    @staticmethod
    def _in_batches(compiled: Callable[[Any], Any], x: Any) -> Floats:
        sizes = _SIZES.get(jax.default_backend(), _DEVICE_SIZES)
        values = np.empty(len(x))
        first = 0
        while first < len(x):
            part = x[first : first + sizes[-1]]
            size = next(size for size in sizes if size >= len(part))
            filled = np.concatenate([part, np.broadcast_to(part[-1:], (size - len(part), x.shape[1]))])
            values[first : first + len(part)] = np.asarray(compiled(jnp.asarray(filled)))[: len(part)]
            first += len(part)
        return values

    def _check(self, dim: int) -> None:
        """Raise if JAX cannot trace the function, or if it does not return one real number."""
        try:
            with self.within():
                found = jax.eval_shape(self._fun, jax.ShapeDtypeStruct((dim,), self.dtype))
                shape, dtype = found.shape, found.dtype
        except Exception as error:
            reason = (str(error).strip().splitlines() or [""])[0].rstrip(".")
            raise TypeError(
                f"JAX cannot trace {self.name}, which must take one point x ({dim},) and use jax.numpy: {reason}. "
                "Write it with jax.numpy and without branches on values, or use engine='numpy'"
            ) from error
        if shape != ():
            raise TypeError(
                f"with engine='jax' {self.name} must take one point x ({dim},) and return one number, but it returns "
                f"an array of shape {shape}; JAX itself makes the batches"
            )
        if not jnp.issubdtype(dtype, jnp.floating) and not jnp.issubdtype(dtype, jnp.integer):
            raise TypeError(f"{self.name} must return a real number, but it returns {dtype}")


class NamedPoint(Named):
    """One point that JAX traces, with names: what `NamedArray` is for NumPy.

    It has names, numbers and operators, but functions of `jax.numpy` take ``jnp.asarray(x)`` only.
    """

    def __init__(self, x: Any, columns: Mapping[str, int], fixed: Mapping[str, Any]) -> None:
        self._x, self._columns, self._fixed = x, columns, fixed

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._x[key]
        return self._fixed[key] if key in self._fixed else self._x[self._columns[key]]

    def __contains__(self, key: str) -> bool:
        return key in self._columns or key in self._fixed

    def __iter__(self) -> Iterator[Any]:
        return iter(self._x)

    def __len__(self) -> int:
        return len(self._x)

    def __jax_array__(self) -> Any:
        return self._x

    def __getattr__(self, name: str) -> Any:
        return getattr(self._x, name)


def _forwarded(name: str) -> Callable[..., Any]:
    def operator(self: NamedPoint, *others: Any) -> Any:
        plain = [other._x if isinstance(other, NamedPoint) else other for other in others]
        return getattr(self._x, name)(*plain)

    return operator


for _name in (*_BINARY, *(f"r{name}" for name in _BINARY), "neg", "abs", "lt", "le", "gt", "ge"):
    setattr(NamedPoint, f"__{_name}__", _forwarded(f"__{_name}__"))


def _traceable(fun: Callable[..., Any], dim: int) -> Callable[[Any], Any]:
    """The function of a plain array, with arrays of NumPy that JAX has not met in another precision."""
    with jax.default_matmul_precision("highest"):
        return with_own_constants(_of_plain_array(fun), dim)


def _of_plain_array(fun: Callable[..., Any]) -> Callable[[Any], Any]:
    if isinstance(fun, ByName):
        return lambda x: jnp.asarray(fun.fun(NamedPoint(x, fun.columns, fun.fixed)))
    if isinstance(fun, WithFixed):
        free = [i for i, number in enumerate(fun.numbers) if math.isnan(number)]
        return lambda x: jnp.asarray(fun.fun(jnp.asarray(fun.numbers, dtype=x.dtype).at[np.array(free)].set(x)))
    return lambda x: jnp.asarray(fun(x))


class JaxTarget(Target):
    """A `Target` with draws from a proposal made on the device that JAX uses.

    ``traced`` is the same log likelihood as ``log_likelihood``. ``count`` is called with the number of draws that were
    evaluated since the last call.
    """

    can_bend = False

    def __init__(
        self,
        log_likelihood: Callable[[Floats], ArrayLike],
        prior: Prior,
        maxfev: int | None,
        traced: JaxLikelihood,
        count: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__(log_likelihood, prior, maxfev)
        self.parameters = self._exact_parameters
        self._traced = traced
        self._count = count
        self._steps: dict[tuple[Any, ...], tuple[Any, ...]] = {}  # compiled moves
        self._prior_is_traced = self._can_trace_prior()
        if traced.is_single:
            self.against_noise = ("use engine='jax', which has double precision", _TOO_COARSE)
        self._is_fused = self._prior_is_traced and not traced.is_single  # one function cannot have two precisions

    def draw(self, proposal: Density, n: int, rng: np.random.Generator) -> Drawn:
        """Draw ``n`` points from a proposal and evaluate them on the device; fewer if there is an interrupt."""
        if n < _DRAWS:
            return super().draw(proposal, n, rng)
        parts = components(proposal, self.dim)
        key, start = rng.integers(2**32, size=2, dtype=np.uint32), rng.integers(2**32, dtype=np.uint32)
        made = Drawn(np.empty((n, self.dim)), *np.empty((3, n)))
        batch, size = self._compiled(proposal, parts, n)
        done, cut_short = 0, None
        waiting: list[Future[tuple[int, int]]] = []
        with ThreadPoolExecutor(_COPIES) as pool:
            try:
                for first in range(0, n, size):
                    found = self._launch(batch, parts, np.uint32(first), start, key)
                    waiting.append(pool.submit(self._copy, made, first, found))
                    if len(waiting) > _AHEAD:
                        done = self._checked(made, *self._next(waiting))
                while waiting:
                    done = self._checked(made, *self._next(waiting))
            except KeyboardInterrupt:
                cut_short = Interrupted(made.log_likelihood[:done])
        return Drawn._make([*(array[:done] for array in made[:4]), cut_short])

    @staticmethod
    def _next(waiting: list[Future[tuple[int, int]]]) -> tuple[int, int]:
        with interruptible():
            return waiting.pop(0).result()

    def _launch(self, batch: Callable[..., Any], *which: Any) -> Any:
        """Begin a batch: its draws, log priors, log densities of the proposal and log likelihoods, on the device."""
        with jax.enable_x64(True):
            *found, last = batch(*which)
        if self._is_fused or not self._prior_is_traced:
            return *found, last
        with self._traced.within():
            return *found, self._traced.compiled(last)

    @staticmethod
    def _copy(made: Drawn, first: int, found: Any) -> tuple[int, int]:
        """Copy a batch to the host, as soon as it is done; return the numbers of its first draw and of the next one."""
        last = min(first + len(found[0]), len(made.z))
        for array, part in zip((made.z, made.log_prior, made.log_proposal, made.log_likelihood), found, strict=True):
            array[first:last] = np.asarray(part)[: last - first]
        return first, last

    def _checked(self, made: Drawn, first: int, last: int) -> int:
        """Check and count the values of a batch; return the number of draws so far."""
        rows = slice(first, last)
        inside = np.isfinite(made.log_prior[rows])
        z = made.z[rows][inside]
        values = made.log_likelihood[rows][inside] if self._prior_is_traced else self._traced(self.parameters(z))
        made.log_likelihood[rows] = -np.inf
        made.log_likelihood[rows][inside] = self._counted(values, lambda row: self.parameters(z[row : row + 1])[0])
        if self._count is not None:
            self._count(len(values))
        return last

    def _compiled(self, proposal: Density, parts: Components, n: int) -> tuple[Callable[..., Any], int]:
        """The function that makes a batch of draws, and the size of its batches: as large as memory allows."""
        density = merged(proposal, self.dim, self.circle)
        freedoms = tuple(sorted({float(nu) for nu in parts.freedom if math.isfinite(nu)}))

        key = np.zeros(2, dtype=np.uint32)

        def of_size(size: int) -> Callable[..., Any]:
            def batch(parts: Components, first: Any, start: Any, key: Any) -> Any:
                z = draw(parts, self.circle, freedoms, start, numbers(first, size), key)
                log_prior = self.prior.log_density(z)
                return z, log_prior, density.log_density(z), self._likelihood(z, log_prior)

            return batch

        return fitting(of_size, lambda size: (parts, key[0], key[0], key), n, self._memory_of_likelihood)

    def bridged_chains(self, proposal: Density, state: ChainStates, stage: Stage, rng: np.random.Generator) -> Any:
        """Chains that move on the device, if they are many, and prior and likelihood are traced together."""
        if not self._is_fused or len(stage.references) > 1 or len(state.z) < _CHAINS:
            return None
        reference = stage.references[0]
        arrays = filled(reference)
        kind = (id(proposal), len(arrays[0]), reference.freedom, len(state.z))
        if kind not in self._steps:
            bridge = TracedBridge(
                merged(proposal, self.dim, self.circle), self.prior.log_density, self._likelihood, ZERO
            )

            def shapes(size: int) -> tuple[Any, ...]:
                vector, matrix = (jax.ShapeDtypeStruct(s, np.float64) for s in ((size,), (size, self.dim)))
                which = jax.ShapeDtypeStruct((size,), np.intp)
                words = np.zeros(3, dtype=np.uint32)
                return (
                    ChainStates(matrix, matrix, vector, vector),
                    arrays,
                    np.float64(1),
                    which,
                    vector,
                    words[:2],
                    words,
                )

            def of_size(size: int) -> Callable[..., Any]:
                return step_of_size(bridge, self.circle, reference.freedom, size)

            self._steps[kind] = (proposal, *fitting(of_size, shapes, len(state.z)))
        _, step, size = self._steps[kind]
        return DeviceChains(step, size, state, stage, rng, self._note)

    def log_proposal(self, proposal: Density, z: Floats) -> Floats:
        """Log density of a proposal, of many points on the device."""
        if len(z) < _LARGEST:
            return super().log_proposal(proposal, z)
        density = merged(proposal, self.dim, self.circle)
        found = np.empty(len(z))
        compiled, size = fitting(
            lambda size: density.log_density, lambda size: (jax.ShapeDtypeStruct((size, self.dim), np.float64),), len(z)
        )
        with jax.enable_x64(True):
            for first in range(0, len(z), size):
                part = z[first : first + size]
                found[first : first + size] = np.asarray(compiled(jnp.asarray(filled_up(part, size))))[: len(part)]
        return found

    def _note(self, seen: BatchSummary) -> None:
        """Count the evaluations of a batch of moves; raise if a value is too large."""
        self.n_evaluations += int(seen.n_inside)
        self.n_failed += int(seen.n_failed)
        self.check_highest(float(seen.highest), lambda: self.parameters(np.asarray(seen.at)[None])[0])
        if self._count is not None:
            self._count(int(seen.n_inside))
        interruptible().check()

    def _likelihood(self, z: Any, log_prior: Any) -> Any:
        """The log likelihood at the rows of ``z``, or what it is evaluated from later; outside the prior no value."""
        if not self._prior_is_traced:
            return log_prior  # the host maps draws to parameters
        x = self.prior.parameters(jnp.where(jnp.isfinite(log_prior)[:, None], z, 0.0))
        return self._traced.values(x) if self._is_fused else x.astype(self._traced.dtype)

    def _memory_of_likelihood(self, size: int) -> int:
        """Bytes that the likelihood needs on the way, if it is compiled by itself on the device's draws."""
        if self._is_fused or not self._prior_is_traced:
            return 0
        with self._traced.within():
            x = jax.ShapeDtypeStruct((size, self.dim), self._traced.dtype)
            return _memory(self._traced.compiled.lower(x).compile())

    def _exact_parameters(self, z: Floats) -> Floats:
        """The parameters at points of the host, in double precision even if the prior's transform uses JAX."""
        with jax.enable_x64(True):
            return np.asarray(self.prior.parameters(z))

    def _again(self, z: Floats) -> Floats:
        """The log likelihood at points that were evaluated before: what is in single precision, in double precision."""
        if not self._traced.is_single or len(z) == 0:
            return super()._again(z)
        x = self.parameters(z)
        return self._counted(self._traced.exact(x), x.__getitem__)

    def _can_trace_prior(self) -> bool:
        try:
            with jax.enable_x64(True):
                jax.eval_shape(self.prior.parameters, jax.ShapeDtypeStruct((2, self.dim), np.float64))
        except Exception:  # whatever stops JAX: a function of NumPy, or a distribution without a formula
            return False
        return True


def fitting(
    of_size: Callable[[int], Callable[..., Any]],
    arguments: Callable[[int], tuple[Any, ...]],
    n: int,
    other: Callable[[int], int] = lambda size: 0,
) -> tuple[Callable[..., Any], int]:
    """Compile a function of batches for ``n`` rows, and the size of its batches: as large as memory allows.

    ``other`` is the memory that something else needs for a batch.
    """
    size = _SMALLEST
    while size < min(n, _LARGEST):
        size *= 2
    room = _room()
    while True:
        with jax.enable_x64(True):
            compiled = jax.jit(of_size(size)).lower(*arguments(size)).compile()
        used: float = max(_memory(compiled), other(size))
        if used <= room or size == _SMALLEST:
            return compiled, size
        while used > room and size > _SMALLEST:
            size, used = size // 2, used / 2


def _room() -> int:
    """Bytes that a batch may need on the way: on a device no more than a quarter of its memory."""
    if (known := _MEMORY.get(jax.default_backend())) is not None:
        return known
    stats = jax.devices()[0].memory_stats() or {}
    return min(_DEVICE_MEMORY, int(stats.get("bytes_limit", _DEVICE_MEMORY)) // 4)


def _memory(compiled: Any) -> int:
    """Bytes that a compiled function needs on the way from arguments to results; zero if not known."""
    return int(getattr(compiled.memory_analysis(), "temp_size_in_bytes", 0))
