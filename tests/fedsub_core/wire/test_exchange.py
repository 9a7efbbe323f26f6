"""What stands beside a payload: read back as it was written, refused where it cannot be used."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedsub.testing.refusals import refused
from fedsub_core.capacity import Capacity
from fedsub_core.data.samples import Tokens
from fedsub_core.data.standardise import Scaling, moments
from fedsub_core.errors import MessageRefused
from fedsub_core.metric_names import OWN_HEADS
from fedsub_core.metrics import ClientMetrics
from fedsub_core.paired import Gain
from fedsub_core.turn import Turn
from fedsub_core.version import VERSION
from fedsub_core.wire import exchange, metric_record
from fedsub_core.wire.daily_hours import DailyHours, heard
from fedsub_core.wire.exchange import Instructions, read_instructions
from fedsub_core.wire.greeting import check_given, check_settings, check_versions, greeting
from fedsub_core.wire.handshake import Facts, Introduction, read_introduction

SCALING = Scaling(np.array([1, -2.5], np.float32), np.array([0.5, 3], np.float32))
METRICS = ClientMetrics(0.5, 0.6, 0.7, 1.25, {0: 0.25, 3: 1.0}, 9)
CONFUSION = [0, 0, 4, 0, 3, 1, 3, 3, 4]


def test_a_payload_is_carried_byte_for_byte() -> None:
    for payload in (b"", b"\0\xff", bytes(range(256)) * 9):
        content = RecordDict({exchange.PAYLOAD: exchange.pack(payload)})
        assert exchange.unpack(content) == payload


def test_what_is_no_payload_of_ours_is_named() -> None:
    other = ArrayRecord()
    other[exchange.PAYLOAD] = Array("uint8", (1,), "fedsub.v1", b"x")
    for content in (
        RecordDict(),
        RecordDict({"arrays": exchange.pack(b"x")}),
        RecordDict({exchange.PAYLOAD: ArrayRecord()}),
        RecordDict({exchange.PAYLOAD: other}),
    ):
        with pytest.raises(ValueError, match=r"no fedsub\.v2 payload among the records"):
            exchange.unpack(content)


def test_of_names_of_records_that_are_no_payload_little_is_quoted() -> None:
    content = RecordDict()
    for i in range(100):
        content[f"{'name ' * 100}{i}"] = ConfigRecord({"i": i})
    with pytest.raises(ValueError, match="characters") as caught:
        exchange.unpack(content)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("scaling", [None, SCALING])
@pytest.mark.parametrize(("run", "also"), [("", False), ("a run", True)])
def test_instructions_are_read_as_they_were_written(
    scaling: Scaling | None, run: str, also: bool
) -> None:
    told = Instructions(Turn(3, 10, 2**63 - 1), "fedavg", scaling, run, also)
    got = read_instructions(told.record())
    assert (got.turn, got.method, got.run, got.also_evaluate) == (told.turn, "fedavg", run, also)
    if scaling is None:
        assert got.scaling is None
    else:
        assert got.scaling is not None
        np.testing.assert_array_equal(got.scaling.mean, scaling.mean)
        np.testing.assert_array_equal(got.scaling.std, scaling.std)


@pytest.mark.parametrize("key", ["round", "rounds", "seed", "method", "std"])
def test_instructions_that_lack_a_value_are_of_another_language(key: str) -> None:
    record = Instructions(Turn(3, 10, 0), "fedavg", SCALING).record()
    less = {name: value for name, value in record.items() if name != key}
    with pytest.raises(ValueError, match=f"record 'turn': got no '{key}'"):
        read_instructions(less)


def test_metrics_are_read_as_they_were_written() -> None:
    record = metric_record.metric_values(METRICS)
    assert metric_record.read_metrics(record, "ann", 3, classes=4) == METRICS
    gained = replace(
        METRICS, gain=Gain(0.1, -0.2, 0.3), class_means={"f1_unlabelled": 0.2, "f1_new": 0.7}
    )
    chosen = replace(METRICS, best_round=2, validation_macro_f1=0.4)
    counted = replace(METRICS, confusion={(3, 3): 4, (0, 3): 1, (0, 0): 4})
    assert metric_record.metric_values(counted)["confusion"] == CONFUSION
    own = dict(zip(OWN_HEADS, (0.9, 0.8, 0.1), strict=True))
    solved = replace(METRICS, own_heads=own)
    for metrics in (gained, chosen, counted, solved, replace(METRICS, best_round=3)):
        record = metric_record.metric_values(metrics)
        assert metric_record.read_metrics(record, "ann", 3, classes=4) == metrics


def test_a_loss_that_is_not_finite_is_kept_since_a_diverged_model_must_show() -> None:
    record = metric_record.metric_values(METRICS)
    record["loss"] = float("inf")
    assert metric_record.read_metrics(record, "ann", 3, classes=4).loss == float("inf")


@pytest.mark.parametrize(
    "change",
    [
        {"macro_f1": 1.01},
        {"weighted_f1": -0.1},
        {"accuracy": float("nan")},
        {"f1.0": 2.0},
        {"gain_over_own": 0.1},
        {"f1_unlabelled": 1.2},
        {"f1_new": float("nan")},
        {"gain_over_own": 0.1, "gain_over_own_low": -1.5, "gain_over_own_high": 0.5},
        {"own_heads_macro_f1": 0.9},
        {"own_heads_macro_f1": 1.1, "own_heads_weighted_f1": 0.8, "own_heads_loss": 0.1},
        {"own_heads_macro_f1": 0.9, "own_heads_weighted_f1": 0.8, "own_heads_loss": -0.1},
        {"own_heads_macro_f1": 0.9, "own_heads_weighted_f1": 0.8, "own_heads_loss": float("inf")},
        {"best_round": 0.0},
        {"best_round": 4.0},
        {"best_round": 1.5},
        {"best_round": 2.0, "validation_macro_f1": 1.1},
        {"f1.4": 0.5},
        {"f1.-1": 0.5},
        {"f1.x": 0.5},
        {"examples": 0.0},
        {"examples": 2.0**53},
        {"accuracy": [0.5]},
        {"loss": None},
    ],
)
def test_metrics_out_of_range_are_refused(change: dict[str, Any]) -> None:
    values = {**metric_record.metric_values(METRICS), **change}
    record = MetricRecord({name: value for name, value in values.items() if value is not None})
    with pytest.raises(MessageRefused, match="client 'ann', round 3: metrics: got"):
        metric_record.read_metrics(record, "ann", 3, classes=4)


@pytest.mark.parametrize(
    "listed",
    [
        [],
        CONFUSION[:-1],
        [0, 0, 4, 0, 4, 1, 3, 3, 4],
        [0, 0, 4, -1, 3, 1, 3, 3, 4],
        [0, 0, 4, 0, 0, 5],
        [0, 0, 10, 0, 3, -1],
        [0, 0, 4, 0, 3, 1, 3, 3, 2**40],
        [0, 0, 4, 0, 3, 0, 3, 3, 5],
        [0, 0, 1] * 17,
        [0.5, 0.0, 9.0],
        9.0,
    ],
)
def test_counts_by_class_that_cannot_be_are_refused(listed: Any) -> None:
    record = MetricRecord({**metric_record.metric_values(METRICS), "confusion": listed})
    with pytest.raises(MessageRefused, match="client 'ann', round 3: confusion: got"):
        metric_record.read_metrics(record, "ann", 3, classes=4)


def test_of_a_report_only_what_the_method_declares_is_taken() -> None:
    said = {"training_loss": 0.5, "macro_f1": 1.0, "bytes_up_sent": 0, "alpha": [0.5]}
    content = RecordDict({exchange.REPORT: MetricRecord(said)})  # type: ignore[arg-type]
    assert exchange.read_report(content, ("training_loss", "alpha")) == {"training_loss": 0.5}
    assert exchange.read_report(RecordDict(), ("training_loss",)) == {}


# The handshake.


def introduction(client: str = "ann", capacity: float = 0.5, nodes: int = 0) -> Introduction:
    x = np.array([[1, 2], [3, 5]], np.float32)
    facts = Facts(2, Capacity(capacity))
    return Introduction(client, VERSION, ("sit", "run"), (2,), facts, moments(x), nodes, nodes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"vocabulary": 1}, "expected (length,), 2 to 1048576"),
        ({"padding": 9}, "and one of these ids"),
        ({"shape": [2, 2]}, "expected (length,)"),
        ({"sum": [1.0], "sumsq": [1.0]}, "expected one per feature of (2,) of token ids below 9"),
        ({"count": 3}, "expected 2: 2 samples of (2,) of token ids"),
    ],
)
def test_introductions_of_no_texts_are_refused(change: dict[str, Any], said: str) -> None:
    ids = moments(np.ones((2, 2), np.int32))
    told = replace(introduction(), shape=Tokens((2,), 9, 0), moments=ids)
    assert read_introduction(told.record()).shape == told.shape
    with pytest.raises(MessageRefused, match="client 'ann', round 0") as caught:
        read_introduction(ConfigRecord({**told.record(), **change}))
    assert said in str(caught.value)


def test_moments_of_features_are_read_as_they_were_written() -> None:
    features = np.array([[0.5, -1, 0], [0.25, 1, 0]], np.float32)
    got = read_introduction(replace(introduction(), features=moments(features)).record()).features
    assert got is not None and got.count == 2
    assert (got.sum.tolist(), got.sumsq.tolist()) == ([0.75, 0, 0], [0.3125, 2, 0])
    assert read_introduction(introduction().record()).features is None


@pytest.mark.parametrize(
    ("sums", "squares"),
    [
        ([0.5], [0.5, 0.5]),
        ([0.5], [2.5]),
        ([2.0], [1.9]),
        ([float("nan")], [1.0]),
        ([0.0], [float("nan")]),
        ([0.0], [-0.5]),
        ([float("inf")], [float("inf")]),
    ],
)
def test_sums_of_no_features_are_refused(sums: list[float], squares: list[float]) -> None:
    told = {"feature_sum": sums, "feature_sumsq": squares}
    with pytest.raises(MessageRefused, match="client 'ann', round 0: features: got"):
        read_introduction(ConfigRecord({**introduction().record(), **told}))


def test_hours_are_by_the_clock_of_who_hears_them() -> None:
    """From 60 s on for an hour, each day; heard at 1000 s. One that says none is there always."""
    said = replace(introduction(), facts=Facts(2, hours=DailyHours(60, 3600)))
    got = heard(read_introduction(said.record()), 1000.0).facts.hours
    assert got is not None
    moments = (1000.0, 1060.0, 4659.0, 4660.0, 86_400.0 + 1061.0)
    assert [got.left(now) for now in moments] == [0, 3600, 1, 0, 3599]
    assert read_introduction(introduction().record()).facts.hours is None


@pytest.mark.parametrize(
    "said", [[60], [60, 0], [-1, 60], [0, 86_401], [0.0, 60.0], [True, True], "9-17"]
)
def test_hours_of_no_day_are_refused(said: Any) -> None:
    with pytest.raises(MessageRefused, match="client 'ann', round 0"):
        read_introduction(ConfigRecord({**introduction().record(), "hours": said}))


@pytest.mark.parametrize("nodes", [0, 4])
def test_an_introduction_is_read_as_it_was_written(nodes: int) -> None:
    said = introduction(nodes=nodes)
    got = read_introduction(said.record())
    assert got.moments.count == 2
    assert (got.moments.sum.tolist(), got.moments.sumsq.tolist()) == ([4, 7], [10, 29])
    for name in ("client", "version", "classes", "shape", "facts", "people", "nodes"):
        assert getattr(got, name) == getattr(said, name)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"client": "../ann"}, r"client id: got '\.\./ann'"),
        ({"client": "a/b"}, "client id"),
        ({"capacity": 0.0}, r"capacity: got 0\.0, expected a share in \(0, 1\]"),
        ({"capacity": 1.5}, r"capacity: got 1\.5"),
        ({"capacity": float("nan")}, "capacity: got nan"),
        ({"sum": [1.0]}, "moments: got .* expected one per feature"),
        ({"sumsq": [1.0, float("inf")]}, "moments: got NaN or infinite"),
        ({"shape": list[int]()}, r"shape: got \(\), expected 1 to 4 axes"),
        ({"shape": [3]}, "moments: got .* expected one per feature"),
    ],
)
def test_introductions_that_cannot_be_used_are_refused(
    change: dict[str, Any], complaint: str
) -> None:
    record = ConfigRecord({**introduction().record(), **change})
    with pytest.raises(MessageRefused, match=complaint):
        read_introduction(record)


def test_both_sides_take_another_version_that_speaks_this_wire() -> None:
    for ours in (greeting(), introduction().record()):
        for version in (VERSION, "0.0.1", "99.1+local", "0+source", "a fork"):
            check_versions(ConfigRecord({**ours, "version": version}), "ann")


@pytest.mark.parametrize("schema", ["another", "fedsub.v1", "fedsub.v3", "fedsub.v2 ", "", "none"])
def test_both_sides_refuse_a_wire_that_they_do_not_know(schema: str) -> None:
    said = introduction().record()
    for record in (ConfigRecord({**said, "schema": schema}), greeting()):
        if "wires" in record:
            record["wires"], record["schema"] = [1, 3], schema
        expected = f"versions: got .*{schema}, expected schema fedsub.v2, which fedsub {VERSION}"
        with pytest.raises(MessageRefused, match=expected):
            check_versions(record, "ann")
    less = ConfigRecord({name: value for name, value in said.items() if name != "schema"})
    with pytest.raises(MessageRefused, match=r"versions: got .*none"):
        check_versions(less, "ann")


def test_a_server_of_a_later_wire_that_knows_this_one_too_is_taken() -> None:
    record = ConfigRecord({**greeting(), "schema": "fedsub.v3", "wires": [2, 3]})
    check_versions(record, "ann")


def test_keys_that_a_device_does_not_know_are_refused_where_the_run_gives_them() -> None:
    told = greeting(VERSION, ("lr", "warmth", "depth"))
    check_given(told, "ann", ())
    check_given(told, "ann", ("mood",))
    with refused(MessageRefused, client="ann", what="run config", got="depth, warmth"):
        check_given(told, "ann", ("warmth", "mood", "depth"))
    del told["given"]  # a server that does not say it may mean each of them
    with pytest.raises(MessageRefused, match=r"run config: got mood, expected"):
        check_given(told, "ann", ("mood",))


def test_settings_that_are_not_the_apps_are_refused_by_their_names() -> None:
    config: Any = {"lr": 0.1, "epochs": 2, "encoder": "relu:8"}
    check_settings(ConfigRecord({**config, exchange.SALT: b"x"}), "ann", config)
    for told, keys in (
        ({**config, "lr": 0.2, "epochs": 3}, "epochs, lr"),
        ({**config, "warmth": 1}, "warmth"),
        ({key: config[key] for key in ("lr", "epochs")}, "encoder"),
    ):
        with refused(MessageRefused, client="ann", what="settings", got=f"others: {keys}"):
            check_settings(ConfigRecord(told), "ann", config)


@pytest.mark.parametrize("version", ["1\x1b[2J", "1\n2"])
def test_a_version_that_does_things_to_a_terminal_is_refused(version: str) -> None:
    with pytest.raises(MessageRefused, match="expected printable words"):
        read_introduction(ConfigRecord({**introduction().record(), "version": version}))
