"""Models with exits, of which weak devices hold the first layers: some lack whole tensors."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.heterofl import HeteroFLServer
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class ExitServer(HeteroFLServer):
    """State: the global tensors, whole; a method may keep others beside them."""

    gains_classes = False

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody its part of the tensors that it has."""
        made: dict[tuple[int, int], Bundle] = {}
        found = []
        sent = super().downloads(self.globals_of(state, round), round, clients)
        for client, one in zip(clients, sent, strict=True):
            held = round.held_by(client)
            key = id(one), id(held)
            if key not in made:
                tensors = {name: one.tensors[name] for name in held.parameter_shapes}
                made[key] = Bundle(tensors=tensors)
            found.append(made[key])
        return found

    def placed(self, state: State, round: Round, client: str, bundle: Bundle) -> Bundle:
        """Return a bundle that says where its numbers stand; of what it lacks it has no row."""
        placed = super().placed(self.globals_of(state, round), round, client, bundle)
        nowhere = Placement(np.zeros(0, np.int64))
        lacking = {
            name: Floats(np.zeros((0, *shape[1:]), np.float32), nowhere)
            for name, shape in round.model.parameter_shapes.items()
            if name not in bundle.tensors
        }
        return replace(placed, tensors={**placed.tensors, **lacking})
