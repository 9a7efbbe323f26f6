"""A relay from the port of SuperNodes to the server behind it; TLS goes through unread.

It runs on an event loop. `connections.py` decides which connections it ends.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import cast

from fedsub.deploy.connections import Connection, Connections
from fedsub_core.errors import RunError

#: Where the server behind listens for what is handed on.
HOST = "127.0.0.1"
LOOK_SECONDS = 1.0
_BACKLOG = 1024


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; any free port for 0.

    Raises RunError if it cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise RunError(f"{host}:{port}: cannot be listened at: {error}") from error
    return made


class _End(asyncio.Protocol):
    """One end of a connection: what comes here goes out at the `other` one."""

    transport: asyncio.Transport | None = None
    other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are none of asyncio's.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.read(False)

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.read(True)

    def connection_lost(self, _: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()  # what it has still to send is sent first

    def read(self, on: bool) -> None:
        """Begin or pause reading."""
        if self.transport is not None and not self.transport.is_closing():
            (self.transport.resume_reading if on else self.transport.pause_reading)()


class _DeviceEnd(_End):
    """The end of a connection at the device."""

    def __init__(self, relay: Relay) -> None:
        self._relay, self._port = relay, 0
        self._connection: Connection | None = None
        self._opening: asyncio.Task[None] | None = None
        #: What came before there was somebody to hand it on to.
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        host = self.transport.get_extra_info("peername", ("",))[0]
        self._connection = self._relay.connections.add(host, self.transport.abort)
        if self._connection is None:
            self.transport.abort()
            return
        self.read(False)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        assert self.transport is not None
        try:
            await asyncio.get_running_loop().create_connection(self._opened, *self._relay.behind)
        except OSError:
            self.transport.abort()
            return
        super().data_received(self._early)
        self._early = b""
        self.read(True)

    def _opened(self) -> _End:
        inner = _ServerEnd()
        inner.device, inner.other, self.other = self, self, inner
        return inner

    def opened(self, port: int) -> None:
        """Note the port from which the connection is handed on."""
        assert self.transport is not None
        if self.transport.is_closing():
            return
        self._port = port
        self._relay.connections.place(port, self._connection)

    def data_received(self, data: bytes) -> None:
        if self._connection is not None:
            self._connection.heard = self._relay.connections.clock()
        if self.other is None or self.other.transport is None:
            self._early += data
            self.read(False)  # uvloop begins to read after it is told not to
            return
        super().data_received(data)

    def pause_writing(self) -> None:
        self.must_take()
        super().pause_writing()

    def must_take(self) -> None:
        """Begin the time in which the device must take what waits for it."""
        if self._connection is not None and self._connection.full_since is None:
            self._connection.full_since = self._relay.connections.clock()

    def resume_writing(self) -> None:
        if self._connection is not None:
            self._connection.full_since = None
        super().resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._connection is not None:
            self._relay.connections.remove(self._connection)
        if self._port:
            self._relay.connections.place(self._port, None)
        super().connection_lost(error)


class _ServerEnd(_End):
    """The end of a connection at the server."""

    device: _DeviceEnd

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.device.opened(transport.get_extra_info("sockname")[1])

    def connection_lost(self, error: Exception | None) -> None:
        self.device.must_take()
        super().connection_lost(error)


class Relay:
    """Relay of connections from ports to a server behind them.

    Parameters
    ----------
    connections : the register of all connections, and their bounds.
    sockets : bound to where devices come.
    behind : host and port of the server.
    """

    def __init__(
        self, connections: Connections, sockets: Iterable[socket.socket], behind: tuple[str, int]
    ) -> None:
        self.connections, self.behind = connections, behind
        self._sockets = list(sockets)
        self._servers: list[asyncio.Server] = []
        self._looking: asyncio.Task[None] | None = None

    @property
    def ports(self) -> list[int]:
        """The ports to which devices come."""
        return [int(made.getsockname()[1]) for made in self._sockets]

    async def start(self) -> None:
        """Listen, on the loop that runs."""
        loop = asyncio.get_running_loop()
        for made in self._sockets:
            served = await loop.create_server(lambda: _DeviceEnd(self), sock=made, backlog=_BACKLOG)
            self._servers.append(served)
        self._looking = loop.create_task(self._look())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.connections.end_idle()

    def close(self) -> None:
        """Stop listening; open connections go on."""
        if self._looking is not None:
            self._looking.cancel()
        for served in self._servers:
            served.close()
