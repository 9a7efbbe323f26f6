"""A device in a run's secure sums: it answers questions about them, and masks what it sends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from fedsub_client.own_part import accepted, answered, holds_tensors, least_of, masked
from fedsub_client.store import Store
from fedsub_core.config.settings import SecureSettings
from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.quantise import Levels
from fedsub_core.wire import exchange
from fedsub_core.wire.exchange import Content, Instructions

log = logging.getLogger("fedsub")


class DeviceSums:
    """A person's part in sums, from message to message.

    Parameters
    ----------
    client : the person.
    settings : whether the run is of sums, and of which.
    node : the node's config, in which the owner may want more than the run does.

    Raises
    ------
    DataError
        If the node config's ``secure-least`` is no whole number.
    """

    def __init__(self, client: str, settings: SecureSettings, node: Mapping[str, Any]) -> None:
        self.client, self.settings, self._node = client, settings, node
        self._least = least_of(node, client)

    def check_run(self) -> None:
        """Refuse a run of single uploads where the device's owner shows sums alone.

        Raises
        ------
        MessageRefused
            For such a run.
        """
        if self._shows_sums_alone() and not self.settings.secure_aggregation:
            got = "a run whose server sees single uploads"
            expected = "secure-aggregation = true, as in this device's node config"
            raise MessageRefused(self.client, 0, "secure aggregation", got, expected)

    def answer(self, record: ConfigRecord, store: Store) -> RecordDict:
        """Answer a question about a sum, and keep in `store` what is needed of it.

        Raises
        ------
        RunError
            Where the run is of no sums.
        """
        with store.lock():
            person = self._participant(store)
            said = answered(person, record)
            store.save_sums(person.kept())
        return said

    def train(
        self,
        content: RecordDict,
        told: Instructions,
        store: Store,
        work: Callable[[bytes, Instructions, Levels | None], Content],
    ) -> Content:
        """Do a round; what is sent of a sum's is masked, what is kept of it is not.

        Parameters
        ----------
        work : does the round of a download; with levels its upload is one vector of whole numbers.

        Raises
        ------
        MessageRefused
            Where the person cannot go by the sum's plan; or where there is none beside the
            download, and nothing may leave that tells of this person alone.
        """
        if SECURE not in content:
            answer = work(exchange.unpack(content), told, None)
            if self._shows_sums_alone() and holds_tensors(exchange.unpack(answer)):
                got, expected = "a question for the upload itself", "a plan of a sum beside it"
                raise MessageRefused(self.client, told.turn.round, "secure sum", got, expected)
            return answer
        person = self._participant(store)
        # Before all work: what cannot be sent need not be made.
        came = accepted(person, content, told, self.settings)
        assert came is not None
        plan, levels = came
        answer = work(exchange.unpack(content), told, levels)
        upload = masked(person, exchange.unpack(answer), plan)
        store.save_sums(person.kept())
        return {**answer, exchange.PAYLOAD: exchange.pack(upload.to_bytes())}

    def _participant(self, store: Store) -> Participant:
        """Return the person as it takes part in sums, with what it kept."""
        if not self.settings.secure_aggregation:
            raise RunError(f"client {self.client!r}: asked for a part in a sum, in a run of none")
        least = max(self.settings.secure_least, self._least)
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

    def _shows_sums_alone(self) -> bool:
        """Whether nothing may leave that tells of this person alone: by the run or its owner."""
        return self.settings.secure_aggregation or bool(self._node.get("secure-aggregation", False))
