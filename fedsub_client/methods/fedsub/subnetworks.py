"""Subnetworks as unit masks over one set of rows: select, score, upload, integrate (FedSub eq. 3).

All classes of a client share its one set of weights, so a class's subnetwork is which rows it
selects, and the union of the selected rows is sent once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.methods.fedsub import SCORES
from fedsub_core.models.model import Model, Params, by_unit
from fedsub_core.models.units import units_of
from fedsub_core.wire.bundles import Bundle, Floats

Masks = dict[str, Tensor]
#: Of a layer that a download does not name.
NO_ROWS = Floats.rows(np.zeros(0, np.bool_), np.zeros((0, 0), np.float32))


def first_units_of(whole: Model, part: Model, clients: int, seed: int) -> Params:
    """Return the first model of a `whole` one's first units, which are a `part`, of all clients."""
    units = units_of(whole.unit_groups, part.tensor_shapes)
    _, places = whole.narrow(units)
    start = whole.init(1, seed)
    return {
        name: places[name].take(tensor, 1).expand(clients, *shape).clone()
        for (name, tensor), shape in zip(start.items(), part.tensor_shapes.values(), strict=True)
    }


def unit_masks(relevance: Mapping[str, Tensor], held: Tensor, depth: int) -> Masks:
    """Return the units that each class selects, ``bool [clients, classes, units]`` per layer.

    Parameters
    ----------
    relevance : dict of layer name to [clients, classes, units], from input to output.
    held : bool [clients, classes], classes of which the client has samples.
    depth : only the first `depth` layers; 0 = all.
    """
    layers = list(relevance.items())[: depth or None]
    return {name: (r > 0) & held.unsqueeze(2) for name, r in layers}


def class_scores(kind: str, logits: Tensor, judged: Stack, data: Stack) -> Tensor:
    """Return omega float32 [clients, classes], zero for a class the client lacks.

    Parameters
    ----------
    kind : ``one``, ``samples`` (of the class), ``accuracy`` (share of the class's samples that
        the client's model recognises) or ``accuracy-samples`` (their number).
    logits : [clients, samples, classes], of `judged`.
    judged : what accuracy is counted on, all of `data` or a part of it.
    data : the client's own samples.
    """
    if kind not in SCORES:
        raise ConfigError(f"score: got {kind!r}, expected one of {', '.join(SCORES)}")
    samples = data.class_counts(logits.shape[2]).to(logits.dtype)
    if kind == "one":
        return (samples > 0).to(logits.dtype)
    if kind == "samples":
        return samples
    of_class = judged.of_class(logits.shape[2])
    right = (logits.argmax(2) == judged.y).unsqueeze(2)
    recognised, seen = (of_class * right).sum(1).to(logits.dtype), of_class.sum(1).clamp(min=1)
    # Where all are judged the quotient is 1, and the number of recognised ones exact.
    return recognised * (samples / seen) if kind == "accuracy-samples" else recognised / seen


def union_rows(model: Model, params: Params, masks: Masks) -> list[dict[str, Floats]]:
    """Return for every client the rows that any of its classes selects, once."""
    clients = len(next(iter(params.values())))
    uploads: list[dict[str, Floats]] = [{} for _ in range(clients)]
    for layer in model.affine:
        if layer.name not in masks:
            continue
        union = masks[layer.name].any(1)
        units, places = union.cpu().numpy(), union.flatten().nonzero().flatten()
        ends = np.cumsum(units.sum(1))[:-1]
        for rows in layer.rows:
            every = (by_unit(params[name], rows.gates).flatten(2) for name in rows.tensors)
            # By indices: several times as fast as by the mask.
            parts = [tensor.flatten(0, 1).index_select(0, places) for tensor in every]
            selected = torch.cat(parts, 1).cpu().numpy()
            for upload, mask, own in zip(uploads, units, np.split(selected, ends), strict=True):
                upload[rows.name] = Floats.rows(mask, own)
    return uploads


def integrate(model: Model, params: Params, received: Sequence[Bundle]) -> Params:
    """Return the parameters with the rows that the downloads name, one download per client.

    Rows that are not named stay; parameters of layers that no download names are not copied.
    """
    updated = dict(params)
    for layer in model.affine:
        for rows in layer.rows:
            named = [b.part(rows.name) if rows.name in b.tensors else NO_ROWS for b in received]
            sent = [part.values for part in named if part is not NO_ROWS]
            if not sent:
                continue
            units = [part.at.held((layer.units,)) for part in named]
            like = params[rows.tensors[0]]
            where = torch.from_numpy(np.stack(units)).to(like.device)
            new = torch.from_numpy(np.concatenate(sent)).to(like)
            for name in rows.tensors:
                updated[name] = params[name].clone()
                place = by_unit(updated[name], rows.gates)
                mine, new = new.tensor_split([place[0, 0].numel()], 1)
                place[where] = mine.view(-1, *place.shape[2:])
    return updated
