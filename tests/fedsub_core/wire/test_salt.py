"""What a server sends over a network cannot be foretold, and says the same as without its salt."""

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fedsub_core.turn import Turn
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle, Floats, dense
from fedsub_core.wire.codec import Address, decode_download, encode_download
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.exchange import Instructions, read_instructions, salted

DECLARED = {"weight": dense((2, 2))}


def message(encoding: str, empty: bool) -> RecordDict:
    bundle = Bundle(tensors={} if empty else {"weight": Floats(np.ones((2, 2), np.float32))})
    payload = encode_download(bundle, Address("anna", 3), DECLARED, parse_encoding(encoding))
    turn = Instructions(Turn(3, 9, 0), "fedavg").record()
    return RecordDict({exchange.PAYLOAD: exchange.pack(payload), exchange.TURN: turn})


def objects(content: RecordDict) -> set[str]:
    """The ids of all that a message is made of."""
    return set(get_all_nested_objects(content))


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("encoding", ["float32", "zstd"])
def test_no_object_of_a_salted_message_is_one_of_another(encoding: str, empty: bool) -> None:
    content = message(encoding, empty)
    assert len(objects(content) & objects(message(encoding, empty))) >= 5  # what could be foretold
    one, two = salted(content), salted(content)
    assert not objects(one) & objects(two)
    assert not objects(one) & objects(content)


@pytest.mark.parametrize("encoding", ["float32", "zstd"])
def test_a_salted_message_says_the_same(encoding: str) -> None:
    content = message(encoding, empty=False)
    plain = dict(content.config_records[exchange.TURN]), exchange.unpack(content)
    received = salted(content)
    found = decode_download(exchange.unpack(received), Envelope("anna", 3, DECLARED))
    wanted = decode_download(exchange.unpack(content), Envelope("anna", 3, DECLARED))
    np.testing.assert_array_equal(found.tensors["weight"].values, wanted.tensors["weight"].values)
    told = read_instructions(received.config_records[exchange.TURN])
    assert told.record() == content.config_records[exchange.TURN]
    # The message itself stays as it is: it may have to be sent again.
    assert plain == (dict(content.config_records[exchange.TURN]), exchange.unpack(content))


def test_records_of_others_are_left_alone() -> None:
    content = RecordDict({"own": ConfigRecord({"a": 1}), "empty": ArrayRecord()})
    found = salted(content)
    assert list(found) == ["own", "empty"]
    own = dict(found.config_records["own"])
    salt = own.pop(exchange.SALT)
    assert isinstance(salt, bytes) and len(salt) == exchange.SALT_BYTES
    assert own == {"a": 1}
