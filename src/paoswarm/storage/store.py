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
from paoswarm.spaces.choices import Fixed
from paoswarm.spaces.evaluations import table
from paoswarm.spaces.space import Space
from paoswarm.spaces.variables import Variable
from paoswarm.storage import encoding
from paoswarm.storage.log import Reader, Record, StoreError
from paoswarm.storage.validate import check_evaluations, check_event, check_size


class Run(NamedTuple):
    """Description of a run, as JSON."""

    function: str  # "minimize", "minimize_many" or "sample"
    problem: dict[str, Any]  # must not change when the run is resumed
    limits: dict[str, Any]  # may change, unless schedules depend on them
    how: dict[str, Any]  # how the objective is called; may change


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
        reader = Reader(self.path)
        _header(reader)
        contents = Contents.read(reader)
        return contents.x[contents.known], contents.f[contents.known]

    def constraints(self) -> Floats:
        """Return the numbers of the constraints at the points of `read`, ``(m, k)``; NaN where they are unknown."""
        reader = Reader(self.path)
        _header(reader)
        contents = Contents.read(reader)
        return np.empty((int(contents.known.sum()), 0)) if contents.c is None else contents.c[contents.known]

    def to_dataframe(self) -> Any:
        """Convert the evaluations so far to a ``pandas.DataFrame``. Needs pandas.

        It has a column for each variable, in its own type, ``value`` (NaN if it failed), ``failed``, ``reason`` and
        ``time``, in the order in which the run asked for the points. With constraints there is also ``violation``, how
        far the worst of them is beyond its limits.
        """
        reader = Reader(self.path)
        problem = _header(reader)["run"]["problem"]
        contents = Contents.read(reader)
        reader = Reader(self.path)
        _header(reader)
        seconds = np.full(len(contents.known), np.nan)
        for record in reader.records():
            if "f" in record:
                numbers = np.atleast_1d(record["i"])
                numbers = numbers if len(numbers) > 1 else numbers[0] + np.arange(len(record["f"]))
                seconds[numbers[numbers < len(seconds)]] = record["t"]
        numbers = np.flatnonzero(contents.known)
        reasons = {row: contents.reason(int(i)) for row, i in enumerate(numbers) if np.isnan(contents.f[i])}
        return table(
            recorded_space(problem.get("bounds")),
            contents.x[numbers],
            contents.f[numbers],
            reasons,
            seconds[numbers].tolist(),
            None
            if contents.c is None
            else largest_excess(contents.c[numbers], recorded_limits(problem["constraints"])),
        )

    def run(self) -> Run:
        """Return the description of the run, with its latest limits."""
        reader = Reader(self.path)
        header = _header(reader)
        events = [record for record in reader.records(with_evaluations=False) if "f" not in record]
        try:
            for event in events:
                check_event(event)
        except ValueError as error:
            raise reader.damaged(str(error)) from error
        return with_latest_limits(Run(**header["run"]), events)

    def recorded_origin(self) -> dict[str, Any] | None:
        """Return the ``origin`` that was recorded last; None if there is none. Nothing in it is checked."""
        reader = Reader(self.path)
        _header(reader)
        openings = [record.get("open") for record in reader.records(with_evaluations=False)]
        origins = [who["origin"] for who in openings if isinstance(who, dict) and isinstance(who.get("origin"), dict)]
        return origins[-1] if origins else None

    def recorded(self, name: str) -> Any:
        """Return an argument of the recorded run as JSON; None if there is no run, or no such argument."""
        with suppress(FileNotFoundError):
            header = Reader(self.path).header()
            if header is not None:
                return header["run"]["problem"].get(name)
        return None

    def seeded(self, rng: Seed) -> tuple[Seed, Any]:
        """Return the seed of the run and its description as JSON; None means the recorded seed, or else a new one."""
        check_seed(rng)
        if rng is None:
            rng = np.random.SeedSequence()
            with suppress(FileNotFoundError):
                reader = Reader(self.path)
                header = reader.header()
                if header is not None:
                    try:
                        rng = encoding.decode_seed(header["run"]["problem"].get("rng"))
                    except ValueError as error:
                        raise reader.damaged(str(error), 1) from error
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


def _header(reader: Reader) -> Record:
    header = reader.header()
    if header is None:
        raise StoreError(f"{reader.path} is empty: no run has started in it")
    return header


