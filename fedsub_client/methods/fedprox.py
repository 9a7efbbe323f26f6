"""FedProx, the device half (Li et al. 2020, eq. 2)."""

from __future__ import annotations

from typing import Any

from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Params
from fedsub_core.training import Pull, Trained, Turn


class FedProxLearner(FedAvgLearner):
    """FedAvg's, with a pull to the model that training starts from: the one received."""

    def train(self, params: Params, data: Stack, turn: Turn, **options: Any) -> Trained:
        """Minimise the loss and ``mu / 2 * ||p - w||**2``."""
        objective = self.loss + Pull(params, self.hyper.mu)
        return super().train(params, data, turn, objective=objective, **options)
