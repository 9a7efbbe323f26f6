"""FedDSE, the server half (Wang et al. 2024): devices choose, their numbers are averaged."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from fedsub_core.metrics import MetricRow
from fedsub_core.models.units import Units, placements, units_at, units_in
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.models.slicing import slice_groups
from fedsub_papers.strategies.parts.slices import SliceServer
from strategies.parts.sub_models import best
from strategies.rounds.context import Sender
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

_CHOICE, _COMMON = "choice/", "common/"


class FedDSEServer(SliceServer):
    """State: the global tensors; of weak clients ``choice/<client>/<group>``, units, int64."""

    def slices(self, state: State, round: Round, clients: Sequence[str]) -> dict[str, Units]:
        """Return all units in rounds in which clients choose, else their last choice."""
        anew = (round.number - 1) % self.hyper.every == 0
        return {c: self.every_unit(round) if anew else self._last(state, round, c) for c in clients}

    def tested_with(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Return the units that each client chose last, of those who have chosen."""
        return self.sliced(state, round, clients, {c: self._last(state, round, c) for c in clients})

    def every_unit(self, round: Round) -> Units:
        """Return all units of each group."""
        return {name: np.arange(size) for name, size in self.sizes(round).items()}

    def _last(self, state: State, round: Round, client: str) -> Units:
        counts, last = self._counts(round, client), {}
        for name, size in self.sizes(round).items():
            own = state.get(f"{_CHOICE}{client}/{name}")
            if (common := state.get(f"{_COMMON}{name}")) is not None:
                own = torch.from_numpy(best(common.double().numpy(), counts[name]))
            if counts[name] < size and (own is None or len(own) != counts[name]):
                return self.every_unit(round)
            last[name] = np.arange(size) if counts[name] == size or own is None else own.numpy()
        return last

    def _counts(self, round: Round, client: str) -> dict[str, int]:
        """Return how many units of each group a client trains."""
        if client not in round.narrow:
            return self.sizes(round)
        share = round.capacities[client]
        return {name: units_at(share, size) for name, size in self.sizes(round).items()}

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Demand as many units as the client can train, and all of a last choice."""
        held, sent = round.held_by(sender.client), round.sent[sender.client]
        chosen, before = (
            units_in(slice_groups(held), upload.tensors),
            units_in(slice_groups(held), sent.tensors),
        )
        for name, count in self._counts(round, sender.client).items():
            if len(chosen[name]) != count:
                raise sender.refuse(f"units of {name}", len(chosen[name]), f"{count}")
            if len(before[name]) == count and not np.array_equal(chosen[name], before[name]):
                raise sender.refuse(f"units of {name}", "others", "those it was sent")
        shapes = held.parameter_shapes
        for name, at in placements(held.unit_groups, shapes, chosen).items():
            if upload.part(name).at.simplest(shapes[name]) != at:
                raise sender.refuse(f"units of {name}", "others", "those it chose, and all classes")

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average each number over those who hold it; note what weak clients chose."""
        after, rows = super().aggregate(state, round, uploads)
        for client in uploads.keys() & round.narrow.keys():
            for name, units in units_in(slice_groups(round.model), uploads[client].tensors).items():
                after[f"{_CHOICE}{client}/{name}"] = torch.from_numpy(units)
        return after, rows

    def of_nobody(self, state: State, round: Round) -> State:
        """Return the state in which nobody chose: of a size all get the units most often chosen."""
        common = {name: torch.zeros(size) for name, size in self.sizes(round).items()}
        for key, units in state.items():
            if key.startswith(_CHOICE):
                common[key.rpartition("/")[2]][units] += 1
        return self.globals_of(state, round) | {
            f"{_COMMON}{n}": often for n, often in common.items()
        }

    def without(self, state: State, client: str) -> State:
        """Return the state without what a client chose."""
        return {n: t for n, t in state.items() if not n.startswith(f"{_CHOICE}{client}/")}
