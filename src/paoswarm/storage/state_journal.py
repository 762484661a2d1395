"""Record the state of runs whose evaluations are too many to be recorded: those of compiled engines.

The random numbers of such runs are a function of seed and generation, so a run that goes on from a recorded state is
the run that never stopped, to the last bit. Records besides those of `paoswarm.storage.journal`:

- ``piece`` with the name of an array and ``data``, a part of it: zlib, then base64;
- ``state`` after the pieces of all arrays: the ``generation``, ``arrays`` with the type and shape of each, the counts
  of ``evaluations`` and ``failed`` points, and the time. The array ``history`` holds the columns since the state before.

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
_HISTORY = "history"
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

    def restore(self) -> Saved | None:
        """Return the latest recorded state; None if there is none. Raises `DamagedStore` if it makes no sense."""
        reader = Reader(self.path)
        states: list[tuple[Record, dict[str, list[str]]]] = []
        try:
            for record, pieces in _states(reader):
                if states:
                    states[-1] = states[-1][0], {_HISTORY: states[-1][1][_HISTORY]}  # of earlier ones no more is needed
                states.append((record, pieces))
            if not states:
                return None
            parts = [_decoded(_HISTORY, record, pieces) for record, pieces in states]
            last, pieces = states[-1]
            arrays = {name: _decoded(name, last, pieces) for name in last["arrays"] if name != _HISTORY}
            history = np.concatenate(parts, axis=1)
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
        self._announce()
        is_large = self._log.size > _LARGE
        first = 0 if is_large else self._saved_columns
        kept: Arrays = {name: np.asarray(array) for name, array in arrays.items()}
        kept[_HISTORY] = history[:, first:]
        counts = {"generation": generation, "evaluations": evaluations, "failed": failed, "t": round(time.time(), 3)}
        if is_large:
            self._log.replace(_OF_STATES, _encoded(kept, counts))
        else:
            for record in _encoded(kept, counts):
                self._log.append(record)
        self._saved_columns = history.shape[1]


def _encoded(arrays: Arrays, counts: dict[str, Any]) -> Iterator[Record]:
    """The records of a state."""
    described = {}
    for name, array in arrays.items():
        array = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
        if array.dtype.str not in _TYPES:
            raise TypeError(f"{name} has the type {array.dtype}, which a store cannot keep")
        described[name] = [array.dtype.str, list(array.shape)]
        data = memoryview(array.reshape(-1).view(np.uint8))
        level = 1 if name == _HISTORY else 0  # histories repeat themselves, positions do not
        for start in range(0, len(data), _PIECE):
            packed = zlib.compress(data[start : start + _PIECE], level)
            yield {"piece": name, "data": base64.b64encode(packed).decode()}
    yield {"state": counts | {"arrays": described}}


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


def _decoded(name: str, state: Record, pieces: dict[str, list[str]]) -> NDArray[Any]:
    """An array of a state from its pieces."""
    kind, shape = state["arrays"][name]
    if kind not in _TYPES or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"{name} has no type or no shape")
    parts = []
    for text in pieces.get(name, []):
        unpacking = zlib.decompressobj()
        parts.append(unpacking.decompress(base64.b64decode(text, validate=True), _PIECE))
        if not unpacking.eof:
            raise ValueError(f"a piece of {name} is too long")
    data = b"".join(parts)
    if len(data) != math.prod(shape) * np.dtype(kind).itemsize:
        raise ValueError(f"{name} has another size than its shape")
    return np.frombuffer(data, dtype=kind).astype(np.dtype(kind).newbyteorder("="), copy=True).reshape(shape)
