"""A digest of tensors and text: a file that holds it is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def checksum(tensors: Mapping[str, Tensor], text: str = "") -> bytes:
    """Return a digest of named tensors, and of a text beside them."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.digest()
