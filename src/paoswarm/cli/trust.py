"""What a stored run would start: all of it is named, and asked about unless it is surely the user's own.

A file may come from somebody else. So nothing that it names is imported or started without a question, unless that
lies in the current folder and has the contents that it had when the run was started.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paoswarm.helpers import printable

if TYPE_CHECKING:
    from paoswarm.cli.source import Source

_PYTHON = re.compile(r"python[\d.]*")  # of which the program is the script that follows
_SHOWN = {  # by option, the entry of a source or of its command
    "fun": "function",
    **{name: name for name in ("command", "shell", "folder")},
    "template": "templates",
    "value-from": "value_from",
    **{name: name for name in ("keep", "constraints", "method", "penalty")},
}


def admit(source: Source, file: Any, is_trusted: bool) -> None:
    """Say what a file would run; ask, or raise a ValueError, if it may not be the user's own."""
    print(f"paoswarm: {file} goes on with {_in_a_line(described(source))}", file=sys.stderr)
    doubts = [] if is_trusted else doubts_about(source)
    if not doubts:
        return
    why = _in_a_line("; ".join(doubts))
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise ValueError(f"{file}: {why}. If it is yours, add --trust; or state what to run, with --fun or --command")
    print(f"paoswarm: {why}. Run it? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ValueError("nothing was run; to state what to run, give --fun or --command")


def described(source: Source) -> str:
    """Everything that a source runs, reads and makes, as options of the command line, and its folder."""
    named = {**(source.command or {}), **source.named}
    words = []
    for option, entry in _SHOWN.items():
        for value in _several(named.get(entry)):
            words += [f"--{option}"] if value is True else [f"--{option}", shlex.quote(str(value))]
    return f"{' '.join(words)} in {source.folder}"


def _in_a_line(text: str) -> str:
    """A text of a file, which can neither control the terminal nor look like a line of ours."""
    return printable(text).replace("\n", "\\n")


def doubts_about(source: Source) -> list[str]:
    """Why a source may be that of somebody else, or may have changed; nothing is read outside of the current folder."""
    here = Path.cwd().resolve()
    if Path(source.folder).resolve() != here:
        return ["that is not the current folder"]
    if (source.command or {}).get("shell"):
        return ["a shell runs it"]
    outside = [name for name in source.objects if file_of(name, source.folder) is None]
    if source.command is not None:
        outside += _outside(source.command, here)
    if outside:
        return [f"{name} is not a file of this folder" for name in outside]
    before = source.checksums or {}
    changed = [name for name, now in checksums(source).items() if before.get(name) != now]
    return [f"{', '.join(changed)} has changed since it was recorded"] if changed else []


def _outside(command: dict[str, Any], here: Path) -> list[str]:
    """The program and the files of a command, as far as they do not lie in this folder."""
    case, words = command.get("folder"), [*str(command.get("command")).split(), "", ""]
    script = words[1] if _PYTHON.fullmatch(words[0]) else words[0]
    is_found_here = script is not words[0] or os.path.dirname(script)  # else it is looked for in the system
    places = [here / case, here] if isinstance(case, str) else [here]
    programs = [place / script for place in places if is_found_here and (place / script).is_file()]
    inputs = [str(name) for entry in (case, command.get("templates")) for name in _several(entry) if name is not True]
    return [
        *([] if programs and all(_is_inside(program, here) for program in programs) else [script]),
        *(name for name in inputs if not ((here / name).exists() and _is_inside(here / name, here))),
        *(str(name) for name in _several(command.get("keep")) if not _is_inside(here / str(name), here)),
    ]


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder)


def checksums(source: Source) -> dict[str, str]:
    """What the files in its folder hold that a source names, and the settings of its program."""
    files = {name: file_of(name, source.folder) for name in source.objects}
    found = {name: hashlib.blake2b(path.read_bytes()).hexdigest()[:16] for name, path in files.items() if path}
    if source.command is not None:
        parts = source.program().fingerprint_parts().items()
        found |= {name: f"{zlib.crc32(repr(part).encode()):08x}" for name, part in parts}
    return found


def file_of(name: str, folder: str) -> Path | None:
    """The file of ``file.py`` or ``package.module`` in a folder; None if it is not there."""
    inside = name.replace(".", "/")
    for candidate in [name] if name.endswith(".py") else [f"{inside}/__init__.py", f"{inside}.py"]:
        path = Path(folder, candidate).resolve()
        if path.is_file() and _is_inside(path, Path(folder).resolve()):
            return path
    return None


def _several(given: Any) -> list[Any]:
    """What an entry of a command holds that is not empty; a file may hold anything."""
    return [one for one in (given if isinstance(given, list) else [given]) if one]
