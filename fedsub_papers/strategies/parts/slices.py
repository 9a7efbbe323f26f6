"""Slices: sub-models of which not how many units a device can hold alone decides what it is sent.

What travels says itself which units it has (``Sliced``), within what the device holds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedsub_core.metrics import MetricRow
from fedsub_core.models.units import Units, placements, units_in
from fedsub_core.placement import Placement
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats, Part
from fedsub_papers.models.slicing import slice_groups, sliced_part
from strategies.methods.heterofl import HeteroFLStrategy
from strategies.parts.averaging import robust_mean
from strategies.rounds.context import Sender, Start
from strategies.rounds.server_half import State


class SliceStrategy(HeteroFLStrategy):
    """State: the global tensors, whole; a method may keep others beside them.

    A device holds the first units of each group; what it is sent are some of these.
    """

    @property
    def sizes(self) -> dict[str, int]:
        """How many units each group has of which some may travel."""
        return {group.name: group.size for group in slice_groups(self.model)}

    def init(self, start: Start) -> State:
        """Return the global tensors before the first round; raises as `slice_groups`."""
        slice_groups(start.model)
        return super().init(start)

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

    def _parts(self, state: State, client: str, units: Units) -> dict[str, Part]:
        held, parts, whole = self.held_by(client), dict[str, Part](), self._places(units)
        _, receives = self.transport.declared(client)
        for name, at in placements(held.unit_groups, held.parameter_shapes, units).items():
            values = whole[name].take(state[name]).numpy()
            parts |= sliced_part(name, values, at, receives[name])
        return parts

    def _places(self, units: Units) -> dict[str, Placement]:
        return placements(self.model.unit_groups, self.model.parameter_shapes, units)

    def check(self, state: State, sender: Sender, upload: Bundle) -> None:
        """Demand the units that were sent."""
        sent = self.delivered[sender.client]
        shapes = self.held_by(sender.client).parameter_shapes
        other = [n for n in shapes if upload.part(n).at != sent.part(n).at]
        if other:
            raise sender.refuse(f"units of {other}", "others", "those it was sent")

    def placed(self, state: State, client: str, bundle: Bundle, turn: Turn) -> Bundle:
        """Return a bundle that says where its numbers stand in the global tensors."""
        places = self._places(units_in(slice_groups(self.held_by(client)), bundle.tensors))
        tensors = {n: Floats(bundle.floats(n), at) for n, at in places.items()}
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
