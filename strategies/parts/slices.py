"""Slices: sub-models of which not how many units a device can hold alone decides what it is sent.

What travels says itself which units it has (``Sliced``), within what the device holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedsub_core.metrics import MetricRow
from fedsub_core.models.units import Units, placements
from fedsub_core.placement import Placement
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.heterofl import HeteroFLStrategy
from strategies.parts.averaging import robust_mean
from strategies.rounds.context import Sender
from strategies.rounds.server_half import State


class SliceStrategy(HeteroFLStrategy):
    """State: the global tensors, whole; a method may keep others beside them.

    A device holds the first units of each group; what it is sent are some of these.
    """

    @abstractmethod
    def slices(self, state: State, clients: Sequence[str], turn: Turn) -> dict[str, Units]:
        """Return which units of each group clients are sent in a round, ascending, by client.

        They are among the first ones that each device holds.
        """

    def downloads(self, state: State, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Send everybody its units of the global tensors."""
        return self.sliced(state, clients, self.slices(state, clients, turn))

    def sliced(
        self, state: State, clients: Sequence[str], slices: Mapping[str, Units]
    ) -> list[Bundle]:
        """Return downloads of these units; who gets the same gets the very same."""
        made: dict[tuple[object, ...], Bundle] = {}
        found = []
        for client in clients:
            held, units = self.held_by(client), slices[client]
            key = id(held), *(tuple(own.tolist()) for own in units.values())
            if key not in made:
                made[key] = Bundle(tensors=self._parts(state, client, units))
            found.append(made[key])
        return found

    def _parts(self, state: State, client: str, units: Units) -> dict[str, Floats]:
        held, parts = self.held_by(client), dict[str, Floats]()
        _, receives = self.transport.declared(client)
        for name, place in placements(held.unit_groups, held.parameter_shapes, units).items():
            shape = held.parameter_shapes[name]
            at = place.spelt_out(shape, bool(receives[name].follows))
            own = Placement.leading(shape, state[name].shape).take(state[name])
            parts[name] = Floats(place.take(own).numpy(), at)
        return parts

    def check(self, state: State, sender: Sender, upload: Bundle) -> None:
        """Demand the units that were sent."""
        sent = self.delivered[sender.client]
        shapes = self.held_by(sender.client).parameter_shapes
        other = [n for n in shapes if upload.part(n).at != sent.part(n).at]
        if other:
            raise sender.refuse(f"units of {other}", "others", "those it was sent")

    def placed(self, state: State, client: str, bundle: Bundle, turn: Turn) -> Bundle:
        """Return a bundle that says where its numbers stand in the global tensors."""
        shapes, whole = self.held_by(client).parameter_shapes, self.model.parameter_shapes
        tensors = dict(bundle.tensors)
        for name, shape in shapes.items():
            if name in tensors:
                part = bundle.part(name)
                at = Placement.leading(shape, whole[name]).of(part.at.simplest(shape))
                tensors[name] = Floats(part.values, at)
        return replace(bundle, tensors=tensors)

    def aggregate(
        self, state: State, uploads: Mapping[str, Bundle], turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Average the round's uploads, each in its place; what else is in the state stays."""
        placed = {c: self.placed(state, c, upload, turn) for c, upload in uploads.items()}
        if self.hyper.weights == "clients":
            placed = {client: replace(upload, examples=1) for client, upload in placed.items()}
        model = self.globals_of(state)
        return state | robust_mean(placed, model, self.settings.robust, rule=self.rule), []
