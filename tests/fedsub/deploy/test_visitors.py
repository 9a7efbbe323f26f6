"""What strangers find at the devices' port: a page, and how to join; nothing else, and no more."""

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from fedsub.deploy import visitors as module
from fedsub.deploy.codes import JoinRequest, new_code
from fedsub.deploy.fleet_door import PATH
from fedsub.deploy.joining import Joins
from fedsub.deploy.page import HEADERS, asset, read_page
from fedsub.deploy.visitors import JOIN_BYTES, MOST_REFUSED, RefusedJoins, Visitors
from fedsub_core.flower.nodes import LinkNodes

from .joiners import invite, link_nodes, new_key, request
from .raw_device.connection import over_http, signed_headers
from .served_door import Served
from .test_page import FILES, write

AS_JSON = {"content-type": "application/json"}
Answer = tuple[int, dict[str, str], bytes]


class Door:
    """A door with a page and invitations."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.invitations, self.nodes = folder / "invitations", link_nodes()
        page = read_page(write(folder / "page", FILES))
        page["/ca.crt"] = asset("ca.crt", b"CA", "application/x-x509-ca-cert")
        self.visitors = Visitors(page, Joins(self.invitations, self.nodes), "CA")
        keys = lambda: [node.key for node in self.nodes.read() if not node.revoked]  # noqa: E731
        self.served = Served(monkeypatch, self.visitors, keys)

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, Any] = AS_JSON
    ) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.served.fleet, timeout=30)
        try:
            with suppress(ConnectionError):
                connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, told, answer.read()
        finally:
            connection.close()

    def join(self, said: JoinRequest | Mapping[str, object]) -> tuple[int, dict[str, Any]]:
        told = dict(said) if isinstance(said, Mapping) else as_json(said)
        status, _, body = self.ask("POST", "/v1/join", json.dumps(told))
        return status, json.loads(body)


def as_json(said: JoinRequest) -> dict[str, object]:
    return {**vars(said), "signature": said.signature.hex()}


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    door = Door(tmp_path, monkeypatch)
    yield door
    door.served.close()


def test_a_browser_gets_the_page_with_its_headers(door: Door) -> None:
    for path, name in {"/": "index.html", **{f"/{name}": name for name in [*FILES][1:]}}.items():
        status, headers, body = door.ask("GET", path)
        assert (status, body) == (200, FILES[name])
        assert HEADERS.items() <= headers.items()
        assert "server" not in headers
        status, of_head, body = door.ask("HEAD", path)
        assert (status, body) == (200, b"")
        assert {**of_head, "date": ""} == {**headers, "date": ""}
        status, again, body = door.ask("GET", path, headers={"if-none-match": headers["etag"]})
        assert (status, body, again["etag"]) == (304, b"", headers["etag"])
    assert door.ask("GET", "/ca.crt")[::2] == (200, b"CA")


@pytest.mark.parametrize(
    "path",
    ["/index.html", "/../link.db", "/..%2flink.db", "/%2e%2e/link.db", "//sw.js", "/sw.js/",
     "/./sw.js", "/kernels/", "/kernels/../sw.js", "/sw.js%00", "/SW.js", "/health", "/joined.db",
     "/docs", "/v1/control/list-runs", "/v1/runtime/pull-object", "/v1/join/", "/v1", "/v1/fleet"],
)  # fmt: skip
def test_there_is_nothing_else(door: Door, path: str) -> None:
    for method in ("GET", "POST"):
        assert door.ask(method, path, b"x")[0] == 404


def test_no_other_method(door: Door) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        status, headers, _ = door.ask(method, "/")
        assert (status, headers["allow"]) == (405, "GET, HEAD")
    for method in ("GET", "PUT", "OPTIONS"):
        status, headers, _ = door.ask(method, "/v1/join")
        # No page of another origin can ask: it would ask by OPTIONS first.
        assert (status, headers["allow"]) == (405, "POST")
        assert not any(name.startswith("access-control") for name in headers)


def test_calls_of_devices_still_need_a_registered_key(door: Door) -> None:
    assert door.ask("POST", f"{PATH}pull-messages", b"x")[0] == 401
    assert door.served.ask(door.served.fleet, f"{PATH}pull-messages", b"x")[0] == 200
    assert door.served.ask(door.served.control, "/")[1] == b"/ 0"
    assert door.served.ask(door.served.behind, "/")[0] == 403


def test_a_device_joins_and_is_let_in(door: Door) -> None:
    (code,) = invite(door.invitations, "")
    key = new_key()
    said = request(code, "anna", key)
    stranger = over_http(signed_headers(key))
    assert door.ask("POST", f"{PATH}activate-node", b"x", stranger)[0] == 412
    status, answer = door.join(said)
    (node,) = door.nodes.read()
    assert status == 200
    assert answer == {
        "client": "anna",
        "node": str(node.node),
        "federation": "a town",
        "superlink": "fl.example.org:9092",
        "key": said.key,
        "ca": "CA",
    }
    assert door.join(said) == (200, answer)
    known = over_http(signed_headers(key))
    assert door.ask("POST", f"{PATH}activate-node", b"x", known)[0] == 200


def test_of_many_who_come_with_one_code_at_once_one_joins(door: Door) -> None:
    (code,) = invite(door.invitations, "")
    many = [request(code, f"p{n}", new_key()) for n in range(8)]
    start = threading.Barrier(len(many))

    def join(said: JoinRequest) -> int:
        start.wait(30)
        return door.join(said)[0]

    with ThreadPoolExecutor(len(many)) as pool:
        found = sorted(pool.map(join, many))
    assert found == [200] + [403] * 7
    assert len(door.nodes.read()) == 1


def test_a_name_that_two_want_at_once_is_one_persons(door: Door) -> None:
    codes = invite(door.invitations, *[""] * 6)
    with ThreadPoolExecutor(6) as pool:
        found = sorted(pool.map(lambda c: door.join(request(c, "anna", new_key()))[0], codes))
    assert found == [200] + [409] * 5
    assert len(door.nodes.read()) == 1


@pytest.mark.parametrize(
    "change",
    [{"client": 1}, {"client": "x" * 65}, {"client": "\u00e4"}, {"more": "x"}, {"signature": "xy"},
     {"signature": "é"}, {"key": None}, {"key": "x" * 401}, {"token": ["x"]}],
)  # fmt: skip
def test_no_join_of_another_form(door: Door, change: dict[str, object]) -> None:
    (code,) = invite(door.invitations, "")
    said = as_json(request(code, "anna", new_key()))
    assert door.join(said | change)[0] == 400
    assert door.nodes.read() == [] and door.join(said)[0] == 200


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b"[" * 4000, b"\xff", b'{"client": 1e999}']
)
def test_no_body_that_is_none(door: Door, body: bytes) -> None:
    assert door.ask("POST", "/v1/join", body)[0] == 400


def test_a_huge_body_is_not_read(door: Door) -> None:
    assert door.ask("POST", "/v1/join", b" " * (JOIN_BYTES + 1))[0] == 413
    endless = (b" " * 1000 for _ in range(1000))
    with suppress(ConnectionError):  # it ends while more is sent
        assert door.ask("POST", "/v1/join", endless)[0] == 413
    assert door.ask("POST", "/v1/join", b"{}", {"content-type": "text/plain"})[0] == 415


def test_who_sends_half_a_join_keeps_nobody_from_joining(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "JOIN_SECONDS", 1.0)
    (code,) = invite(door.invitations, "")
    halves = [HTTPConnection("127.0.0.1", door.served.fleet, timeout=30) for _ in range(80)]
    for half in halves:
        half.putrequest("POST", "/v1/join")
        for name, value in {**AS_JSON, "content-length": "100"}.items():
            half.putheader(name, value)
        half.endheaders(b"{")
    assert door.join(request(code, "anna", new_key()))[0] == 200
    assert {half.getresponse().status for half in halves} == {408}


def test_a_flood_of_wrong_codes_has_to_wait_and_is_logged(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    (code,) = invite(door.invitations, "")
    good = request(code, "anna", new_key())
    with caplog.at_level(logging.WARNING, "fedsub"):
        wrong = [door.join(request(new_code(), "x", new_key()))[0] for _ in range(MOST_REFUSED)]
        assert wrong == [403] * MOST_REFUSED
        for _ in range(30):
            status, headers, _ = door.ask("POST", "/v1/join", json.dumps(as_json(good)))
            assert status == 429 and 0 < int(headers["retry-after"]) <= 30
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("fedsub")]
    assert len(lines) == MOST_REFUSED + 1 and "127.0.0.1" in lines[-1]
    assert door.ask("GET", "/")[0] == 200, "the page is there for all"
    door.visitors.refused_joins = RefusedJoins()
    assert door.join(good)[0] == 200


def test_refused_joins_are_forgiven_with_time_and_are_each_addresss_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    refused = RefusedJoins(lambda: now)
    for left in reversed(range(MOST_REFUSED)):
        assert refused.count("a") == left
    assert refused.left("a") < 1 <= refused.left("b")
    now = 30.0
    assert refused.left("a") == 1
    now = 1e6
    assert refused.left("a") == MOST_REFUSED
    monkeypatch.setattr(module, "MOST_ADDRESSES", 2)
    for address in ("b", "c", "d"):
        refused.count(address)
    assert refused.left("a") == MOST_REFUSED and len(refused._left) == 2


def test_a_server_that_cannot_write_loses_no_code(
    door: Door, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = invite(door.invitations, "")
    said = request(code, "anna", new_key())
    with monkeypatch.context() as patch:
        patch.setattr(LinkNodes, "add", lambda *_: 1 / 0)
        status, answer = door.join(said)
    assert status == 500 and "ZeroDivision" not in str(answer), "strangers learn nothing of it"
    assert "ZeroDivisionError" in caplog.text
    assert door.join(replace(said, client="ben"))[0] == 403
    assert door.join(said)[0] == 200
