"""What devices of sparse models share: masks that are received with the model and hold in training.

State: beside the model ``mask.<tensor>`` bool [clients, ...] of what travels by single numbers; all
True before the first download.
"""

from typing import Any

import torch
from torch import Tensor

from fedsub_client.learner import Received, State
from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.method_parts.layers import is_weight
from fedsub_core.models.model import Params
from fedsub_core.placement import Placement
from fedsub_core.training import Batches, Gradient, Masked, Met, Passes, Trained, Turn, each_batch
from fedsub_core.wire.bundles import Bundle, Floats, Kind
from fedsub_papers.methods.sparse import GRADIENT


class SparseLearner(FedAvgLearner):
    """FedAvg's, whose numbers are zero where the server's mask says so."""

    def init(self, clients: int, seed: int) -> State:
        """Return the shared start, whole; what travels by single numbers has a mask."""
        state = super().init(clients, seed)
        model = self.get(state, "model")
        masked = [name for name in model if self._by_elements(name)]
        ones = {name: torch.ones_like(model[name], dtype=torch.bool) for name in masked}
        return state | self.put(ones, "mask")

    def receive(self, state: State, received: Received) -> State:
        """Adopt the model; what is masked out of it is zero."""
        state = super().receive(state, received)
        named = [n for n in self.masks(state) if any(n in bundle.tensors for bundle in received)]
        copied = [f"{kind}.{name}" for name in named for kind in ("model", "mask")]
        state = state | {name: state[name].clone() for name in copied}
        for i, bundle in enumerate(received):
            for name in named:
                if name in bundle.tensors:
                    model, mask = state[f"model.{name}"][i], state[f"mask.{name}"][i]
                    mask.copy_(torch.from_numpy(bundle.part(name).at.held(mask.shape)))
                    model[~mask] = 0
        return state

    def _by_elements(self, name: str) -> bool:
        return name in self.sends and self.sends[name].kind is Kind.ELEMENTS

    def masks(self, state: State) -> Params:
        """Return the masks, bool, by the names of what they mask."""
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
        one, fewest = Passes.of(self.settings, "gradient", steps=1), self.model.fewest_samples
        return each_batch(empty, data, turn, step, one, beside=params, fewest=fewest)[0]

    def sparse_uploads(
        self, params: Params, masks: Params, data: Stack, beside: Params | None = None
    ) -> list[Bundle]:
        """Return uploads of the numbers that masks keep, with whole tensors `beside` them."""
        arrays = {name: tensor.cpu().numpy() for name, tensor in (params | (beside or {})).items()}
        held = {name: mask.cpu().numpy() for name, mask in masks.items()}
        names = [name for name in self.sends if name in arrays]
        uploads = []
        for i, count in enumerate(data.counts):
            at = {name: Placement(elements=mask[i]) for name, mask in held.items()}
            parts = {name: Floats.of(arrays[name][i], at.get(name)) for name in names}
            uploads.append(Bundle(count, tensors=parts))
        return uploads


def weights_of(params: Params) -> dict[str, Tensor]:
    """Return the weights, without biases."""
    return {name: tensor for name, tensor in params.items() if is_weight(tensor.shape[1:])}
