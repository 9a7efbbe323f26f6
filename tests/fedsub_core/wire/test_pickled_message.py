"""Messages that are not written yet go to another process as they are, and say the same there."""

import pickle

import numpy as np
import pytest

from fedsub_core.wire.bundles import Bundle, Floats, dense
from fedsub_core.wire.codec import Address, compose_upload
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.lazy_message import LazyMessage

VALUES = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
DECLARED = {"w": dense((40, 50))}


@pytest.mark.parametrize("encoding", ["float32", "bfloat16", "int8", "int8,zstd"])
def test_a_pickled_message_has_the_bytes_of_the_first(encoding: str) -> None:
    bundle = Bundle(7, tensors={"w": Floats(VALUES)})
    message = compose_upload(bundle, Address("p1", 3), DECLARED, parse_encoding(encoding))
    data = pickle.dumps(message)
    found: LazyMessage = pickle.loads(data)
    assert found.to_bytes() == message.to_bytes() and len(found) == len(message)


def test_what_many_are_sent_is_pickled_once() -> None:
    bundle = Bundle(7, tensors={"w": Floats(VALUES)})
    first = compose_upload(bundle, Address("p0", 3), DECLARED)
    many = [LazyMessage(first.header, first.tensors) for _ in range(20)]
    assert len(pickle.dumps(many)) < 1.1 * VALUES.nbytes + 20 * 200
