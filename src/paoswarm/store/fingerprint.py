"""What a function is made of: its code, the code that it calls and the values that it uses, each with a checksum.

Followed are closures, globals, default arguments, arguments of a `functools.partial`, attributes of the object it is
bound to, and helpers of the user's own modules, as far as they lead. Installed packages count by name only. Values
count by their content: addresses, hash seeds and the order of sets and dictionaries do not. So the same function has
the same checksums in every process.
"""

from __future__ import annotations

import copyreg
import dis
import inspect
import io
import logging
import random
import sys
import sysconfig
import threading
import zlib
from collections.abc import Iterable
from functools import cached_property, partial
from hashlib import blake2b
from itertools import islice
from types import BuiltinFunctionType, CellType, CodeType, GeneratorType, ModuleType
from typing import Any, NamedTuple

import numpy as np

CODE = "code of "
_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_MOST_PARTS = 300  # with a checksum of their own
_MOST = 300_000  # objects that are looked into
_LONGEST = 2_000_000  # elements of a list that are all read; of a longer one a sample is
_LARGEST = 100_000_000  # bytes of an array that are all read
_SAMPLE = 100_000  # elements of a sample
_DEEPEST = 60  # levels of nesting
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(Ellipsis), type(NotImplemented))
# What has a state of its own, which is no data.
_STATE = (
    *(np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random, logging.Logger, io.IOBase),
    *(GeneratorType, type(threading.Lock()), type(threading.RLock())),
    *(threading.local, threading.Thread, threading.Event, threading.Condition),
)
# What reads files, or starts programs: their contents are not seen.
_OUTSIDE = {
    *("open", "subprocess", "Popen", "check_output", "popen", "system", "urlopen", "socket", "CDLL", "read_text"),
    *("read_bytes", "loadtxt", "genfromtxt", "fromfile", "memmap", "loadmat", "open_dataset", "read_csv", "read_excel"),
    *("read_hdf", "read_json", "read_parquet", "read_sql"),
}
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_DISPLAY = ("__repr__", "__str__", "__format__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__")


class Fingerprint(NamedTuple):
    """The parts of a function and their checksums."""

    python: str  # every version has its own bytecode
    parts: dict[str, str]
    unsure: list[str]  # what was not looked into: a change there does not show

    def changes(self, other: Fingerprint) -> list[str]:
        """Return the names of the parts that differ. The code of different Python versions cannot be compared."""
        names = [*self.parts, *(name for name in other.parts if name not in self.parts)]
        if self.python != other.python:
            names = [name for name in names if not name.startswith(CODE)]
        return [name for name in names if self.parts.get(name) != other.parts.get(name)]


def fingerprint(fun: Any, *, all_methods: bool = False) -> Fingerprint:
    """Return the fingerprint of a function, method, partial or callable object; it never raises.

    Methods of the user's classes count if the code names them, or ``all_methods`` do.
    """
    try:
        return _Walk(fun, all_methods).result()
    except Exception as error:  # code of the user's classes may raise anything
        return Fingerprint(_PYTHON, {}, [f"the function cannot be looked into ({type(error).__name__})"])


def checksum(fun: Any) -> str:
    """Return one checksum of everything that a function or an object of the user is made of."""
    return f"{zlib.crc32(repr(sorted(fingerprint(fun, all_methods=True).parts.items())).encode()):08x}"


