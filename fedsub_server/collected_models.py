"""The models of simulated people, which a server asks their nodes for at the end of a run."""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fedsub_core.errors import cut
from fedsub_core.files import make_folder, remove_drafts, write_whole
from fedsub_core.wire import exchange
from strategies.rounds.delivery import Delivery
from strategies.rounds.link import Link
from strategies.rounds.population import Population

log = logging.getLogger("fedsub")

#: Seconds that all models are waited for.
MODEL_SECONDS = 120.0
#: Bytes of a file beside its parameters: what it says of itself, names of classes and features.
HEADER_BYTES = 2**20


def collect_models(link: Link, population: Population, most: int, folder: Path, run: str) -> None:
    """Write every simulated person's model to ``<folder>/<client>.safetensors``.

    A real person's model never leaves the device, which would refuse: nodes are only asked where
    all say that they are simulated. One of more than `most` bytes of parameters is refused.
    A node that did not train in the run called `run` has another run's model, and gives none.
    """
    introductions = population.registry.introductions
    simulated = sorted(population.registry.online)
    if not simulated or not all(introductions[client].people for client in simulated):
        return
    make_folder(folder)
    remove_drafts(folder)
    question = RecordDict({exchange.MODEL: ConfigRecord({"run": run})})
    asked = [
        (client, Message(question, population.nodes[client], MessageType.QUERY, group_id="models"))
        for client in simulated
    ]
    delivery = Delivery()
    for reply in delivery.exchange(link, asked, MODEL_SECONDS, population.nodes):
        client = delivery.client_of(reply)
        if reply.has_error():
            log.warning("client %s: sends no model: %s", client, cut(reply.error.reason))
            continue
        try:
            sent = exchange.unpack(reply.content)
            if len(sent) > most + HEADER_BYTES:
                raise ValueError(f"got {len(sent)} bytes, expected {most + HEADER_BYTES} at most")
        except ValueError as error:
            log.warning("client %s: sends no model: %s", client, cut(str(error)))
            continue
        write_whole(folder / f"{client}.safetensors", sent)
    for client in sorted(delivery.missing):
        log.warning("client %s: sends no model: no answer within %g s", client, MODEL_SECONDS)
