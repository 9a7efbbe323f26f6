"""The handshake: clients that do not fit together, or that answer nonsense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from flwr.app import ConfigRecord, Error, Message, MessageType

from fedsub_core.errors import RunError
from fedsub_core.models.kinds import build_model
from fedsub_core.wire import handshake
from fedsub_core.wire.handshake import Facts
from strategies.rounds.agreement import AGREED, Agreement

from ..finished_run import MakePeople, RunMethod
from ..tampered_grid import Reply, Tamper

EVERYBODY = ("p1", "p2", "p3", "p4")
Change = Callable[[ConfigRecord], object]


def introduced(change: Change, *clients: str) -> Tamper:
    """Change what clients say of themselves, given as Flower's record of plain values."""

    def tamper(reply: Reply) -> Message:
        if reply.kind == MessageType.QUERY:
            record = reply.message.content.config_records[handshake.HANDSHAKE]
            if record["client"] in clients:
                change(record)
        return reply.message

    return tamper


def saying(key: str, value: Any) -> Change:
    return lambda record: record.__setitem__(key, value)


def test_of_two_nodes_of_one_client_the_second_is_refused(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    # The largest client is node 1, so p2 of four is node 3 and p1 node 4.
    run = run_method(people(), "local", tamper=introduced(saying("client", "p1"), "p2"), rounds=1)
    assert (
        "node 4: client id 'p1' came from two nodes, 3 and 4; the second is refused" in caplog.text
    )
    assert run.strategy.population.nodes == {"p1": 3, "p3": 2, "p4": 1}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("version", "0.0.0", "versions: got fedsub 0.0.0 with schema fedsub.v2, expected fedsub "),
        ("schema", "fedsub.v9", "with schema fedsub.v9, expected fedsub "),
        ("classes", ["class 0", "class 2", "class 1"], "client 'p2': classes: got ('class 0', "),
        ("classes", ["class 0", "class 1"], "client 'p2': classes: got"),
        ("shape", [4, 1], "client 'p2': shape: got (4, 1), expected (4,)"),
    ],
)
def test_who_differs_from_most_is_turned_away(
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
    key: str,
    value: Any,
    said: str,
) -> None:
    tamper = introduced(saying(key, value), "p2")
    run = run_method(people(), "local", tamper=tamper, rounds=1)
    assert run.strategy.population.clients == ["p1", "p3", "p4"]
    assert said in caplog.text
    with pytest.raises(
        RunError, match=r"3 of at least 4 clients after 0\.3 s \(turned away: node 3"
    ):
        run_method(people(), "local", tamper=tamper, rounds=1, min_clients=4)


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
        ("capacity", 0),
        ("capacity", 0.0),
        ("capacity", 2.0),
        ("capacity", -0.5),
        ("capacity", float("nan")),
        ("capacity", float("inf")),
        ("capacity", "half"),
        ("capacity", [0.5]),
        ("people", "many"),
        ("client", "p" * 65),
        ("classes", ["x" * 10_000] * 3),
        ("classes", [1, 2, 3]),
        ("classes", []),
        ("shape", [3.0]),
        ("shape", [4, 1, 1, 1, 1]),
        ("shape", [2**62]),
        ("examples", 2**48 - 1),
        ("examples", 1.0),
        *[("count", wrong) for wrong in ("5", [5], b"5", -5, float("nan"), 2**62, 5.0, 5)],
        *[("sum", [wrong] * 4) for wrong in (1e15, -1e308, float("inf"), 2**62)],
        *[("sumsq", [wrong] * 4) for wrong in (0.0, -1.0, 1e308, float("inf"))],
        ("sum", "1234"),
    ],
)
def test_an_introduction_that_cannot_be_read_leaves_its_client_out(
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
    key: str,
    value: Any,
) -> None:
    run = run_method(people(), "local", tamper=introduced(saying(key, value), "p2"), rounds=1)
    assert run.strategy.population.clients == ["p1", "p3", "p4"]
    assert "node 3: handshake refused: client " in caplog.text


