"""The handshake: clients that do not fit together, or that answer nonsense."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest
from flwr.app import ConfigRecord, Error, Message, MessageType

from fedsub.testing.refusals import refused
from fedsub_core.capacity import WHOLE, Capacity
from fedsub_core.config.halves import ServerSettings
from fedsub_core.data.card import Card
from fedsub_core.data.sensors import Windows
from fedsub_core.data.watch import watch_federation
from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.models.kinds import build_model
from fedsub_core.wire import handshake
from fedsub_core.wire.handshake import MOST_FEATURES, MOST_NUMBERS, Facts, read_introduction
from strategies.methods.fedavg import FedAvgServer
from strategies.rounds.agreement import AGREED, Agreement
from strategies.rounds.strangers import _of_samples

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
        ("schema", "fedsub.v9", "with schema fedsub.v9, expected schema fedsub.v2, which fedsub "),
        (
            "version",
            "0.1 with mine 1",
            "got fedsub 0.1 with mine 1 with schema fedsub.v2, expected",
        ),
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
    with refused(RunError, "3 of at least 4", "0.3 s", "node 3"):
        run_method(people(), "local", tamper=tamper, rounds=1, min_clients=4)


def test_who_has_other_sensors_is_turned_away(
    run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    """What its statistics measure would be another thing than the others'."""
    watch = watch_federation()
    some = replace(watch, clients=dict(list(watch.clients.items())[:3]))
    tamper = introduced(saying("sensor_of", [0, 0, 0, 1, 1, -1]), "02")
    run = run_method(some, "fedsub-ridge", tamper=tamper, rounds=1, encoder="kernels:1+statistics")
    assert run.strategy.population.clients == ["01", "03"]
    got, expected = ([[0, 1, 2], [3, 4]], [[0, 1, 2], [3, 4, 5]])
    said = f"client '02': shape: got (6, 128) of sensors {got}, expected (6, 128) of sensors"
    assert f"{said} {expected}" in caplog.text


def test_whose_sensors_are_not_the_cards_is_turned_away() -> None:
    card = replace(CARD, sensors=((0, 1, 2),))
    said = {what: (got, wanted) for what, got, wanted in _of_samples((4, 20), card)}
    assert said["sensors"] == ((), ((0, 1, 2),))
    windows = Windows((4, 20), ((0, 1, 2),))
    for shape, own in ((windows, card), ((4,), card), ((4, 20), CARD)):
        assert all(got == wanted for _, got, wanted in _of_samples(shape, own))


LIE = saying("classes", ["class 0", "class 2", "class 1"])
CARD = Card("people", "a test", ("class 0", "class 1", "class 2"), ("a", "b", "c", "d"))


@pytest.mark.parametrize("liar", ["p1", "p2"])
def test_where_no_more_than_half_say_the_same_nobody_decides(
    people: MakePeople, run_method: RunMethod, liar: str
) -> None:
    """Whatever the ids are: the smaller one decided before."""
    with pytest.raises(RunError) as caught:
        run_method(people(((0, 1, 2),) * 2), "fedavg", tamper=introduced(LIE, liar), rounds=1)
    said = str(caught.value)
    assert "no more than half of 2 say the same" in said and "data=FOLDER" in said
    for client in ("p1", "p2"):
        order = "'class 0', 'class 2', 'class 1'" if client == liar else "'class 0', 'class 1'"
        assert f"{client!r}: classes ({order}" in said and "shape (4,)" in said


@pytest.mark.parametrize(
    ("lie", "liars"),
    [(LIE, ("p1",)), (LIE, ("p1", "p2", "p3")), (saying("shape", [4, 1]), ("p1",))],
    ids=["one", "three", "shape"],
)
def test_three_of_four_decide_whoever_they_are(
    people: MakePeople, run_method: RunMethod, lie: Change, liars: tuple[str, ...]
) -> None:
    run = run_method(people(), "local", tamper=introduced(lie, *liars), rounds=1)
    most = set(liars) if len(liars) > 2 else set(EVERYBODY) - set(liars)
    assert set(run.strategy.population.clients) == most


