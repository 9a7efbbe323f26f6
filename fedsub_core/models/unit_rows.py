"""What each unit of a layer has of a model's tensors, side by side."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_core.models.architecture import UnitRows
from fedsub_core.models.model import Params


def unit_rows(params: Params, rows: UnitRows) -> Tensor:
    """Return what every unit has of some tensors, side by side: ``[clients, units, width]``."""
    parts = [by_unit(params[name], rows.gates).flatten(2) for name in rows.tensors]
    return torch.cat(parts, 2)


def by_unit(tensor: Tensor, gates: int) -> Tensor:
    """View a tensor ``[clients, gates * units, ...]`` as ``[clients, units, gates, numbers]``."""
    clients, entries = tensor.shape[:2]
    return tensor.view(clients, gates, entries // gates, -1).transpose(1, 2)
