"""FedAvg, the server half (McMahan et al. 2017): the mean of models, weighted by samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from fedsub_core.models.chain import Model
from fedsub_core.wire.bundles import Download, Upload
from fedsub_core.wire.envelope import Envelope
from strategies.rounds.strategy import PersonalizedStrategy, State


class FedAvgStrategy(PersonalizedStrategy):
    """One global model; everybody is evaluated with it as it comes from the server."""

    evaluates_download = True

    def init(self, model: Model) -> State:
        """Return the global model before the first round: the clients' common start."""
        return {name: tensor[0] for name, tensor in model.init(1, self.config.seed).items()}

    def downloads(self, state: State, clients: Sequence[str], model: Model) -> list[Download]:
        """Send the whole global model to everybody."""
        dense = {name: tensor.numpy() for name, tensor in state.items()}
        return [Download(dense=dense)] * len(clients)

    def check(self, upload: Upload, envelope: Envelope) -> None:
        """Demand every tensor of the model and at least one sample."""
        if upload.dense.keys() != envelope.model.parameter_shapes.keys():
            raise envelope.refuse("tensors", sorted(upload.dense), "every parameter of the model")
        if upload.examples < 1:
            raise envelope.refuse("examples", upload.examples, "1 or more")

    def aggregate(
        self, state: State, uploads: Mapping[str, Upload], round: int, model: Model
    ) -> State:
        """Average the round's models, each weighted by its number of samples."""
        total = sum(upload.examples for upload in uploads.values())
        mean = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        for upload in uploads.values():
            for name, tensor in mean.items():
                values = torch.from_numpy(upload.dense[name].copy())
                tensor.add_(values, alpha=upload.examples / total)
        return mean
