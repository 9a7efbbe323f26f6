"""Tensors that many clients get are encoded once; a message is what one serialisation gives."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fedsub_core.wire import bundles
from fedsub_core.wire.bundle_tensors import encode_tensors
from fedsub_core.wire.bundles import Bits, Bundle, Declaration, Floats
from fedsub_core.wire.codec import (
    Address,
    decode_download,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.references import Reference

Make = Callable[[str, Declaration], Any]
Drift = Callable[..., Iterator[Bundle]]

ENCODINGS = ("float32", "bfloat16", "int8", "delta,zstd", "int8,delta,zstd", "bfloat16,zstd")


@pytest.mark.parametrize("text", ENCODINGS)
def test_encoding_once_gives_every_client_the_bytes_of_its_own(
    text: str, declared: Declaration, drifting_bundles: Drift
) -> None:
    encoding, bundle = parse_encoding(text), next(drifting_bundles(1, 1, declared))
    shared = encode_tensors(bundle, declared, encoding)
    # A client of whom the server holds nothing: what it gets is never a difference.
    for client, reference in (("anna", None), ("bert", Reference.empty(declared)), ("äö", None)):
        address = Address(client, 7)
        own = encode_download(bundle, address, declared, encoding, reference)
        assert encode_download(bundle, address, declared, encoding, reference, shared) == own
        decode_download(own, Envelope(client, 7, declared))


def test_differences_are_encoded_for_each_client_whatever_is_shared(
    declared: Declaration, drifting_bundles: Drift, exchange: Make
) -> None:
    pair = exchange("delta", declared)
    first, fused = drifting_bundles(2, 2, declared)
    pair.exchange(first)
    shared = encode_tensors(fused, declared, pair.encoding)
    address = Address("anna", 2)
    own = encode_download(fused, address, declared, pair.encoding, pair.server)
    assert own == encode_download(fused, address, declared, pair.encoding, pair.server, shared)
    pair.same(decode_download(own, Envelope("anna", 2, declared, pair.device)), fused)


@pytest.mark.parametrize("text", [t for t in ENCODINGS if "zstd" not in t] + ["delta,top-k:0.5"])
def test_header_and_tensors_put_together_are_one_serialisation(
    text: str, declared: Declaration, drifting_bundles: Drift, exchange: Make
) -> None:
    pair = exchange(text, declared)
    for bundle in drifting_bundles(3, 3, declared):
        data = pair.send(bundle)
        assert pair.parsed(data).SerializeToString(deterministic=True) == data
        pair.receive(data)
    address = Address("anna", 4)
    down = pair.encoding if pair.encoding.top_k == 1 else parse_encoding("delta")
    data = encode_download(bundle, address, declared, down, pair.server)
    assert pair.parsed(data).SerializeToString(deterministic=True) == data
    nothing = encode_download(Bundle(), address, declared, down, pair.server)
    assert pair.parsed(nothing).SerializeToString(deterministic=True) == nothing


def test_what_a_method_did_not_declare_never_leaves() -> None:
    declared = {"weight": bundles.dense((2, 2)), "mask": bundles.bits((2,))}
    weight, mask = Floats(np.ones((2, 2), np.float32)), Bits(np.ones(2, bool))
    for tensors, complaint in (
        ({"weight": weight, "secret": weight}, "tensor 'secret' is Dense, declared was None"),
        ({"mask": Floats(np.ones(2, np.float32))}, "tensor 'mask' is Dense, declared was"),
        ({"weight": mask}, "tensor 'weight' is Bits, declared was"),
    ):
        with pytest.raises(ValueError, match=complaint):
            encode_upload(Bundle(1, tensors=tensors), Address("anna", 1), declared)
