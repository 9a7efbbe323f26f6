"""The federation as the server knows it: who is there, what they agree on, how features scale."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from flwr.serverapp import Grid
from torch import Tensor

from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.splits import unseen_clients
from fedsub_core.data.standardise import Scaling, pool, scaling
from fedsub_core.errors import RunError
from fedsub_core.models.chain import Model, build_model
from fedsub_core.seeds import generator
from strategies.rounds.delivery import POLL_SECONDS
from strategies.rounds.nodes import Reception

log = logging.getLogger("fedsub")

#: Prefix of the federation's tensors in the server's state.
FEDERATION = "federation."


@dataclass
class Federation:
    """The clients of a run, and what was agreed on before its first round.

    Parameters
    ----------
    reception : who is connected, and under which of Flower's node ids.
    classes, shape : of every client's samples.
    model : the architecture that follows from them.
    scaling : the pooled standardisation, None where clients do not share one.
    unseen : people held out until the last rounds.
    """

    reception: Reception
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    model: Model
    scaling: Scaling | None
    unseen: frozenset[str]

    @property
    def nodes(self) -> dict[str, int]:
        """Node id by client id, ascending; those who left keep their last one."""
        return dict(sorted(self.reception.nodes.items()))

    @property
    def clients(self) -> list[str]:
        """Ids of all who ever took part, ascending."""
        return list(self.nodes)

    def gather(self, grid: Grid, config: RunConfig, all_answers: bool = False) -> None:
        """Let nodes join and leave; wait until enough clients are connected for a round.

        With `all_answers` also until every connected node has said who it is.

        Raises
        ------
        RunError
            If after ``join-timeout`` seconds there are fewer than ``min-clients``.
        """
        _receive(self.reception, grid, config, all_answers, (self.classes, self.shape))
        _turn_away_misfits(self.reception, self.classes, self.shape)
        if len(self.reception.online) < config.min_clients:
            raise _too_few(self.reception, config)

    def taking_part(self, round: int, config: RunConfig) -> list[str]:
        """Return who may train in a round: who is connected, but held-out people only late."""
        joined = self._joined(round, config)
        return [c for c in self._online() if c not in self.unseen or joined]

    def sample(self, round: int, config: RunConfig) -> list[str]:
        """Draw a round's clients, from a stream that depends on the seed and the round."""
        clients = self.taking_part(round, config)
        count = config.clients_per_round
        if not 0 < count < len(clients):
            return clients
        stream = generator(config.seed, "", round, "clients")
        chosen = torch.randperm(len(clients), generator=stream)[:count]
        return [clients[i] for i in sorted(chosen.tolist())]

    def evaluated(self, round: int, config: RunConfig) -> list[str]:
        """Return who is evaluated in a round: once the held-out people have joined, only they."""
        joined = bool(self.unseen) and self._joined(round, config)
        return [c for c in self._online() if (c in self.unseen) == joined]

    def tensors(self) -> dict[str, Tensor]:
        """Return what was agreed on, for the server's state: it must outlive the process."""
        facts = {"classes": self.classes, "shape": self.shape, "unseen": sorted(self.unseen)}
        kept = {"facts": torch.frombuffer(bytearray(json.dumps(facts).encode()), dtype=torch.uint8)}
        if self.scaling is not None:
            kept["mean"] = torch.tensor(self.scaling.mean)
            kept["std"] = torch.tensor(self.scaling.std)
        return {f"{FEDERATION}{name}": tensor for name, tensor in kept.items()}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], config: RunConfig) -> Federation:
        """Inverse of :meth:`tensors`, with nobody connected yet."""
        kept = {name.removeprefix(FEDERATION): t for name, t in tensors.items()}
        facts = json.loads(bytes(kept["facts"].tolist()))
        shared = Scaling(kept["mean"].numpy(), kept["std"].numpy()) if "mean" in kept else None
        classes, shape = tuple(facts["classes"]), tuple(facts["shape"])
        model = build_model(config.model, shape, len(classes))
        return cls(Reception(), classes, shape, model, shared, frozenset(facts["unseen"]))

    def _online(self) -> list[str]:
        return sorted(self.reception.online)

    def _joined(self, round: int, config: RunConfig) -> bool:
        return round > config.rounds - config.unseen_rounds


def open_federation(grid: Grid, config: RunConfig) -> Federation:
    """Ask every node that connects who it is, until all have answered and there are enough.

    Most clients decide on classes and sample shape (ties: the smallest id); who differs, runs
    another version of FedSub, or claims a client id that is taken is turned away and named.

    Raises
    ------
    RunError
        If fewer than ``min-clients`` could be admitted within ``join-timeout`` seconds.
    """
    reception = Reception()
    _receive(reception, grid, config, all_answers=True)
    if not reception.online:
        raise _too_few(reception, config)
    classes, shape = _votes(reception).most_common(1)[0][0]
    _turn_away_misfits(reception, classes, shape)
    if len(reception.online) < config.min_clients:
        raise _too_few(reception, config)
    held_out: frozenset[str] = frozenset()
    if config.split == "unseen":
        held_out = frozenset(unseen_clients(reception.nodes, config.unseen_share, config.seed))
    pooled = None
    if config.standardise == "federation":
        seen = sorted(c for c in reception.nodes if c not in held_out)
        pooled = scaling(pool([reception.openings[c].moments for c in seen]))
    model = build_model(config.model, shape, len(classes))
    return Federation(reception, classes, shape, model, pooled, held_out)


#: What clients must agree on: names of the classes, shape of a sample.
Kind = tuple[tuple[str, ...], tuple[int, ...]]


def _receive(
    reception: Reception, grid: Grid, config: RunConfig, all_answers: bool, kind: Kind | None = None
) -> None:
    """Look who is there until enough fit together, and all have answered, or time is up.

    They fit if they are of `kind`; before it is agreed on, if they are of the most frequent one.
    """
    deadline = time.monotonic() + config.join_timeout
    while True:
        reception.look(grid)
        votes = _votes(reception)
        fitting = votes[kind] if kind is not None else max(votes.values(), default=0)
        enough = fitting >= config.min_clients
        if (enough and not (all_answers and reception.waiting)) or time.monotonic() >= deadline:
            return
        time.sleep(POLL_SECONDS)


def _votes(reception: Reception) -> Counter[Kind]:
    said = (reception.openings[client] for client in sorted(reception.online))
    return Counter((opening.classes, opening.shape) for opening in said)


def _turn_away_misfits(
    reception: Reception, classes: tuple[str, ...], shape: tuple[int, ...]
) -> None:
    for client, opening in sorted(reception.openings.items()):
        for what, got, expected in (
            ("classes", opening.classes, classes),
            ("shape", opening.shape, shape),
        ):
            if got != expected:
                why = f"client {client!r}: {what}: got {got!r}, expected {expected!r}"
                reception.turn_away(client, why)
                break


def _too_few(reception: Reception, config: RunConfig) -> RunError:
    away = "; ".join(f"node {n}: {why}" for n, why in sorted(reception.turned_away.items()))
    silent = f"; {reception.waiting} connected but did not answer" if reception.waiting else ""
    return RunError(
        f"{len(reception.online)} of at least {config.min_clients} clients after "
        f"{config.join_timeout:g} s (turned away: {away or 'none'}{silent}). Start more devices, "
        "read their logs, or lower min-clients"
    )
