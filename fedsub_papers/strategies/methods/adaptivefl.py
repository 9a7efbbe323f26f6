"""AdaptiveFL, the server half (Jia et al. 2024, algorithm 1): who trains which model of a pool."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedsub_core.metrics import MetricRow
from fedsub_core.models.units import Units
from fedsub_core.seeds import generator
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.models.pools import Level, largest_fitting, pool_of
from fedsub_papers.strategies.parts.slices import SliceServer
from strategies.parts.sub_models import over_budget
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

_TABLE = "table/"
KINDS = 3
#: What counts for a model that a client was cut to, and for the whole one, if it could train it.
EXTRA = 3


class AdaptiveFLServer(SliceServer):
    """State: the global tensors; of each client that trained, how well it did with which model.

    ``table/<client>`` float32 [models + 3]: its resources, a number for each model of the pool, and
    how often each kind was drawn for or trained by it.
    """

    def pool(self, round: Round) -> tuple[Level, ...]:
        """Return the models, from small to large."""
        return pool_of(round.model, self.hyper.widths(), self.hyper.starts_at())

    def participants(self, state: State, round: Round) -> list[str]:
        """Return the round's clients for whom a model was drawn, ascending."""
        return sorted(self.drawn(state, round))

    def drawn(self, state: State, round: Round) -> dict[str, int]:
        """Return the place in the pool of the model that was drawn for each of a round's clients.

        A model is drawn, and then a client that gets it, with a chance that grows with what it
        could train and falls with how often its kind was.
        """
        there, pool = list(round.present), self.pool(round)
        asked = self.settings.rounds.clients_per_round
        slots = asked if 0 < asked < len(there) else len(there)
        tables = {client: table_of(state, client, pool) for client in there}
        stream = generator(round.turn.seed, "", round.number, "models and who trains them")
        return draw(tables, pool, slots, stream)

    def slices(self, state: State, round: Round, clients: Sequence[str]) -> dict[str, Units]:
        """Return the units of what was drawn for each client, cut to what it can hold."""
        drawn, pool = self.drawn(state, round), self.pool(round)
        return {c: _units(pool[cut(round, pool, c, drawn.get(c, len(pool) - 1))]) for c in clients}

    def tested_with(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Return the largest model that each client can hold."""
        pool = self.pool(round)
        largest = {c: _units(pool[cut(round, pool, c, len(pool) - 1)]) for c in clients}
        return self.sliced(state, round, clients, largest)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average the models, and learn who could train what."""
        after, rows = super().aggregate(state, round, uploads)
        rows += over_budget(round, uploads)
        drawn, pool = self.drawn(state, round), self.pool(round)
        for client in uploads:
            sent = drawn.get(client, len(pool) - 1)
            trained, table = cut(round, pool, client, sent), table_of(state, client, pool)
            after[f"{_TABLE}{client}"] = learnt(table, pool, sent, trained)
            rows.append(MetricRow(round.number, client, None, "pool_model", trained + 1))
        return after, rows

    def without(self, state: State, client: str) -> State:
        """Return the state without what a client could train."""
        return {name: tensor for name, tensor in state.items() if name != f"{_TABLE}{client}"}


def table_of(state: State, client: str, pool: Sequence[Level]) -> Tensor:
    """Return the table of a client's capacity and choices; ones at first."""
    return state.get(f"{_TABLE}{client}", torch.ones(len(pool) + KINDS))


def cut(round: Round, pool: Sequence[Level], client: str, drawn: int) -> int:
    """Return the place in the pool of the model that a client trains of the drawn one."""
    if client not in round.narrow:
        return drawn
    return largest_fitting(pool, round.capacities[client], drawn)


def _units(level: Level) -> Units:
    return {name: np.arange(count) for name, count in level.counts.items()}


def draw(
    tables: Mapping[str, Tensor], pool: Sequence[Level], slots: int, stream: torch.Generator
) -> dict[str, int]:
    """Return by client which model it gets: `slots` models, each to another client."""
    clients, found = sorted(tables), dict[str, int]()
    chances = rewards(torch.stack([tables[client] for client in clients]), pool)
    for _ in range(slots):
        model = int(torch.randint(len(pool), (1,), generator=stream))
        left = (chances[:, 0] >= 0).double()
        each = chances[:, pool[model].kind] * left
        one = int(torch.multinomial(each if each.sum() > 0 else left, 1, generator=stream))
        found[clients[one]] = model
        chances[one] = -1.0  # nobody gets two
    return found


def rewards(tables: Tensor, pool: Sequence[Level]) -> Tensor:
    """Return ``min(0.5, R) / sqrt(times)`` of clients for each kind of model, float64 [n, kinds].

    R is the mean, over the kind's models, of the share of a client's resources that stand at the
    model or above; eq. 5 to 7. `tables` are [n, models + kinds].
    """
    able, times = tables[:, : len(pool)].double(), tables[:, len(pool) :].double()
    above = able.flip(1).cumsum(1).flip(1) / able.sum(1, keepdim=True)
    each = torch.zeros_like(times)
    for kind in {level.kind for level in pool}:
        own = [i for i, level in enumerate(pool) if level.kind == kind]
        each[:, kind] = above[:, own].mean(1).clamp(max=0.5)
    return each / times.sqrt()


def learnt(table: Tensor, pool: Sequence[Level], sent: int, trained: int) -> Tensor:
    """Return the table of a client that was sent one model and trained another.

    Algorithm 1, lines 12 to 24, as the authors' code reads them.
    """
    table, models = table.clone(), len(pool)
    able = table[:models]
    if trained == sent:
        able[sent:] += 1
        if sent == models - 1:
            able[sent] += EXTRA
    else:
        able[trained] += EXTRA
        able[trained + 1 :] -= torch.arange(1.0, models - trained)
        able.clamp_(min=0)
    for place in (sent, trained):
        table[models + pool[place].kind] += 1
    return table
