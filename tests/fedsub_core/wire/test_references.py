"""What differences are from: after lost messages and lost references, and in downloads."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.methods.fedsub import FedSubHyperparameters
from fedsub_core.methods.table import method
from fedsub_core.models.kinds import mlp
from fedsub_core.wire.bundles import Bundle, Declaration, dense
from fedsub_core.wire.codec import (
    Address,
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import Encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.references import Reference, reference_tensors, split_references
from fedsub_core.wire.v2 import exchange_pb2 as pb

Make = Callable[[str, Declaration], Any]
Drift = Callable[..., Iterator[Bundle]]

MODEL = mlp(6, 4, hidden=(16, 8))
FEDSUB_DOWN = method("fedsub").receives(MODEL, FedSubHyperparameters())


# Lost messages and lost references.


@pytest.mark.parametrize("text", ["delta", "int8,delta", "bfloat16,delta,top-k:0.5,zstd"])
def test_a_lost_upload_heals_with_the_next(
    text: str, declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange(text, declared)
    for i, upload in enumerate(drifting_bundles(9, 12, declared, share=0.5)):
        pair.hear()
        data = pair.send(upload)
        if i % 3 == 2:
            continue  # the server never gets it
        assert pair.parsed(data).reference == (0 if i % 3 == 0 else pair.round - 1)
        got = pair.receive(data)
        pair.agree()
        for name, error in pair.errors(got, upload).items():
            assert error < (1e-9 if text == "delta" else 0.5), name


def test_a_device_that_did_not_hear_of_the_loss_is_refused(
    declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange("int8,delta", declared)
    first, second, third = drifting_bundles(10, 3, declared)
    pair.exchange(first)
    pair.send(second)
    with refused(MessageRefused, what="reference", got="round 2", expected=["round 1", 0]):
        pair.receive(pair.send(third))


@pytest.mark.parametrize("text", ["delta", "int8,delta"])
@pytest.mark.parametrize("side", ["server", "device"])
def test_a_side_that_lost_its_reference_gets_a_full_upload(
    text: str, side: str, declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange(text, declared)
    first, second, third = drifting_bundles(11, 3, declared, share=0.5)
    pair.exchange(first)
    setattr(pair, side, Reference.empty(declared))
    if side == "server":
        device, again = pair.device.copy(), Address("anna", 1)
        data = encode_upload(second, again, declared, pair.encoding, device)
        with refused(MessageRefused, what="reference", got="round 1", expected=["round 0", 0]):
            pair.receive(data)
    for upload in (second, third):
        pair.hear()
        got = pair.exchange(upload)
        pair.agree()
        assert pair.error(got, upload) < 0.05
    assert got.reference == 2


def test_the_first_differences_are_from_zeros_and_need_no_reference(
    declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange("delta", declared)
    upload = next(drifting_bundles(12, 1, declared))
    got = decode_upload(pair.send(upload), Envelope("anna", 1, declared))
    pair.same(got, upload)
    assert got.reference == 0


def test_an_absolute_upload_is_a_new_reference(
    declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange("delta", declared)
    first, second = drifting_bundles(13, 2, declared, share=0.5)
    pair.exchange(first)
    pair.round += 1
    got = pair.receive(encode_upload(second, Address("anna", 2), declared))
    assert got.reference == 0
    fresh = Reference.empty(declared)
    fresh.remember(second, 2)  # of what only the first upload held, nothing is left
    assert pair.server.round == 2
    for name, tensor in fresh.tensors.items():
        np.testing.assert_array_equal(pair.server.tensors[name], tensor)


# Downloads.


@pytest.mark.parametrize(("text", "bound"), [("delta", 0.0), ("int8,delta,zstd", 0.02)])
def test_downloads_are_differences_from_the_last_upload(
    text: str, bound: float, declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange(text, declared)
    first, fused = drifting_bundles(13, 2, declared)
    pair.exchange(first)
    before = pair.server.copy()
    data = encode_download(fused, Address("anna", 2), declared, pair.encoding, pair.server)
    got = decode_download(data, Envelope("anna", 2, declared, pair.device))
    assert (got.reference, got.version) == (1, fused.version)
    assert pair.error(got, fused) <= bound
    for name, tensor in before.tensors.items():  # a download changes no reference
        assert pair.server.tensors[name].tobytes() == tensor.tobytes()
    assert pair.device.round == 1
    pair.agree()


def test_a_device_with_another_reference_does_without_optional_tensors(
    exchange: Make, drifting_bundles: Drift
) -> None:
    pair = exchange("delta", FEDSUB_DOWN)
    first, fused = drifting_bundles(14, 2, FEDSUB_DOWN)
    pair.exchange(first)
    data = encode_download(fused, Address("anna", 2), FEDSUB_DOWN, pair.encoding, pair.server)
    for lost in (None, Reference.empty(FEDSUB_DOWN), Reference(9, pair.device.tensors)):
        got = decode_download(data, Envelope("anna", 2, FEDSUB_DOWN, lost))
        assert (got.tensors, got.reference, got.version) == ({}, 1, fused.version)


def test_before_the_first_upload_downloads_are_whole(
    declared: Declaration, exchange: Make, drifting_bundles: Drift
) -> None:
    fused = next(drifting_bundles(15, 1, declared))
    address = Address("anna", 1)
    for reference in (None, Reference.empty(declared)):
        data = encode_download(fused, address, declared, Encoding(delta=True), reference)
        envelope = Envelope("anna", 1, declared, Reference.empty(declared))
        got = decode_download(data, envelope)
        assert got.reference == 0
        exchange("delta", declared).same(got, fused)


def test_download_differences_from_no_upload_are_refused() -> None:
    data = pb.Bundle(schema_version=2, client_id="anna", round=1, differences=True)
    with pytest.raises(MessageRefused, match="reference: got differences from none"):
        decode_download(data.SerializeToString(), Envelope("anna", 1, {}))


def test_a_choice_of_entries_is_for_uploads_alone() -> None:
    declared = {"weight": dense((3, 2))}
    tensor = pb.Tensor(name="weight", shape=[3, 2], values=bytes(8), sent=b"\x01")
    data = pb.Bundle(schema_version=2, client_id="anna", round=1, tensors=[tensor])
    with refused(MessageRefused, what="sent entries", got="a choice", expected="all"):
        decode_download(data.SerializeToString(), Envelope("anna", 1, declared))


# State.


def test_a_reference_holds_what_a_device_sends_and_is_not_exact(declared: Declaration) -> None:
    names = {"classes", "scores", "chosen", "counts", "tally", "sums"}
    names |= {name for name in declared if name.endswith(".masks")}
    reference = Reference.empty(declared)
    assert reference.tensors.keys() == declared.keys() - names
    assert all(t.shape == declared[name].shape for name, t in reference.tensors.items())


def test_a_reference_survives_beside_a_learners_tensors(
    declared: Declaration, drifting_bundles: Drift
) -> None:
    reference = Reference.empty(declared)
    reference.remember(next(drifting_bundles(16, 1, declared)), 3)
    state = reference.state()
    assert {name.partition(".")[0] for name in state} == {"wire"}
    own = {"model.linear1.weight": torch.ones(2), "wires": torch.ones(1)}
    back = Reference.of(state | own)
    assert (back.round, back.tensors.keys()) == (3, reference.tensors.keys())
    for name, tensor in reference.tensors.items():
        assert back.tensors[name].tobytes() == tensor.tobytes()


def test_references_of_any_client_survive_as_named_tensors(
    declared: Declaration, drifting_bundles: Drift
) -> None:
    declared = {**declared, "head/0.weight": dense((2, 3))}
    references = {}
    clients = ("anna", "ward-3.bed_2", "wire.round")
    bundles = drifting_bundles(17, len(clients), declared)
    for round, (client, bundle) in enumerate(zip(clients, bundles, strict=True)):
        references[client] = Reference.empty(declared)
        references[client].remember(bundle, round)
    tensors = reference_tensors(references) | {"cache": torch.ones(1)}
    back, others = split_references(tensors)
    assert others.keys() == {"cache"}
    assert back.keys() == references.keys()
    for client, reference in references.items():
        assert back[client].round == reference.round
        assert back[client].tensors.keys() == reference.tensors.keys()
        for name, tensor in reference.tensors.items():
            np.testing.assert_array_equal(back[client].tensors[name], tensor)
