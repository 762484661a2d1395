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

from paoswarm._checks import flag
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
    asked: dict[int, int]  # by number, how many points had been asked for by then; asynchronous runs only
    events: list[Record]  # all other records
    times: Floats  # seconds since 1970, by number
    details: Floats | None = None  # by number, those of constraints, or the outputs of a fit; None if there are none

    @classmethod
    def empty(cls) -> Contents:
        """Return the contents of a new file."""
        return _Evaluations().contents([])

    @classmethod
    def read(cls, reader: Reader) -> Contents:
        """Read the records of a file, one at a time: there may be millions."""
        evaluations = _Evaluations()
        events: list[Record] = []
        try:
            for record in reader.records():
                if "f" in record:
                    evaluations.add(record)
                    continue
                check_event(record)
                events.append(record)
                if "aside" in record:  # the polishing was set aside when the run continued
                    evaluations.forget(record["aside"])
            return evaluations.contents(events)
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
            times=self.times[:number],
            details=None if self.details is None else self.details[:number],
        )


class _Evaluations:
    """The evaluations that were read so far, in the order of recording."""

    def __init__(self) -> None:
        self._index, self._f, self._t = array("q"), array("d"), array("d")
        self._x, self._details = array("d"), array("d")
        self._d = self._k = 0  # coordinates of a point; numbers of its constraints, or outputs
        self._why: dict[int, str] = {}
        self._asked: dict[int, int] = {}

    def add(self, record: Record) -> None:
        check_evaluations(record)
        values, first = record["f"], record["i"]
        numbers = first if isinstance(first, list) else range(first, first + len(values))
        self._index.extend(numbers)
        self._f += decode_numbers(values)
        self._t += array("d", [record["t"]] * len(values))
        self._d = self._d or len(record["x"][0])
        if len(record["x"][0]) != self._d:
            raise ValueError("a point has another number of coordinates")
        self._x += decode_numbers(list(chain.from_iterable(record["x"])))
        self._add_details(record.get("c", record.get("y")), len(values), may_lack="c" not in record)
        if "asked" in record:
            self._asked |= dict.fromkeys(numbers, int(record["asked"]))
        self._why |= {numbers[int(row)]: str(reason) for row, reason in record.get("why", {}).items()}

    def _add_details(self, rows: Any, count: int, *, may_lack: bool) -> None:
        """Add the numbers of constraints, or the outputs of a fit, which lack where all points failed."""
        earlier = len(self._f) - count
        if rows is None:
            rows = [[None] * self._k] * count if may_lack else []
        elif not self._k:
            self._k = len(rows[0])
            if may_lack:
                self._details = array("d", [math.nan]) * (self._k * earlier)
        self._details += decode_numbers(list(chain.from_iterable(rows)))
        if len(self._details) != self._k * len(self._f):
            raise ValueError("the numbers of constraints or outputs differ")

    def forget(self, first: int) -> None:
        """Leave out the evaluations from a number on."""
        rows = np.flatnonzero(np.asarray(self._index) < first)

        def kept(numbers: array[Any], width: int = 1) -> array[Any]:
            rest = np.reshape(numbers, (-1, max(1, width)))[rows] if numbers else np.empty(0)
            return array(numbers.typecode, rest.tobytes())

        self._x, self._details = kept(self._x, self._d), kept(self._details, self._k)
        self._f, self._t, self._index = kept(self._f), kept(self._t), kept(self._index)
        self._why = {i: reason for i, reason in self._why.items() if i < first}

    def contents(self, events: list[Record]) -> Contents:
        order = np.array(self._index, dtype=np.int64)
        m, n = len(order), 1 + int(order.max(initial=-1))
        check_size(n, self._d, m)

        def by_number(numbers: array[float], *shape: int) -> Floats:
            found = np.full((n, *shape), np.nan)
            found[order] = np.reshape(numbers, (m, *shape))
            return found

        known = np.zeros(n, dtype=bool)
        known[order] = True
        if known.sum() != m:
            raise ValueError("an evaluation is recorded twice")
        details = by_number(self._details, self._k) if self._k else None
        points, values, times = by_number(self._x, self._d), by_number(self._f), by_number(self._t)
        return Contents(points, values, known, self._why, order, self._asked, events, times, details)


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
    >>> result = ps.minimize(lambda x: (x**2).sum(), [(-5, 5)] * 2, maxfev=220, rng=1, store=store)
    >>> x, f = store.read()
    >>> x.shape, bool(f.min() == result.fun)
    ((220, 2), True)
    """

    path: str | os.PathLike[str]
    fsync: Literal["always", "never"] = "always"
    trust: bool = False
    origin: Mapping[str, Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise TypeError(f"store must be the name of a file or a Store, got {self.path!r}")
        if self.fsync not in ("always", "never"):
            raise ValueError(f"fsync must be 'always' or 'never', got {self.fsync!r}")
        flag("trust", self.trust)

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
        return self._details(of_fit=False)

    def outputs(self) -> Floats:
        """Return the outputs of a fit at the points of `read`, ``(m, k)``; NaN where a point failed.

        All arrays of the simulator in the order of the data, then the residuals of priors and penalty.
        """
        return self._details(of_fit=True)

    def _details(self, *, of_fit: bool) -> Floats:
        """What is recorded besides the values, for each evaluation; nothing if the run is of another kind."""
        reader, recorded = self._opened()
        contents = Contents.read(reader)
        if contents.details is None or (recorded.function == "fit") != of_fit:
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
        excess = None
        if contents.details is not None and recorded.function != "fit":
            excess = largest_excess(contents.details[numbers], recorded_limits(recorded.problem["constraints"]))
        times = contents.times[numbers].tolist()
        space = recorded_space(recorded.problem.get("bounds"))
        return table(space, contents.x[numbers], contents.f[numbers], reasons, times, excess)

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
    """The space of a recorded run, if its entries can be rebuilt; None for plain bounds."""
    if bounds is None or (isinstance(bounds, list) and all(isinstance(pair, list) for pair in bounds)):
        return None
    try:
        given = encoding.decode(bounds)
    except encoding.Unknown:
        return None
    entries = given.values() if isinstance(given, dict) else given
    variables = [one if isinstance(one, Variable) else Fixed(one) for one in entries]
    return Space(variables, list(given) if isinstance(given, dict) else None)
