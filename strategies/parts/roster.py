"""Tensors with a row for every client that ever took part: who is in which row, and growing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Roster:
    """The clients of the rows, ascending by id."""

    clients: tuple[str, ...]

    @cached_property
    def place(self) -> dict[str, int]:
        """Row by client id."""
        return {client: i for i, client in enumerate(self.clients)}

    def tensor(self) -> Tensor:
        """Return the roster as uint8, to stand in a state; ids hold no line breaks."""
        text = np.frombuffer("\n".join(self.clients).encode(), np.uint8)
        return torch.from_numpy(text.copy())

    @classmethod
    def of(cls, tensor: Tensor) -> Roster:
        """Return the roster of a tensor: the inverse of :meth:`tensor`."""
        return cls(tuple(tensor.numpy().tobytes().decode().split()))

    def joined(self, clients: Iterable[str]) -> Roster:
        """Return the roster of its clients and others."""
        return Roster(tuple(sorted({*self.clients, *clients})))

    def without(self, client: str) -> Roster:
        """Return the roster of its other clients."""
        return Roster(tuple(other for other in self.clients if other != client))

    def moved(self, tensor: Tensor, into: Tensor, after: Roster) -> Tensor:
        """Return `into`, whose rows are `after`'s, with `tensor`'s rows at their new places."""
        into[[after.place[client] for client in self.clients]] = tensor
        return into


class RosterMemory:
    """Reads the roster of a state once, however often it is asked for."""

    def __init__(self) -> None:
        self._read: tuple[Tensor, Roster] | None = None

    def of(self, tensor: Tensor) -> Roster:
        """Return the roster in `tensor`."""
        if self._read is None or self._read[0] is not tensor:
            self._read = tensor, Roster.of(tensor)
        return self._read[1]
