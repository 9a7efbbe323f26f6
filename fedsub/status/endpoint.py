"""What machines ask over HTTP: metrics, health, readiness. Read only, on loopback unless told.

A process of its own, not a part of the server's: where the run has ended or died there would be
nobody left to say so, which is when an alert is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fedsub.status.facts import Status, Verdict
from fedsub.status.openmetrics import CONTENT_TYPE, metrics_text
from fedsub_core.errors import ConfigError, FedSubError, RunError, cut

LOOPBACK = "127.0.0.1"
_PLAIN = "text/plain; charset=utf-8"


def address(text: str) -> tuple[str, int]:
    """Return host and port of ``PORT`` or ``HOST:PORT``; without a host it is loopback.

    Raises
    ------
    ConfigError
        If it is neither.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ConfigError(f"--serve: got {text!r}, expected a port, or HOST:PORT, such as 9464")
    return host.strip("[]") or LOOPBACK, int(port)


class Endpoint(ThreadingHTTPServer):
    """Answers ``/metrics``, ``/health`` and ``/ready`` about what `look` finds.

    Parameters
    ----------
    at : host and port; port 0 is any that is free.
    look : reads the status anew, for every question.
    names : whether metrics name people.

    Raises
    ------
    RunError
        If nothing can listen there.
    """

    daemon_threads = True

    def __init__(self, at: tuple[str, int], look: Callable[[], Status], names: bool) -> None:
        self.look, self.names = look, names
        try:
            super().__init__(at, _Handler)
        except OSError as error:
            why = error.strerror or error
            raise RunError(
                f"{at[0]}:{at[1]}: cannot listen there ({why}); choose another port"
            ) from error


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint
    #: No version of anything is told to whoever asks.
    server_version, sys_version = "fedsub", ""
    #: Seconds for a question: who opens a connection and says nothing keeps a thread no longer.
    timeout = 10.0

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path not in ("/metrics", "/health", "/ready"):
            self._answer(HTTPStatus.NOT_FOUND, "expected /metrics, /health or /ready\n")
            return
        if path == "/health":  # of this process alone: a service manager restarts what is not
            self._answer(HTTPStatus.OK, "ok\n")
            return
        try:
            status = self.server.look()
        except FedSubError as error:
            said = cut(error) if self.server.names else "the run's folder cannot be read"
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{said}\n")
            return
        if path == "/metrics":
            self._answer(HTTPStatus.OK, metrics_text(status, self.server.names), CONTENT_TYPE)
        else:
            ready = status.verdict is not Verdict.STOPPED
            code = HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(code, f"{status.state}\n")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: every scrape would be a line."""

    def _answer(self, code: HTTPStatus, text: str, kind: str = _PLAIN) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
