"""End programs with this process, however it dies: a shell waits for its end, and kills those that still run.

A process that is killed cannot do it itself. A program that went on would work beside the one that the resumed run
starts.
"""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import suppress

# Reads the process groups that begin (+) and end (-). Its input ends with this process, which alone can write to it.
_WATCHER = """
running=" "
while read -r sign group; do
  case $sign in
    +) running="$running$group " ;;
    -) running="${running%% $group *} ${running#* $group }" ;;
  esac
done
for group in $running; do kill -s KILL -- "-$group"; done
"""
_pipe: int | None = None  # to the watcher of this process
_starting = threading.Lock()


def prepare() -> int:
    """Start the watcher if there is none, before the program that it shall know at once; the pipe to it."""
    global _pipe
    with _starting:
        if _pipe is None:
            _pipe = _start()
        return _pipe


def watch(group: int) -> None:
    """Kill this process group when the present process ends."""
    _tell(f"+ {group}\n")


def unwatch(group: int) -> None:
    """Forget a process group; call it at once when it has ended, because its number may be used again."""
    _tell(f"- {group}\n")


def _tell(line: str) -> None:
    with suppress(OSError):  # somebody has killed it
        os.write(prepare(), line.encode())


def _start() -> int:
    """Start the watcher and return the end of the pipe to which its input is written."""
    theirs, ours = os.pipe()
    null = subprocess.DEVNULL
    try:
        watcher = subprocess.Popen(
            ["sh", "-c", _WATCHER, "paoswarm-watcher"], stdin=theirs, stdout=null, stderr=null, start_new_session=True
        )
        watcher.returncode = 0  # nobody waits for it, because it ends last
    except OSError:  # a system without a shell: programs are watched no more than before
        pass
    finally:
        os.close(theirs)
    return ours


def _close_in_child() -> None:
    """Leave the watcher to the parent: it would wait for a forked process, too."""
    global _pipe, _starting
    _starting = threading.Lock()
    if _pipe is not None:
        os.close(_pipe)
        _pipe = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
