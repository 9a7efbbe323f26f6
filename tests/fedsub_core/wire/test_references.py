"""What differences are from: after lost messages and memories, and in downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from fedsub_core.wire.memory import Memory, memory_tensors, split_memories
from fedsub_core.wire.v1 import exchange_pb2 as pb

from fedsub_core.errors import MessageRefused
from fedsub_core.models.chain import mlp
from fedsub_core.wire.bundles import Download, Upload
from fedsub_core.wire.codec import (
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import Encoding
from fedsub_core.wire.envelope import Envelope

Make = Callable[[str], Any]
Drift = Callable[..., Iterator[Upload]]

MODEL = mlp(6, 4, hidden=(16, 8))


# Lost messages and lost memories.


@pytest.mark.parametrize("text", ["delta", "int8,delta", "bfloat16,delta,top-k:0.5,zstd"])
def test_a_lost_upload_heals_with_the_next(
    text: str, exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange(text)
    for i, upload in enumerate(drifting_uploads(seed=9, rounds=12, share=0.5)):
        pair.hear()
        data = pair.send(upload)
        if i % 3 == 2:
            continue  # the server never gets it
        assert pair.parsed(data).reference == (0 if i % 3 == 0 else pair.round - 1)
        got = pair.receive(data)
        pair.agree()
        assert pair.error(got, upload) < (1e-9 if text == "delta" else 0.5)


def test_a_device_that_did_not_hear_of_the_loss_is_refused(
    exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange("int8,delta")
    first, second, third = drifting_uploads(seed=10, rounds=3)
    pair.exchange(first)
    pair.send(second)
    with pytest.raises(MessageRefused, match="reference: got round 2, expected round 1, or 0"):
        pair.receive(pair.send(third))


@pytest.mark.parametrize("text", ["delta", "int8,delta"])
@pytest.mark.parametrize("side", ["server", "device"])
def test_a_side_that_lost_its_memory_gets_a_full_upload(
    text: str, side: str, exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange(text)
    first, second, third = drifting_uploads(seed=11, rounds=3, share=0.5)
    pair.exchange(first)
    setattr(pair, side, Memory.empty(MODEL))
    if side == "server":
        with pytest.raises(MessageRefused, match="reference: got round 1, expected round 0, or 0"):
            pair.receive(encode_upload(second, "anna", 1, pair.encoding, pair.device.copy()))
    for upload in (second, third):
        pair.hear()
        got = pair.exchange(upload)
        pair.agree()
        assert pair.error(got, upload) < 0.05
    assert got.reference == 2


def test_the_first_differences_are_from_zeros_and_need_no_memory(
    exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange("delta")
    upload = next(drifting_uploads(seed=12, rounds=1))
    got = decode_upload(pair.send(upload), Envelope("anna", 1, MODEL))
    pair.same(got, upload)
    assert got.reference == 0


# Downloads.


@pytest.mark.parametrize(("text", "bound"), [("delta", 0.0), ("int8,delta,zstd", 0.02)])
def test_downloads_are_differences_from_the_last_upload(
    text: str, bound: float, exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange(text)
    first, fused = drifting_uploads(seed=13, rounds=2)
    pair.exchange(first)
    before = pair.server.copy()
    data = encode_download(Download(fused.layers), "anna", 2, pair.encoding, pair.server)
    envelope = Envelope("anna", 2, MODEL, memory=pair.device)
    got = decode_download(data, envelope)
    assert got.reference == 1
    for name, layer in got.layers.items():
        np.testing.assert_array_equal(layer.units, fused.layers[name].units)
        assert np.abs(layer.rows - fused.layers[name].rows).max(initial=0) <= bound
    for name, rows in before.rows.items():  # a download changes no memory
        assert pair.server.rows[name].tobytes() == rows.tobytes()
    assert pair.device.round == 1
    pair.agree()


def test_a_device_with_another_reference_leaves_the_rows_out(
    exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange("delta")
    first, fused = drifting_uploads(seed=14, rounds=2)
    pair.exchange(first)
    dense = {"linear1.bias": np.ones(16, np.float32)}
    download = Download(fused.layers, dense, prototype_version=5)
    data = encode_download(download, "anna", 2, pair.encoding, pair.server)
    for memory in (None, Memory.empty(MODEL), Memory(9, pair.device.rows)):
        got = decode_download(data, Envelope("anna", 2, MODEL, memory=memory))
        assert (got.layers, got.reference, got.prototype_version) == ({}, 1, 5)
        np.testing.assert_array_equal(got.dense["linear1.bias"], dense["linear1.bias"])


def test_before_the_first_upload_downloads_are_whole(
    exchange: Make, drifting_uploads: Drift
) -> None:
    fused = next(drifting_uploads(seed=15, rounds=1))
    for memory in (None, Memory.empty(MODEL)):
        data = encode_download(Download(fused.layers), "anna", 1, Encoding(delta=True), memory)
        got = decode_download(data, Envelope("anna", 1, MODEL, memory=Memory.empty(MODEL)))
        exchange("delta").same(got, fused)


def test_download_differences_from_no_upload_are_refused() -> None:
    data = pb.Download(schema_version=1, client_id="anna", round=1, differences=True)
    with pytest.raises(MessageRefused, match="reference: got differences from none"):
        decode_download(data.SerializeToString(), Envelope("anna", 1, MODEL))


def test_a_choice_of_rows_is_for_uploads_alone() -> None:
    layer = pb.LayerRows(layer="linear2", units=b"\x01", rows=bytes(68), sent=b"\x01")
    data = pb.Download(schema_version=1, client_id="anna", round=1, layers=[layer])
    with pytest.raises(MessageRefused, match="sent rows: got a choice of rows"):
        decode_download(data.SerializeToString(), Envelope("anna", 1, MODEL))


def test_memories_of_any_client_survive_as_named_tensors() -> None:
    rng = np.random.default_rng(16)
    memories = {}
    for i, client in enumerate(("anna", "ward 3/bed 2", "memory/x", "")):
        memories[client] = Memory.empty(MODEL)
        memories[client].round = i
        memories[client].rows["linear2"][:] = rng.standard_normal((8, 17))
    tensors = memory_tensors(memories) | {"cache": torch.ones(1)}
    back, others = split_memories(tensors)
    assert others.keys() == {"cache"}
    assert back.keys() == memories.keys()
    for client, memory in memories.items():
        assert back[client].round == memory.round
        for name, rows in memory.rows.items():
            np.testing.assert_array_equal(back[client].rows[name], rows)
