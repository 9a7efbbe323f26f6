"""What weak devices hold of everybody's rows, and the numbers that the same people hold.

A device of capacity c has the first units of each hidden layer, and of each row the numbers that
read units which it has. Numbers that the same people hold are fused among these people as if there
were nobody else: to the others they are unknown, not 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.methods.fedsub import MASKS, PROTOTYPES, SHARES
from fedsub_core.models.architecture import Architecture, UnitRows
from fedsub_core.models.model import Model
from fedsub_core.models.units import first_units
from fedsub_core.placement import EVERYWHERE, Placement
from fedsub_core.wire.bundles import Bits, BoolArray, Bundle, Floats, Part

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class HeldPart:
    """Where a device's tensors stand in those of who holds the whole model.

    Parameters
    ----------
    rows : of each layer's rows, by their name.
    embedding : int64, which numbers of an embedding it has; None: all.
    """

    rows: Mapping[str, Placement]
    embedding: Indices | None = None

    @classmethod
    def of(cls, model: Model, capacity: float) -> HeldPart:
        """Return the part of a model that a device of a capacity holds."""
        every = [rows for layer in model.affine for rows in layer.rows]
        if capacity == 1:
            return cls({rows.name: EVERYWHERE for rows in every})
        _, places = model.narrow(first_units(model, capacity))
        rows_held = {rows.name: _place_of(rows, model, places) for rows in every}
        # The last layer reads the embedding.
        return cls(rows_held, places[model.affine[-1].rows[0].tensors[0]].columns)

    def placed(self, bundle: Bundle, model: Architecture, embeddings: bool) -> Bundle:
        """Return a device's bundle in the whole model's places; of units that it lacks nothing.

        `embeddings` : whether its prototypes are means of embeddings.
        """
        tensors: dict[str, Part] = dict(bundle.tensors)
        for layer in model.affine:
            first = layer.rows[0].name
            units = self.rows[first].rows
            for rows in layer.rows:
                if isinstance(part := tensors.get(rows.name), Floats):
                    tensors[rows.name] = Floats(part.values, self.rows[rows.name].of(part.at))
            if units is None:
                continue
            if isinstance(masks := tensors.get(layer.name + MASKS), Bits):
                whole = np.zeros((len(masks.values), layer.units), np.bool_)
                whole[:, units] = masks.values
                tensors[layer.name + MASKS] = Bits(whole)
            if isinstance(shares := tensors.get(layer.name + SHARES), Floats):
                tensors[layer.name + SHARES] = Floats(shares.values, Placement(columns=units))
        if embeddings and isinstance(part := tensors.get(PROTOTYPES), Floats):
            at = Placement(columns=self.embedding).of(part.at)
            tensors[PROTOTYPES] = Floats(part.values, at)
        return replace(bundle, tensors=tensors)

    def sent(self, name: str, units: BoolArray, rows: NDArray[np.float32]) -> Floats:
        """Return some units' rows as the device knows them.

        `units` bool [units of the whole layer], of those that it has; `rows` [those units, width].
        """
        at = self.rows[name]
        own = units if at.rows is None else units[at.rows]
        return Floats.rows(own, rows if at.columns is None else rows[:, at.columns])

    def complete(self, name: str, known: BoolArray) -> BoolArray:
        """Return the held units of a layer all of whose numbers are `known` [units, width]."""
        at = self.rows[name]
        units = np.asarray((known if at.columns is None else known[:, at.columns]).all(axis=1))
        return units if at.rows is None else units & np.isin(np.arange(len(known)), at.rows)


def _place_of(rows: UnitRows, model: Architecture, places: Mapping[str, Placement]) -> Placement:
    """Return the place of a device's rows in the whole ones, from the places of its tensors."""
    columns, before = [], 0
    for name in rows.tensors:
        each = model.parameter_shapes[name][1:]
        numbers = np.arange(before, before + rows.gates * prod(each)).reshape(rows.gates, *each)
        kept = places[name].columns
        columns.append((numbers if kept is None else numbers[:, kept]).ravel())
        before += numbers.size
    together = np.concatenate(columns)
    units = places[rows.tensors[0]].rows
    if units is not None:  # of several gates the first says it
        units = units[units < model.parameter_shapes[rows.tensors[0]][0] // rows.gates]
    return Placement(units, None if len(together) == rows.width else together)


@dataclass(frozen=True)
class Block:
    """Numbers of a layer's rows that the same people hold.

    Parameters
    ----------
    holders : int64, the places of these people in the cache, ascending.
    units, columns : int64, of which units, and which numbers of their rows.
    whole : whether these are all, and everybody's.
    """

    holders: Tensor
    units: Tensor
    columns: Tensor
    whole: bool = False

    def rows(self, rows: Tensor) -> Tensor:
        """Return the block's numbers of rows [n, units, width]; the very same of all."""
        return rows if self.whole else rows[self.index]

    def masks(self, masks: Tensor) -> Tensor:
        """Return the block's units of masks or shares [n, classes, units]."""
        return masks if self.whole else masks[self.holders][:, :, self.units]

    def put(self, whole: Tensor, values: Tensor) -> None:
        """Write the block's `values` [units, columns] into a whole layer's [units, width]."""
        whole[self.units[:, None], self.columns] = values

    @property
    def index(self) -> tuple[Tensor, Tensor, Tensor]:
        """The block's place in rows [n, units, width]."""
        return self.holders[:, None, None], self.units[:, None], self.columns


@dataclass(frozen=True)
class Holdings:
    """The parts of the model that clients hold.

    Parameters
    ----------
    parts : the different ones.
    of : int64 [n], which of them each client holds.
    """

    parts: Sequence[HeldPart]
    of: Tensor

    def blocks(self, name: str, shape: tuple[int, int]) -> list[Block]:
        """Return the blocks of a layer's rows of `shape` [units, width]; nobody's are left out."""
        everybody = torch.arange(len(self.of))
        if all(part.rows[name].everywhere for part in self.parts):
            return [Block(everybody, torch.arange(shape[0]), torch.arange(shape[1]), True)]
        units, columns = self._patterns(name, shape)
        blocks = []
        for u, own_units in _alike(units):
            for c, own_columns in _alike(columns):
                holders = everybody[(u & c)[self.of]]
                if len(holders):
                    blocks.append(Block(holders, own_units, own_columns))
        return blocks

    def shared(self, name: str, shape: tuple[int, int], clients: Tensor) -> Block:
        """Return the numbers of a layer's rows that all of some clients hold."""
        if all(part.rows[name].everywhere for part in self.parts):
            whole = len(clients) == len(self.of)
            return Block(clients, torch.arange(shape[0]), torch.arange(shape[1]), whole)
        each = torch.unique(self.of[clients])
        units, columns = (held[each].all(0) for held in self._patterns(name, shape))
        return Block(clients, units.nonzero().flatten(), columns.nonzero().flatten())

    def stretch(self, name: str, width: int) -> Tensor:
        """Return the factors that make lengths of partial rows comparable with whole ones, [n]."""
        kept = [part.rows[name].columns for part in self.parts]
        each = [1.0 if c is None else (width / len(c)) ** 0.5 for c in kept]
        return torch.tensor(each)[self.of]

    def embeddings(self, size: int) -> Tensor:
        """Return the numbers of an embedding that each client has, bool [n, size]."""
        each = torch.ones(len(self.parts), size, dtype=torch.bool)
        for own, part in zip(each, self.parts, strict=True):
            if part.embedding is not None:
                own.zero_()[torch.from_numpy(part.embedding)] = True
        return each[self.of]

    def _patterns(self, name: str, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Return the units [parts, units] and numbers of rows [parts, width] of each part."""
        held = [torch.from_numpy(part.rows[name].held(shape)) for part in self.parts]
        return torch.stack([h.any(1) for h in held]), torch.stack([h.any(0) for h in held])


def _alike(patterns: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return the different columns of `patterns` [parts, k], and which entries have each."""
    different, which = torch.unique(patterns, dim=1, return_inverse=True)
    return [(column, (which == i).nonzero().flatten()) for i, column in enumerate(different.T)]


def comparable(prototypes: Tensor, present: Tensor, held: Tensor, lacking: int) -> Tensor:
    """Return prototypes [n, classes, d] by which people can be compared.

    That is by the numbers that all but `lacking` of them have at least; in others they are 0. Who
    lacks such a number counts there as the mean of a class's others. So nobody who says that it has
    next to nothing leaves everybody with next to nothing to be told apart by.

    Parameters
    ----------
    present : bool [n, classes], who has the class.
    held : bool [n, d], which numbers of a prototype each has.
    """
    if bool(held.all()):
        return prototypes
    known = present.unsqueeze(2) & held.unsqueeze(1)
    sums = (prototypes * known).sum(0)
    filled = prototypes.where(held.unsqueeze(1), sums / known.sum(0).clamp(min=1))
    return filled * (held.sum(0) >= len(held) - lacking)
