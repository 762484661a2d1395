"""Runs the cells of a study that are not on disk yet, on as many cores as wanted."""

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

from paoswarm.evaluation.executors import end, is_client, is_executor, make_one
from paoswarm.progress_bar import ProgressBar
from paoswarm.study.cell_files import CellFiles, DamagedFile
from paoswarm.study.cells import Cell, Runs
from paoswarm.study.results import Key


class CellFailed(RuntimeError):
    """A cell could not be run; the finished ones are kept."""


def finish(cells: list[Cell], store: CellFiles, version: str, *, workers: Any, progress: bool) -> dict[Key, Runs]:
    """All cells of a study: from disk where they are there and sound, run and stored otherwise."""
    store.open()
    store.clean()
    descriptions = {cell.key: cell.description(version) for cell in cells}
    missing = [cell for cell in cells if _stored(store, cell.key, descriptions[cell.key]) is None]
    with ProgressBar(progress, len(cells), unit="cell", done=len(cells) - len(missing)) as bar:
        for key in _run(missing, store, descriptions, workers):
            bar.show(note=f"{key.method} on {key.problem} {key.dim}-D")
            bar.count()
    done = {}
    for cell in cells:
        runs = store.read(cell.key, descriptions[cell.key])
        assert runs is not None
        done[cell.key] = runs
    return done


def _stored(store: CellFiles, key: Key, description: dict[str, Any]) -> Runs | None:
    try:
        return store.read(key, description)
    except DamagedFile as damage:
        warnings.warn(f"{damage}; its cell is run again", RuntimeWarning, stacklevel=4)
        return None


def _run(cells: list[Cell], store: CellFiles, descriptions: dict[Key, Any], workers: Any) -> Iterator[Key]:
    """Run cells, keep what they found, and give their keys as they are done."""
    if (isinstance(workers, int) and workers == 1) or len(cells) <= 1:
        for cell in cells:
            store.write(cell.key, descriptions[cell.key], _attempt(cell))
            yield cell.key
        return
    executor, is_ours = _open(workers, cells)
    tasks: dict[Any, Cell] = {}
    try:
        takes = executor.get_executor(pure=False) if is_client(executor) else executor
        tasks |= {takes.submit(_attempt_elsewhere, cell): cell for cell in cells}
        for task in as_completed(tasks):
            key, found = tasks[task].key, task.result()
            if isinstance(found, str):
                raise CellFailed(found)
            store.write(key, descriptions[key], found)
            yield key
    except BrokenExecutor as error:
        raise CellFailed("a worker process died; what is finished is kept: start the study again to go on") from error
    finally:  # also on Ctrl-C: cells that have begun are given up, finished ones are on disk
        if is_ours:
            end(executor)
        else:
            for task in tasks:
                task.cancel()


def _open(workers: Any, cells: list[Cell]) -> tuple[Any, bool]:
    """An executor, and whether it was made here."""
    if isinstance(workers, int):
        _check_portable(cells)
        return ProcessPoolExecutor(min(workers, len(cells)), initializer=_prepare_worker), True
    return (workers, False) if is_executor(workers) else (make_one(workers), True)


def _check_portable(cells: list[Cell]) -> None:
    """Raise before the first run where something cannot be sent to worker processes."""
    for cell in cells:
        for what, thing in (
            (f"problem {cell.key.problem!r}", cell.source),
            (f"method {cell.key.method!r}", cell.method),
        ):
            try:
                pickle.dumps(thing)
            except Exception as error:
                raise TypeError(
                    f"the {what} cannot be sent to worker processes ({error}): define it at the top level of a module, "
                    "or use workers=1"
                ) from error


def _attempt(cell: Cell) -> Runs:
    try:
        return cell.run()
    except Exception as error:
        problem, dim, method = cell.key
        raise CellFailed(
            f"{method} on {problem} in {dim} dimensions failed: {type(error).__name__}: {error}; "
            "what is finished is kept"
        ) from error


def _attempt_elsewhere(cell: Cell) -> Runs | str:
    """The runs, or what went wrong: not all exceptions survive the journey between processes, causes even less."""
    try:
        return _attempt(cell)
    except CellFailed as error:
        return str(error)


def _prepare_worker() -> None:
    """A worker leaves interrupts to its parent, and ends with it even if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: Any) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
