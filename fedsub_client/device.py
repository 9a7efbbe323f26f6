"""One device: finds its person's data and state, answers the server's messages, keeps its state.

A round is trained once: asked for it again, after any crash on either side, the device sends the
very reply that it saved.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from flwr.app import ConfigRecord, Context, MetricRecord, RecordDict

from fedsub_client.client import FedSubClient
from fedsub_client.cohort import Cohort, build_learner
from fedsub_client.learners.fedsub.noise import SECRET, own_secret
from fedsub_client.parts import Seen, split_client
from fedsub_client.saved import PersonalModel, Saved
from fedsub_client.store import ContextStore, FolderStore, Store
from fedsub_core.config.run_config import from_flat
from fedsub_core.data.sources import client_ids, load_client
from fedsub_core.errors import DataError
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.wire import exchange, handshake

log = logging.getLogger("fedsub")


class Device:
    """A person's device.

    Which person: ``client-id`` and ``data`` (a federation's folder with that client's file) of
    the node's config; ``partition-id`` in Flower's simulation, the n-th client of the run
    config's ``data``. With ``state-dir`` its state lasts on disk, else as long as the node.

    Raises
    ------
    DataError
        Where there is no such person or the data cannot be used.
    """

    def __init__(self, context: Context) -> None:
        self.config = from_flat(context.run_config)
        node = context.node_config
        source = str(node.get("data", self.config.data))
        self.client = _client_id(node, source)
        self.store: Store = ContextStore(context.state)
        if "state-dir" in node:
            self.store = FolderStore(Path(str(node["state-dir"])), self.client)
        self.card, self.data = load_client(source, self.client)

    def query(self, content: RecordDict) -> RecordDict:
        """Say who this is and what its training part looks like.

        Raises
        ------
        MessageRefused
            Where the server is of another version.
        """
        if handshake.OPENING in content:
            record = cast(ConfigRecord, content[handshake.OPENING])
            handshake.check_versions(record, self.client)
        # Of the file alone: what is saved may belong to a run of other settings.
        client = self._numpy_client(Seen.first(self.data), None)
        return RecordDict({handshake.OPENING: ConfigRecord(client.get_properties({}))})

    def train(self, content: RecordDict) -> RecordDict:
        """Do a round of local work and keep its outcome, before anybody hears of it."""
        with self.store.lock():
            payload, metrics = self._train(content)
        reply = RecordDict({exchange.PAYLOAD: exchange.pack(payload)})
        if metrics:
            reply[exchange.METRICS] = MetricRecord(metrics)
        return reply

    def evaluate(self, content: RecordDict) -> RecordDict:
        """Evaluate the personal model on this person's test part."""
        arrays, order = _arrays(content), content.config_records[exchange.ORDER]
        with self.store.lock():
            _, saved = self._load(order)
            client = self._numpy_client(self._seen(saved), saved)
            _, _, metrics = client.evaluate(arrays, dict(order))
            # Where the server's model is the one that is used, it is kept for use.
            if client.received is not None and saved is not None and saved.model is not None:
                own = {name: tensor[0] for name, tensor in client.received.items()}
                self.store.save(replace(saved, model=replace(saved.model, params=own)))
        return RecordDict({exchange.METRICS: MetricRecord(metrics)})

    def _train(self, content: RecordDict) -> tuple[bytes, dict[str, Any]]:
        """Return the upload, and metrics where they are asked for."""
        arrays, order = _arrays(content), content.config_records[exchange.ORDER]
        round, scaling = exchange.read_order(order)
        run, saved = self._load(order)
        if saved is not None and saved.round == round:
            log.warning("client %s: round %d was done before; same answer", self.client, round)
            if exchange.EVALUATE not in order:
                return saved.reply, {}
            before = self._numpy_client(self._seen(saved), saved)
            return saved.reply, before.assess(round, scaling)[1]
        if saved is not None and saved.round > round:
            log.warning(
                "client %s: asked for round %d after %d: the server went back, as after restoring "
                "a backup; training on",
                self.client,
                round,
                saved.round,
            )
        seen = self._seen(saved)
        client = self._numpy_client(seen, saved)
        answer, _, metrics = client.fit(arrays, dict(order))
        payload = answer[0].tobytes()
        cohort = client.cohort
        params = {name: t[0].cpu() for name, t in cohort.learner.params(cohort.state).items()}
        used = cohort.scaling(0, round, scaling)
        shape = self.data.x.shape[1:]
        model = PersonalModel(params, self.config.model, shape, self.card, used)
        state = cohort.client_state(0)
        method = self.config.method
        new = Saved(self.client, run, method, round, seen, state, payload, model)
        self.store.save(new, new_run=saved is None)
        return payload, metrics

    def _load(self, order: ConfigRecord) -> tuple[str, Saved | None]:
        """Return the order's run and this device's state of it; None where it is new here."""
        run, saved = str(order.get("run", "")), self.store.load()
        return run, saved if saved is not None and saved.run == run else None

    def _seen(self, saved: Saved | None) -> Seen:
        """Notice whether the device's file grew since the last round."""
        if saved is None:
            return Seen.first(self.data)
        continued = saved.seen.look(self.data)
        if continued is None:
            log.warning(
                "client %s: its file no longer begins with the %d samples it had; split anew, "
                "so what was trained on may be tested now",
                self.client,
                saved.seen.sizes[-1],
            )
            return Seen.first(self.data)
        if continued is not saved.seen:
            log.info("client %s: %d samples, %d before", self.client, *continued.sizes[:-3:-1])
        return continued

    def _numpy_client(self, seen: Seen, saved: Saved | None) -> FedSubClient:
        config = self.config
        parts = split_client(self.data, self.card, config, seen.sizes)
        learner = build_learner(config, config.method, self.card, self.data.x.shape[1:])
        cohort = Cohort(learner, self.card, [parts], config.standardise, wire=config.wire)
        if saved is not None and saved.state:
            cohort.load_states([saved.state])
        elif SECRET in cohort.state:
            cohort.state = cohort.state | {SECRET: own_secret()}
        return FedSubClient(cohort)


def _arrays(content: RecordDict) -> list[Any]:
    return [np.frombuffer(exchange.unpack(content), np.uint8)]


def _client_id(node: Mapping[str, Any], source: str) -> str:
    if "client-id" in node:
        client = str(node["client-id"])
        if not is_client_id(client):
            raise DataError(f"node config: client-id {client!r}: expected {CLIENT_ID_RULE}")
        return client
    if "partition-id" not in node:
        raise DataError(
            "node config: no client-id; expected client-id and data, as in "
            '--node-config \'client-id="01" data="/data/mine"\''
        )
    ids, partition = client_ids(source), int(node["partition-id"])
    if partition >= len(ids):
        raise DataError(
            f"{source}: {len(ids)} clients, but this is node {partition + 1} of "
            f"{node.get('num-partitions')}: start as many SuperNodes as clients"
        )
    return ids[partition]
