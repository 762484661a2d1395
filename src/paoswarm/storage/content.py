"""Checksums of values by their content.

They are the same in every process: addresses, hash seeds and the order of sets and dictionaries do not count.
"""

from __future__ import annotations

import copyreg
import inspect
import io
import logging
import random
import threading
import zlib
from collections.abc import Callable, Collection, Iterable
from functools import partial
from hashlib import blake2b
from itertools import islice
from types import BuiltinFunctionType, GeneratorType, ModuleType
from typing import Any

import numpy as np

from paoswarm.storage.fingerprint import in_library

_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(Ellipsis), type(NotImplemented))
_SHOWN = {*_PLAIN, list, tuple}
_LONGEST = 2_000_000  # elements of a list that are all read
_LARGEST = 100_000_000  # bytes of an array that are all read; of a larger one a sample is
_SAMPLE = 100_000  # elements of such a sample
_MOST = 300_000  # objects that are looked into
_DEEPEST = 60  # levels of nesting
_STATE = (  # what has a state of its own, which is no data
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    random.Random,
    logging.Logger,
    io.IOBase,
    GeneratorType,
    threading.local,
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Thread,
    threading.Event,
    threading.Condition,
)


class Hasher:
    """Makes checksums of values.

    Parameters
    ----------
    found : callable
        Called with every function, and every class of an object, among the values: their code is not looked at here.

    Attributes
    ----------
    unsure : list of str
        What could not be looked into as a whole; a change there may go unnoticed.
    """

    def __init__(self, found: Callable[[Any], None]) -> None:
        self._found = found
        self._known: dict[int, tuple[Any, bytes]] = {}  # the values are kept, so that no address is used twice
        self._active: set[int] = set()
        self._left = _MOST
        self.unsure: list[str] = []

    def digest(self, value: Any) -> bytes:
        """Return the checksum of a value."""
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return _hash(type(value).__name__, repr(value).encode("utf-8", "surrogatepass"))
        key = id(value)
        if key in self._known:
            return self._known[key][1]
        if key in self._active:
            return _hash("itself", b"")
        if self._left <= 0 or len(self._active) >= _DEEPEST:
            return self._give_up(value, "too large to be looked into as a whole")
        self._left -= 1
        self._active.add(key)
        try:
            found = self._look_into(value)
        except Exception as error:  # code of the user's classes may raise anything
            found = self._give_up(value, f"cannot be looked into ({type(error).__name__})")
        finally:
            self._active.discard(key)
        self._known[key] = (value, found)
        return found

    def _give_up(self, value: Any, why: str) -> bytes:
        self.unsure.append(f"{type(value).__name__} {why}")
        return _hash(type(value).__qualname__, b"")

    def _all(self, name: str, parts: Iterable[Any]) -> bytes:
        return _hash(name, *map(self.digest, parts))

    def _pairs(self, name: str, items: Iterable[tuple[Any, Any]]) -> bytes:
        return _hash(name, *sorted(self.digest(key) + self.digest(value) for key, value in items))

    def _look_into(self, value: Any) -> bytes:
        kind = type(value)
        if isinstance(value, np.ndarray | np.generic):
            return _hash(self._array(np.asarray(value)), self._attributes(value))
        if isinstance(value, dict):
            return _hash(self._dict(value), self._attributes(value))
        if isinstance(value, list | tuple):
            return _hash(self._sequence(value), self._attributes(value))
        if isinstance(value, set | frozenset):
            return _hash(_hash("set", *sorted(map(self.digest, value))), self._attributes(value))
        if isinstance(value, partial):
            return self._all("partial", (value.func, value.args, value.keywords))
        if inspect.ismethod(value):
            self._found(value.__func__)
            return self._all("method", (value.__func__.__qualname__, value.__self__))
        if isinstance(value, ModuleType):
            return _hash("module", value.__name__.encode())
        if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType | type(None)):
            return self._all("method", (value.__name__, value.__self__))  # of an object that is written in C
        if inspect.isroutine(value) or inspect.isclass(value):
            self._found(value)
            return _hash("code", getattr(value, "__qualname__", kind.__qualname__).encode())
        if isinstance(value, _STATE):
            return _hash("state", kind.__qualname__.encode())
        if (inner := wrapped(value)) is not None:
            return self._all("wrapped", (inner,))
        if is_program(value):
            self.unsure.append(f"{kind.__name__} starts a program, whose other files may change unseen")
            return self._pairs(kind.__name__, value.fingerprint_parts().items())
        self._found(kind)
        if in_library(kind):  # attributes of other people's objects may hold caches and addresses
            return _hash(kind.__qualname__, self._reduced(value))
        return _hash(kind.__qualname__, self._attributes(value) or self._reduced(value))

    def _attributes(self, value: Any) -> bytes:
        """The checksum of an object's own attributes; empty if it has none."""
        names = [name for one in type(value).__mro__ for name in _slots(one)]
        slots = {name: getattr(value, name) for name in names if hasattr(value, name)}
        held = {**slots, **getattr(value, "__dict__", {})}
        return self._pairs("attributes", held.items()) if held else b""

    def _reduced(self, value: Any) -> bytes:
        """The checksum of what `pickle` would keep of an object; nothing is pickled."""
        known = copyreg.dispatch_table.get(type(value))
        reduced = value.__reduce_ex__(4) if known is None else known(value)
        if isinstance(reduced, str):
            return _hash("global", reduced.encode())
        make, args, state, items, pairs = (*reduced, None, None, None)[:5]
        contents = [list(islice(some, self._left)) if some is not None else None for some in (items, pairs)]
        return self._all("reduced", (make.__qualname__, args, state, *contents))

    def _sequence(self, value: list[Any] | tuple[Any, ...]) -> bytes:
        if _is_plain(value):  # long lists of numbers and text are quick
            return _hash("sequence", repr(list(value)).encode("utf-8", "surrogatepass"))
        if len(value) > self._left:
            self.unsure.append(f"{type(value).__name__} of {len(value)} elements, of which only some are compared")
            value = [len(value), *value[:: 1 + len(value) // 1000]]
        return self._all("sequence", value)

    def _dict(self, value: dict[Any, Any]) -> bytes:
        if _is_plain(value) and _is_plain(value.values()):
            items = sorted(f"{key!r}: {element!r}" for key, element in value.items())
            return _hash("dict", *(item.encode("utf-8", "surrogatepass") for item in items))
        return self._pairs("dict", value.items())

    def _array(self, value: Any) -> bytes:
        name = f"{value.dtype.str}{value.shape}"
        if value.dtype.hasobject:
            return _hash(name, self.digest(value.ravel().tolist()))
        if value.nbytes > _LARGEST:
            self.unsure.append(f"array of {value.nbytes / 1e6:.0f} MB, of which only a sample is compared")
            value = value.reshape(-1)[:: 1 + value.size // _SAMPLE]
        return _hash(name, b"%08x" % zlib.crc32(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data))


def _is_plain(values: Collection[Any], depth: int = 0) -> bool:
    """Whether there are only numbers and text, or lists and tuples of them, so that `repr` shows all of it."""
    if len(values) > _LONGEST or depth > 5:
        return False
    kinds = set(map(type, values))
    if not kinds <= _SHOWN:
        return False
    return kinds.isdisjoint((list, tuple)) or all(
        _is_plain(part, depth + 1) for part in values if isinstance(part, list | tuple)
    )


def is_program(thing: Any) -> bool:
    """Whether it is a function of ours that starts a program, and knows what its values depend on."""
    return in_library(type(thing)) and hasattr(type(thing), "fingerprint_parts")


def wrapped(thing: Any) -> Any:
    """Return the function in a wrapper such as that of `functools.cache`, if there is one; runs no code of the user."""
    return inspect.getattr_static(thing, "__wrapped__", None)


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [name for name in ([slots] if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")]


def _hash(*parts: Any) -> bytes:
    found = blake2b(digest_size=8)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(b"%d " % len(data))  # so that parts cannot run into each other
        found.update(data)
    return found.digest()
