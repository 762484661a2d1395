"""The local web page: `explore`, the server behind it, and the questions that it answers.

- It listens on 127.0.0.1. Requests whose Host is not this machine are refused, so that no foreign name can be made to
  point here; so are requests that another page has made.
- Every address starts with a random token. Without it the server answers only how to get it.
- Files come from a table made at the start. The page never names a file.
- Answers are JSON that a browser reads without loss. Arrays are packed as base64 of little-endian doubles. JSON has no
  NaN and no infinity: outside of arrays, NaN becomes null, and infinity a string, as in a store.
"""

from __future__ import annotations

import base64
import hmac
import html
import json
import logging
import math
import os
import re
import secrets
import socket
import socketserver
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike

from paoswarm.explorer import swarm_room
from paoswarm.explorer.run_room import RunRoom
from paoswarm.helpers import describe_error, plain, texts, whole_number

logger = logging.getLogger("paoswarm")

_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_OWN_NAME = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?")
_LONGEST = 100_000  # bytes of a request
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self' http://127.0.0.1:* http://localhost:*",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_NO_TOKEN = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>paoswarm explore</title><h1>This address has no token</h1>
<p>Open the address that <code>paoswarm explore</code> has printed.
To see what a link shows: <code>paoswarm explore --link "LINK"</code>.</p></html>
"""

Answer = dict[str, Any]


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

    def __exit__(self, *error: object) -> None:
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
    return Explorer(Server(read_stores(store), port))


def read_stores(store: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the paths of existing files; raise a FileNotFoundError for any other."""
    found = [Path(one) for one in texts("store", store)]
    for path in found:
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}: give the file that was store= of a run")
    return found


