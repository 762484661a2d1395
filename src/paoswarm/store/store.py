"""The file named by ``store=``: the description of the run and its evaluations."""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import flag, of_kind
from paoswarm.core.arrays import Floats
from paoswarm.core.random import Seed, check_seed
from paoswarm.space.evaluations import table
from paoswarm.space.space import Fixed, Space
from paoswarm.space.variables import Variable
from paoswarm.store import encoding
from paoswarm.store.log import Reader, Record, StoreError
from paoswarm.store.records import (
    check_evaluations,
    check_event,
    check_size,
    decode_numbers,
    largest_excess,
    recorded_limits,
)

_NEW = object()  # stands for a run that is not recorded yet


class RecordedRun(NamedTuple):
    """Description of a run, as JSON."""

    function: str  # "minimize", "minimize_many", "sample" or "fit"
    problem: dict[str, Any]  # must not change when the run is resumed
    limits: dict[str, Any]  # may change, unless schedules depend on them
    how: dict[str, Any]  # how the objective is called; may change

    @property
    def has_outputs(self) -> bool:
        """Whether what is recorded besides values are outputs of a simulator, and not numbers of constraints."""
        return self.function in ("fit", "sample")

    def with_latest_limits(self, events: list[Record]) -> RecordedRun:
        """Return the run with the limits that were recorded last."""
        found = [record["limits"] for record in events if "limits" in record]
        return self._replace(limits=found[-1]) if found else self


class Contents(NamedTuple):
    """All records after the header of a file."""

    x: Floats  # points, by number: the order in which the run asked for them
    f: Floats
    known: NDArray[np.bool_]  # which numbers are recorded; workers may finish out of order
    why: dict[int, str]  # reasons of failures, by number
    order: NDArray[np.int64]  # numbers in the order of recording
    asked: NDArray[np.int64]  # in this order, how many points had been asked for by then; -1 without generations
    events: list[Record]  # all other records
    times: Floats  # seconds since 1970, by number
    details: Floats | None = None  # by number, those of constraints, or the outputs of a fit; None if there are none

    @classmethod
    def empty(cls) -> Contents:
        """Return the contents of a new file."""
        return Rows().contents([])

    @classmethod
    def read(cls, reader: Reader) -> Contents:
        """Read the records of a file, one at a time: there may be millions."""
        rows = Rows()
        events: list[Record] = []
        try:
            for record in reader.records():
                if "f" in record:
                    rows.add(record)
                    continue
                check_event(record)
                events.append(record)
                if "aside" in record:  # the polishing was set aside when the run continued
                    rows.forget(record["aside"])
            return rows.contents(events)
        except StoreError:
            raise
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            raise reader.damaged(str(error) or type(error).__name__) from error

    def reason(self, number: int) -> str:
        """Return why a point failed."""
        return self.why.get(number, "returned NaN")

    def before(self, number: int) -> Contents:
        """Return the contents without the evaluations from a number on."""
        return self._replace(
            x=self.x[:number],
            f=self.f[:number],
            known=self.known[:number],
            why={i: reason for i, reason in self.why.items() if i < number},
            order=self.order[self.order < number],
            asked=self.asked[self.order < number],
            times=self.times[:number],
            details=None if self.details is None else self.details[:number],
        )


