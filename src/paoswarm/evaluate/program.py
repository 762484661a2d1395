"""Find a program, fill in values, run it to its end, and give every run a folder of its own."""

from __future__ import annotations

import math
import os
import platform
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from paoswarm._checks import choices
from paoswarm.evaluate import child
from paoswarm.evaluate.interrupts import uninterrupted
from paoswarm.evaluate.program_output import CommandFailed, WrongOutput, tail
from paoswarm.evaluate.watcher import prepare, unwatch, watch
from paoswarm.store.watch import is_running

_PLACE = re.compile(r"(?<!\$)\{([^\W\d]\w*)(?::([^{}\n]*))?\}")  # not ${name}, which is the shell's
_CLOSED = re.compile(  # escapes, quotes that have ended, and plain variables
    r"""\\.|(?<!\$)'[^']*'|"(?:\\.|\$(?!\()|[^"\\`$])*"|\$\{\w+\}""", re.DOTALL
)
# What may follow is not an argument of its own: its quotes end others or, as in arithmetic and comments, mean nothing.
_OPEN = re.compile(r"""['"`\\]|<<|\(\(|\$\[|\[\[|\$\{|(?:^|[\s;&|()])\#""")
_NOT_FOUND = 127  # exit status of a shell
MOST_BYTES = 2**24  # of an output that are kept, the last ones: tables are shorter, and a log need not be
_CHUNK = 2**16  # bytes: what a pipe holds
_GRACE_SECONDS = 1.0  # after the end of a program, for the output of what it has left behind
_LOOK_SECONDS = 0.1  # how often to look whether a program has ended while others keep its output open
_NOT_INPUT = ("*.paoswarm", "__pycache__")  # they change while a run goes on


class Written(NamedTuple):
    """What a program has written to stdout; its end, if it was much."""

    text: str
    is_whole: bool


def run_program(words: list[str] | str, folder: Path) -> Written:
    """Run words, or a line of shell, in a folder; return what was written to stdout.

    Raises `CommandFailed` if the exit status is not 0. If this process is interrupted or killed, the program is killed
    with everything it has started.
    """
    # In a child of ours it must end with the child, which is killed with its group. Elsewhere Ctrl-C is for us: a
    # program that is interrupted before we are would look as if it had failed.
    own_session = os.name == "posix" and not child.is_child()
    process: subprocess.Popen[bytes] | None = None
    try:
        with uninterrupted(blocked_in_children=False):
            if own_session:
                prepare()
            process = _start(words, folder, own_session)
            if own_session:
                watch(process.pid)
        out, err = _written(process)
    except BaseException:
        if process is not None:
            _kill(process, own_session)
        raise
    finally:
        if process is not None and own_session:
            unwatch(process.pid)
    if process.returncode:
        kind = WrongOutput if process.returncode == _NOT_FOUND else CommandFailed
        raise kind(": ".join(filter(None, [_ending(process.returncode), tail(err.text) or tail(out.text)])))
    return out


def _start(words: list[str] | str, folder: Path, own_session: bool) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            cwd=folder,
            shell=isinstance(words, str),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=own_session,
        )
    except OSError as error:
        program = words if isinstance(words, str) else words[0]
        raise type(error)(f"{program} cannot be started: {error.strerror}") from None


def _written(process: subprocess.Popen[bytes]) -> list[Written]:
    """Wait for the end of a program; return what was written to stdout and stderr.

    What it has started may go on and keep them open. That is waited for, but not long.
    """
    if os.name != "posix":  # there one cannot wait for two pipes
        return [_decoded(part) for part in process.communicate()]
    assert process.stdout is not None
    assert process.stderr is not None
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    give_up = math.inf
    with selectors.DefaultSelector() as still_open:
        for pipe in kept:
            still_open.register(pipe, selectors.EVENT_READ)
        while still_open.get_map() and time.monotonic() < give_up:
            for key, _ in still_open.select(_LOOK_SECONDS):
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    still_open.unregister(key.fd)
                kept[key.fd] += chunk
                if len(kept[key.fd]) > 2 * MOST_BYTES:
                    del kept[key.fd][:-MOST_BYTES]
            if give_up == math.inf and process.poll() is not None:
                give_up = time.monotonic() + _GRACE_SECONDS
    with process:  # waits for its end, and closes the pipes
        return [_decoded(part) for part in kept.values()]


