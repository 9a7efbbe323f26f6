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

import torch
from flwr.app import ConfigRecord, Context, RecordDict

from fedsub_client.answers import trained
from fedsub_client.best_so_far import used_round
from fedsub_client.client import FedSubClient
from fedsub_client.file_history import FileHistory
from fedsub_client.model_file import model_bytes
from fedsub_client.new_cohort import make_cohort
from fedsub_client.own_part import (
    accepted,
    answered,
    holds_tensors,
    least_of,
    masked,
    rounded_again,
)
from fedsub_client.saved_state import Saved
from fedsub_client.split_client import split_client
from fedsub_client.store import ContextStore, FolderStore, Store
from fedsub_core.capacity import Capacity, held_in, of_node, of_one, of_people
from fedsub_core.config.run_config import from_flat, unknown_keys
from fedsub_core.config.settings import SecureSettings
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.samples import kept_shape
from fedsub_core.data.sources import client_ids, load_client
from fedsub_core.encoders.names import NONE, resolve_encoder
from fedsub_core.errors import DataError, MessageRefused, RunError
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.methods.table import method
from fedsub_core.models.names import is_place
from fedsub_core.packages import version_with
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.quantise import Levels
from fedsub_core.wire import exchange, handshake
from fedsub_core.wire.codec import Address
from fedsub_core.wire.exchange import Content, Instructions

log = logging.getLogger("fedsub")


