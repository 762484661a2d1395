"""Start the explorer, from a notebook or for the command."""

from __future__ import annotations

import html
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paoswarm.explorer.server import Server


class Explorer:
    """The explorer as a page in the background; a context manager.

    In a notebook it shows itself. It ends with `close`, or with the process.

    Attributes
    ----------
    address : str
        The address to open in a browser of this machine. It holds a token: whoever has it can see the runs.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.address = server.address
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the page and free its port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Explorer({self.address!r})"

    def _repr_html_(self) -> str:
        address = html.escape(self.address, quote=True)
        return (
            f'<iframe src="{address}" width="100%" height="900" style="border:0" title="paoswarm explore"></iframe>'
            f'<p><a href="{address}" target="_blank" rel="noopener">Open in a tab</a></p>'
        )


def explore(store: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (), *, port: int = 0) -> Explorer:
    """Open a local web page that shows what hyperparameters do, and stored runs while they go on.

    Only this machine can open the page. The command ``paoswarm explore`` does the same in a terminal.

    Parameters
    ----------
    store : path or sequence of path
        Stored runs to show; see ``store=`` of `minimize`.
    port : int
        Port of the page; 0 for any free one.

    Returns
    -------
    Explorer
        The page; in a notebook it is shown below the cell.

    Examples
    --------
    >>> import paoswarm as ps
    >>> with ps.explore() as page:
    ...     page.address  # doctest: +ELLIPSIS
    'http://127.0.0.1:.../.../'
    """
    from paoswarm.explorer.server import Server  # not at the top: most programs need no web server

    return Explorer(Server(read_stores(store), port))


def read_stores(store: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the paths of existing files; raise a FileNotFoundError for any other."""
    given = [store] if isinstance(store, str | os.PathLike) else list(store)
    paths = [Path(one) for one in given]
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}: give the file that was store= of a run")
    return paths
