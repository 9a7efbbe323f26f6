"""A port of their own for SuperNodes, also where Flower answers everybody at one.

Flower 1.42's SuperLink is one web application at one port: for SuperNodes, for who starts runs, and
for SuperExecs. Who must let devices in would let them reach all of it. Here the application answers
at two ports. That of ``--fleet-api-address`` is for SuperNodes, and for nothing else; at the other
they find nothing. A request of a device has at most so many bytes, and its headers show that a
registered key has signed it (`callers.py`): a stranger's is not read. Connections come through
`relay.py`. A page, and joins, are answered at the same port, so that they have one origin with the
calls of SuperNodes (`visitors.py`).
"""

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import uvicorn

from fedsub.deploy.callers import CALL_SECONDS, CALLS_EACH, UNREGISTERED, Callers, Signed
from fedsub.deploy.connections import Connection, Connections, most_connections
from fedsub.deploy.relay import HOST, Relay, bound_socket
from fedsub.deploy.visitors import Answer, Visitors
from fedsub_core.flower.superlink import (
    PUBLIC_KEY_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    fleet_address,
    fleet_keys,
    parse_address,
    verified,
)

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Event, Receive, Send], Awaitable[None]]

#: Where Flower answers SuperNodes.
PATH = "/v1/fleet/"
#: Flower's number for a SuperNode that is not let in.
NOT_ACTIVATED = 2004
#: What it says to who has not signed.
INVALID = 401, "Invalid SuperNode authentication"


class FleetDoor:
    """An application (ASGI) that lets SuperNodes in at one port, and all others at any other.

    Parameters
    ----------
    app : what answers those who are let in.
    port : to which the relay hands SuperNodes' connections on.
    most : bytes of a request that comes to this port.
    callers : who may call there.
    relay : hands these connections on, while the application lives.
    visitors : answers there to who is no SuperNode; None: nobody does.
    """

    def __init__(
        self,
        app: App,
        port: int,
        most: int,
        callers: Callers,
        relay: Relay,
        visitors: Visitors | None = None,
    ) -> None:
        self.app, self._port, self._most = app, port, most
        self._callers, self.relay, self._visitors = callers, relay, visitors

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] == "lifespan":
            await self.relay.start()
            try:
                return await self.app(scope, receive, send)
            finally:
                self.relay.close()
        of_devices, of_fleet = scope["server"][1] == self._port, scope["path"].startswith(PATH)
        if not of_devices and not of_fleet:
            return await self.app(scope, receive, send)
        if not of_devices or (self._visitors is None and not of_fleet):
            return await _refuse(send, 404, "Not Found")
        connection = self.relay.connections.at(scope["client"][1])
        if connection is None:
            return await _refuse(send, 403, "got a connection that did not come through this port")
        if self._visitors is not None and not of_fleet:
            return await self._visit(self._visitors, connection, scope, receive, send)
        signed = signed_by(dict(scope["headers"]))
        refused = await self._why_refused(signed, scope["path"])
        if refused is not None or signed is None:
            self.relay.connections.refused(connection)
            return await _refuse(send, *(refused or INVALID))
        self.relay.connections.prove(connection, signed.key)
        if not self._callers.enter(signed.key):
            return await _refuse(send, 503, f"got over {CALLS_EACH} calls of a key at once")
        try:
            await self._answer(connection, scope, receive, send)
        finally:
            self._callers.leave(signed.key)

    async def _visit(
        self, visitors: Visitors, connection: Connection, scope: Event, receive: Receive, send: Send
    ) -> None:
        """Answer who needs no registered key."""

        async def read(most: int, seconds: float) -> bytes | None:
            with self.relay.connections.awaiting(connection):
                return await asyncio.wait_for(self._read(scope, receive, most), seconds)

        headers, method = dict(scope["headers"]), scope["method"]
        said = await visitors.answer(method, scope["path"], headers, connection.address, read)
        if said.status >= 400:
            self.relay.connections.refused(connection)
        await _send(send, said, with_body=method != "HEAD")

    async def _why_refused(self, signed: Signed | None, path: str) -> tuple[int, str] | None:
        """Return the status and the reason with which a call is refused; None if it is not."""
        if signed is None:
            return INVALID
        if not await self._callers.know(signed.key):
            begins = path.endswith(("/activate-node", "/register-node"))
            return 412 if begins else 401, UNREGISTERED
        if not verified(signed.key, signed.stamp, signed.signature):
            return INVALID
        if not self._callers.use(signed):
            return 503, "the signature: got one that another call came with, expected a new one"
        return None

    async def _answer(
        self, connection: Connection, scope: Event, receive: Receive, send: Send
    ) -> None:
        """Read a request, and hand it on once all of it is there."""
        try:
            with self.relay.connections.awaiting(connection):
                read = self._read(scope, receive, self._most)
                body = await asyncio.wait_for(read, CALL_SECONDS)
        except TimeoutError:
            said = f"got only a part of the request in {CALL_SECONDS:.0f} s"
            return await _refuse(send, 408, said)
        if body is None:
            said = f"got a request of over {self._most} bytes, expected fewer"
            return await _refuse(send, 413, said)
        return await self.app(scope, _replay(body, receive), send)

    async def _read(self, scope: Event, receive: Receive, most: int) -> bytes | None:
        """Return a request's body; None if it is too large, which is noticed before it is kept."""
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if int(told) > most:  # the server has refused what is no number
            return None
        body = bytearray()
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                return bytes(body)  # the application hears of it next
            body += event.get("body", b"")
            if len(body) > most:
                return None
            if not event.get("more_body", False):
                return bytes(body)


