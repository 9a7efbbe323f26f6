"""A code is good for one key, once: whatever dies, comes twice, or is forged."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.common.constant import NOOP_FLWR_AID

from fedsub.deploy.codes import new_code
from fedsub.deploy.invitations import withdraw
from fedsub.deploy.joining import JOINED_FILE, JoinRefused, Joins, read_joined
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError
from fedsub_core.flower.nodes import LinkNodes
from fedsub_core.secure.roster import signature_of

from .joiners import invite, link_nodes, new_key, request
from .raw_device.connection import public_bytes

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")


@pytest.fixture
def nodes() -> LinkNodes:
    return link_nodes()


@pytest.fixture
def joins(tmp_path: Path, nodes: LinkNodes) -> Iterator[Joins]:
    yield Joins(tmp_path / "invitations", nodes)


def revoke(nodes: LinkNodes, name: str) -> None:
    for node in nodes.read():
        if node.name == name:
            nodes._state().delete_node(NOOP_FLWR_AID, node.node)


def status(joins: Joins, *arguments: object) -> int:
    """The status with which a join is refused; everything is as before."""
    before = nodes_and_joined(joins)
    with pytest.raises(JoinRefused) as caught:
        joins.join(request(*arguments))  # type: ignore[arg-type]
    assert nodes_and_joined(joins) == before
    return caught.value.status


def nodes_and_joined(joins: Joins) -> tuple[object, object]:
    return joins._nodes.read(), read_joined(joins._folder)


def test_a_key_is_registered_under_its_name(tmp_path: Path, joins: Joins, nodes: LinkNodes) -> None:
    (code,) = invite(tmp_path / "invitations", "")
    said = request(code, "anna", new_key())
    joined = joins.join(said)
    (node,) = nodes.read()
    assert (node.name, node.key, node.revoked) == ("anna", said.key.encode(), False)
    assert (joined.client, joined.node) == ("anna", str(node.node))
    assert (joined.federation, joined.superlink) == ("a town", "fl.example.org:9092")
    assert read_joined(tmp_path / "invitations") == [joined]
    assert (tmp_path / "invitations" / JOINED_FILE).stat().st_mode & 0o777 == 0o600


def test_the_same_device_is_answered_again_and_no_other(tmp_path: Path, joins: Joins) -> None:
    (code,) = invite(tmp_path / "invitations", "")
    key = new_key()
    first = joins.join(request(code, "anna", key))
    assert joins.join(request(code, "anna", key)) == first
    assert status(joins, code, "anna", new_key()) == 403
    assert status(joins, code, "ben", key) == 403
    # Also by who overheard it, and has no key: a replay changes nothing.
    stolen = replace(request(code, "anna", key), key=request(code, "a", new_key()).key)
    with refused(JoinRefused, got="used"):
        joins.join(stolen)


@pytest.mark.parametrize("died", ["before", "after"])
def test_a_process_that_dies_gives_a_code_to_one_key_for_good(tmp_path: Path, died: str) -> None:
    """It dies between the claim and the registration, or before it notes the registration."""
    folder, nodes = tmp_path / "invitations", link_nodes(tmp_path)
    (code,) = invite(folder, "")
    key = new_key()
    said = request(code, "anna", key)
    program = f"""
import os
from pathlib import Path
from fedsub.deploy.codes import JoinRequest
from fedsub.deploy.joining import Joins
from tests.fedsub.deploy.joiners import link_nodes
nodes = link_nodes(Path({str(tmp_path)!r}))
class Dying:
    read = staticmethod(nodes.read)
    def add(self, name, key):
        {"os._exit(9)" if died == "before" else "nodes.add(name, key); os._exit(9)"}
Joins(Path({str(folder)!r}), Dying()).join({said!r})
"""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, timeout=120)
    assert done.returncode == 9
    assert len(nodes.read()) == (died == "after")
    (claim,) = read_joined(folder)
    assert (claim.client, claim.node) == ("anna", "")
    joins = Joins(folder, nodes)
    assert status(joins, code, "ben", new_key()) == 403
    (other,) = invite(folder, "")
    assert status(joins, other, "Anna", new_key()) == 409
    joined = joins.join(said)
    assert [str(node.node) for node in nodes.read()] == [joined.node]


def test_no_code_that_nobody_gave_out(tmp_path: Path, joins: Joins) -> None:
    invite(tmp_path / "invitations", "")
    assert status(joins, new_code(), "anna", new_key()) == 403


def test_no_ended_code_and_no_withdrawn_one(tmp_path: Path, joins: Joins) -> None:
    folder = tmp_path / "invitations"
    (code,) = invite(folder, "")
    (path,) = folder.glob("*.csv")
    open_still, year = path.read_text(), f"{datetime.now(UTC):%Y}-"
    path.write_text(open_still.replace(f",{year}", ",2001-"))
    assert status(joins, code, "anna", new_key()) == 403
    path.write_text(open_still)
    withdraw(folder, [path.stem])
    assert status(joins, code, "anna", new_key()) == 403
    path.write_text(open_still)
    assert joins.join(request(code, "anna", new_key())).client == "anna"


def test_a_signature_of_another_key_spoils_no_code(tmp_path: Path, joins: Joins) -> None:
    """Whoever has anna's public key, and a code, cannot register it for her; she still can."""
    (code,) = invite(tmp_path / "invitations", "")
    anna, thief = new_key(), new_key()
    said = request(code, "anna", anna)
    for forged in (
        replace(said, signature=signature_of(thief, said.text)),
        replace(said, signature=signature_of(anna, said.text + b" ")),
        replace(said, signature=b""),
        replace(said, signature=bytes(96)),
        replace(said, client="ben"),
        replace(said, seal="0" * 64),
    ):
        with pytest.raises(JoinRefused) as caught:
            joins.join(forged)
        assert caught.value.status == 401
    assert nodes_and_joined(joins) == ([], [])
    assert joins.join(said).client == "anna"


