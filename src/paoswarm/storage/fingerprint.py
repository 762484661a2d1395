"""Checksums of code, which change when the code is edited."""

from __future__ import annotations

import inspect
import sys
import sysconfig
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType
from typing import Any


def checksum(thing: Any, also: Callable[[Any], str] = lambda part: "") -> str:
    """Return a checksum of the code of a function, or of all methods of a class; empty for library code.

    Functions that it calls are not included. ``also`` turns default arguments and the variables of a closure into text
    that is included.
    """
    functions = [thing]
    if inspect.isclass(thing):
        members = [member for one in thing.__mro__ for member in vars(one).values()]
        properties = [member for member in members if isinstance(member, property)]
        functions = [*members, *(part for one in properties for part in (one.fget, one.fset))]
    text = []
    for function in functions:
        function = getattr(function, "__func__", function)  # unwrap static and class methods
        is_generated = inspect.isfunction(function) and function.__code__.co_filename == "<string>"  # by dataclasses
        if inspect.isfunction(function) and not is_generated and not in_library(function):
            closure = [cell_contents(cell) for cell in function.__closure__ or ()]
            defaults = [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
            text.append(bytecode(function.__code__) + also([defaults, closure]))
    return f"{zlib.crc32(' '.join(text).encode()):08x}" if text else ""


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
    return file.startswith(_folders()) or "site-packages" in file or "dist-packages" in file


@cache
def _folders() -> tuple[str, ...]:
    return tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def cell_contents(cell: Any) -> Any:
    """Return the value of a variable of a closure; None if it is not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def code_with_nested(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions in it."""
    yield code
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from code_with_nested(constant)


def bytecode(code: CodeType, doc: str | None = None) -> str:
    """Return what a function does as text, without line numbers and the docstring."""
    constants = ["doc" if doc is not None and c == doc else _constant(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _constant(constant: Any) -> str:
    if inspect.iscode(constant):
        return bytecode(constant)
    if isinstance(constant, tuple):
        return str([_constant(part) for part in constant])
    if isinstance(constant, frozenset):  # its order differs between processes
        return str(sorted(map(repr, constant)))
    return repr(constant)
