"""Each kind of tensor in each encoding, and what a tensor's kind decides about its numbers."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.placement import Placement
from fedsub_core.wire import bundles
from fedsub_core.wire.bundles import Bits, Bundle, Declaration, Floats, Part, Whole
from fedsub_core.wire.codec import Address, decode_upload, encode_upload
from fedsub_core.wire.encoding import FORMATS, parse_encoding
from fedsub_core.wire.envelope import Envelope

Make = Callable[[str, Declaration], Any]
Drift = Callable[..., Iterator[Bundle]]
Declarations = dict[str, Declaration]

FILTERS = ("", "zstd", "delta", "delta,zstd", "delta,top-k:0.5", "delta,top-k:0.25,zstd")
ENCODINGS = [f"{numbers},{filters}" for numbers in FORMATS for filters in FILTERS]
#: Of numbers of size 3 at most, and of changes of a twentieth of that.
BOUND = {"float32": 0.0, "bfloat16": 0.02, "int8": 0.02}


@pytest.mark.parametrize("text", ENCODINGS)
def test_every_kind_goes_there_in_every_encoding(
    text: str, declarations: Declarations, drifting_bundles: Drift, exchange: Make
) -> None:
    kinds = declarations["kinds"]
    pair = exchange(text, kinds)
    bound = BOUND[text.partition(",")[0]]
    for upload in drifting_bundles(1, 6, kinds):
        got = pair.exchange(upload)
        for name, part in upload.tensors.items():
            other = got.tensors[name]
            assert type(other) is type(part)
            assert other.values.shape == part.values.shape
            if isinstance(part, Floats) and isinstance(other, Floats):
                assert other.at == part.at
            if kinds[name].exact or isinstance(part, Bits | Whole):
                np.testing.assert_array_equal(other.values, part.values)
            elif "top-k" not in text:
                assert np.abs(other.values - part.values).max(initial=0) <= bound, name
        if "delta" in text:
            pair.agree()


@pytest.mark.parametrize("text", ENCODINGS)
def test_a_sender_without_a_reference_is_understood(
    text: str, declarations: Declarations, drifting_bundles: Drift, exchange: Make
) -> None:
    kinds = declarations["kinds"]
    upload = next(drifting_bundles(2, 1, kinds))
    data = encode_upload(upload, Address("anna", 1), kinds, parse_encoding(text))
    got = decode_upload(data, Envelope("anna", 1, kinds))
    assert exchange(text, kinds).error(got, upload) <= BOUND[text.partition(",")[0]]


NOTHING = Placement(np.arange(0), np.arange(0))


def test_nothing_selected_is_something_too(exchange: Make) -> None:
    declared = {
        "rows": bundles.rows((6, 3)),
        "linear": bundles.sliced((4, 12), "rows"),
        "sparse": bundles.elements((4, 6)),
        "chosen": bundles.bits((2, 6)),
    }
    no_units = np.zeros(6, bool)
    tensors: dict[str, Part] = {
        "rows": Floats.rows(no_units, np.zeros((0, 3), np.float32)),
        "linear": Floats(np.zeros((0, 0), np.float32), NOTHING),
        "sparse": Floats.elements(np.zeros((4, 6), bool), np.zeros(0, np.float32)),
        "chosen": Bits(np.zeros((2, 6), bool)),
    }
    for text in ENCODINGS:
        pair, upload = exchange(text, declared), Bundle(1, tensors=tensors)
        for _ in range(2):
            pair.same(pair.exchange(upload), upload)


@pytest.mark.parametrize("text", ENCODINGS)
def test_exact_tensors_are_float32_whatever_the_encoding(text: str, exchange: Make) -> None:
    declared = {
        "counts": bundles.dense((3,), exact=True),
        "table": bundles.rows((2, 2), exact=True),
        "other": bundles.dense((3,)),
    }
    pair = exchange(text, declared)
    assert pair.device.tensors.keys() == {"other"}
    counts, table = np.array([1, 12345, 1 / 3], np.float32), np.array([[0.1, -7e5]], np.float32)
    for step in range(3):
        tensors: dict[str, Part] = {
            "counts": Floats(counts + np.float32(step)),
            "table": Floats.rows(np.array([False, True]), table),
            "other": Floats(counts),
        }
        upload = Bundle(1, tensors=tensors)
        data = pair.send(upload)
        first, second, _ = pair.parsed(data).tensors
        assert first.values == (counts + np.float32(step)).astype("<f4").tobytes()
        assert second.values == table.astype("<f4").tobytes()
        assert not (first.scales or first.sent or second.scales or second.sent)
        got = pair.receive(data)
        np.testing.assert_array_equal(got.floats("counts"), counts + np.float32(step))
        np.testing.assert_array_equal(got.floats("table"), table)


@pytest.mark.parametrize("text", ENCODINGS)
def test_whole_numbers_take_two_bytes_whatever_the_encoding(text: str, exchange: Make) -> None:
    declared = {"sums": bundles.whole((2, 2)), "other": bundles.dense((3,))}
    pair = exchange(text, declared)
    assert pair.device.tensors.keys() == {"other"}
    sums = np.array([[-(2**15), 2**15 - 1], [0, 258]], np.int16)
    for step in range(2):
        other = Floats(np.full(3, step, np.float32))
        upload = Bundle(1, tensors={"sums": Whole(sums), "other": other})
        data = pair.send(upload)
        (first, _) = pair.parsed(data).tensors
        assert first.values == bytes.fromhex("0080 ff7f 0000 0201")
        assert pair.receive(data).whole("sums").tobytes() == sums.tobytes()


def test_what_does_not_fit_whole_numbers_is_the_methods_fault() -> None:
    bundle = Bundle(1, tensors={"sums": Whole(np.zeros(2, np.int64))})
    with pytest.raises(TypeError, match="Cannot cast"):
        encode_upload(bundle, Address("anna", 1), {"sums": bundles.whole((2,))})


# Sliced: inputs follow another tensor's units.

CHANNELS, POSITIONS = 4, 3
FLATTENED: Declaration = {
    "conv": bundles.sliced((CHANNELS, 2, 5), ""),
    "linear": bundles.sliced((6, CHANNELS * POSITIONS), "conv"),
    "out": bundles.sliced((3, 6), "linear"),
}


def sub_model(conv: list[int], linear: list[int], seed: int = 0) -> dict[str, Part]:
    """Return the weights of a sub-model with these units."""
    rng = np.random.default_rng(seed)
    channels, units = np.isin(range(CHANNELS), conv), np.isin(range(6), linear)
    inputs = np.zeros(CHANNELS * POSITIONS, bool)
    for channel in conv:
        inputs[channel * POSITIONS : (channel + 1) * POSITIONS] = True
    outputs, columns = units.nonzero()[0], inputs.nonzero()[0]

    def weights(*shape: int) -> Any:
        return rng.standard_normal(shape, np.float32)

    return {
        "conv": Floats.rows(channels, weights(len(conv), 2, 5)),
        "linear": Floats(weights(len(linear), len(conv) * POSITIONS), Placement(outputs, columns)),
        "out": Floats(weights(3, len(linear)), Placement(np.arange(3), outputs)),
    }


@pytest.mark.parametrize("text", ["float32", "delta", "float32,delta,top-k:1"])
def test_inputs_follow_units_also_behind_flatten(text: str, exchange: Make) -> None:
    pair = exchange(text, FLATTENED)
    for conv, linear in (([0, 2], [1, 2, 5]), ([2], [0, 1]), ([0, 1, 2, 3], [1])):
        upload = Bundle(1, tensors=sub_model(conv, linear))
        data = pair.send(upload)
        assert len(pair.parsed(data).tensors[1].values) == 4 * len(linear) * len(conv) * POSITIONS
        pair.same(pair.receive(data), upload)
    # The reference is whole: every number that ever travelled stands at its place.
    if "delta" in text:
        assert (pair.server.tensors["conv"] != 0).all()
        known = np.zeros((6, CHANNELS * POSITIONS), bool)
        known[np.ix_([1, 2, 5], [0, 1, 2, 6, 7, 8])] = True
        known[np.ix_([0, 1], [6, 7, 8])] = True
        known[1] = True
        np.testing.assert_array_equal(pair.server.tensors["linear"] != 0, known)


def test_inputs_that_do_not_follow_are_the_methods_fault() -> None:
    tensors = sub_model([0, 2], [1, 2])
    linear = tensors["linear"]
    assert isinstance(linear, Floats) and linear.at.columns is not None
    other = replace(linear.at, columns=linear.at.columns + 1)
    tensors["linear"] = replace(linear, at=other)
    with refused(ValueError, "'linear'", "'conv'"):
        encode_upload(Bundle(1, tensors=tensors), Address("anna", 1), FLATTENED)
    alone = {"linear": linear}
    with pytest.raises(ValueError, match="inputs of linear: got none before it"):
        encode_upload(Bundle(1, tensors=alone), Address("anna", 1), FLATTENED)


def test_only_units_can_be_followed(exchange: Make) -> None:
    declared = {"a": bundles.dense((4, 2)), "b": bundles.sliced((2, 4), "a")}
    pair = exchange("float32", FLATTENED)
    message = pair.parsed(pair.send(Bundle(1, tensors=sub_model([0], [1]))))
    del message.tensors[1:]
    message.tensors[0].name, message.tensors[0].shape[:] = "a", [4, 2]
    message.tensors[0].units, message.tensors[0].values = b"", bytes(32)
    message.tensors.add(name="b", shape=[2, 4], units=b"\x03", values=bytes(32))
    with pytest.raises(MessageRefused, match="inputs of b: got none before it"):
        decode_upload(message.SerializeToString(), Envelope("anna", 1, declared))
