"""The state of runs whose evaluations are too many to be recorded: those of compiled engines.

The random numbers of such runs are a function of seed and generation, so a run that goes on from a recorded state is
the run that never stopped, to the last bit. The records:

- ``piece``, "arrays" or "history", with ``data``: a part of the bytes of all arrays, or of the history, one after
  another; zlib, then base64. A history begins where that of the state before ends;
- ``state`` after its pieces: the ``generation``, type and shape of the ``arrays`` and of the ``history``, the counts of
  ``evaluations`` and ``failed`` points, and the time.

A state counts once its last record is complete. When the file is large, earlier states are dropped.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.store.log import Reader, Record, StoreError

_PIECE = 2**25  # bytes of an array in one record
LARGE = 2**26  # bytes of a file from which on earlier states are dropped
BEGINNINGS = (b'{"piece":', b'{"state":')  # of the records of states
_TYPES = ("<f8", "<f4", "<i8", "<i4")

Arrays = dict[str, NDArray[Any]]


class Saved(NamedTuple):
    """A recorded state."""

    generation: int
    arrays: Arrays  # by name
    history: Floats  # (runs, generation + 1)


def latest(path: Path, shapes: Mapping[str, tuple[int, ...]], check: Callable[[Arrays], None]) -> Saved | None:
    """Return the latest state in a file; None if there is none.

    Raises `DamagedStore` if it makes no sense, if its arrays do not have these shapes, or if ``check`` of them raises a
    ValueError. Whatever the file says, no
    more is unpacked than these arrays hold, and a history of the generations that it states.
    """
    reader = Reader(path)
    found: list[tuple[Record, dict[str, list[str]]]] = []
    try:
        for state, pieces in _states(reader):
            if found:
                found[-1][1].pop("arrays", None)  # of earlier ones only the history is needed
            found.append((state, pieces))
        if not found:
            return None
        last, pieces = found[-1]
        if {name: tuple(shape) for name, (_, shape) in last["arrays"].items()} != shapes:
            raise ValueError("it does not fit the run")
        histories = [state["history"][1] for state, _ in found]
        (runs, *_), columns = shapes["x"], sum(n for _, n in histories)
        if any(n != runs for n, _ in histories) or columns != last["generation"] + 1:
            raise ValueError("the history does not fit the number of generations")
        parts = [_unpacked([("history", state["history"])], pieces["history"]) for state, pieces in found]
        arrays = _unpacked(list(last["arrays"].items()), pieces.get("arrays", []))
        check(arrays)
        history = np.concatenate([part["history"] for part in parts], axis=1)
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, MemoryError, zlib.error) as error:
        raise reader.damaged(f"a recorded state makes no sense ({error})") from error
    return Saved(last["generation"], arrays, history)


def _plain(name: str, array: Any) -> NDArray[Any]:
    """An array in the order of bytes that is recorded."""
    given = np.asarray(array)
    plain = np.ascontiguousarray(given.astype(given.dtype.newbyteorder("<"), copy=False))
    if plain.dtype.str not in _TYPES:
        raise TypeError(f"{name} has the type {given.dtype}, which a store cannot keep")
    return plain


def packed(arrays: Mapping[str, Any], history: Floats, counts: dict[str, Any]) -> Iterator[Record]:
    """The records of a state."""
    plain, columns = {name: _plain(name, array) for name, array in arrays.items()}, _plain("history", history)
    for name, kept, level in (("arrays", list(plain.values()), 0), ("history", [columns], 1)):  # only these repeat
        for part in _parts(kept):
            yield {"piece": name, "data": base64.b64encode(zlib.compress(part, level)).decode()}
    described = {name: [array.dtype.str, list(array.shape)] for name, array in plain.items()}
    yield {"state": counts | {"arrays": described, "history": [columns.dtype.str, list(columns.shape)]}}


def _parts(arrays: list[NDArray[Any]]) -> Iterator[bytes]:
    """Join the bytes of arrays and cut them into parts, each shorter than ``2 * _PIECE``."""
    waiting = bytearray()
    for array in arrays:
        data = array.reshape(-1).view(np.uint8).data
        for start in range(0, len(data), _PIECE):
            waiting += data[start : start + _PIECE]
            if len(waiting) >= _PIECE:
                yield bytes(waiting)
                waiting.clear()
    if waiting:
        yield bytes(waiting)


def _states(reader: Reader) -> Iterator[tuple[Record, dict[str, list[str]]]]:
    """All states of a file, each with its pieces by name."""
    pieces: dict[str, list[str]] = {}
    for record in reader.records(with_evaluations=False, with_pieces=True):
        if "piece" in record:
            pieces.setdefault(record["piece"], []).append(record["data"])
        elif "state" in record:
            yield record["state"], pieces
            pieces = {}
        elif "open" in record:  # the process before died while it recorded a state
            pieces = {}


def _unpacked(described: list[tuple[str, Any]], pieces: list[str]) -> Arrays:
    """Arrays of these types and shapes from their pieces; no more is unpacked than they hold."""
    sizes = []
    for name, (kind, shape) in described:
        if kind not in _TYPES or not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError(f"{name} has no type or no shape")
        sizes.append(math.prod(shape) * np.dtype(kind).itemsize)
    data = bytearray()
    for text in pieces:
        unpacking = zlib.decompressobj()
        data += unpacking.decompress(base64.b64decode(text, validate=True), sum(sizes) - len(data) + 1)
        if not unpacking.eof or len(data) > sum(sizes):
            raise ValueError("there are more data than the arrays hold")
    if len(data) < sum(sizes):
        raise ValueError("data of the arrays are missing")
    found: Arrays = {}
    place = 0
    for (name, (kind, shape)), size in zip(described, sizes, strict=True):
        flat = np.frombuffer(data, dtype=kind, count=math.prod(shape), offset=place)
        found[name] = flat.astype(np.dtype(kind).newbyteorder("="), copy=True).reshape(shape)
        place += size
    return found
