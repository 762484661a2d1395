"""What an objective is made of: its code, the code it calls, and the values it uses, each with a checksum.

Followed are closures, globals, default arguments, arguments of a `functools.partial`, attributes of the object it is
bound to, and helpers of the user's own modules, as far as they lead. Installed packages count by name only. The same
function has the same checksums in every process.
"""

from __future__ import annotations

import dis
import inspect
import sys
from functools import cached_property, partial
from types import ModuleType
from typing import Any, NamedTuple

from paoswarm.storage.content import Hasher, is_program, wrapped
from paoswarm.storage.fingerprint import bytecode, cell_contents, code_with_nested, in_library

CODE = "code of "
_PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
_MOST = 300  # parts with a checksum of their own
# What reads files, or starts programs: their contents are not seen.
_OUTSIDE = {
    *("open", "subprocess", "Popen", "check_output", "popen", "system", "urlopen", "socket", "CDLL", "read_text"),
    *("read_bytes", "loadtxt", "genfromtxt", "fromfile", "memmap", "loadmat", "open_dataset", "read_csv", "read_excel"),
    *("read_hdf", "read_json", "read_parquet", "read_sql"),
}
_CONSTRUCTION = ("__init__", "__new__", "__post_init__")
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


def fingerprint(fun: Any) -> Fingerprint:
    """Return the fingerprint of a function, method, partial or callable object; it never raises."""
    try:
        return _Walk(fun).result()
    except Exception as error:  # code of the user's classes may raise anything
        return Fingerprint(_PYTHON, {}, [f"the function cannot be looked into ({type(error).__name__})"])


