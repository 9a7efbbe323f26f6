"""The opening exchange: clients that do not fit together, or that answer nonsense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flwr.app import Error, Message, MessageType

from fedsub_core.errors import RunError
from fedsub_core.wire import handshake
from strategies.rounds.handshake import Federation


def opening_of_p2(change: Callable[[Any], object]) -> Callable[[Any], Message]:
    """Change what p2 says of itself, given as Flower's record of plain values."""

    def tamper(reply: Any) -> Message:
        if reply.kind == MessageType.QUERY:
            record = reply.message.content.config_records[handshake.OPENING]
            if record["client"] == "p2":
                change(record)
        return reply.message  # type: ignore[no-any-return]

    return tamper


def test_of_two_nodes_of_one_client_the_second_is_refused(
    people: Any, play: Any, caplog: pytest.LogCaptureFixture
) -> None:
    # The largest client is node 1, so p2 of four is node 3 and p1 node 4.
    tamper = opening_of_p2(lambda record: record.__setitem__("client", "p1"))
    played = play(people(), "local", tamper=tamper, rounds=1)
    assert (
        "node 4: client id 'p1' came from two nodes, 3 and 4; the second is refused" in caplog.text
    )
    assert played.strategy.federation.nodes == {"p1": 3, "p3": 2, "p4": 1}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("version", "0.0.0", "versions: got fedsub 0.0.0 with schema fedsub.v1, expected fedsub "),
        ("schema", "fedsub.v9", "with schema fedsub.v9, expected fedsub "),
        ("classes", ["class 0", "class 2", "class 1"], "client 'p2': classes: got ('class 0', "),
        ("classes", ["class 0", "class 1"], "client 'p2': classes: got"),
        ("shape", [4, 128], "client 'p2': shape: got (4, 128), expected (4,)"),
    ],
)
def test_who_differs_from_most_is_turned_away(
    people: Any, play: Any, caplog: pytest.LogCaptureFixture, key: str, value: Any, said: str
) -> None:
    tamper = opening_of_p2(lambda record: record.__setitem__(key, value))
    played = play(people(), "local", tamper=tamper, rounds=1)
    assert played.strategy.federation.clients == ["p1", "p3", "p4"]
    assert said in caplog.text
    with pytest.raises(
        RunError, match=r"3 of at least 4 clients after 0\.3 s \(turned away: node 3"
    ):
        play(people(), "local", tamper=tamper, rounds=1, min_clients=4)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("client", ""),
        ("client", "p2\np3"),
        ("client", "../p2"),
        ("classes", 3),
        ("shape", 4),
        ("shape", []),
        ("sum", ["a", "b", "c", "d"]),
        ("sum", [1.0, 2.0]),
        ("sumsq", [float("nan")] * 4),
    ],
)
def test_an_opening_that_cannot_be_read_leaves_its_client_out(
    people: Any, play: Any, caplog: pytest.LogCaptureFixture, key: str, value: Any
) -> None:
    tamper = opening_of_p2(lambda record: record.__setitem__(key, value))
    played = play(people(), "local", tamper=tamper, rounds=1)
    assert played.strategy.federation.clients == ["p1", "p3", "p4"]
    assert "opening refused" in caplog.text


@pytest.mark.parametrize(
    "key", ["version", "classes", "shape", "examples", "count", "sum", "sumsq"]
)
def test_an_opening_that_lacks_a_value_leaves_its_client_out(
    people: Any, play: Any, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    tamper = opening_of_p2(lambda record: record.__delitem__(key))
    played = play(people(), "local", tamper=tamper, rounds=1)
    assert played.strategy.federation.clients == ["p1", "p3", "p4"]
    assert f"no '{key}'" in caplog.text


def test_nobody_answers(people: Any, play: Any) -> None:
    with pytest.raises(RunError, match=r"0 of at least 1 .* 4 connected but did not answer"):
        play(people(), tamper=lambda reply: None)
    with pytest.raises(RunError, match=r"node 1: error 1: asleep; node 2: error 1: asleep"):
        play(people(), tamper=lambda reply: Message(Error(1, "asleep"), reply_to=reply.asked))


def test_nodes_in_another_order_are_the_same_federation(people: Any, play: Any) -> None:
    first, second = (
        play(people(), "local", rounds=1, backwards=backwards).strategy.federation
        for backwards in (False, True)
    )
    assert list(first.nodes.items()) == list(second.nodes.items())
    assert (first.scaling.mean == second.scaling.mean).all()
    assert (first.scaling.std == second.scaling.std).all()


def test_what_was_agreed_on_outlives_the_process(people: Any, play: Any) -> None:
    played = play(people(), rounds=4, split="unseen", unseen_rounds=1)
    first = played.strategy.federation
    again = Federation.of(first.tensors(), played.strategy.config)
    assert (again.classes, again.shape, again.unseen) == (first.classes, first.shape, first.unseen)
    assert len(again.unseen) == 1 and again.clients == []
    assert (again.scaling.mean == first.scaling.mean).all()
    assert again.model.parameter_shapes == first.model.parameter_shapes
