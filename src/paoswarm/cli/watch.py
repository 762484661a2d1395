"""``paoswarm watch`` and ``paoswarm explore``: look at stored runs, in the terminal or on a local web page."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import webbrowser
from pathlib import Path

_WATCH_EXAMPLES = """examples:
  paoswarm watch run.paoswarm          until the run has ended
  paoswarm watch run.paoswarm --once   the present state, for scripts
"""
_EXPLORE_EXAMPLES = """examples:
  paoswarm explore                        what mass, damping, stiffness, noise and dt do to a swarm
  paoswarm explore run.paoswarm           a stored run, while it goes on
  paoswarm explore a.paoswarm b.paoswarm  several runs
  paoswarm explore --port 8765 --no-browser run.paoswarm
                                          on another machine; then here: ssh -L 8765:127.0.0.1:8765 MACHINE
"""


def fill_watch(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `watch`."""
    parser.epilog = _WATCH_EXAMPLES
    parser.add_argument("store", type=Path, help="the file of the run")
    parser.add_argument("--once", action="store_true", help="show the present state and exit")
    parser.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="refresh interval (default: 1)")


def run_watch(options: argparse.Namespace) -> None:
    """Show the progress until the run has ended or its process is gone."""
    from paoswarm.helpers import positive_number
    from paoswarm.results import Progress

    every = max(positive_number("--every", options.every), 0.05)
    progress, shown = Progress(options.store), ""
    while True:
        text = str(progress.update())
        if text != shown:
            rows = shown.count("\n") + 1
            back = f"\x1b[{rows}A\x1b[J" if shown and sys.stdout.isatty() else ""
            print(f"{back}{text}", flush=True)
            shown = text
        if options.once or progress.ended is not None or progress.is_alive is False:
            return
        time.sleep(every)


def fill_explore(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `explore`."""
    parser.description = "Open a web page on this machine. Nothing is sent elsewhere. Ctrl-C ends it."
    parser.epilog = _EXPLORE_EXAMPLES
    parser.add_argument("store", nargs="*", type=Path, help="files that were given as store= of a run")
    parser.add_argument("--port", type=int, default=0, help="port of the page (default: any free one)")
    parser.add_argument("--link", metavar="LINK", help="show what a copied link shows")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")


def run_explore(options: argparse.Namespace) -> None:
    """Serve the page until it is interrupted."""
    from paoswarm import explore

    fragment = _fragment(options.link, bool(options.store))
    with explore(options.store, port=options.port) as page:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it like Ctrl-C
        try:
            print(f"paoswarm explore: {page.address}{fragment}\nCtrl-C ends it.", flush=True)
            if not options.no_browser and _has_display():
                webbrowser.open(page.address + fragment)
            while True:
                time.sleep(1.0)
        except KeyboardInterrupt:
            print("\nended", flush=True)
        finally:
            signal.signal(signal.SIGTERM, before)


def _fragment(link: str | None, has_runs: bool) -> str:
    """Return the part of the address that tells what to show first."""
    if link is None:
        return "#run" if has_runs else ""
    fragment = link.partition("#")[2]
    if not fragment.startswith("swarm"):
        raise ValueError(f"--link must be a link that was copied from the page (...#swarm?...), got {link!r}")
    return f"#{fragment}"


def _has_display() -> bool:
    """Return whether a browser with windows can be opened; one in the terminal would be in the way."""
    return sys.platform in ("win32", "darwin") or any(os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY"))
