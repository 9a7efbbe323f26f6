"""FedSub where the server learns sums alone, the server half: everybody's means of units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fedsub_core.addend_numbers import Array, Bools
from fedsub_core.errors import RunError
from fedsub_core.methods.fedsub_sums import COUNTED, PEOPLE
from fedsub_core.metrics import MetricRow
from fedsub_core.models.architecture import LayerWithUnits
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Bundle, Floats, Part
from strategies.parts.counted_rows import CountedRows, was_counted
from strategies.rounds.context import Opened, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

#: By layer, of which units the last sum said means; by rows, these.
KNOWN, MEANS = ".known", ".means"


class SummedFedSubServer(CountedRows):
    """State: the last sum's counts and means, and who was in it.

    ``<layer>.used`` int64 [units], ``<layer>.known`` bool [units], ``<rows>.means`` float32 [units,
    width].
    """

    others = True

    def init(self, start: Start) -> State:
        """Return a state in which nothing is known."""
        state = self.nobody_counted(start.model)
        for layer in self._layers(start.model):
            state[layer.name + KNOWN] = torch.zeros(layer.units, dtype=torch.bool)
            for own in layer.rows:
                state[own.name + MEANS] = torch.zeros(layer.units, own.width)
        return state

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send means, and to those in the sum what it asks for.

        Weak devices get no rows: they train alone.
        """
        gate, means = self.shared_parts(state, round), dict[str, Part]()
        for layer in self._layers(round.model):
            known = state[layer.name + KNOWN]
            for own in layer.rows:
                rows = state[own.name + MEANS][known].numpy()
                means[own.name] = Floats.rows(known.numpy(), rows)
        weak, whole = Bundle(tensors=gate), list[Bundle]()
        for was in (False, True):
            counted = Floats(np.array([int(state[COUNTED][0]), was], np.float32))
            whole.append(Bundle(tensors={**gate, **means, COUNTED: counted}))
        sent = [
            weak if client in round.narrow else whole[was_counted(state, client)]
            for client in clients
        ]
        return self.asking(round, clients, sent)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Raise :class:`RunError`: this half goes by sums."""
        raise RunError(f"round {round.number}: fedsub: got {len(uploads)} uploads, expected a sum")

    def taken(
        self, state: State, round: Round, opened: Opened, totals: Mapping[str, Array]
    ) -> tuple[State, list[MetricRow]]:
        """Take the means of units that so many people, and classes of theirs, can use."""
        after, people = dict(state), len(opened.clients)
        for layer in self._layers(round.model):
            who, classes = np.rint(totals[layer.name + PEOPLE]).T
            fits = (self.settings.secure.secure_least <= who) & (who <= people)
            fits &= (who <= classes) & (classes <= round.model.classes * who)
            after[layer.name + KNOWN] = torch.from_numpy(fits)
            for own in layer.rows:
                mean = totals[own.name] / np.where(fits, classes, np.inf)[:, None]
                after[own.name + MEANS] = torch.from_numpy(mean.astype(np.float32))
        return after, []

    def shared_parts(self, state: State, round: Round) -> dict[str, Part]:
        """Return the tensors beside means that everybody is sent, weak devices, too."""
        return {}

    def warn(self, state: State, round: Round, asked: Mapping[str, Bools], least: int) -> None:
        """Log after the first count that no unit is asked for."""
        if round.number == 2 and not any(which.any() for which in asked.values()):
            round.log.warning("no unit is used by %d people for sure: nothing is fused", least)

    def lost(self, state: State, round: Round) -> State:
        """Return the state with nothing known: devices go by what they said in the lost round."""
        known = [layer.name + KNOWN for layer in self._layers(round.model)]
        nothing = {name: torch.zeros_like(state[name]) for name in known}
        return self.counted_anew(state, round.model) | nothing

    def _layers(self, model: Model) -> Sequence[LayerWithUnits]:
        return model.affine[: self.hyper.depth or None]
