"""A person's model as a plain ``torch.nn.Module`` that needs nothing of FedSub."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedsub_client.loaded_model import LoadedModel
from fedsub_core.models.to_torch import to_torch


class PersonalModule(nn.Module):
    """``x [batch, *features]`` in the card's units to ``probabilities [batch, classes]``.

    Standardisation and softmax are inside. Where the model was trained without standardisation,
    the mean is 0 and the standard deviation 1, which changes no number.

    Parameters
    ----------
    loaded : the person's model; its parameters are copied.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        mean, std = scaling_tensors(loaded)
        axes = (1, -1) + (1,) * (len(loaded.model.shape) - 1)
        self.register_buffer("mean", mean.reshape(axes))
        self.register_buffer("std", std.reshape(axes))
        self.layers = to_torch(loaded.architecture, loaded.model.params)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the probability of every class."""
        logits: Tensor = self.layers((x - self.mean) / self.std)
        return logits.softmax(1)


def scaling_tensors(loaded: LoadedModel) -> tuple[Tensor, Tensor]:
    """Return what features are standardised with, float32 [F]: 0 and 1 where they are not."""
    scaling = loaded.model.scaling
    if scaling is None:
        return torch.zeros(loaded.model.shape[0]), torch.ones(loaded.model.shape[0])
    return torch.from_numpy(scaling.mean.copy()), torch.from_numpy(scaling.std.copy())
