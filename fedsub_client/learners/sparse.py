"""What devices of sparse models share: masks that are received with the model and hold in training.

State: beside the model ``mask.<weight>`` bool [clients, ...]; all True before the first download.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsub_client.learners.base import Received, State
from fedsub_client.learners.fedavg import FedAvgLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.parts import GRADIENT
from fedsub_core.models.chain import Params
from fedsub_core.training import Batches, Gradient, Masked, Met, Trained, Turn, each_batch
from fedsub_core.wire.bundles import Bundle, Dense, Elements, Part


class SparseLearner(FedAvgLearner):
    """FedAvg's, whose weights are zero where the server's mask says so."""

    def init(self, clients: int, seed: int) -> State:
        """Return the shared start, whole."""
        state = super().init(clients, seed)
        weights = weights_of(self.get(state, "model"))
        ones = {n: torch.ones_like(t, dtype=torch.bool) for n, t in weights.items()}
        return state | self.put(ones, "mask")

    def receive(self, state: State, received: Received) -> State:
        """Adopt the model; what is masked out of it is zero."""
        state = super().receive(state, received)
        masks = self.masks(state)
        if not any(isinstance(b.tensors.get(name), Elements) for b in received for name in masks):
            return state
        state = state | {k: t.clone() for k, t in state.items() if k.endswith(".weight")}
        for i, bundle in enumerate(received):
            for name in masks:
                part = bundle.tensors.get(name)
                if isinstance(part, Elements):
                    whole = np.zeros(part.mask.shape, np.float32)
                    whole[part.mask] = part.values
                    state[f"model.{name}"][i] = torch.from_numpy(whole)
                    state[f"mask.{name}"][i] = torch.from_numpy(part.mask.copy())
        return state

    def masks(self, state: State) -> Params:
        """Return the masks, bool, by the names of the weights."""
        return {n.removeprefix("mask."): t for n, t in state.items() if n.startswith("mask.")}

    def train_masked(
        self, params: Params, masks: Params, data: Stack, turn: Turn, **options: Any
    ) -> Trained:
        """Train what is not masked out."""
        objective = options.pop("objective", self.loss)
        held = Masked({name: mask.float() for name, mask in masks.items()})
        return self.train(params, data, turn, objective=objective + held, **options)

    def gradients(self, params: Params, data: Stack, turn: Turn) -> Params:
        """Return the gradient of every weight on one batch, masked out or not."""
        gradient, weights = Gradient(self.model, self.loss), weights_of(params)

        def step(rows: Params, batches: Batches) -> Met:
            found, met = gradient.value({n: rows[n] for n in params}, batches[0])
            for name in weights:
                rows[GRADIENT + name].copy_(found[name])
            return met

        empty = {GRADIENT + name: torch.zeros_like(t) for name, t in weights.items()}
        size = self.settings.batch_size
        one = {"epochs": 1, "batch_size": size, "phase": "gradient", "steps": 1}
        return each_batch(empty, data, turn, step, beside=params, **one)[0]  # type: ignore[arg-type]

    def sparse_uploads(
        self, params: Params, masks: Params, data: Stack, beside: Params | None = None
    ) -> list[Bundle]:
        """Return what is not masked out of each client's model, and whole tensors `beside` it."""
        arrays = {name: tensor.cpu().numpy() for name, tensor in (params | (beside or {})).items()}
        packed = {name: mask.cpu().numpy() for name, mask in masks.items()}

        def part(name: str, i: int) -> Part:
            if name not in packed:
                return Dense(arrays[name][i])
            return Elements(packed[name][i], arrays[name][i][packed[name][i]])

        names = [name for name in self.sends if name in arrays]
        return [
            Bundle(count, tensors={name: part(name, i) for name in names})
            for i, count in enumerate(data.counts)
        ]


def weights_of(params: Params) -> dict[str, Tensor]:
    """Return the weights, without biases."""
    return {name: tensor for name, tensor in params.items() if name.endswith(".weight")}
