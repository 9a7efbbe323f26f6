"""Who comes to the port of SuperNodes finds their answers alone, and brings no more than fits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any

import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec

from fedsub.deploy import fleet_door
from fedsub.deploy.fleet_door import PATH
from fedsub.deploy.relay import bound_socket
from fedsub_core.errors import RunError

from .raw_device.connection import over_http, public_bytes, signed_headers

MOST = 100_000
Answer = tuple[int, bytes]


class Link:
    """Stands for the SuperLink's application: it repeats the path and the length of what comes."""

    def __init__(self) -> None:
        self.began = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            self.began += (await receive())["type"] == "lifespan.startup"
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        got = 0
        while (event := await receive())["type"] == "http.request":
            got += len(event["body"])
            if not event.get("more_body"):
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": f"{scope['path']} {got}".encode()})


class Served:
    """The two ports of a link that runs in a thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.link, begun = Link(), threading.Event()
        self.key = ec.generate_private_key(ec.SECP384R1())
        known = [public_bytes(self.key)]
        monkeypatch.setattr(fleet_door, "fleet_address", lambda app: "127.0.0.1:0")
        monkeypatch.setattr(fleet_door, "fleet_keys", lambda app: lambda: known)
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
            args=(self.link, MOST),
            kwargs={"host": "127.0.0.1", "port": 0, "log_config": None},
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
                connection.request("POST", path, body, over_http(signed_headers(self.key)))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    served = Served(monkeypatch)
    yield served
    served.servers[0].should_exit = True
    served.thread.join()


def test_each_port_answers_its_own_and_they_are_one_application(served: Served) -> None:
    pull, runs = f"{PATH}pull-messages", "/v1/control/list-runs"
    assert served.ask(served.fleet, pull, b"x" * 70) == (200, f"{pull} 70".encode())
    assert served.ask(served.control, runs, b"x" * 9) == (200, f"{runs} 9".encode())
    assert served.link.began == 1


@pytest.mark.parametrize(
    "path",
    ["/v1/control/list-runs", "/v1/runtime/pull-object", "/docs", "/health", "/", "/v1/fleet"],
)
def test_devices_find_nothing_else_at_their_port(served: Served, path: str) -> None:
    assert served.ask(served.fleet, path)[0] == 404
    assert served.ask(served.control, path)[0] == 200


def test_nor_is_there_anything_of_theirs_at_the_other(served: Served) -> None:
    assert served.ask(served.control, f"{PATH}push-messages", b"x")[0] == 404


@pytest.mark.parametrize("odd", ["/v1/fleet/../control/list-runs", "/v1/%66leet/x", "//v1/fleet/x"])
def test_a_path_is_what_the_application_reads(served: Served, odd: str) -> None:
    """What the door lets in as a device's call the application does not take for another."""
    status, said = served.ask(served.fleet, odd)
    assert status == 404 or said.startswith(PATH.encode())


def test_a_request_of_the_most_bytes_passes(served: Served) -> None:
    path = f"{PATH}push-object"
    for body in (b"x" * MOST, iter([b"x" * (MOST // 2)] * 2)):
        assert served.ask(served.fleet, path, body) == (200, f"{path} {MOST}".encode())


@pytest.mark.parametrize("told", [True, False], ids=["its length is told", "in chunks"])
def test_a_larger_one_is_refused_and_the_next_is_not(served: Served, told: bool) -> None:
    path, body = f"{PATH}push-object", b"x" * (MOST + 1)
    # Without its length it is refused when so much has come, and the connection ends.
    with suppress(ConnectionError):
        status, said = served.ask(served.fleet, path, body if told else iter([body]))
        assert status == 413 and f"over {MOST} bytes".encode() in said
    assert served.ask(served.fleet, path, b"x")[0] == 200
    # Runs may be of any size.
    assert served.ask(served.control, "/v1/control/start-run", body)[0] == 200


@pytest.mark.parametrize("stranger", [True, False], ids=["another's key", "no signature"])
def test_who_is_not_registered_is_refused_before_its_body_comes(
    served: Served, stranger: bool
) -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    for name, status in (("activate-node", 412 if stranger else 401), ("pull-messages", 401)):
        connection = HTTPConnection("127.0.0.1", served.fleet, timeout=30)
        connection.putrequest("POST", PATH + name)
        for header, value in over_http(signed_headers(key) if stranger else {}).items():
            connection.putheader(header, value)
        connection.putheader("content-length", "16")
        connection.endheaders(b"half")
        assert connection.getresponse().status == status
        connection.close()


def test_what_stands_behind_the_port_answers_nobody_else(served: Served) -> None:
    assert served.ask(served.behind, f"{PATH}pull-messages")[0] == 403


def test_an_address_that_is_taken_is_named(served: Served) -> None:
    with pytest.raises(RunError, match=f"127.0.0.1:{served.fleet}: cannot be listened at"):
        # Whoever listens there keeps it: a port is never shared.
        bound_socket("127.0.0.1", served.fleet).listen()
