"""The round loop: what is refused, what is counted, who takes part, what is measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Error, Message, MessageType

from fedsub_core.data.splits import unseen_clients
from fedsub_core.errors import RunError
from fedsub_core.wire import exchange

Change = Callable[[Any], Message | None]


def truncated(reply: Any) -> Message:
    payload = exchange.unpack(reply.message.content)
    return reply.with_payload(payload[: len(payload) // 2])  # type: ignore[no-any-return]


def earlier_round(reply: Any) -> Message:
    upload = reply.upload()
    upload.round -= 1
    return reply.with_payload(upload.SerializeToString())  # type: ignore[no-any-return]


def other_client(reply: Any) -> Message:
    upload = reply.upload()
    upload.client_id = "p1"
    return reply.with_payload(upload.SerializeToString())  # type: ignore[no-any-return]


def not_a_number(reply: Any) -> Message:
    upload = reply.upload()
    rows = np.frombuffer(upload.layers[0].rows, "<f4").copy()
    rows[3] = np.nan
    upload.layers[0].rows = rows.tobytes()
    return reply.with_payload(upload.SerializeToString())  # type: ignore[no-any-return]


def no_payload(reply: Any) -> Message:
    del reply.message.content[exchange.PAYLOAD]
    return reply.message  # type: ignore[no-any-return]


def failed(reply: Any) -> Message:
    return Message(Error(1, "battery is empty"), reply_to=reply.asked)


def silent(reply: Any) -> None:
    return None


def of_client(client: str, round: int, change: Change) -> Change:
    """Return `change` for one client's upload of one round; other replies pass as they are."""

    def tamper(reply: Any) -> Message | None:
        mine = (reply.kind, reply.client, reply.round) == (MessageType.TRAIN, client, round)
        return change(reply) if mine else reply.message

    return tamper


def assert_equal_states(a: list[dict[str, torch.Tensor]], b: list[dict[str, torch.Tensor]]) -> None:
    assert len(a) == len(b) > 0
    for one, other in zip(a, b, strict=True):
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize("round", [1, 2])
@pytest.mark.parametrize(
    "change", [truncated, earlier_round, other_client, not_a_number, no_payload, failed]
)
def test_a_bad_upload_counts_as_no_answer(
    people: Any, play: Any, change: Change, round: int
) -> None:
    bad = play(people(), tamper=of_client("p2", round, change), rounds=3)
    absent = play(people(), tamper=of_client("p2", round, silent), rounds=3)
    fine = play(people(), rounds=3)
    assert bad.strategy.mail.refusals == {"p2": 1} and absent.strategy.mail.refusals == {}
    assert_equal_states(bad.states, absent.states)
    assert bad.metric("refused_replies") == absent.metric("missing_replies") == {(round, "p2"): 1}
    # Only who said nothing at all is asked again how its model does.
    failures = ("refused_replies", "missing_replies", "bytes_down_sent", "bytes_down_flower")
    kept, theirs = ({r for r in p.rows if r.metric not in failures} for p in (bad, absent))
    assert kept == theirs
    assert bad.client_states().keys() == fine.client_states().keys()
    # The upload would have changed the cache, so its loss must show.
    without, with_it = bad.states[round - 1], fine.states[round - 1]
    assert not all(torch.equal(tensor, with_it[name]) for name, tensor in without.items())
    assert (round, "p2") not in bad.metric("bytes_up_sent")
    # What the client did was not lost: it is evaluated, and answers in the next round.
    assert (round, "p2") in bad.metric("macro_f1")
    if round < 3:
        assert (round + 1, "p2") in bad.metric("bytes_up_sent")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("macro_f1", 1.5),
        ("accuracy", float("nan")),
        ("examples", 0.0),
        ("examples", float("inf")),
        ("examples", float("nan")),
        ("f1.3", 0.5),
        ("f1.-1", 0.5),
        ("f1.99999999999999999999", 0.5),
        ("f1.walk", 0.5),
        ("loss", [1.0, 2.0]),
    ],
)
def test_a_bad_evaluation_is_counted_and_left_out(
    people: Any, play: Any, key: str, value: Any
) -> None:
    def tamper(reply: Any) -> Message:
        if reply.kind == MessageType.EVALUATE and reply.client == "p3":
            reply.message.content.metric_records[exchange.METRICS][key] = value
        return reply.message  # type: ignore[no-any-return]

    played = play(people(), "fedavg", tamper=tamper)
    assert played.strategy.mail.refusals == {"p3": 2}
    assert sorted(played.metric("macro_f1")) == [(r, f"p{i}") for r in (1, 2) for i in (1, 2, 4)]


def test_a_report_does_not_pass_for_a_metric(people: Any, play: Any) -> None:
    def tamper(reply: Any) -> Message:
        if reply.kind == MessageType.TRAIN:
            metrics = reply.message.content.metric_records[exchange.METRICS]
            names = ("macro_f1", "f1", "bytes_up_sent", "bytes_down_sent", "a name\n", "", "heat")
            metrics.update({f"report.{name}": 7.0 for name in names})
        return reply.message  # type: ignore[no-any-return]

    played, honest = play(people(), tamper=tamper), play(people())
    # Its message is larger, and is counted as it is.
    reported = {r for r in set(played.rows) - set(honest.rows) if r.metric != "bytes_up_flower"}
    assert {row.metric for row in reported} == {"heat"} and len(reported) == 8
    assert len({row[:4] for row in played.rows}) == len(played.rows)


