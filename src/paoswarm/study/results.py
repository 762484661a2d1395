"""The results of a study: the error of each run against evaluations, and the files in which runs are kept.

Statistics, figures and the report use `Results` only. The runs of a cell are a Parquet file with the columns ``run,
evaluations, best, minimum``. Its metadata has the key ``paoswarm``: a JSON object with the description of the cell and
a checksum. Any program that reads Parquet can read it. Each file is written completely or not at all.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.helpers import is_running, need
from paoswarm.problems import split_name

Floats = NDArray[np.float64]
Task = tuple[str, int]  # problem and dimension
_KEY = b"paoswarm"
_TYPES = {"run": "int32", "evaluations": "int64", "best": "float64", "minimum": "float64"}
_MOST_ROWS = 10_000_000  # if the number of runs is not known


class Key(NamedTuple):
    """One cell of a study."""

    problem: str
    dim: int
    method: str


class CellRuns(NamedTuple):
    """The runs of a cell: the best value so far of each run against evaluations."""

    evaluations: NDArray[np.int64]  # (g,)
    best: Floats  # (runs, g)
    minimum: Floats  # (runs,) known minimum of the problem of each run


class Trace(NamedTuple):
    """The error of the runs of one cell against evaluations."""

    evaluations: NDArray[np.int64]  # (g,) evaluations so far
    error: Floats  # (runs, g) best value so far minus the known minimum; inf until the first finite value

    @property
    def final(self) -> Floats:
        """The final error of each run, ``(runs,)``."""
        return self.error[:, -1]


@dataclass(frozen=True)
class Results:
    """The finished cells of a study.

    Attributes
    ----------
    title : str
    reference : str
        The method that the others are compared with; one of ``methods``.
    problems, dims, methods : tuples
        In the order of the study. Every combination is in ``traces``.
    groups : mapping of str to tuple of str
        Sets of methods that are compared with each other. Each contains the reference.
    titles : mapping of str to str
        Readable names of the problems.
    descriptions : mapping of str to str
        Each method with its hyperparameters, in one line.
    facts : mapping of str to str
        Further settings for the reader: runs, population, seed, versions.
    traces : mapping of Key to Trace
    precision : float
        No error is below it; one that equals it means that the run has solved the problem.
    """

    title: str
    reference: str
    problems: tuple[str, ...]
    dims: tuple[int, ...]
    methods: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    titles: Mapping[str, str]
    descriptions: Mapping[str, str]
    traces: Mapping[Key, Trace]
    facts: Mapping[str, str] = field(default_factory=dict)
    precision: float = 0.0

    def trace(self, problem: str, dim: int, method: str) -> Trace:
        """Return the runs of one cell."""
        key = Key(self._name(problem), dim, method)
        if key not in self.traces:
            raise ValueError(
                f"no runs of {method!r} on {problem!r} in {dim} dimensions; choose from the methods "
                f"{', '.join(self.methods)}, the problems {', '.join(self.problems)} and the dimensions {self.dims}"
            )
        return self.traces[key]

    def _name(self, problem: str) -> str:
        """Return the full name of a problem, with the seeds that may be left out."""
        base, changes = split_name(problem)
        return problem if problem in self.problems else "-".join([base, *(f"{how}{seed}" for how, seed in changes)])

    def final(self, problem: str, dim: int, method: str) -> Floats:
        """Return the final errors of one cell, ``(runs,)``."""
        return self.trace(problem, dim, method).final

    def tasks(self, dims: Sequence[int] | None = None) -> Iterator[Task]:
        """Iterate over every problem in every dimension."""
        for dim in self.dims if dims is None else dims:
            for problem in self.problems:
                yield problem, dim


# Files


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to, and rename it once the block has ended without an error."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):  # by a process that was killed
        pid = left.name.split(".")[-2]
        if pid.isdigit() and is_running(int(pid)) is False:
            left.unlink(missing_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


class DamagedFile(Exception):
    """A file that cannot be read or whose checksum is wrong. Its cell must be run again."""


class OtherStudy(ValueError):
    """A file that holds runs with other settings. It is left unchanged."""


class CellFiles:
    """The files of all cells of a study, in one folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def open(self) -> None:
        """Create the folder, and check before the first run that it is writable."""
        _pyarrow()
        try:
            (self.folder / "runs").mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder / "runs"):
                pass
        except OSError as error:
            raise OSError(
                f"cannot write to the study's folder {self.folder}: {error.strerror or error}; choose another folder"
            ) from error

    def path(self, key: Key) -> Path:
        """Return the path of a cell's file. Its name is valid on every file system."""
        return self.folder / "runs" / f"{_safe(key.problem)}-{key.dim}d" / f"{_safe(key.method)}.parquet"

    def write(self, key: Key, description: dict[str, Any], runs: CellRuns) -> None:
        """Write a finished cell."""
        pa, pq = _pyarrow()
        columns = _columns(runs)
        text = json.dumps({"description": description, "sha256": _digest(columns, description)}, sort_keys=True)
        table = pa.table(columns).replace_schema_metadata({_KEY: text.encode()})
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as draft, draft.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())

    def read(self, key: Key, description: dict[str, Any]) -> CellRuns | None:
        """Return the runs of a cell, or None if it has no file yet.

        Raises `DamagedFile` for a damaged file and `OtherStudy` for one with other settings.
        """
        path = self.path(key)
        if not path.exists():
            return None
        if not path.is_file():  # reading a pipe would never end
            raise OtherStudy(f"{path} is not a regular file; choose another folder")
        try:
            runs, known = _load(path, _most_rows(description))
        except Exception as error:
            raise DamagedFile(f"{path} is damaged ({type(error).__name__}: {error})") from error
        for name, now in description.items():
            if known.get(name) != now:
                raise OtherStudy(
                    f"{path} holds runs with {name} = {known.get(name)!r}, but this study has {name} = {now!r}; "
                    "choose another folder, or delete that file to run its cell again"
                )
        return runs