def test_no_key_of_another_kind_or_form(tmp_path: Path, joins: Joins) -> None:
    (code,) = invite(tmp_path / "invitations", "")
    key = new_key()
    pem = request(code, "anna", key).key
    small = ec.generate_private_key(ec.SECP256R1())
    joined_lines = "".join(pem.splitlines()[1:-1])
    for other in (
        "none",
        pem.rstrip(),
        pem.replace("\n", "\r\n"),
        f"-----BEGIN PUBLIC KEY-----\n{joined_lines}\n-----END PUBLIC KEY-----\n",
        public_bytes(small).decode(),
    ):
        assert status(joins, code, "anna", key, other) == 400


@pytest.mark.parametrize("name", ["", "../anna", "a b", "-a", "x" * 65, "anna\n"])
def test_no_name_that_is_none(tmp_path: Path, joins: Joins, name: str) -> None:
    (code,) = invite(tmp_path / "invitations", "")
    assert status(joins, code, name, new_key()) == 403


def test_nobody_takes_anothers_name_or_key(tmp_path: Path, joins: Joins, nodes: LinkNodes) -> None:
    """Also those that were registered by hand."""
    first, second = invite(tmp_path / "invitations", "", "")
    anna, ben = new_key(), new_key()
    joins.join(request(first, "anna", anna))
    nodes.add("ben", request(second, "ben", ben).key.encode())
    for name in ("anna", "ANNA", "ben"):
        assert status(joins, second, name, new_key()) == 409
    for key in (anna, ben):
        assert status(joins, second, "carl", key) == 409
    assert joins.join(request(second, "carl", new_key())).client == "carl"


@pytest.mark.parametrize("name", ["", "a device"])
def test_nobody_takes_the_place_of_a_key_without_a_name(
    tmp_path: Path, joins: Joins, nodes: LinkNodes, name: str
) -> None:
    """It belongs to the client as which it came first, whom a named key would push aside."""
    folder = tmp_path / "invitations"
    nodes.add(name, request(new_code(), "anna", new_key()).key.encode())
    (any_name,), (own,) = invite(folder, ""), invite(folder, "ben")
    assert status(joins, any_name, "anna", new_key()) == 409
    assert joins.join(request(own, "ben", new_key())).client == "ben"


def test_who_was_revoked_comes_back_by_an_invitation_of_its_own_alone(
    tmp_path: Path, joins: Joins, nodes: LinkNodes
) -> None:
    folder = tmp_path / "invitations"
    first, second = invite(folder, "", "")
    key = new_key()
    joins.join(request(first, "anna", key))
    (own,) = invite(folder, "anna")
    assert status(joins, own, "anna", new_key()) == 409, "her device still has its key"
    revoke(nodes, "anna")
    assert status(joins, first, "anna", key) == 410
    assert status(joins, second, "anna", key) == 409
    assert status(joins, second, "anna", new_key()) == 409
    assert status(joins, own, "ben", new_key()) == 403
    assert status(joins, own, "anna", key) == 409
    again = joins.join(request(own, "anna", new_key()))
    assert [node.revoked for node in nodes.read() if str(node.node) == again.node] == [False]


def test_a_lost_key_in_the_middle_of_joining_is_replaced_by_an_invitation_of_its_own(
    tmp_path: Path, nodes: LinkNodes
) -> None:
    folder = tmp_path / "invitations"
    (code,) = invite(folder, "")

    class Full:
        read = staticmethod(nodes.read)

        def add(self, name: str, key: bytes) -> int:
            raise RuntimeError("no room")

    with pytest.raises(RuntimeError):
        Joins(folder, Full()).join(request(code, "anna", new_key()))
    joins = Joins(folder, nodes)
    other, own = [*invite(folder, ""), *invite(folder, "anna")]
    assert status(joins, other, "anna", new_key()) == 409
    assert joins.join(request(own, "anna", new_key())).client == "anna"
    assert len(read_joined(folder)) == 1


def test_a_damaged_file_of_who_joined_is_named_and_lets_nobody_in(
    tmp_path: Path, joins: Joins, nodes: LinkNodes
) -> None:
    folder = tmp_path / "invitations"
    (code,) = invite(folder, "")
    (folder / JOINED_FILE).write_bytes(b"x" * 5000)
    with refused(RunError, folder / JOINED_FILE):
        joins.join(request(code, "anna", new_key()))
    with refused(RunError, folder / JOINED_FILE):
        Joins(folder, nodes)
    assert nodes.read() == []
