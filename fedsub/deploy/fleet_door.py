"""SuperNodes come to a port of their own, also where Flower answers everybody at one.

Flower 1.42's SuperLink is one web application at one port: for SuperNodes, for who starts runs, and
for SuperExecs. Who must let devices in would let them reach all of it. Here the application answers
at two ports. That of ``--fleet-api-address`` is for SuperNodes, and for nothing else; at the other
they find nothing. A request of a device has at most so many bytes.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from fedsub_core.errors import RunError
from fedsub_core.flower.superlink import fleet_address, parse_address

Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Event, Receive, Send], Awaitable[None]]

#: Where Flower answers SuperNodes.
PATH = "/v1/fleet/"


class FleetDoor:
    """An application (ASGI) that lets SuperNodes in at one port, and all others at any other.

    Parameters
    ----------
    app : what answers those who are let in.
    port : of SuperNodes.
    most : bytes of a request that comes to this port.
    """

    def __init__(self, app: App, port: int, most: int) -> None:
        self.app, self._port, self._most = app, port, most

    async def __call__(self, scope: Event, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        of_devices = scope["server"][1] == self._port
        if of_devices != scope["path"].startswith(PATH):
            return await _refuse(send, 404, "Not Found")
        if of_devices:
            body = await self._read(scope, receive)
            if body is None:
                said = f"got a request of over {self._most} bytes, expected fewer"
                return await _refuse(send, 413, said)
            receive = _replay(body, receive)
        return await self.app(scope, receive, send)

    async def _read(self, scope: Event, receive: Receive) -> bytes | None:
        """Return a request's body; None if it is too large, which is noticed before it is kept."""
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if int(told) > self._most:  # the server has refused what is no number
            return None
        body = bytearray()
        while True:
            event = await receive()
            if event["type"] == "http.disconnect":
                return bytes(body)  # the application hears of it next
            body += event.get("body", b"")
            if len(body) > self._most:
                return None
            if not event.get("more_body", False):
                return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that has been read, and then what comes."""
    left = [body]

    async def replayed() -> Event:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replayed


async def _refuse(send: Send, status: int, said: str) -> None:
    body = json.dumps({"detail": said}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; any free port for 0.

    Raises
    ------
    RunError
        If it cannot be bound.
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


def serve(app: Any, most: int, *, host: str, port: int, **keys: Any) -> None:
    """Answer at the port for SuperNodes and at `port`, until a signal says to end.

    Parameters
    ----------
    app : the SuperLink's application.
    most : bytes of a device's request.
    keys : of uvicorn's Config: TLS, logs.

    Raises
    ------
    RunError
        If one of the two addresses cannot be listened at.
    """
    sockets = [bound(host, port)]
    answers: App = app
    if address := fleet_address(app):
        fleet, number = parse_address(address)
        sockets.append(bound(fleet, number))
        answers = FleetDoor(app, sockets[1].getsockname()[1], most)
    # Flower has no websockets.
    uvicorn.Server(uvicorn.Config(answers, ws="none", **keys)).run(sockets)
