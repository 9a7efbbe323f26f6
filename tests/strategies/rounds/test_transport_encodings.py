"""Encodings in whole rounds: exact ones change nothing, lossy ones little, lost messages heal."""

from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from torch import Tensor

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.testing.runs import assert_equal
from fedsub_core.config.run_config import read_config

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..tampered_grid import Reply

MIXING = {"k_selection": "fixed:1", "fusion": "overlapping-any"}
EXACT = ["zstd", "delta", "delta,zstd"]
LOSSY = ["bfloat16", "int8", "delta,int8,zstd", "delta,top-k:0.25,int8,zstd"]


def models(run: FinishedRun) -> dict[str, Tensor]:
    """Every client's model, without what the wire remembers."""
    return {
        f"{client}/{name}": tensor
        for client, own in run.client_states().items()
        for name, tensor in own.items()
        if name.startswith("model.")
    }


def assert_both_ends_agree(run: FinishedRun) -> None:
    """What the server remembers of every client is what its device does."""
    for client, reference in run.strategy.transport.references.items():
        own = run.client_states()[f"client/{client}"]
        assert int(own["wire.round"]) == reference.round
        for name, values in reference.tensors.items():
            assert torch.equal(own[f"wire.{name}"], torch.from_numpy(values)), (client, name)


def test_mixing_moves_models(people: MakePeople, run_method: RunMethod) -> None:
    alone = models(run_method(people(), "local", rounds=4, lr=0.05))
    mixed = models(run_method(people(), "fedsub", hyper=MIXING, rounds=4, lr=0.05))
    assert alone and alone.keys() == mixed.keys()
    assert any(not torch.equal(mixed[name], alone[name]) for name in alone)


@pytest.mark.parametrize("name", ["fedsub", "fedavg"])
@pytest.mark.parametrize("encoding", EXACT)
def test_exact_encodings_change_no_bit(
    encoding: str, name: str, people: MakePeople, run_method: RunMethod
) -> None:
    federation, hyper = people(), MIXING if name == "fedsub" else {}
    plain = run_method(federation, name, hyper=hyper, rounds=4, lr=0.05)
    wire = {"upload_encoding": encoding, "download_encoding": encoding}
    run = run_method(federation, name, hyper=hyper, rounds=4, lr=0.05, **wire)
    assert run.strategy.state is not None and plain.strategy.state is not None
    assert_equal(run.strategy.state, plain.strategy.state)
    if name == "fedsub":  # FedAvg's people go on from what they are sent, whatever they keep
        assert_equal(models(run), models(plain))
    assert run.refusals == {}
    assert_both_ends_agree(run)
    last = run.grid.downloads[4, "p1"].message
    assert last.differences == ("delta" in encoding)
    assert last.reference == (3 if "delta" in encoding else 0)


@pytest.mark.parametrize("encoding", LOSSY)
def test_lossy_encodings_stay_near_and_both_ends_agree(
    encoding: str, people: MakePeople, run_method: RunMethod
) -> None:
    federation = people()
    plain = run_method(federation, hyper=MIXING, rounds=5, lr=0.05)
    coded = run_method(federation, hyper=MIXING, rounds=5, lr=0.05, upload_encoding=encoding)
    start = models(run_method(federation, hyper=MIXING, rounds=1, lr=0.05))
    exact, near = models(plain), models(coded)
    off = sum(float((near[name] - exact[name]).square().sum()) for name in exact)
    moved = sum(float((start[name] - exact[name]).square().sum()) for name in exact)
    share = 0.3 if "top-k" in encoding else 0.1
    assert 0 < off < share * moved, "lossy, but near in comparison with what was learned"
    sent = [sum(run.metric("bytes_up_sent").values()) for run in (coded, plain)]
    assert sent[0] < 0.6 * sent[1]
    assert bool(coded.strategy.transport.references) == ("delta" in encoding)
    assert_both_ends_agree(coded)


def test_a_lost_upload_heals(people: MakePeople, run_method: RunMethod) -> None:
    """The device thinks round 2 arrived; the server says that it holds nothing: both start anew."""

    def lose(reply: Reply) -> Message | None:
        lost = (reply.kind, reply.client, reply.round) == (MessageType.TRAIN, "p2", 2)
        return None if lost else reply.message

    wire = {"upload_encoding": "delta,zstd", "download_encoding": "delta"}
    run = run_method(people(), tamper=lose, hyper=MIXING, rounds=4, lr=0.05, **wire)
    up = {key: upload.message for key, upload in run.grid.uploads.items()}
    down = {key: download.message for key, download in run.grid.downloads.items()}
    assert run.refusals == {}
    assert [up[round, "p2"].reference for round in (1, 2, 3, 4)] == [0, 1, 0, 3]
    assert [up[round, "p1"].reference for round in (1, 2, 3, 4)] == [0, 1, 2, 3]
    assert (down[3, "p2"].reference, down[4, "p2"].reference) == (0, 3)
    assert_both_ends_agree(run)
    assert {r.round for r in run.strategy.transport.references.values()} == {4}


def test_a_refused_upload_leaves_what_the_server_remembers(
    people: MakePeople, run_method: RunMethod
) -> None:
    held: list[dict[str, tuple[int, float]]] = []

    def spoil(reply: Reply) -> Message | None:
        if (reply.kind, reply.client, reply.round) == (MessageType.TRAIN, "p1", 2):
            upload = reply.bundle()
            upload.tensor("scores").values = np.full(3, -1, "<f4").tobytes()
            return reply.with_bundle(upload.message)
        return reply.message

    def note(round: int, run: FinishedRun) -> None:
        references = run.strategy.transport.references
        sums = {c: sum(float(t.sum()) for t in r.tensors.values()) for c, r in references.items()}
        held.append({c: (r.round, sums[c]) for c, r in references.items()})

    wire = {"upload_encoding": "delta,int8"}
    run = run_method(
        people(), tamper=spoil, hyper=MIXING, after_round=note, rounds=3, lr=0.05, **wire
    )
    assert run.refusals == {"p1": 1}
    assert held[1]["p1"] == held[0]["p1"] and held[1]["p2"] != held[0]["p2"]
    assert held[2]["p1"][0] == 3


@pytest.mark.parametrize("name", ["fedsub", "fedavg"])
def test_a_run_resumes_with_what_both_ends_remember(name: str, people: MakePeople) -> None:
    keys: dict[str, Any] = {"upload-encoding": "delta,top-k:0.5,int8", "download-encoding": "delta"}
    mixing = {"fedsub.k-selection": "fixed:1", "fedsub.fusion": "overlapping-any"}
    config = read_config(None, {"method": name, "rounds": 6, **keys, **mixing})
    federation = people()
    grid, strategy = build_grid(config, name, federation), build_strategy(config, name)
    saved: dict[int, Any] = {}

    def save(round: int, state: dict[str, Tensor], _: object) -> None:
        saved[round] = {name: tensor.clone() for name, tensor in state.items()}, grid.state()

    strategy.on_round = save
    strategy.start(grid)
    again, continued = build_grid(config, name, federation), build_strategy(config, name)
    server, devices = saved[3]
    assert "reference/p1/wire.round" in server
    continued.resume(3, server)
    again.load_state(devices)
    continued.start(again)
    assert continued.transport.refusals == {}
    for client, own in grid.state().items():
        for key, tensor in own.items():
            assert torch.equal(again.state()[client][key], tensor), (client, key)
    for one in (grid, again):
        one.close()
