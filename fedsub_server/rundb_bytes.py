"""What stands in a run's database as bytes: tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from safetensors.torch import save as save_tensors
from torch import Tensor


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Serialise named tensors; copying makes views of a stack plain tensors of their own."""
    return save_tensors(
        {
            name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }
    )
