"""What docs/wire-format.md says of Flower's calls is what the installed SuperLink does."""

import re
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.proto import fleet_pb2 as messages
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_tools import protoc

from .fleet_api import Fleet
from .raw_device.connection import OVER_HTTP, Caller, Refused, public_bytes

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")
over_http = pytest.mark.skipif(not OVER_HTTP, reason="this Flower speaks gRPC")

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "wire-format.md").read_text("utf-8")
SECTION = PAGE.split("## Flower's calls over HTTP\n")[1].split("\n## ")[0]
#: Flower's modules of messages.
MODULES = ("fleet", "message", "heartbeat", "recorddict", "error", "node", "run")


def flowers(name: str) -> Any:
    """Return the descriptor of a message of the installed Flower."""
    for module in MODULES:
        found = import_module(f"flwr.proto.{module}_pb2").DESCRIPTOR.message_types_by_name
        if name in found:
            return found[name]
    raise AssertionError(f"Flower has no message {name}")


def fields(descriptor: Any) -> dict[str, tuple[Any, ...]]:
    """Return number, type and kind of each field."""
    return {
        f.name: (f.number, f.type, f.is_repeated, f.message_type and f.message_type.name)
        for f in descriptor.fields
    }


def test_our_schema_of_its_messages_is_its_own(tmp_path: Path) -> None:
    made, place = tmp_path / "fleet.desc", ROOT / "proto" / "flower"
    assert protoc.main(["protoc", f"-I{place}", f"--descriptor_set_out={made}", "fleet.proto"]) == 0
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
    pool: Any = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    assert len(file.message_type) > 20
    for message in file.message_type:
        ours = fields(pool.FindMessageTypeByName(f"flwr.proto.{message.name}"))
        assert ours.items() <= fields(flowers(message.name)).items(), message.name


def test_each_call_of_the_page_is_one_of_flowers() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| `(\w+)` \| ", SECTION, re.M)
    calls = dict(rows)
    assert len(calls) == len(rows) == 10
    for name in calls.values():
        assert flowers(f"{name}Request") and flowers(f"{name}Response")
    methods = messages.DESCRIPTOR.services_by_name["Fleet"].methods_by_name
    kebab = {re.sub(r"(?<=.)([A-Z])", r"-\1", name).lower() for name in methods}
    assert calls.keys() <= kebab


@over_http
def test_refusals_have_the_status_and_code_of_the_page(fleet: Fleet) -> None:
    fleet.register("anna")
    anna = fleet.connect("anna")
    request = messages.ActivateNodeRequest(public_key=fleet.public("anna"), heartbeat_interval=30.0)
    node = anna.node
    for call, asked, status, code in (
        ("ActivateNode", request, 412, "2004"),
        (
            "RegisterNode",
            messages.RegisterNodeFleetRequest(public_key=fleet.public("anna")),
            412,
            "2001",
        ),
        (
            "SendNodeHeartbeat",
            SendNodeHeartbeatRequest(node=node, heartbeat_interval=9),
            400,
            "2003",
        ),
    ):
        with pytest.raises(Refused, match=code) as refused:
            anna.call(call, asked)
        known = {400: "INVALID_ARGUMENT"}
        assert refused.value.reason == known.get(status, f"HTTP {status}")
        assert re.search(rf"^\| {status} \| {code} *\|", SECTION, re.M), call


#: The last is a board without a battery, whose clock begins in the 1970s.
CLOCKS = [(4, True), (7, False), (-300, True), (-310, False), (-1_600_000_000, False)]


@over_http
@pytest.mark.parametrize(("seconds", "taken"), CLOCKS)
def test_a_clock_may_be_off_as_far_as_the_page_says(
    fleet: Fleet, seconds: int, taken: bool
) -> None:
    fleet.register("anna")
    node = fleet.connect("anna").node
    private = load_ssh_private_key(fleet.key("anna").read_bytes(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    stamp = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().encode()
    headers = {
        "flwr-public-key-bin": public_bytes(private),
        "flwr-timestamp": stamp,
        "flwr-signature-bin": private.sign(stamp, ec.ECDSA(SHA256())),
    }
    call = Caller(fleet.address, (fleet.folder / "ca.crt").read_bytes())
    request = messages.PullMessagesRequest(node=node).SerializeToString()
    if taken:
        assert call("PullMessages", request, headers) == b""
        # The same signature is good for no second call.
        with pytest.raises(Refused, match="HTTP 503"):
            call("PullMessages", request, headers)
    else:
        with pytest.raises(Refused, match="UNAUTHENTICATED"):
            call("PullMessages", request, headers)
