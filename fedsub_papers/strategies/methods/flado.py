"""Flado, the server half, as we read it: units by lot, by how a client's moves agree with all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.metrics import MetricRow
from fedsub_core.models.model import Model
from fedsub_core.models.units import UnitGroup, Units, units_at, units_in
from fedsub_core.placement import Placement
from fedsub_core.seeds import generator
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.models.pools import Counts, shapes_at
from fedsub_papers.models.slicing import slice_groups
from fedsub_papers.strategies.parts.slices import SliceServer
from strategies.parts.coverage import multiplications, positions_of
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

_SCORE = "score/"


class FladoServer(SliceServer):
    """State: the global tensors; of weak clients ``score/<client>/<group>`` float32 [units]."""

    def slices(self, state: State, round: Round, clients: Sequence[str]) -> dict[str, Units]:
        """Return the units that were drawn for each client."""
        return {client: self._drawn(state, round, client) for client in clients}

    def _drawn(self, state: State, round: Round, client: str) -> Units:
        sizes = self.sizes(round)
        names = list(sizes)
        if client not in round.narrow or not names:
            return {name: np.arange(sizes[name]) for name in names}
        capacity = round.capacities[client]
        stream = generator(round.turn.seed, client, round.number, "units kept")
        scores = [state.get(f"{_SCORE}{client}/{name}") for name in names]
        known = [one.numpy() for one in scores if one is not None]
        if len(known) < len(names):
            orders = {n: torch.randperm(size, generator=stream) for n, size in sizes.items()}
            counts = {n: units_at(capacity, size) for n, size in sizes.items()}
            return {n: np.sort(order[: counts[n]].numpy()) for n, order in orders.items()}
        costs = self._costs(round)
        each = np.concatenate([np.full(sizes[n], costs[n]) for n in names])
        chances = keep(np.concatenate(known), each, capacity * each.sum(), self.hyper.least)
        drawn = torch.rand(len(chances), generator=stream, dtype=torch.float64).numpy() < chances
        ends = np.cumsum(list(sizes.values()))[:-1]
        layers = list(zip(names, np.split(chances, ends), np.split(drawn, ends), strict=True))
        chances_of, drawn_of = {n: own for n, own, _ in layers}, {n: d for n, _, d in layers}
        return self._trimmed(round, chances_of, drawn_of, client)

    def _costs(self, round: Round) -> dict[str, float]:
        """Return by how many multiplications each group's unit adds to a pass, all others there."""
        every, without = multiplications(round.model), partial(multiplications_at, round.model)
        return {
            name: float(every - without({name: size - 1}))
            for name, size in self.sizes(round).items()
        }

    def _trimmed(
        self,
        round: Round,
        chances: Mapping[str, NDArray[np.float64]],
        drawn: Mapping[str, NDArray[np.bool_]],
        client: str,
    ) -> Units:
        """Return drawn units without those of smallest chance, until the rest fits the client."""
        budget = round.capacities[client] ** 2 * multiplications(round.model)
        first = {name: int(own.argmax()) for name, own in chances.items()}
        spare = [
            (chances[name][unit], name, unit)
            for name, own in drawn.items()
            for unit in own.nonzero()[0].tolist()
            if unit != first[name]
        ]
        spare.sort(key=lambda one: -one[0])

        def units(count: int) -> Units:
            kept = {name: [unit] for name, unit in first.items()}
            for _, name, unit in spare[:count]:
                kept[name].append(unit)
            return {name: np.sort(np.array(own, np.int64)) for name, own in kept.items()}

        def counts(count: int) -> dict[str, int]:
            more = Counter(name for _, name, _ in spare[:count])
            return {name: 1 + more[name] for name in first}

        least, most = 0, len(spare)  # what is kept costs more and more
        while least < most:
            count = (least + most + 1) // 2
            if multiplications_at(round.model, counts(count)) <= budget:
                least = count
            else:
                most = count - 1
        return units(least)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average each number over those who hold it; note how far moves agree."""
        after, rows = super().aggregate(state, round, uploads)
        trained = [name for name in round.model.parameter_shapes if name in round.model.trained]
        moved = {name: after[name] - state[name] for name in trained}
        for client in uploads.keys() & round.narrow.keys():
            placed = self.placed(state, round, client, uploads[client])
            units, agreed = units_in(slice_groups(round.model), placed.tensors), {}
            for name, mean in moved.items():
                part = placed.part(name)
                own = torch.from_numpy(part.values.copy()) - part.at.take(state[name])
                agreed[name] = part.at.put(torch.zeros_like(mean), own) * mean
            for group in slice_groups(round.model):
                held = torch.from_numpy(Placement(units[group.name]).held((group.size,)))
                key, new = f"{_SCORE}{client}/{group.name}", of_units(group, agreed)
                old = state.get(key, torch.zeros(group.size))
                mixed = self.hyper.memory * old + (1 - self.hyper.memory) * new
                after[key] = torch.where(held, mixed, old)
        return after, rows

    def of_nobody(self, state: State, round: Round) -> State:
        """Return the state in which no moves are known: units of a size are drawn alike."""
        return self.globals_of(state, round)

    def without(self, state: State, client: str) -> State:
        """Return the state without a client's scores."""
        return {n: t for n, t in state.items() if not n.startswith(f"{_SCORE}{client}/")}


def multiplications_at(model: Model, counts: Counts) -> int:
    """Return by how many multiplications a model answers that has so many units of each group."""
    shapes = shapes_at(model, counts)
    return sum(prod(shapes[name]) * places for name, places in positions_of(model).items())


def of_units(group: UnitGroup, tensors: Mapping[str, Tensor]) -> Tensor:
    """Return the sum over each unit's own weights and bias, float32 [units]."""
    each = []
    for member in group.members:
        if not member.reads and member.tensor in tensors:
            lines = tensors[member.tensor].movedim(member.axis, 0)
            own = lines.flatten(1).sum(1) if lines.dim() > 1 else lines
            mine = torch.from_numpy(member.owners + 1)  # its first is of no unit
            each.append(torch.zeros(group.size + 1).index_add_(0, mine, own)[1:])
    return torch.stack(each).sum(0) if each else torch.zeros(group.size)


def keep(
    scores: NDArray[np.floating], costs: NDArray[np.float64], budget: float, least: float
) -> NDArray[np.float64]:
    """Return chances p from `least` to 1 that maximise ``sum(p * scores)`` within a budget.

    ``sum(p * costs) <= budget``; the best scores for their costs come first, of equal ones the
    first. Where even `least` costs too much, all have the same, smaller chance.
    """
    if budget >= costs.sum():
        return np.ones(len(scores))
    chances = np.full(len(scores), min(least, budget / costs.sum()))
    left = budget - float((chances * costs).sum())
    for unit in np.argsort(-(scores / costs), kind="stable"):
        more = min(1 - chances[unit], max(left, 0.0) / costs[unit])
        chances[unit] += more
        left -= more * costs[unit]
    return chances
