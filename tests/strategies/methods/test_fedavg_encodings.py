"""FedAvg over narrow links: smaller messages, the same model up to rounding, lost references."""

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from torch import Tensor

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..tampered_grid import Reply

KEYS = {"rounds": 6, "lr": 0.05}
DELTA = {"upload_encoding": "delta", "download_encoding": "delta"}
EVERYBODY = ("p1", "p2", "p3", "p4")


def both_ways(encoding: str) -> dict[str, str]:
    return {"upload_encoding": encoding, "download_encoding": encoding}


def squares(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Return the sum of squared differences of two models."""
    return sum(float((a[name] - b[name]).double().square().sum()) for name in a)


def model(run: FinishedRun) -> dict[str, Tensor]:
    return {k: t for k, t in run.states[-1].items() if not k.startswith("reference/")}


def mean_loss(run: FinishedRun) -> float:
    return float(np.mean([v for (r, _), v in run.metric("loss").items() if r == KEYS["rounds"]]))


def bytes_of(run: FinishedRun, metric: str) -> float:
    return sum(run.metric(metric).values())


@pytest.mark.parametrize(("encoding", "rounding"), [("int8", 0.05), ("delta,int8,zstd", 0.01)])
def test_a_byte_a_number_learns_the_same_in_a_quarter_of_the_bytes(
    people: MakePeople, run_method: RunMethod, encoding: str, rounding: float
) -> None:
    """Differences have a smaller range than numbers, so that their 256 steps are finer."""
    federation = people()
    # A bound for few people cuts by a hair more here, a hair less there.
    keys = KEYS | {"robust": "none"}
    plain = run_method(federation, "fedavg", **keys)
    coded = run_method(federation, "fedavg", **keys, **both_ways(encoding))
    assert coded.refusals == {}
    start = {name: t[0] for name, t in plain.strategy.model.init(1, 0).items()}
    exact, near = model(plain), model(coded)
    assert exact.keys() == near.keys()
    off, moved = squares(near, exact), squares(start, exact)
    assert 0 < off < rounding * moved, "rounded, but near in comparison with what was learned"
    # It learned: the loss fell by far more than the two runs differ.
    first = np.mean([v for (r, _), v in plain.metric("loss").items() if r == 1])
    assert mean_loss(plain) < 0.8 * first
    assert mean_loss(coded) == pytest.approx(mean_loss(plain), abs=0.005)
    for metric in ("bytes_up_sent", "bytes_down_sent", "bytes_evaluation_sent"):
        assert 0.25 < bytes_of(coded, metric) / bytes_of(plain, metric) < 0.28


def test_the_bytes_of_int8_by_hand(people: MakePeople, run_method: RunMethod) -> None:
    """A byte a number, and 8 for the scale and offset of each row; a bias is one row."""
    run = run_method(people(), "fedavg", rounds=1, **both_ways("int8"))
    weights = 4 * 128 + 8 * 128, 128 * 512 + 8 * 512, 512 * 3 + 8 * 3
    biases = 128 + 8, 512 + 8, 3 + 8
    numbers = sum(weights) + sum(biases)
    for metric in ("bytes_up_sent", "bytes_down_sent", "bytes_evaluation_sent"):
        assert all(numbers < size < numbers + 300 for size in run.metric(metric).values())


def test_differences_are_smaller_than_numbers(people: MakePeople, run_method: RunMethod) -> None:
    """What changed little compresses: once a reference is there, zstd earns its place."""
    federation = people()
    plain, coded = (
        run_method(federation, "fedavg", **KEYS, **both_ways(encoding))
        for encoding in ("int8", "delta,int8,zstd")
    )
    for metric in ("bytes_up_sent", "bytes_down_sent"):
        assert bytes_of(coded, metric) < bytes_of(plain, metric)
    message = coded.grid.downloads[6, "p1"].message
    assert message.differences and message.reference == 5


def lose_reference(client: str, round: int, run: FinishedRun) -> None:
    """Let a device forget what the server holds of it, as one that starts anew does."""
    for cohort in run.grid.grid.cohorts:
        for one, reference in zip(cohort.clients, cohort.references, strict=True):
            if one.client == client and reference is not None:
                assert reference.round == round
                reference.forget()


@pytest.mark.parametrize("encoding", ["delta", "delta,int8,zstd"])
def test_a_device_that_lost_its_reference_sits_out_a_round_and_comes_back(
    people: MakePeople, run_method: RunMethod, encoding: str
) -> None:
    """FedAvg cannot do without a tensor, so a difference from nothing is refused."""
    held: list[dict[str, int]] = []

    def note(round: int, run: FinishedRun) -> None:
        held.append({c: r.round for c, r in run.strategy.transport.references.items()})
        if round == 2:
            lose_reference("p2", 2, run)

    run = run_method(people(), "fedavg", after_round=note, rounds=5, **both_ways(encoding))
    assert run.refusals == {"p2": 1}
    assert run.metric("refused_replies") == {(3, "p2"): 1}
    # Whom the server asked, and what it held of p2 afterwards: nothing after round 3.
    assert run.grid.trained == [(round, EVERYBODY) for round in range(1, 6)]
    assert [references.get("p2") for references in held] == [1, 2, None, 4, 5]
    assert [references["p1"] for references in held] == [1, 2, 3, 4, 5]
    down = [run.grid.downloads[round, "p2"].message for round in range(1, 6)]
    assert [(m.differences, m.reference) for m in down] == [
        (False, 0),
        (True, 1),
        (True, 2),
        (False, 0),
        (True, 4),
    ]
    answered = {round for round, client in run.metric("bytes_up_sent") if client == "p2"}
    assert answered == {1, 2, 4, 5}
    # The same round's evaluation is whole again, so nobody goes untested.
    assert set(run.metric("loss")) == {(r, c) for r in range(1, 6) for c in EVERYBODY}
    # And it received in round 4 what everybody did.
    assert down[3].tensors and [t.name for t in down[3].tensors] == list(
        run.strategy.model.parameter_shapes
    )
    if encoding == "delta":
        sent = run.grid.downloads[4, "p2"].whole("linear2.weight")
        assert (sent == run.states[2]["linear2.weight"].numpy()).all()


def test_a_lost_upload_costs_that_round_and_heals(
    people: MakePeople, run_method: RunMethod
) -> None:
    """The device thinks round 2 arrived: it would refuse differences from round 1."""

    def lose(reply: Reply) -> Message | None:
        lost = (reply.kind, reply.client, reply.round) == (MessageType.TRAIN, "p2", 2)
        return None if lost else reply.message

    run = run_method(people(), "fedavg", tamper=lose, rounds=4, **DELTA)
    assert run.metric("missing_replies") == {(2, "p2"): 1} and not run.refusals
    tested = {(r, c) for r in range(1, 5) for c in EVERYBODY} - {(2, "p2")}
    assert set(run.metric("loss")) == tested
    down = [run.grid.downloads[round, "p2"].message for round in (1, 2, 3, 4)]
    assert [(m.differences, m.reference) for m in down] == [
        (False, 0),
        (True, 1),
        (False, 0),
        (True, 3),
    ]
    # It ends where a run does in which that upload was never sent, and nothing is encoded.
    plain = run_method(people(), "fedavg", tamper=lose, rounds=4)
    for name, tensor in model(plain).items():
        assert torch.equal(model(run)[name], tensor), name
