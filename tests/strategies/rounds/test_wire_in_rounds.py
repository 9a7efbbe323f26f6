"""Encodings in whole rounds: exact ones change nothing, lossy ones little, lost messages heal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from flwr.app import Message, MessageType
from torch import Tensor

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation

People, Play = Callable[..., Federation], Callable[..., Any]
MIXING = {"k_selection": "fixed:1", "fusion": "overlapping-any"}
EXACT = ["zstd", "delta", "delta,zstd"]
LOSSY = ["bfloat16", "int8", "delta,int8,zstd", "delta,top-k:0.25,int8,zstd"]


def models(played: Any) -> dict[str, Tensor]:
    """Every client's model, without what the wire remembers."""
    return {
        f"{client}/{name}": tensor
        for client, own in played.client_states().items()
        for name, tensor in own.items()
        if not name.startswith("wire.")
    }


def test_mixing_moves_models(people: People, play: Play) -> None:
    alone = models(play(people(), "local", rounds=4, lr=0.05))
    mixed = models(play(people(), "fedsub", hyper=MIXING, rounds=4, lr=0.05))
    assert any(not torch.equal(mixed[name], alone[name]) for name in alone)


@pytest.mark.parametrize("encoding", EXACT)
def test_exact_encodings_change_no_bit(encoding: str, people: People, play: Play) -> None:
    federation = people()
    plain = models(play(federation, hyper=MIXING, rounds=4, lr=0.05))
    wire = {"upload_encoding": encoding, "download_encoding": encoding}
    coded = models(play(federation, hyper=MIXING, rounds=4, lr=0.05, **wire))
    for name, tensor in plain.items():
        assert torch.equal(coded[name], tensor), name


@pytest.mark.parametrize("encoding", LOSSY)
def test_lossy_encodings_stay_near_and_both_ends_agree(
    encoding: str, people: People, play: Play
) -> None:
    federation = people()
    plain = play(federation, hyper=MIXING, rounds=5, lr=0.05)
    coded = play(federation, hyper=MIXING, rounds=5, lr=0.05, upload_encoding=encoding)
    start = models(play(federation, hyper=MIXING, rounds=1, lr=0.05))
    exact, near = models(plain), models(coded)
    off = sum(float((near[name] - exact[name]).square().sum()) for name in exact)
    moved = sum(float((start[name] - exact[name]).square().sum()) for name in exact)
    share = 0.3 if "top-k" in encoding else 0.1
    assert 0 < off < share * moved, "lossy, but near in comparison with what was learned"
    sent = [sum(p.metric("bytes_up_sent").values()) for p in (coded, plain)]
    assert sent[0] < 0.6 * sent[1]
    for client, memory in coded.strategy.mail.memories.items():
        own = coded.client_states()[f"client/{client}"]
        assert int(own["wire.round"]) == memory.round == 5
        for layer, rows in memory.rows.items():
            assert torch.equal(own[f"wire.{layer}"], torch.from_numpy(rows)), layer
    assert bool(coded.strategy.mail.memories) == ("delta" in encoding)


def test_a_lost_upload_heals(people: People, play: Play) -> None:
    """The device thinks round 2 arrived; the server says it holds round 1: both start anew."""

    def lose(reply: Any) -> Message | None:
        lost = (reply.kind, reply.client, reply.round) == (MessageType.TRAIN, "p2", 2)
        return None if lost else reply.message

    wire = {"upload_encoding": "delta,zstd", "download_encoding": "delta"}
    played = play(people(), tamper=lose, hyper=MIXING, rounds=4, lr=0.05, **wire)
    uploads, downloads = played.grid.uploads, played.grid.downloads
    assert not played.strategy.mail.refusals
    assert [uploads[round, "p2"].reference for round in (1, 2, 3, 4)] == [0, 1, 0, 3]
    assert [uploads[round, "p1"].reference for round in (1, 2, 3, 4)] == [0, 1, 2, 3]
    assert (downloads[3, "p2"].reference, downloads[4, "p2"].reference) == (1, 3)
    for client, memory in played.strategy.mail.memories.items():
        own = played.client_states()[f"client/{client}"]
        for layer, rows in memory.rows.items():
            assert torch.equal(own[f"wire.{layer}"], torch.from_numpy(rows)), (client, layer)


def test_a_refused_upload_leaves_what_the_server_remembers(people: People, play: Play) -> None:
    held: list[dict[str, tuple[int, float]]] = []

    def spoil(reply: Any) -> Message | None:
        if (reply.kind, reply.client, reply.round) == (MessageType.TRAIN, "p1", 2):
            upload = reply.upload()
            upload.classes[0].score = -1.0
            return reply.with_payload(upload.SerializeToString())  # type: ignore[no-any-return]
        return reply.message  # type: ignore[no-any-return]

    def note(round: int, strategy: Any) -> None:
        memories = strategy.mail.memories
        rows = {c: sum(float(r.sum()) for r in m.rows.values()) for c, m in memories.items()}
        held.append({c: (m.round, rows[c]) for c, m in memories.items()})

    wire = {"upload_encoding": "delta,int8"}
    played = play(people(), tamper=spoil, hyper=MIXING, after_round=note, rounds=3, lr=0.05, **wire)
    assert played.strategy.mail.refusals == {"p1": 1}
    assert held[1]["p1"] == held[0]["p1"] and held[1]["p2"] != held[0]["p2"]
    assert held[2]["p1"][0] == 3


def test_a_run_resumes_with_what_both_ends_remember(people: People) -> None:
    keys = {"upload-encoding": "delta,top-k:0.5,int8", "download-encoding": "delta", "rounds": 6}
    mixing = {"fedsub.k-selection": "fixed:1", "fedsub.fusion": "overlapping-any"}
    config, federation = read_config(None, {**keys, **mixing}), people()
    grid, strategy = build_grid(config, "fedsub", federation), build_strategy(config, "fedsub")
    saved: dict[int, Any] = {}

    def save(round: int, state: dict[str, Tensor], _: object) -> None:
        saved[round] = {name: tensor.clone() for name, tensor in state.items()}, grid.state()

    strategy.on_round = save
    strategy.start(grid)
    again, continued = build_grid(config, "fedsub", federation), build_strategy(config, "fedsub")
    server, devices = saved[3]
    continued.resume(3, server)
    again.load_state(devices)
    continued.start(again)
    for client, own in grid.state().items():
        for name, tensor in own.items():
            assert torch.equal(again.state()[client][name], tensor), (client, name)
