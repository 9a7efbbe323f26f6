"""A message within a process: Flower's, written when somebody looks at it."""

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MetricRecord
from flwr.supercore.task_identity import TaskIdentity

from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle, Floats, dense
from fedsub_core.wire.codec import Address, compose_upload
from fedsub_core.wire.exchange import Content
from fedsub_core.wire.in_process_message import InProcessMessage, answer, content_of
from fedsub_core.wire.message_sizes import message_bytes

DECLARED = {"weight": dense((2, 3))}


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def carried() -> Content:
    bundle = Bundle(9, tensors={"weight": Floats(np.ones((2, 3), np.float32))})
    payload = compose_upload(bundle, Address("anna", 3), DECLARED)
    return {
        exchange.PAYLOAD: payload,
        exchange.METRICS: {"loss": 0.5, "examples": 9.0},
        exchange.REPORT: {"training_loss": 0.25},
        exchange.TURN: ConfigRecord({"round": 3, "method": "fedavg"}),
    }


def test_content_is_what_would_have_been_sent() -> None:
    parts = carried()
    message = InProcessMessage(parts, 7, "train", ttl=9.0, group_id="3")
    told = message.metadata
    assert (told.dst_node_id, told.message_type, told.ttl, told.group_id) == (7, "train", 9.0, "3")
    assert content_of(message) is parts and message.has_content() and not message.has_error()
    size = message_bytes(parts, len(parts[exchange.PAYLOAD]))
    written = message.content
    assert exchange.unpack(written) == parts[exchange.PAYLOAD].to_bytes()
    assert written[exchange.METRICS] == MetricRecord({"loss": 0.5, "examples": 9.0})
    assert written[exchange.REPORT] == MetricRecord({"training_loss": 0.25})
    assert written[exchange.TURN] is parts[exchange.TURN]
    assert message_bytes(written, len(exchange.unpack(written))) == size


def test_what_was_looked_at_or_set_is_what_arrives() -> None:
    looked, replaced = (InProcessMessage(carried(), 7, "train") for _ in range(2))
    looked.content[exchange.PAYLOAD] = exchange.pack(b"other")
    assert exchange.payload_of(content_of(looked)) == b"other"
    replaced.content = exchange.write({exchange.PAYLOAD: exchange.pack(b"new")})
    assert replaced.carried is None
    assert exchange.payload_of(content_of(replaced)) == b"new"


def test_an_answer_comes_as_its_question_did() -> None:
    asked = InProcessMessage(carried(), 7, "train")
    reply = answer(carried(), asked)
    assert isinstance(reply, InProcessMessage) and reply.metadata.src_node_id == 7
    asked.content = exchange.write(carried())
    for question in (asked, Message(exchange.write(carried()), 7, "train")):
        reply = answer(carried(), question)
        assert not isinstance(reply, InProcessMessage)
        assert exchange.numbers_of(reply.content, exchange.REPORT) == {"training_loss": 0.25}
