"""An append-only file of records: one JSON object per line, each with a checksum.

- The first line is the header. The last entry of every line is ``"crc"``, the CRC-32 of the text before it. ``jq`` and
  pandas can read the file.
- A record is a single write, so a crash can only leave one unfinished record at the end: its beginning, or zeros in
  place of pages that were never written. It is cut off when the file is next opened for writing. Anything else is
  damage, and the file is refused.
- Nothing is rewritten, and reading executes nothing. Only `Log.replace` drops records that newer ones make useless: it
  puts a new file in the place of the old one, whole or not at all.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from paoswarm.store.records import check_header

logger = logging.getLogger("paoswarm")
logger.addHandler(logging.NullHandler())  # otherwise Python prints warnings to stderr if no logging is set up

SCHEMA = 1
_FIRST_BYTES = b'{"paoswarm":"evaluations"'
_CHECKSUM = b',"crc":"%08x"}\n'
_CHECKSUM_LENGTH = len(_CHECKSUM % 0)
_LONGEST = 2**28  # bytes of a line
_TORN = 2**20  # bytes of a header that may have been lost by a power failure
_HOLE = b"\0" * 64  # a page that was never written, or a part of one
_PIECE = b'{"piece":'  # how records of parts of arrays begin
_PATIENCE = 0.2  # seconds to wait for the lock: a killed process keeps it for a few milliseconds

Record = dict[str, Any]


class StoreError(ValueError):
    """The store cannot be used as it is; it was not changed."""


class DamagedStore(StoreError):
    """The file holds something that no crash leaves. It was not changed: repair or remove it."""


class StoreInUse(StoreError):
    """Another run is writing to the file."""


def encode(record: Record) -> bytes:
    """Return the record as a line; raise a ValueError for NaN and infinity, which JSON does not have."""
    text = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()[:-1]
    return text + _CHECKSUM % zlib.crc32(text)


def _has_right_checksum(line: bytes) -> bool:
    return line[-_CHECKSUM_LENGTH:] == _CHECKSUM % zlib.crc32(line[:-_CHECKSUM_LENGTH])


def decode(line: bytes) -> Record | None:
    """Return the record of a line; None if the line is incomplete or damaged."""
    if not _has_right_checksum(line):
        return None
    try:
        record = json.loads(line[:-_CHECKSUM_LENGTH] + b"}")
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; anything else, such as a pipe that would be waited for, is a `StoreError`."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise StoreError(f"{path} is not a regular file; choose another name for the store")
    return os.fdopen(fd, "rb")


def _is_unfinished(line: bytes) -> bool:
    """Whether a crash may have left this as the last record: its beginning, or a hole in it."""
    if _HOLE in line:
        return True
    text = line.rstrip(b"\0")
    if text.endswith(b"\n") or not (text.startswith(b'{"') or b'{"'.startswith(text)):
        return False
    end = text.find(_CHECKSUM[:8])
    return end < 0 or len(text) - end < _CHECKSUM_LENGTH  # else another record follows in this line


class Reader:
    """Reads the records of a file that may still be growing, without a lock.

    Attributes
    ----------
    path : Path
    good_bytes : int
        Length of the records read so far. An unfinished record may follow them.
    good_lines : int
        Their number.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.good_bytes = self.good_lines = 0
        self._file: tuple[int, int] | None = None  # which one was read: another may take its place

    def header(self) -> Record | None:
        """Return the first record; None if the file is empty or its header is incomplete.

        Raises `StoreError` if the file is not a store or was written by a later version.
        """
        with open_regular(self.path) as file:
            start = file.read(len(_FIRST_BYTES))
            file.seek(0)
            if start != _FIRST_BYTES[: len(start)] or _HOLE in start:
                if self._is_torn(file.read(_TORN + 1)):
                    return None
                raise StoreError(f"{self.path} is not a paoswarm store; it was not changed, choose another name")
            line = file.readline(_LONGEST)
            rest = file.read(1)
        if not rest and _is_unfinished(line):
            return None
        schema = None
        # Before the checksum, which a later version may compute differently.
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            schema = json.loads(line)["schema"]
        if isinstance(schema, int) and schema > SCHEMA:
            raise StoreError(
                f"{self.path} has format {schema} of a later version of paoswarm, and this version reads format "
                f"{SCHEMA}: update paoswarm. The file was not changed"
            )
        record = decode(line)
        if record is None:
            raise self.damaged("its checksum is wrong", 1)
        try:
            check_header(record)
        except ValueError as error:
            raise self.damaged(str(error), 1) from error
        return record

    @staticmethod
    def _is_torn(data: bytes) -> bool:
        """Whether this is a header that a power failure has left with zeros, and nothing after it."""
        start = zip(data, _FIRST_BYTES, strict=False)  # the file may be shorter
        is_ours = all(byte in (0, expected) for byte, expected in start)
        is_one_line = b"\n" not in data.rstrip(b"\0")[:-1]
        return 0 < len(data) <= _TORN and b"\0" in data and is_ours and is_one_line

    def damaged(self, why: str, line: int | None = None) -> DamagedStore:
        """Return the error for a line, by default the last one that was read; the first line is the header."""
        line = self.good_lines if line is None else line
        advice = f", or keep a copy and cut the file before that line (head -n {line - 1})" if line > 1 else ""
        return DamagedStore(
            f"{self.path} is damaged in line {line}: {why}. A crash leaves no such thing. The file was not changed: "
            f"choose another store{advice}"
        )

    def records(self, *, with_evaluations: bool = True, with_pieces: bool = False) -> Iterator[Record]:
        """Yield the records that were added since the last call; if wanted without the many of evaluations.

        Pieces of arrays are only yielded if wanted. If another file has taken the place of the one that was read, all
        of its records are yielded, the header first.
        """
        skipped = (*(() if with_evaluations else (b'{"i":',)), *(() if with_pieces else (_PIECE,)))
        with open_regular(self.path) as file:
            found = os.fstat(file.fileno())
            which = found.st_dev, found.st_ino
            if self._file not in (None, which) or found.st_size < self.good_bytes:
                self.good_bytes = self.good_lines = 0
            self._file = which
            file.seek(self.good_bytes)
            while line := file.readline(_LONGEST):
                is_skipped = bool(skipped) and line.startswith(skipped) and _has_right_checksum(line)
                record = {} if is_skipped else decode(line)
                if record is None:
                    is_cut_by_us = len(line) == _LONGEST or line.endswith(b"\n")  # else there is nothing more yet
                    if not _is_unfinished(line) or (is_cut_by_us and file.read(1)):
                        raise self.damaged("its checksum is wrong", self.good_lines + 1)
                    return  # unfinished, or still being written
                self.good_bytes += len(line)
                self.good_lines += 1
                if not is_skipped:
                    yield record


