"""The codec gives back what went in, bit for bit, and refuses what does not fit the declaration."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.wire.bundles import Bundle, Declaration, Floats, dense, rows
from fedsub_core.wire.codec import (
    Address,
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.v2 import exchange_pb2 as pb

Make = Callable[[str, Declaration], Any]
Drift = Callable[..., Iterator[Bundle]]
Declarations = dict[str, Declaration]
ANNA = Address("anna", 7)


@pytest.fixture(scope="module")
def valid(declarations: Declarations, drifting_bundles: Drift) -> bytes:
    """Return a valid upload of every kind of tensor; place in it and name are the declaration's."""
    kinds = declarations["kinds"]
    return encode_upload(next(drifting_bundles(12, 1, kinds)), ANNA, kinds)


@pytest.mark.parametrize("name", ["fedsub", "model", "kinds"])
@given(seed=st.integers(0, 10_000))
def test_a_bundle_survives_the_wire_bit_for_bit(
    seed: int, name: str, declarations: Declarations, drifting_bundles: Drift
) -> None:
    declared = declarations[name]
    sent = next(drifting_bundles(seed, 1, declared))
    for encode, decode in ((encode_upload, decode_upload), (encode_download, decode_download)):
        got = decode(encode(sent, ANNA, declared), Envelope("anna", 7, declared))
        assert (got.examples, got.version) == (sent.examples, sent.version)
        assert got.tensors.keys() == sent.tensors.keys()
        for key, part in got.tensors.items():
            wanted = sent.tensors[key]
            assert getattr(part, "at", None) == getattr(wanted, "at", None)
            assert part.values.dtype == wanted.values.dtype
            np.testing.assert_array_equal(part.values, wanted.values)


def test_optional_tensors_may_be_left_out(
    declarations: Declarations, drifting_bundles: Drift, exchange: Make
) -> None:
    kinds = declarations["kinds"]
    whole = next(drifting_bundles(1, 1, kinds))
    less = replace(whole, tensors={n: p for n, p in whole.tensors.items() if not kinds[n].optional})
    assert len(less.tensors) == len(whole.tensors) - 2
    pair = exchange("float32", kinds)
    pair.same(pair.exchange(less), less)


def test_no_tensor_that_must_be_there_may_be_missing(
    declarations: Declarations, valid: bytes
) -> None:
    kinds = declarations["kinds"]
    for place, (name, one) in enumerate(kinds.items()):
        message = pb.Bundle.FromString(valid)
        del message.tensors[place]
        data, envelope = message.SerializeToString(), Envelope("anna", 7, kinds)
        if one.optional:
            assert name not in decode_upload(data, envelope).tensors
            continue
        with pytest.raises(MessageRefused, match=rf"also {name}|the units of {name}"):
            decode_upload(data, envelope)


def test_a_download_has_all_or_nothing() -> None:
    declared = {"weight": dense((2, 2)), "bias": dense((2,)), "extra": rows((3, 1), optional=True)}
    envelope = Envelope("anna", 7, declared)
    empty = decode_download(encode_download(Bundle(version=5), ANNA, declared), envelope)
    assert (empty.tensors, empty.version) == ({}, 5)
    some = Bundle(tensors={"extra": Floats.rows(np.zeros(3, bool), np.zeros((0, 1), np.float32))})
    data = encode_download(some, ANNA, declared)
    with refused(MessageRefused, what="tensors", got="['extra']", expected="weight, bias"):
        decode_download(data, envelope)
    with refused(MessageRefused, what="tensors", got="[]", expected="weight, bias"):
        decode_upload(encode_upload(Bundle(1), ANNA, declared), envelope)


