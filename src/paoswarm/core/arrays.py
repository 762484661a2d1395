"""Array types. Kernels accept arrays of any library that follows the array API standard, NumPy's among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any  # an array of any library that follows the standard
Floats = NDArray[np.float64]  # a NumPy array


def namespace(array: Array) -> Any:
    """Return the module with the functions for an array."""
    # NumPy is special-cased for speed: __array_namespace__() costs as much as adding two small arrays.
    return np if type(array) is np.ndarray else array.__array_namespace__()