class _Walk:
    def __init__(self, fun: Any) -> None:
        self._sums: dict[str, int] = {}
        self._unsure: list[str] = []
        self._queue: list[Any] = []
        self._seen: dict[int, Any] = {}
        self._used: set[str] = set()  # names in the code, by which methods and contents of modules are found
        self._owners: dict[int, Any] = {}  # classes and modules of the user
        self._constructed: set[int] = set()  # classes that the code may call
        self._members: set[tuple[int, str]] = set()  # which of their contents are done
        self._hasher = Hasher(self._meet)
        self._begin(fun)
        while self._queue or self._find_members():
            if self._queue:
                self._visit(self._queue.pop(0))

    def result(self) -> Fingerprint:
        parts = {name: f"{total % 2**64:016x}" for name, total in self._sums.items()}
        rest = list(parts)[_MOST:]
        if rest:
            total = sum(int(parts.pop(name), 16) for name in sorted(rest))
            parts["others"] = f"{total % 2**64:016x}"
        unsure = list(dict.fromkeys([*self._unsure, *self._hasher.unsure]))
        return Fingerprint(_PYTHON, parts, unsure[:20])

    def _add(self, name: str, value: Any) -> None:
        # A sum: several lambdas may have the same name, and the order in which they are met may vary.
        self._sums[name] = self._sums.get(name, 0) + int.from_bytes(self._hasher.digest(value), "big")

    def _begin(self, fun: Any) -> None:
        """Give the values that are bound to the function names of their own."""
        if isinstance(fun, partial):
            for i, value in enumerate(fun.args):
                self._add(f"argument {i} of the partial", value)
            for name, value in fun.keywords.items():
                self._add(f"{name} of the partial", value)
            self._begin(fun.func)
        elif inspect.ismethod(fun):
            self._queue.append(fun.__func__)
            self._begin_object(fun.__self__)
        elif inspect.isroutine(fun) or inspect.isclass(fun) or wrapped(fun) is not None:
            self._use("function", fun)
        else:
            self._used.add("__call__")
            self._begin_object(fun)

    def _begin_object(self, thing: Any) -> None:
        if is_program(thing):
            for name, value in thing.fingerprint_parts().items():
                self._add(name, value)
            self._unsure.append(f"{type(thing).__name__} starts a program, whose other files may change unseen")
            return
        attributes = getattr(thing, "__dict__", None)
        if inspect.isclass(thing) or not isinstance(attributes, dict) or in_library(type(thing)):
            self._add(f"the {type(thing).__name__}", thing)
            return
        self._meet(type(thing))
        for name, value in attributes.items():
            self._add(f"{type(thing).__name__}.{name}", value)
        if len(type(thing).__mro__) > 2:  # contents of a list, slots, ...
            self._add(f"the {type(thing).__name__}", thing)

    def _meet(self, thing: Any) -> None:
        """Note code that is reached through a value; the class of an object is not called."""
        if inspect.isclass(thing):
            self._own(thing)
        else:
            self._queue.append(thing)

    def _own(self, owner: Any) -> None:
        bases = owner.__mro__ if inspect.isclass(owner) else (owner,)
        for one in bases:
            if not in_library(one):
                self._owners[id(one)] = one

    def _find_members(self) -> bool:
        """Visit methods, class attributes and contents of modules that the code names; whether there were any."""
        found = False
        for key, owner in list(self._owners.items()):
            for name, member in list(vars(owner).items()):
                if (key, name) in self._members or not self._is_used(owner, name, member):
                    continue
                self._members.add((key, name))
                found = True
                self._use(f"{owner.__name__}.{name}", member)
        return found

    def _is_used(self, owner: Any, name: str, member: Any) -> bool:
        if name in _CONSTRUCTION:
            return id(owner) in self._constructed and inspect.isroutine(member)
        if name.startswith("__") and name.endswith("__"):  # operators
            return inspect.isfunction(member) and inspect.isclass(owner) and name not in _DISPLAY
        return name in self._used

    def _use(self, name: str, value: Any) -> None:
        """Note something that the code uses by name."""
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, property | cached_property):
            functions = (value.fget, value.fset) if isinstance(value, property) else (value.func,)
            self._queue += [function for function in functions if function is not None]
        elif isinstance(value, ModuleType):
            self._own(value)
        elif inspect.isclass(value):
            self._constructed |= {id(one) for one in value.__mro__}
            self._own(value)
        elif inspect.isroutine(value):
            if in_library(value):
                self._add(name, _name(value))
            self._queue.append(value)
        elif not inspect.isdatadescriptor(value):
            self._add(name, value)

    def _visit(self, thing: Any) -> None:
        if id(thing) in self._seen:
            return
        self._seen[id(thing)] = thing
        if inspect.isfunction(thing):
            self._visit_function(thing)
        elif (inner := wrapped(thing)) is not None:  # functools.cache, and compiled by many a library
            self._begin(inner)
        elif inspect.isclass(thing):
            self._use(thing.__name__, thing)
        elif not in_library(thing):
            self._unsure.append(f"{_name(thing)} is compiled")

    def _visit_function(self, function: Any) -> None:
        name = function.__qualname__
        if not in_library(function):
            self._visit_code(function)
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._use(f"{variable} in {name}", cell_contents(cell))

    def _visit_code(self, function: Any) -> None:
        name = function.__qualname__
        self._add(CODE + name, bytecode(function.__code__, function.__doc__))
        self._visit_names(function)
        defaults = function.__defaults__ or ()
        named = function.__code__.co_varnames[: function.__code__.co_argcount][-len(defaults) or None :]
        given = {**dict(zip(named, defaults, strict=False)), **(function.__kwdefaults__ or {})}
        for argument, value in given.items():
            self._use(f"{argument}= of {name}", value)
        for attribute, value in vars(function).items():
            self._use(f"{name}.{attribute}", value)

    def _visit_names(self, function: Any) -> None:
        names: dict[str, None] = {}
        for code in code_with_nested(function.__code__):
            self._used.update(code.co_names)
            instructions = dis.get_instructions(code)
            names |= {step.argval: None for step in instructions if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
            outside = sorted(_OUTSIDE.intersection(code.co_names))
            if outside:
                self._unsure.append(f"{function.__qualname__} uses {outside[0]}, whose source may change unseen")
        for name in names:
            if name in function.__globals__:
                self._use(f"global {name}", function.__globals__[name])


def _name(thing: Any) -> str:
    return f"{getattr(thing, '__module__', None)}.{getattr(thing, '__qualname__', type(thing).__qualname__)}"