def broken(data: bytes, changes: dict[str, object]) -> bytes:
    """Return a valid upload's bytes after changes to the parsed message.

    `changes` is by the path of a field, such as ``tensors__0__name``.
    """
    message = pb.Bundle.FromString(data)
    for path, value in changes.items():
        *parents, last = path.split("__")
        target: Any = message
        for part in parents:
            target = target[int(part)] if part.isdigit() else getattr(target, part)
        if isinstance(value, list):
            getattr(target, last)[:] = value
        else:
            setattr(target, last, value)
    return bytes(message.SerializeToString())


DENSE, BIAS, COUNTS, ROWS, CHOSEN, FIRST, CONV, LINEAR, SPARSE = (f"tensors__{i}" for i in range(9))
SUMS = "tensors__12"
REFUSED: list[tuple[dict[str, object], str]] = [
    ({"schema_version": 1}, "schema version: got 1, expected 2"),
    ({"schema_version": 3}, "schema version: got 3, expected 2"),
    ({"client_id": "eve"}, "client id: got 'eve', expected 'anna'"),
    ({"round": 6}, "round: got 6, expected 7"),
    ({"examples": 2**48}, r"examples: got \d+, expected a number below 2\*\*48"),
    ({"version": 2**63}, r"version: got \d+, expected a number below 2\*\*63"),
    ({"numbers": 3}, "number format: got 3, expected 0 to 2"),
    ({f"{ROWS}__name": "linear9"}, "tensor: got 'linear9', expected one each of dense, bias"),
    ({f"{ROWS}__name": "dense"}, "tensor: got 'dense'"),
    # Another tensor's name: it is measured by that one's kind and shape.
    ({f"{DENSE}__name": "mean"}, r"shape of mean: got \(3, 4\), expected \(4, 2\)"),
    ({f"{ROWS}__shape": [3, 6]}, r"shape of rows: got \(3, 6\), expected \(6, 3\)"),
    ({f"{ROWS}__shape": []}, r"shape of rows: got \(\), expected"),
    ({f"{BIAS}__shape": [5, 1]}, r"shape of bias: got \(5, 1\), expected \(5,\)"),
    # A mask where none belongs, and none where one does.
    ({f"{DENSE}__units": b"\x07"}, "units of dense: got a mask, expected none: it is Dense"),
    ({f"{DENSE}__elements": b"\xff\x0f"}, "elements of dense: got a mask, expected none"),
    ({f"{ROWS}__elements": b"\xff\xff\x03"}, "elements of rows: .* none: it is Rows"),
    ({f"{CHOSEN}__units": b"\x01"}, "units of chosen: .* none: it is Bits"),
    ({f"{FIRST}__elements": b"\xff\x7f"}, "elements of first: .* none: it is Sliced"),
    ({f"{SPARSE}__units": b"\x0f"}, "units of sparse: .* none: it is Elements"),
    ({f"{ROWS}__units": b""}, "units of rows: got 0 bytes, expected 1 bytes for 6 bits"),
    ({f"{FIRST}__units": b""}, "units of first: got 0 bytes"),
    ({f"{SPARSE}__elements": b""}, "elements of sparse: got 0 bytes, expected 3 bytes for 24 bits"),
    # Masks and numbers of other lengths than follow from the shape.
    ({f"{ROWS}__units": b"\xff\xff"}, "units of rows: got 2 bytes, expected 1 bytes"),
    ({f"{ROWS}__units": b"\x40"}, "units of rows: got bits beyond the last, expected 6 bits"),
    ({f"{CHOSEN}__values": b"\xff\x10"}, "chosen: got bits beyond the last, expected 12 bits"),
    ({f"{CHOSEN}__values": b"\xff"}, "chosen: got 1 bytes, expected 2 bytes for 12 bits"),
    ({f"{CHOSEN}__scales": b"\xff" * 8}, "scales of chosen: got 8 bytes, expected 0 bytes"),
    ({f"{DENSE}__values": b"\0" * 47}, r"values of dense, float32 \[3, 4\]: got 47 bytes"),
    ({f"{DENSE}__scales": b"\0" * 24}, r"scales of dense, .*: got 24 bytes, expected 0 bytes"),
    ({f"{SPARSE}__elements": b"\xff" * 3}, r"values of sparse, float32 \[24\]: got .* 96 bytes"),
    ({f"{SUMS}__values": b"\0" * 28}, "values of sums: got 28 bytes, expected 30 bytes"),
    ({f"{SUMS}__scales": b"\0" * 24}, "scales of sums: got 24 bytes, expected 0 bytes"),
    ({f"{SUMS}__sent": b"\x07"}, "sent entries of sums: got 1 bytes, expected 0 bytes"),
    ({f"{SUMS}__units": b"\x07"}, "units of sums: got a mask, expected none: it is Whole"),
    # More units of a layer ask more inputs of the next.
    ({f"{FIRST}__units": b"\x1f", f"{FIRST}__values": b"\0" * 60}, "values of conv"),
    ({f"{DENSE}__sent": b"\x07"}, "sent entries of dense: got a choice of them, expected all"),
    ({f"{DENSE}__values": b"\xff" * 48}, "dense: got NaN, infinite or huge numbers"),
    ({f"{COUNTS}__values": b"\0\0\x80\x7f" * 4}, "counts: got NaN, infinite or huge numbers"),
    ({"differences": True, "reference": 6}, "reference: got round 6, expected round 0, or 0"),
]


