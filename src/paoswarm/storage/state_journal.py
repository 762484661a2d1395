"""Record the state of runs whose evaluations are too many to be recorded: those of compiled engines.

The random numbers of such runs are a function of seed and generation, so a run that goes on from a recorded state is
the run that never stopped, to the last bit. Records besides those of `paoswarm.storage.journal`:

- ``piece``, "arrays" or "history", with ``data``: a part of the bytes of all arrays, or of the history, one after
  another; zlib, then base64. A history begins where that of the state before ends;
- ``state`` after its pieces: the ``generation``, type and shape of the ``arrays`` and of the ``history``, the counts of
  ``evaluations`` and ``failed`` points, and the time.

A state counts once its last record is complete. Records of evaluations hold a few points of the first swarm, by which
a changed function is recognised, and the best point at every state. When the file is large, earlier states are dropped.
"""

from __future__ import annotations

import base64
import math
import time
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.storage.journal import Journal
from paoswarm.storage.log import Reader, Record, StoreError

_PIECE = 2**25  # bytes of an array in one record
_LARGE = 2**26  # bytes of a file from which on earlier states are dropped
_TYPES = ("<f8", "<f4", "<i8", "<i4")
_OF_STATES = (b'{"piece":', b'{"state":')

Arrays = dict[str, NDArray[Any]]


class Saved(NamedTuple):
    """A recorded state."""

    generation: int
    arrays: Arrays  # by name
    history: Floats  # (runs, generation + 1)


class StateJournal(Journal):
    """The record of runs whose state is kept in place of their evaluations; a context manager as `Journal`."""

    _saved_columns = 0  # of the history, in the file
    _is_incomplete = False  # whether the latest state could not be written to its end

    def restore(self) -> Saved | None:
        """Return the latest recorded state; None if there is none. Raises `DamagedStore` if it makes no sense."""
        reader = Reader(self.path)
        states: list[tuple[Record, dict[str, list[str]]]] = []
        try:
            for state, pieces in _states(reader):
                if states:
                    states[-1][1].pop("arrays", None)  # of earlier ones only the history is needed
                states.append((state, pieces))
            if not states:
                return None
            parts = [_unpacked([("history", state["history"])], pieces["history"]) for state, pieces in states]
            last, pieces = states[-1]
            arrays = _unpacked(list(last["arrays"].items()), pieces.get("arrays", []))
            history = np.concatenate([part["history"] for part in parts], axis=1)
            if history.shape[1] != last["generation"] + 1:
                raise ValueError("the history does not fit the number of generations")
        except StoreError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, MemoryError, zlib.error) as error:
            raise reader.damaged(f"a recorded state makes no sense ({error})") from error
        self._saved_columns = history.shape[1]
        return Saved(last["generation"], arrays, history)

    def record_points(self, x: Floats, values: Floats) -> None:
        """Record points ``(m, d)`` and their values, as the next evaluations."""
        known = self._contents.known
        first = self._batch_end = max(self._batch_end, len(known))
        self._batch_end += len(x)
        self._record(list(range(first, self._batch_end)), x, values, {}, {})

    def save(self, generation: int, arrays: Mapping[str, Any], history: Floats, evaluations: int, failed: int) -> None:
        """Record a state; it is safe once this returns. ``history`` is that of all generations."""
        if self._is_incomplete:
            self._is_open = False  # announced again, by which readers know that the pieces before belong to no state
        self._announce()
        is_large = self._log.size > _LARGE
        first = 0 if is_large else self._saved_columns
        counts = {"generation": generation, "evaluations": evaluations, "failed": failed, "t": round(time.time(), 3)}
        records = _packed({name: _plain(name, array) for name, array in arrays.items()}, history[:, first:], counts)
        if is_large:
            self._log.replace(_OF_STATES, records)
        else:
            self._is_incomplete = True
            for record in records:
                self._log.append(record)
            self._is_incomplete = False
        self._saved_columns = history.shape[1]


def _plain(name: str, array: Any) -> NDArray[Any]:
    """An array in the order of bytes that is recorded."""
    given = np.asarray(array)
    plain = np.ascontiguousarray(given.astype(given.dtype.newbyteorder("<"), copy=False))
    if plain.dtype.str not in _TYPES:
        raise TypeError(f"{name} has the type {given.dtype}, which a store cannot keep")
    return plain


def _packed(arrays: Arrays, history: Floats, counts: dict[str, Any]) -> Iterator[Record]:
    """The records of a state."""
    columns = _plain("history", history)
    for name, kept, level in (("arrays", list(arrays.values()), 0), ("history", [columns], 1)):  # only these repeat
        for part in _parts(kept):
            yield {"piece": name, "data": base64.b64encode(zlib.compress(part, level)).decode()}
    described = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    yield {"state": counts | {"arrays": described, "history": [columns.dtype.str, list(columns.shape)]}}


def _parts(arrays: list[NDArray[Any]]) -> Iterator[bytes]:
    """The bytes of arrays, one after another, in parts of less than twice ``_PIECE``."""
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
    """Arrays of these types and shapes from their pieces."""
    parts = []
    for text in pieces:
        unpacking = zlib.decompressobj()
        parts.append(unpacking.decompress(base64.b64decode(text, validate=True), 2 * _PIECE))
        if not unpacking.eof:
            raise ValueError("a piece is too long")
    data, place = b"".join(parts), 0
    found: Arrays = {}
    for name, (kind, shape) in described:
        if kind not in _TYPES or not all(type(length) is int and length >= 0 for length in shape):
            raise ValueError(f"{name} has no type or no shape")
        size = math.prod(shape) * np.dtype(kind).itemsize
        if place + size > len(data):
            raise ValueError(f"the data of {name} are missing")
        flat = np.frombuffer(data[place : place + size], dtype=kind)
        found[name] = flat.astype(np.dtype(kind).newbyteorder("="), copy=True).reshape(shape)
        place += size
    if place != len(data):
        raise ValueError("there are more data than the arrays hold")
    return found
