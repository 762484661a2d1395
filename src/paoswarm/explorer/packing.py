"""Answers as JSON that a browser reads without loss.

Arrays are packed as base64 of little-endian doubles, so converged points stay apart. JSON has no NaN and no infinity:
outside of arrays, NaN becomes null, and infinity a string, as in a store.
"""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paoswarm._text import plain


def pack(numbers: ArrayLike) -> dict[str, Any]:
    """Return an array as JSON: its shape and its doubles."""
    array = np.asarray(numbers, dtype="<f8")
    return {"f64": base64.b64encode(array.tobytes()).decode("ascii"), "shape": list(array.shape)}


def pack_bytes(numbers: ArrayLike) -> str:
    """Return whole numbers from 0 to 255 as base64, one byte each."""
    return base64.b64encode(np.asarray(numbers, dtype=np.uint8).tobytes()).decode("ascii")


def unpack(packed: dict[str, Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the array that was given to `pack`.

    Examples
    --------
    >>> unpack(pack([[1.0, float("nan")]]))
    array([[ 1., nan]])
    """
    return np.frombuffer(base64.b64decode(packed["f64"]), dtype="<f8").reshape(packed["shape"])


def to_json(answer: Any) -> bytes:
    """Return an answer as JSON."""
    contents = plain(answer, array=pack, not_finite=lambda number: None if math.isnan(number) else str(number))
    return json.dumps(contents, allow_nan=False, separators=(",", ":")).encode()
