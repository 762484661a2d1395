"""An append-only file of records, one JSON object per line, each with a checksum.

The last entry of every line is ``"crc"``, the CRC-32 of the text before it; ``jq`` and pandas read the file as it is.
The first line is the header. A record is one write, so a crash can only leave a torn last line, which is cut off when
the file is opened for writing; anything bad *before* a good record is damage, and refused. Nothing is ever rewritten,
and reading executes nothing.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import weakref
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

logger = logging.getLogger("paoswarm")
logger.addHandler(logging.NullHandler())  # otherwise Python would print warnings of programs that set up no logging

SCHEMA = 1
_MAGIC = b'{"paoswarm":"evaluations"'
_SEAL = b',"crc":"%08x"}\n'
_SEAL_LENGTH = len(_SEAL % 0)

Record = dict[str, Any]


class StoreError(ValueError):
    """A store that cannot be used as it is; it was not changed."""


class DamagedStore(StoreError):
    """A file with something bad before good records; repair or remove it."""


class StoreInUse(StoreError):
    """Another run is writing to the file."""


def encode(record: Record) -> bytes:
    """A record as a line; ValueError for numbers that JSON does not have."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return text + _SEAL % zlib.crc32(text)


def decode(line: bytes) -> Record | None:
    """The record of a line; None where the line is torn or damaged."""
    text, seal = line[:-_SEAL_LENGTH], line[-_SEAL_LENGTH:]
    if seal != _SEAL % zlib.crc32(text):
        return None
    try:
        record = json.loads(text + b"}")
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


class Reader:
    """Reads the records of a file that may still be growing, without a lock.

    Attributes
    ----------
    path : Path
    good : int
        Bytes of the records read so far; behind them there may be a torn one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.good = 0

    def header(self) -> Record | None:
        """The first record; None for an empty file and for one that was killed while its header was written.

        Raises `StoreError` for a file that is not ours, or from a later version.
        """
        with self.path.open("rb") as file:
            line = file.readline()
        if line[: len(_MAGIC)] != _MAGIC[: len(line)]:
            raise StoreError(f"{self.path} is not a store of paoswarm; it was not touched, choose another name")
        if not line.endswith(b"\n"):
            return None
        schema = None
        with suppress(ValueError, TypeError, KeyError):  # before the checksum, which a later version may compute anew
            schema = json.loads(line)["schema"]
        if isinstance(schema, int) and schema > SCHEMA:
            raise StoreError(
                f"{self.path} was written in format {schema} by a later version of paoswarm, this one knows format "
                f"{SCHEMA}: update paoswarm; the file was not touched"
            )
        record = decode(line)
        if record is None or not {"versions", "run"} <= record.keys():
            raise DamagedStore(f"{self.path} is damaged in its first line; it was not touched")
        return record

    def records(self) -> Iterator[Record]:
        """The records that have come since the last call."""
        bad = None
        with self.path.open("rb") as file:
            file.seek(self.good)
            for line in file:
                if not line.endswith(b"\n"):  # torn, or just being written: what follows may have come meanwhile
                    break
                record = decode(line)
                if record is None:
                    bad = self.good if bad is None else bad
                elif bad is not None:
                    raise DamagedStore(
                        f"{self.path} is damaged at byte {bad}, and good records follow; it was not touched"
                    )
                else:
                    self.good += len(line)
                    yield record


class Log:
    """A file of records, open for appending by this process alone.

    Parameters
    ----------
    path : path
        Made if it is not there; its folder must be.
    fsync : bool
        Whether every record is on the disk before `append` returns, so that it survives a loss of power. Without, it
        is with the operating system, and survives the death of this process.
    """

    def __init__(self, path: str | os.PathLike[str], fsync: bool = True) -> None:
        self.path = Path(path)
        self._fsync = fsync
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o644)
        except OSError as error:
            raise OSError(f"cannot write the store {self.path}: {error.strerror or error}") from error
        try:
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise StoreError(f"the store {self.path} is not a regular file; choose another name")
            try:
                alone = locked(self._fd)
            except OSError as error:  # a file system without locks
                logger.warning("%s cannot be locked (%s): take care that nobody else writes to it", self.path, error)
                alone = True
            if not alone:
                raise StoreInUse(f"{self.path} is being written by {_writer(self.path)}; a store has one writer")
            self.reader = Reader(self.path)
            self.header = self.reader.header()
        except BaseException:
            os.close(self._fd)
            raise
        _open.add(self)

    def recover(self) -> None:
        """Cut off what a crash left behind the good records, once ``reader`` has read them all."""
        torn = os.fstat(self._fd).st_size - self.reader.good
        if torn:
            logger.warning("%s: cut off %d bytes of a record that a crash left unfinished", self.path, torn)
            os.ftruncate(self._fd, self.reader.good)

    def start(self, header: Record) -> None:
        """Write the first record; the file's name is then on disk as well."""
        self.header = {"paoswarm": "evaluations", "schema": SCHEMA, **header}
        self.append(self.header)
        if self._fsync and hasattr(os, "O_DIRECTORY"):
            folder = os.open(self.path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def append(self, record: Record) -> None:
        """Add a record; it is safe once this returns. Where it cannot be written, the file stays as it was."""
        line = encode(record)
        before = os.fstat(self._fd).st_size
        try:
            rest = memoryview(line)
            while rest:  # the first write of a disk that is almost full is a short one, the second fails
                rest = rest[os.write(self._fd, rest) :]
            if self._fsync:
                os.fsync(self._fd)
        except OSError as error:
            with suppress(OSError):  # what is left then is a torn record, as after a crash
                os.ftruncate(self._fd, before)
            raise OSError(
                error.errno,
                f"cannot write to the store {self.path} ({error.strerror or error}); what it holds is safe, and the "
                "same call goes on from there",
            ) from error

    def close(self) -> None:
        """Give the file and its lock back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_open: weakref.WeakSet[Log] = weakref.WeakSet()


def _close_in_child() -> None:
    """Worker processes do not inherit the lock: they may outlive a run that is killed."""
    for log in _open:
        log.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def locked(file: Any) -> bool:
    """Take the lock of an open file, which ends with the process that holds it; False where another one has it."""
    try:
        import fcntl
    except ImportError:  # elsewhere an open file cannot be removed anyway
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _writer(path: Path) -> str:
    """Who has the file open, as far as it says so."""
    last: Record = {}
    with suppress(OSError, StoreError):
        for record in Reader(path).records():
            last = record.get("open", last)
    return f"process {last['pid']} on {last['host']}" if "pid" in last else "another process"
