"""Array types. Kernels accept arrays of any library that follows the array API standard, NumPy's among them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any  # an array of any library that follows the standard
Floats = NDArray[np.float64]  # a NumPy array


def namespace(array: Array) -> Any:
    """Return the module with the functions for an array."""
    # NumPy is special-cased for speed: __array_namespace__() costs as much as adding two small arrays.
    return np if type(array) is np.ndarray else array.__array_namespace__()


def special(array: Array) -> Any:
    """Return the module with the special functions for an array of NumPy or JAX; the standard has none."""
    return import_module("scipy.special" if type(array) is np.ndarray else "jax.scipy.special")


def with_columns(array: Array, which: NDArray[np.bool_], columns: Array) -> Array:
    """Return an array ``(m, d)`` of NumPy or JAX with other values in the selected columns."""
    if type(array) is not np.ndarray:
        return array.at[:, np.flatnonzero(which)].set(columns)
    new = array.copy()
    new[:, which] = columns
    return new
