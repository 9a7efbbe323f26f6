"""Sub-models: which units of the global model each device holds, and the mean over who holds what.

What a method adds is one pure function, :meth:`SubModelServer.units`: what a device was sent is
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
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedavg import FedAvgServer
from strategies.parts.averaging import Rule, robust_mean
from strategies.parts.coverage import covered, multiplied_share
from strategies.rounds.context import Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

Places = Mapping[str, Placement]
#: How many units of each group, by its name.
Counts = Mapping[str, int]


class SubModelServer(FedAvgServer):
    """State: the global tensors, whole."""

    @abstractmethod
    def units(self, state: State, round: Round, client: str, counts: Counts) -> Units:
        """Return the units of each group that a client holds in a round, ascending.

        Parameters
        ----------
        state : before the round.
        counts : how many of each group, by its name.
        """

    def sizes(self, round: Round) -> dict[str, int]:
        """Return the number of units of each group of the whole model."""
        return {group.name: group.size for group in round.model.unit_groups}

    @property
    def rule(self) -> Rule:
        """The rule of a mean over numbers that not all hold: see `averaging.py`."""
        return "holders"

    def globals_of(self, state: State, round: Round) -> State:
        """Return the global tensors of a state that holds others beside them."""
        return {name: state[name] for name in round.model.parameter_shapes}

    def init(self, start: Start) -> State:
        """Return the global tensors before the first round; raises where units are not known."""
        _ = start.model.unit_groups
        return super().init(start)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody its part of the global tensors."""
        made: dict[tuple[Placement, ...], Bundle] = {}
        bundles = []
        for client in clients:
            places = self.places(state, round, client)
            key = tuple(places.values())
            if key not in made:
                made[key] = Bundle(
                    tensors={n: Floats(places[n].take(t).numpy()) for n, t in state.items()}
                )
            bundles.append(made[key])
        return bundles

    def tested_as_in(self, round: Round) -> Round:
        """Return the next round: clients are tested with what they are sent for it."""
        return replace(round, turn=replace(round.turn, round=round.number + 1))

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average the round's uploads, each in its place."""
        placed = self.weighed(state, round, uploads)
        rows = self.counted(round, uploads, placed)
        return robust_mean(placed, state, self.settings.robust, rule=self.rule), rows

    def weighed(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> dict[str, Bundle]:
        """Return the round's uploads, each in its place, with the samples that it counts for."""
        placed = {c: self.placed(state, round, c, upload) for c, upload in uploads.items()}
        if self.hyper.weights == "clients":
            return {client: replace(upload, examples=1) for client, upload in placed.items()}
        return placed

    def counted(
        self, round: Round, uploads: Mapping[str, Bundle], placed: Mapping[str, Bundle]
    ) -> list[MetricRow]:
        """Return metrics of each client's share of multiplications, and of who holds each number.

        Nothing where all hold all. Of a smaller model all that are counted are real.
        """
        if not round.narrow:
            return []
        rows = []
        for client in uploads:
            shapes = round.held_by(client).parameter_shapes
            share = multiplied_share(round.model, {name: prod(s) for name, s in shapes.items()})
            for what in ("counted", "real"):
                rows.append(MetricRow(round.number, client, None, f"multiplications_{what}", share))
        return rows + covered(round.model.parameter_shapes, placed, round.number)

    def places(self, state: State, round: Round, client: str) -> Places:
        """Return where the numbers stand that a client holds in a round."""
        held = round.held_by(client)
        if held is round.model:
            return dict.fromkeys(state, EVERYWHERE)
        groups = round.model.unit_groups
        counts = {name: len(own) for name, own in units_of(groups, held.tensor_shapes).items()}
        units = self.units(state, round, client, counts)
        return placements(groups, round.model.parameter_shapes, units)

    def placed(self, state: State, round: Round, client: str, bundle: Bundle) -> Bundle:
        """Return a bundle that says where its numbers stand in the global tensors."""
        places = self.places(state, round, client)
        tensors = dict(bundle.tensors)
        for name, part in bundle.tensors.items():
            assert isinstance(part, Floats)
            tensors[name] = Floats(part.values, places[name].of(part.at))
        return replace(bundle, tensors=tensors)


def over_budget(round: Round, uploads: Mapping[str, Bundle]) -> list[MetricRow]:
    """Return the metric of devices that trained more than c * c of the model's numbers.

    Where nothing of a method's fits a device, it is handed the least that there is.
    """
    shapes = round.model.parameter_shapes
    full, rows = sum(prod(shape) for shape in shapes.values()), list[MetricRow]()
    for client, upload in uploads.items():
        if client not in round.narrow:
            continue
        budget = round.capacities[client] ** 2 * full
        held = sum(p.values.size for n, p in upload.tensors.items() if n in shapes)
        if held > budget:
            rows.append(MetricRow(round.number, client, None, "over_budget", held / budget))
    return rows


def best(scores: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the `count` units of highest `scores` [units], ascending; of equal ones the first."""
    return np.sort(np.argsort(-scores, kind="stable")[:count])