def _decoded(written: bytes | bytearray) -> Written:
    """An output as text, with the ends of lines that Python uses; of a long one the last whole lines."""
    is_whole = len(written) < MOST_BYTES
    kept = written if is_whole else written[-MOST_BYTES:].partition(b"\n")[2]
    return Written(kept.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n"), is_whole)


def _kill(process: subprocess.Popen[bytes], own_session: bool) -> None:
    """Kill the program with everything it has started."""
    if own_session:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    with process:  # waits for its end, and closes the pipes
        pass


def check_program(program: str, folder: Path) -> None:
    """Raise a ValueError if there is no such program; one with a path is looked for in the folder."""
    if not os.path.dirname(program):
        if shutil.which(program) is None:
            here = f"; for the file in this folder write ./{program}" if (folder / program).is_file() else ""
            raise ValueError(f"there is no program {program}{here}")
    elif not (folder / program).is_file():
        raise ValueError(f"there is no program {program}")
    elif shutil.which(folder / program) is None:
        raise ValueError(f"{program} is not executable: use chmod +x, or name its interpreter, as in python {program}")


def split_words(command: str) -> list[str]:
    """The words of a command, as a shell would split them."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise ValueError(f"the command {command!r} cannot be split into words: {error}") from None


def _ending(code: int) -> str:
    if code > 0:
        return f"exit status {code}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def names_in(text: str) -> list[str]:
    """The names in braces, each once.

    Examples
    --------
    >>> names_in("./simulate {rate} --order={order:d} {rate} {}")
    ['rate', 'order']
    """
    return list(dict.fromkeys(name for name, _ in _PLACE.findall(text)))


def check_names(text: str, known: Collection[str]) -> None:
    """Raise a TypeError if a name in braces is not a variable."""
    for name in names_in(text):
        if name not in known:
            raise TypeError(f"the command has {{{name}}}, but there is no such variable; {choices(name, known)}")


def filled(text: str, values: Mapping[str, Any], quote: Callable[[str, str], str] = lambda value, _: value) -> str:
    """The text with values; names that are none of them stay as they are.

    A number is written so that it is read back to the last bit, unless there is a format. ``quote`` is called with each
    value and the text before it.

    Examples
    --------
    >>> filled("rate {rate:.2e} of {gain}, { 1 }", {"rate": 0.1, "gain": 1 / 3})
    'rate 1.00e-01 of 0.3333333333333333, { 1 }'
    """

    def value(match: re.Match[str]) -> str:
        name, form = match.groups()
        if name not in values:
            return match[0]
        try:
            return quote(format(values[name], form or ""), text[: match.start()])
        except (TypeError, ValueError) as error:
            raise TypeError(f"{match[0]} cannot show {values[name]!r}: {error}") from None

    return _PLACE.sub(value, text)


def quoted_for_shell(value: str, before: str) -> str:
    """A value in a line of shell. Raise a ValueError where the quotes that it needs would not keep it one argument.

    Examples
    --------
    >>> quoted_for_shell("a b", "./simulate ")
    "'a b'"
    >>> quoted_for_shell("0.5", "awk 'BEGIN { print ")
    '0.5'
    """
    quoted = shlex.quote(value)
    if quoted != value and _OPEN.search(_CLOSED.sub("", before)):
        raise ValueError("it is quoted already, or in arithmetic or a comment; write it as an argument of its own")
    return quoted


def input_files(case: Path) -> list[Path]:
    """The files that a copy of the folder gets, with paths relative to it."""
    files = sorted(path.relative_to(case) for path in case.rglob("*") if path.is_file())
    return [file for file in files if not any(fnmatch(part, kind) for part in file.parts for kind in _NOT_INPUT)]


@contextmanager
def run_folder(case: Path | None, keep: Path | None) -> Iterator[Path]:
    """A new folder with a copy of ``case``. It is removed, unless it lies in a folder to ``keep``."""
    if keep is None:
        _remove_left_over(os.getpid())
        prefix = f"{_own_prefix()}{os.getpid()}-"
    else:
        keep.mkdir(parents=True, exist_ok=True)
        prefix = "run-"
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=keep))
    try:
        if case is not None:
            shutil.copytree(case, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_NOT_INPUT))
        yield folder
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


@cache
def _remove_left_over(process: int) -> None:
    """Remove folders of processes that were killed, once in every ``process``: those could not do it themselves."""
    if os.name != "posix":
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_own_prefix()}*"):
        number = re.match(r"\d+(?=-)", folder.name.removeprefix(_own_prefix()))
        try:
            is_ours = folder.lstat().st_uid == os.getuid()
        except OSError:  # its process has just removed it
            continue
        if is_ours and number is not None and not is_running(int(number[0])):
            shutil.rmtree(folder, ignore_errors=True)


def _own_prefix() -> str:
    """With the name of the machine: others may share the folder, and have other processes."""
    return f"paoswarm-{re.sub('[^A-Za-z0-9]', '_', platform.node())}-"
