"""A digest of tensors and text: a file that holds it is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from fedsub_core.pytorch import Tensor, torch


def checksum(tensors: Mapping[str, Tensor], text: str = "") -> bytes:
    """Return a digest of named tensors, and of a text beside them."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        kind = f"torch.{tensor.dtype}" if isinstance(tensor, np.ndarray) else tensor.dtype
        digest.update(f"{name} {kind} {list(tensor.shape)}".encode())
        if isinstance(tensor, np.ndarray):
            digest.update(tensor.tobytes())
        else:  # of kinds that NumPy does not know, too
            digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.digest()
