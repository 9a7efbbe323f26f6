"""One device: finds its person's data and state, answers the server's messages, keeps its state.

A round is trained once: asked for it again, after any crash on either side, the device sends the
very reply that it saved.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from flwr.app import ConfigRecord, Context, RecordDict

from fedsub_client.accepted_sum import AcceptedSum, rounded_again
from fedsub_client.answers import trained
from fedsub_client.best_so_far import used_round
from fedsub_client.client import FedSubClient
from fedsub_client.cohort import Cohort
from fedsub_client.device_sums import DeviceSums
from fedsub_client.file_history import FileHistory
from fedsub_client.kept_states import KeptStates
from fedsub_client.model_file import model_bytes
from fedsub_client.new_cohort import make_cohort
from fedsub_client.person import capacity_of, check_builder, client_of, read_data
from fedsub_client.saved_state import Saved
from fedsub_client.split_client import split_client
from fedsub_core.capacity import held_in
from fedsub_core.config.run_config import from_flat, unknown_keys
from fedsub_core.data.samples import kept_shape
from fedsub_core.data.sources import client_ids
from fedsub_core.data.standardise import Moments
from fedsub_core.encoders.names import NONE, resolve_encoder
from fedsub_core.errors import RunError
from fedsub_core.methods.table import method
from fedsub_core.metric_names import ANEW
from fedsub_core.packages import version_with
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.transcript import Addend
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
        self.client = client_of(self.node, self.people, source)
        if not self.simulated:
            check_builder(self.node, self.client, self.config.model)
        self.states = KeptStates(self.client, self.config.methods, self.node, context.state)
        own = self.config
        stores = self.states.everywhere()
        self.sums = DeviceSums(
            self.client, own, own, self.node, own.methods, stores, context.run_config
        )
        self.card, self.data = read_data(source, self.client, self.simulated)
        self.capacity = capacity_of(self.node, self.client, self.people, self.card, self.config)

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
            record = content.config_records[SECURE]
            store = self.states.store(str(record.get("method", "")))
            return self.sums.answer(record, store, self._moments)
        if handshake.HANDSHAKE in content:
            record = cast(ConfigRecord, content[handshake.HANDSHAKE])
            version = version_with(self.config.methods)
            handshake.check_versions(record, self.client, version)
            handshake.check_given(record, self.client, self._unknown)
        self.sums.check_run()
        said = self._new_cohort().introductions()[0]
        if self.simulated:
            nodes = int(self.node["num-partitions"])
            said = replace(said, people=len(self.people), nodes=nodes)
        return RecordDict({handshake.HANDSHAKE: said.record()})

    def _new_cohort(self) -> Cohort:
        """Return the person as of the file alone.

        What is saved may belong to a run of other settings.
        """
        new = FileHistory.first(self.data, self.card)
        return self._numpy_client(self._fullest, new, None, 0).cohort

    def _moments(self, part: str) -> Moments | None:
        return self._new_cohort().data.shared_moments(0, part)

    @property
    def _fullest(self) -> str:
        """The method of whose runs a device says most of itself: what it says is for all of them.

        That is one that trains on features of an encoder, where there is one.
        """
        own = self.card
        shape = kept_shape(self.data.x, own.vocabulary, own.padding, own.sample)
        for name in self.config.methods:
            card, encodes = method(name), method(name).training.encodes
            if card.trains and resolve_encoder(self.config.encoder, encodes, shape) != NONE:
                return name
        return self.config.method

    def train(self, content: RecordDict) -> RecordDict:
        """Do a round of local work and keep its outcome, before anybody hears of it."""
        told = _instructions(content)
        store = self.states.store(told.method)
        with store.lock():
            return exchange.write(self.sums.train(content, told, store, self._trained))

    def evaluate(self, content: RecordDict) -> RecordDict:
        """Evaluate the personal model on this person's test part."""
        told = _instructions(content)
        with self.states.store(told.method).lock():
            saved = self.states.load(told)
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
                    self.states.save(new, told)
        return exchange.write(answer)

    def _keep_best(self, client: FedSubClient, saved: Saved | None, told: Instructions) -> None:
        """Save the state that was tested if it is the best so far."""
        round, cohort = told.turn.round, client.cohort
        if used_round(cohort.state, 0, round) != round:
            return
        before = saved or Saved(self.client, told.run, told.method, 0, self._file(None))
        model = cohort.personal_model(0, client.model, round, told.scaling)
        self.states.save(replace(before, state=cohort.client_state(0), model=model), told)

    def _trained(self, payload: bytes, told: Instructions, part: AcceptedSum | None) -> Content:
        """Do a round, or answer what it was answered with; with a `part` in a sum under masks."""
        round, saved = told.turn.round, self.states.load(told)
        levels = None if part is None else part.levels
        if saved is not None and saved.round == round:
            log.warning("client %s: round %d was done before; same answer", self.client, round)
            reply = saved.reply
            if saved.levels is not None and part is None:
                raise self.sums.single(told)
            metrics: Content = {}
            if told.also_evaluate or levels is not None:
                before = self._numpy_client(told.method, self._file(saved), saved, round)
                metrics = before.test(told) if told.also_evaluate else metrics
                if part is not None:
                    address = Address(self.client, round)
                    again = partial(before.vector_again, told, payload, part.levels)
                    vector = rounded_again(reply, saved.levels, part.levels, address, again)
                    # What the vector was made of, and not what this session says.
                    addend = Addend(saved.once, saved.made_of)
                    reply = part.masked(vector, addend).to_bytes()
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
        report = client.report
        if round > 1 and (saved is None or self._outgrown(saved, client.cohort)):
            report = {**report, ANEW: 1.0}
            answer = {**answer, exchange.REPORT: report}
        reply = answer[exchange.PAYLOAD].to_bytes()
        # Before it is kept: what is not sent shall not count as sent.
        addend = client.addend if part is None else part.made(client.addend)
        sent = reply if part is None else part.masked(reply, addend).to_bytes()
        new = Saved(
            self.client,
            told.run,
            told.method,
            round,
            file,
            client.cohort.client_state(0),
            reply,
            report,
            client.cohort.personal_model(0, client.model, round, told.scaling),
            None if levels is None else (levels.weight, levels.each),
            addend.once,
            addend.made_of,
            round >= told.turn.rounds,
        )
        self.states.save(new, told)
        return {**answer, exchange.PAYLOAD: exchange.pack(sent)}

    def _model(self, run: str) -> RecordDict:
        if not self.simulated:
            raise RunError(
                f"client {self.client!r}: a person's model does not leave the device: use "
                "`fedsub predict` or `fedsub export` there"
            )
        saved = self.states.of_run(run)
        if saved is None or saved.model is None:
            raise RunError(f"client {self.client!r}: it has trained no round of this run")
        return RecordDict({exchange.PAYLOAD: exchange.pack(model_bytes(saved.model))})

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
        elif saved is not None and self._outgrown(saved, cohort):
            log.warning(
                "client %s: its state is not of a device of capacity %g; it begins anew",
                self.client,
                self.capacity.share,
            )
        elif not self.simulated:
            cohort.state = cohort.state | cohort.learner.own_secrets()
        return FedSubClient(cohort)

    def _outgrown(self, saved: Saved, cohort: Cohort) -> bool:
        """Whether a state is of a device of another capacity, as nothing says that it should be."""
        return bool(saved.state) and not self.capacity.drawn and not cohort.fits(saved.state)


def _instructions(content: RecordDict) -> Instructions:
    return exchange.read_instructions(content.config_records[exchange.TURN])
