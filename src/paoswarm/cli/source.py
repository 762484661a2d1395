"""The function or program that a command names, and how it is found again by ``paoswarm resume``."""

from __future__ import annotations

import argparse
import importlib
import math
import re
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from paoswarm import Command, Returned
from paoswarm.cli.options import NamedUnknowns, given_of
from paoswarm.cli.trust import checksums, file_of
from paoswarm.helpers import describe_error


class Source(NamedTuple):
    """The files that hold the function, its constraints, its method, and the penalty of a fit."""

    folder: str  # in which files and modules are looked for
    function: str | None = None
    command: dict[str, Any] | None = None  # the settings of a `Command`
    constraints: list[str] | None = None
    limits: list[str] | None = None  # on numbers that the program writes
    method: str | None = None  # if it is an object of the user
    penalty: str | None = None  # of a fit
    x: str | None = None  # what the places of its data are called
    checksums: dict[str, str] | None = None  # of what the others name, when the run was started

    @classmethod
    def of(cls, options: argparse.Namespace) -> Source:
        """The source that the options name; raise if there is none, or two."""
        command = command_settings(options)
        if (options.function is None) == (command is None):
            raise ValueError("give either a function, as FILE.py:FUNCTION, or --command with a program")
        if command is not None and getattr(options, "vectorized", None):
            raise ValueError("--vectorized is for functions; a program takes one point at a time")
        more = given_of(options, "constraints", "penalty", "x", "method")
        if ":" not in more.get("method", ":"):
            del more["method"]  # one of ours
        return cls(str(Path.cwd()), options.function, command, limits=getattr(options, "limit", None), **more)

    @classmethod
    def recorded(cls, origin: Any, path: Any) -> Source:
        """The source that a store names."""
        known = {name: origin.get(name) for name in cls._fields} if origin else {}
        if not known or not _is_source(known):
            raise ValueError(
                f"{path} does not say which function it belongs to, because it was not started by this command; "
                "give it: --fun FILE.py:FUNCTION or --command"
            )
        source = cls(**known)
        return source if Path(source.folder).is_dir() else source._replace(folder=str(Path.cwd()))

    @property
    def origin(self) -> dict[str, Any]:
        """The entries that a store keeps."""
        entries = self._replace(checksums=checksums(self))._asdict()
        return {name: value for name, value in entries.items() if value is not None}

    @property
    def named(self) -> dict[str, Any]:
        """What it imports, by option."""
        names = ("function", "constraints", "method", "penalty")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def objects(self) -> list[str]:
        """The files or modules that it imports."""
        named = [name for entry in self.named.values() for name in ([entry] if isinstance(entry, str) else entry)]
        return [name.rpartition(":")[0] for name in named]

    def program(self) -> Command:
        """The program, in the folder of the source."""
        assert self.command is not None
        try:
            return Command(**{**self.command, "cwd": self.folder})
        except TypeError as error:  # a store with other settings
            raise ValueError(f"the command cannot be rebuilt: {error}") from None

    def load(self, unknowns: NamedUnknowns | None = None) -> Any:
        """The function; a program is checked against the unknowns."""
        if self.function is not None:
            return imported(self.function, self.folder, must_call=True)
        command = self.program()
        if unknowns is not None:
            command.check(unknowns.names, unknowns.free)
        return command

    def more(self) -> dict[str, Any]:
        """Constraints, method and penalty, as arguments of the library."""
        found: dict[str, Any] = {}
        if self.penalty is not None:
            found["penalty"] = imported(self.penalty, self.folder, must_call=True)
        if self.constraints:
            found["constraints"] = [imported(name, self.folder) for name in self.constraints]
        if self.limits:
            patterns, lb, ub = zip(*map(read_limit, self.limits), strict=True)
            returned = Returned(len(patterns), lb=lb, ub=ub, name=", ".join(patterns))
            found["constraints"] = [*found.get("constraints", []), returned]
        if self.method is not None:
            made = imported(self.method, self.folder)
            found["method"] = made() if isinstance(made, type) else made
        return found


