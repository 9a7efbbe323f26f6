"""What is told over HTTP: a page that follows the run, metrics, health, readiness.

Read only, and on loopback unless told. A process of its own, not a part of the server's: where the
run has ended or died there would be nobody left to say so, which is when an alert is wanted.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from types import TracebackType

from uvicorn import Config, Server

from fedsub.status.answers import LOOPBACK, application
from fedsub.status.facts import Status
from fedsub_core.errors import ConfigError, RunError


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
    return host.strip("[]") or LOOPBACK[0], int(port)


def hosts_of(host: str) -> tuple[str, ...] | None:
    """Return whom a question may take a server on `host` for: of loopback itself alone."""
    with suppress(ValueError):
        return (*LOOPBACK, host) if ip_address(host).is_loopback else None
    return LOOPBACK if host.lower() in LOOPBACK else None


class Endpoint:
    """Listens, and answers about what `look` finds; a ``with`` block closes it.

    Parameters
    ----------
    at : host and port; port 0 is any that is free.
    look : reads the status anew.
    names : whether people are named.

    Raises
    ------
    RunError
        If nothing can listen there.
    """

    def __init__(self, at: tuple[str, int], look: Callable[[], Status], names: bool) -> None:
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
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        config = Config(
            application(look, names, hosts=hosts_of(host)),
            lifespan="off",
            ws="none",
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
