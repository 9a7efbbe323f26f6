"""Rounds of uploads: exact where they say so, and what is lost otherwise does not add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import pytest

from fedsub_core.errors import MessageRefused
from fedsub_core.models.chain import mlp
from fedsub_core.wire.bundles import UnitRows, Upload
from fedsub_core.wire.codec import decode_upload, encode_upload
from fedsub_core.wire.envelope import Envelope

Make = Callable[[str], Any]
Drift = Callable[..., Iterator[Upload]]

MODEL = mlp(6, 4, hidden=(16, 8))
LOSSLESS = ("delta", "delta,zstd", "delta,top-k:1", "float32,delta,top-k:1.0,zstd")
LOSSY = (
    "int8,delta",
    "bfloat16,delta",
    "int8,delta,zstd",
    "int8,delta,top-k:0.5",
    "bfloat16,delta,top-k:0.25,zstd",
    "delta,top-k:0.3",
)


@pytest.mark.parametrize("text", LOSSLESS)
def test_differences_of_float32_are_bit_equal_in_every_round(
    text: str, exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange(text)
    for upload in drifting_uploads(seed=1, rounds=6):
        pair.same(pair.exchange(upload), upload)
        pair.agree()


def test_small_changes_make_small_messages(exchange: Make, drifting_uploads: Drift) -> None:
    pair, sizes = exchange("delta,zstd"), []
    upload = next(drifting_uploads(seed=1, rounds=1, share=1.0))
    for _ in range(2):
        data = pair.send(upload)
        pair.receive(data)
        sizes.append(len(data))
    assert sizes[1] < 150 < 1000 < sizes[0]  # nothing changed: only names and masks are left


@pytest.mark.parametrize("text", LOSSY)
def test_device_and_server_remember_the_same_bits(
    text: str, exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange(text)
    for upload in drifting_uploads(seed=2, rounds=12):
        pair.exchange(upload)
        pair.agree()


@pytest.mark.parametrize(("text", "bound"), [("int8,delta", 0.02), ("bfloat16,delta", 0.02)])
def test_lossy_differences_do_not_add_up_their_errors(
    text: str, bound: float, exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange(text)
    errors = [
        pair.error(pair.exchange(upload), upload) for upload in drifting_uploads(seed=3, rounds=40)
    ]
    assert max(errors) < bound
    assert np.mean(errors[30:]) < 1.5 * np.mean(errors[:10])


@pytest.mark.parametrize("text", LOSSY)
def test_rows_that_stay_are_reached(text: str, exchange: Make, drifting_uploads: Drift) -> None:
    pair = exchange(text)
    upload = next(drifting_uploads(seed=4, rounds=1))
    errors = [pair.error(pair.exchange(upload), upload) for _ in range(12)]
    assert errors[-1] < 1e-6
    assert all(b <= a for a, b in pairwise(errors))


@pytest.mark.parametrize("text", ["int8", "bfloat16", "int8,zstd"])
def test_without_differences_the_mean_of_decoded_rows_approaches_the_rows(
    text: str, exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange(text)
    upload = next(drifting_uploads(seed=5, rounds=1))
    rounds = [pair.exchange(upload).layers for _ in range(64)]
    for name, layer in upload.layers.items():
        first = np.abs(rounds[0][name].rows - layer.rows).max()
        mean = np.abs(np.mean([r[name].rows for r in rounds], axis=0) - layer.rows).max()
        # What is owed after n rounds is about one rounding error, so the mean is off by 1/n of it.
        assert mean < 2 * first / len(rounds) + 1e-6
        # A device without a memory repeats its first error for ever.
        alone = decode_upload(
            encode_upload(upload, "anna", 1, pair.encoding), Envelope("anna", 1, MODEL)
        )
        assert np.abs(alone.layers[name].rows - layer.rows).max() == first


@pytest.mark.parametrize(
    ("text", "worst"),
    [
        ("int8", np.nan),
        ("int8", np.inf),
        ("int8", 3e38),
        ("bfloat16", np.nan),
        ("bfloat16", np.inf),
        ("int8,delta", np.nan),
        ("int8,delta", 3e38),
        ("delta", np.nan),
        ("delta,top-k:0.5", np.inf),
    ],
)
def test_a_diverged_round_is_refused_and_does_not_spoil_the_next(
    text: str, worst: float, exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange(text)
    good = next(drifting_uploads(seed=6, rounds=1))
    pair.exchange(good)
    rows = good.layers["linear1"].rows.copy()
    rows[0, :2] = worst, -worst
    bad = replace(good, layers={"linear1": UnitRows(good.layers["linear1"].units, rows)})
    with pytest.raises(MessageRefused, match="rows of layer linear1: got NaN, infinite or huge"):
        pair.receive(pair.send(bad))
    if pair.encoding.delta:
        pair.hear()
    assert pair.error(pair.exchange(good), good) < 0.1


def test_float32_without_differences_is_exact_with_a_memory_too(exchange: Make) -> None:
    pair = exchange("zstd")
    rows = np.array([[-0.0, 1e-45, 1, 2, 3, -1e6, 0.1]], np.float32)
    upload = Upload(1, {"linear1": UnitRows(np.arange(16) == 3, rows)})
    for _ in range(2):
        pair.same(pair.exchange(upload), upload)


# Top-k.


def test_top_k_sends_a_share_of_the_known_rows_and_all_new_ones(
    exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange("delta,top-k:0.25")
    for upload in drifting_uploads(seed=7, rounds=8):
        before = pair.server.copy()
        data = pair.send(upload)
        for layer in pair.parsed(data).layers:
            units, rows = upload.layers[layer.layer].units, upload.layers[layer.layer].rows
            held = before.rows[layer.layer][units]
            known = held.any(axis=1)
            sent = np.unpackbits(np.frombuffer(layer.sent, np.uint8), bitorder="little")
            sent = sent[: len(rows)].astype(bool)
            assert sent[~known].all()
            assert sent[known].sum() == ceil(0.25 * known.sum())
            assert len(layer.rows) == 4 * sent.sum() * rows.shape[1]
            changed = np.linalg.norm(rows - held, axis=1)
            if (known & ~sent).any() and (known & sent).any():
                assert changed[known & sent].min() >= changed[known & ~sent].max()
        got = pair.receive(data)
        for name, layer in got.layers.items():  # what was not sent is the reference's
            left = (layer.rows != upload.layers[name].rows).any(axis=1)
            np.testing.assert_array_equal(layer.rows[left], before.rows[name][layer.units][left])


def test_rows_that_were_never_sent_cannot_be_left_out(
    exchange: Make, drifting_uploads: Drift
) -> None:
    pair = exchange("delta,top-k:0.25")
    message = pair.parsed(pair.send(next(drifting_uploads(seed=8, rounds=1))))
    layer = message.layers[0]
    layer.sent, layer.rows = bytes(len(layer.sent)), b""
    with pytest.raises(MessageRefused, match="rows left out that were never sent"):
        pair.receive(message.SerializeToString())
