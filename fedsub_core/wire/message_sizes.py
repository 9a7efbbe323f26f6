"""How large Flower's messages are that carry our records."""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, MessageType

from fedsub_core.flower.messages import written_parts
from fedsub_core.wire.exchange import PAYLOAD, Content, pack, write

#: Flower's chunks of an array, bytes; and what a further chunk adds.
CHUNK, CHUNK_HEADER = 5 * 2**20, 90
_AROUND: dict[tuple[object, ...], int] = {}
_MOST_KINDS = 1000


def message_bytes(content: Content, payload: int) -> int:
    """Return the bytes of Flower's message around a payload of `payload` bytes, that included.

    What Flower hashes and sends: the message, its records, the array and its chunks. Their sizes
    hardly depend on the payload, so they are taken once from a message of the same records that
    carries one byte; a chunk of 5 MiB more adds a header of its own.
    """
    return payload + _bytes_around(content) + CHUNK_HEADER * (max(payload - 1, 0) // CHUNK)


def _bytes_around(content: Content) -> int:
    # What is asked for and told decides, not who came first in this process or in which round:
    # a run that resumes must count as one that never stopped.
    # Lists and texts count by their length: one device's long ones are not everybody's.
    kind = tuple(
        (name, tuple((key, _length(value)) for key, value in content[name].items()))
        for name in sorted(content)
        if name != PAYLOAD
    )
    if kind not in _AROUND:
        small = write({**content, PAYLOAD: pack(b"x")})
        for name, told in small.config_records.items():
            plain = {key: 1 if type(value) is int else value for key, value in told.items()}
            small[name] = ConfigRecord(plain)
        message = Message(small, 1, MessageType.TRAIN, group_id="1")
        size = sum(map(len, written_parts(message))) - 1
        if len(_AROUND) >= _MOST_KINDS:  # of keys that devices thought of
            _AROUND.clear()
        _AROUND[kind] = size
    return _AROUND[kind]


def _length(value: object) -> int:
    return len(value) if isinstance(value, str | bytes | list) else 0
