"""What a sender and a receiver of uploads remember of the rows that went over the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedsub_core.models.chain import Model
from fedsub_core.wire.bundles import FloatArray

PREFIX = "wire."
ROUND = "wire.round"
MEMORY = "memory/"


@dataclass
class Memory:
    """Rows of one client, remembered from its last upload.

    With ``delta``: what the server decoded, the same on both sides; the next upload and the next
    download are differences from it. Without it, on the device alone: what a lossy format cut
    off, to be added to the next upload (error feedback).

    Parameters
    ----------
    round : of the upload that left it; 0 for none, and then all rows are zero.
    rows : dict of layer name to float32 [units, fan_in + 1].
    """

    round: int
    rows: dict[str, FloatArray]

    @classmethod
    def empty(cls, model: Model) -> Memory:
        """Return a memory of nothing."""
        rows = {x.name: np.zeros((x.units, x.fan_in + 1), np.float32) for x in model.affine}
        return cls(0, rows)

    def copy(self) -> Memory:
        """Return a memory that can change on its own."""
        return Memory(self.round, {name: rows.copy() for name, rows in self.rows.items()})

    def forget(self) -> None:
        """Become a memory of nothing."""
        self.round = 0
        for rows in self.rows.values():
            rows.fill(0)

    def tensors(self) -> dict[str, Tensor]:
        """Return it as plain named tensors, ``wire.<layer>`` and ``wire.round``."""
        rows = {f"{PREFIX}{name}": torch.from_numpy(rows) for name, rows in self.rows.items()}
        return {ROUND: torch.tensor(self.round), **rows}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Memory:
        """Inverse of :meth:`tensors`; other tensors are left out."""
        rows = {
            name.removeprefix(PREFIX): tensor.numpy().copy()
            for name, tensor in tensors.items()
            if name.startswith(PREFIX) and name != ROUND
        }
        return cls(int(tensors[ROUND]), rows)


def memory_tensors(memories: Mapping[str, Memory]) -> dict[str, Tensor]:
    """Return several clients' memories as plain named tensors, ``memory/<client>/<name>``."""
    return {
        f"{MEMORY}{client}/{name}": tensor
        for client, memory in memories.items()
        for name, tensor in memory.tensors().items()
    }


def split_memories(
    tensors: Mapping[str, Tensor],
) -> tuple[dict[str, Memory], dict[str, Tensor]]:
    """Inverse of :func:`memory_tensors`; also return the tensors that are no memories."""
    own: dict[str, dict[str, Tensor]] = {}
    others: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        if key.startswith(MEMORY):
            client, _, name = key.removeprefix(MEMORY).rpartition("/")
            own.setdefault(client, {})[name] = tensor
        else:
            others[key] = tensor
    return {client: Memory.of(named) for client, named in own.items()}, others
