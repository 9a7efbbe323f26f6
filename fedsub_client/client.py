"""The device object: a Flower NumPyClient around a cohort of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedsub_client.answers import Asked, evaluate, train
from fedsub_client.best_so_far import used
from fedsub_client.cohort import Cohort
from fedsub_client.cohort_messages import NOTHING, read_download
from fedsub_client.learner import Report
from fedsub_client.protections.vectors import Repeated
from fedsub_core.models.model import Params
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.transcript import Origin
from fedsub_core.wire import exchange
from fedsub_core.wire.exchange import Content, Instructions
from fedsub_core.wire.lazy_message import LazyMessage

Arrays = list[NDArray[Any]]


class FedSubClient(NumPyClient):
    """One person's device, for any method of the table.

    Arrays are one uint8 array: the bytes of a ``fedsub.v2`` message. The config carries what
    ``fedsub_core.wire.exchange.Instructions`` says.

    Parameters
    ----------
    cohort : a cohort of exactly one client; it holds data and state.
    """

    def __init__(self, cohort: Cohort) -> None:
        if len(cohort.clients) != 1:
            raise ValueError(f"a device is a cohort of one, got {len(cohort.clients)} clients")
        self.cohort = cohort
        #: The personal model's parameters as last evaluated or trained, or of the best round so
        #: far where that is chosen, ``[1, ...]``.
        self.model: Params = cohort.learner.predicted_by(used(cohort.state))
        #: What the last round of training reported.
        self.report: Report = {}
        #: What the last round added to a sum; of no sum: nothing.
        self.origin = Origin()

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return the handshake's values: client id, version, classes, shape, moments."""
        return dict(self.cohort.introductions()[0].record())

    def fit(self, parameters: Arrays, config: dict[str, Any]) -> tuple[Arrays, int, dict[str, Any]]:
        """Take in the download, do the round's local work, return the upload.

        The third value is empty, or the metrics after it where the config asks for them.

        Raises MessageRefused if the download does not fit this client, round and method.
        """
        content = self.train(exchange.read_instructions(config), _payload(parameters))
        upload: LazyMessage = content[exchange.PAYLOAD]
        array = np.frombuffer(upload.to_bytes(), np.uint8)
        return [array], upload.header.examples, _numbers(content.get(exchange.METRICS, {}))

    def evaluate(
        self, parameters: Arrays, config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        """Evaluate the personal model on this person's test part."""
        told = exchange.read_instructions(config)
        metrics = self.test(told, _payload(parameters))[exchange.METRICS]
        return metrics["loss"], int(metrics["examples"]), _numbers(metrics)

    def train(self, told: Instructions, payload: bytes, levels: Levels | None = None) -> Content:
        """Answer a download with an upload, by `levels` with a vector; raises as :meth:`fit`."""
        cohort, one = self.cohort, replace(self._asked(told, payload), levels=levels)
        (content,), tested = train(cohort, [one])
        self.model = cohort.learner.predicted_by(tested or cohort.in_use(told.turn, told.scaling))
        self.report = content.get(exchange.REPORT, {})
        self.origin = Origin() if levels is None else cohort.learner.origin(one.received)
        return content

    def test(self, told: Instructions, payload: bytes | None = None) -> Content:
        """Answer metrics, after a download where there is one; raises as :meth:`fit`."""
        one = Asked(0, told, NOTHING) if payload is None else self._asked(told, payload)
        (content,), state = evaluate(self.cohort, [one])
        self.model = self.cohort.learner.predicted_by(state)
        return content

    def vector_again(
        self, told: Instructions, payload: bytes, levels: Levels, vector: Words, before: Levels
    ) -> Words:
        """Return a round's vector once more, by other levels, after the repeated round's download.

        Raises as :meth:`fit`.
        """
        received = self._asked(told, payload).received
        examples = self.cohort.introductions()[0].facts.examples
        again = Repeated(before, levels, examples, self.cohort.state, received)
        return self.cohort.learner.vector_again(vector, again)

    def _asked(self, told: Instructions, payload: bytes) -> Asked:
        return Asked(0, told, read_download(self.cohort, 0, payload, told.turn.round))


def _numbers(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics without lists, which Flower's NumPyClient does not know."""
    return {name: value for name, value in metrics.items() if not isinstance(value, list)}


def _payload(parameters: Arrays) -> bytes:
    if len(parameters) != 1 or parameters[0].dtype != np.uint8:
        kinds = [f"{array.dtype}{list(array.shape)}" for array in parameters]
        raise ValueError(f"got arrays {kinds}, expected one uint8 array: a fedsub.v2 message")
    return parameters[0].tobytes()
