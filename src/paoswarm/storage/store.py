"""The file that ``store=`` names: what it says of the run, and the evaluations in it."""

from __future__ import annotations

import math
import os
from array import array
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, check_seed
from paoswarm.storage import encoding
from paoswarm.storage.log import DamagedStore, Reader, Record, StoreError, decode


class Run(NamedTuple):
    """What is to be run, as JSON: what must not change, what may, and how to call the objective."""

    function: str  # "minimize" or "sample"
    problem: dict[str, Any]
    limits: dict[str, Any]
    how: dict[str, Any]


@dataclass(frozen=True)
class Store:
    """A file that keeps every evaluation of a run; what ``store=`` takes where a name is not enough.

    Parameters
    ----------
    path : path
        The file, made where it is not there.
    fsync : {"always", "never"}
        Whether evaluations are on the disk before the swarm uses them, and survive a loss of power; or with the
        operating system, which is much faster, and survive the death of the process.

    Examples
    --------
    >>> import tempfile
    >>> import paoswarm as ps
    >>> store = ps.Store(tempfile.mkdtemp() + "/run.paoswarm", fsync="never")
    >>> result = ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 2, maxiter=10, n_particles=20, rng=1, store=store)
    >>> x, f = store.read()
    >>> x.shape, bool(f.min() == result.fun)
    ((220, 2), True)
    """

    path: str | os.PathLike[str]
    fsync: Literal["always", "never"] = "always"

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise TypeError(f"store must be the name of a file or a Store, got {self.path!r}")
        if self.fsync not in ("always", "never"):
            raise ValueError(f"fsync must be 'always' or 'never', got {self.fsync!r}")

    @classmethod
    def of(cls, given: Any) -> Store:
        """From what a user gives."""
        return given if isinstance(given, cls) else cls(given)

    def read(self) -> tuple[Floats, Floats]:
        """Points ``(m, d)`` and values ``(m,)`` so far, in the order of asking; NaN where a point failed.

        It needs no lock: another process may be writing.
        """
        reader = Reader(self.path)
        _header(reader)
        kept = Contents.of(reader)
        return kept.x[kept.known], kept.f[kept.known]

    def run(self) -> Run:
        """What the file says was run, with limits as they were last."""
        reader = Reader(self.path)
        header = _header(reader)
        with reader.path.open("rb") as file:  # evaluations, of which there may be many, are not looked at
            events = [record for line in file if not line.startswith(b'{"i":') and (record := decode(line))]
        return latest(Run(**header["run"]), events)

    def seeded(self, rng: Seed) -> tuple[Seed, Any]:
        """The seed to run with, and its description: of None the recorded one, or a new one."""
        check_seed(rng)
        if rng is None:
            rng = np.random.SeedSequence()
            with suppress(FileNotFoundError):
                header = Reader(self.path).header()
                if header is not None:
                    rng = encoding.decode_seed(header["run"]["problem"]["rng"])
        return rng, encoding.encode_seed(rng)


def _header(reader: Reader) -> Record:
    header = reader.header()
    if header is None:
        raise StoreError(f"{reader.path} is empty: no run has begun in it")
    return header


class Contents(NamedTuple):
    """Everything behind the header of a file."""

    x: Floats  # recorded points by the order in which they were asked for
    f: Floats
    known: NDArray[np.bool_]  # worker processes may have finished out of order
    why: dict[int, str]  # reasons of failures
    order: NDArray[np.int64]  # their numbers in the order in which they were recorded
    asked: dict[int, int]  # by number, how many had been asked for by then; of asynchronous runs only
    events: list[Record]  # all other records

    @classmethod
    def empty(cls) -> Contents:
        """Of a new file."""
        return cls(np.empty((0, 0)), np.empty(0), np.zeros(0, dtype=bool), {}, np.zeros(0, dtype=np.int64), {}, [])

    @classmethod
    def of(cls, reader: Reader) -> Contents:
        """From the records of a file, one at a time: there may be millions."""
        index, x, f = array("q"), array("d"), array("d")
        why: dict[int, str] = {}
        events: list[Record] = []
        asked: dict[int, int] = {}
        try:
            for record in reader.records():
                if "f" not in record:
                    events.append(record)
                    if "aside" in record:  # a polishing that had to make way: it stays in the file alone
                        kept = [k for k, i in enumerate(index) if i < record["aside"]]
                        d = len(x) // max(1, len(f))
                        x = array("d", chain.from_iterable(x[d * k : d * (k + 1)] for k in kept))
                        index, f = array("q", (index[k] for k in kept)), array("d", (f[k] for k in kept))
                        why = {i: reason for i, reason in why.items() if i < record["aside"]}
                    continue
                values, first = record["f"], record["i"]
                numbers = first if isinstance(first, list) else range(first, first + len(values))
                if not len(numbers) == len(values) == len(record["x"]):
                    raise ValueError("not one value for each point")
                index.extend(numbers)
                if "asked" in record:
                    asked |= dict.fromkeys(numbers, int(record["asked"]))
                f += _doubles(values)
                x += _doubles(list(chain.from_iterable(record["x"])))
                if "why" in record:
                    why |= {numbers[int(row)]: str(reason) for row, reason in record["why"].items()}
            order = np.array(index, dtype=np.int64)
            n = 1 + int(order.max(initial=-1))
            points, all_f = np.full((n, len(x) // max(1, len(f))), np.nan), np.full(n, np.nan)
            known = np.zeros(n, dtype=bool)
            points[order], all_f[order], known[order] = np.reshape(x, (len(f), points.shape[1])), f, True
            if known.sum() != len(f):
                raise ValueError("an evaluation is recorded twice")
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, StoreError):
                raise
            what = f"{reader.path} holds records that make no sense ({error}); it was not touched"
            raise DamagedStore(what) from error
        return cls(points, all_f, known, why, order, asked, events)


def latest(run: Run, events: list[Record]) -> Run:
    """The run with limits as they were changed last."""
    for record in events:
        run = run._replace(limits=record.get("limits", run.limits))
    return run


def number(kept: Any) -> float:
    """A number of JSON, where null stands for NaN and a string for infinity."""
    return math.nan if kept is None else float(kept)


def _doubles(kept: list[Any]) -> array[float]:
    """The same of many, quickly where all are plain numbers."""
    try:
        return array("d", kept)
    except TypeError:
        return array("d", map(number, kept))
