"""Groups of units of a module, of what its pass showed."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from fedsub_core.models.architecture import Shape
from fedsub_core.models.coupling.labels import FIXED
from fedsub_core.models.coupling.layers import LAYERS, RECURRENT
from fedsub_core.models.coupling.operations import OPERATIONS
from fedsub_core.models.coupling.tracer import Tracer
from fedsub_core.models.traced import zeros
from fedsub_core.models.units import Member, UnitGroup


def unit_groups(module: nn.Module, input_shape: Shape) -> tuple[UnitGroup, ...]:
    """Return the units of a module for samples of `input_shape`, in the order of its layers.

    The module is not changed.

    Raises ConfigError if they cannot be followed through its pass; it names the layer and what it
    does.
    """
    tracer = Tracer(sharing(module).eval(), LAYERS | RECURRENT | OPERATIONS)
    tracer.follow(zeros(input_shape))
    found = _numbered(tracer)
    owners = {key: tracer.labels.roots(labels) for key, labels in tracer.axes.items()}
    roots = map(tracer.labels.roots, tracer.normed)
    normed = {root for one in roots for root in np.unique(one).tolist()}
    return tuple(
        _group(name, units, owners, tracer.reading, not normed.isdisjoint(units))
        for name, units in found.items()
    )


def sharing(module: nn.Module) -> nn.Module:
    """Return a copy of a module whose tensors are the module's own."""
    own = [*module.parameters(), *module.buffers()]
    return copy.deepcopy(module, {id(tensor): tensor for tensor in own})


def _numbered(tracer: Tracer) -> dict[str, dict[int, int]]:
    """Return each group's units, root to number: a group's are made by the same layers.

    Of layers side by side that are added to another's output, each has a group of its own: it would
    be empty where units of both were one.
    """
    makers: dict[int, dict[int, None]] = {}
    for number, (_, labels) in enumerate(tracer.blocks):
        for root in tracer.labels.roots(labels).tolist():
            if root > FIXED:
                makers.setdefault(root, {})[number] = None
    alike: dict[tuple[int, ...], list[int]] = {}
    for root, of in makers.items():
        alike.setdefault(tuple(of), []).append(root)
    found: dict[str, dict[int, int]] = {}
    for numbers, roots in alike.items():
        tensors = [tracer.blocks[number][0] for number in numbers]
        name = tensors[0].rpartition(".")[0]
        # A layer may make units of several groups.
        name = "+".join(tensors) if not name or name in found else name
        found[name] = {root: i for i, root in enumerate(roots)}
    return found


def _group(
    name: str,
    units: dict[int, int],
    owners: dict[tuple[str, int], Tensor],
    reading: set[tuple[str, int]],
    normed_together: bool,
) -> UnitGroup:
    number = torch.full((max(max(units), *(int(o.max()) for o in owners.values())) + 1,), -1)
    number[list(units)] = torch.tensor(list(units.values()))
    members = [
        Member(tensor, axis, found.numpy(), (tensor, axis) in reading)
        for (tensor, axis), roots in owners.items()
        if bool(((found := number[roots]) >= 0).any())
    ]
    return UnitGroup(name, len(units), tuple(members), normed_together)
