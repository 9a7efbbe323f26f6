"""Who a device says it is, and to whom."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict

from fedsub_client import app
from fedsub_core.config.run_config import from_flat, to_flat
from fedsub_core.errors import DataError, MessageRefused
from fedsub_core.version import VERSION
from fedsub_core.wire import exchange

IDS = count(10**6)


@pytest.mark.parametrize(
    ("said", "got"),
    [
        ({"version": "0.0.9"}, "got fedsub 0.0.9 with schema fedsub.v1"),
        ({"schema": "fedsub.v7"}, f"got fedsub {VERSION} with schema fedsub.v7"),
    ],
)
def test_a_server_of_another_version_is_refused_by_both_names(
    phone: Any, said: dict[str, str], got: str
) -> None:
    with pytest.raises(MessageRefused) as caught:
        phone().query(**said)
    expected = f"client 'p', round 0: versions: {got}, expected fedsub {VERSION} with schema "
    assert str(caught.value) == f"{expected}{exchange.STYPE}"


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
        ({"client-id": "../p"}, r"node config: client-id '\.\./p': expected letters"),
        ({"client-id": ""}, r"node config: client-id '': expected"),
        ({"client-id": "q"}, r"q\.npz"),
        ({"client-id": None, "partition-id": 1}, r"1 clients, but this is node 2 of .* start as"),
        ({"data": "/nowhere"}, r"/nowhere: no such folder"),
    ],
)
def test_a_device_that_is_nobodys_is_refused(phone: Any, node: dict[str, Any], said: str) -> None:
    device = phone()
    device.node |= node
    device.node = {key: value for key, value in device.node.items() if value is not None}
    with pytest.raises(DataError, match=said):
        device.query()


def test_in_a_simulation_a_node_is_the_nth_client(phone: Any) -> None:
    device = phone()
    device.node = {"partition-id": 0, "num-partitions": 1, "data": device.node["data"]}
    assert device.query()["client"] == "p"
    context = Context(1, 1, device.node, RecordDict(), to_flat(device.config))
    answers = []
    for _ in range(2):
        message = Message(device.content(1), 1, MessageType.TRAIN, group_id="1")
        message.metadata.__dict__["_message_id"] = f"m{next(IDS)}"
        answers.append(exchange.unpack(app.train(message, context).content))
    assert answers[0] == answers[1] and not device.states.exists()
    assert from_flat(context.run_config) == device.config
    assert isinstance(device.content(1)[exchange.ORDER], ConfigRecord)
