"""Joined messages: one record for all, and the same records afterwards."""

from typing import Any

import pytest
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.wire import exchange
from fedsub_core.wire.joined import JOINED, MOST_BYTES, joined, separate

TURN: dict[str, Any] = {"round": 3, "method": "fedavg", "mean": b"\0\1", "evaluate": True}
METRICS: dict[str, Any] = {"loss": 0.5, "confusion": [0, 0, 4], "f1.2": 1.0}
RECORDS: dict[str, Any] = {
    exchange.PAYLOAD: exchange.pack(b"\0\xff"),
    exchange.TURN: ConfigRecord(TURN),
    "secure": ConfigRecord({"phase": "sum", "values": [b"a", b"b"]}),
    exchange.REPORT: MetricRecord({"training_loss": 0.25}),
    exchange.METRICS: MetricRecord(METRICS),
}


@pytest.mark.parametrize("left_out", ["", *RECORDS])
def test_separated_it_is_what_was_joined(left_out: str) -> None:
    content = RecordDict({name: one for name, one in RECORDS.items() if name != left_out})
    one = joined(content)
    assert list(one) == [JOINED] and separate(one, "ann") == content
    assert separate(exchange.salted(one), "ann") == content
    assert joined(one) is one  # a message that is sent again


@pytest.mark.parametrize(
    "also",
    [
        {"handshake": ConfigRecord({"client": "ann"})},
        {exchange.TURN: exchange.pack(b"x")},
        {exchange.PAYLOAD: exchange.pack(bytes(MOST_BYTES + 1))},
    ],
)
def test_what_cannot_be_joined_stays_as_it_is(also: dict[str, Any]) -> None:
    content = RecordDict({**RECORDS, **also})
    assert joined(content) is content and separate(content, "ann") is content


def test_a_payload_of_the_largest_size_is_joined() -> None:
    content = RecordDict({exchange.PAYLOAD: exchange.pack(bytes(MOST_BYTES))})
    assert separate(joined(content), "ann") == content


@pytest.mark.parametrize(
    ("values", "what", "got"),
    [
        ({"payload": "text"}, JOINED, "payload of str"),
        ({"payload.x": b"1"}, JOINED, "payload.x of bytes"),
        ({"handshake.client": "eve"}, JOINED, "handshake.client of str"),
        ({"round": 1}, JOINED, "round of int"),
    ],
)
def test_a_key_of_no_record_is_refused(values: dict[str, Any], what: str, got: str) -> None:
    content = RecordDict({JOINED: ConfigRecord({"turn.round": 3, **values})})
    with refused(MessageRefused, client="ann", round=3, what=what, got=got):
        separate(content, "ann")


def test_numbers_that_are_none_are_refused() -> None:
    content = RecordDict({JOINED: ConfigRecord({"metrics.loss": "small"})})
    with refused(MessageRefused, client="ann", round=0, what="joined: metrics"):
        separate(content, "ann")


@pytest.mark.parametrize("record", [ArrayRecord(), MetricRecord({"payload": 1.0})])
def test_a_record_of_another_kind_is_refused(record: Any) -> None:
    with refused(MessageRefused, client="ann", what=JOINED, expected="one ConfigRecord alone"):
        separate(RecordDict({JOINED: record}), "ann")


def test_a_record_beside_it_is_refused() -> None:
    content = RecordDict({JOINED: ConfigRecord({"turn.round": 2}), **RECORDS})
    with refused(MessageRefused, client="ann", what=JOINED, expected="one ConfigRecord alone"):
        separate(content, "ann")
