"""Messages made to take memory or to fill a log are refused for little of either."""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from time import process_time

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.wire.bundles import Bundle, dense
from fedsub_core.wire.codec import decode_download, decode_upload
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.v2 import exchange_pb2 as pb

ROUND = 7
ENVELOPE = Envelope("anna", ROUND, {"weight": dense((2, 2))}, limit=1 << 20)


@pytest.mark.parametrize("empty", [b"\x4a\x00", b"\x4a\x02\x12\x00", b"\x4a\x02\x3a\x00"])
@pytest.mark.parametrize("decode", [decode_upload, decode_download])
def test_a_message_full_of_empty_parts_is_refused_in_little_memory(
    empty: bytes, decode: Callable[[bytes, Envelope], Bundle]
) -> None:
    resource = pytest.importorskip("resource", reason="this platform does not count memory")
    head = pb.Bundle(schema_version=2, client_id="anna", round=ROUND).SerializeToString()
    data = head + empty * ((ENVELOPE.limit - len(head)) // len(empty))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time()
    with pytest.raises(MessageRefused, match="tensors: got"):
        decode(data, ENVELOPE)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024  # KiB
    assert process_time() - start < 2


def test_a_shape_of_many_axes_is_refused_in_little_memory() -> None:
    tensor = pb.Tensor(name="weight", shape=[1] * 500_000)
    data = pb.Bundle(schema_version=2, client_id="anna", round=ROUND, tensors=[tensor])
    tracemalloc.start()
    try:
        with pytest.raises(MessageRefused, match="shape of weight") as caught:
            decode_upload(data.SerializeToString(), ENVELOPE)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 400


def test_a_refusal_quotes_little_of_a_hostile_message() -> None:
    data = pb.Bundle(schema_version=2, client_id="x" * (1 << 19)).SerializeToString()
    with refused(MessageRefused, "524290 characters", what="client id") as caught:
        decode_upload(data, ENVELOPE)
    assert len(str(caught.value)) < 400
    with pytest.raises(MessageRefused, match="size: got"):
        decode_upload(data, replace(ENVELOPE, limit=1 << 18))
    name = pb.Bundle(schema_version=2, client_id="anna", round=ROUND)
    name.tensors.add(name="y" * (1 << 19))
    with pytest.raises(MessageRefused, match=r"tensor: got 'y+\.\.\. \(524290 char") as caught:
        decode_upload(name.SerializeToString(), ENVELOPE)
    assert len(str(caught.value)) < 400
