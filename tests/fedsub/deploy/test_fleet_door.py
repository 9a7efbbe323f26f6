"""Who comes to the port of SuperNodes finds their answers alone, and brings no more than fits."""

from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from time import monotonic, sleep

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from fedsub.deploy.fleet_door import PATH
from fedsub.deploy.relay import bound_socket
from fedsub_core.errors import RunError

from .raw_device.connection import over_http, signed_headers
from .served_door import MOST, Served


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    served = Served(monkeypatch)
    yield served
    served.close()


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


def test_who_takes_an_answer_slowly_keeps_nobody_waiting(served: Served) -> None:
    served.link.says = b"x" * 2**23
    connection = HTTPConnection("127.0.0.1", served.fleet, timeout=30)
    connection.request("POST", f"{PATH}pull-object", b"", served.signed())
    # Nothing of the answer is read, which is more than fits on its way.
    sleep(0.5)
    served.link.says = b""
    begun = monotonic()
    assert served.ask(served.fleet, f"{PATH}pull-messages")[0] == 200
    assert monotonic() - begun < 10
    connection.close()
