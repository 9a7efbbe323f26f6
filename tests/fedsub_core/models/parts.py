"""Parts of models: units drawn, numbers taken, placed back and masked."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from fedsub_core.models.model import Model, Params
from fedsub_core.models.units import Units
from fedsub_core.placement import Placement


def some_units(model: Model, seed: int, share: float = 0.5) -> Units:
    """Choose about so many of every group's units."""
    stream = np.random.default_rng(seed)
    kept = {g.name: stream.permutation(g.size) for g in model.unit_groups}
    return {name: np.sort(order[: max(1, int(share * len(order)))]) for name, order in kept.items()}


def held(model: Model, places: Mapping[str, Placement]) -> dict[str, Tensor]:
    """Which numbers of each tensor a sub-model has, bool."""
    shapes = model.tensor_shapes
    return {name: torch.from_numpy(at.held(shapes[name])) for name, at in places.items()}


def taken(params: Params, places: Mapping[str, Placement]) -> Params:
    """The sub-model's parameters [clients, ...]."""
    return {name: at.take(params[name], stacked=1) for name, at in places.items()}


def placed(params: Params, places: Mapping[str, Placement], narrow: Params) -> Params:
    """Parameters with a sub-model's numbers in their places."""
    return {n: at.put(params[n].clone(), narrow[n], stacked=1) for n, at in places.items()}
