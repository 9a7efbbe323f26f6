"""The artifact cache: every client's last prototypes, subnetworks and scores (P, Z, Omega).

Kept as stacked tensors, clients ascending by id, so that fusion is a matrix product and the
cache is its own checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedsub_core.models.chain import Model
from fedsub_core.wire.bundles import Upload

State = dict[str, Tensor]


@dataclass(frozen=True)
class Cache:
    """What the server last heard of every client; n clients, d features of a prototype.

    Parameters
    ----------
    clients : ids, ascending.
    tensors :
        ``rows.<layer>`` float32 [n, units, fan_in + 1], zero where no class selected the unit;
        ``masks.<layer>`` bool [n, classes, units];
        ``holds`` bool [n, classes], classes whose subnetwork the client contributes;
        ``omega`` float32 [n, classes];
        ``prototypes`` float32 [n, classes, d];
        ``versions`` int64 [n], content the prototypes were computed from, 0 if unknown.
    """

    clients: tuple[str, ...]
    tensors: State

    @classmethod
    def empty(cls, clients: tuple[str, ...], model: Model, prototype_size: int) -> Cache:
        """Return a cache that has heard of nobody's data."""
        n, classes = len(clients), model.classes
        tensors = {
            "holds": torch.zeros(n, classes, dtype=torch.bool),
            "omega": torch.zeros(n, classes),
            "prototypes": torch.zeros(n, classes, prototype_size),
            "versions": torch.zeros(n, dtype=torch.int64),
        }
        for layer in model.affine:
            tensors[f"rows.{layer.name}"] = torch.zeros(n, layer.units, layer.fan_in + 1)
            tensors[f"masks.{layer.name}"] = torch.zeros(n, classes, layer.units, dtype=torch.bool)
        return cls(clients, tensors)

    @classmethod
    def of(cls, state: State) -> Cache:
        """Read a cache out of a strategy's state."""
        text = state["clients"].numpy().tobytes().decode()
        clients = tuple(text.split("\n")) if text else ()
        return cls(clients, {name: t for name, t in state.items() if name != "clients"})

    def state(self) -> State:
        """Return the cache as plain named tensors."""
        text = np.frombuffer("\n".join(self.clients).encode(), np.uint8)
        return {"clients": torch.from_numpy(text.copy()), **self.tensors}

    def updated(self, uploads: Mapping[str, Upload], model: Model, prototype_size: int) -> Cache:
        """Return the cache after `uploads`; the entries of clients that sent none stay."""
        clients = tuple(sorted({*self.clients, *uploads}))
        new = Cache.empty(clients, model, prototype_size)
        position = {client: i for i, client in enumerate(clients)}
        kept = torch.tensor([position[client] for client in self.clients], dtype=torch.int64)
        for name, tensor in new.tensors.items():
            tensor[kept] = self.tensors[name]
        for client, upload in uploads.items():
            new._put(position[client], upload)
        return new

    def _put(self, i: int, upload: Upload) -> None:
        tensors, labels = self.tensors, torch.from_numpy(upload.labels.copy())
        tensors["holds"][i] = False
        tensors["holds"][i, labels] = True
        tensors["omega"][i] = 0.0
        tensors["omega"][i, labels] = torch.from_numpy(upload.scores.copy())
        if upload.prototypes or not len(labels):
            tensors["versions"][i] = upload.prototype_version
            for label, prototype in upload.prototypes.items():
                tensors["prototypes"][i, label] = torch.from_numpy(prototype.copy())
        for name, layer in upload.layers.items():
            rows, masks = tensors[f"rows.{name}"][i], tensors[f"masks.{name}"][i]
            rows.zero_()
            rows[torch.from_numpy(layer.units)] = torch.from_numpy(layer.rows.copy())
            masks.zero_()
            masks[labels] = torch.from_numpy(upload.masks[name])
