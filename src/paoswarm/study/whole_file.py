"""Files that appear whole or not at all."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from paoswarm.storage.watch import is_running


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