@pytest.mark.parametrize(
    "key", ["version", "classes", "shape", "examples", "capacity", "count", "sum", "sumsq"]
)
def test_an_introduction_that_lacks_a_value_leaves_its_client_out(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    tamper = introduced(lambda record: record.__delitem__(key), "p2")
    run = run_method(people(), "local", tamper=tamper, rounds=1)
    assert run.strategy.population.clients == ["p1", "p3", "p4"]
    assert f"no '{key}'" in caplog.text


def test_what_clients_say_of_themselves_is_known_of_them(
    people: MakePeople, run_method: RunMethod
) -> None:
    tamper = introduced(saying("capacity", 0.25), "p2")
    run = run_method(people(), "local", tamper=tamper, rounds=1)
    sizes = {c.client: len(c.train_y) for c in run.clients}
    assert len(set(sizes.values())) == 4
    facts = {client: run.strategy.population.facts(client) for client in EVERYBODY}
    assert facts == {
        client: Facts(sizes[client], 0.25 if client == "p2" else 1.0) for client in EVERYBODY
    }
    with pytest.raises(KeyError, match="p5"):
        run.strategy.population.facts("p5")


def test_one_that_lies_about_its_data_turns_no_ones_features_if_medians_are_pooled(
    people: MakePeople, run_method: RunMethod
) -> None:
    def lie(record: ConfigRecord) -> None:
        record["sumsq"] = [1e8 * square for square in cast(list[float], record["sumsq"])]

    found = {}
    for standardise in ("federation", "federation-median"):
        runs = [
            run_method(people(), "local", tamper=tamper, rounds=1, standardise=standardise)
            for tamper in (None, introduced(lie, "p2"))
        ]
        honest, lied = (run.told("std") for run in runs)
        found[standardise] = float((lied / honest).max())
    assert found["federation"] > 1000 and found["federation-median"] < 2


def half_of(people: int, nodes: int) -> Change:
    def change(record: ConfigRecord) -> None:
        record["people"], record["nodes"] = people, nodes

    return change


def test_fewer_simulated_nodes_than_people_are_refused_with_the_command(
    people: MakePeople, run_method: RunMethod
) -> None:
    with pytest.raises(RunError) as caught:
        run_method(people(), "local", tamper=introduced(half_of(11, 4), *EVERYBODY), rounds=1)
    said = str(caught.value)
    assert said.startswith("11 people in the data, but Flower simulates 4 SuperNodes")
    assert "7 people would not take part" in said
    assert "flwr run . --federation-config 'num-supernodes=11'" in said


def test_as_many_simulated_nodes_as_people_are_fine(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "local", tamper=introduced(half_of(4, 4), *EVERYBODY), rounds=1)
    assert run.strategy.population.clients == list(EVERYBODY)


def test_nobody_answers(people: MakePeople, run_method: RunMethod) -> None:
    with pytest.raises(RunError, match=r"0 of at least 1 .* 4 connected but did not answer"):
        run_method(people(), tamper=lambda reply: None)
    with pytest.raises(RunError, match=r"node 1: error 1: asleep; node 2: error 1: asleep"):
        run_method(people(), tamper=lambda reply: Message(Error(1, "asleep"), reply_to=reply.asked))


def test_nodes_in_another_order_are_the_same_federation(
    people: MakePeople, run_method: RunMethod
) -> None:
    first, second = (
        run_method(people(), "local", rounds=1, backwards=backwards).strategy.population
        for backwards in (False, True)
    )
    assert list(first.nodes.items()) == list(second.nodes.items())
    one, other = first.agreed.scaling, second.agreed.scaling
    assert one is not None and other is not None
    assert (one.mean == other.mean).all() and (one.std == other.std).all()


@pytest.mark.parametrize("standardise", ["federation", "client", "none"])
def test_what_was_agreed_on_outlives_the_process(
    people: MakePeople, run_method: RunMethod, standardise: str
) -> None:
    keys = {"split": "unseen", "unseen_rounds": 1, "standardise": standardise}
    run = run_method(people(), rounds=4, **keys)
    first = run.strategy.population.agreed
    tensors = first.tensors()
    assert all(name.startswith(AGREED) for name in tensors)
    again = Agreement.of(tensors)
    assert (again.classes, again.shape, again.unseen) == (first.classes, first.shape, first.unseen)
    assert len(again.unseen) == 1
    assert (again.scaling is None) == (first.scaling is None) == (standardise != "federation")
    if again.scaling is not None and first.scaling is not None:
        assert (again.scaling.mean == first.scaling.mean).all()
        assert (again.scaling.std == first.scaling.std).all()
    model = build_model("auto", again.shape, len(again.classes))
    assert model.parameter_shapes == run.strategy.model.parameter_shapes