def _is_source(known: dict[str, Any]) -> bool:
    """Return whether every entry has the right type: a file may hold anything."""
    kinds = {"command": dict, "constraints": list, "limits": list, "checksums": dict}
    lists = [known["constraints"] or [], known["limits"] or []]
    return (
        all(value is None or isinstance(value, kinds.get(name, str)) for name, value in known.items())
        and all(isinstance(text, str) for some in lists for text in some)
        and known["folder"] is not None
        and (known["function"] is None) != (known["command"] is None)
    )


def command_settings(options: argparse.Namespace) -> dict[str, Any] | None:
    """The settings of the program that the options describe; None if there is none."""
    names = ("folder", "value_from", "pattern", "factor", "shell", "keep")
    settings = given_of(options, *names) | ({"templates": options.template} if options.template else {})
    limits = getattr(options, "limit", None)
    settings |= {"also": [read_limit(text)[0] for text in limits]} if limits else {}
    if options.command is None:
        if settings:
            used = {"templates": "template", "also": "limit", "value_from": "value-from"}
            name = next(iter(settings))
            raise ValueError(f"--{used.get(name, name)} is an option of an external program: give --command too")
        return None
    return Command(options.command, **settings).settings


def read_limit(text: str) -> tuple[str, float, float]:
    """The pattern of ``--limit``, and between which ends its number must lie.

    Examples
    --------
    >>> read_limit("stress <= 250")
    ('stress', -inf, 250.0)
    """
    found = re.fullmatch(r"(.*\S)\s*(<=|>=)([^<=>]*)", text.strip())
    try:
        if found is None:
            raise ValueError
        number = float(found[3])
    except ValueError:
        raise ValueError(f'--limit: {text!r} must be REGEX<=NUMBER or REGEX>=NUMBER, as in "stress<=250"') from None
    return (found[1], -math.inf, number) if found[2] == "<=" else (found[1], number, math.inf)


def imported(name: str, folder: str, *, must_call: bool = False) -> Any:
    """Import ``file.py:name`` or ``package.module:name`` from a folder or an installed package."""
    module, colon, inside = name.rpartition(":")
    if not (module and colon and inside):
        raise ValueError(f"the function must be FILE.py:FUNCTION or package.module:function, got {name!r}")
    found = _module(module, folder)
    for part in inside.split("."):
        if not hasattr(found, part):
            raise ValueError(f"{name}: there is no {part!r} in {getattr(found, '__name__', inside)}")
        found = getattr(found, part)
    if must_call and not callable(found):
        raise ValueError(f"{name} is not a function, but {type(found).__name__}")
    return found


def _module(name: str, folder: str) -> Any:
    path = Path(folder, name) if name.endswith(".py") else None
    if path is not None and not path.is_file():
        raise ValueError(f"{name}: there is no such file")
    # Workers that are started anew import the function by the same name, so its folder is on the path.
    sys.path.insert(0, str(Path(folder) if path is None else path.parent))
    module = name if path is None else path.stem
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        is_it = error.name is not None and f"{module}.".startswith(f"{error.name}.")
        hint = "; for a file write FILE.py:FUNCTION" if is_it and path is None else ""
        raise ImportError(f"{name}: {error}{hint}") from None
    except (Exception, SystemExit) as error:  # it is the user's code
        raise ValueError(f"{name} cannot be imported: {describe_error(error)}{_place(error)}") from None
    file = path or file_of(name, folder)
    if file is not None and Path(found.__file__ or "").resolve() != file.resolve():
        raise ValueError(f"{name}: another module is called {module}, too; rename the file")
    return found


def _place(error: BaseException) -> str:
    """The line of the user's code in which an import has failed."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return f" ({Path(last[0].filename).name}, line {last[0].lineno})" if last and last[0].lineno else ""