def signed_by(headers: Mapping[bytes, bytes]) -> Signed | None:
    """Return the signature in a request's headers; None if there is none."""
    try:
        key, signature = (
            b64decode(headers[name.removesuffix("-bin").encode()], validate=True)
            for name in (PUBLIC_KEY_HEADER, SIGNATURE_HEADER)
        )
        return Signed(key, headers[TIMESTAMP_HEADER.encode()].decode("ascii"), signature)
    except (KeyError, ValueError):
        return None


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that gives a body that has been read, and then later events."""
    left = [body]

    async def replayed() -> Event:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replayed


async def _refuse(send: Send, status: int, said: str) -> None:
    # Its SuperNode prints what has a code.
    told: dict[str, Any] = {"detail": said} | ({"code": NOT_ACTIVATED} if status == 412 else {})
    headers = {"content-type": "application/json", "connection": "close"}
    await _send(send, Answer(status, json.dumps(told).encode(), headers))


async def _send(send: Send, said: Answer, with_body: bool = True) -> None:
    headers = [(name.encode(), value.encode()) for name, value in said.headers.items()]
    if said.status != 304:
        headers.append((b"content-length", str(len(said.body)).encode()))
    await send({"type": "http.response.start", "status": int(said.status), "headers": headers})
    await send({"type": "http.response.body", "body": said.body if with_body else b""})


def serve(
    app: Any, most: int, visitors: Visitors | None = None, *, host: str, port: int, **keys: Any
) -> None:
    """Answer at the port for SuperNodes and at `port`, until a signal says to end.

    Parameters
    ----------
    app : the SuperLink's application.
    most : bytes of a device's request.
    visitors : answers at the devices' port to who is no SuperNode.
    keys : of uvicorn's Config: TLS, logs.

    Raises RunError if one of the two addresses cannot be listened at.
    """
    sockets = [bound_socket(host, port)]
    answers: App = app
    if address := fleet_address(app):
        came = bound_socket(*parse_address(address))
        sockets.append(bound_socket(HOST, 0))
        behind = HOST, int(sockets[1].getsockname()[1])
        relay = Relay(Connections(most_connections()), [came], behind)
        answers = FleetDoor(app, behind[1], most, Callers(fleet_keys(app)), relay, visitors)
    # Flower has no websockets; strangers need not know what answers.
    config = uvicorn.Config(answers, ws="none", server_header=False, **keys)
    uvicorn.Server(config).run(sockets)