def _most_rows(description: dict[str, Any]) -> int:
    """The number of rows that a cell can have: a small file may unpack to billions."""
    runs, budget = description.get("runs"), description.get("budget")
    return runs * budget if isinstance(runs, int) and isinstance(budget, int) else _MOST_ROWS


def _load(path: Path, most: int) -> tuple[CellRuns, dict[str, Any]]:
    """Return the runs and the description of a file; raise if they do not match its checksum or make no sense."""
    pa, pq = _pyarrow()
    with pq.ParquetFile(path, pre_buffer=False) as file:
        metadata = file.schema_arrow.metadata or {}
        batches, rows = [], 0
        # No threads: worker processes may be forked later, and threads do not survive a fork.
        for batch in file.iter_batches(columns=list(_TYPES), use_threads=False):
            rows += batch.num_rows
            if rows > most:
                raise ValueError(f"it has more than {most} rows")
            batches.append(batch)
    if not rows:
        raise ValueError("it has no rows")
    kept, table = json.loads(metadata[_KEY]), pa.Table.from_batches(batches)
    columns = {name: table[name].to_numpy() for name in _TYPES}
    for name, column in columns.items():
        if column.dtype != _TYPES[name]:
            raise ValueError(f"column {name} has type {column.dtype} instead of {_TYPES[name]}")
    if not isinstance(kept["description"], dict) or kept["sha256"] != _digest(columns, kept["description"]):
        raise ValueError("the checksum does not match")
    return _runs(columns), kept["description"]


def _columns(runs: CellRuns) -> dict[str, np.ndarray]:
    count, steps = runs.best.shape
    return {
        "run": np.repeat(np.arange(count, dtype=np.int32), steps),
        "evaluations": np.tile(runs.evaluations.astype(np.int64), count),
        "best": runs.best.ravel(),
        "minimum": np.repeat(runs.minimum, steps),
    }


def _runs(columns: dict[str, np.ndarray]) -> CellRuns:
    count = int(columns["run"][-1]) + 1
    if count < 1 or len(columns["run"]) % count:
        raise ValueError("the runs have different lengths")
    _, evaluations, best, minimum = (columns[name].reshape(count, -1) for name in _TYPES)
    runs = CellRuns(evaluations[0], best, minimum[:, 0])
    if any(column.tobytes() != columns[name].tobytes() for name, column in _columns(runs).items()):
        raise ValueError("the rows are not in order")
    return runs


def _digest(columns: dict[str, np.ndarray], description: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name, column in columns.items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def _safe(name: str) -> str:
    """Return a file name for any text: readable where possible, and unique."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:60]
    unchanged = safe == name and not re.search(r"-[0-9a-f]{8}$", name)  # such an ending marks a changed name
    return safe if unchanged else f"{safe}-{zlib.crc32(name.encode()):08x}"


def _pyarrow() -> tuple[Any, Any]:
    pyarrow, parquet = (need(name, extra="study", user="a study") for name in ("pyarrow", "pyarrow.parquet"))
    return pyarrow, parquet