class Contents(NamedTuple):
    """All records after the header of a file."""

    x: Floats  # points, by number: the order in which the run asked for them
    f: Floats
    known: NDArray[np.bool_]  # which numbers are recorded; workers may finish out of order
    why: dict[int, str]  # reasons of failures, by number
    order: NDArray[np.int64]  # numbers in the order of recording
    asked: dict[int, int]  # by number, how many points had been asked for by then; asynchronous runs only
    events: list[Record]  # all other records
    c: Floats | None = None  # numbers of the constraints, by number; None if there are none

    @classmethod
    def empty(cls) -> Contents:
        """Return the contents of a new file."""
        return cls(np.empty((0, 0)), np.empty(0), np.zeros(0, dtype=bool), {}, np.zeros(0, dtype=np.int64), {}, [])

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
            c=None if self.c is None else self.c[:number],
        )

    @classmethod
    def read(cls, reader: Reader) -> Contents:
        """Read the records of a file, one at a time: there may be millions."""
        index, x, f, c = array("q"), array("d"), array("d"), array("d")
        why: dict[int, str] = {}
        events: list[Record] = []
        asked: dict[int, int] = {}
        d = k = 0
        try:
            for record in reader.records():
                if "f" not in record:
                    check_event(record)
                    events.append(record)
                    if "aside" in record:  # the polishing was set aside when the run continued
                        rows = [row for row, i in enumerate(index) if i < record["aside"]]
                        x = array("d", chain.from_iterable(x[d * row : d * (row + 1)] for row in rows))
                        c = array("d", chain.from_iterable(c[k * row : k * (row + 1)] for row in rows))
                        index, f = array("q", (index[row] for row in rows)), array("d", (f[row] for row in rows))
                        why = {i: reason for i, reason in why.items() if i < record["aside"]}
                    continue
                check_evaluations(record)
                values, first = record["f"], record["i"]
                d = d or len(record["x"][0])
                if len(record["x"][0]) != d:
                    raise ValueError("a point has another number of coordinates")
                numbers = first if isinstance(first, list) else range(first, first + len(values))
                index.extend(numbers)
                if "asked" in record:
                    asked |= dict.fromkeys(numbers, int(record["asked"]))
                f += decode_numbers(values)
                x += decode_numbers(list(chain.from_iterable(record["x"])))
                if "c" in record:
                    k = k or len(record["c"][0])
                    c += decode_numbers(list(chain.from_iterable(record["c"])))
                if len(c) != k * len(f):
                    raise ValueError("the numbers of constraints differ")
                if "why" in record:
                    why |= {numbers[int(row)]: str(reason) for row, reason in record["why"].items()}
            order = np.array(index, dtype=np.int64)
            n = 1 + int(order.max(initial=-1))
            check_size(n, d, len(f))
            points, point_values = np.full((n, d), np.nan), np.full(n, np.nan)
            known = np.zeros(n, dtype=bool)
            points[order], point_values[order], known[order] = np.reshape(x, (len(f), d)), f, True
            if known.sum() != len(f):
                raise ValueError("an evaluation is recorded twice")
            constr = None
            if k:
                constr = np.full((n, k), np.nan)
                constr[order] = np.reshape(c, (len(f), k))
        except StoreError:
            raise
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            raise reader.damaged(str(error) or type(error).__name__) from error
        return cls(points, point_values, known, why, order, asked, events, constr)


Limits = tuple[dict[str, Floats], ...]  # of each constraint: lb, ub, tol


def recorded_limits(encoded: Any) -> Limits:
    """Return the limits of the constraints in a header; raise a ValueError if they make no sense."""
    try:
        parts: Limits = tuple(encoding.decode(encoded or []))
        for part in parts:
            _ = part["lb"] + part["ub"] + part["tol"]
    except Exception as error:
        raise ValueError("the constraints make no sense") from error
    return parts


def largest_excess(numbers: Floats, limits: Limits, *, within_tolerance: bool = False) -> Floats:
    """Return how far the worst number of each row ``(m, k)`` is beyond its limits; NaN counts as zero.

    With ``within_tolerance`` it is zero for numbers that are allowed.
    """
    low, high, tol = (np.concatenate([part[name] for part in limits]) for name in ("lb", "ub", "tol"))
    excess = np.fmax(np.fmax(low - numbers, numbers - high), 0.0)
    worst: Floats = np.where(within_tolerance & (excess <= tol), 0.0, excess).max(axis=1)
    return worst


def with_latest_limits(run: Run, events: list[Record]) -> Run:
    """Return the run with the limits that were recorded last."""
    for record in events:
        run = run._replace(limits=record.get("limits", run.limits))
    return run


def decode_number(encoded: Any) -> float:
    """Return a number from JSON, where null stands for NaN and a string for infinity."""
    return math.nan if encoded is None else float(encoded)


def decode_numbers(encoded: list[Any]) -> array[float]:
    """Decode many numbers; fast if all of them are finite."""
    try:
        return array("d", encoded)
    except TypeError:
        return array("d", map(decode_number, encoded))
