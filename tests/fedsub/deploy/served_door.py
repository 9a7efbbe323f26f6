"""The two ports of a SuperLink's application, in a thread; what stands behind them only repeats."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import HTTPConnection
from types import MappingProxyType
from typing import Any

import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec

from fedsub.deploy import fleet_door
from fedsub.deploy.visitors import Visitors

from .raw_device.connection import over_http, public_bytes, signed_headers

MOST = 100_000
Answer = tuple[int, bytes]


class Link:
    """Stands for the SuperLink's application: it repeats the path and the length of what comes."""

    def __init__(self) -> None:
        self.began = 0
        #: What it says beside the path and the length.
        self.says = b""
        #: What came, by path.
        self.bodies = dict[str, bytes]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            self.began += (await receive())["type"] == "lifespan.startup"
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        while (event := await receive())["type"] == "http.request":
            body += event["body"]
            if not event.get("more_body"):
                break
        self.bodies[scope["path"]] = body
        await send({"type": "http.response.start", "status": 200, "headers": []})
        said = f"{scope['path']} {len(body)}".encode() + self.says
        await send({"type": "http.response.body", "body": said})


class Served:
    """The two ports of a link that runs in a thread."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        visitors: Visitors | None = None,
        keys: Callable[[], list[bytes]] = list,
        tls: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.link, begun = Link(), threading.Event()
        self.key = ec.generate_private_key(ec.SECP384R1())
        known = [public_bytes(self.key)]
        monkeypatch.setattr(fleet_door, "fleet_address", lambda app: "127.0.0.1:0")
        monkeypatch.setattr(fleet_door, "fleet_keys", lambda app: lambda: [*known, *keys()])
        self.ports, self.servers = list[int](), list[uvicorn.Server]()
        ports, servers = self.ports, self.servers

        class Kept(uvicorn.Server):
            async def startup(self, sockets: Any = None) -> None:
                await super().startup(sockets)
                ports.extend(made.getsockname()[1] for made in sockets)
                servers.append(self)
                begun.set()

        monkeypatch.setattr(uvicorn, "Server", Kept)
        self.thread = threading.Thread(
            target=fleet_door.serve,
            args=(self.link, MOST, visitors),
            kwargs={"host": "127.0.0.1", "port": 0, "log_config": None, **tls},
        )
        self.thread.start()
        assert begun.wait(30)
        self.control, self.behind = self.ports
        door: Any = self.servers[0].config.app
        (self.fleet,) = door.relay.ports

    def ask(self, port: int, path: str, body: Any = b"") -> Answer:
        """Return status and body of a signed call's answer; what yields parts is sent in chunks."""
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            # It may be refused before all of it is sent.
            with suppress(ConnectionError):
                connection.request("POST", path, body, self.signed())
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def signed(self) -> dict[str, bytes]:
        """Return the headers of one more call of the device."""
        return over_http(signed_headers(self.key))

    def close(self) -> None:
        """End it."""
        self.servers[0].should_exit = True
        self.thread.join()
