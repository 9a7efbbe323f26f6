"""The ClientApp that a SuperNode runs: Flower's messages to the device object and back.

Which person this is: ``client-id`` and ``data`` (a federation's folder with that client's file)
of the node's config on a device; ``partition-id`` in Flower's simulation, the n-th client of the
run config's ``data``.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from safetensors.torch import load, save

from fedsub_client.client import FedSubClient
from fedsub_client.cohort import Cohort, build_learner
from fedsub_client.noise import SECRET, own_secret
from fedsub_client.parts import Seen, SplitClient, split_client
from fedsub_core import exchange
from fedsub_core.config import RunConfig, from_flat
from fedsub_core.errors import DataError
from fedsub_core.federation import Card, ClientData
from fedsub_core.sources import client_ids, load_client

__all__ = ["app"]

app = ClientApp()
#: Records of the node's context: the method's state, and what was seen of the device's file.
STATE, SEEN = "fedsub", "fedsub.data"
log = logging.getLogger("fedsub")


@app.query()
def query(message: Message, context: Context) -> Message:
    """Say who this is and what its training part looks like."""
    properties = ConfigRecord(_client(context).get_properties({}))
    return Message(RecordDict({exchange.OPENING: properties}), reply_to=message)


@app.train()
def train(message: Message, context: Context) -> Message:
    """Do a round of local work; the state it leaves is kept in the node's context."""
    client = _client(context)
    arrays, _, _ = client.fit(*_order(message))
    payload = arrays[0].tobytes()
    context.state[STATE] = exchange.pack(save(client.cohort.client_state(0)))
    return Message(RecordDict({exchange.PAYLOAD: exchange.pack(payload)}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the personal model on this person's test part."""
    _, _, metrics = _client(context).evaluate(*_order(message))
    return Message(RecordDict({exchange.METRICS: MetricRecord(metrics)}), reply_to=message)


def _order(message: Message) -> tuple[list[Any], dict[str, Any]]:
    payload = np.frombuffer(exchange.unpack(message.content), np.uint8)
    return [payload], dict(message.content.config_records[exchange.ORDER])


def _client(context: Context) -> FedSubClient:
    # Several nodes share a core in simulation, and OpenMP teams fight over it.
    torch.set_num_threads(1)
    config = from_flat(context.run_config)
    card, data = _data(config, context)
    learner = build_learner(config, config.method, card, data.train_x.shape[1:])
    cohort = Cohort(learner, card, [data], config.standardise, wire=config.wire)
    if STATE in context.state:
        saved = cast(ArrayRecord, context.state[STATE])[exchange.PAYLOAD].data
        cohort.load_states([load(saved)])
    elif SECRET in cohort.state:
        cohort.state = cohort.state | {SECRET: own_secret()}
    return FedSubClient(cohort)


def _data(config: RunConfig, context: Context) -> tuple[Card, SplitClient]:
    node = context.node_config
    source = str(node.get("data", config.data))
    if "client-id" in node:
        client = str(node["client-id"])
    else:
        ids, partition = client_ids(source), int(cast(int, node["partition-id"]))
        if partition >= len(ids):
            raise DataError(
                f"{source}: {len(ids)} clients, but this is node {partition + 1} of "
                f"{node.get('num-partitions')}: start as many SuperNodes as clients"
            )
        client = ids[partition]
    card, data = load_client(source, client)
    seen = _seen(context, data)
    return card, split_client(data, card, config, seen.sizes)


def _seen(context: Context, data: ClientData) -> Seen:
    """Notice whether the device's file grew since the last message, and remember it."""
    seen = Seen.first(data)
    if SEEN in context.state:
        record = cast(ConfigRecord, context.state[SEEN])
        before = Seen(tuple(cast(list[int], record["sizes"])), cast(bytes, record["digest"]))
        continued = before.look(data)
        if continued is None:
            log.warning(
                "client %s: its file no longer begins with the %d samples it had; split anew, "
                "so what was trained on may be tested now",
                data.client,
                before.sizes[-1],
            )
        elif continued is not before:
            log.info("client %s: %d samples, %d before", data.client, *continued.sizes[:-3:-1])
        seen = continued or seen
    context.state[SEEN] = ConfigRecord({"sizes": list(seen.sizes), "digest": seen.digest})
    return seen
