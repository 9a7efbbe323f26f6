"""The codec gives back what went in, bit for bit, and refuses what does not fit the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fedsub_core.wire.v1 import exchange_pb2 as pb
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsub_core.errors import MessageRefused
from fedsub_core.models.chain import mlp
from fedsub_core.wire.bundles import Download, UnitRows, Upload, papers_bytes, union_bytes
from fedsub_core.wire.codec import (
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.envelope import Envelope

MODEL = mlp(3, 4, hidden=(10, 5))
ENVELOPE = Envelope("anna", 7, MODEL, prototype_size=3)


def random_upload(seed: int = 0) -> Upload:
    rng = np.random.default_rng(seed)
    labels = np.flatnonzero(rng.random(4) < 0.7).astype(np.int64)
    masks = {x.name: rng.random((len(labels), x.units)) < 0.5 for x in MODEL.affine}
    layers = {}
    for layer in MODEL.affine:
        union = masks[layer.name].any(0)
        rows = rng.standard_normal((union.sum(), layer.fan_in + 1), np.float32)
        layers[layer.name] = UnitRows(union, rows)
    return Upload(
        examples=12,
        layers=layers,
        masks=masks,
        labels=labels,
        scores=rng.random(len(labels)).astype(np.float32),
        prototypes={int(y): rng.standard_normal(3, np.float32) for y in labels},
        prototype_version=2**63 - 1,
        dense={"linear1.bias": rng.standard_normal(10, np.float32)},
    )


@given(st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_an_upload_survives_the_wire_bit_for_bit(seed: int) -> None:
    sent = random_upload(seed)
    got = decode_upload(encode_upload(sent, "anna", 7), ENVELOPE)
    assert (got.examples, got.prototype_version) == (sent.examples, sent.prototype_version)
    for ours, theirs in (
        (sent.masks, got.masks),
        (sent.prototypes, got.prototypes),
        (sent.dense, got.dense),
        ({"labels": sent.labels}, {"labels": got.labels}),
        ({"scores": sent.scores}, {"scores": got.scores}),
        ({k: v.rows for k, v in sent.layers.items()}, {k: v.rows for k, v in got.layers.items()}),
        ({k: v.units for k, v in sent.layers.items()}, {k: v.units for k, v in got.layers.items()}),
    ):
        assert ours.keys() == theirs.keys()
        for key in ours:
            np.testing.assert_array_equal(ours[key], theirs[key])


def test_a_download_survives_the_wire() -> None:
    layers = {"linear2": UnitRows(np.array([1, 0, 0, 1, 0], bool), np.ones((2, 11), np.float32))}
    sent = Download(layers=layers, prototype_version=5)
    got = decode_download(encode_download(sent, "anna", 7), ENVELOPE)
    assert got.prototype_version == 5
    np.testing.assert_array_equal(got.layers["linear2"].units, layers["linear2"].units)
    np.testing.assert_array_equal(got.layers["linear2"].rows, layers["linear2"].rows)


def test_bytes_are_counted_as_the_papers_do_and_as_a_union() -> None:
    masks = {"linear1": np.array([[1, 1, 0], [0, 1, 0]], bool)}
    rows = UnitRows(np.array([1, 1, 0], bool), np.zeros((2, 4), np.float32))
    upload = Upload(1, {"linear1": rows}, masks, np.array([0, 2]), np.ones(2, np.float32))
    assert papers_bytes(upload) == 4 * 4 * 3  # three selected units over both classes
    assert union_bytes(upload) == 4 * 4 * 2


def broken(**changes: object) -> bytes:
    """Return a valid upload's bytes after `changes` to the parsed message."""
    message = pb.Upload()
    message.ParseFromString(encode_upload(random_upload(12), "anna", 7))
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = message
        for part in parents:
            target = target[int(part)] if part.isdigit() else getattr(target, part)  # type: ignore[index]
        setattr(target, last, value)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"schema_version": 9}, "schema version: got 9, expected 1"),
        ({"client_id": "eve"}, "client id: got 'eve', expected 'anna'"),
        ({"round": 6}, "round: got 6, expected 7"),
        ({"layers__0__layer": "linear9"}, "layer: got 'linear9'"),
        ({"layers__0__layer": "linear2"}, "layer: got 'linear2'|units of layer linear2"),
        ({"layers__0__units": b"\xff"}, "units of layer linear1: got 1 bytes, expected 2 bytes"),
        ({"layers__0__units": b"\xff\xff"}, "units of layer linear1: got bits beyond the last"),
        ({"layers__1__rows": b"\0" * 8}, "rows of layer linear2: got 8 bytes"),
        ({"classes__2__label": 4}, "labels"),
        ({"classes__1__label": 0}, "labels"),
        ({"classes__0__score": float("nan")}, "scores"),
        ({"classes__0__score": -1.0}, "scores"),
        ({"classes__0__prototype": b"\0" * 4}, "prototype of class .: got 4 bytes"),
        ({"classes__0__prototype": b"\xff" * 12}, "prototype of class .: got NaN"),
        ({"classes__0__masks__0__units": b"\xff\x03"}, "units without rows"),
        ({"classes__0__masks__0__layer": "linear2"}, "masks of class"),
        ({"tensors__0__name": "linear9.bias"}, "tensor: got 'linear9.bias'"),
        ({"tensors__0__name": "linear2.bias"}, "shape of linear2.bias"),
        ({"tensors__0__values": b""}, "linear1.bias: got 0 bytes"),
        ({"prototype_version": 2**63}, "prototype version"),
    ],
)
def test_what_does_not_fit_is_refused_by_client_and_round(
    changes: dict[str, object], complaint: str
) -> None:
    with pytest.raises(MessageRefused, match=complaint) as refused:
        decode_upload(broken(**changes), ENVELOPE)
    assert (refused.value.client, refused.value.round) == ("anna", 7)


def test_rubbish_is_refused() -> None:
    for data in (b"", b"\xff" * 100, encode_upload(random_upload(), "anna", 7)[:-3]):
        with pytest.raises(MessageRefused):
            decode_upload(data, ENVELOPE)
    with pytest.raises(MessageRefused, match="client id"):
        decode_upload(encode_upload(random_upload(), "anna", 7), replace(ENVELOPE, client="bert"))


@pytest.mark.parametrize("part", ["layers", "tensors", "classes"])
def test_a_part_that_comes_twice_is_refused(part: str) -> None:
    message = pb.Upload.FromString(encode_upload(random_upload(12), "anna", 7))
    parts = getattr(message, part)
    parts.extend([parts[-1]])
    with pytest.raises(MessageRefused, match=r"(layer|tensor|labels|classes): got"):
        decode_upload(message.SerializeToString(), ENVELOPE)


def test_finite_but_huge_numbers_are_refused_before_they_reach_a_sum() -> None:
    upload = random_upload(12)
    upload.layers["linear2"].rows[0, 0] = 2e6
    with pytest.raises(MessageRefused, match=r"rows of layer linear2: .* up to 1e"):
        decode_upload(encode_upload(upload, "anna", 7), ENVELOPE)
    wider = replace(ENVELOPE, largest=1e7)
    assert (
        decode_upload(encode_upload(upload, "anna", 7), wider).layers["linear2"].rows[0, 0] == 2e6
    )
