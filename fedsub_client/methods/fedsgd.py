"""FedSGD, the device half (McMahan et al. 2017): one full-batch gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Params
from fedsub_core.training import Trained, Turn


class FedSGDLearner(FedAvgLearner):
    """FedAvg's with one epoch, one batch of everything, and a plain step."""

    def train(self, params: Params, data: Stack, turn: Turn, **options: Any) -> Trained:
        """Take one step."""
        one = replace(self.settings.plain(), epochs=1, steps=0, batch_size=max(data.counts))
        return super().train(params, data, turn, settings=one, **options)
