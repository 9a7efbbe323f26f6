"""FedSub over real rounds: what travels, what is reused, what a client receives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from torch import Tensor

from fedsub_core.methods.fedsub import FUSIONS
from fedsub_core.models.chain import mlp
from fedsub_core.wire.bundles import UnitRows, Upload
from strategies.fedsub import clustering
from strategies.fedsub import strategy as fedsub_strategy
from strategies.fedsub.cache import Cache
from strategies.rounds.strategy import PersonalizedStrategy

ONE_CLUSTER = {"k_selection": "fixed:1"}


def cached_clients(state: Mapping[str, Tensor]) -> tuple[str, ...]:
    return Cache.of(dict(state)).clients


def carried(upload: Any) -> list[int]:
    """Return the classes whose prototype an upload carries."""
    return [artifact.label for artifact in upload.classes if artifact.prototype]


def answers(absent: Mapping[int, set[str]]) -> Any:
    """Drop the uploads of `absent` clients by round."""

    def tamper(reply: Any) -> Message | None:
        lost = reply.kind == MessageType.TRAIN and reply.client in absent.get(reply.round, ())
        return None if lost else reply.message

    return tamper


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_order_of_clients_and_replies_changes_nothing(
    people: Any, play: Any, fusion: str
) -> None:
    federation = people(((0, 1, 2), (0, 1), (1, 2), (0, 1, 2), (0, 2)))
    hyper = {"fusion": fusion, "impute": True, "k_selection": "dbi-capped"}
    a = play(federation, hyper=hyper, rounds=3)
    b = play(federation, hyper=hyper, rounds=3, backwards=True)
    for one, other in zip(a.states, b.states, strict=True):
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert set(a.rows) == set(b.rows) and len(a.rows) == len(b.rows)
    assert any(d.layers for d in a.grid.downloads.values())


def test_unchanged_prototypes_are_sent_once(people: Any, play: Any) -> None:
    played = play(people(((0, 1, 2), (1, 2), (0, 1, 2))), rounds=3)
    held = {"p1": [0, 1, 2], "p2": [1, 2], "p3": [0, 1, 2]}
    for (round, client), upload in played.grid.uploads.items():
        assert carried(upload) == (held[client] if round == 1 else [])
        known = played.grid.downloads[round, client].prototype_version
        assert (known == upload.prototype_version) == (round > 1)
        assert upload.prototype_version > 0


def test_prototypes_are_the_class_means_of_standardised_features(people: Any, play: Any) -> None:
    played = play(people(), rounds=1)
    mean, std = (np.frombuffer(played.grid.scaling[key], "<f4") for key in ("mean", "std"))
    cache = Cache.of(played.states[0])
    for c in (c for cohort in played.grid.grid.cohorts for c in cohort.clients):
        x = (c.train_x - mean) / std
        expected = [x[c.train_y == y].mean(0) for y in range(3)]
        found = cache.tensors["prototypes"][cache.clients.index(c.client)]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_embeddings_follow_the_model_and_are_sent_every_round(people: Any, play: Any) -> None:
    played = play(people(), hyper={"prototype": "embedding"}, rounds=2)
    assert all(carried(upload) == [0, 1, 2] for upload in played.grid.uploads.values())
    assert played.states[0]["prototypes"].shape == (4, 3, 512)
    assert not torch.equal(*(state["prototypes"] for state in played.states))


def forget(client: str, strategy: PersonalizedStrategy) -> None:
    """Take one client out of the server's cache."""
    assert strategy.state is not None
    clients = cached_clients(strategy.state)
    kept = [i for i, c in enumerate(clients) if c != client]
    text = "\n".join(clients[i] for i in kept).encode()
    state = {name: tensor[kept] for name, tensor in strategy.state.items() if name != "clients"}
    strategy.state = {"clients": torch.tensor(list(text), dtype=torch.uint8), **state}


def test_a_server_that_lost_an_entry_gets_the_prototypes_again(people: Any, play: Any) -> None:
    def after(round: int, strategy: PersonalizedStrategy) -> None:
        if round == 1:
            forget("p2", strategy)

    played = play(people(), rounds=3, after_round=after)
    assert played.grid.downloads[2, "p2"].prototype_version == 0
    resent = {key for key, upload in played.grid.uploads.items() if carried(upload)}
    assert resent == {(1, "p1"), (1, "p2"), (1, "p3"), (1, "p4"), (2, "p2")}
    assert played.strategy.mail.refusals == {}
    first, *later = (state["prototypes"] for state in played.states)
    assert all(torch.equal(first, prototypes) for prototypes in later)


def test_prototypes_that_the_server_cannot_know_are_demanded(people: Any, play: Any) -> None:
    """A class more than the cached version has, or a version that the server never saw."""

    def one_class_more(upload: Any) -> None:
        extra = upload.classes.add()
        extra.CopyFrom(upload.classes[0])
        extra.label = 2

    def other_version(upload: Any) -> None:
        upload.prototype_version += 1

    for change in (one_class_more, other_version):

        def tamper(reply: Any, change: Any = change) -> Message:
            if (reply.kind, reply.client, reply.round) != (MessageType.TRAIN, "p2", 2):
                return reply.message  # type: ignore[no-any-return]
            upload = reply.upload()
            change(upload)
            return reply.with_payload(upload.SerializeToString())  # type: ignore[no-any-return]

        played = play(people(((0, 1, 2), (0, 1), (0, 1, 2))), tamper=tamper, rounds=2)
        assert played.strategy.mail.refusals == {"p2": 1}
        assert played.states[1]["holds"].tolist()[1] == [True, True, False]


