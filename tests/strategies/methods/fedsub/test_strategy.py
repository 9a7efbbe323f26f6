"""FedSub over real rounds: what travels, what is reused, who is in the cache."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.methods.fedsub import FUSIONS
from fedsub_core.wire.v2 import exchange_pb2 as pb
from strategies.methods.fedsub import clustering, kept_clusters
from strategies.parts.roster import Roster
from strategies.strategy import PersonalizedStrategy

from ...finished_run import FinishedRun, MakePeople, RunMethod
from ...sent_bundle import SentBundle
from ...tampered_grid import Reply, Tamper

ONE_CLUSTER = {"k_selection": "fixed:1"}


def cached_clients(state: Mapping[str, Tensor]) -> tuple[str, ...]:
    return Roster.of(state["clients"]).clients


def carried(upload: SentBundle) -> list[int]:
    """Return the classes whose prototypes an upload carries."""
    return list(upload.rows("prototypes")) if "prototypes" in upload.names else []


def without(absent: Mapping[int, set[str]]) -> Tamper:
    """Drop the uploads of `absent` clients by round."""

    def tamper(reply: Reply) -> Message | None:
        lost = reply.kind == MessageType.TRAIN and reply.client in absent.get(reply.round, ())
        return None if lost else reply.message

    return tamper


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_order_of_clients_and_replies_changes_nothing(
    people: MakePeople, run_method: RunMethod, fusion: str
) -> None:
    federation = people(((0, 1, 2), (0, 1), (1, 2), (0, 1, 2), (0, 2)))
    hyper = {"fusion": fusion, "impute": True, "k_selection": "dbi-capped"}
    a = run_method(federation, hyper=hyper, rounds=3)
    b = run_method(federation, hyper=hyper, rounds=3, backwards=True)
    for one, other in zip(a.states, b.states, strict=True):
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert set(a.rows) == set(b.rows) and len(a.rows) == len(b.rows)
    assert any(download.names for download in a.grid.downloads.values())


def test_unchanged_prototypes_are_sent_once(people: MakePeople, run_method: RunMethod) -> None:
    run = run_method(people(((0, 1, 2), (1, 2), (0, 1, 2))), rounds=3)
    held = {"p1": [0, 1, 2], "p2": [1, 2], "p3": [0, 1, 2]}
    for (round, client), upload in run.grid.uploads.items():
        assert carried(upload) == (held[client] if round == 1 else [])
        assert np.flatnonzero(upload.bits("classes")).tolist() == held[client]
        known = run.grid.downloads[round, client].message.version
        assert (known == upload.message.version) == (round > 1)
        assert upload.message.version > 0


def test_prototypes_are_the_class_means_of_standardised_features(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), rounds=1)
    cache = {c: run.states[0]["prototypes"][i] for i, c in enumerate(("p1", "p2", "p3", "p4"))}
    for c in run.clients:
        x = (c.train_x - run.told("mean")) / run.told("std")
        expected = [x[c.train_y == y].mean(0) for y in range(3)]
        np.testing.assert_allclose(cache[c.client], expected, rtol=1e-4, atol=1e-5)


def test_embeddings_follow_the_model_and_are_sent_every_round(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), hyper={"prototype": "embedding"}, rounds=2)
    assert all(carried(upload) == [0, 1, 2] for upload in run.grid.uploads.values())
    assert run.states[0]["prototypes"].shape == (4, 3, 512)
    first, second = (state["prototypes"] for state in run.states)
    assert not torch.equal(first, second)


def forget(client: str, strategy: PersonalizedStrategy) -> None:
    """Take one client out of the server's cache."""
    assert strategy.state is not None
    strategy.state = strategy.half.without(strategy.state, client)


