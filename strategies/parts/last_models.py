"""A server that keeps every client's last model, and a number of every pair of clients."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fedsub_core.config.halves import ServerSettings
from fedsub_core.wire.bundles import Bundle
from strategies.parts.roster import Roster, RosterMemory
from strategies.rounds.context import Start
from strategies.rounds.server_half import ServerHalf, State

#: Names in the state; a model's tensors go by ``model.<name>``.
CLIENTS, PAIRS, _MODEL = "clients", "pairs", "model."


class LastModelsServer(ServerHalf):
    """The server half that FedAMP and FedFomo share: each client has a choice of others' models.

    State: ``clients`` (a roster), ``model.<name>`` float32 [n, ...] and ``pairs`` float64 [n, n],
    of which the row is the client whom the number serves. Models of clients that are silent stay.
    """

    keeps_people = True

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self._memory = RosterMemory()

    def init(self, start: Start) -> State:
        """Return the state before anybody sent a model."""
        shapes = start.model.parameter_shapes.items()
        models = {_MODEL + name: torch.zeros(0, *shape) for name, shape in shapes}
        pairs = torch.zeros(0, 0, dtype=torch.float64)
        return {CLIENTS: Roster(()).tensor(), PAIRS: pairs, **models}

    def without(self, state: State, client: str) -> State:
        """Return the state without a client's model, and without the pairs that it is in."""
        roster = self.roster(state)
        kept = [i for i, other in enumerate(roster.clients) if other != client]
        left = {name: tensor[kept] for name, tensor in state.items() if name != CLIENTS}
        return left | {CLIENTS: roster.without(client).tensor(), PAIRS: left[PAIRS][:, kept]}

    def roster(self, state: State) -> Roster:
        """Return the clients of the rows."""
        return self._memory.of(state[CLIENTS])

    def models(self, state: State) -> State:
        """Return everybody's last model, tensors ``[n, ...]`` by their names in the model."""
        return {n.removeprefix(_MODEL): t for n, t in state.items() if n.startswith(_MODEL)}

    def updated(self, state: State, uploads: Mapping[str, Bundle]) -> State:
        """Return the state with the models of a round; pairs of new clients are 0."""
        before = self.roster(state)
        after = before.joined(uploads)
        n, moved = len(after.clients), [after.place[client] for client in before.clients]
        pairs = torch.zeros(n, n, dtype=torch.float64)
        pairs[torch.tensor(moved, dtype=torch.int64).unsqueeze(1), moved] = state[PAIRS]
        updated = {CLIENTS: after.tensor(), PAIRS: pairs}
        for name, tensor in self.models(state).items():
            rows = before.moved(tensor, tensor.new_zeros(n, *tensor.shape[1:]), after)
            for client, upload in uploads.items():
                rows[after.place[client]] = torch.from_numpy(upload.floats(name).copy())
            updated[_MODEL + name] = rows
        return updated
