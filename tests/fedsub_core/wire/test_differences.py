"""Rounds of uploads: exact where they say so, and what is lost otherwise does not add up."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.wire.bundles import BoolArray, Bundle, Declaration, Floats, Kind, dense
from fedsub_core.wire.codec import Address, decode_upload, encode_upload
from fedsub_core.wire.envelope import Envelope

Make = Callable[[str, Declaration], Any]
Drift = Callable[..., Iterator[Bundle]]
SentEntries = Callable[[Any, int], BoolArray]

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
    text: str, declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange(text, declared)
    for upload in drifting_bundles(1, 6, declared):
        pair.same(pair.exchange(upload), upload)
        pair.agree()


def test_small_changes_make_small_messages(
    declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair, sizes = exchange("delta,zstd", declared), []
    upload = next(drifting_bundles(1, 1, declared, share=1.0))
    for _ in range(2):
        data = pair.send(upload)
        pair.receive(data)
        sizes.append(len(data))
    fixed = sum(len(name) + 30 + one.shape[0] for name, one in declared.items())
    # Nothing changed: only names, shapes, masks and what is exact are left.
    assert sizes[1] < fixed < sizes[0]


@pytest.mark.parametrize("text", LOSSY)
def test_device_and_server_remember_the_same_bits(
    text: str, declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange(text, declared)
    for upload in drifting_bundles(2, 12, declared):
        pair.exchange(upload)
        pair.agree()


@pytest.mark.parametrize(("text", "bound"), [("int8,delta", 0.02), ("bfloat16,delta", 0.02)])
def test_lossy_differences_do_not_add_up_their_errors(
    text: str, bound: float, declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange(text, declared)
    uploads = drifting_bundles(3, 40, declared)
    errors = [pair.error(pair.exchange(upload), upload) for upload in uploads]
    assert max(errors) < bound
    assert np.mean(errors[30:]) < 1.5 * np.mean(errors[:10])


@pytest.mark.parametrize("text", LOSSY)
def test_numbers_that_stay_are_reached(
    text: str, declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange(text, declared)
    upload = next(drifting_bundles(4, 1, declared))
    errors = [pair.error(pair.exchange(upload), upload) for _ in range(12)]
    assert errors[-1] < 1e-6
    assert all(b <= a for a, b in pairwise(errors))


@pytest.mark.parametrize("text", ["int8", "bfloat16", "int8,zstd"])
def test_without_differences_the_mean_of_decoded_numbers_approaches_the_numbers(
    text: str, declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange(text, declared)
    upload = next(drifting_bundles(5, 1, declared))
    rounds = [pair.exchange(upload) for _ in range(64)]
    first = pair.errors(rounds[0], upload)
    # A device without a memory repeats its first error for ever.
    address, envelope = Address("anna", 1), Envelope("anna", 1, declared)
    alone = decode_upload(encode_upload(upload, address, declared, pair.encoding), envelope)
    assert pair.errors(alone, upload) == first
    assert max(first.values()) > 1e-3
    for name, error in first.items():
        mean = np.mean([bundle.floats(name) for bundle in rounds], axis=0, dtype=np.float64)
        # What is owed after n rounds is about one rounding error, so the mean is off by 1/n of it.
        assert np.abs(mean - upload.floats(name)).max(initial=0) < 2 * error / len(rounds) + 1e-6


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
    text: str, worst: float, declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange(text, declared)
    good = next(drifting_bundles(6, 1, declared))
    pair.exchange(good)
    name = next(n for n, d in declared.items() if not d.exact and d.kind is not Kind.BITS)
    part: Any = good.tensors[name]
    values = part.values.copy()
    values.reshape(-1)[:2] = worst, -worst
    bad = replace(good, tensors={**good.tensors, name: replace(part, values=values)})
    with pytest.raises(MessageRefused, match=f"{name}: got NaN, infinite or huge"):
        pair.receive(pair.send(bad))
    if pair.encoding.delta:
        pair.hear()
    assert pair.error(pair.exchange(good), good) < 0.1


def test_float32_without_differences_is_exact_with_a_reference_too(exchange: Make) -> None:
    pair = exchange("zstd", {"row": dense((1, 7))})
    values = np.array([[-0.0, 1e-45, 1, 2, 3, -1e6, 0.1]], np.float32)
    upload = Bundle(1, tensors={"row": Floats(values)})
    for _ in range(2):
        pair.same(pair.exchange(upload), upload)


# Top-k.


def test_top_k_sends_a_share_of_the_known_entries_and_all_new_ones(
    declared: Declaration, exchange: Make, drifting_bundles: Drift, sent_entries: SentEntries
) -> None:
    pair = exchange("delta,top-k:0.25", declared)
    for upload in drifting_bundles(7, 8, declared):
        before = pair.server.copy()
        data = pair.send(upload)
        parts = {n: p for n, p in upload.tensors.items() if isinstance(p, Floats)}
        held = {n: parts[n].at.take(t) for n, t in before.tensors.items()}
        for tensor in pair.parsed(data).tensors:
            name = tensor.name
            # Of a sub-model's row other inputs may have been sent before: it is sent whole.
            if name not in held or declared[name].kind is Kind.SLICED:
                assert not tensor.sent
                continue
            values, old = upload.floats(name), held[name]
            changes = (values - old).reshape(len(values), -1)
            known = old.reshape(changes.shape).any(axis=1)
            sent = sent_entries(tensor, len(values))
            assert sent[~known].all()
            assert sent[known].sum() == ceil(0.25 * known.sum())
            assert len(tensor.values) == 4 * sent.sum() * changes.shape[1]
            changed = np.linalg.norm(changes, axis=1)
            if (known & ~sent).any() and (known & sent).any():
                assert changed[known & sent].min() >= changed[known & ~sent].max()
        got = pair.receive(data)
        for name, old in held.items():  # what was not sent is the reference's
            left = got.floats(name) != upload.floats(name)
            np.testing.assert_array_equal(got.floats(name)[left], old[left])


def test_entries_that_were_never_sent_cannot_be_left_out(
    declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange("delta,top-k:0.25", declared)
    message = pair.parsed(pair.send(next(drifting_bundles(8, 1, declared))))
    tensor = next(t for t in message.tensors if t.sent)
    tensor.sent, tensor.values = bytes(len(tensor.sent)), b""
    with refused(MessageRefused, what=f"sent entries of {tensor.name}"):
        pair.receive(message.SerializeToString())


def test_of_an_exact_tensor_nothing_can_be_left_out(
    exchange: Make, drifting_bundles: Drift
) -> None:
    declared = {"weight": dense((4, 3)), "counts": dense((4,), exact=True)}
    pair = exchange("delta,top-k:0.5", declared)
    first, second = drifting_bundles(9, 2, declared)
    pair.exchange(first)
    message = pair.parsed(pair.send(second))
    message.tensors[1].sent, message.tensors[1].values = b"\x01", bytes(4)
    with refused(MessageRefused, what="sent entries of counts", got="a choice"):
        pair.receive(message.SerializeToString())
