"""Wires between machines: who is on one, who is not, and what pulling a cable does."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from .netns import Networks, why_not

LISTEN = """
import socket
server = socket.create_server(("0.0.0.0", 5000))
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 5000), 1)"

SEND = """
import socket, sys
server = socket.create_server(("0.0.0.0", 5000))
print("listening", flush=True)
server.accept()[0].sendall(bytes(int(sys.argv[1])))
"""
RECEIVE = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000), 5).makefile("rb") as file:
    print(len(file.read()), end="")
"""


@pytest.fixture
def networks() -> Iterator[Networks]:
    if reason := why_not():
        pytest.skip(reason)
    with Networks(["left", "right"]) as networks:
        networks.add("server", {"left": ["www"], "right": []})
        networks.add("one", {"left": []})
        networks.add("two", {"right": []})
        yield networks
    assert networks.namespaces() == []


def reaches(networks: Networks, name: str, address: str) -> bool:
    command = networks.inside(name, [sys.executable, "-I", "-c", CONNECT, address])
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def test_a_cut_cable_and_no_other(networks: Networks) -> None:
    left, right = networks.address("server", "left"), networks.address("server", "right")
    command = networks.inside("server", [sys.executable, "-I", "-c", LISTEN])
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"listening\n"
        assert reaches(networks, "one", left) and reaches(networks, "two", right)
        assert not reaches(networks, "one", right) and not reaches(networks, "two", left)
        networks.cut("one")
        assert not reaches(networks, "one", left) and reaches(networks, "two", right)
        networks.restore("one")
        assert reaches(networks, "one", left)
        networks.cut("server", "right")
        assert reaches(networks, "one", left) and not reaches(networks, "two", right)
        server.kill()


def test_traffic_is_counted_in_frames_as_long_as_a_wire_takes(networks: Networks) -> None:
    size, address = 1_000_000, networks.address("server", "left")
    command = networks.inside("server", [sys.executable, "-I", "-c", SEND, str(size)])
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"listening\n"
        client = networks.inside("one", [sys.executable, "-I", "-c", RECEIVE, address])
        assert subprocess.check_output(client) == b"%d" % size
    (_, got), (idle, _) = networks.traffic("one", "left"), networks.traffic("two", "right")
    assert got.payload == pytest.approx(size, rel=0.01)
    assert size // 1448 < got.frames < 1.1 * size / 1448
    assert idle.size < 10_000


def test_names_are_those_of_the_own_networks(networks: Networks) -> None:
    left, right = networks.address("server", "left"), networks.address("server", "right")
    assert f"{left} server www\n" in networks.hosts("one") and right not in networks.hosts("one")
    assert f"{right} server\n" in networks.hosts("two") and "www" not in networks.hosts("two")
    assert f"{left} server www\n" in networks.hosts("server")
