"""Slices: sub-models of which not how many units a device can hold alone decides what it is sent.

What travels says itself which units it has (``Sliced``), within what the device holds.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedsub_core.metrics import MetricRow
from fedsub_core.models.model import Model
from fedsub_core.models.units import Units, placements, units_in
from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Bundle, Floats, Part
from fedsub_papers.models.slicing import slice_groups, sliced_part
from strategies.methods.heterofl import HeteroFLServer
from strategies.parts.averaging import robust_mean
from strategies.rounds.context import Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class SliceServer(HeteroFLServer):
    """State: the global tensors, whole; a method may keep others beside them.

    A device holds the first units of each group; what it is sent are some of these.
    """

    gains_classes = False

    def sizes(self, round: Round) -> dict[str, int]:
        """Return how many units each group has of which some may travel."""
        return {group.name: group.size for group in slice_groups(round.model)}

    def init(self, start: Start) -> State:
        """Return the global tensors before the first round; raises as `slice_groups`."""
        slice_groups(start.model)
        return super().init(start)

    @abstractmethod
    def slices(self, state: State, round: Round, clients: Sequence[str]) -> dict[str, Units]:
        """Return the units of each group that clients are sent in a round, ascending, by client.

        They are among the first ones that each device holds.
        """

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody its units of the global tensors."""
        return self.sliced(state, round, clients, self.slices(state, round, clients))

    def sliced(
        self, state: State, round: Round, clients: Sequence[str], slices: Mapping[str, Units]
    ) -> list[Bundle]:
        """Return downloads of these units; who gets the same gets the very same."""
        made: dict[tuple[object, ...], Bundle] = {}
        found = []
        for client in clients:
            held, units = round.held_by(client), slices[client]
            key = id(held), *(tuple(own.tolist()) for own in units.values())
            if key not in made:
                made[key] = Bundle(tensors=self._parts(state, round, client, units))
            found.append(made[key])
        return found

    def _parts(self, state: State, round: Round, client: str, units: Units) -> dict[str, Part]:
        held, parts, whole = round.held_by(client), dict[str, Part](), _places(round.model, units)
        receives = round.received_by(client)
        for name, at in placements(held.unit_groups, held.parameter_shapes, units).items():
            values = whole[name].take(state[name]).numpy()
            parts |= sliced_part(name, values, at, receives[name])
        return parts

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Demand the units that were sent."""
        sent = round.sent[sender.client]
        shapes = round.held_by(sender.client).parameter_shapes
        other = [n for n in shapes if upload.part(n).at != sent.part(n).at]
        if other:
            raise sender.refuse(f"units of {other}", "others", "those it was sent")

    def placed(self, state: State, round: Round, client: str, bundle: Bundle) -> Bundle:
        """Return a bundle that says where its numbers stand in the global tensors."""
        held = slice_groups(round.held_by(client))
        places = _places(round.model, units_in(held, bundle.tensors))
        tensors = {n: Floats(bundle.floats(n), at) for n, at in places.items()}
        return replace(bundle, tensors=tensors)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average the round's uploads, each in its place; what else is in the state stays."""
        placed = {c: self.placed(state, round, c, upload) for c, upload in uploads.items()}
        if self.hyper.weights == "clients":
            placed = {client: replace(upload, examples=1) for client, upload in placed.items()}
        model = self.globals_of(state, round)
        return state | robust_mean(placed, model, self.settings.robust, rule=self.rule), []


def _places(model: Model, units: Units) -> dict[str, Placement]:
    return placements(model.unit_groups, model.parameter_shapes, units)
