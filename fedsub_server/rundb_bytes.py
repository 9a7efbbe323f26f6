"""What stands in a run's database as bytes: tensors, and the checksums of metrics."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping

import torch
from safetensors.torch import save as save_tensors
from torch import Tensor


def checksum(rows: Iterable[tuple[int, str, int, str, float | None]]) -> int:
    """Return the CRC of metrics as SQLite gives them back: nan as None, and no zero below 0."""
    crc = 0
    for *what, value in sorted(rows, key=lambda row: row[:4]):
        kept = None if value is None or math.isnan(value) else value + 0.0
        crc = zlib.crc32(repr((what, kept)).encode(), crc)
    return crc


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Serialise named tensors; copying makes views of a stack plain tensors of their own."""
    return save_tensors(
        {
            name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }
    )