class Log:
    """A file of records, open for appending by this process alone.

    Parameters
    ----------
    path : path
        Created if it does not exist; its folder must exist.
    fsync : bool
        Whether every record is on the disk before `append` returns, so that it survives a power failure. Otherwise the
        operating system writes it later: it survives the death of this process, but not a power failure.
    """

    def __init__(self, path: str | os.PathLike[str], fsync: bool = True) -> None:
        self.path = Path(path)
        self._fsync = fsync
        try:
            how = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
            self._fd = os.open(self.path, how, 0o644)
        except OSError as error:
            raise OSError(f"cannot write the store {self.path}: {error.strerror or error}") from error
        try:
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise StoreError(f"the store {self.path} is not a regular file; choose another name")
            try:
                has_lock = _wait_for_lock(self._fd)
            except OSError as error:  # a file system without locks
                logger.warning("%s cannot be locked (%s): make sure that no other run writes to it", self.path, error)
                has_lock = True
            if not has_lock or not _is_named(self._fd, self.path):
                raise StoreInUse(
                    f"{self.path} is in use by {_describe_writer(self.path)}; only one run can write to a store"
                )
            self._remove_draft()
            self.reader = Reader(self.path)
            self.header = self.reader.header()
        except BaseException:
            os.close(self._fd)
            raise
        _open_logs.add(self)

    def recover(self) -> None:
        """Cut off an unfinished record that a crash has left; call it once ``reader`` has read all records."""
        incomplete = os.fstat(self._fd).st_size - self.reader.good_bytes
        if incomplete:
            size = f"{incomplete} byte{'' if incomplete == 1 else 's'}"
            logger.warning("%s: cut off an unfinished record of %s, left by a crash", self.path, size)
            os.ftruncate(self._fd, self.reader.good_bytes)

    def start(self, header: Record) -> None:
        """Write the first record, and make sure that the name of the file is on disk too."""
        self.header = {"paoswarm": "evaluations", "schema": SCHEMA, **header}
        self.append(self.header)
        self._sync_folder()

    def _sync_folder(self) -> None:
        if self._fsync and hasattr(os, "O_DIRECTORY"):
            folder = os.open(self.path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def append(self, record: Record) -> None:
        """Add a record; it is safe once this returns. If it cannot be written, the file stays as it was."""
        line = encode(record)
        if len(line) > _LONGEST:
            raise StoreError(f"a record of {len(line)} bytes is too long for the store {self.path}")
        before = os.fstat(self._fd).st_size
        try:
            _write(self._fd, line)
            if self._fsync:
                os.fsync(self._fd)
        except OSError as error:
            with suppress(OSError):  # then an incomplete record is left, as after a crash
                os.ftruncate(self._fd, before)
            raise self._failed(error) from error

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self._fd).st_size

    @property
    def _draft(self) -> Path:
        """The file that is to take the place of this one; only who has the lock writes it."""
        target = Path(os.path.realpath(self.path))
        return target.with_name(f".{target.name}.tmp")

    def _remove_draft(self) -> None:
        """Remove what a killed process has left; a file of this name that is not ours stays."""
        with suppress(OSError, StoreError):
            if not self._draft.is_symlink():
                with open_regular(self._draft) as file:
                    start = file.read(len(_FIRST_BYTES))
                if _FIRST_BYTES.startswith(start):
                    self._draft.unlink()

    def replace(self, dropped: tuple[bytes, ...], records: Iterable[Record]) -> bool:
        """Replace the file by one without the records that begin like ``dropped``, and with new ones at its end.

        Whenever the process dies, the name stands for the old file or for the new one, and both are complete. Returns
        False, and changes nothing, if no file can be put in the place of this one.
        """
        if os.name == "nt":  # an open file cannot be replaced there
            return False
        draft, mode = self._draft, stat.S_IMODE(os.fstat(self._fd).st_mode)
        try:  # a new file: another one of this name, or one that it links to, is not ours to change
            new = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, mode)
        except OSError:  # also if the folder cannot be written
            return False
        try:
            with suppress(OSError):  # a file system without locks
                locked(new)
            with open_regular(self.path) as file:
                while line := file.readline(_LONGEST):
                    if not line.startswith(dropped):
                        _write(new, line)
            for record in records:
                _write(new, encode(record))
            os.fsync(new)  # always: a renamed file whose contents were lost would be worse than none
            os.replace(draft, os.path.realpath(self.path))
        except BaseException as error:
            os.close(new)
            draft.unlink(missing_ok=True)
            if isinstance(error, PermissionError):  # in this folder only the owner of a file may replace it
                return False
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise
        os.close(self._fd)
        self._fd = new
        self._sync_folder()
        return True

    def _failed(self, error: OSError) -> OSError:
        return OSError(
            error.errno,
            f"cannot write to the store {self.path} ({error.strerror or error}). What was recorded before is safe, and "
            "the same call continues from it",
        )

    def close(self) -> None:
        """Close the file and release its lock."""
        _open_logs.discard(self)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_open_logs: set[Log] = set()  # not a WeakSet, whose callback would swallow an interrupt


def _close_in_child() -> None:
    """Close the logs in a forked process: it must not keep the lock if it outlives a killed run."""
    for log in list(_open_logs):
        log.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def locked(file: Any) -> bool:
    """Take the lock of an open file, and return False if another process has it. It is released at exit."""
    try:
        import fcntl
    except ImportError:  # Windows, where an open file cannot be removed anyway
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _write(fd: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:  # on an almost full disk the first write is cut short, and only the second fails
        rest = rest[os.write(fd, rest) :]


def _is_named(fd: int, path: Path) -> bool:
    """Whether an open file still has this name: who had the lock may have put another file in its place."""
    return os.path.samestat(os.fstat(fd), os.stat(path))


def _wait_for_lock(fd: int) -> bool:
    deadline = time.monotonic() + _PATIENCE
    while not locked(fd):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _describe_writer(path: Path) -> str:
    """Describe the process that has the file open, from its latest record."""
    last: Record = {}
    with suppress(OSError, StoreError):
        for record in Reader(path).records():
            last = record.get("open", last)
    known = isinstance(last, dict) and "pid" in last
    return f"process {last['pid']} on {last.get('host')}" if known else "another process"
