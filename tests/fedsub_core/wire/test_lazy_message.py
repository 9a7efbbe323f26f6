"""A message that is read unwritten says what its bytes say, and counts as many as they are."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedsub_core.errors import MessageRefused
from fedsub_core.wire.bundles import Bundle, Declaration, Floats, dense, rows
from fedsub_core.wire.codec import (
    Address,
    compose_download,
    compose_upload,
    decode_download,
    decode_upload,
)
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.references import Reference

Make = Callable[[str, Declaration], Any]
Drift = Callable[..., Iterator[Bundle]]

NUMBERS = ("float32", "bfloat16", "int8")
ENCODINGS = [
    f"{delta}{numbers}{zstd}"
    for delta in ("", "delta,", "delta,top-k:0.5,")
    for numbers in NUMBERS
    for zstd in ("", ",zstd")
]


@pytest.mark.parametrize("text", ENCODINGS)
def test_both_read_the_same_and_are_counted_alike(
    text: str, declared: Declaration, drifting_bundles: Drift, exchange: Make
) -> None:
    pair = exchange(text, declared)
    encoding, anna = pair.encoding, "anna"
    for round, bundle in enumerate(drifting_bundles(5, 3, declared), 1):
        held = pair.server.copy()
        sent = compose_upload(bundle, Address(anna, round), declared, encoding, pair.device)
        data = sent.to_bytes()
        assert len(sent) == len(data)
        envelope = Envelope(anna, round, declared, held)
        one, other = decode_upload(sent, envelope), decode_upload(data, envelope)
        pair.same(one, other)
        assert replace(one, tensors={}) == replace(other, tensors={})
        pair.server.remember(one, round)
    # Back again: the newest, as differences where the run's downloads are.
    down = replace(encoding, top_k=1.0)
    told = compose_download(bundle, Address(anna, 4), declared, down, pair.server)
    assert len(told) == len(told.to_bytes())
    envelope = Envelope(anna, 4, declared, pair.server)
    pair.same(decode_download(told, envelope), decode_download(told.to_bytes(), envelope))


ONE: Declaration = {"weight": dense((2, 3)), "some": rows((4, 2))}


def upload(**tensors: Any) -> Bundle:
    """Return an upload of ones, but for `tensors`."""
    ones = np.ones((2, 3), np.float32)
    whole = {"weight": ones, "some": np.ones((1, 2), np.float32)} | tensors
    units = np.array([True, False, False, False])
    return Bundle(
        9, tensors={"weight": Floats(whole["weight"]), "some": Floats.rows(units, whole["some"])}
    )


@pytest.mark.parametrize(
    ("bundle", "what"),
    [
        (upload(weight=np.full((2, 3), np.nan, np.float32)), "NaN, infinite or huge numbers"),
        (upload(some=np.full((1, 2), 2e6, np.float32)), "some: got NaN, infinite or huge"),
        (upload(weight=np.ones((2, 2), np.float32)), "values of weight"),
        (upload(some=np.ones((2, 2), np.float32)), "values of some"),
        (Bundle(9, tensors={"weight": upload().tensors["weight"]}), "expected also some"),
        (replace(upload(), examples=2**48), "examples"),
        (replace(upload(), version=2**63), "version"),
    ],
)
def test_what_is_wrong_is_refused_by_reference_too(bundle: Bundle, what: str) -> None:
    sent = compose_upload(bundle, Address("anna", 1), ONE)
    for data in (sent, sent.to_bytes()):
        with pytest.raises(MessageRefused, match=rf"client 'anna', round 1.*{what}"):
            decode_upload(data, Envelope("anna", 1, ONE))


@pytest.mark.parametrize("other", ["client", "round", "declaration", "limit"])
def test_what_is_for_somebody_else_is_refused_by_reference_too(other: str) -> None:
    envelope = {
        "client": Envelope("bert", 1, ONE),
        "round": Envelope("anna", 2, ONE),
        "declaration": Envelope("anna", 1, {**ONE, "weight": dense((3, 2))}),
        "limit": Envelope("anna", 1, ONE, limit=20),
    }[other]
    sent = compose_upload(upload(), Address("anna", 1), ONE)
    for data in (sent, sent.to_bytes()):
        with pytest.raises(MessageRefused):
            decode_upload(data, envelope)


def test_tensors_go_by_reference_and_cannot_be_written_to() -> None:
    bundle = upload()
    sent = compose_upload(bundle, Address("anna", 1), ONE)
    got = decode_upload(sent, Envelope("anna", 1, ONE))
    assert np.shares_memory(got.floats("weight"), bundle.floats("weight"))
    with pytest.raises(ValueError, match="read-only"):
        got.floats("weight")[0] = 2
    assert bundle.floats("weight").flags.writeable


def test_what_an_encoding_changes_is_changed() -> None:
    third = upload(weight=np.full((2, 3), 1 / 3, np.float32))
    sent = compose_upload(third, Address("anna", 1), ONE, parse_encoding("bfloat16"))
    got = decode_upload(sent, Envelope("anna", 1, ONE, Reference.empty(ONE)))
    assert (got.floats("weight") == np.float32(0.333984375)).all()
