"""Sub-models: which units of the global model each device holds, and the mean over who holds what.

What a method adds is one pure function, :meth:`SubModelStrategy.units`: what a device was sent is
worked out again when its upload comes, and nothing of it is stored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedsub_core.metrics import MetricRow
from fedsub_core.models.units import Units, placements, units_of
from fedsub_core.placement import EVERYWHERE, Placement
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedavg import FedAvgStrategy
from strategies.parts.averaging import Rule, robust_mean
from strategies.parts.coverage import covered, multiplied_share
from strategies.rounds.context import Start
from strategies.rounds.server_half import State

Places = Mapping[str, Placement]


class SubModelStrategy(FedAvgStrategy):
    """State: the global tensors, whole."""

    @abstractmethod
    def units(self, state: State, client: str, counts: Mapping[str, int], turn: Turn) -> Units:
        """Return which units of each group a client holds in a round, ascending.

        Parameters
        ----------
        state : before the round.
        counts : how many of each group, by its name.
        """

    @property
    def sizes(self) -> dict[str, int]:
        """How many units each group of the whole model has."""
        return {group.name: group.size for group in self.model.unit_groups}

    @property
    def rule(self) -> Rule:
        """What a number becomes that not all hold: see `averaging.py`."""
        return "holders"

    def globals_of(self, state: State) -> State:
        """Return the global tensors of a state that holds others beside them."""
        return {name: state[name] for name in self.model.parameter_shapes}

    def init(self, start: Start) -> State:
        """Return the global tensors before the first round; raises where units are not known."""
        _ = start.model.unit_groups
        return super().init(start)

    def downloads(self, state: State, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Send everybody its part of the global tensors."""
        made: dict[tuple[Placement, ...], Bundle] = {}
        found = []
        for client in clients:
            places = self.places(state, client, turn)
            key = tuple(places.values())
            if key not in made:
                made[key] = Bundle(
                    tensors={n: Floats(places[n].take(t).numpy()) for n, t in state.items()}
                )
            found.append(made[key])
        return found

    def evaluated_downloads(self, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Return what clients are tested with: what they are sent for the next round."""
        return super().evaluated_downloads(clients, replace(turn, round=turn.round + 1))

    def aggregate(
        self, state: State, uploads: Mapping[str, Bundle], turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Average the round's uploads, each in its place."""
        placed = self.weighed(state, uploads, turn)
        rows = self.counted(uploads, placed, turn.round)
        return robust_mean(placed, state, self.settings.robust, rule=self.rule), rows

    def weighed(self, state: State, uploads: Mapping[str, Bundle], turn: Turn) -> dict[str, Bundle]:
        """Return the round's uploads, each in its place, with the samples that it counts for."""
        placed = {c: self.placed(state, c, upload, turn) for c, upload in uploads.items()}
        if self.hyper.weights == "clients":
            return {client: replace(upload, examples=1) for client, upload in placed.items()}
        return placed

    def counted(
        self, uploads: Mapping[str, Bundle], placed: Mapping[str, Bundle], round: int
    ) -> list[MetricRow]:
        """Return what of the model's multiplications each client makes, and who holds what.

        Nothing where all hold all. Of a smaller model all that are counted are real.
        """
        if not self.narrow:
            return []
        rows = []
        for client in uploads:
            shapes = self.held_by(client).parameter_shapes
            share = multiplied_share(self.model, {name: prod(s) for name, s in shapes.items()})
            for what in ("counted", "real"):
                rows.append(MetricRow(round, client, None, f"multiplications_{what}", share))
        return rows + covered(self.model.parameter_shapes, placed, round)

    def places(self, state: State, client: str, turn: Turn) -> Places:
        """Return where the numbers stand that a client holds in a round."""
        held = self.held_by(client)
        if held is self.model:
            return dict.fromkeys(state, EVERYWHERE)
        groups = self.model.unit_groups
        counts = {name: len(own) for name, own in units_of(groups, held.tensor_shapes).items()}
        units = self.units(state, client, counts, turn)
        return placements(groups, self.model.parameter_shapes, units)

    def placed(self, state: State, client: str, bundle: Bundle, turn: Turn) -> Bundle:
        """Return a bundle that says where its numbers stand in the global tensors."""
        places = self.places(state, client, turn)
        tensors = dict(bundle.tensors)
        for name, part in bundle.tensors.items():
            assert isinstance(part, Floats)
            tensors[name] = Floats(part.values, places[name].of(part.at))
        return replace(bundle, tensors=tensors)


def over_budget(
    strategy: SubModelStrategy, uploads: Mapping[str, Bundle], round: int
) -> list[MetricRow]:
    """Return who trained more than c * c of the model's numbers, and how often as many.

    Where nothing of a method's fits a device, it is handed the least that there is.
    """
    shapes = strategy.model.parameter_shapes
    full, rows = sum(prod(shape) for shape in shapes.values()), list[MetricRow]()
    for client, upload in uploads.items():
        if client not in strategy.narrow:
            continue
        budget = strategy.capacities[client] ** 2 * full
        held = sum(p.values.size for n, p in upload.tensors.items() if n in shapes)
        if held > budget:
            rows.append(MetricRow(round, client, None, "over_budget", held / budget))
    return rows


def best(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the `count` units of highest `scores` [units], ascending; of equal ones the first."""
    return np.sort(np.argsort(-scores, kind="stable")[:count])
