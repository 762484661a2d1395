"""A folder of its own for every run of a program, removed afterwards."""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from paoswarm.store.watch import is_running

_NOT_INPUT = ("*.paoswarm", "__pycache__")  # they change while a run goes on


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
