"""Run the cells of a study that are not on disk yet, in this process or in workers."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, as_completed
from typing import Any

from paoswarm._extras import ProgressBar
from paoswarm.evaluation.executors import end, is_client, is_executor, make_one
from paoswarm.study.cell_files import CellFiles, DamagedFile
from paoswarm.study.cells import Cell, Runs
from paoswarm.study.results import Key


class CellFailed(RuntimeError):
    """A cell could not be run. All finished cells are kept."""


def finish(cells: list[Cell], files: CellFiles, version: str, *, workers: Any, progress: bool) -> dict[Key, Runs]:
    """Return all cells of a study: read from disk where possible, run and written otherwise."""
    files.open()
    files.clean()
    descriptions = {cell.key: cell.description(version) for cell in cells}
    stored = {cell.key: _read(files, cell.key, descriptions[cell.key]) for cell in cells}
    missing = [cell for cell in cells if stored[cell.key] is None]
    with ProgressBar(progress, len(cells), unit="cell", done=len(cells) - len(missing)) as bar:
        for key in _run(missing, files, descriptions, workers):
            bar.show(note=f"{key.method} on {key.problem} {key.dim}-D")
            bar.count()
    done = {}
    for key, found in stored.items():
        runs = found or files.read(key, descriptions[key])
        assert runs is not None
        done[key] = runs
    return done


def _read(files: CellFiles, key: Key, description: dict[str, Any]) -> Runs | None:
    try:
        return files.read(key, description)
    except DamagedFile as damage:
        warnings.warn(f"{damage}; running its cell again", RuntimeWarning, stacklevel=4)
        return None


def _run(cells: list[Cell], files: CellFiles, descriptions: dict[Key, Any], workers: Any) -> Iterator[Key]:
    """Run and write cells, and yield the key of each when it is done."""
    if (isinstance(workers, int) and workers == 1) or len(cells) <= 1:
        for cell in cells:
            files.write(cell.key, descriptions[cell.key], _attempt(cell))
            yield cell.key
        return
    executor, is_ours = _open(workers, cells)
    tasks: dict[Any, Cell] = {}
    try:
        pool = executor.get_executor(pure=False) if is_client(executor) else executor
        tasks |= {pool.submit(_attempt_elsewhere, cell): cell for cell in cells}
        for task in as_completed(tasks):
            key, found = tasks[task].key, task.result()
            if isinstance(found, str):
                raise CellFailed(found)
            files.write(key, descriptions[key], found)
            yield key
    except BrokenExecutor as error:
        raise CellFailed("a worker process died; finished cells are kept, run the study again to continue") from error
    finally:  # also on Ctrl-C: running cells are dropped, finished ones are on disk
        if is_ours:
            end(executor)
        else:
            for task in tasks:
                task.cancel()


def _open(workers: Any, cells: list[Cell]) -> tuple[Any, bool]:
    """Return an executor, and whether it was made here."""
    if isinstance(workers, int):
        _check_portable(cells)
        return ProcessPoolExecutor(min(workers, len(cells)), initializer=_prepare_worker), True
    return (workers, False) if is_executor(workers) else (make_one(workers), True)


def _check_portable(cells: list[Cell]) -> None:
    """Raise before the first run if something cannot be sent to worker processes."""
    for cell in cells:
        for what, thing in (
            (f"problem {cell.key.problem!r}", cell.source),
            (f"method {cell.key.method!r}", cell.method),
        ):
            try:
                pickle.dumps(thing)
            except Exception as error:
                raise TypeError(
                    f"{what} cannot be sent to worker processes ({error}); define it at the top level of a module, "
                    "or use workers=1"
                ) from error


def _attempt(cell: Cell) -> Runs:
    try:
        return cell.run()
    except Exception as error:
        problem, dim, method = cell.key
        raise CellFailed(
            f"{method} on {problem} in {dim} dimensions failed: {type(error).__name__}: {error}; "
            "finished cells are kept"
        ) from error


def _attempt_elsewhere(cell: Cell) -> Runs | str:
    """Return the runs, or the error message: some exceptions cannot be pickled, and their causes are lost."""
    try:
        return _attempt(cell)
    except CellFailed as error:
        return str(error)


def _prepare_worker() -> None:
    """Make a worker ignore Ctrl-C, which its parent handles, and exit when the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), daemon=True).start()


def _exit_after(sentinel: Any) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