def features(record: ConfigRecord) -> None:
    """Say that there is one feature more."""
    record["shape"] = [5]
    for key in ("sum", "sumsq"):
        record[key] = [*cast(list[float], record[key]), 1.0]


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (LIE, "classes: got ('class 0', 'class 2', 'class 1'), expected ('class 0', 'class 1', "),
        (features, "features: got 5, expected 4 of the run's card (people)"),
    ],
    ids=["classes", "features"],
)
def test_the_operators_card_decides_against_any_majority(
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
    lie: Change,
    said: str,
) -> None:
    def with_card(settings: ServerSettings) -> FedAvgServer:
        return FedAvgServer(replace(settings, card=CARD))

    liars = introduced(lie, "p1", "p2", "p3")
    run = run_method(people(), "fedavg", tamper=liars, strategy=with_card, rounds=1)
    assert run.strategy.population.clients == ["p4"]
    assert f"client 'p1': {said}" in caplog.text


def test_what_is_too_large_is_refused_before_it_is_read(
    people: MakePeople, run_method: RunMethod
) -> None:
    """2^21 features kept a server busy for a minute. Here no number of them is looked at."""
    records: list[ConfigRecord] = []
    tamper = introduced(records.append, "p1")
    run_method(people(), "local", tamper=tamper, rounds=1)
    record = records[0]
    record["shape"], record["sum"] = [2**21], ["no number"] * 2**21
    with refused(MessageRefused, got=[2**21, MOST_FEATURES]):
        read_introduction(record)
    record["sum"] = [1.0] * 4
    with refused(MessageRefused, client="p1", what="shape", got="(2097152,)", expected="1 to 4"):
        read_introduction(record)


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
        ("shape", [4, MOST_NUMBERS]),
        ("sum", [1.0] * (MOST_FEATURES + 1)),
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
        client: Facts(sizes[client], Capacity(0.25) if client == "p2" else WHOLE)
        for client in EVERYBODY
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


@pytest.mark.parametrize(
    ("sums", "got"), [(None, 0), ([1.0] * 11, 11)], ids=["none", "of another encoder"]
)
def test_moments_of_other_features_than_the_encoders_leave_a_client_out(
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
    sums: list[float] | None,
    got: int,
) -> None:
    def change(record: ConfigRecord) -> None:
        for key in ("feature_sum", "feature_sumsq"):
            assert len(cast(list[float], record.pop(key))) == 12
            if sums is not None:
                record[key] = sums

    run = run_method(
        people(), "fedavg", tamper=introduced(change, "p2"), rounds=1, encoder="relu:8"
    )
    assert run.strategy.population.clients == ["p1", "p3", "p4"]
    assert f"client 'p2': got moments of {got} features, expected 12 of the run's" in caplog.text
    plain = run_method(people(), "fedavg", rounds=1)
    assert run.told("feature_mean").shape == (12,)
    assert plain.grid.instructions is not None and "feature_mean" not in plain.grid.instructions


def test_what_was_agreed_on_of_features_outlives_the_process(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "fedavg", rounds=1, encoder="relu:8")
    agreed = run.strategy.population.agreed
    again = Agreement.of(agreed.tensors())
    assert agreed.scaling is not None and agreed.scaling.features is not None
    assert again.scaling is not None and again.scaling.bits == agreed.scaling.bits
    # A run of before that goes on as it began.
    old = {name: t for name, t in agreed.tensors().items() if "features" not in name}
    before = Agreement.of(old).scaling
    assert before is not None and before.features is None


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
    with refused(RunError, "0 of at least 1", "4 connected"):
        run_method(people(), tamper=lambda reply: None)
    with refused(RunError, *(f"node {node}: error 1: asleep" for node in (1, 2))):
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
