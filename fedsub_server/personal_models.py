"""The personal models of simulated people: asked for after the last round, for the run's folder.

A real person's model never leaves the device, which would refuse; only nodes that say that they are
simulated are asked.
"""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fedsub_core.errors import cut
from fedsub_core.files import write_whole
from fedsub_core.wire import exchange
from strategies.rounds.delivery import Delivery
from strategies.rounds.link import Link
from strategies.rounds.population import Population

log = logging.getLogger("fedsub")

#: Seconds that all models are waited for.
PATIENCE = 120.0


def collect_models(link: Link, population: Population, folder: Path, run: str) -> None:
    """Write every simulated person's model to ``<folder>/<client>.safetensors``.

    A node that did not train in the run called `run` has another run's model, and gives none.
    """
    said = population.registry.introductions
    simulated = [client for client in sorted(population.registry.online) if said[client].people]
    if not simulated:
        return
    folder.mkdir(exist_ok=True)
    question = RecordDict({exchange.MODEL: ConfigRecord({"run": run})})
    asked = [
        (client, Message(question, population.nodes[client], MessageType.QUERY, group_id="models"))
        for client in simulated
    ]
    delivery = Delivery()
    for reply in delivery.exchange(link, asked, PATIENCE, population.nodes):
        client = delivery.client_of(reply)
        if reply.has_error():
            log.warning("client %s: sends no model: %s", client, cut(reply.error.reason))
        else:
            write_whole(folder / f"{client}.safetensors", exchange.unpack(reply.content))
    for client in sorted(delivery.missing):
        log.warning("client %s: sends no model: no answer within %g s", client, PATIENCE)
