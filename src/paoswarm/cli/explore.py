"""``paoswarm explore``: the local web page."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import webbrowser
from pathlib import Path

_EXAMPLES = """examples:
  paoswarm explore                        what mass, damping, stiffness, noise and dt do to a swarm
  paoswarm explore run.paoswarm           a stored run, while it goes on
  paoswarm explore a.paoswarm b.paoswarm  several runs
  paoswarm explore --port 8765 --no-browser run.paoswarm
                                          on another machine; then here: ssh -L 8765:127.0.0.1:8765 MACHINE
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.description = "Open a web page on this machine. Nothing is sent elsewhere. Ctrl-C ends it."
    parser.epilog = _EXAMPLES
    parser.add_argument("store", nargs="*", type=Path, help="files that were given as store= of a run")
    parser.add_argument("--port", type=int, default=0, help="port of the page (default: any free one)")
    parser.add_argument("--link", metavar="LINK", help="show what a copied link shows")
    parser.add_argument("--no-browser", action="store_true", help="print the address only")


def run(options: argparse.Namespace) -> None:
    """Serve the page until it is interrupted."""
    from paoswarm.explorer.launch import read_stores
    from paoswarm.explorer.server import Server

    stores = read_stores(options.store)
    with Server(stores, options.port) as server:
        address = server.address + _fragment(options.link, bool(stores))
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it like Ctrl-C
        try:
            print(f"paoswarm explore: {address}\nCtrl-C ends it.", flush=True)
            if not options.no_browser and _has_display():
                webbrowser.open(address)
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            print("\nended", flush=True)
        finally:
            signal.signal(signal.SIGTERM, before)


def _fragment(link: str | None, has_runs: bool) -> str:
    """The part of the address that tells what to show first."""
    if link is None:
        return "#run" if has_runs else ""
    fragment = link.partition("#")[2]
    if not fragment.startswith("swarm"):
        raise ValueError(f"--link must be a link that was copied from the page (...#swarm?...), got {link!r}")
    return f"#{fragment}"


def _has_display() -> bool:
    """Whether a browser with windows can be opened; one in the terminal would be in the way."""
    return sys.platform in ("win32", "darwin") or any(os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY"))