def test_a_server_that_lost_an_entry_gets_the_prototypes_again(
    people: MakePeople, run_method: RunMethod
) -> None:
    def after(round: int, run: FinishedRun) -> None:
        if round == 1:
            forget("p2", run.strategy)

    run = run_method(people(), rounds=3, after_round=after)
    assert run.grid.downloads[2, "p2"].message.version == 0
    resent = {key for key, upload in run.grid.uploads.items() if carried(upload)}
    assert resent == {(1, "p1"), (1, "p2"), (1, "p3"), (1, "p4"), (2, "p2")}
    assert run.refusals == {}
    first, *later = (state["prototypes"] for state in run.states)
    assert all(torch.equal(first, prototypes) for prototypes in later)


def one_class_more(upload: pb.Bundle) -> None:
    """Hold class 2, too: the third bit of the mask."""
    (classes,) = (tensor for tensor in upload.tensors if tensor.name == "classes")
    assert classes.values == b"\x03"
    classes.values = b"\x07"


def other_version(upload: pb.Bundle) -> None:
    upload.version += 1


@pytest.mark.parametrize("change", [one_class_more, other_version])
def test_prototypes_that_the_server_cannot_know_are_demanded(
    people: MakePeople, run_method: RunMethod, change: Any
) -> None:
    def tamper(reply: Reply) -> Message:
        if (reply.kind, reply.client, reply.round) != (MessageType.TRAIN, "p2", 2):
            return reply.message
        upload = reply.bundle().message
        change(upload)
        return reply.with_bundle(upload)

    run = run_method(people(((0, 1, 2), (0, 1), (0, 1, 2))), tamper=tamper, rounds=2)
    assert run.refusals == {"p2": 1}
    assert run.states[1]["holds"].tolist()[1] == [True, True, False]


def test_classes_are_clustered_only_when_their_prototypes_changed(
    people: MakePeople, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[int]] = [[]]
    real = clustering.cluster_classes

    def counted(prototypes: Mapping[int, Any], *args: Any) -> Any:
        calls[-1] += sorted(prototypes)
        return real(prototypes, *args)

    monkeypatch.setattr(kept_clusters, "cluster_classes", counted)
    federation = people(((0, 1, 2), (0, 1, 2), (0, 1), (2,)))
    # p4, who has class 2 alone, comes in round 2.
    late = without({1: {"p4"}})
    run = run_method(federation, tamper=late, rounds=4, after_round=lambda *_: calls.append([]))
    assert calls == [[0, 1, 2], [2], [], [], []]
    last = run.states[3]
    assert last["clusters"][3].tolist()[:2] == [-1, -1]
    assert last["clusters"][3, 2] >= 0
    # What was reused is what a server that clusters afresh would find.
    points = {y: last["prototypes"][:3, y].double().numpy() for y in (0, 1)}
    fresh = real(points, "dbi", {0: 1, 1: 1}, 1)
    for y in (0, 1):
        assert (partition(last["clusters"][:3, y].numpy()) == partition(fresh[y])).all()


def partition(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = labels[:, None] == labels[None, :]
    return same


def names(run: FinishedRun, round: int, client: str) -> Sequence[str]:
    return run.grid.downloads[round, client].names


def test_a_client_that_leaves_keeps_its_entry_and_one_that_joins_gets_one(
    people: MakePeople, run_method: RunMethod
) -> None:
    tamper = without({1: {"p3"}, 2: {"p1"}, 3: {"p2"}})
    run = run_method(people(), hyper=ONE_CLUSTER, tamper=tamper, rounds=4)
    assert [cached_clients(state) for state in run.states] == [
        ("p1", "p2", "p4"),
        *[("p1", "p2", "p3", "p4")] * 3,
    ]
    for name in ("rows.linear1", "masks.linear2", "omega", "prototypes", "versions", "holds"):
        first, second, third, last = (state[name] for state in run.states)
        assert torch.equal(first[0], second[0]) and torch.equal(second[1], third[1])
        moved = name in ("rows.linear1", "masks.linear2")
        assert torch.equal(last[:2], third[:2]) is not moved
    # Before it joined nothing could be fused for p3; afterwards it is fused with the others.
    assert not names(run, 2, "p3") and names(run, 3, "p3")
    # The one who left is still a source: p4 gets rows in which its last ones count.
    assert names(run, 4, "p4") and names(run, 4, "p1")
