"""FedAvg, the device half (McMahan et al. 2017): adopt the global model, train, send it all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedsub_client.learners.base import Learner, State
from fedsub_core.data.stacks import Stack
from fedsub_core.training.loop import train
from fedsub_core.wire.bundles import Download, Upload


class FedAvgLearner(Learner):
    """Keeps nothing of its own: its model is the last global model it received."""

    def receive(self, state: State, downloads: Sequence[Download]) -> State:
        """Replace every tensor that a download names."""
        received = dict(state)
        for name in self.model.parameter_shapes:
            if any(name in download.dense for download in downloads):
                received[name] = state[name].clone()
                for i, download in enumerate(downloads):
                    if name in download.dense:
                        values = np.array(download.dense[name])
                        received[name][i] = torch.from_numpy(values)
        return received

    def fit(
        self, state: State, downloads: Sequence[Download], data: Stack, round: int
    ) -> tuple[State, list[Upload]]:
        """Adopt the global model, train for the round's epochs, upload the whole model."""
        state = self.receive(state, downloads)
        trained = train(self.model, self.params(state), data, self.settings, round)
        arrays = {name: tensor.cpu().numpy() for name, tensor in trained.items()}
        uploads = [
            Upload(examples=count, dense={name: array[i] for name, array in arrays.items()})
            for i, count in enumerate(data.counts)
        ]
        return state | trained, uploads
