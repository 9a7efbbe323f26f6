"""A device in a run's secure sums: it answers questions about them, and masks what it sends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from fedsub_client.protections.accepted_sum import (
    AcceptedSum,
    accepted,
    holds_tensors,
    least_of,
    vector_in,
)
from fedsub_client.protections.device_roster import ROSTER, signer_of
from fedsub_client.protections.opened_store import OpenedStore
from fedsub_client.protections.receipts import note_receipt, promised
from fedsub_client.protections.sum_answers import answered
from fedsub_client.store import Store
from fedsub_core.addends import MEANS
from fedsub_core.config.settings import NoiseSettings, SecureSettings
from fedsub_core.data.standardise import Moments
from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.methods.table import method
from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.roster import Signer
from fedsub_core.wire import exchange
from fedsub_core.wire.exchange import Content, Instructions

log = logging.getLogger("fedsub")


class DeviceSums:
    """A person's part in sums, from message to message.

    Parameters
    ----------
    settings, noise : whether the run is of sums, and of which; of what with noise on means.
    node : the node's config, in which the owner may want more than the run does.
    stores : all in which the person may have kept something of sums: a run may go on with another
        main method, which is kept elsewhere then.
    opened : where the person keeps the sums that it opened.
    config : the run's configuration, as it came.

    Raises DataError if the node config's ``secure-least`` is no whole number.
    """

    def __init__(
        self,
        client: str,
        settings: SecureSettings,
        noise: NoiseSettings,
        node: Mapping[str, Any],
        methods: Sequence[str],
        stores: Sequence[Store],
        opened: OpenedStore,
        config: Mapping[str, Any],
    ) -> None:
        self.client, self.settings, self._noise, self._node = client, settings, noise, node
        self._stores, self._opened, self._config = stores, opened, config
        self._least = least_of(node, client)
        self._of_classes = [name for name in methods if method(name).sums not in (None, MEANS)]

    def check_run(self) -> None:
        """Refuse a run of single uploads where the device's owner shows sums alone.

        And one of sums over a class or a unit that are of fewer people than its owner wants:
        these go by the run's number, and the device sees of nothing but the whole how many it has.

        Raises MessageRefused for such a run.
        """
        if self._shows_sums_alone() and not self.settings.secure_aggregation:
            got = "a run whose server sees single uploads"
            expected = "secure-aggregation = true, as in this device's node config"
            raise MessageRefused(self.client, 0, "secure aggregation", got, expected)
        least = self.settings.secure_least
        if self.settings.secure_aggregation and self._of_classes and least < self._least:
            got = f"{least}, for sums over a class or unit of {', '.join(self._of_classes)}"
            expected = f"{self._least} at least, as in this device's node config"
            raise MessageRefused(self.client, 0, "secure-least", got, expected)

    def answer(
        self, record: ConfigRecord, store: Store, moments: Callable[[str], Moments | None]
    ) -> RecordDict:
        """Answer a question about a sum, and keep in `store` what is needed of it.

        `moments` is :func:`answered`'s.

        Raises RunError where the run is of no sums. Raises DataError where the roster of its node
        config cannot be used.
        """
        with store.lock():
            run = str(record.get("run", ""))
            person = self._participant(store, run)
            # Once for each run; in a simulation all are of one hand.
            first = not any(one.load_sums(run) for one in self._stores)
            if first and not self._node.get(ROSTER) and "client-id" in self._node:
                log.warning(
                    "client %s: secure sums without secure-roster: they hide its uploads from a "
                    "server that is curious, and not from one that lies about people's keys",
                    self.client,
                )
            said = answered(person, record, moments, partial(_kept, store, run), self._config)
            # First whom it opened the sum with: what is answered twice is the same then.
            self._opened.save(person.opened)
            store.save_sums(person.kept(), run)
            self._note(person, run, str(record.get("method", "")))
        return said

    def train(
        self,
        content: RecordDict,
        told: Instructions,
        store: Store,
        work: Callable[[bytes, Instructions, AcceptedSum | None], Content],
    ) -> Content:
        """Do a round; what is sent of a sum's is masked, what is kept of it is not.

        Parameters
        ----------
        work : does the round of a download; with a part in a sum its upload is a masked vector.

        Raises MessageRefused where the person cannot go by the sum's plan; or where there is none
        beside the download, and nothing may leave that tells of this person alone: by the run, by
        its owner, or because the person has sent something under masks in this run.
        """
        if SECURE not in content:
            of_sums = self.settings.secure_aggregation
            if not of_sums and (self._shows_sums_alone() or self._took_part(told.run, store)):
                raise self.single(told)
            answer = work(exchange.unpack(content), told, None)
            if of_sums and holds_tensors(exchange.unpack(answer)):
                raise self.single(told)
            return answer
        person = self._participant(store, told.run)
        # Before all work: what cannot be sent need not be made.
        part = accepted(person, content, told, self.settings, self._noise, self._config)
        answer = work(exchange.unpack(content), told, part)
        store.save_sums(person.kept(), told.run)
        self._note(person, told.run, told.method)
        return answer

    def single(self, told: Instructions) -> MessageRefused:
        """Return the error for a server that wants an upload by itself."""
        got, expected = "a question for the upload itself", "a plan of a sum beside it"
        return MessageRefused(self.client, told.turn.round, "secure sum", got, expected)

    def _note(self, person: Participant, run: str, method: str) -> None:
        """Keep what the person's last answer is, to check the server's transcript by."""
        if (facts := person.receipt) and "vector" in facts:
            noise = promised(self._config, method)
            facts = {"client": self.client, "run": run, "noise": noise, **facts}
        if facts:
            note_receipt(self._node, self.client, run, facts)

    def _took_part(self, run: str, store: Store) -> bool:
        return self._person(store, 0, run).took_part(run)

    def _participant(self, store: Store, run: str) -> Participant:
        """Return the person as it takes part in a run's sums, with what it kept."""
        self.check_run()
        if not self.settings.secure_aggregation:
            raise RunError(f"client {self.client!r}: asked for a part in a sum, in a run of none")
        least = max(self.settings.secure_least, self._least)
        return self._person(store, least, run, signer_of(self._node, self.client))

    def _person(
        self, store: Store, least: int, run: str, signer: Signer | None = None
    ) -> Participant:
        # By the device's clock: for readers of a refusal.
        opened = self._opened.load(date.today().isoformat())
        try:
            kept = store.load_sums(run)
            return Participant(self.client, least, kept, opened=opened, signer=signer)
        except ValueError as error:
            # Of its run nobody knows any more which sums were opened.
            saved = store.load()
            log.warning(
                "client %s: what it kept of its sums is damaged (%s); it begins anew",
                self.client,
                error,
            )
            lost = run or (saved.run if saved else None)
            return Participant(self.client, least, lost=lost, opened=opened, signer=signer)

    def _shows_sums_alone(self) -> bool:
        """Whether nothing may leave that tells of this person alone: by the run or its owner."""
        return self.settings.secure_aggregation or bool(self._node.get("secure-aggregation", False))


def _kept(store: Store, run: str) -> Words | None:
    """Return the vector of a run's last round; None without one."""
    saved = store.load()
    if saved is None or saved.run != run or saved.levels is None:
        return None
    return vector_in(saved.reply)
