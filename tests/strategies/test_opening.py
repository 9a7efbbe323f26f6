"""The opening exchange: clients that do not fit together, or that answer nonsense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flwr.app import Error, Message, MessageType

from fedsub_core import exchange
from fedsub_core.errors import RunError


def opening_of_p2(change: Callable[[Any], object]) -> Callable[[Any], Message]:
    """Change what p2 says of itself, given as Flower's record of plain values."""

    def tamper(reply: Any) -> Message:
        if reply.kind == MessageType.QUERY:
            record = reply.message.content.config_records[exchange.OPENING]
            if record["client"] == "p2":
                change(record)
        return reply.message  # type: ignore[no-any-return]

    return tamper


def test_two_nodes_of_one_client_are_named(people: Any, play: Any) -> None:
    # The largest client is node 1, so p2 of four is node 3 and p1 node 4.
    tamper = opening_of_p2(lambda record: record.__setitem__("client", "p1"))
    with pytest.raises(RunError, match=r"client id 'p1' came from two nodes, (3 and 4|4 and 3);"):
        play(people(), tamper=tamper)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("version", "0.0.0", r"client 'p2': version '0\.0\.0', expected '"),
        ("classes", ["class 0", "class 2", "class 1"], r"client 'p2': classes \('class 0', "),
        ("classes", ["class 0", "class 1"], r"client 'p2': classes"),
        ("shape", [4, 128], r"client 'p2': shape \(4, 128\), expected \(4,\)"),
    ],
)
def test_clients_that_disagree_end_the_run(
    people: Any, play: Any, key: str, value: Any, said: str
) -> None:
    with pytest.raises(RunError, match=said):
        play(people(), tamper=opening_of_p2(lambda record: record.__setitem__(key, value)))


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
    with pytest.raises(RunError, match="none of 4 nodes answered"):
        play(people(), tamper=lambda reply: None)
    with pytest.raises(RunError, match="none of 4 nodes answered"):
        play(people(), tamper=lambda reply: Message(Error(1, "asleep"), reply_to=reply.asked))


def test_nodes_in_another_order_are_the_same_federation(people: Any, play: Any) -> None:
    class Reversed:
        """The same replies, last first."""

        def __init__(self, grid: Any) -> None:
            self.grid = grid

        def get_node_ids(self) -> Any:
            return self.grid.get_node_ids()

        def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
            return list(self.grid.send_and_receive(messages, timeout=timeout))[::-1]

    played = play(people(), "local", rounds=1)
    first = played.strategy.federation
    played.strategy.resume(1, {})
    played.strategy.start(Reversed(played.grid))
    second = played.strategy.federation
    assert list(first.nodes.items()) == list(second.nodes.items())
    assert (first.scaling.mean == second.scaling.mean).all()
    assert (first.scaling.std == second.scaling.std).all()