@pytest.mark.parametrize("name", ["fedsub", "fedavg", "local"])
def test_a_round_without_any_usable_upload_ends_the_run(people: Any, play: Any, name: str) -> None:
    with pytest.raises(RunError, match=r"round 1: 0 of 4 clients sent a usable upload.*'p1': 1"):
        play(people(), name, tamper=lambda r: truncated(r) if r.kind == "train" else r.message)


def test_clients_are_drawn_by_seed_and_round_alone(people: Any, play: Any) -> None:
    def drawn(seed: int) -> list[tuple[str, ...]]:
        keys = {"clients_per_round": 2, "rounds": 12, "seed": seed}
        trained = play(people(((0, 1, 2),) * 5, samples=6), "local", **keys).grid.trained
        assert [round for round, _ in trained] == list(range(1, 13))
        return [clients for _, clients in trained]

    first = drawn(1)
    assert first == drawn(1) and first != drawn(2)
    assert all(len(set(c)) == 2 and list(c) == sorted(c) for c in first)
    assert {client for c in first for client in c} == {f"p{i}" for i in range(1, 6)}
    assert len(set(first)) > 3


def test_a_client_that_is_not_drawn_keeps_its_model(people: Any, play: Any) -> None:
    keys = {"clients_per_round": 1, "rounds": 1}
    played = play(people(), "local", **keys)
    (_, drawn), *_ = played.grid.trained
    model = played.strategy.federation.model
    start = model.init(1, 0)["linear1.weight"][0]
    for group, tensors in played.client_states().items():
        trained = not torch.equal(tensors["linear1.weight"], start)
        assert trained == (group == f"client/{drawn[0]}")
    assert len(played.metric("macro_f1")) == 4


def test_unseen_people_join_in_the_last_rounds(people: Any, play: Any) -> None:
    keys = {"split": "unseen", "unseen_share": 0.4, "unseen_rounds": 2, "rounds": 5}
    played = play(people(((0, 1, 2),) * 5), "fedavg", **keys)
    everybody = [f"p{i}" for i in range(1, 6)]
    unseen = unseen_clients(everybody, 0.4, 0)
    assert len(unseen) == 2
    seen = tuple(c for c in everybody if c not in unseen)
    assert played.grid.trained == [(r, seen if r <= 3 else tuple(everybody)) for r in range(1, 6)]
    assert played.grid.evaluated == [(r, seen if r <= 3 else unseen) for r in range(1, 6)]
    # Nor do they shape the standardisation that they are tested with.
    sizes = {c.client: c for cohort in played.grid.grid.cohorts for c in cohort.clients}
    x = np.concatenate([sizes[c].train_x for c in seen]).astype(np.float64)
    mean = np.frombuffer(played.grid.scaling["mean"], "<f4")
    np.testing.assert_allclose(mean, x.mean(0), rtol=1e-6)


def test_pooled_standardisation_is_that_of_all_training_samples(people: Any, play: Any) -> None:
    played = play(people(), "local", rounds=1)
    clients = [c for cohort in played.grid.grid.cohorts for c in cohort.clients]
    assert len(clients) == 4 and all(len(c.test_x) for c in clients)
    x = np.concatenate([c.train_x for c in clients]).astype(np.float64)
    for key, value in (("mean", x.mean(0)), ("std", x.std(0))):
        sent = np.frombuffer(played.grid.scaling[key], "<f4")
        np.testing.assert_allclose(sent, value, rtol=1e-6, atol=1e-7)
    for mode in ("client", "none"):
        assert "mean" not in play(people(), "local", rounds=1, standardise=mode).grid.scaling


def test_bytes_are_those_on_the_wire(people: Any, play: Any) -> None:
    played = play(people(), rounds=2, evaluate_every=2)
    wire = {key: len(upload.SerializeToString()) for key, upload in played.grid.uploads.items()}
    assert played.metric("bytes_up_sent") == wire and len(wire) == 8
    full = 4 * (128 * 5 + 512 * 129 + 3 * 513)
    assert set(played.metric("bytes_full_model").values()) == {full}
    for key, upload in played.grid.uploads.items():
        union = sum(len(layer.rows) for layer in upload.layers)
        assert played.metric("bytes_up_union")[key] == union < wire[key]
        rows = {layer.layer: layer for layer in upload.layers}
        papers = sum(
            np.unpackbits(np.frombuffer(mask.units, np.uint8)).sum()
            * (len(rows[mask.layer].rows) // _units(rows[mask.layer]))
            for artifact in upload.classes
            for mask in artifact.masks
        )
        assert played.metric("bytes_up_papers")[key] == papers > union
    down = played.metric("bytes_down_sent")
    first = {key: len(d.SerializeToString()) for key, d in played.grid.downloads.items()}
    # A model of one's own is evaluated where it is trained, without an order of its own.
    assert down == first and len(down) == 8
    assert played.grid.evaluated == []
    assert sorted(played.metric("macro_f1")) == [(2, f"p{i}") for i in range(1, 5)]


def test_a_global_model_is_evaluated_with_an_order_of_its_own(people: Any, play: Any) -> None:
    played = play(people(), "fedavg", rounds=2, evaluate_every=2)
    assert played.grid.evaluated == [(2, ("p1", "p2", "p3", "p4"))]
    down = played.metric("bytes_down_sent")
    assert down[2, "p1"] > 1.9 * len(played.grid.downloads[2, "p1"].SerializeToString())


def _units(layer: Any) -> int:
    return int(np.unpackbits(np.frombuffer(layer.units, np.uint8)).sum())
