"""Arrays of any library that follows the array API standard: NumPy's, or such as are traced and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any  # of any library that follows the standard
Floats = NDArray[np.float64]  # NumPy's


def namespace(array: Array) -> Any:
    """The functions that go with an array. Asking NumPy's arrays themselves takes as long as adding two small ones."""
    return np if type(array) is np.ndarray else array.__array_namespace__()
