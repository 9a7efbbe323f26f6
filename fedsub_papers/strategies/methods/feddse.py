"""FedDSE, the server half (Wang et al. 2024): devices choose, their numbers are averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fedsub_core.metrics import MetricRow
from fedsub_core.models.units import Units, placements, units_at, units_in
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.models.slicing import slice_groups
from fedsub_papers.strategies.parts.slices import SliceStrategy
from strategies.parts.sub_models import best
from strategies.rounds.context import Sender
from strategies.rounds.server_half import State

_CHOICE, _COMMON = "choice/", "common/"


class FedDSEStrategy(SliceStrategy):
    """State: the global tensors; of weak clients ``choice/<client>/<group>``, units, int64."""

    def slices(self, state: State, clients: Sequence[str], turn: Turn) -> dict[str, Units]:
        """Return all units in rounds in which clients choose, else their last choice."""
        anew = (turn.round - 1) % self.hyper.every == 0
        return {c: self.every_unit if anew else self._last(state, c) for c in clients}

    def tested_with(self, state: State, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Return the units that each client chose last, of those who have chosen."""
        return self.sliced(state, clients, {c: self._last(state, c) for c in clients})

    @property
    def every_unit(self) -> Units:
        """All units of each group."""
        return {name: np.arange(size) for name, size in self.sizes.items()}

    def _last(self, state: State, client: str) -> Units:
        counts, last = self._counts(client), {}
        for name, size in self.sizes.items():
            own = state.get(f"{_CHOICE}{client}/{name}")
            if (common := state.get(f"{_COMMON}{name}")) is not None:
                own = torch.from_numpy(best(common.double().numpy(), counts[name]))
            if counts[name] < size and (own is None or len(own) != counts[name]):
                return self.every_unit
            last[name] = np.arange(size) if counts[name] == size or own is None else own.numpy()
        return last

    def _counts(self, client: str) -> dict[str, int]:
        """Return how many units of each group a client trains."""
        if client not in self.narrow:
            return self.sizes
        share = self.capacities[client]
        return {name: units_at(share, size) for name, size in self.sizes.items()}

    def check(self, state: State, sender: Sender, upload: Bundle) -> None:
        """Demand as many units as the client can train, and all of a last choice."""
        held, sent = self.held_by(sender.client), self.delivered[sender.client]
        chosen, before = (
            units_in(slice_groups(held), upload.tensors),
            units_in(slice_groups(held), sent.tensors),
        )
        for name, count in self._counts(sender.client).items():
            if len(chosen[name]) != count:
                raise sender.refuse(f"units of {name}", len(chosen[name]), f"{count}")
            if len(before[name]) == count and not np.array_equal(chosen[name], before[name]):
                raise sender.refuse(f"units of {name}", "others", "those it was sent")
        shapes = held.parameter_shapes
        for name, at in placements(held.unit_groups, shapes, chosen).items():
            if upload.part(name).at.simplest(shapes[name]) != at:
                raise sender.refuse(f"units of {name}", "others", "those it chose, and all classes")

    def aggregate(
        self, state: State, uploads: Mapping[str, Bundle], turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Average each number over those who hold it; note what weak clients chose."""
        after, rows = super().aggregate(state, uploads, turn)
        for client in uploads.keys() & self.narrow.keys():
            for name, units in units_in(slice_groups(self.model), uploads[client].tensors).items():
                after[f"{_CHOICE}{client}/{name}"] = torch.from_numpy(units)
        return after, rows

    def of_nobody(self, state: State) -> State:
        """Return the state in which nobody chose: of a size all get the units most often chosen."""
        common = {name: torch.zeros(size) for name, size in self.sizes.items()}
        for key, units in state.items():
            if key.startswith(_CHOICE):
                common[key.rpartition("/")[2]][units] += 1
        return self.globals_of(state) | {f"{_COMMON}{n}": often for n, often in common.items()}

    def without(self, state: State, client: str) -> State:
        """Return the state without what a client chose."""
        return {n: t for n, t in state.items() if not n.startswith(f"{_CHOICE}{client}/")}
