"""The opening exchange: who is there, on what do they agree, how are features standardised."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import torch
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedsub_core import exchange
from fedsub_core.config import RunConfig
from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.exchange import Opening
from fedsub_core.models import Model, build_model
from fedsub_core.seeds import generator
from fedsub_core.splits import unseen_clients
from fedsub_core.standardise import Scaling, pool, scaling
from fedsub_core.version import VERSION

log = logging.getLogger("fedsub")


@dataclass(frozen=True)
class Federation:
    """The clients of a run, as the server knows them.

    Parameters
    ----------
    nodes : Flower's node id of each client, ascending by client id.
    model : the architecture, from the clients' sample shape and classes.
    scaling : the pooled standardisation, None where clients do not share one.
    unseen : people held out until the last rounds.
    """

    nodes: dict[str, int]
    model: Model
    scaling: Scaling | None
    unseen: frozenset[str]

    @property
    def clients(self) -> list[str]:
        """Ids, ascending."""
        return list(self.nodes)

    def taking_part(self, round: int, config: RunConfig) -> list[str]:
        """Return who may train in a round: everybody, but held-out people only in the last."""
        return [c for c in self.nodes if c not in self.unseen or self._joined(round, config)]

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
        return [c for c in self.nodes if (c in self.unseen) == joined]

    def _joined(self, round: int, config: RunConfig) -> bool:
        return round > config.rounds - config.unseen_rounds


def open_federation(grid: Grid, config: RunConfig, timeout: float) -> Federation:
    """Ask every connected node who it is, check that they fit together, pool their moments.

    Raises
    ------
    RunError
        If no node connects or answers in time, two nodes give one client id, or clients disagree
        in classes, sample shape or FedSub's version.
    """
    openings = _ask(grid, timeout)
    nodes: dict[str, int] = {}
    for node, opening in sorted(openings.items(), key=lambda item: item[1].client):
        if opening.client in nodes:
            raise RunError(
                f"client id {opening.client!r} came from two nodes, {nodes[opening.client]} and "
                f"{node}; give every device an id of its own"
            )
        nodes[opening.client] = node
    by_client = {opening.client: opening for opening in openings.values()}
    first = by_client[next(iter(nodes))]
    for opening in by_client.values():
        for what in ("version", "classes", "shape"):
            mine = VERSION if what == "version" else getattr(first, what)
            if getattr(opening, what) != mine:
                raise RunError(
                    f"client {opening.client!r}: {what} {getattr(opening, what)!r}, expected "
                    f"{mine!r}"
                )
    held_out: frozenset[str] = frozenset()
    if config.split == "unseen":
        held_out = frozenset(unseen_clients(nodes, config.unseen_share, config.seed))
    pooled = None
    if config.standardise == "federation":
        pooled = scaling(pool([o.moments for c, o in by_client.items() if c not in held_out]))
    model = build_model(config.model, first.shape, len(first.classes))
    return Federation(nodes, model, pooled, held_out)


def _ask(grid: Grid, timeout: float) -> dict[int, Opening]:
    deadline = time.monotonic() + timeout
    while not (node_ids := sorted(grid.get_node_ids())):
        if time.monotonic() > deadline:
            raise RunError(f"no device connected within {timeout:.0f} s")
        time.sleep(0.2)
    questions = [
        Message(RecordDict(), node, MessageType.QUERY, group_id="opening") for node in node_ids
    ]
    openings: dict[int, Opening] = {}
    for reply in grid.send_and_receive(questions, timeout=timeout):
        if reply.has_error():
            log.warning("node %d: %s", reply.metadata.src_node_id, reply.error.reason)
            continue
        try:
            record = reply.content.config_records[exchange.OPENING]
            openings[reply.metadata.src_node_id] = exchange.read_opening(record)
        except (KeyError, MessageRefused) as error:
            log.warning("node %d: opening refused: %s", reply.metadata.src_node_id, error)
    if not openings:
        raise RunError(
            f"none of {len(node_ids)} nodes answered the opening question; see their logs"
        )
    return openings
