"""What servers of sparse models share: masks over a model's weights, on the wire and in numbers."""

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor

from fedsub_core.metrics import MetricRow
from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers import masks as share

Masks = Mapping[str, Tensor]


def packed(model: Mapping[str, Tensor], masks: Masks) -> Bundle:
    """Return a model for the wire: of masked tensors what is not masked out, the others whole."""
    places = {name: Placement(elements=mask.numpy()) for name, mask in masks.items()}
    return Bundle(
        tensors={name: Floats.of(t.numpy(), places.get(name)) for name, t in model.items()}
    )


def whole(upload: Bundle) -> Bundle:
    """Return an upload whose tensors are whole, zero where they are masked out."""
    tensors = {
        name: Floats(part.at.spread(part.values, part.at.elements.shape))
        if isinstance(part, Floats) and part.at.elements is not None
        else part
        for name, part in upload.tensors.items()
    }
    return replace(upload, tensors=tensors)


def other_masks(upload: Bundle, masks: Masks) -> list[str]:
    """Return the names of tensors whose mask in an upload is not the one in `masks`."""
    sent = {name: upload.part(name).at for name in masks}
    return [n for n, mask in masks.items() if sent[n] != Placement(elements=mask.numpy())]


def sparsity_rows(round: int, model: Mapping[str, Tensor], masks: Masks) -> list[MetricRow]:
    """Return the share of zeros over the masked weights, and over all numbers of the model."""
    weights, numbers = share.sparsity(masks, model)
    return [
        MetricRow(round, "", None, "sparsity_weights", weights),
        MetricRow(round, "", None, "sparsity_all", numbers),
    ]
