"""The device half of a method: pure functions over a stack of clients' state.

A device is a cohort of one: on a phone the leading client axis has length 1, in simulation it is
the federation's. State is plain named tensors in, plain named tensors out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fedsub_core.data.stacks import Stack
from fedsub_core.models.chain import Model, Params
from fedsub_core.training.loop import TrainingSettings
from fedsub_core.wire.bundles import Download, Upload

State = dict[str, Tensor]


class Learner(ABC):
    """What a device does with its data, its state and what the server sends.

    Parameters
    ----------
    model : the architecture all clients share.
    settings : local training and the run's seed.
    hyper : the method's hyperparameters (``fedsub_core.methods``).
    """

    def __init__(self, model: Model, settings: TrainingSettings, hyper: Any) -> None:
        self.model, self.settings, self.hyper = model, settings, hyper

    def init(self, clients: int) -> State:
        """Return the state of `clients` devices before the first round: one shared model.

        Every tensor has a leading client axis; parameters go by their names in the model.
        """
        return dict(self.model.init(clients, self.settings.seed))

    def params(self, state: State) -> Params:
        """Return the personal models' parameters out of the state."""
        return {name: state[name] for name in self.model.parameter_shapes}

    @abstractmethod
    def receive(self, state: State, downloads: Sequence[Download]) -> State:
        """Return the state after each client has integrated its download, which may be empty."""

    @abstractmethod
    def fit(
        self, state: State, downloads: Sequence[Download], data: Stack, round: int
    ) -> tuple[State, list[Upload]]:
        """Do one round of local work: integrate, train, and say what to upload.

        `downloads` and the returned uploads are in the order of ``data.clients``.
        """

    def report(self, state: State) -> list[dict[str, float]]:
        """Return what each client's metrics should say beside its evaluation, by name."""
        clients = len(next(iter(state.values())))
        return [{} for _ in range(clients)]

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Return the personal models' logits ``[clients, samples, classes]``.

        `x [clients, samples, *features]`, standardised. This is the model that is evaluated,
        exported and used.
        """
        with torch.no_grad():
            return self.model.forward(self.params(state), x)
