"""An external program as the objective, or as the simulator of a fit: `Command`."""

from __future__ import annotations

import inspect
import math
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from paoswarm._checks import flag, of_kind, real_number, texts
from paoswarm.evaluate.program import (
    MOST_BYTES,
    check_names,
    check_program,
    filled,
    input_files,
    names_in,
    quoted_for_shell,
    run_folder,
    run_program,
    split_words,
)
from paoswarm.evaluate.program_output import Columns, CommandFailed, WrongOutput, check_pattern, read_value
from paoswarm.space.names import numbered


class Command:
    """A program that is run for every point: values go into its arguments or input files, a number comes back.

    With ``outputs`` a table comes back, for `fit`.

    It is a function like any other: `minimize`, `sample` and `fit` take it, with ``workers`` and ``store``. A
    program that ends with an exit status other than 0 has failed at that point; the reason is the end of what it wrote
    to stderr. A second after its end, what it has left behind is not waited for any more.

    Parameters
    ----------
    command : str
        The program and its arguments. ``{name}`` stands for a value; ``{name:.3f}`` has a format. (If the variables
        have no names, ``{x0}``, ``{x1}``, ...) It is split into words as by a shell, but no shell runs: a value is
        always part of one word and can do nothing else.
    folder : bool or path
        Whether every run has a temporary folder of its own; a path is copied to it, without stores (``*.paoswarm``).
        Words of the command that name files are made absolute, unless the copy has these files.
    templates : path or sequence of paths
        Input files with ``{name}`` in the place of values. They are written to the run's own folder, under their own
        name without a ``.in`` at the end. Other braces stay as they are.
    value_from : str, optional
        A file that the program writes in its own folder, to read the value from it. By default it is read from stdout.
    pattern : str, optional
        A regular expression that finds the value: its first group, where it matches last; without a group, the number
        behind it. So ``pattern="cost"`` finds ``cost: 3.5``. By default the value is the last number of the last line
        that is not empty.
    also : str or sequence of str
        Patterns of further numbers. The function then returns the value and a list of these, for constraints: see
        `Returned`.
    factor : float
        The value is multiplied by it: -1 to maximise, -0.5 to make a log likelihood of a sum of squared errors in units
        of their standard deviation.
    outputs : str or sequence of str, optional
        Columns of a table that the program writes: then an array is returned, or a dict of arrays. The table is CSV,
        has its columns apart by spaces, or is JSON (an object of lists). Names are in its first line; without names,
        the columns are those of ``at`` and ``outputs`` in this order. With ``pattern`` it begins in the line after the
        match, and ends at an empty line.
    at : dict, optional
        A column of the table and the places where outputs are wanted, as in ``at={"time": [1, 2, 5]}``. In between,
        outputs are on straight lines between rows. By default all rows are returned.
    shell : bool
        Whether the shell runs the command, for pipes and variables. Values are quoted. Texts that need it cannot stand
        between quotes of the command.
    keep : path, optional
        Where to make the folders of all runs, which are then not removed: to see what went wrong.
    cwd : path, optional
        The folder in which relative names start, and where the program runs if it has no folder of its own; by default
        the current one.

    Notes
    -----
    With ``folder``, ``templates``, ``value_from`` or ``keep`` every run has its own folder. So runs do not disturb each
    other, and the result of another run is never read.

    The fingerprint in a store is made of the command and of the contents of the files it names: the program and scripts
    (if they have relative names), templates, and the folder that is copied.

    Examples
    --------
    >>> import paoswarm as ps
    >>> simulate = ps.Command("echo cost: {order}")
    >>> simulate({"order": 3})
    3.0
    >>> ps.Command("echo 1.0 {order}", outputs="x", at={"time": [1]})({"order": 3})
    array([3.])
    >>> ps.minimize(simulate, {"order": ps.Integer(1, 4)}, maxfev=20, rng=1).best
    {'order': 1}
    """

    def __init__(
        self,
        command: str,
        *,
        folder: bool | str | os.PathLike[str] = False,
        templates: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        value_from: str | None = None,
        pattern: str | None = None,
        also: str | Sequence[str] = (),
        factor: float = 1.0,
        outputs: str | Sequence[str] | None = None,
        at: Mapping[str, Any] | None = None,
        shell: bool = False,
        keep: str | os.PathLike[str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(command, str) or not command.strip():
            raise ValueError(f"command must be a program with its arguments as one text, got {command!r}")
        self.command = command
        self.folder = folder if isinstance(folder, bool) else _path("folder", folder)
        self.templates = texts("templates", templates)
        self.value_from = None if value_from is None else of_kind("value_from", value_from, str, "the name of a file")
        self.pattern = pattern
        self.also = texts("also", also)
        self.factor = real_number("factor", factor, -math.inf, may_equal=False)
        self.outputs = outputs if outputs is None or isinstance(outputs, str) else texts("outputs", outputs)
        self.at = _places(at)
        self.shell = flag("shell", shell)
        self.keep = None if keep is None else _path("keep", keep)
        self.cwd = str(Path.cwd() if cwd is None else Path(_path("cwd", cwd)).absolute())
        self._check_reading()
        self._check_files()
        # Read now: the text travels to workers, and an edit during the run has no effect.
        self._texts = {_input_name(one): (self._here / one).read_text(encoding="utf-8") for one in self.templates}
        self._words = [] if self.shell else [self._as_called(word) for word in split_words(command)]

    def _check_reading(self) -> None:
        """Raise if what is read from the output makes no sense."""
        if not math.isfinite(self.factor) or self.factor == 0:
            raise ValueError(f"factor must be finite and not 0, got {self.factor!r}")
        for pattern in (*([] if self.pattern is None else [self.pattern]), *self.also):
            check_pattern(pattern)
        if self.outputs is None and self.at:
            raise ValueError("at= needs outputs=, the columns of a table")
        if self.outputs is not None and (self.also or self.factor != 1 or len(self.at) > 1 or not self.outputs):
            raise ValueError("outputs= are columns of a table, at= is one column; also= and factor= are for one value")

    def _check_files(self) -> None:
        """Raise if a run could not have its folder and files."""
        case, keep = self._case, self._keep
        if case is not None and not case.is_dir():
            raise ValueError(f"there is no folder {self.folder}")
        if case is not None and keep is not None and keep.resolve().is_relative_to(case.resolve()):
            raise ValueError(f"keep={self.keep!r} lies in the folder that is copied; choose a place outside of it")
        inputs = [_input_name(one) for one in self.templates]
        if twice := [name for name in inputs if inputs.count(name) > 1]:
            raise ValueError(f"two templates would be written to the same file, {twice[0]}: rename one of them")
        if self.value_from is not None and (Path(self.value_from).is_absolute() or ".." in Path(self.value_from).parts):
            raise ValueError(f"value_from must be a name in the folder of the run, got {self.value_from!r}")

    def __repr__(self) -> str:
        return f"Command({self.command!r})"

    @property
    def _here(self) -> Path:
        return Path(self.cwd)

    @property
    def _case(self) -> Path | None:
        """The folder that is copied for every run."""
        return None if isinstance(self.folder, bool) else self._here / self.folder

    @property
    def _keep(self) -> Path | None:
        return None if self.keep is None else self._here / self.keep

    @property
    def _is_alone(self) -> bool:
        """Whether every run has a folder of its own."""
        return bool(self.folder is not False or self.templates or self.value_from is not None or self.keep is not None)

    def _as_called(self, word: str) -> str:
        """A word of the command; absolute if it names a file that the folder of the run does not have."""
        is_copied = self._case is not None and (self._case / word).exists()
        is_here = self._is_alone and not is_copied and (self._here / word).is_file()
        return str(self._here / word) if is_here else word

    @property
    def names(self) -> list[str]:
        """The names in braces, in the command and in the templates."""
        return list(dict.fromkeys(name for text in (self.command, *self._texts.values()) for name in names_in(text)))

    def check(self, known: Collection[str], needed: Collection[str]) -> None:
        """Raise if a name in braces is not known, one that is needed is missing, or there is no such program."""
        check_names(self.command, known)
        for name in needed:
            if name not in self.names:
                where = "the command or in a template" if self._texts else "the command"
                raise ValueError(f"{name} has no effect: write {{{name}}} in {where}, or fix it")
        if not self.shell and not names_in(self._words[0]):
            check_program(self._words[0], self._case if self._case is not None else self._here)

    def __call__(self, point: Any) -> Any:
        """Run the program and return its value, perhaps with further numbers, or its outputs.

        Raises a `RuntimeError` if it fails.
        """
        values = _values_by_name(point)
        check_names(self.command, values)
        if not self._is_alone:
            return self._value(values, self._here)
        with run_folder(self._case, self._keep) as folder:
            if self.value_from is not None:
                with suppress(OSError):  # the copied folder may hold that of an earlier run
                    (folder / self.value_from).unlink()
            for name, text in self._texts.items():
                (folder / name).write_text(filled(text, values), encoding="utf-8")
            try:
                return self._value(values, folder)
            except CommandFailed as error:
                raise type(error)(f"{error} (in {folder})" if self.keep else str(error)) from None

    def _value(self, values: Mapping[str, Any], folder: Path) -> Any:
        words = [filled(word, values) for word in self._words]
        output, is_whole = run_program(words or filled(self.command, values, quoted_for_shell), folder)
        where = "its output" if is_whole else f"the last {MOST_BYTES >> 20} MB of its output"
        if self.value_from is not None:
            where = self.value_from
            try:
                output = (folder / where).read_text(encoding="utf-8", errors="replace")
            except OSError as error:
                raise CommandFailed(f"it did not write {where}: {error.strerror}") from None
        elif not (is_whole or self.outputs is None or self.pattern):
            raise WrongOutput(f"a table must not be longer than {where}; let it write a file, and give value_from")
        if self.outputs is not None:
            found = Columns(texts("outputs", self.outputs), self.at).read(output, self.pattern, where)
            return found[self.outputs] if isinstance(self.outputs, str) else found
        value = self.factor * read_value(output, self.pattern, where)
        return (value, [read_value(output, pattern, where) for pattern in self.also]) if self.also else value

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that make an equal one, as JSON."""
        return {name: getattr(self, name) for name in inspect.signature(Command).parameters}

    def fingerprint_parts(self) -> dict[str, Any]:
        """What the values depend on, as far as it can be seen."""
        parts: dict[str, Any] = {"command": (self.command, self.shell)}
        parts["the reading of its value"] = (self.value_from, self.pattern, self.also, self.factor)
        if self.outputs is not None:
            parts["the reading of its outputs"] = (self.outputs, self.at)
        parts |= {f"template of {name}": text for name, text in self._texts.items()}
        for word in [] if self.shell else split_words(self.command):
            if not os.path.isabs(word) and (self._here / word).is_file():
                parts[f"file {word}"] = _checksum(self._here / word)
        if self._case is not None:
            contents = [(str(file), _checksum(self._case / file)) for file in input_files(self._case)]
            parts[f"folder {self.folder}"] = contents
        return parts


def _path(name: str, given: Any) -> str:
    return os.fspath(of_kind(name, given, str | os.PathLike, "a path"))


def _places(at: Any) -> dict[str, list[float]]:
    """The places of a column as numbers."""
    what = "a dict with a list of numbers, as in at={'time': [1, 2]}"
    try:
        return {
            name: np.asarray(places, dtype=float).tolist()
            for name, places in of_kind("at", at or {}, Mapping, what).items()
        }
    except (ValueError, OverflowError):
        raise ValueError(f"at must be {what}, got {at!r}") from None


def _input_name(template: str) -> str:
    return Path(template).name.removesuffix(".in")


def _values_by_name(point: Any) -> dict[str, Any]:
    """The values of a point, without NumPy's types, whose text is not that of a number."""
    items = point.items() if hasattr(point, "items") else zip(numbered(len(point)), point, strict=True)
    return {name: value.item() if isinstance(value, np.generic | np.ndarray) else value for name, value in items}


def _checksum(path: Path) -> int:
    found = 0
    with suppress(OSError), path.open("rb") as file:
        while chunk := file.read(1 << 20):
            found = zlib.crc32(chunk, found)
    return found
