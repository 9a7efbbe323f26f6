"""The round loop: what is refused, who still counts, when a run ends, what it standardises by."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Error, Message, MessageType
from torch import Tensor

from fedsub.testing.cover import turns
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError
from fedsub_core.wire import exchange

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..tampered_grid import Reply, Tamper

Change = Callable[[Reply], Message | None]


def truncated(reply: Reply) -> Message:
    payload = exchange.unpack(reply.message.content)
    return reply.with_payload(payload[: len(payload) // 2])


def earlier_round(reply: Reply) -> Message:
    upload = reply.bundle().message
    upload.round -= 1
    return reply.with_bundle(upload)


def other_client(reply: Reply) -> Message:
    upload = reply.bundle().message
    upload.client_id = "p1"
    return reply.with_bundle(upload)


def not_a_number(reply: Reply) -> Message:
    upload = reply.bundle()
    layer = upload.tensor("linear1")
    rows = np.frombuffer(layer.values, "<f4").copy()
    rows[3] = np.nan
    layer.values = rows.tobytes()
    return reply.with_bundle(upload.message)


def no_score(reply: Reply) -> Message:
    """What the card declares and what the method demands are both checked."""
    upload = reply.bundle()
    upload.tensor("scores").values = np.full(3, -1, "<f4").tobytes()
    return reply.with_bundle(upload.message)


def no_payload(reply: Reply) -> Message:
    del reply.message.content[exchange.PAYLOAD]
    return reply.message


def failed(reply: Reply) -> Message:
    return Message(Error(1, "battery is empty"), reply_to=reply.asked)


def silent(reply: Reply) -> None:
    return None


def of_client(client: str, round: int, change: Change) -> Tamper:
    """Return `change` for one client's upload of one round; other replies pass as they are."""

    def tamper(reply: Reply) -> Message | None:
        mine = (reply.kind, reply.client, reply.round) == (MessageType.TRAIN, client, round)
        return change(reply) if mine else reply.message

    return tamper


def assert_equal_states(a: list[dict[str, Tensor]], b: list[dict[str, Tensor]]) -> None:
    assert len(a) == len(b) > 0
    for one, other in zip(a, b, strict=True):
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name]), name


@pytest.fixture(scope="module")
def without(people: MakePeople, run_once: RunMethod) -> Callable[[int], FinishedRun]:
    """What p2's silence in a round gives, in round 0 nobody's."""
    return cache(lambda round: run_once(people(), tamper=of_client("p2", round, silent), rounds=3))


@pytest.mark.parametrize(
    ("change", "round"),
    turns(
        [truncated, earlier_round, other_client, not_a_number, no_score, no_payload, failed], [1, 2]
    ),
)
def test_a_bad_upload_counts_as_no_answer(
    people: MakePeople,
    run_method: RunMethod,
    without: Callable[[int], FinishedRun],
    change: Change,
    round: int,
) -> None:
    bad = run_method(people(), tamper=of_client("p2", round, change), rounds=3)
    absent, fine = without(round), without(0)
    assert bad.refusals == {"p2": 1} and absent.refusals == {}
    assert_equal_states(bad.states, absent.states)
    assert bad.metric("refused_replies") == absent.metric("missing_replies") == {(round, "p2"): 1}
    # Who is refused is tested, too, and counts in everybody's confusion matrix.
    kept, theirs = (
        {r for r in run.rows if r.client and (r.round, r.client) != (round, "p2")}
        for run in (bad, absent)
    )
    assert kept == theirs
    # Who said why it failed is asked again how its model does; who said nothing at all is not.
    assert (round, "p2") in bad.metric("loss") and (round, "p2") not in absent.metric("loss")
    for run, again in ((bad, change is failed), (absent, False), (fine, False)):
        assert set(run.metric("bytes_evaluation_sent")) == ({(round, "p2")} if again else set())
    assert bad.client_states().keys() == fine.client_states().keys()
    # The upload would have changed the cache, so its loss must show.
    less, with_it = bad.states[round - 1], fine.states[round - 1]
    assert not all(torch.equal(tensor, with_it[name]) for name, tensor in less.items())
    assert (round, "p2") not in bad.metric("bytes_up_sent")
    assert (round, "p2") not in bad.metric("training_loss")
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
    people: MakePeople, run_method: RunMethod, key: str, value: Any
) -> None:
    def tamper(reply: Reply) -> Message:
        if reply.kind == MessageType.EVALUATE and reply.client == "p3":
            reply.message.content.metric_records[exchange.METRICS][key] = value
        return reply.message

    run = run_method(people(), "fedavg", tamper=tamper)
    assert run.refusals == {"p3": 2}
    assert sorted(run.metric("macro_f1")) == [(r, f"p{i}") for r in (1, 2) for i in (1, 2, 4)]


@pytest.mark.parametrize("name", ["fedsub", "fedavg", "local"])
def test_a_round_without_any_usable_upload_ends_the_run(
    people: MakePeople, run_method: RunMethod, name: str
) -> None:
    with refused(RunError, "round 1", "0 of 4 clients", "'p1': 1"):
        run_method(
            people(), name, tamper=lambda r: truncated(r) if r.kind == "train" else r.message
        )


def test_training_that_diverges_is_said_as_that(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    """Not as devices that misbehave, one line each; the error names the rate, too."""
    ends = r"1: 0 of 4 clients sent.*So ends training that diverged.*: lower lr \(1e\+09\)\. A dev"
    with pytest.raises(RunError, match=ends), caplog.at_level("WARNING"):
        run_method(people(), "fedavg", lr=1e9)
    said = [line.getMessage() for line in caplog.records if "round 1" in line.getMessage()]
    assert len(said) == 1 and said[0].startswith("round 1: 4 of 4 uploads are not used, for NaN")


@pytest.mark.parametrize(("quorum", "lost", "ends"), [(0.5, 2, False), (0.51, 2, True)])
def test_a_round_needs_its_share_of_uploads(
    people: MakePeople, run_method: RunMethod, quorum: float, lost: int, ends: bool
) -> None:
    """Two of four are half of them."""
    silent_ones = [f"p{i + 1}" for i in range(lost)]

    def tamper(reply: Reply) -> Message | None:
        lost = reply.kind == MessageType.TRAIN and reply.client in silent_ones
        return None if lost else reply.message

    if ends:
        with refused(RunError, "round 1", "2 of 4 clients", expected=3):
            run_method(people(), "fedavg", tamper=tamper, rounds=1, quorum=quorum)
    else:
        run = run_method(people(), "fedavg", tamper=tamper, rounds=1, quorum=quorum)
        assert run.strategy.finished_rounds == 1


def test_pooled_standardisation_is_that_of_all_training_samples(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), "local", rounds=1, standardise="federation")
    assert len(run.clients) == 4 and all(len(c.test_x) for c in run.clients)
    x = np.concatenate([c.train_x for c in run.clients]).astype(np.float64)
    for key, value in (("mean", x.mean(0)), ("std", x.std(0))):
        np.testing.assert_allclose(run.told(key), value, rtol=1e-6, atol=1e-7)
    for mode in ("client", "none"):
        told = run_method(people(), "local", rounds=1, standardise=mode).grid.instructions
        assert told is not None and "mean" not in told and "round" in told
