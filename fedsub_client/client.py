"""The device object: a Flower NumPyClient around a cohort of one."""

from __future__ import annotations

from typing import Any

import numpy as np
from flwr.app import ConfigRecord
from flwr.client import NumPyClient
from numpy.typing import NDArray

from fedsub_client.cohort import Cohort
from fedsub_core.data.standardise import Scaling
from fedsub_core.metrics import ClientMetrics
from fedsub_core.models.chain import Params
from fedsub_core.wire import exchange, handshake
from fedsub_core.wire.bundles import Download

NOTHING = Download()
Arrays = list[NDArray[Any]]


class FedSubClient(NumPyClient):
    """One person's device, for any method of the table.

    Arrays are one uint8 array: the bytes of a ``fedsub.v1`` message. The config carries the
    round and the standardisation (``fedsub_core.exchange.order``).

    Parameters
    ----------
    cohort : a cohort of exactly one client; it holds data and state.
    """

    def __init__(self, cohort: Cohort) -> None:
        if len(cohort.clients) != 1:
            raise ValueError(f"a device is a cohort of one, got {len(cohort.clients)} clients")
        self.cohort = cohort
        #: The personal model's parameters as last evaluated, where the server sent (part of) it.
        self.received: Params | None = None

    def get_properties(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return the opening's values: client id, version, classes, shape, moments."""
        return dict(handshake.opening_record(self.cohort.openings()[0]))

    def fit(self, parameters: Arrays, config: dict[str, Any]) -> tuple[Arrays, int, dict[str, Any]]:
        """Integrate the download, do the round's local work, return the upload.

        The third value is empty, or the metrics after it where the config asks for them.

        Raises
        ------
        MessageRefused
            If the download does not fit this client, round and model.
        """
        round, scaling = exchange.read_order(ConfigRecord(config))
        download = self.cohort.open(0, _payload(parameters), round)
        upload = self.cohort.fit(round, scaling, [0], [download])[0]
        payload = self.cohort.seal(0, upload, download, round)
        values = self.assess(round, scaling)[1] if config.get(exchange.EVALUATE) else {}
        return [np.frombuffer(payload, np.uint8)], upload.examples, values

    def evaluate(
        self, parameters: Arrays, config: dict[str, Any]
    ) -> tuple[float, int, dict[str, Any]]:
        """Evaluate the personal model on this person's test part."""
        round, scaling = exchange.read_order(ConfigRecord(config))
        download = self.cohort.open(0, _payload(parameters), round)
        if download.dense or download.layers:
            state = self.cohort.receive([download])
            self.received = self.cohort.learner.params(state)
        metrics, values = self.assess(round, scaling, download)
        return metrics.loss, metrics.examples, values

    def assess(
        self, round: int, scaling: Scaling | None, download: Download = NOTHING
    ) -> tuple[ClientMetrics, dict[str, Any]]:
        """Return the personal model's metrics on this person's test part, also as plain values."""
        metrics = self.cohort.evaluate(round, scaling, [0], [download]).clients()[0]
        return metrics, dict(exchange.metrics_record(metrics, self.cohort.reports()[0]))


def _payload(parameters: Arrays) -> bytes:
    if len(parameters) != 1 or parameters[0].dtype != np.uint8:
        kinds = [f"{array.dtype}{list(array.shape)}" for array in parameters]
        raise ValueError(f"got arrays {kinds}, expected one uint8 array: a fedsub.v1 message")
    return parameters[0].tobytes()
