"""Checksums of code, by which an edit shows."""

from __future__ import annotations

import inspect
import sys
import sysconfig
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

_PLAIN = (int, float, complex, str, bytes)


def checksum(thing: Any, also: Callable[[Any], str] = lambda part: "") -> str:
    """Of the code of a function, or of all methods of a class, that is not part of a library; or nothing.

    What it calls elsewhere is not looked at. ``also`` gives text for defaults and for what a closure has captured.
    """
    functions = [thing]
    if inspect.isclass(thing):
        functions = [part for one in thing.__mro__ for part in vars(one).values()]
    text = []
    for function in functions:
        function = getattr(function, "__func__", function)  # of static and class methods
        if inspect.isfunction(function) and not _in_library(function):
            bound = [_contents(cell) for cell in function.__closure__ or ()]
            text.append(_bytecode(function.__code__) + also([list(function.__defaults__ or ()), bound]))
    return f"{zlib.crc32(' '.join(text).encode()):08x}" if text else ""


def objective_checksum(fun: Any) -> str:
    """Of an objective: a function, a method, a partial or an object that can be called. Each Python has its own."""
    given = []  # constants that are bound to its arguments: what a closure has captured may count calls
    while isinstance(fun, partial):
        given += [*fun.args, *fun.keywords.values()]
        fun = fun.func
    fun = getattr(fun, "__func__", fun)
    given += [*(getattr(fun, "__defaults__", None) or ()), *(getattr(fun, "__kwdefaults__", None) or {}).values()]
    of_code = checksum(fun if inspect.isroutine(fun) or inspect.isclass(fun) else type(fun))
    if of_code:
        of_code += f"{zlib.crc32(repr([each for each in given if isinstance(each, _PLAIN)]).encode()):08x}"
    return f"{sys.version_info[0]}.{sys.version_info[1]}:{of_code}" if of_code else ""


def _in_library(function: Any) -> bool:
    file = function.__code__.co_filename
    typed_in = file.startswith(("<stdin", "<ipython", "<python-input"))
    generated = file.startswith("<") and not typed_in  # by dataclasses, say
    of_python = file.startswith(sysconfig.get_path("stdlib"))
    ours = (function.__module__ or "").startswith("paoswarm.")
    return generated or of_python or ours or "site-packages" in file


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None


def _bytecode(code: Any) -> str:
    constants = [_constant(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _constant(constant: Any) -> str:
    if inspect.iscode(constant):
        return _bytecode(constant)
    if isinstance(constant, frozenset):  # whose order is another in each process
        return str(sorted(map(repr, constant)))
    return repr(constant)