@pytest.mark.parametrize(("changes", "complaint"), REFUSED)
def test_what_does_not_fit_is_refused_by_client_and_round(
    changes: dict[str, object], complaint: str, valid: bytes, declarations: Declarations
) -> None:
    with pytest.raises(MessageRefused, match=complaint) as caught:
        decode_upload(broken(valid, changes), Envelope("anna", 7, declarations["kinds"]))
    assert (caught.value.client, caught.value.round) == ("anna", 7)


def test_tensors_may_come_in_another_order_but_not_before_what_they_follow(
    valid: bytes, declarations: Declarations
) -> None:
    envelope = Envelope("anna", 7, declarations["kinds"])
    message = pb.Bundle.FromString(valid)
    tensors = list(message.tensors)
    del message.tensors[:]
    message.tensors.extend(tensors[-1:] + tensors[:-1])
    got = decode_upload(message.SerializeToString(), envelope)
    assert next(iter(got.tensors)) == "sums"
    del message.tensors[:]
    message.tensors.extend(tensors[::-1])
    with refused(MessageRefused, "conv", what="inputs of linear", got="none"):
        decode_upload(message.SerializeToString(), envelope)


def test_rubbish_is_refused(valid: bytes, declarations: Declarations) -> None:
    envelope = Envelope("anna", 7, declarations["kinds"])
    for data in (b"", b"\xff" * 100, valid[:-3]):
        with pytest.raises(MessageRefused):
            decode_upload(data, envelope)
    with pytest.raises(MessageRefused, match="client id"):
        decode_upload(valid, replace(envelope, client="bert"))


def test_more_tensors_than_declared_are_refused(valid: bytes, declarations: Declarations) -> None:
    message = pb.Bundle.FromString(valid)
    message.tensors.extend([message.tensors[-1]])
    with pytest.raises(MessageRefused, match="tensors: got 14, expected 13 at most"):
        decode_upload(message.SerializeToString(), Envelope("anna", 7, declarations["kinds"]))


def test_finite_but_huge_numbers_are_refused_before_they_reach_a_sum(
    declarations: Declarations, drifting_bundles: Drift
) -> None:
    kinds = declarations["kinds"]
    upload = next(drifting_bundles(12, 1, kinds))
    upload.floats("linear")[0, 0] = 2e6
    data, envelope = encode_upload(upload, ANNA, kinds), Envelope("anna", 7, kinds)
    with refused(MessageRefused, what="linear", got="NaN", expected="1e+06"):
        decode_upload(data, envelope)
    got = decode_upload(data, replace(envelope, largest=1e7))
    assert got.floats("linear")[0, 0] == 2e6
