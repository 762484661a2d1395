"""``paoswarm watch``: the progress of a stored run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_EXAMPLES = """examples:
  paoswarm watch run.paoswarm          until the run has ended
  paoswarm watch run.paoswarm --once   the present state, for scripts
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _EXAMPLES
    parser.add_argument("store", type=Path, help="the file of the run")
    parser.add_argument("--once", action="store_true", help="show the present state and exit")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="refresh interval (default: 1)")


def run(options: argparse.Namespace) -> None:
    """Show the progress."""
    from paoswarm._checks import positive_number
    from paoswarm.storage.watch import watch

    shown = 0

    def show(text: str) -> None:
        nonlocal shown
        back = f"\x1b[{shown}A\x1b[J" if shown and sys.stdout.isatty() else ""
        print(f"{back}{text}", flush=True)
        shown = text.count("\n") + 1

    watch(options.store, once=options.once, every=positive_number("--every", options.every), show=show)
