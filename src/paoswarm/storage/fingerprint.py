"""Checksums of code, which change when the code is edited."""

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
        if inspect.isfunction(function) and not _in_library(function):
            closure = [_contents(cell) for cell in function.__closure__ or ()]
            defaults = [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
            text.append(_bytecode(function.__code__) + also([defaults, closure]))
    return f"{zlib.crc32(' '.join(text).encode()):08x}" if text else ""


def objective_checksum(fun: Any) -> str:
    """Return a checksum of an objective: a function, method, partial or callable object; empty for library code.

    It starts with the Python version, because every version compiles to other bytecode.
    """
    given = []  # constants bound to arguments; variables of a closure are left out, since they may count calls
    while isinstance(fun, partial):
        given += [*fun.args, *fun.keywords.values()]
        fun = fun.func
    fun = getattr(fun, "__func__", fun)
    given += [*(getattr(fun, "__defaults__", None) or ()), *(getattr(fun, "__kwdefaults__", None) or {}).values()]
    code = checksum(fun if inspect.isroutine(fun) or inspect.isclass(fun) else type(fun))
    if code:
        code += f"{zlib.crc32(repr([each for each in given if isinstance(each, _PLAIN)]).encode()):08x}"
    return f"{sys.version_info[0]}.{sys.version_info[1]}:{code}" if code else ""


def _in_library(function: Any) -> bool:
    file = function.__code__.co_filename
    typed_in = file.startswith(("<stdin", "<ipython", "<python-input"))
    generated = file.startswith("<") and not typed_in  # for example by dataclasses
    in_python = file.startswith(sysconfig.get_path("stdlib"))
    ours = (function.__module__ or "").startswith("paoswarm.")
    return generated or in_python or ours or "site-packages" in file


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _bytecode(code: Any) -> str:
    constants = [_constant(c) for c in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _constant(constant: Any) -> str:
    if inspect.iscode(constant):
        return _bytecode(constant)
    if isinstance(constant, frozenset):  # its order differs between processes
        return str(sorted(map(repr, constant)))
    return repr(constant)