def test_classes_are_clustered_only_when_their_prototypes_changed(
    people: Any, play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[int]] = [[]]
    real = clustering.cluster_classes

    def counted(prototypes: Any, *args: Any) -> Any:
        calls[-1] += sorted(prototypes)
        return real(prototypes, *args)

    monkeypatch.setattr(fedsub_strategy, "cluster_classes", counted)
    federation = people(((0, 1, 2), (0, 1, 2), (0, 1), (2,)))
    # p4, who has class 2 alone, comes in round 3.
    late = answers({1: {"p4"}, 2: {"p4"}})
    played = play(federation, tamper=late, rounds=4, after_round=lambda *_: calls.append([]))
    assert calls == [[0, 1, 2], [], [2], [], []]
    assert played.states[3]["clusters"][3].tolist()[:2] == [-1, -1]
    assert played.states[3]["clusters"][3, 2] >= 0
    # What was reused is what a server that clusters afresh would find.
    fresh = real(
        {y: played.states[3]["prototypes"][:3, y].double().numpy() for y in (0, 1)},
        "dbi",
        {y: 1 for y in (0, 1)},
        1,
    )
    for y in (0, 1):
        found = played.states[3]["clusters"][:3, y].numpy()
        assert (_partition(found) == _partition(fresh[y])).all()


def _partition(labels: Any) -> Any:
    return labels[:, None] == labels[None, :]


def test_a_client_that_leaves_keeps_its_entry_and_one_that_joins_gets_one(
    people: Any, play: Any
) -> None:
    tamper = answers({1: {"p3"}, 2: {"p1"}, 3: {"p1", "p2"}})
    played = play(people(), hyper=ONE_CLUSTER, tamper=tamper, rounds=4)
    assert [cached_clients(s) for s in played.states] == [
        ("p1", "p2", "p4"),
        *[("p1", "p2", "p3", "p4")] * 3,
    ]
    for name in ("rows.linear1", "masks.linear2", "omega", "prototypes", "versions", "holds"):
        first, second, third, last = (state[name] for state in played.states)
        assert torch.equal(first[0], second[0]) and torch.equal(second[:2], third[:2])
        moved = name in ("rows.linear1", "masks.linear2")
        assert torch.equal(last[:2], third[:2]) is not moved
    # Before it joined nothing could be fused for p3; afterwards it is fused with the others.
    assert not played.grid.downloads[2, "p3"].layers and played.grid.downloads[3, "p3"].layers
    # The one who left is still a source: p4 gets rows in which p1's last ones count.
    assert played.grid.downloads[4, "p4"].layers and played.grid.downloads[4, "p1"].layers


def upload_of(labels: list[int], value: float, version: int = 0) -> Upload:
    """Return an upload for mlp(4, 3) that selects unit 0 of every layer for every class."""
    units = {"linear1": (128, 5), "linear2": (512, 129), "linear3": (3, 513)}
    only = {name: np.arange(count) == 0 for name, (count, _) in units.items()}
    return Upload(
        examples=9,
        layers={
            name: UnitRows(only[name], np.full((1, width), value, np.float32))
            for name, (_, width) in units.items()
        },
        masks={name: np.stack([only[name]] * len(labels)) for name in units},
        labels=np.array(labels, np.int64),
        scores=np.full(len(labels), value, np.float32),
        prototypes={y: np.full(4, value, np.float32) for y in labels} if version else {},
        prototype_version=version,
    )


def test_the_cache_by_hand() -> None:
    model = mlp(4, 3)
    one = Cache.empty((), model, 4).updated({"b": upload_of([0, 2], 1.0, 7)}, model, 4)
    two = one.updated({"a": upload_of([1], 2.0, 8), "c": upload_of([0], 3.0, 9)}, model, 4)
    assert one.clients == ("b",) and two.clients == ("a", "b", "c")
    assert two.tensors["versions"].tolist() == [8, 7, 9]
    assert two.tensors["omega"].tolist() == [[0, 2, 0], [1, 0, 1], [3, 0, 0]]
    assert two.tensors["rows.linear3"][:, 0, 0].tolist() == [2, 1, 3]
    assert two.tensors["rows.linear3"][:, 1:].abs().max() == 0
    # b lost class 2 and has nothing new to say about class 0.
    three = two.updated({"b": upload_of([0], 5.0)}, model, 4)
    assert three.tensors["holds"].tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0]]
    assert three.tensors["versions"].tolist() == [8, 7, 9]
    assert three.tensors["prototypes"][1, 0].tolist() == [1.0] * 4
    assert not three.tensors["masks.linear1"][1, 1:].any()
    again = Cache.of(three.state())
    assert again.clients == three.clients
    assert all(torch.equal(t, again.tensors[name]) for name, t in three.tensors.items())
    # What came in later did not reach back.
    assert two.tensors["omega"][1].tolist() == [1, 0, 1] and len(one.clients) == 1
