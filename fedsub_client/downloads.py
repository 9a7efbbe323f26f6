"""Downloads in the place of what clients have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedsub_core.models.model import Params
from fedsub_core.pytorch import torch
from fedsub_core.wire.bundles import Bundle, Floats


def adopted(params: Params, received: Sequence[Bundle]) -> Params:
    """Return `params` with the numbers that downloads name in their place.

    Tensors that no download names are not copied.
    """
    taken = dict(params)
    for name, tensor in params.items():
        parts = [bundle.tensors.get(name) for bundle in received]
        floats = {id(part): part for part in parts if isinstance(part, Floats)}
        if not floats:
            continue
        values = {
            key: torch.from_numpy(np.array(part.values)).to(tensor.device)
            for key, part in floats.items()
        }
        if len(floats) == 1 and None not in parts and next(iter(floats.values())).at.everywhere:
            (shared,) = values.values()
            taken[name] = shared.expand_as(tensor).clone()
            continue
        taken[name] = tensor.clone()
        for i, part in enumerate(parts):
            if isinstance(part, Floats):
                part.at.put(taken[name][i], values[id(part)])
    return taken
