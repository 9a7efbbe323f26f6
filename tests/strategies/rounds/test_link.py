"""What a node can do to the link between it and the server costs that node alone."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fedsub.testing.cover import turns
from strategies.rounds import delivery, link

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..hostile_link import HostileLink
from ..partial_grid import PartialGrid

#: The largest client is node 1, so p2 of four is node 3.
NODE = 3
HONEST = ("p1", "p3", "p4")
TRAIN_TIMEOUT = {"round_timeout": 2.0}


def raising(error: Exception) -> Callable[[Message], Message]:
    def trick(message: Message) -> Message:
        raise error

    return trick


def after_handshake(trick: Callable[[Message], Message]) -> Callable[[Message], Message]:
    """Play a trick with everything but the handshake."""
    return lambda m: m if m.metadata.message_type == MessageType.QUERY else trick(m)


def names_another(message: Message) -> Message:
    message.metadata.__dict__["_reply_to_message_id"] = "of somebody else"
    return message


def no_message(message: Message) -> Any:
    return RecordDict({"config": ConfigRecord({"root": "a record"})})


def joined_with(records: dict[str, Any]) -> Callable[[Message], Message]:
    def trick(message: Message) -> Message:
        message.content = RecordDict({"joined": ConfigRecord({"report.a": 1.0}), **records})
        return message

    return trick


UNREADABLE = {
    "a child is missing": raising(KeyError("5f2a")),
    "the body does not parse": raising(ValueError("Error parsing message")),
    "the root is a record": no_message,
    "it answers another's": names_another,
    "a joined message has a record beside it": joined_with({"more": ConfigRecord({"a": 1})}),
    "a joined message has a record of nobody's": joined_with({"joined": ConfigRecord({"a.b": 1})}),
    "endless text": raising(RuntimeError("x" * 100_000)),
}


def honest_run(people: MakePeople, run_method: RunMethod, **keys: Any) -> FinishedRun:
    """A run in which p2 fits together with the others, and then says nothing."""
    return run_method(
        people(),
        tamper=lambda reply: (
            None if (reply.client, reply.round > 0) == ("p2", True) else reply.message
        ),
        **keys,
    )


def assert_the_others_train_alike(run: FinishedRun, honest: FinishedRun) -> None:
    theirs, ours = honest.client_states(), run.client_states()
    for client in HONEST:
        for name, tensor in theirs[f"client/{client}"].items():
            torch.testing.assert_close(ours[f"client/{client}"][name], tensor, atol=1e-6, rtol=0)
    assert {c for _, c in run.metric("loss")} == {*HONEST}


@pytest.mark.parametrize(("trick", "name"), turns(UNREADABLE.values(), ["fedavg", "fedsub"]))
def test_replies_that_cannot_be_read_are_refused_and_named(
    name: str,
    trick: Callable[[Message], Message],
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hostile = partial(HostileLink, node=NODE, pulled=after_handshake(trick))
    run = run_method(people(), name, link=hostile, **TRAIN_TIMEOUT)
    assert_the_others_train_alike(run, honest_run(people, run_method, name=name))
    assert set(run.refusals) == {"p2"}
    assert "round 1, client p2: refused: error 0" in caplog.text
    assert max(map(len, caplog.messages)) < 1000


@pytest.mark.parametrize("trick", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_answer_to_the_handshake_that_cannot_be_read_leaves_its_node_out(
    trick: Callable[[Message], Message],
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
) -> None:
    hostile = partial(HostileLink, node=NODE, pulled=trick)
    run = run_method(people(), "local", link=hostile, rounds=1, **TRAIN_TIMEOUT)
    assert run.strategy.population.clients == [*HONEST]
    assert f"node {NODE}: its answer: " in caplog.text


def test_messages_that_a_node_does_not_let_through_are_given_up(
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It confirmed one, say, before all its parts had been sent."""
    monkeypatch.setattr(delivery, "PRESENCE_SECONDS", 0.05)
    trick = after_handshake(raising(RuntimeError("no such object")))
    run = run_method(
        people(), link=partial(HostileLink, node=NODE, pushed=trick), round_timeout=30.0
    )
    assert_the_others_train_alike(run, honest_run(people, run_method))
    assert "client p2: the message to it: RuntimeError: no such object" in caplog.text
    assert set(run.refusals) == {"p2"}


def test_a_reply_whose_parts_never_come_blocks_nobody(
    people: MakePeople, run_method: RunMethod
) -> None:
    forever = threading.Event()

    def wait(message: Message) -> Message:
        forever.wait(60)
        return message

    since = time.monotonic()
    hostile = partial(HostileLink, node=NODE, pulled=after_handshake(wait))
    run = run_method(people(), link=hostile, **TRAIN_TIMEOUT)
    took = time.monotonic() - since
    forever.set()
    assert_the_others_train_alike(run, honest_run(people, run_method))
    assert run.metric("missing_replies")[1, "p2"] == 1
    assert took < 2 * (TRAIN_TIMEOUT["round_timeout"] + link.GRACE) + 10


class GoneGrid(PartialGrid):
    """A link that is down."""

    in_process = False

    def get_node_ids(self) -> Iterator[int]:
        raise ConnectionError("the link is down")

    def push_messages(self, messages: object) -> list[str]:
        raise ConnectionError("the link is down")

    def pull_messages(self, message_ids: object) -> list[Message]:
        raise ConnectionError("the link is down")


def test_a_link_that_is_down_is_nobodys_fault() -> None:
    down = link.Link(GoneGrid())
    with pytest.raises(ConnectionError, match="the link is down"):
        down.pull(["one", "two"])
    message = Message(RecordDict(), 1, MessageType.QUERY)
    with pytest.raises(ConnectionError, match="the link is down"):
        down.push([message])


def test_more_messages_than_workers_all_come(people: MakePeople, run_method: RunMethod) -> None:
    many = people(classes=((0, 1, 2),) * (2 * link.WORKERS + 3), samples=4)
    run = run_method(many, "fedavg", link=partial(HostileLink, node=0), **TRAIN_TIMEOUT)
    assert len(run.metric("loss")) == 2 * len(many.clients)
    plain = run_method(many, "fedavg")
    for name, tensor in plain.states[-1].items():
        torch.testing.assert_close(run.states[-1][name], tensor, atol=1e-6, rtol=0)