class Rows:
    """Evaluations in the order of recording.

    Attributes
    ----------
    number, asked, recalled, record : array of int
        Number of each evaluation in the order of asking; how many points had been asked for by then (-1 with
        generations), and how many of them were known; the record in which it was written.
    time, f, x, details : array of float
        Elements of all rows one after the other: points have ``d``, details ``k``.
    why : dict
        Reasons of failures, by number.
    """

    def __init__(self) -> None:
        self.number, self.asked, self.recalled, self.record = (array("q") for _ in range(4))
        self.time, self.f, self.x, self.details = (array("d") for _ in range(4))
        self.d = self.k = 0  # coordinates of a point; numbers of its constraints, or outputs
        self.why: dict[int, str] = {}
        self._n_records = 0

    def add(self, record: Record) -> None:
        """Add the evaluations of a record; nothing changes if it makes no sense."""
        check_evaluations(record)
        m, first = len(record["f"]), record["i"]
        number = array("q", first if isinstance(first, list) else range(first, first + m))
        f, x = decode_numbers(record["f"]), decode_numbers(list(chain.from_iterable(record["x"])))
        more = record.get("c", record.get("y"))  # they lack where all points of a fit failed
        d, k = len(record["x"][0]), len(more[0]) if more is not None else self.k
        if self.d not in (0, d):
            raise ValueError("a point has another number of coordinates")
        if self.k not in (0, k) or ("c" in record and self.k == 0 and self.f):
            raise ValueError("the numbers of constraints or outputs differ")
        missing = (0 if self.k else k * len(self.f)) + (k * m if more is None else 0)
        details = array("d", [math.nan]) * missing + decode_numbers(list(chain.from_iterable(more or [])))
        check_size(1 + max(number), d, len(self.f) + m)
        self.d, self.k = d, k
        self.number += number
        self.asked += array("q", [record.get("asked", -1)]) * m
        self.recalled += array("q", [record.get("recalled", 0)]) * m
        self.record += array("q", [self._n_records]) * m
        self.time += array("d", [record["t"]]) * m
        self.f += f
        self.x += x
        self.details += details
        self.why |= {number[int(row)]: str(reason) for row, reason in record.get("why", {}).items()}
        self._n_records += 1

    def forget(self, first: int) -> NDArray[np.int64]:
        """Leave out the evaluations from a number on; return which rows are kept."""
        rows = np.flatnonzero(np.array(self.number) < first)
        for name in ("number", "asked", "recalled", "record", "time", "f", "x", "details"):
            whole = getattr(self, name)
            width = {"x": self.d, "details": self.k}.get(name, 1)
            kept = np.reshape(whole, (-1, max(1, width)))[rows] if whole else np.empty(0)
            setattr(self, name, array(whole.typecode, kept.tobytes()))
        self.why = {number: reason for number, reason in self.why.items() if number < first}
        return rows

    def contents(self, events: list[Record]) -> Contents:
        """All of them by number."""
        order = np.array(self.number, dtype=np.int64)
        m, n = len(order), 1 + int(order.max(initial=-1))
        check_size(n, self.d, m)

        def by_number(numbers: array[float], *shape: int) -> Floats:
            found = np.full((n, *shape), np.nan)
            found[order] = np.reshape(numbers, (m, *shape))
            return found

        known = np.zeros(n, dtype=bool)
        known[order] = True
        if known.sum() != m:
            raise ValueError("an evaluation is recorded twice")
        details = by_number(self.details, self.k) if self.k else None
        points, values, times = by_number(self.x, self.d), by_number(self.f), by_number(self.time)
        asked = np.array(self.asked, dtype=np.int64)
        return Contents(points, values, known, self.why, order, asked, events, times, details)


