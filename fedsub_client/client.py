"""The device object: a Flower NumPyClient around a cohort of one."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedsub_client.best_so_far import used
from fedsub_client.cohort import NOTHING, Cohort
from fedsub_client.learner import Report
from fedsub_core.metrics import ClientMetrics
from fedsub_core.models.model import Params
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.exchange import Instructions

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

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return the handshake's values: client id, version, classes, shape, moments."""
        return dict(self.cohort.introductions()[0].record())

    def fit(self, parameters: Arrays, config: dict[str, Any]) -> tuple[Arrays, int, dict[str, Any]]:
        """Take in the download, do the round's local work, return the upload.

        The third value is empty, or the metrics after it where the config asks for them.

        Raises
        ------
        MessageRefused
            If the download does not fit this client, round and method.
        """
        told = exchange.read_instructions(config)
        received = self.cohort.decode(0, _payload(parameters), told.turn.round)
        uploads, reports = self.cohort.fit(told.turn, told.scaling, [0], [received])
        self.report = reports[0]
        payload = self.cohort.encode(0, uploads[0], received, told.turn.round).to_bytes()
        state = self.cohort.in_use(told.turn, told.scaling)
        self.model = self.cohort.learner.predicted_by(state)
        values = dict(exchange.metrics_record(self.assess(told))) if told.also_evaluate else {}
        return [np.frombuffer(payload, np.uint8)], uploads[0].examples, values

    def evaluate(
        self, parameters: Arrays, config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        """Evaluate the personal model on this person's test part."""
        told = exchange.read_instructions(config)
        received = self.cohort.decode(0, _payload(parameters), told.turn.round)
        metrics = self.assess(told, received)
        return metrics.loss, metrics.examples, dict(exchange.metrics_record(metrics))

    def assess(self, told: Instructions, received: Bundle = NOTHING) -> ClientMetrics:
        """Return the personal model's metrics on this person's test part; note its parameters."""
        cohort = self.cohort
        state = cohort.personalised(told.turn, told.scaling, [0], [received])
        self.model = cohort.learner.predicted_by(state)
        return cohort.evaluate(told.turn, told.scaling, [0], state).clients()[0]


def _payload(parameters: Arrays) -> bytes:
    if len(parameters) != 1 or parameters[0].dtype != np.uint8:
        kinds = [f"{array.dtype}{list(array.shape)}" for array in parameters]
        raise ValueError(f"got arrays {kinds}, expected one uint8 array: a fedsub.v2 message")
    return parameters[0].tobytes()
