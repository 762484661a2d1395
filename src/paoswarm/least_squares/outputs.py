"""What a model returns, as one vector; and data of the same form.

The vector also holds what the model returns where there is no datum: predictions there cost nothing, and data that were
left out can come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import unmasked
from paoswarm.core.arrays import Floats

_ONE = "the model"


class Output(NamedTuple):
    """One array of the model: where its numbers are in the vector."""

    name: str  # its key; empty for a model that returns one array
    shape: tuple[int, ...]
    rows: slice

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"output {self.name!r}" if self.name else _ONE

    @property
    def columns(self) -> list[NDArray[np.intp]]:
        """Rows of the vector, column by column, in the order of the first axis: each is a series in time, say."""
        n_columns = int(np.prod(self.shape[1:], dtype=int))
        return list(np.arange(self.rows.start, self.rows.stop).reshape(-1, n_columns).T)

    def spread(self, name: str, given: Any) -> Floats:
        """A number, or an array like the data, as a vector with a number for each of the output's."""
        array = _numbers(f"{name} of {self.label}", given)
        if array.shape not in ((), (1,), self.shape):
            raise ValueError(
                f"{name} of {self.label} has shape {array.shape}; give one number, or as many as the data, {self.shape}"
            )
        return np.broadcast_to(array, self.shape).ravel()


@dataclass(frozen=True)
class Outputs:
    """All arrays of a model, and their data as one vector."""

    parts: tuple[Output, ...]
    data: Floats  # (m,), NaN where there is no datum
    is_dict: bool  # whether the model returns a dict

    @classmethod
    def of(cls, data: Any) -> Outputs:
        """Read data: an array, or a dict of arrays. NaN is a missing datum."""
        given = data if isinstance(data, Mapping) else {"": data}
        if not given:
            raise ValueError("data is an empty dict: give an array for each output of the model")
        parts: list[Output] = []
        vectors: list[Floats] = []
        first = 0
        for name, values in given.items():
            if not isinstance(name, str):
                raise TypeError(f"names of outputs must be text, got {name!r}")
            label = "data" if name == "" and not isinstance(data, Mapping) else f"data[{name!r}]"
            array = _numbers(label, values)
            if np.isinf(array).any():
                raise ValueError(f"{label} holds an infinite number; write NaN for a missing datum")
            if np.isnan(array).all():
                raise ValueError(f"{label} holds no datum that is not NaN")
            parts.append(Output(name, array.shape, slice(first, first + array.size)))
            vectors.append(array.ravel())
            first += array.size
        return cls(tuple(parts), np.concatenate(vectors), isinstance(data, Mapping))

    def vector(self, answer: Any) -> Floats:
        """What the model has returned as a vector ``(m,)``; a TypeError says what is wrong with it."""
        if self.is_dict:
            if not isinstance(answer, Mapping):
                names = ", ".join(part.name for part in self.parts)
                raise TypeError(
                    f"the model must return a dict with {names}, as data is one, but returned {_form(answer)}"
                )
            missing = [part.name for part in self.parts if part.name not in answer]
            if missing:
                raise TypeError(
                    f"the model returned no {missing[0]!r}, for which there are data; it returned {list(answer)}"
                )
        elif isinstance(answer, Mapping):
            raise TypeError(f"the model returned a dict with {list(answer)}; give data as a dict with these keys")
        return np.concatenate([self._part(part, answer[part.name] if self.is_dict else answer) for part in self.parts])

    def rows_in(self, other: Outputs) -> NDArray[np.intp]:
        """Where these outputs are in vectors of other outputs; raise if they are not all there."""
        known = {part.name: part for part in other.parts}
        rows = []
        for part in self.parts:
            if (there := known.get(part.name)) is None or there.shape != part.shape:
                had = "not there" if there is None else f"of shape {there.shape}"
                raise ValueError(f"the data of {part.label} have shape {part.shape}, but in the fit they were {had}")
            rows.append(np.arange(there.rows.start, there.rows.stop))
        return np.concatenate(rows)

    def split(self, vector: Floats) -> Any:
        """A vector ``(..., m)`` in the form of the data: an array, or a dict of arrays."""
        arrays = {part.name: vector[..., part.rows].reshape((*vector.shape[:-1], *part.shape)) for part in self.parts}
        return arrays if self.is_dict else arrays[""]

    @staticmethod
    def _part(part: Output, answer: Any) -> Floats:
        array = _numbers(part.label, answer)
        if array.shape != part.shape:
            if array.size == np.prod(part.shape) and array.squeeze().shape == tuple(n for n in part.shape if n != 1):
                array = array.reshape(part.shape)  # axes of length one
            else:
                raise TypeError(f"{part.label} has shape {array.shape}, but its data have shape {part.shape}")
        return array.ravel()


def as_residuals(answer: Any) -> Floats:
    """What a function of residuals has returned, as a vector; of complex numbers both parts."""
    if isinstance(answer, Mapping):
        return np.concatenate([as_residuals(one) for one in answer.values()])
    array = np.asarray(unmasked(answer))
    if array.dtype.kind not in "fiuc" or array.size == 0:
        raise TypeError(f"residuals must be real numbers, an array (m,) for one point, but are {_form(answer)}")
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag])
    return array.ravel().astype(float)


def _numbers(label: str, values: Any) -> Floats:
    try:
        array = np.asarray(unmasked(values))
        if array.dtype.kind not in "fiubO" or values is None:
            raise TypeError
        return array.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{label} must be real numbers, got {_form(values)}") from None


def _form(answer: Any) -> str:
    if isinstance(answer, Mapping):
        return f"a dict with {list(answer)}"
    if isinstance(answer, np.ndarray):
        return f"an array of shape {answer.shape} and type {answer.dtype}"
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        return f"a {type(answer).__name__} of {len(answer)} entries"
    return repr(answer)
