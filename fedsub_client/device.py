"""One device: finds its person's data and state, answers the server's messages, keeps its state.

A round is trained once: asked for it again, after any crash on either side, the device sends the
very reply that it saved.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from flwr.app import ConfigRecord, Context, RecordDict

from fedsub_client.answers import trained
from fedsub_client.best_so_far import used_round
from fedsub_client.client import FedSubClient
from fedsub_client.kept_states import KeptStates
from fedsub_client.model_file import model_bytes
from fedsub_client.person import Person, encoder_here
from fedsub_client.policy import check_policy, read_policy
from fedsub_client.protections.accepted_sum import AcceptedSum, rounded_again
from fedsub_client.protections.device_roster import take_roster
from fedsub_client.protections.device_sums import DeviceSums
from fedsub_client.saved_state import Saved
from fedsub_core.config.run_config import from_flat, unknown_keys
from fedsub_core.errors import RunError
from fedsub_core.metric_names import ANEW
from fedsub_core.packages import version_with
from fedsub_core.pytorch import as_numpy, as_tensor
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.transcript import Origin
from fedsub_core.wire import exchange, greeting, handshake
from fedsub_core.wire.codec import Address
from fedsub_core.wire.exchange import Content, Instructions
from fedsub_core.wire.joined import JOINED, joined, separate

log = logging.getLogger("fedsub")


class Device:
    """A person's device.

    Which person: ``client-id`` and ``data`` (a federation's folder with that client's file) of
    the node's config; ``partition-id`` in Flower's simulation, the n-th client of the run
    config's ``data``. With ``state-dir`` its state lasts on disk, else as long as the node. With
    ``capacity`` it says which share of the encoder or model it can hold; else the data card does,
    or the run config. ``model`` is the one builder, ``package.module:builder`` or
    ``file.py:builder``, that it runs where a server names it. A simulated device whose object lasts
    keeps its state in `held`.

    Raises DataError where there is no such person or the data cannot be used.
    """

    def __init__(self, context: Context, held: dict[str, Saved] | None = None) -> None:
        # A server of a later release may list keys that this one does not have: `query` looks at
        # them.
        self.run_config = context.run_config
        self._unknown = unknown_keys(context.run_config)
        known = {k: v for k, v in context.run_config.items() if k not in self._unknown}
        self.node = context.node_config
        if "encoder" in known:
            known["encoder"] = encoder_here(self.node, str(known["encoder"]))
        self.config = from_flat(known)
        self.person = Person(self.node, self.config)
        self.client = self.person.client
        self.states = KeptStates(self.client, self.config.methods, self.node, context.state, held)
        own = self.config
        kept, opened = self.states.everywhere(), self.states.opened()
        self.sums = DeviceSums(
            self.client, own, own, self.node, own.methods, kept, opened, context.run_config
        )

    def answer(self, kind: str, content: RecordDict) -> RecordDict:
        """Return the answer to a message of a kind, such as ``train``; joined if that is.

        Raises MessageRefused where a joined message is none; and as the kind's own method. Raises
        Unwilling where the owner's policy does not allow to compute now.
        """
        if kind != "query" and "state-dir" in self.node:
            check_policy(Path(str(self.node["state-dir"])), self.client)
        verbs = {"query": self.query, "train": self.train, "evaluate": self.evaluate}
        reply = verbs[kind](separate(content, self.client))
        if handshake.HANDSHAKE in reply:
            reply.config_records[handshake.HANDSHAKE][JOINED] = 1
        return joined(reply) if JOINED in content else reply

    def query(self, content: RecordDict) -> RecordDict:
        """Answer a question: who this is, or in a simulation what its model is.

        Raises MessageRefused where the server speaks another wire, where the package of a method of
        the run is another, or where the run gives a value to a key that this release does not have;
        where its settings are not those of this device's app; or its run is of single uploads, and
        the device's owner shows sums alone. Raises RunError where a server asks a person's device
        for the person's model.
        """
        if exchange.MODEL in content:
            return self._model(str(content.config_records[exchange.MODEL].get("run", "")))
        if SECURE in content:
            record = content.config_records[SECURE]
            store = self.states.store(str(record.get("method", "")))
            return self.sums.answer(record, store, self.person.moments)
        if handshake.HANDSHAKE in content:
            record = cast(ConfigRecord, content[handshake.HANDSHAKE])
            version = version_with(self.config.methods)
            greeting.check_versions(record, self.client, version)
            greeting.check_given(record, self.client, self._unknown)
            if greeting.SETTINGS in content:
                told = content.config_records[greeting.SETTINGS]
                greeting.check_settings(told, self.client, self.run_config)
            if roster := greeting.roster_in(record, self.client):
                take_roster(self.node, self.client, roster)
        self.sums.check_run()
        said = self.person.new_cohort().introductions()[0]
        if "state-dir" in self.node:
            hours = read_policy(Path(str(self.node["state-dir"]))).daily(time.localtime())
            said = replace(said, facts=replace(said.facts, hours=hours))
        if self.person.simulated:
            nodes = int(self.node["num-partitions"])
            said = replace(said, people=len(self.person.people), nodes=nodes)
        return RecordDict({handshake.HANDSHAKE: said.record()})

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
            file, round = self.person.file(saved), told.turn.round
            client = self.person.numpy_client(told.method, file, saved, round)
            answer = client.test(told, exchange.unpack(content))
            if client.cohort.keeps_best:
                self._keep_best(client, saved, told)
            elif saved is not None and saved.model and not self.person.knows_more(saved):
                # What was tested is what is used: the server's newest, or adapted to this person.
                own = {name: as_numpy(tensor[0]) for name, tensor in client.model.items()}
                # Mostly it is kept already; and a full disk is no reason not to say how it does.
                kept = saved.model.params
                if any(not np.array_equal(own[n], as_numpy(t)) for n, t in kept.items()):
                    params = {name: as_tensor(values) for name, values in own.items()}
                    new = replace(saved, model=replace(saved.model, params=params))
                    self.states.save(new, told)
        return exchange.write(answer)

    def _keep_best(self, client: FedSubClient, saved: Saved | None, told: Instructions) -> None:
        """Save the state that was tested if it is the best so far."""
        round, cohort = told.turn.round, client.cohort
        if used_round(cohort.state, 0, round) != round:
            return
        before = saved or Saved(self.client, told.run, told.method, 0, self.person.file(None))
        model = cohort.personal_model(0, client.model, round, told.scaling)
        self.states.save(replace(before, state=cohort.client_state(0), model=model), told)

    def _trained(self, payload: bytes, told: Instructions, part: AcceptedSum | None) -> Content:
        """Do a round, or answer what it was answered with; with a `part` in a sum under masks."""
        round, saved = told.turn.round, self.states.load(told)
        levels = None if part is None else part.levels
        stale = saved is not None and saved.levels is None and self.person.knows_more(saved)
        if saved is not None and saved.round == round and not stale:
            log.warning("client %s: round %d was done before; same answer", self.client, round)
            reply = saved.reply
            if saved.levels is not None and part is None:
                raise self.sums.single(told)
            metrics: Content = {}
            if told.also_evaluate or levels is not None:
                file = self.person.file(saved)
                before = self.person.numpy_client(told.method, file, saved, round)
                metrics = before.test(told) if told.also_evaluate else metrics
                if part is not None:
                    address = Address(self.client, round)
                    again = partial(before.vector_again, told, payload, part.levels)
                    vector = rounded_again(reply, saved.levels, part.levels, address, again)
                    # What the vector was made of, and not what this session says.
                    origin = Origin(saved.once, saved.made_of)
                    reply = part.masked(vector, origin).to_bytes()
            return trained(exchange.pack(reply), saved.report, metrics)
        if saved is not None and saved.round > round:
            log.warning(
                "client %s: asked for round %d after %d: the server went back, as after restoring "
                "a backup; training on",
                self.client,
                round,
                saved.round,
            )
        file = self.person.file(saved)
        client = self.person.numpy_client(told.method, file, saved, round)
        answer = client.train(told, payload, levels)
        report = client.report
        if round > 1 and (saved is None or self.person.outgrown(saved, client.cohort)):
            report = {**report, ANEW: 1.0}
            answer = {**answer, exchange.REPORT: report}
        reply = answer[exchange.PAYLOAD].to_bytes()
        # Before it is kept: what is not sent shall not count as sent.
        origin = client.origin if part is None else part.made(client.origin)
        sent = reply if part is None else part.masked(reply, origin).to_bytes()
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
            origin.once,
            origin.made_of,
            round >= told.turn.rounds,
        )
        self.states.save(new, told)
        return {**answer, exchange.PAYLOAD: exchange.pack(sent)}

    def _model(self, run: str) -> RecordDict:
        if not self.person.simulated:
            raise RunError(
                f"client {self.client!r}: a person's model does not leave the device: use "
                "`fedsub predict` or `fedsub export` there"
            )
        saved = self.states.of_run(run)
        if saved is None or saved.model is None:
            raise RunError(f"client {self.client!r}: it has trained no round of this run")
        return RecordDict({exchange.PAYLOAD: exchange.pack(model_bytes(saved.model))})


def _instructions(content: RecordDict) -> Instructions:
    return exchange.read_instructions(content.config_records[exchange.TURN])
