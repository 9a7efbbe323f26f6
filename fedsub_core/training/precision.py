"""Mixed precision of forward passes: bfloat16 on a GPU, by PyTorch's autocast.

Parameters, their gradients and the optimiser's state stay float32. Cross-entropy is computed in
float32, too; a loss of one's own gets logits of bfloat16. That has float32's range, so no loss has
to be scaled.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from fedsub_core.errors import ConfigError
from fedsub_core.pytorch import torch

FLOAT32 = "float32"


def mixed(precision: str, device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which passes have a run's ``precision``.

    Raises ConfigError; as :func:`check_precision`.
    """
    check_precision(precision, device.type)
    if precision == FLOAT32:
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def check_precision(precision: str, device: str) -> None:
    """Raise a ConfigError if there is no GPU to have that precision on."""
    if precision != FLOAT32 and device != "cuda":
        raise ConfigError(
            f"precision: got {precision} on {device}, expected a GPU (device = cuda), or precision "
            f"= {FLOAT32}: on a CPU nothing would be faster"
        )
