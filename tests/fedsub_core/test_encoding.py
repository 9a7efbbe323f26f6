"""Filters are read in any order; rounds of uploads leave both sides with the same memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil

import numpy as np
import pytest

from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.messages import Download, FloatArray, UnitRows, Upload
from fedsub_core.models import mlp
from fedsub_core.wire.codec import (
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import Encoding, parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import open_frame
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.rows import remember_rows
from fedsub_core.wire.v1 import exchange_pb2 as pb

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


def drifting_uploads(seed: int, rounds: int, share: float = 0.7) -> Iterator[Upload]:
    """Yield uploads whose rows change a little and whose units change altogether."""
    rng = np.random.default_rng(seed)
    whole = {x.name: rng.standard_normal((x.units, x.fan_in + 1), np.float32) for x in MODEL.affine}
    for _ in range(rounds):
        layers = {}
        for name, rows in whole.items():
            rows += 0.05 * rng.standard_normal(rows.shape, np.float32)
            units = rng.random(len(rows)) < share
            layers[name] = UnitRows(units, rows[units])
        yield Upload(examples=1, layers=layers)


@dataclass
class Exchange:
    """A device and a server, and what each remembers."""

    encoding: Encoding
    device: Memory = field(default_factory=lambda: Memory.empty(MODEL))
    server: Memory = field(default_factory=lambda: Memory.empty(MODEL))
    round: int = 0

    def send(self, upload: Upload) -> bytes:
        self.round += 1
        return encode_upload(upload, "anna", self.round, self.encoding, self.device)

    def receive(self, data: bytes) -> Upload:
        envelope = Envelope("anna", self.round, MODEL, memory=self.server.copy())
        upload = decode_upload(data, envelope)
        if upload.reference == 0:
            self.server.forget()
        remember_rows(self.server, upload.layers, self.round)
        return upload

    def exchange(self, upload: Upload) -> Upload:
        return self.receive(self.send(upload))

    def hear(self) -> None:
        """Let the device learn what the server holds, as every download tells it."""
        data = encode_download(Download(), "anna", self.round + 1, self.encoding, self.server)
        envelope = Envelope("anna", self.round + 1, MODEL, memory=self.device)
        if decode_download(data, envelope).reference != self.device.round:
            self.device.forget()


def same_bits(ours: dict[str, FloatArray], theirs: dict[str, FloatArray]) -> None:
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name].tobytes() == theirs[name].tobytes(), name


def same_memories(pair: Exchange) -> None:
    assert pair.device.round == pair.server.round == pair.round
    same_bits(pair.device.rows, pair.server.rows)


def rows_of(upload: Upload) -> dict[str, FloatArray]:
    return {name: layer.rows for name, layer in upload.layers.items()}


def greatest_error(got: Upload, wanted: Upload) -> float:
    ours, theirs = rows_of(got), rows_of(wanted)
    return max(float(np.abs(ours[n] - theirs[n]).max(initial=0)) for n in theirs)


def parsed(data: bytes) -> pb.Upload:
    message = pb.Upload()
    message.ParseFromString(open_frame(data, 1 << 20, Envelope("anna", 1, MODEL).refuse))
    return message


# The list of filters.


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Encoding()),
        ("float32", Encoding()),
        (" , ", Encoding()),
        ("bfloat16", Encoding("bfloat16")),
        ("zstd, int8 ,delta", Encoding("int8", delta=True, zstd=True)),
        ("int8,delta,zstd", Encoding("int8", delta=True, zstd=True)),
        ("top-k:0.25,delta", Encoding(delta=True, top_k=0.25)),
        ("delta,top-k:1,float32,zstd", Encoding(delta=True, zstd=True)),
        ("top-k:1", Encoding()),
    ],
)
def test_filters_come_in_any_order(text: str, wanted: Encoding) -> None:
    assert parse_encoding(text) == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("int4", "unknown 'int4'. Did you mean 'int8'"),
        ("delta,bfloat", "unknown 'bfloat'. Did you mean 'bfloat16'"),
        ("detla", "Did you mean 'delta'"),
        ("zst", "Did you mean 'zstd'"),
        ("top-k", "Did you mean 'top-k:SHARE'"),
        ("INT8", "unknown 'INT8'"),
        ("gzip", "Known: float32, bfloat16, int8, delta, top-k:SHARE, zstd"),
        ("int8,float32", "one number format at most"),
        ("int8,int8", "one number format at most"),
        ("top-k:0.5,zstd", "needs delta"),
        ("delta,top-k:0", r"share in \(0, 1\]"),
        ("delta,top-k:1.1", r"share in \(0, 1\]"),
        ("delta,top-k:-1", r"share in \(0, 1\]"),
        ("delta,top-k:nan", r"share in \(0, 1\]"),
        ("delta,top-k:", r"share in \(0, 1\]"),
        ("delta,top-k:a", r"share in \(0, 1\]"),
    ],
)
def test_a_bad_list_is_refused_with_a_hint(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_encoding(text)


# Uploads over several rounds.


@pytest.mark.parametrize("text", LOSSLESS)
def test_differences_of_float32_are_bit_equal_in_every_round(text: str) -> None:
    pair = Exchange(parse_encoding(text))
    for upload in drifting_uploads(seed=1, rounds=6):
        same_bits(rows_of(pair.exchange(upload)), rows_of(upload))
        same_memories(pair)


def test_small_changes_make_small_messages() -> None:
    pair, sizes = Exchange(parse_encoding("delta,zstd")), []
    upload = next(drifting_uploads(seed=1, rounds=1, share=1.0))
    for _ in range(2):
        data = pair.send(upload)
        pair.receive(data)
        sizes.append(len(data))
    assert sizes[1] < 150 < 1000 < sizes[0]  # nothing changed: only names and masks are left


@pytest.mark.parametrize("text", LOSSY)
def test_device_and_server_remember_the_same_bits(text: str) -> None:
    pair = Exchange(parse_encoding(text))
    for upload in drifting_uploads(seed=2, rounds=12):
        pair.exchange(upload)
        same_memories(pair)


@pytest.mark.parametrize(("text", "bound"), [("int8,delta", 0.02), ("bfloat16,delta", 0.02)])
def test_lossy_differences_do_not_add_up_their_errors(text: str, bound: float) -> None:
    pair = Exchange(parse_encoding(text))
    errors = [
        greatest_error(pair.exchange(upload), upload)
        for upload in drifting_uploads(seed=3, rounds=40)
    ]
    assert max(errors) < bound
    assert np.mean(errors[30:]) < 1.5 * np.mean(errors[:10])


@pytest.mark.parametrize("text", LOSSY)
def test_rows_that_stay_are_reached(text: str) -> None:
    pair = Exchange(parse_encoding(text))
    upload = next(drifting_uploads(seed=4, rounds=1))
    errors = [greatest_error(pair.exchange(upload), upload) for _ in range(12)]
    assert errors[-1] < 1e-6
    assert all(b <= a for a, b in pairwise(errors))


@pytest.mark.parametrize("text", ["int8", "bfloat16", "int8,zstd"])
def test_without_differences_the_mean_of_decoded_rows_approaches_the_rows(text: str) -> None:
    pair = Exchange(parse_encoding(text))
    upload = next(drifting_uploads(seed=5, rounds=1))
    rounds = [rows_of(pair.exchange(upload)) for _ in range(64)]
    for name, wanted in rows_of(upload).items():
        first = np.abs(rounds[0][name] - wanted).max()
        mean = np.abs(np.mean([r[name] for r in rounds], axis=0) - wanted).max()
        # What is owed after n rounds is about one rounding error, so the mean is off by 1/n of it.
        assert mean < 2 * first / len(rounds) + 1e-6
        # A device without a memory repeats its first error for ever.
        alone = decode_upload(
            encode_upload(upload, "anna", 1, pair.encoding), Envelope("anna", 1, MODEL)
        )
        assert np.abs(alone.layers[name].rows - wanted).max() == first


@pytest.mark.parametrize("text", ["int8", "bfloat16", "int8,delta"])
def test_a_diverged_round_is_refused_and_does_not_spoil_the_next(text: str) -> None:
    pair = Exchange(parse_encoding(text))
    good = next(drifting_uploads(seed=6, rounds=1))
    pair.exchange(good)
    for worst in (np.nan, np.inf, 3e38):
        rows = good.layers["linear1"].rows.copy()
        rows[0, :2] = worst, -worst
        bad = replace(good, layers={"linear1": UnitRows(good.layers["linear1"].units, rows)})
        data = pair.send(bad)
        if not (text == "bfloat16" and worst == 3e38):  # which fits
            with pytest.raises(MessageRefused, match="rows of layer linear1: got NaN or inf"):
                pair.receive(data)
        if pair.encoding.delta:
            pair.hear()
        else:  # it is owed what it was owed, and no more than a rounding error
            pair.device.forget() if worst == 3e38 else None
        assert greatest_error(pair.exchange(good), good) < 0.1


def test_float32_without_differences_is_exact_with_a_memory_too() -> None:
    pair = Exchange(parse_encoding("zstd"))
    rows = np.array([[-0.0, 1e-45, 1, 2, 3, -3e38, 0.1]], np.float32)
    upload = Upload(1, {"linear1": UnitRows(np.arange(16) == 3, rows)})
    for _ in range(2):
        same_bits(rows_of(pair.exchange(upload)), rows_of(upload))


# Top-k.


def test_top_k_sends_a_share_of_the_known_rows_and_all_new_ones() -> None:
    pair = Exchange(parse_encoding("delta,top-k:0.25"))
    for upload in drifting_uploads(seed=7, rounds=8):
        before = pair.server.copy()
        data = pair.send(upload)
        for layer in parsed(data).layers:
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


def test_rows_that_were_never_sent_cannot_be_left_out() -> None:
    pair = Exchange(parse_encoding("delta,top-k:0.25"))
    message = parsed(pair.send(next(drifting_uploads(seed=8, rounds=1))))
    layer = message.layers[0]
    layer.sent, layer.rows = bytes(len(layer.sent)), b""
    with pytest.raises(MessageRefused, match="rows left out that were never sent"):
        pair.receive(message.SerializeToString())


# Lost messages and lost memories.


@pytest.mark.parametrize("text", ["delta", "int8,delta", "bfloat16,delta,top-k:0.5,zstd"])
def test_a_lost_upload_heals_with_the_next(text: str) -> None:
    pair = Exchange(parse_encoding(text))
    for i, upload in enumerate(drifting_uploads(seed=9, rounds=12, share=0.5)):
        pair.hear()
        data = pair.send(upload)
        if i % 3 == 2:
            continue  # the server never gets it
        assert parsed(data).reference == (0 if i % 3 == 0 else pair.round - 1)
        got = pair.receive(data)
        same_memories(pair)
        assert greatest_error(got, upload) < (1e-9 if text == "delta" else 0.5)


def test_a_device_that_did_not_hear_of_the_loss_is_refused() -> None:
    pair = Exchange(parse_encoding("int8,delta"))
    first, second, third = drifting_uploads(seed=10, rounds=3)
    pair.exchange(first)
    pair.send(second)
    with pytest.raises(MessageRefused, match="reference: got round 2, expected round 1, or 0"):
        pair.receive(pair.send(third))


@pytest.mark.parametrize("text", ["delta", "int8,delta"])
@pytest.mark.parametrize("side", ["server", "device"])
def test_a_side_that_lost_its_memory_gets_a_full_upload(text: str, side: str) -> None:
    pair = Exchange(parse_encoding(text))
    first, second, third = drifting_uploads(seed=11, rounds=3, share=0.5)
    pair.exchange(first)
    setattr(pair, side, Memory.empty(MODEL))
    if side == "server":
        with pytest.raises(MessageRefused, match="reference: got round 1, expected round 0, or 0"):
            pair.receive(encode_upload(second, "anna", 1, pair.encoding, pair.device.copy()))
    for upload in (second, third):
        pair.hear()
        got = pair.exchange(upload)
        same_memories(pair)
        assert greatest_error(got, upload) < 0.05
    assert got.reference == 2


def test_the_first_differences_are_from_zeros_and_need_no_memory() -> None:
    encoding = parse_encoding("delta")
    upload = next(drifting_uploads(seed=12, rounds=1))
    data = encode_upload(upload, "anna", 1, encoding, Memory.empty(MODEL))
    got = decode_upload(data, Envelope("anna", 1, MODEL))
    same_bits(rows_of(got), rows_of(upload))
    assert got.reference == 0


# Downloads.


@pytest.mark.parametrize(("text", "bound"), [("delta", 0.0), ("int8,delta,zstd", 0.02)])
def test_downloads_are_differences_from_the_last_upload(text: str, bound: float) -> None:
    pair = Exchange(parse_encoding(text))
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
    same_bits(pair.server.rows, before.rows)  # a download changes no memory
    same_bits(pair.device.rows, before.rows)


def test_a_device_with_another_reference_leaves_the_rows_out() -> None:
    pair = Exchange(parse_encoding("delta"))
    first, fused = drifting_uploads(seed=14, rounds=2)
    pair.exchange(first)
    dense = {"linear1.bias": np.ones(16, np.float32)}
    download = Download(fused.layers, dense, prototype_version=5)
    data = encode_download(download, "anna", 2, pair.encoding, pair.server)
    for memory in (None, Memory.empty(MODEL), Memory(9, pair.device.rows)):
        got = decode_download(data, Envelope("anna", 2, MODEL, memory=memory))
        assert (got.layers, got.reference, got.prototype_version) == ({}, 1, 5)
        np.testing.assert_array_equal(got.dense["linear1.bias"], dense["linear1.bias"])


def test_before_the_first_upload_downloads_are_whole() -> None:
    fused = next(drifting_uploads(seed=15, rounds=1))
    for memory in (None, Memory.empty(MODEL)):
        data = encode_download(Download(fused.layers), "anna", 1, Encoding(delta=True), memory)
        got = decode_download(data, Envelope("anna", 1, MODEL, memory=Memory.empty(MODEL)))
        same_bits({n: x.rows for n, x in got.layers.items()}, rows_of(fused))


def test_download_differences_from_no_upload_are_refused() -> None:
    data = pb.Download(schema_version=1, client_id="anna", round=1, differences=True)
    with pytest.raises(MessageRefused, match="reference: got differences from none"):
        decode_download(data.SerializeToString(), Envelope("anna", 1, MODEL))
