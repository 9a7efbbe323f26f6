"""Who a device says it is, what it can hold, and to whom."""

from typing import Any

import pytest
from flwr.app import MessageType

from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import DataError, MessageRefused
from fedsub_core.version import VERSION
from fedsub_core.wire import exchange


def test_a_server_of_another_wire_is_refused_by_both_names(phone: Any) -> None:
    with pytest.raises(MessageRefused) as caught:
        phone().query(version="9.0", schema="fedsub.v7", wires=[6, 7])
    got = "got fedsub 9.0 with schema fedsub.v7"
    expected = f"schema {exchange.STYPE}, which fedsub {VERSION} understands"
    assert str(caught.value) == f"client 'p', round 0: versions: {got}, expected {expected}"


def test_a_server_of_another_release_with_keys_of_its_own_is_taken(phone: Any) -> None:
    later = phone()
    later.more = {"warmth": 0.5, "fedsub.mood": "good"}
    assert later.query(version="9.0") == phone().query()
    refused = r"client 'p', round 0: run config: got fedsub\.mood, warmth, expected keys of fedsub"
    with pytest.raises(MessageRefused, match=refused):
        later.query(version="9.0", given=["fedsub.mood", "lr", "warmth"])


@pytest.mark.parametrize(
    "now",
    [
        {"method": "local"},
        {"upload_encoding": "delta"},
        {"model": "mlp", "fedsub.depth": 1, "seed": 5},
        {
            "fedsub.prototype-noise": "gaussian",
            "fedsub.prototype-clip": 1.0,
            "fedsub.prototype-sigma": 1.0,
        },
    ],
)
def test_what_is_left_of_another_run_does_not_hinder_a_new_one(
    phone: Any, now: dict[str, Any]
) -> None:
    """Nor does it show: server and device have not yet said which run this is."""
    phone().train(1)
    device, fresh = phone(**now), phone("fresh", **now)
    assert device.query() == fresh.query()
    assert device.query()["client"] == "p" and device.query()["examples"] == 42
    device.train(1, run="other")
    device.train(2, run="other")
    assert device.saved.method == device.config.method
    assert device.query() == fresh.query()


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ({"client-id": None}, r"node config: no client-id; expected client-id and data"),
        ({"client-id": "../p"}, r"node config: client-id '\.\./p': expected at most 64 letters"),
        ({"client-id": ""}, r"node config: client-id '': expected"),
        ({"client-id": "q"}, r"^client 'q': its data cannot be used; the device's own log"),
        ({"client-id": None, "partition-id": 1}, r"1 clients, but this is node 2 of .* start as"),
        ({"data": "/nowhere"}, r"^client 'p': its data cannot be used; the device's own log"),
    ],
)
def test_a_device_that_is_nobodys_is_refused(phone: Any, node: dict[str, Any], said: str) -> None:
    device = phone()
    device.node |= node
    device.node = {key: value for key, value in device.node.items() if value is not None}
    with pytest.raises(DataError, match=said):
        device.query()


def test_a_simulated_node_says_how_many_people_and_nodes_there_are(phone: Any) -> None:
    said = phone(simulated=True).query()
    assert (said["client"], said["people"], said["nodes"]) == ("p", 1, 1)
    assert phone().query().keys() == said.keys() - {"people", "nodes"}


@pytest.mark.parametrize("capacity", [1, 1.0, 0.25])
def test_what_a_device_can_hold_reaches_server_and_training(
    phone: Any, capacity: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, ...]] = []
    fit = FedAvgLearner.fit

    def noted(self: FedAvgLearner, state: Any, received: Any, data: Stack, turn: Any) -> Any:
        seen.append(data.capacities)
        return fit(self, state, received, data, turn)

    monkeypatch.setattr(FedAvgLearner, "fit", noted)
    device = phone(method="local")
    assert device.query()["capacity"] == 1.0
    device.node["capacity"] = capacity
    said = device.query()["capacity"]
    assert said == capacity and type(said) is float
    device.train(1)
    assert seen == [(capacity,)]


@pytest.mark.parametrize("capacity", [0, 2, -0.5, 1.01, float("nan"), "half", "0.5"])
def test_a_capacity_that_is_no_share_is_refused(phone: Any, capacity: Any) -> None:
    device = phone()
    device.node["capacity"] = capacity
    expected = rf"node config: capacity: got {capacity!r}, expected a share in \(0, 1\]"
    with pytest.raises(DataError, match=expected):
        device.query()
    with pytest.raises(DataError, match=expected):
        device.ask(MessageType.TRAIN, device.content(1))
    assert not device.states.exists()
