"""A whole model, as FedAvg sends it: every encoding applies to it, weights and biases alike."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.wire.bundles import BoolArray, Bundle, Declaration, Floats, Part, dense
from fedsub_core.wire.codec import Address, decode_download, encode_download
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.references import Reference

Make = Callable[[str, Declaration], Any]
Drift = Callable[..., Iterator[Bundle]]
SentEntries = Callable[[Any, int], BoolArray]
Declarations = dict[str, Declaration]

CHEAP = ("int8", "delta,int8,zstd", "delta,top-k:0.25,int8,zstd")


@pytest.mark.parametrize("text", CHEAP)
def test_a_model_that_trains_arrives_nearly_as_it_is(
    text: str, declarations: Declarations, exchange: Make, drifting_bundles: Drift
) -> None:
    model = declarations["model"]
    pair = exchange(text, model)
    # The steps of local training shrink; what is not sent at once follows.
    errors = []
    for step in (0.05, 0.02, 0.01, *[0.0] * 9):
        upload = next(drifting_bundles(1, 1, model, step=step))
        errors.append(pair.errors(pair.exchange(upload), upload))
    assert errors[0].keys() == model.keys()
    worst = [max(of_round.values()) for of_round in errors]
    assert worst[0] < 0.03
    assert worst[-1] < (0.03 if "delta" not in text else 1e-4)


@pytest.mark.parametrize("text", CHEAP)
def test_it_takes_a_quarter_of_the_bytes_or_less(
    text: str, declarations: Declarations, exchange: Make, drifting_bundles: Drift
) -> None:
    model = {"linear.weight": dense((64, 128)), "linear.bias": dense((64,))}
    pair, plain = exchange(text, model), exchange("float32", model)
    share = 0.3 if "top-k" not in text else 0.1
    for round, upload in enumerate(drifting_bundles(2, 3, model), start=1):
        data, exact = pair.send(upload), plain.send(upload)
        pair.receive(data)
        if round > 1:  # at first there is nothing to differ from, and all of it is sent
            assert len(data) < share * len(exact)


def test_biases_are_one_line_of_int8(exchange: Make) -> None:
    model = {"weight": dense((3, 4)), "kernel": dense((2, 3, 5)), "bias": dense((6,))}
    bias = np.array([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0], np.float32)
    pair = exchange("int8", model)
    tensors: dict[str, Part] = {
        "weight": Floats(np.arange(12, dtype=np.float32).reshape(3, 4)),
        "kernel": Floats(np.arange(30, dtype=np.float32).reshape(2, 3, 5)),
        "bias": Floats(bias),
    }
    data = pair.send(Bundle(1, tensors=tensors))
    weight, kernel, one_line = pair.parsed(data).tensors
    # A scale and an offset for each row of a matrix and each channel of a kernel.
    assert (len(weight.scales), len(weight.values)) == (3 * 8, 12)
    assert (len(kernel.scales), len(kernel.values)) == (2 * 8, 30)
    assert (len(one_line.scales), len(one_line.values)) == (8, 6)
    np.testing.assert_allclose(np.frombuffer(one_line.scales, "<f4"), [2 / 255, -1], rtol=1e-6)
    assert list(one_line.values) == [0, 51, 102, 153, 204, 255]
    np.testing.assert_allclose(pair.receive(data).floats("bias"), bias, atol=1e-6)


def test_top_k_chooses_rows_of_weights_and_single_biases(
    exchange: Make, sent_entries: SentEntries
) -> None:
    model = {"weight": dense((4, 3)), "bias": dense((8,))}
    pair = exchange("delta,top-k:0.25", model)
    weight, bias = np.ones((4, 3), np.float32), np.arange(1, 9, dtype=np.float32)
    pair.exchange(Bundle(1, tensors={"weight": Floats(weight), "bias": Floats(bias)}))
    moved, shifted = weight.copy(), bias.copy()
    moved[2] += 0.5
    moved[:, 0] += 0.1
    shifted[[1, 6]] += [3, -2]
    shifted[4] += 0.1
    data = pair.send(Bundle(1, tensors={"weight": Floats(moved), "bias": Floats(shifted)}))
    rows, numbers = pair.parsed(data).tensors
    assert sent_entries(rows, 4).tolist() == [False, False, True, False]
    assert np.flatnonzero(sent_entries(numbers, 8)).tolist() == [1, 6]
    assert (len(rows.values), len(numbers.values)) == (3 * 4, 2 * 4)
    got = pair.receive(data)
    weight[2], bias[[1, 6]] = moved[2], shifted[[1, 6]]
    np.testing.assert_array_equal(got.floats("weight"), weight)
    np.testing.assert_array_equal(got.floats("bias"), bias)


def test_the_global_model_comes_as_differences_from_ones_own(
    declarations: Declarations, exchange: Make, drifting_bundles: Drift
) -> None:
    model = declarations["model"]
    pair = exchange("delta,int8,zstd", model)
    own, mean = drifting_bundles(3, 2, model)
    pair.exchange(own)
    address, envelope = Address("anna", 2), Envelope("anna", 2, model, pair.device)
    for text, bound in (("delta", 0.0), ("delta,zstd", 0.0), ("delta,int8", 2e-3)):
        data = encode_download(mean, address, model, parse_encoding(text), pair.server)
        assert pair.error(decode_download(data, envelope), mean) <= bound


def test_what_only_travels_down_is_absolute_under_differences(
    exchange: Make, drifting_bundles: Drift
) -> None:
    sends = {"body": dense((4, 3)), "bias": dense((4,)), "score": dense((2,), exact=True)}
    receives = {**sends, "teacher": dense((2, 3)), "control": dense((5,))}
    pair = exchange("delta", sends)
    assert pair.device.tensors.keys() == {"body", "bias"}
    upload, _ = drifting_bundles(4, 2, sends)
    pair.exchange(upload)
    _, download = drifting_bundles(4, 2, receives)
    data = encode_download(download, Address("anna", 2), receives, pair.encoding, pair.server)
    message = pair.parsed(data)
    assert (message.differences, message.reference) == (True, 1)
    for tensor in message.tensors:
        plain = download.floats(tensor.name).astype("<f4").tobytes()
        absolute = tensor.name in ("teacher", "control", "score")
        assert (tensor.values == plain) == absolute, tensor.name
    pair.same(decode_download(data, Envelope("anna", 2, receives, pair.device)), download)


def test_a_device_that_cannot_read_a_whole_model_refuses_and_is_sent_all_anew(
    declarations: Declarations, exchange: Make, drifting_bundles: Drift
) -> None:
    model = declarations["model"]
    pair = exchange("delta", model)
    own, mean = drifting_bundles(5, 2, model)
    pair.exchange(own)
    address = Address("anna", 2)
    data = encode_download(mean, address, model, pair.encoding, pair.server)
    for lost in (None, Reference.empty(model), Reference(9, pair.device.tensors)):
        held = 0 if lost is None else lost.round
        with refused(MessageRefused, what="reference", got="round 1", expected=f"round {held}"):
            decode_download(data, Envelope("anna", 2, model, lost))
    # The server forgets its reference of whoever refuses: strategies/rounds/transport.py.
    anew = encode_download(mean, address, model, pair.encoding, None)
    pair.same(decode_download(anew, Envelope("anna", 2, model, Reference.empty(model))), mean)
