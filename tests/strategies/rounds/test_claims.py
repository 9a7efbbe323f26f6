"""What a device claims unasked, of the wrong kind, or of others, changes nothing for them."""

from typing import Any

import pytest
from flwr.app import Message, MessageType, MetricRecord

from fedsub_core.wire import exchange

from ..finished_run import MakePeople, RunMethod
from ..tampered_grid import Reply
from .test_handshake import introduced, saying


def test_nobody_is_evaluated_because_a_device_says_how_it_does_unasked(
    people: MakePeople, run_method: RunMethod
) -> None:
    said: dict[str, Any] = {
        "macro_f1": 1.0,
        "weighted_f1": 1.0,
        "accuracy": 1.0,
        "loss": 0.0,
        "examples": 9.0,
    }

    def tamper(reply: Reply) -> Message:
        if reply.kind == MessageType.TRAIN and reply.client == "p2":
            reply.message.content[exchange.METRICS] = MetricRecord(said)
        return reply.message

    run = run_method(people(), "fedavg", tamper=tamper, rounds=2, evaluate_every=2)
    assert [round for round, _ in run.grid.evaluated] == [2]
    assert run.grid.evaluated[0][1] == ("p1", "p2", "p3", "p4")
    assert run.metric("macro_f1")[2, "p2"] < 1.0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("count", "many"),
        ("count", float("nan")),
        ("count", 0),
        ("people", float("inf")),
        ("people", -1),
        ("examples", "many"),
        ("examples", float("nan")),
        ("examples", -3),
        ("examples", 0),
        ("examples", [1, 2]),
        ("capacity", "0.5"),
        ("shape", [4.0]),
    ],
)
def test_an_introduction_of_other_kinds_of_values_is_refused(
    people: MakePeople, run_method: RunMethod, key: str, value: Any
) -> None:
    run = run_method(people(), "fedavg", tamper=introduced(saying(key, value), "p2"), rounds=1)
    assert run.strategy.population.clients == ["p1", "p3", "p4"]


def test_one_device_cannot_end_a_run_by_saying_it_is_simulated(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "fedavg", tamper=introduced(saying("people", 100), "p2"), rounds=1)
    assert run.strategy.finished_rounds == 1
