"""Sub-models on the wire: small, empty, out of order, and never with rows left out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.placement import Placement
from fedsub_core.wire import bundles
from fedsub_core.wire.bundles import Bits, Bundle, Declaration, Floats
from fedsub_core.wire.codec import Address, decode_upload, encode_upload
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.numbers import pack_bits

Make = Callable[[str, Declaration], Any]
TWO: Declaration = {"first": bundles.sliced((4, 3), ""), "second": bundles.sliced((2, 4), "first")}


def sub_model(units: list[int], seed: int = 0) -> dict[str, bundles.Part]:
    rng, kept = np.random.default_rng(seed), np.isin(range(4), units)
    first = rng.standard_normal((len(units), 3), np.float32)
    second = rng.standard_normal((2, len(units)), np.float32)
    both = Placement(np.arange(2), kept.nonzero()[0])
    return {"first": Floats.rows(kept, first), "second": Floats(second, both)}


@pytest.mark.parametrize("text", ["float32", "int8", "delta,int8", "bfloat16"])
def test_units_without_inputs_are_lines_without_numbers(text: str, exchange: Make) -> None:
    pair = exchange(text, TWO)
    for _ in range(2):
        got = pair.exchange(Bundle(1, tensors=sub_model([])))
        assert got.floats("second").shape == (2, 0)


def test_a_row_is_sent_whole_though_top_k_leaves_others_out(exchange: Make) -> None:
    """Other inputs of it may have been sent before: what was never sent must not decode as 0."""
    pair = exchange("delta,top-k:0.25,int8", TWO)
    for seed, units in enumerate(([0, 1], [1, 2], [3], [0, 1, 2, 3], [0, 1, 2, 3])):
        upload = Bundle(1, tensors=sub_model(units, seed))
        data = pair.send(upload)
        assert not any(tensor.sent for tensor in pair.parsed(data).tensors)
        got = pair.receive(data)
        pair.hear()
        for name in TWO:
            np.testing.assert_allclose(got.floats(name), upload.floats(name), atol=0.05)


def test_a_choice_of_a_sub_models_rows_is_refused(exchange: Make) -> None:
    pair = exchange("delta", TWO)
    pair.exchange(Bundle(1, tensors=sub_model([0, 1])))
    message = pair.parsed(pair.send(Bundle(1, tensors=sub_model([0, 1], 1))))
    message.tensors[0].sent = pack_bits(np.array([True, False]))
    envelope = Envelope("anna", 2, TWO, pair.server)
    with refused(MessageRefused, what="sent entries of first", got="a choice"):
        decode_upload(message.SerializeToString(), envelope)


def test_who_follows_must_come_behind() -> None:
    backwards = dict(reversed(sub_model([0, 2]).items()))
    with pytest.raises(ValueError, match="inputs of second: got none before it"):
        encode_upload(Bundle(1, tensors=backwards), Address("anna", 1), TWO)


def test_a_mask_has_no_choice_of_entries(exchange: Make) -> None:
    declared = {"classes": bundles.bits((6,))}
    pair = exchange("delta", declared)
    message = pair.parsed(pair.send(Bundle(1, tensors={"classes": Bits(np.ones(6, bool))})))
    message.tensors[0].sent = b"\x3f"
    with pytest.raises(MessageRefused, match="sent entries of classes: got 1 bytes"):
        decode_upload(message.SerializeToString(), Envelope("anna", 1, declared))


MASKED: Declaration = {
    "first.inputs": bundles.bits((3,)),
    "first": bundles.sliced((4, 3), "first.inputs"),
}


def masked(inputs: list[int], mask: list[int]) -> dict[str, bundles.Part]:
    at = Placement(np.array([1, 2]), np.array(inputs, np.int64))
    values = np.arange(2 * len(inputs), dtype=np.float32).reshape(2, len(inputs))
    return {"first.inputs": Bits(np.isin(range(3), mask)), "first": Floats(values, at)}


@pytest.mark.parametrize("text", ["float32", "delta,int8"])
@pytest.mark.parametrize("inputs", [[], [2], [0, 2], [0, 1, 2]])
def test_inputs_may_follow_a_mask(text: str, inputs: list[int], exchange: Make) -> None:
    got = exchange(text, MASKED).exchange(Bundle(1, tensors=masked(inputs, inputs)))
    assert got.part("first").at == Placement(np.array([1, 2]), np.array(inputs, np.int64))
    assert got.floats("first").shape == (2, len(inputs))


def test_other_inputs_than_the_masks_are_refused(exchange: Make) -> None:
    with refused(ValueError, "'first'", "'first.inputs'"):
        encode_upload(Bundle(1, tensors=masked([0], [1])), Address("anna", 1), MASKED)
    pair = exchange("float32", MASKED)
    message = pair.parsed(pair.send(Bundle(1, tensors=masked([0, 2], [0, 2]))))
    message.tensors[0].values = pack_bits(np.array([True, False, False]))
    with refused(MessageRefused, what="values of first, float32 [2, 1]", got="16 bytes"):
        decode_upload(message.SerializeToString(), Envelope("anna", 1, MASKED))
