"""The artifact cache: every client's last prototypes, subnetworks and scores (P, Z, Omega).

Kept as stacked tensors, clients ascending by id, so that fusion is a matrix product and the
cache is its own checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsub_core.mapped_file import release
from fedsub_core.methods.fedsub import CLASSES, MASKS, PROTOTYPES, SCORE, SHARES
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.roster import Roster

State = dict[str, Tensor]
#: The roster in a state.
CLIENTS = "clients"


@dataclass(frozen=True)
class Cache:
    """What the server last heard of every client; n clients, d features of a prototype.

    Parameters
    ----------
    roster : the clients, ascending.
    tensors :
        ``shares.<layer>`` float32 [n, classes, units], where a method sends them;
        ``rows.<rows>`` float32 [n, units, width], zero where no class selected the unit: those of
        each layer, and where it is a module's, of the norm right behind it;
        ``masks.<layer>`` bool [n, classes, units];
        ``holds`` bool [n, classes], classes whose subnetwork the client contributes;
        ``omega`` float32 [n, classes];
        ``prototypes`` float32 [n, classes, d];
        ``versions`` int64 [n], content the prototypes were computed from, 0 if unknown;
        ``capacity`` float64 [n], share of each layer's units that the client's device holds.
    """

    roster: Roster
    tensors: State

    @classmethod
    def empty(
        cls, roster: Roster, model: Model, prototype_size: int, shares: Iterable[str] = ()
    ) -> Cache:
        """Return a cache that has heard of nobody's data; of layers `shares`, shares, too."""
        n, classes = len(roster.clients), model.classes
        tensors = {
            "holds": torch.zeros(n, classes, dtype=torch.bool),
            "omega": torch.zeros(n, classes),
            "prototypes": torch.zeros(n, classes, prototype_size),
            "versions": torch.zeros(n, dtype=torch.int64),
            "capacity": torch.ones(n, dtype=torch.float64),
        }
        for layer in model.affine:
            for rows in layer.rows:
                tensors[f"rows.{rows.name}"] = torch.zeros(n, layer.units, rows.width)
            tensors[f"masks.{layer.name}"] = torch.zeros(n, classes, layer.units, dtype=torch.bool)
            if layer.name in shares:
                tensors[f"shares.{layer.name}"] = torch.zeros(n, classes, layer.units)
        return cls(roster, tensors)

    @classmethod
    def of(cls, state: State) -> Cache:
        """Read a cache out of a strategy's state."""
        tensors = {name: t for name, t in state.items() if name != CLIENTS}
        return cls(Roster.of(state[CLIENTS]), tensors)

    def state(self) -> State:
        """Return the cache as plain named tensors."""
        return {CLIENTS: self.roster.tensor(), **self.tensors}

    def versions(self) -> dict[str, int]:
        """Return the version of the prototypes that each client sent last, by client."""
        return dict(zip(self.roster.clients, self.tensors["versions"].tolist(), strict=True))

    def only(self, places: Tensor) -> Cache:
        """Return a cache of some of the clients, whose places are ascending."""
        clients = tuple(self.roster.clients[i] for i in places.tolist())
        return Cache(Roster(clients), {name: t[places] for name, t in self.tensors.items()})

    def updated(
        self,
        uploads: Mapping[str, Bundle],
        model: Model,
        prototype_size: int,
        capacities: Mapping[str, float] | None = None,
    ) -> Cache:
        """Return the cache after `uploads`; the entries of clients that sent none stay.

        Where nobody is new it is this very cache, changed: of a large federation's there is no room
        for two.

        Parameters
        ----------
        uploads : in the places of the whole model.
        capacities : of those who hold less than all.
        """
        roster = self.roster.joined(uploads)
        if roster == self.roster:
            new = self
        else:
            shares = [n.removeprefix("shares.") for n in self.tensors if n.startswith("shares.")]
            new = Cache.empty(roster, model, prototype_size, shares)
            for name, tensor in new.tensors.items():
                self.roster.moved(self.tensors[name], tensor, roster)
        for client, upload in uploads.items():
            place = new.roster.place[client]
            new._put(place, upload)
            new.tensors["capacity"][place] = (capacities or {}).get(client, 1.0)
        return new

    def _put(self, i: int, upload: Bundle) -> None:
        own = {name: tensor[i].numpy() for name, tensor in self.tensors.items()}
        own["holds"][:] = upload.bits(CLASSES)
        own["omega"][:] = upload.floats(SCORE)
        if PROTOTYPES in upload.tensors:
            sent = upload.part(PROTOTYPES)
            own["versions"][()] = upload.version
            own["prototypes"].fill(0)
            sent.at.put(own["prototypes"], sent.values)
        for name in [n.removesuffix(MASKS) for n in upload.tensors if n.endswith(MASKS)]:
            own[f"masks.{name}"][:] = upload.bits(name + MASKS)
            if f"shares.{name}" in own:
                shares = upload.part(name + SHARES)
                own[f"shares.{name}"][:] = shares.at.spread(
                    shares.values, own[f"shares.{name}"].shape
                )
        for name in [n for n in own if n.startswith("rows.")]:
            if (part := upload.tensors.get(name.removeprefix("rows."))) is not None:
                assert isinstance(part, Floats)
                own[name].fill(0)
                part.at.put(own[name], part.values)
                release(part.values)
