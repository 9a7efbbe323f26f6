"""The outermost layer of a message: optional zstd, and the limit on what is opened at all."""

from __future__ import annotations

from typing import Any

from fedsub_core.extras import lacking
from fedsub_core.wire.numbers import Refuse

MAGIC = b"\x28\xb5\x2f\xfd"
LEVEL = 3


def compress(data: bytes) -> bytes:
    """Return `data` as one zstd frame that states its content size."""
    return bytes(_zstandard().ZstdCompressor(level=LEVEL).compress(data))


def is_frame(data: bytes) -> bool:
    """Whether a message is compressed."""
    return data[:4] == MAGIC


def open_whole(frame: bytes) -> bytes:
    """Return the bytes in a frame of our own; one that comes from outside: :func:`open_frame`."""
    return bytes(_zstandard().ZstdDecompressor().decompress(frame))


def open_frame(data: bytes, limit: int, refuse: Refuse) -> bytes:
    """Return a message's bytes, decompressed if they are a zstd frame.

    Neither a message nor what a frame says it holds may be larger than `limit` bytes; the size is
    checked before memory is taken.
    """
    if len(data) > limit:
        raise refuse("size", f"{len(data)} bytes", f"{limit} bytes at most")
    if not is_frame(data):
        return data
    zstandard = _zstandard()
    try:
        size = zstandard.get_frame_parameters(data).content_size
        # An unstated size reads as 2**64 - 1. Of a stated 0 zstandard would not open the rest.
        if not 0 < size <= limit:
            raise refuse("size when decompressed", f"{size} bytes", f"1 to {limit} bytes")
        opened = zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise refuse("zstd frame", f"{len(data)} bytes ({error})", "one whole frame") from error
    return bytes(opened)


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise lacking("a message or encoding of zstd", "zstandard") from error
    return zstandard
