"""What servers of sparse models share: masks over a model's weights, on the wire and in numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from fedsub_core import masks as share
from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle, Dense, Elements, Part

Masks = Mapping[str, Tensor]


def packed(model: Mapping[str, Tensor], masks: Masks) -> Bundle:
    """Return a model for the wire: of masked tensors what is not masked out, the others whole."""
    return Bundle(tensors={name: _part(tensor, masks.get(name)) for name, tensor in model.items()})


def _part(tensor: Tensor, mask: Tensor | None) -> Part:
    values = tensor.numpy()
    return Dense(values) if mask is None else Elements(mask.numpy(), values[mask.numpy()])


def whole(upload: Bundle) -> Bundle:
    """Return an upload whose tensors are whole, zero where they are masked out."""
    tensors: dict[str, Part] = {}
    for name, part in upload.tensors.items():
        if isinstance(part, Elements):
            values = np.zeros(part.mask.shape, np.float32)
            values[part.mask] = part.values
            part = Dense(values)
        tensors[name] = part
    return Bundle(upload.examples, upload.version, tensors, upload.reference)


def other_masks(upload: Bundle, masks: Masks) -> list[str]:
    """Return the names of tensors whose mask in an upload is not the one in `masks`."""
    found = []
    for name, mask in masks.items():
        part = upload.tensors[name]
        if not isinstance(part, Elements) or not np.array_equal(part.mask, mask.numpy()):
            found.append(name)
    return found


def sparsity_rows(round: int, model: Mapping[str, Tensor], masks: Masks) -> list[MetricRow]:
    """Return the share of zeros over the masked weights, and over all numbers of the model."""
    weights, numbers = share.sparsity(masks, model)
    return [
        MetricRow(round, "", None, "sparsity_weights", weights),
        MetricRow(round, "", None, "sparsity_all", numbers),
    ]
