"""A log likelihood that JAX traces: checked, with names, and evaluated in batches of few sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paoswarm.compiled.jax_constants import with_own_constants
from paoswarm.core.arrays import Floats
from paoswarm.spaces.named_array import ByName, Named, WithFixed

# Points in a call. Each size is compiled once, which takes a GPU longer than points that only fill up a batch.
_SIZES = {"cpu": (64, 512, 4096, 32768)}
_DEVICE_SIZES = (1024, 16384)


class JaxLikelihood:
    """The log likelihood of one point as a function that JAX compiles for many.

    Parameters
    ----------
    fun : callable
        As `paoswarm.sampling.read_prior.as_given` returns it: of parameters ``(d,)``, perhaps with names.
    dim : int
        Number of parameters.
    precision : {"double", "single"}
        In which the function is evaluated. Values are returned in double precision.
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


_BINARY = ("add", "sub", "mul", "truediv", "pow", "matmul")
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
