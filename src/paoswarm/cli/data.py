"""The data of ``paoswarm fit``: columns of a file, and what the options say about them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm import Scaled
from paoswarm.cli.source import Source
from paoswarm.helpers import choices, read_table


class Data(NamedTuple):
    """What the options say about the data: places, and by output its numbers, standard deviation and law."""

    x: NDArray[np.float64]  # empty if there are none
    outputs: dict[str, NDArray[np.float64]]
    sigma: dict[str, Any]
    likelihood: dict[str, str]

    @classmethod
    def of(cls, options: argparse.Namespace) -> Data:
        """Read the file, and what the options say about its columns."""
        file, x = options.data, options.x
        table = read_table(Path(file).read_text(encoding="utf-8-sig"), file)
        if not table.has_names:
            raise ValueError(f"{file} needs names of its columns in the first line")
        columns = table.columns
        wanted = _by_output("--sigma", options.sigma, columns)
        taken = {x, *wanted.values(), *(f"sigma_{name}" for name in columns)}
        names = options.outputs or [name for name in columns if name not in taken]
        _check_names(file, list(columns), {"--outputs": names, "--x": [] if x is None else [x]})
        _check_names(file, names, {"--scale": options.scale, "--offset": options.offset})
        places = np.empty(0) if x is None else columns[x]
        if np.isnan(places).any():
            raise ValueError(f"{file}: the column {x!r} of --x has an empty cell")
        if not names:
            raise ValueError(f"{file} has no column to fit beside {', '.join(columns)}")
        of_file = {name: f"sigma_{name}" for name in columns if name in names and f"sigma_{name}" in columns}
        return cls(
            places,
            {name: columns[name] for name in names},
            {name: _deviation(name, what, columns) for name, what in (of_file | _of_all(wanted, names)).items()},
            _of_all(_by_output("--likelihood", options.likelihood, columns), names),
        )

    def scaled(self, options: argparse.Namespace) -> dict[str, Any]:
        """The outputs, `Scaled` where the options say so."""
        scaled: dict[str, Any] = dict(self.outputs)
        for name in {*options.scale, *options.offset}:
            scaled[name] = Scaled(self.outputs[name], scale=name in options.scale, offset=name in options.offset)
        return scaled


def _check_names(file: str, known: Sequence[str], given: Mapping[str, Sequence[str]]) -> None:
    """Raise if an option names a column that is not among those it may name."""
    for option, names in given.items():
        for name in names:
            if name not in known:
                raise ValueError(f"{option}: {file} has no such column as {name!r}; {choices(name, known)}")


def _by_output(option: str, texts: Sequence[str], columns: Mapping[str, Any]) -> dict[str, str]:
    """What an option says, by output; under an empty name what it says of all."""
    found = {}
    for text in texts:
        name, _, what = text.rpartition("=")
        if name and name not in columns:
            raise ValueError(f"{option} {text}: there is no column {name!r}; {choices(name, list(columns))}")
        found[name] = what
    return found


def _of_all(by_output: dict[str, str], names: Sequence[str]) -> dict[str, str]:
    """The same with an entry for each output that is meant."""
    meant = dict.fromkeys(names, by_output[""]) if "" in by_output else {}
    return meant | {name: what for name, what in by_output.items() if name in names}


def _deviation(name: str, what: str, columns: Mapping[str, Any]) -> Any:
    """A standard deviation: a column, or a number."""
    if what in columns:
        gaps = np.isnan(columns[what]) & ~np.isnan(columns[name])
        if gaps.any():
            raise ValueError(f"{what} has no number in row {int(np.argmax(gaps)) + 1}, where {name} has a datum")
        return np.where(np.isnan(columns[what]), 1.0, columns[what])
    try:
        return float(what)
    except ValueError:
        raise ValueError(
            f"--sigma: {what!r} is neither a number nor a column; {choices(what, list(columns))}"
        ) from None


@dataclass(frozen=True)
class OneOutput:
    """A simulator of one output that may return an array without its name. It can be sent to processes."""

    simulate: Any
    name: str

    def __call__(self, *given: Any) -> Any:
        """The outputs by name."""
        answer = self.simulate(*given)
        return answer if isinstance(answer, Mapping) else {self.name: answer}

    def to_fingerprint(self) -> Any:
        """The user's function."""
        return self.simulate


def named(simulate: Any, names: Sequence[str]) -> Any:
    """The simulator; with one output it may return an array."""
    return OneOutput(simulate, names[0]) if len(names) == 1 else simulate


def recorded_outputs(run: Any, source: Source) -> tuple[list[str], tuple[str, list[float]] | None]:
    """The names of the outputs in the store of a fit, and the name and places of their x; nothing for other runs."""
    data, xdata = (run.problem.get(name) for name in ("data", "xdata"))
    is_named = run.function == "fit" and isinstance(data, dict) and isinstance(data.get("items"), list)
    names = [str(name) for name, _ in data["items"]] if is_named else []
    for name, places in ((source.command or {}).get("at") or {}).items():
        return names, (name, places)
    is_list = isinstance(xdata, dict) and isinstance(xdata.get("array"), list)
    return names, (source.x or "x", xdata["array"]) if is_list else None