class Device:
    """A person's device.

    Which person: ``client-id`` and ``data`` (a federation's folder with that client's file) of
    the node's config; ``partition-id`` in Flower's simulation, the n-th client of the run
    config's ``data``. With ``state-dir`` its state lasts on disk, else as long as the node. With
    ``capacity`` it says which share of the encoder or model it can hold; else the data card does,
    or the run config. ``model`` is the one builder, ``package.module:builder`` or
    ``file.py:builder``, that it runs where a server names it.

    Raises
    ------
    DataError
        Where there is no such person or the data cannot be used.
    """

    def __init__(self, context: Context) -> None:
        # A server of a later release may list keys that this one does not have: `query` looks at
        # them.
        self._unknown = unknown_keys(context.run_config)
        known = {k: v for k, v in context.run_config.items() if k not in self._unknown}
        self.config = from_flat(known)
        self.node = context.node_config
        source = str(self.node.get("data", self.config.data))
        self.simulated = "client-id" not in self.node
        self.people = client_ids(source) if self.simulated else []
        self.client = _client_id(self.node, self.people, source)
        self._check_builder()
        self._least = least_of(self.node, self.client)
        self._context = context.state
        self.card, self.data = self._read(source)
        self.capacity = self._capacity()

    def _check_builder(self) -> None:
        """Refuse code that a server names and this device's owner does not."""
        model = self.config.model
        own = self.node.get("model", "nothing")
        if is_place(model) and not self.simulated and own != model:
            raise RunError(
                f"client {self.client!r}: asked to build {model!r}, which is code of this device; "
                f"got {own!r} in its node config, expected model={model!r} there, if its owner "
                "trusts it"
            )

    def _read(self, source: str) -> tuple[Card, ClientData]:
        try:
            return load_client(source, self.client)
        except DataError as error:
            # What an app fails with goes to the server: of a person's file no path, row or label.
            if self.simulated:
                raise
            raise DataError(
                f"client {self.client!r}: its data cannot be used; the device's own log says why"
            ) from error

    def _capacity(self) -> Capacity:
        """Return what this device can hold: by its own word, the card's or the run's."""
        if (own := of_node(self.node, self.client)) is not None:
            return own
        of, seed, said = self.config.capacity_settings, self.config.seed, self.card.capacities
        if self.simulated:
            return of_people(of, seed, said, self.people)[self.client]
        return of_one(of, seed, said, self.client)

    def store(self, method: str) -> Store:
        """Return where the state of `method` is kept.

        Raises
        ------
        RunError
            Where it is none of the run's methods.
        """
        if method not in self.config.methods:
            expected = ", ".join(self.config.methods)
            raise RunError(
                f"client {self.client!r}: asked to train {method!r}, expected {expected}"
            )
        return self._store("" if method == self.config.method else method)

    def _store(self, other: str) -> Store:
        if "state-dir" in self.node:
            return FolderStore(Path(str(self.node["state-dir"])), self.client, other)
        return ContextStore(self._context, other)

    def query(self, content: RecordDict) -> RecordDict:
        """Answer a question: who this is, or in a simulation what its model is.

        Raises
        ------
        MessageRefused
            Where the server speaks another wire, where the package of a method of the run is
            another, or where the run gives a value to a key that this release does not have; or
            its run is of single uploads, and the device's owner shows sums alone.
        RunError
            Where a server asks a person's device for the person's model.
        """
        if exchange.MODEL in content:
            return self._model(str(content.config_records[exchange.MODEL].get("run", "")))
        if SECURE in content:
            return self._sum(content.config_records[SECURE])
        if handshake.HANDSHAKE in content:
            record = cast(ConfigRecord, content[handshake.HANDSHAKE])
            version = version_with(self.config.methods)
            handshake.check_versions(record, self.client, version)
            handshake.check_given(record, self.client, self._unknown)
        if self._shows_sums_alone() and not self._secure.secure_aggregation:
            got = "a run whose server sees single uploads"
            expected = "secure-aggregation = true, as in this device's node config"
            raise MessageRefused(self.client, 0, "secure aggregation", got, expected)
        # Of the file alone: what is saved may belong to a run of other settings.
        new = FileHistory.first(self.data, self.card)
        client = self._numpy_client(self._fullest, new, None, 0)
        said = client.cohort.introductions()[0]
        if self.simulated:
            nodes = int(self.node["num-partitions"])
            said = replace(said, people=len(self.people), nodes=nodes)
        return RecordDict({handshake.HANDSHAKE: said.record()})

    @property
    def _fullest(self) -> str:
        """The method of whose runs a device says most of itself: what it says is for all of them.

        That is one that trains on features of an encoder, where there is one.
        """
        own = self.card
        shape = kept_shape(self.data.x, own.vocabulary, own.padding, own.sample)
        for name in self.config.methods:
            card = method(name)
            if card.trains and resolve_encoder(self.config.encoder, card.encodes, shape) != NONE:
                return name
        return self.config.method

    def train(self, content: RecordDict) -> RecordDict:
        """Do a round of local work and keep its outcome, before anybody hears of it."""
        told = _instructions(content)
        with self.store(told.method).lock():
            return exchange.write(self._train(content, told))

    def _sum(self, record: ConfigRecord) -> RecordDict:
        """Answer a question about a secure sum, and keep what it needs of it."""
        store = self.store(str(record.get("method", "")))
        with store.lock():
            person = self._participant(store)
            said = answered(person, record)
            store.save_sums(person.kept())
        return said

    def _participant(self, store: Store) -> Participant:
        """Return this device's person as it takes part in sums, with what it kept.

        Raises
        ------
        RunError
            Where the run is of no sums.
        """
        if not self._secure.secure_aggregation:
            raise RunError(f"client {self.client!r}: asked for a part in a sum, in a run of none")
        least = max(self._secure.secure_least, self._least)
        try:
            return Participant(self.client, least, store.load_sums())
        except ValueError as error:
            # Secrets of one round: without them it is out of that, no longer.
            log.warning(
                "client %s: what it kept of its sums is damaged (%s); it begins anew",
                self.client,
                error,
            )
            return Participant(self.client, least)

    @property
    def _secure(self) -> SecureSettings:
        """Whether the run is of sums, and of which."""
        return self.config.device_settings(self.config.method).secure

    def _shows_sums_alone(self) -> bool:
        """Whether nothing may leave that tells of this person alone: by the run or its owner."""
        return self._secure.secure_aggregation or bool(self.node.get("secure-aggregation", False))

    def evaluate(self, content: RecordDict) -> RecordDict:
        """Evaluate the personal model on this person's test part."""
        told = _instructions(content)
        with self.store(told.method).lock():
            saved = self._load(told)
            client = self._numpy_client(told.method, self._file(saved), saved, told.turn.round)
            answer = client.test(told, exchange.unpack(content))
            if client.cohort.keeps_best:
                self._keep_best(client, saved, told)
            elif saved is not None and saved.model is not None:
                # What was tested is what is used: the server's newest, or adapted to this person.
                own = {name: tensor[0].cpu() for name, tensor in client.model.items()}
                # Mostly it is kept already; and a full disk is no reason not to say how it does.
                if any(not torch.equal(own[n], t) for n, t in saved.model.params.items()):
                    new = replace(saved, model=replace(saved.model, params=own))
                    self._save(new, told)
        return exchange.write(answer)

    def _keep_best(self, client: FedSubClient, saved: Saved | None, told: Instructions) -> None:
        """Save the state that was tested if it is the best so far."""
        round, cohort = told.turn.round, client.cohort
        if used_round(cohort.state, 0, round) != round:
            return
        before = saved or Saved(self.client, told.run, told.method, 0, self._file(None))
        model = cohort.personal_model(0, client.model, round, told.scaling)
        self._save(replace(before, state=cohort.client_state(0), model=model), told)

    def _train(self, content: RecordDict, told: Instructions) -> Content:
        """Do a round; what is sent of a secure sum's is masked, what is kept of it is not."""
        round = told.turn.round
        if SECURE not in content:
            answer = self._trained(exchange.unpack(content), told, None)
            if self._shows_sums_alone() and holds_tensors(exchange.unpack(answer)):
                got, expected = "a question for the upload itself", "a plan of a sum beside it"
                raise MessageRefused(self.client, round, "secure sum", got, expected)
            return answer
        store = self.store(told.method)
        person = self._participant(store)
        # Before all work: what cannot be sent need not be made.
        came = accepted(person, content, told, self._secure)
        assert came is not None
        plan, levels = came
        answer = self._trained(exchange.unpack(content), told, levels)
        upload = masked(person, exchange.unpack(answer), plan)
        store.save_sums(person.kept())
        return {**answer, exchange.PAYLOAD: exchange.pack(upload.to_bytes())}

    def _trained(self, payload: bytes, told: Instructions, levels: Levels | None) -> Content:
        round, saved = told.turn.round, self._load(told)
        if saved is not None and saved.round == round:
            log.warning("client %s: round %d was done before; same answer", self.client, round)
            reply = saved.reply
            metrics: Content = {}
            if told.also_evaluate or levels is not None:
                before = self._numpy_client(told.method, self._file(saved), saved, round)
                metrics = before.test(told) if told.also_evaluate else metrics
                if levels is not None:
                    examples = before.cohort.introductions()[0].facts.examples
                    address = Address(self.client, round)
                    reply = rounded_again(reply, saved.levels, levels, examples, address)
            return trained(exchange.pack(reply), saved.report, metrics)
        if saved is not None and saved.round > round:
            log.warning(
                "client %s: asked for round %d after %d: the server went back, as after restoring "
                "a backup; training on",
                self.client,
                round,
                saved.round,
            )
        file = self._file(saved)
        client = self._numpy_client(told.method, file, saved, round)
        answer = client.train(told, payload, levels)
        reply = answer[exchange.PAYLOAD].to_bytes()
        new = Saved(
            self.client,
            told.run,
            told.method,
            round,
            file,
            client.cohort.client_state(0),
            reply,
            client.report,
            client.cohort.personal_model(0, client.model, round, told.scaling),
            None if levels is None else (levels.weight, levels.each),
        )
        self._save(new, told)
        return {**answer, exchange.PAYLOAD: exchange.pack(reply)}

    def _model(self, run: str) -> RecordDict:
        if not self.simulated:
            raise RunError(
                f"client {self.client!r}: a person's model does not leave the device: use "
                "`fedsub predict` or `fedsub export` there"
            )
        found = [self.store(name).load() for name in self.config.methods]
        saved = next((one for one in found if one is not None and one.run == run), None)
        if saved is None or saved.model is None:
            raise RunError(f"client {self.client!r}: it has trained no round of this run")
        return RecordDict({exchange.PAYLOAD: exchange.pack(model_bytes(saved.model))})

    def _load(self, told: Instructions) -> Saved | None:
        """Return this device's state of the run; None where the run is new here."""
        # A run may go on with another main method: then what was beside it stands where the main
        # one's is looked for, and the other way round.
        there = [self._mine(store, told) for store in (self._store(""), self._store(told.method))]
        return max(filter(None, there), key=lambda saved: saved.round, default=None)

    def _mine(self, store: Store, told: Instructions) -> Saved | None:
        saved = store.load()
        mine = saved is not None and (saved.run, saved.method) == (told.run, told.method)
        return saved if mine else None

    def _save(self, saved: Saved, told: Instructions) -> None:
        """Keep a state; not in place of another run's or method's."""
        store = self.store(told.method)
        store.save(saved, new_run=self._mine(store, told) is None)

    def _file(self, saved: Saved | None) -> FileHistory:
        """Notice whether the device's file grew since the last round."""
        if saved is None:
            return FileHistory.first(self.data, self.card)
        continued = saved.file.continued(self.data, self.card)
        if continued is None:
            log.warning(
                "client %s: its file no longer begins with the %d samples it had; split anew, "
                "so what was trained on may be tested now",
                self.client,
                saved.file.sizes[-1],
            )
            return FileHistory.first(self.data, self.card)
        if continued is not saved.file:
            log.info("client %s: %d samples, %d before", self.client, *continued.sizes[:-3:-1])
        return continued

    def _numpy_client(
        self, name: str, file: FileHistory, saved: Saved | None, round: int
    ) -> FedSubClient:
        """Return this device with a method's state, holding what it can in a round."""
        settings = self.config.device_settings(name)
        parts = split_client(self.data, self.card, settings.split, file.sizes, self.capacity)
        share = held_in(method(name), self.capacity, settings.seed, self.client, round)
        cohort = make_cohort(settings, self.card, [parts.holding(share)])
        if saved is not None and saved.state and cohort.fits(saved.state):
            cohort.load_states([saved.state])
        elif saved is not None and saved.state and not self.capacity.drawn:
            log.warning(
                "client %s: its state is not of a device of capacity %g; it begins anew",
                self.client,
                self.capacity.share,
            )
        elif not self.simulated:
            cohort.state = cohort.state | cohort.learner.own_secrets()
        return FedSubClient(cohort)


def _instructions(content: RecordDict) -> Instructions:
    return exchange.read_instructions(content.config_records[exchange.TURN])


def _client_id(node: Mapping[str, Any], people: list[str], source: str) -> str:
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
    partition = int(node["partition-id"])
    if partition >= len(people):
        raise DataError(
            f"{source}: {len(people)} clients, but this is node {partition + 1} of "
            f"{node.get('num-partitions')}: start as many SuperNodes as clients"
        )
    return people[partition]
