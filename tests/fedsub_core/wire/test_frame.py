"""The outermost layer: nothing beyond the limit is opened, and no frame may lie of its size."""

import sys
import tracemalloc

import pytest
import zstandard

from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import MAGIC, compress, open_frame

LIMIT = 1 << 20
ENVELOPE = Envelope("anna", 7, {}, limit=LIMIT)


def opened(data: bytes, limit: int = LIMIT) -> bytes:
    return open_frame(data, limit, ENVELOPE.refuse)


def bomb(size: int = 256 << 20, says_so: bool = True) -> bytes:
    """Return a small frame that holds `size` zeros, made without ever holding them."""
    packer = zstandard.ZstdCompressor(write_content_size=says_so).compressobj(size=size)
    chunks = [packer.compress(bytes(1 << 20)) for _ in range(size >> 20)]
    return b"".join([*chunks, packer.flush()])


def stated(size: int, frame: bytes) -> bytes:
    """Return `frame`, which states its size in 4 or 8 bytes, with another size."""
    bytes_of_size = {2: 4, 3: 8}[frame[4] >> 6]
    start = 5 if frame[4] & 0x20 else 6  # a frame of a single segment names no window
    end = start + bytes_of_size
    return (
        frame[:4]
        + bytes([frame[4] | 0xC0])
        + frame[5:start]
        + size.to_bytes(8, "little")
        + (frame[end:])
    )


def refused_without_memory(data: bytes, complaint: str) -> None:
    """Check the complaint, what Python allocated and what the whole process did."""
    resource = pytest.importorskip("resource", reason="this platform does not count memory")
    opened(compress(b"warm up"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    try:
        with pytest.raises(MessageRefused, match=complaint):
            opened(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * LIMIT
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


def test_what_is_no_frame_stays_as_it_is() -> None:
    for data in (b"", b"\x08\x01", MAGIC[:3], b"x" * LIMIT):
        assert opened(data) == data


@pytest.mark.parametrize("size", [1, 255, 256, 70_000, LIMIT])
def test_a_frame_holds_what_was_put_in(size: int) -> None:
    data = bytes(i % 251 for i in range(size))
    frame = compress(data)
    assert frame[:4] == MAGIC
    assert zstandard.get_frame_parameters(frame).content_size == size
    assert opened(frame) == data


def test_the_limit_holds_before_anything_is_opened() -> None:
    with refused(MessageRefused, what="size", got=LIMIT + 1, expected=LIMIT):
        opened(MAGIC + bytes(LIMIT - 3))
    with pytest.raises(MessageRefused, match="size when decompressed: got 101 bytes") as caught:
        opened(compress(bytes(101)), limit=100)
    assert (caught.value.client, caught.value.round) == ("anna", 7)
    assert opened(compress(bytes(100)), limit=100) == bytes(100)


def test_a_frame_that_holds_too_much_and_says_so_takes_no_memory() -> None:
    assert len(bomb()) < LIMIT
    refused_without_memory(bomb(), "size when decompressed: got 268435456 bytes")


def test_a_frame_that_says_10_gib_takes_no_memory() -> None:
    data = stated(10 << 30, compress(bytes(1 << 18)))
    refused_without_memory(data, f"size when decompressed: got {10 << 30} bytes")


def test_a_frame_that_says_little_and_holds_much_takes_no_memory() -> None:
    for size in (0, 1, 100, LIMIT):
        refused_without_memory(stated(size, bomb()), "zstd frame|decompressed: got 0 bytes")


def test_a_frame_that_says_more_than_it_holds_is_refused() -> None:
    with pytest.raises(MessageRefused, match="zstd frame"):
        opened(stated(LIMIT, compress(bytes(1 << 18))))


def test_a_frame_that_states_no_size_takes_no_memory() -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=False)
    refused_without_memory(bomb(says_so=False), "size when decompressed")
    with pytest.raises(MessageRefused, match="size when decompressed"):
        opened(compressor.compress(b"small"))


def test_a_frame_that_asks_for_a_huge_window_takes_no_memory() -> None:
    # Frame header: size in 2 bytes, window of 2**41 bytes, 256 bytes of content, cut off there.
    refused_without_memory(MAGIC + b"\x40\xff\x00\x00", "zstd frame")


def test_a_truncated_frame_is_refused_at_every_length() -> None:
    frame = compress(bytes(range(256)) * 8)
    for length in range(4, len(frame)):
        with pytest.raises(MessageRefused, match=r"zstd frame|size when decompressed"):
            opened(frame[:length])


def test_data_after_the_frame_is_refused() -> None:
    frame = compress(b"message")
    for rest in (b"\0", frame, b"\x50\x2a\x4d\x18\0\0\0\0"):  # the last is a skippable frame
        with pytest.raises(MessageRefused, match="zstd frame"):
            opened(frame + rest)


def test_without_zstandard_both_sides_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = compress(b"message")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    for use, data in ((compress, b"message"), (opened, frame)):
        with pytest.raises(ConfigError, match=r"pip install 'fedsub\[zstd\]'"):
            use(data)
    assert opened(b"plain") == b"plain"