@dataclass(frozen=True)
class Store:
    """A file that records every evaluation of a run; pass it as ``store=`` to set options or to read the values.

    Parameters
    ----------
    path : path
        The file. It is created if it does not exist.
    fsync : {"always", "never"}
        With "always", every evaluation is on the disk before the swarm uses it, and survives a power failure. With
        "never", the operating system writes it later. That is much faster, and evaluations still survive the death of
        the process, but not a power failure.
    trust : bool
        Whether to use the recorded values without asking if the function is still the same. Otherwise it is compared
        with the one that was recorded, and one or two points are evaluated again if need be: see "Has the function
        changed?" in the documentation of stores.
    origin : dict, optional
        Where the function comes from, as JSON. It is kept in the file for ``paoswarm resume``; the command line fills
        it in.

    Examples
    --------
    >>> import tempfile
    >>> import paoswarm as ps
    >>> store = ps.Store(tempfile.mkdtemp() + "/run.paoswarm", fsync="never")
    >>> result = ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 2, maxfev=150, rng=1, store=store)
    >>> x, f = store.read()
    >>> x.shape, bool(f.min() == result.fun)
    ((77, 2), True)

    """

    path: str | os.PathLike[str]
    fsync: Literal["always", "never"] = "always"
    trust: bool = False
    origin: Mapping[str, Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise TypeError(f"store must be the name of a file or a Store, got {self.path!r}")
        if not isinstance(self.fsync, str) or self.fsync not in ("always", "never"):
            raise ValueError(f"fsync must be 'always' or 'never', got {self.fsync!r}")
        flag("trust", self.trust)
        if self.origin is not None:
            of_kind("origin", self.origin, Mapping, "a dict that says where the run came from")

    @classmethod
    def of(cls, given: Any) -> Store:
        """Return the store for the argument ``store=``: a path or a `Store`."""
        return given if isinstance(given, cls) else cls(given)

    def read(self) -> tuple[Floats, Floats]:
        """Return the points ``(m, d)`` and values ``(m,)`` so far; NaN where a point failed.

        They come in the order in which the run asked for them. Another process may be writing to the file. Of a run on
        a compiled engine only a few points are recorded: some of the first swarm, and the best one now and then.
        """
        contents = Contents.read(self._opened()[0])
        return contents.x[contents.known], contents.f[contents.known]

    def constraints(self) -> Floats:
        """Return the numbers of the constraints at the points of `read`, ``(m, k)``; NaN where they are unknown."""
        return self._details(of_simulator=False)

    def outputs(self) -> Floats:
        """Return the outputs of a simulator at the points of `read`, ``(m, k)``; NaN where a point failed.

        All arrays of the simulator of `fit`, or of `sample` with data, in the order of the data. Those of a fit are
        followed by the residuals of priors and penalty.
        """
        return self._details(of_simulator=True)

    def _details(self, *, of_simulator: bool) -> Floats:
        """What is recorded besides the values, for each evaluation; nothing if the run is of another kind."""
        reader, recorded = self._opened()
        contents = Contents.read(reader)
        if contents.details is None or recorded.has_outputs != of_simulator:
            return np.empty((int(contents.known.sum()), 0))
        return contents.details[contents.known]

    def to_dataframe(self) -> Any:
        """Convert the evaluations so far to a ``pandas.DataFrame``. Needs pandas.

        It has a column for each variable, in its own type, ``value`` (NaN if it failed), ``failed``, ``reason`` and
        ``time``, in the order in which the run asked for the points. With constraints there is also ``violation``, how
        far the worst of them is beyond its limits.
        """
        reader, recorded = self._opened()
        contents = Contents.read(reader)
        numbers = np.flatnonzero(contents.known)
        reasons = {row: contents.reason(int(i)) for row, i in enumerate(numbers) if np.isnan(contents.f[i])}
        excess, x = None, contents.x[numbers]
        try:
            if contents.details is not None and not recorded.has_outputs:
                excess = largest_excess(contents.details[numbers], recorded_limits(recorded.problem.get("constraints")))
            space = recorded_space(recorded.problem.get("bounds"))
            if space is not None and len(x) and len(space.variables) != x.shape[1]:
                raise ValueError(f"the recorded bounds have {len(space.variables)} variables, its points {x.shape[1]}")
            return table(space, x, contents.f[numbers], reasons, contents.times[numbers].tolist(), excess)
        except (ValueError, TypeError) as error:
            raise reader.damaged(str(error), 1) from error

    def _opened(self) -> tuple[Reader, RecordedRun]:
        """Return the file, read as far as its header, and the description in that."""
        reader = Reader(self.path)
        header = reader.header()
        if header is None:
            raise StoreError(f"{reader.path} is empty: no run has started in it")
        return reader, RecordedRun(**header["run"])

    def run(self) -> RecordedRun:
        """Return the description of the run, with its latest limits."""
        reader, recorded = self._opened()
        events = [record for record in reader.records(with_evaluations=False) if "f" not in record]
        try:
            for event in events:
                check_event(event)
        except ValueError as error:
            raise reader.damaged(str(error)) from error
        return recorded.with_latest_limits(events)

    def recorded_origin(self) -> dict[str, Any] | None:
        """Return the ``origin`` that was recorded last; None if there is none. Nothing in it is checked."""
        openings = [record.get("open") for record in self._opened()[0].records(with_evaluations=False)]
        origins = [who["origin"] for who in openings if isinstance(who, dict) and isinstance(who.get("origin"), dict)]
        return origins[-1] if origins else None

    def recorded(self, name: str, missing: Any = None) -> Any:
        """Return an argument of the recorded run as JSON, None if it has no such; ``missing`` if there is no run."""
        with suppress(FileNotFoundError):
            header = Reader(self.path).header()
            if header is not None:
                return header["run"]["problem"].get(name)
        return missing

    def seeded(self, rng: Seed) -> tuple[Seed, Any]:
        """Return the seed of the run and its description as JSON; None means the recorded seed, or else a new one."""
        check_seed(rng)
        if rng is None:
            kept = self.recorded("rng", _NEW)
            try:
                rng = np.random.SeedSequence() if kept is _NEW else encoding.decode_seed(kept)
            except ValueError as error:
                raise Reader(self.path).damaged(str(error), 1) from error
        return rng, encoding.encode_seed(rng)


def recorded_space(bounds: Any) -> Space | None:
    """The space of a recorded run, if its entries can be rebuilt; None for plain bounds; ValueError for nonsense."""
    if bounds is None or (isinstance(bounds, list) and all(isinstance(pair, list) for pair in bounds)):
        return None
    try:
        given = encoding.decode(bounds)
        entries = given.values() if isinstance(given, dict) else given
        variables = [one if isinstance(one, Variable) else Fixed(one) for one in entries]
        names = [of_kind("a name", one, str, "a text") for one in given] if isinstance(given, dict) else None
        return Space(variables, names)
    except encoding.Unknown:
        return None
    except Exception as error:  # constructors of variables may raise anything
        raise ValueError(f"the recorded bounds make no sense ({error})") from error
