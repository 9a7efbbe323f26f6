"""What goes over the wire is counted as it is, and a device's report stays its own."""

from typing import Any

import pytest
from flwr.app import Message, MessageType, MetricRecord

from fedsub_core.metrics import MetricRow
from fedsub_core.wire import exchange

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..tampered_grid import Reply, Tamper

EVERYBODY = ("p1", "p2", "p3", "p4")
#: Parameters of the model of `people`: 4-128-512-3.
PARAMETERS = 128 * 5 + 512 * 129 + 3 * 513


def sizes(bundles: dict[tuple[int, str], Any]) -> dict[tuple[int, str], int]:
    return {key: bundle.size for key, bundle in bundles.items()}


def assert_around(flower: dict[tuple[int, str], float], sent: dict[tuple[int, str], int]) -> None:
    """Flower's message is a little larger than its payload."""
    assert flower.keys() == sent.keys()
    assert all(500 < flower[key] - size < 2000 for key, size in sent.items())


@pytest.mark.parametrize("name", ["fedsub", "fedavg", "local"])
def test_bytes_are_those_on_the_wire(people: MakePeople, run_method: RunMethod, name: str) -> None:
    run = run_method(people(), name, rounds=2)
    up, down = sizes(run.grid.uploads), sizes(run.grid.downloads)
    assert run.metric("bytes_up_sent") == up and run.metric("bytes_down_sent") == down
    assert sorted(up) == sorted(down) == [(r, c) for r in (1, 2) for c in EVERYBODY]
    assert_around(run.metric("bytes_up_flower"), up)
    assert_around(run.metric("bytes_down_flower"), down)
    assert set(run.metric("bytes_full_model").values()) == {4 * PARAMETERS}
    # Nothing was counted twice under one name.
    assert len({row[:4] for row in run.rows}) == len(run.rows)


def test_a_global_model_costs_as_much_to_test_as_to_train_and_is_counted_apart(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "fedavg", rounds=2, evaluate_every=2)
    assert run.grid.evaluated == [(2, EVERYBODY)]
    down, tested = run.metric("bytes_down_sent"), run.metric("bytes_evaluation_sent")
    assert sorted(tested) == [(2, client) for client in EVERYBODY]
    assert tested == sizes(run.grid.evaluations) == {key: down[key] for key in tested}
    assert all(4 * PARAMETERS < size < 4 * PARAMETERS + 1000 for size in tested.values())
    flower = run.metric("bytes_evaluation_flower")
    assert flower == {key: run.metric("bytes_down_flower")[key] for key in tested}
    # Training's downloads are one a round, however often the model is tested.
    assert down == sizes(run.grid.downloads) and len(down) == 8


def test_a_model_of_ones_own_is_tested_where_it_is_trained(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), rounds=2, evaluate_every=2)
    assert run.grid.evaluated == []
    assert not any(row.metric.startswith("bytes_evaluation") for row in run.rows)
    assert sorted(run.metric("macro_f1")) == [(2, client) for client in EVERYBODY]


def reporting(**values: Any) -> Tamper:
    """Let every device report more than it has to say."""

    def tamper(reply: Reply) -> Message:
        if reply.kind == MessageType.TRAIN:
            reply.message.content.setdefault(exchange.REPORT, MetricRecord())
            reply.message.content.metric_records[exchange.REPORT].update(values)
        return reply.message

    return tamper


def compared(run: FinishedRun, honest: FinishedRun) -> set[tuple[str, float]]:
    """Return metric and value of what only `run` says; its messages are larger, that is counted."""
    assert len({row[:4] for row in run.rows}) == len(run.rows)
    new: set[MetricRow] = set(run.rows) - set(honest.rows)
    return {(row.metric, row.value) for row in new if row.metric != "bytes_up_flower"}


FORGED = {
    name: 7.0
    for name in (
        "bytes_up_sent",
        "bytes_up_papers",
        "bytes_full_model",
        "bytes_down_sent",
        "macro_f1",
        "f1",
        "refused_replies",
        "clusters",
        "heat",
        "a name\n",
        "",
    )
}


@pytest.mark.parametrize("name", ["fedsub", "fedavg"])
def test_a_report_does_not_pass_for_what_the_server_measures(
    people: MakePeople, run_method: RunMethod, name: str
) -> None:
    run = run_method(people(), name, tamper=reporting(**FORGED))
    honest = run_method(people(), name)
    assert compared(run, honest) == set()
    assert run.metric("bytes_up_flower") != honest.metric("bytes_up_flower")


@pytest.mark.parametrize(
    ("name", "declared", "foreign"),
    [
        ("fedsub", {"training_loss", "epsilon"}, "alpha"),
        ("fedavg", {"training_loss"}, "epsilon"),
        ("apfl", {"alpha"}, "training_loss"),
    ],
)
def test_a_report_says_what_the_card_declares(
    people: MakePeople, run_method: RunMethod, name: str, declared: set[str], foreign: str
) -> None:
    told = dict.fromkeys([*declared, foreign], 2.5)
    run = run_method(people(), name, tamper=reporting(**told), rounds=1)
    honest = run_method(people(), name, rounds=1)
    assert compared(run, honest) == {(metric, 2.5) for metric in declared}
    for metric in declared:
        assert run.metric(metric) == {(1, client): 2.5 for client in EVERYBODY}
    assert run.metric(foreign) == {}


def test_a_list_is_no_number(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(people(), "fedavg", tamper=reporting(training_loss=[1.0, 2.0]), rounds=1)
    assert run.metric("training_loss") == {} and run.refusals == {}


def with_record(name: str, values: dict[str, float]) -> Tamper:
    """Give p1's upload a record."""

    def tamper(reply: Reply) -> Message:
        if reply.kind == MessageType.TRAIN and reply.client == "p1":
            reply.message.content[name] = MetricRecord(dict(values))
        return reply.message

    return tamper


@pytest.mark.parametrize(
    "tamper",
    [
        with_record("extra", {"a": 1.0}),
        with_record(exchange.REPORT, {f"k{i}": 1.0 for i in range(13_000)}),
        with_record(exchange.REPORT, {f"{i}" * 40_000: 1.0 for i in range(10, 30)}),
    ],
    ids=["another record", "many keys", "long keys"],
)
def test_records_that_are_none_of_ours_are_refused_before_they_are_looked_at(
    people: MakePeople, run_method: RunMethod, tamper: Tamper, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_method(people(), "fedavg", tamper=tamper, rounds=1)
    assert run.refusals == {"p1": 1}
    assert "client 'p1', round 1: records: got" in caplog.text and len(caplog.text) < 2000


def test_training_loss_is_reported_and_falls(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(people(), "fedavg", rounds=6, lr=0.05)
    losses = run.metric("training_loss")
    assert sorted(losses) == [(r, c) for r in range(1, 7) for c in EVERYBODY]
    assert all(losses[6, client] < 0.8 * losses[1, client] for client in EVERYBODY)
