"""`train --live`: a page of a run under way on this machine's own address, for whoever has its whole URL.

The server is the standard library's, in a thread of its own. It only hands out what is there: the page, and readings as
JSON that were written as text when they came, so that a look costs the run next to nothing. Whoever asks must know the
token in the path, and name this address as the host, for a site elsewhere that has its own name point here would not.
"""

import json
import secrets
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from hyperplace.errors import UsageError

if TYPE_CHECKING:
    from hyperplace.values.reading import Reading

ADDRESS = "127.0.0.1"
MOST_READINGS = 2000  # kept; beyond that every second one goes, so that a page opened late sees all of a long run
LOOKED_S = 3.0  # somebody who asked within this time is there
FAREWELL_S = 1.5  # for whoever looks to hear how it ended; a page asks once a second
IDLE_S = 10.0  # after which a connection that asks for nothing is closed
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Readings:
    """All readings so far, each as JSON with its number; one thread adds, others read."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, str]] = []
        self._num_come = 0
        self.end = ""  # how the run has ended, in words
        self.looked_at = self.told_end_at = 0.0

    def add(self, reading: "Reading") -> None:
        self._num_come += 1
        lines = self._lines if len(self._lines) < MOST_READINGS else self._lines[::2]
        # A new list: whoever reads the old one goes on undisturbed.
        self._lines = [*lines, (self._num_come, json.dumps(reading.as_json(), allow_nan=False))]

    def text_since(self, number: int) -> str:
        """Return as JSON what came after the reading of this number."""
        lines, end = self._lines, self.end
        new = ",".join(text for own, text in lines if own > number)
        last = lines[-1][0] if lines else 0
        self.looked_at = time.monotonic()
        if end:
            self.told_end_at = self.looked_at
        return f'{{"readings":[{new}],"last":{last},"end":{json.dumps(end)}}}'


class LivePage:
    """The page of a run and its server; `url` is where it is, for whoever may see it."""

    def __init__(self, port: int = 0) -> None:
        """Take the port; nobody is answered before `begin`."""
        self.readings = Readings()
        self._server = _Server(port, self.readings)
        self.url = f"http://{ADDRESS}:{self._server.server_port}/{self._server.token}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="hyperplace live page", daemon=True
        )

    def begin(self, title: str, num_parts: int) -> None:
        """Serve the page."""
        from hyperplace.report.page import live_page

        self._server.page = live_page(title, num_parts).encode()
        self._thread.start()

    def close(self, end: str) -> None:
        """Say how the run ended to whoever looks, and serve no more."""
        if self._thread.is_alive():
            self._say_end(end)
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _say_end(self, end: str) -> None:
        self.readings.end = end
        now = time.monotonic()
        if self.readings.looked_at and now - self.readings.looked_at < LOOKED_S:
            while not self.readings.told_end_at and time.monotonic() < now + FAREWELL_S:
                time.sleep(0.02)


class _Server(ThreadingHTTPServer):
    """Answers for one page, on this machine only."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, readings: Readings) -> None:
        self.token, self.page, self.readings = secrets.token_urlsafe(24), b"", readings
        try:
            super().__init__((ADDRESS, port), _Request)
        except (OSError, OverflowError) as fault:
            reason = (getattr(fault, "strerror", None) or str(fault)).lower()
            raise UsageError(
                f"--live-port {port} cannot be had: {reason}; choose another, or leave it out for any that is free"
            ) from None
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    def server_bind(self) -> None:
        """Bind without asking the network for a name, as the class between would."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone away is no fault of the run."""


class _Request(BaseHTTPRequestHandler):
    """One request: GET of the page or of its readings, and nothing else."""

    server: _Server
    timeout = IDLE_S
    server_version, sys_version = "hyperplace", ""

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        if not self._is_known(where.path):
            self._answer(HTTPStatus.NOT_FOUND, b"not found\n")
        elif where.path.endswith("/readings"):
            asked = parse_qs(where.query).get("since", ["0"])[0]
            number = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 16 else 0
            self._answer(HTTPStatus.OK, self.server.readings.text_since(number).encode(), "application/json")
        else:
            self._answer(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")

    def _is_known(self, path: str) -> bool:
        """Say whether the host is this one, the token is right, and there is something of that name."""
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            return False
        ways = [f"/{self.server.token}/{name}" for name in ("", "readings")]
        return any(secrets.compare_digest(path.encode(), way.encode()) for way in ways)

    def __getattr__(self, name: str) -> Any:
        # The base class looks for do_METHOD, and would say 501 of those that are not here.
        if name.startswith("do_"):
            return self._refuse
        raise AttributeError(name)

    def _refuse(self) -> None:
        self.close_connection = True  # a body that nobody reads may follow
        self._answer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET\n", more={"Allow": "GET"})

    def _answer(
        self,
        status: HTTPStatus,
        body: bytes,
        kind: str = "text/plain; charset=utf-8",
        more: dict[str, str] | None = None,
    ) -> None:
        with suppress(OSError):  # whoever asked has gone
            self.send_response(status)
            for name, value in (HEADERS | (more or {})).items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: stderr is the run's, and the path has the token."""