class _Walk:
    def __init__(self, fun: Any, all_methods: bool) -> None:
        self._all_methods = all_methods
        self._sums: dict[str, int] = {}
        self._unsure: dict[str, None] = {}
        self._code: list[Any] = []  # functions and classes to visit
        self._visited: dict[int, Any] = {}
        self._used: set[str] = set()  # names in the code, by which methods and contents of modules are found
        self._owners: dict[int, Any] = {}  # classes and modules of the user
        self._members: set[tuple[int, str]] = set()  # which of their contents are done
        self._known: dict[int, tuple[Any, bytes]] = {}  # the values are kept, so that no address is used twice
        self._active: set[int] = set()
        self._left = _MOST
        self._begin(fun)
        while self._code or self._find_members():
            if self._code:
                self._visit(self._code.pop(0))

    def result(self) -> Fingerprint:
        parts = {name: f"{total % 2**64:016x}" for name, total in self._sums.items()}
        rest = sorted(list(parts)[_MOST_PARTS:])
        if rest:
            parts["others"] = f"{sum(int(parts.pop(name), 16) for name in rest) % 2**64:016x}"
        return Fingerprint(_PYTHON, parts, list(self._unsure)[:20])

    def _add(self, name: str, value: Any) -> None:
        # A sum: several lambdas may have the same name, and the order in which they are met may vary.
        self._sums[name] = self._sums.get(name, 0) + int.from_bytes(self._digest(value), "big")

    def _doubt(self, what: str) -> None:
        self._unsure[what] = None

    # Code

    def _begin(self, fun: Any) -> None:
        """Give the values that are bound to the function names of their own."""
        if isinstance(fun, partial):
            for i, value in enumerate(fun.args):
                self._add(f"argument {i} of the partial", value)
            for name, value in fun.keywords.items():
                self._add(f"{name} of the partial", value)
            self._begin(fun.func)
        elif inspect.ismethod(fun):
            self._code.append(fun.__func__)
            self._begin_object(fun.__self__)
        elif inspect.isroutine(fun) or inspect.isclass(fun) or _wrapped(fun) is not None:
            self._use("function", fun)
        else:
            self._begin_object(fun)

    def _begin_object(self, thing: Any) -> None:
        kind = type(thing)
        if (parts := self._parts_of_program(thing)) is not None:
            for name, value in parts.items():
                self._add(name, value)
            return
        attributes = getattr(thing, "__dict__", None)
        is_ours = isinstance(attributes, dict) and not inspect.isclass(thing) and not in_library(kind)
        if is_ours:
            self._own(kind)
            for name, value in (attributes or {}).items():
                self._add(f"{kind.__name__}.{name}", value)
        if not is_ours or len(kind.__mro__) > 2:  # contents of a list, slots, ...
            self._add(f"the {kind.__name__}", thing)

    def _parts_of_program(self, thing: Any) -> dict[str, Any] | None:
        """What the values of a function of ours depend on that starts a program; None for anything else."""
        kind = type(thing)
        if not (in_library(kind) and hasattr(kind, "fingerprint_parts")):
            return None
        self._doubt(f"{kind.__name__} starts a program, whose other files may change unseen")
        parts: dict[str, Any] = thing.fingerprint_parts()
        return parts

    def _own(self, owner: Any) -> None:
        bases = owner.__mro__ if inspect.isclass(owner) else (owner,)
        self._owners |= {id(one): one for one in bases if not in_library(one)}

    def _find_members(self) -> bool:
        """Visit methods, class attributes and contents of modules that the code names; whether there were any."""
        found = False
        for key, owner in list(self._owners.items()):
            for name, member in list(vars(owner).items()):
                if (key, name) not in self._members and self._is_used(owner, name, member):
                    self._members.add((key, name))
                    found = True
                    self._use(f"{owner.__name__}.{name}", member)
        return found

    def _is_used(self, owner: Any, name: str, member: Any) -> bool:
        is_class = inspect.isclass(owner)
        if name.startswith("__") and name.endswith("__"):  # construction and operators
            return is_class and inspect.isfunction(member) and name not in _DISPLAY
        return name in self._used or (is_class and self._all_methods)

    def _use(self, name: str, value: Any) -> None:
        """Note something that the code uses by name."""
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, property):
            self._code += [function for function in (value.fget, value.fset) if function is not None]
        elif isinstance(value, cached_property):
            self._code.append(value.func)
        elif isinstance(value, ModuleType) or inspect.isclass(value):
            self._own(value)
        elif inspect.isroutine(value):
            if in_library(value):
                self._add(name, _name(value))
            self._code.append(value)
        elif not inspect.isdatadescriptor(value):
            self._add(name, value)

    def _visit(self, thing: Any) -> None:
        if id(thing) in self._visited:
            return
        self._visited[id(thing)] = thing
        if inspect.isfunction(thing):
            self._visit_function(thing)
        elif (inner := _wrapped(thing)) is not None:  # functools.cache, and compiled by many a library
            self._begin(inner)
        elif not in_library(thing):
            self._doubt(f"{_name(thing)} is compiled")

    def _visit_function(self, function: Any) -> None:
        name, code = function.__qualname__, function.__code__
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        uses = {  # a variable that is not assigned yet has an empty cell
            f"{variable} in {name}": None if cell == CellType() else cell.cell_contents for variable, cell in cells
        }
        if not in_library(function):
            self._add(CODE + name, _bytecode(code, function.__doc__))
            defaults = function.__defaults__ or ()
            named = code.co_varnames[: code.co_argcount][-len(defaults) or None :]
            given = {**dict(zip(named, defaults, strict=False)), **(function.__kwdefaults__ or {})}
            uses |= {f"{argument}= of {name}": value for argument, value in given.items()}
            uses |= {f"{name}.{attribute}": value for attribute, value in vars(function).items()}
            for one in _with_nested(code):
                uses |= self._globals(name, one, function.__globals__)
        for what, value in uses.items():
            self._use(what, value)

    def _globals(self, name: str, code: CodeType, known: dict[str, Any]) -> dict[str, Any]:
        """The global variables that code uses; what it names is noted."""
        self._used.update(code.co_names)
        for outside in sorted(_OUTSIDE.intersection(code.co_names))[:1]:
            self._doubt(f"{name} uses {outside}, whose source may change unseen")
        steps = dis.get_instructions(code)
        variables = [step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
        return {f"global {variable}": known[variable] for variable in variables if variable in known}

    # Values

    def _digest(self, value: Any) -> bytes:
        """The checksum of a value; the code of functions and of classes in it is visited later."""
        if type(value) in _PLAIN:
            return _hash(type(value).__name__, repr(value))
        key = id(value)
        if key in self._known:
            return self._known[key][1]
        if key in self._active:
            return _hash("itself")
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
        self._doubt(f"{type(value).__name__} {why}")
        return _hash(type(value).__qualname__)

    def _all(self, name: str, parts: Iterable[Any]) -> bytes:
        return _hash(name, *map(self._digest, parts))

    def _pairs(self, name: str, items: Iterable[tuple[Any, Any]]) -> bytes:
        return _hash(name, *sorted(self._digest(key) + self._digest(value) for key, value in items))

    def _look_into(self, value: Any) -> bytes:
        kind = type(value)
        if isinstance(value, np.ndarray | np.generic):
            return _hash(self._array(np.asarray(value)), self._attributes(value))
        if isinstance(value, dict):
            return _hash(self._pairs("dict", value.items()), self._attributes(value))
        if isinstance(value, list | tuple):
            return _hash(self._sequence(value), self._attributes(value))
        if isinstance(value, set | frozenset):
            return _hash("set", *sorted(map(self._digest, value)), self._attributes(value))
        if isinstance(value, partial):
            return self._all("partial", (value.func, value.args, value.keywords))
        if inspect.ismethod(value):
            return self._all("method", (value.__func__, value.__self__))
        if isinstance(value, ModuleType):
            return _hash("module", value.__name__)
        if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType | type(None)):
            return self._all("method", (value.__name__, value.__self__))  # of an object that is written in C
        if inspect.isclass(value):
            self._own(value)
            return _hash("code", value.__qualname__)
        if inspect.isroutine(value):
            self._code.append(value)
            return _hash("code", getattr(value, "__qualname__", kind.__qualname__))
        return self._look_into_object(value)

    def _look_into_object(self, value: Any) -> bytes:
        kind = type(value)
        if isinstance(value, _STATE):
            return _hash("state", kind.__qualname__)
        if (inner := _wrapped(value)) is not None:
            return self._all("wrapped", (inner,))
        if (parts := self._parts_of_program(value)) is not None:
            return self._pairs(kind.__name__, parts.items())
        self._own(kind)
        if in_library(kind):  # attributes of other people's objects may hold caches and addresses
            return _hash(kind.__qualname__, self._reduced(value))
        return _hash(kind.__qualname__, self._attributes(value) or self._reduced(value))

    def _attributes(self, value: Any) -> bytes:
        """The checksum of an object's own attributes; empty if it has none."""
        slots = [vars(one).get("__slots__", ()) for one in type(value).__mro__]
        names = {name for some in slots for name in ([some] if isinstance(some, str) else some)}
        held = {name: getattr(value, name) for name in names - {"__dict__", "__weakref__"} if hasattr(value, name)}
        held |= getattr(value, "__dict__", {})
        return self._pairs("attributes", held.items()) if held else b""

    def _reduced(self, value: Any) -> bytes:
        """The checksum of what `pickle` would keep of an object; nothing is pickled."""
        known = copyreg.dispatch_table.get(type(value))
        reduced = value.__reduce_ex__(4) if known is None else known(value)
        if isinstance(reduced, str):
            return _hash("global", reduced)
        make, args, state, items, pairs = (*reduced, None, None, None)[:5]
        contents = [list(islice(some, self._left)) if some is not None else None for some in (items, pairs)]
        return self._all("reduced", (make.__qualname__, args, state, *contents))

    def _sequence(self, value: list[Any] | tuple[Any, ...]) -> bytes:
        if len(value) > _LONGEST:
            self._doubt(f"{type(value).__name__} of {len(value)} elements, of which only some are compared")
            value = [len(value), *value[:: 1 + len(value) // _SAMPLE]]
        if set(map(type, value)) <= set(_PLAIN):  # long lists of numbers and text are quick
            return _hash("sequence", repr(list(value)))
        return self._all("sequence", value)

    def _array(self, value: Any) -> bytes:
        name = f"{value.dtype.str}{value.shape}"
        if value.dtype.hasobject:
            return _hash(name, self._digest(value.ravel().tolist()))
        if value.nbytes > _LARGEST:
            self._doubt(f"array of {value.nbytes / 1e6:.0f} MB, of which only a sample is compared")
            value = value.reshape(-1)[:: 1 + value.size // _SAMPLE]
        return _hash(name, b"%08x" % zlib.crc32(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data))


def _hash(*parts: str | bytes) -> bytes:
    found = blake2b(digest_size=8)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(b"%d " % len(data))  # so that parts cannot run into each other
        found.update(data)
    return found.digest()


def _wrapped(thing: Any) -> Any:
    """The function in a wrapper such as that of `functools.cache`, if there is one; runs no code of the user."""
    return inspect.getattr_static(thing, "__wrapped__", None)


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', None)}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"


def in_library(thing: Any) -> bool:
    """Whether a function, class or module belongs to Python, an installed package or paoswarm."""
    module = thing.__name__ if inspect.ismodule(thing) else getattr(thing, "__module__", None) or ""
    if module == "paoswarm" or module.startswith("paoswarm."):
        return True
    file = thing.__code__.co_filename if inspect.isfunction(thing) else ""
    if not file or file.startswith("<"):  # typed in, generated, or no function
        if module == "__main__":  # its file may be that of a program that runs what is typed in
            return False
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        if not file:  # typed in, or a part of Python that is written in C
            return module in sys.builtin_module_names and not inspect.isfunction(thing)
    return file.startswith(_LIBRARIES) or "site-packages" in file or "dist-packages" in file


def _with_nested(code: CodeType) -> list[CodeType]:
    """The code of a function and of the functions in it."""
    inner = filter(inspect.iscode, code.co_consts)
    return [code, *(one for part in inner for one in _with_nested(part))]


def _bytecode(code: CodeType, doc: str | None = None) -> str:
    """What a function does as text, without line numbers and the docstring."""
    constants = ["doc" if doc is not None and c == doc else _constant(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _constant(constant: Any) -> str:
    if inspect.iscode(constant):
        return _bytecode(constant)
    if isinstance(constant, tuple):
        return str([_constant(part) for part in constant])
    if isinstance(constant, frozenset):  # its order differs between processes
        return str(sorted(map(repr, constant)))
    return repr(constant)