class Server(ThreadingHTTPServer):
    """The server; it answers in threads that end with the process."""

    daemon_threads = True
    request_queue_size = 128  # connections that wait to be accepted; beyond these a browser waits a second
    allow_reuse_address = os.name == "posix"  # elsewhere it would share the port with another program

    def __init__(self, stores: Sequence[Path] = (), port: int = 0) -> None:
        whole_number("port", port, 0, 65535)
        self.answers = Answers(stores)
        self.token = secrets.token_urlsafe(24)
        static = (files("paoswarm.explorer") / "static").iterdir()
        self.static = {file.name: file.read_bytes() for file in static if Path(file.name).suffix in _KINDS}
        self._connections: set[Any] = set()
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise OSError(
                f"cannot listen on port {port}: {(error.strerror or str(error)).lower()}; choose another --port, or "
                "leave it out for any free one"
            ) from error

    def server_bind(self) -> None:
        """Bind without looking up the name of this machine, which may take seconds without a network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", int(self.server_address[1])

    @property
    def address(self) -> str:
        """The address of the page, with the token."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and remember it while it is open."""
        self._connections.add(request)
        try:
            super().finish_request(request, client_address)
        finally:
            self._connections.discard(request)

    def server_close(self) -> None:
        """Free the port and end open connections: a browser keeps them for the next question."""
        super().server_close()
        for connection in list(self._connections):
            with suppress(OSError):  # it has just ended
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up is no error."""
        logger.debug("explore: connection ended", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "paoswarm", ""
    disable_nagle_algorithm = True  # otherwise every answer waits 40 ms
    wbufsize = -1
    timeout = 120

    def do_GET(self) -> None:
        """A file of the page."""
        rest = self._admit()
        if rest is None:
            return
        name = rest or "index.html"
        if name not in self.server.static:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        self._send(HTTPStatus.OK, _KINDS[Path(name).suffix], self.server.static[name])

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """An answer of one of the rooms."""
        rest = self._admit()
        if rest is None:
            return
        what = rest.removeprefix("api/")
        if what == rest or what not in self.server.answers:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such question")
            return
        if self.headers.get_content_type() != "application/json":  # a form of another page cannot send this
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send JSON")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LONGEST:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too long")
            return
        try:
            given = json.loads(self.rfile.read(int(length)))
            if not isinstance(given, dict):
                raise ValueError("send a JSON object")
            body, status = to_json(self.server.answers.answer(what, given)), HTTPStatus.OK
        except (ValueError, TypeError, OSError, RecursionError) as error:
            body, status = to_json({"error": str(error)}), HTTPStatus.UNPROCESSABLE_ENTITY
        except Exception as error:
            logger.exception("explore: %s failed", what)
            body, status = to_json({"error": describe_error(error)}), HTTPStatus.INTERNAL_SERVER_ERROR
        self._send(status, "application/json", body)

    def _admit(self) -> str | None:
        """Return what was asked for, after the token; None if the request was refused."""
        host = self.headers.get("Host", "")
        if not _OWN_NAME.fullmatch(host):
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers this machine only")
            return None
        site = self.headers.get("Sec-Fetch-Site", "none")
        is_asked_by_us = site in ("same-origin", "none") or self.command == "GET"
        if self.headers.get("Origin") not in (None, f"http://{host}") or not is_asked_by_us:
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers its own page only")
            return None
        try:
            _, _, path = urlsplit(self.path).path.partition("/")
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "this is no address")
            return None
        token, slash, rest = path.partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._send(HTTPStatus.FORBIDDEN, "text/html", _NO_TOKEN.encode(), close=True)
            return None
        if not slash:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return None
        return rest

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is refused before it is looked at, such as an unknown method, with the headers of all answers."""
        self._refuse(HTTPStatus(code), message or HTTPStatus(code).phrase)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._send(status, "text/plain", f"{why}\n".encode(), close=True)

    def _send(self, status: HTTPStatus, kind: str, body: bytes, *, close: bool = False) -> None:
        self.close_connection = self.close_connection or close  # what a refused request still holds is not read
        self.send_response(status)
        charset = "; charset=utf-8" if kind.startswith("text/") else ""
        for name, value in {**_HEADERS, "Content-Type": kind + charset, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


class Answers:
    """The requests of the page, by name, and the functions that answer them. No files but the ``stores`` are read."""

    def __init__(self, stores: Sequence[Path] = ()) -> None:
        self._runs = [RunRoom(path) for path in stores]
        self._table: dict[str, Callable[[Answer], Answer]] = {
            "controls": self._controls,
            "swarm": swarm_room.show,
            "contours": swarm_room.contours,
            "run": lambda given: self._run(given).show(given),
            "pair": lambda given: self._run(given).pair(given),
            "posterior": lambda given: self._run(given).posterior(given),
            "fit": lambda given: self._run(given).fit(given),
        }

    def __contains__(self, what: str) -> bool:
        return what in self._table

    def answer(self, what: str, given: Answer) -> Answer:
        """Return the answer to a request; raise a ValueError if it makes no sense."""
        with np.errstate(all="ignore"):
            return self._table[what](given)

    def _controls(self, given: Answer) -> Answer:
        return {
            **swarm_room.describe_controls(),
            "runs": [{"name": run.path.name, "path": str(run.path)} for run in self._runs],
        }

    def _run(self, given: Answer) -> RunRoom:
        number = given.get("run", 0)
        if not isinstance(number, int) or not 0 <= number < len(self._runs):
            raise ValueError("there is no such run; start `paoswarm explore run.paoswarm`")
        return self._runs[number]


def pack(numbers: ArrayLike) -> dict[str, Any]:
    """Return an array as JSON: its shape and its doubles."""
    array = np.asarray(numbers, dtype="<f8")
    return {"f64": base64.b64encode(array.tobytes()).decode("ascii"), "shape": list(array.shape)}


def to_json(answer: Any) -> bytes:
    """Return an answer as JSON."""
    contents = plain(answer, array=pack, not_finite=lambda number: None if math.isnan(number) else str(number))
    return json.dumps(contents, allow_nan=False, separators=(",", ":")).encode()
