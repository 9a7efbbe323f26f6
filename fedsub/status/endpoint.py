"""What is told over HTTP: a page that follows the run, metrics, health, readiness.

Read only, and on loopback unless told. A process of its own, not a part of the server's: where the
run has ended or died there would be nobody left to say so, which is when an alert is wanted.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any

from starlette.types import ASGIApp
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from fedsub.status.answers import LOOPBACK, application
from fedsub.status.facts import Status
from fedsub_core.errors import ConfigError, RunError

#: Seconds in which a question has to come, and connections there may be.
QUESTION_SECONDS, MOST_CONNECTIONS = 10.0, 256


def address(text: str) -> tuple[str, int]:
    """Return host and port of ``PORT`` or ``HOST:PORT``; without a host it is loopback.

    Raises ConfigError if it is neither.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ConfigError(f"--serve: got {text!r}, expected a port, or HOST:PORT, such as 9464")
    return host.strip("[]") or LOOPBACK[0], int(port)


def hosts_of(host: str) -> tuple[str, ...] | None:
    """Return the host names that questions to `host` may use: of loopback alone; None: any."""
    with suppress(ValueError):
        return (*LOOPBACK, host) if ip_address(host).is_loopback else None
    return LOOPBACK if host.lower() in LOOPBACK else None


class BriefProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for each question, after which its connection ends."""

    def __init__(self, *arguments: Any, **keys: Any) -> None:
        super().__init__(*arguments, **keys)
        self._due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a question."""
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Expect the rest, unless what came is answered now."""
        super().data_received(data)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._forget()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
        elif self._due is None:
            self._due = self.loop.call_later(QUESTION_SECONDS, self.transport.abort)

    def _forget(self) -> None:
        if self._due is not None:
            self._due.cancel()
        self._due = None


class Endpoint:
    """Listens, and answers about what `look` finds; a ``with`` block closes it.

    Parameters
    ----------
    at : host and port; port 0 is any that is free.
    names : whether people are named.
    guard : what stands before the page; None: nothing.
    tls : files of a certificate and its key; None: it is not encrypted.

    Raises RunError if nothing can listen there.
    """

    def __init__(
        self,
        at: tuple[str, int],
        look: Callable[[], Status],
        names: bool,
        guard: Callable[[ASGIApp], ASGIApp] | None = None,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        host, port = at
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server(at, family=family)
        except OSError as error:
            why = error.strerror or error
            raise RunError(
                f"{host}:{port}: cannot listen there ({why}); choose another port"
            ) from error
        port = self._socket.getsockname()[1]
        certificate, key = tls or (None, None)
        self.url = f"http{'s' if tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"
        page = application(look, names, hosts=hosts_of(host))
        config = Config(
            page if guard is None else guard(page),
            ssl_certfile=certificate,
            ssl_keyfile=None if key is None else str(key),
            http=BriefProtocol,
            lifespan="off",
            ws="none",
            # Of more than so many connections a question is told to come later.
            limit_concurrency=MOST_CONNECTIONS,
            log_config=None,
            access_log=False,  # every scrape would be a line
            server_header=False,
            # Pages that follow the run never end by themselves.
            timeout_graceful_shutdown=1,
        )
        self._server = Server(config)

    def serve(self) -> None:
        """Answer until a signal or :meth:`stop` ends it."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """Have :meth:`serve` return, from another thread."""
        self._server.should_exit = True

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._socket.close()
