"""Subnetworks as unit masks over one set of rows: select, upload, integrate (FedSub eq. 3).

All classes of a client share its one set of weights, so a class's subnetwork is which rows it
selects, and the union of the selected rows is sent once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedsub_core.models.architecture import LayerWithUnits
from fedsub_core.models.model import Model, Params
from fedsub_core.wire.bundles import Bundle, Floats

Masks = dict[str, Tensor]
#: Of a layer that a download does not name.
NO_ROWS = Floats.rows(np.zeros(0, np.bool_), np.zeros((0, 0), np.float32))


def unit_masks(relevance: Mapping[str, Tensor], held: Tensor, depth: int) -> Masks:
    """Return which units each class selects, ``bool [clients, classes, units]`` per layer.

    Parameters
    ----------
    relevance : dict of layer name to [clients, classes, units], from input to output.
    held : bool [clients, classes], classes of which the client has samples.
    depth : only the first `depth` layers; 0 = all.
    """
    layers = list(relevance.items())[: depth or None]
    return {name: (r > 0) & held.unsqueeze(2) for name, r in layers}


def layer_rows(params: Params, layer: LayerWithUnits) -> Tensor:
    """Return every unit's weights, flattened, and its bias: ``[clients, units, fan_in + 1]``."""
    weight, bias = params[f"{layer.name}.weight"], params[f"{layer.name}.bias"]
    return torch.cat((weight.flatten(2), bias.unsqueeze(2)), 2)


def union_rows(model: Model, params: Params, masks: Masks) -> list[dict[str, Floats]]:
    """Return for every client the rows that any of its classes selects, once."""
    clients = len(next(iter(params.values())))
    uploads: list[dict[str, Floats]] = [{} for _ in range(clients)]
    for layer in model.affine:
        if layer.name not in masks:
            continue
        union = masks[layer.name].any(1)
        units = union.cpu().numpy()
        selected = layer_rows(params, layer)[union].cpu().numpy()
        ends = np.cumsum(units.sum(1))[:-1]
        for upload, mask, rows in zip(uploads, units, np.split(selected, ends), strict=True):
            upload[layer.name] = Floats.rows(mask, rows)
    return uploads


def integrate(model: Model, params: Params, received: Sequence[Bundle]) -> Params:
    """Return the parameters with the rows that the downloads name, one download per client.

    Rows that are not named stay; parameters of layers that no download names are not copied.
    """
    updated = dict(params)
    for layer in model.affine:
        named = [b.part(layer.name) if layer.name in b.tensors else NO_ROWS for b in received]
        units = [part.at.held((layer.units,)) for part in named]
        rows = [part.values for part in named if part is not NO_ROWS]
        if not rows:
            continue
        weight, bias = f"{layer.name}.weight", f"{layer.name}.bias"
        where = torch.from_numpy(np.stack(units)).to(params[weight].device)
        new = torch.from_numpy(np.concatenate(rows)).to(params[weight])
        updated[weight] = params[weight].clone()
        updated[weight].flatten(2)[where] = new[:, :-1]
        updated[bias] = params[bias].clone()
        updated[bias][where] = new[:, -1]
    return updated
