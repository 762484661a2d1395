"""Names of unknowns, and functions that get their parameters by name."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paoswarm.core.arrays import Floats


def check_name(name: Any) -> None:
    """Raise if an unknown cannot have this name."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a variable must be a string, got {name!r}; without names, give a list")
    if keyword.iskeyword(name):
        raise ValueError(f"the name {name!r} is a keyword of Python; write {name + '_'!r}")
    if not name.isidentifier():
        raise ValueError(f"the name {name!r} is not an identifier: use letters, digits and underscores, as in Python")


def text_by_name(values: Mapping[str, Any]) -> str:
    """A point in messages.

    Examples
    --------
    >>> text_by_name({"rate": 0.5, "kernel": "rbf"})
    "rate = 0.5, kernel = 'rbf'"
    """
    return ", ".join(f"{name} = {value!r}" for name, value in values.items())


def numbered(d: int) -> list[str]:
    """What ``d`` unknowns without names are called: in results, tables, commands and on plots.

    Examples
    --------
    >>> numbered(3)
    ['x0', 'x1', 'x2']
    """
    return [f"x{i}" for i in range(d)]


class Named:
    """What is asked by name: parameters with a place in an array, and fixed values without one."""

    _columns: Mapping[str, int]
    _fixed: Mapping[str, Any]

    def __getitem__(self, key: Any) -> Any:
        """A parameter by name."""
        raise NotImplementedError

    def keys(self) -> list[str]:
        """The names, fixed values last."""
        return [*self._columns, *self._fixed]

    def values(self) -> list[Any]:
        """The parameters in the order of their names."""
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        """Names and parameters."""
        return [(name, self[name]) for name in self.keys()]

    def get(self, key: str, default: Any = None) -> Any:
        """A parameter by name."""
        return self[key] if key in self.keys() else default


class NamedArray(Named, np.ndarray):
    """Parameters ``(d,)`` or ``(m, d)``: an array, and by name also a mapping.

    ``x[0]`` and ``x["rate"]`` are the same, and ``model(**x)`` works. Fixed values have names only. What is computed
    from it is a plain array.

    Examples
    --------
    >>> x = NamedArray.of(np.array([1.0, 2.0]), {"rate": 0, "level": 1}, {"gain": 3.0})
    >>> float(x["level"]), x["gain"], float(x.sum()), list(x.keys())
    (2.0, 3.0, 3.0, ['rate', 'level', 'gain'])
    """

    @classmethod
    def of(cls, x: Floats, columns: Mapping[str, int], fixed: Mapping[str, Any]) -> NamedArray:
        """The array with names of its last axis, and values that have no place in it."""
        named: NamedArray = x.view(cls)
        named._columns, named._fixed = columns, fixed
        return named

    def __getitem__(self, key: Any) -> Any:
        """An element by number, as of any array, or a parameter by name."""
        if not isinstance(key, str):
            return self.view(np.ndarray)[key]
        if key in self._fixed:
            return self._fixed[key]
        if key not in self._columns:
            raise KeyError(key)
        return self.view(np.ndarray)[..., self._columns[key]]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Results are plain."""
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    def __contains__(self, key: Any) -> bool:
        return key in self.keys() if isinstance(key, str) else key in self.view(np.ndarray)


@dataclass(frozen=True)
class ByName:
    """A likelihood that gets its parameters as a `NamedArray`. It can be sent between processes."""

    fun: Callable[..., Any]
    columns: Mapping[str, int]
    fixed: Mapping[str, Any]

    def __call__(self, x: Floats) -> Any:
        """Return the value at a point, or the values at several."""
        return self.fun(NamedArray.of(x, self.columns, self.fixed))


@dataclass(frozen=True)
class ByDict:
    """A function that gets a point as a dict, with fixed values. It can be sent between processes."""

    fun: Callable[..., Any]
    names: Sequence[str]  # in the order of the dict
    columns: Mapping[str, int]
    fixed: Mapping[str, Any]

    def __call__(self, x: Floats) -> Any:
        """Return the value at a point ``(d,)``, or the values at several, then with arrays in the dict."""
        numbers = x.tolist() if x.ndim == 1 else x.T
        return self.fun(
            {one: self.fixed[one] if one in self.fixed else numbers[self.columns[one]] for one in self.names}
        )


@dataclass(frozen=True)
class WithFixed:
    """A likelihood that gets fixed numbers at their places in the array. It can be sent between processes."""

    fun: Callable[..., Any]
    numbers: tuple[float, ...]  # all of them; NaN where a parameter is free

    def __call__(self, x: Floats) -> Any:
        """Return the value at a point, or the values at several."""
        whole = np.array(np.broadcast_to(self.numbers, (*x.shape[:-1], len(self.numbers))))
        whole[..., np.isnan(self.numbers)] = x
        return self.fun(whole)
