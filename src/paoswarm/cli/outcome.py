"""Carry out a run, report what it has found, and end with the right exit code."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from paoswarm.cli.commands import INTERRUPTED, WITHOUT_SUCCESS
from paoswarm.cli.result_text import as_json, summary
from paoswarm.optimize.many_result import ManyResult
from paoswarm.optimize.stopping import Status
from paoswarm.sampling.posterior import Posterior

_CAN_GO_ON = (Status.INTERRUPTED, Status.CRASHED, Status.TIME)


def carry_out(options: argparse.Namespace, call: Callable[[], Any], write: Callable[[Any], None] | None = None) -> int:
    """Call what makes a result, and report it; return the exit code. ``write`` does something with the result first."""
    for path in (options.json, getattr(options, "draws", None)):
        _check_can_write(path)
    options.kept = _advice(options.store)
    began = time.monotonic()
    with _terminated_like_interrupted():
        warnings.filterwarnings("ignore", "fun raised an exception at .* points, which count as .inf")  # it is below
        result = call()
    seconds = time.monotonic() - began
    if write is not None:
        write(result)
    if options.json is not None:
        text = as_json(result, seconds, options.store)
        if options.json == "-":
            options.answer = text
        else:
            Path(options.json).write_text(text + "\n", encoding="utf-8")
    if options.json != "-":
        print(summary(result, seconds))
    code, why = _exit_code(result)
    if code == INTERRUPTED:
        print(f"paoswarm: interrupted{options.kept}", file=sys.stderr)
    elif code:
        go_on = options.kept if why in _CAN_GO_ON and options.store is not None else ""
        named = why.name if isinstance(why, Status) else why
        print(f"paoswarm: ended without success ({named}){go_on}", file=sys.stderr)
    return code


def progress_wanted(options: argparse.Namespace) -> bool:
    """Whether to show a progress bar: somebody looks, and tqdm is there."""
    return sys.stderr.isatty() and not options.quiet and find_spec("tqdm") is not None


def _advice(store: Any) -> str:
    if store is None:
        return "; the evaluations are lost: give --store FILE, and a run that was stopped can go on"
    return f"; the evaluations are kept. To go on: paoswarm resume {shlex.quote(os.fspath(store))}"


def _check_can_write(path: str | None) -> None:
    """Raise now if a file cannot be written, not after hours."""
    if path is None or path == "-":
        return
    parent = Path(path).absolute().parent
    if (
        Path(path).is_dir()
        or not parent.is_dir()
        or not os.access(Path(path) if Path(path).exists() else parent, os.W_OK)
    ):
        raise ValueError(f"{path} cannot be written")


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Take SIGTERM, by which queues end jobs, for Ctrl-C."""

    def handle(number: int, frame: FrameType | None) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit_code(result: Any) -> tuple[int, Any]:
    """The exit code, and why it is not zero."""
    if isinstance(result, Posterior):
        if result.method == "interrupted":
            return INTERRUPTED, ""
        return (0, "") if result.success else (WITHOUT_SUCCESS, "a value is doubtful")
    if isinstance(result, ManyResult):
        if (result.status == Status.INTERRUPTED).any():
            return INTERRUPTED, ""
        failed = int((~result.success).sum())
        return (WITHOUT_SUCCESS, f"{failed} of {len(result.fun)} runs") if failed else (0, "")
    if result.status is Status.INTERRUPTED:
        return INTERRUPTED, ""
    return (0, "") if result.success else (WITHOUT_SUCCESS, result.status)
