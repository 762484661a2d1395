"""Run a program to its end, and find it before."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from paoswarm.evaluate import child
from paoswarm.evaluate.interrupts import uninterrupted
from paoswarm.evaluate.program_output import CommandFailed, tail


def run_program(words: list[str] | str, folder: Path) -> str:
    """Run words, or a line of shell, in a folder; return what was written to stdout.

    Raises `CommandFailed` if the exit status is not 0. If this process is interrupted, the program is killed with
    everything it has started.
    """
    # In a child of ours it must end with the child, which is killed with its group. Elsewhere Ctrl-C is for us: a
    # program that is interrupted before we are would look as if it had failed.
    own_session = os.name == "posix" and not child.is_child()
    process: subprocess.Popen[str] | None = None
    try:
        with uninterrupted(blocked_in_children=False):
            process = _start(words, folder, own_session)
        out, err = process.communicate()
    except BaseException:
        if process is not None:
            _kill(process, own_session)
        raise
    if process.returncode:
        raise CommandFailed(": ".join(filter(None, [_ending(process.returncode), tail(err) or tail(out)])))
    return out


def _start(words: list[str] | str, folder: Path, own_session: bool) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            words,
            cwd=folder,
            shell=isinstance(words, str),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=own_session,
        )
    except OSError as error:
        program = words if isinstance(words, str) else words[0]
        raise type(error)(f"{program} cannot be started: {error.strerror}") from None


def _kill(process: subprocess.Popen[str], own_session: bool) -> None:
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
