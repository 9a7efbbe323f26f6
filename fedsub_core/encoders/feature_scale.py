"""The last layer of an encoder that is a module: features of any size to [-1, 1]."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor, nn

#: Standard deviations that are the full scale, 1.
DEVIATIONS = 4


class FeatureScale(nn.Module):
    """Features ``[n, F]``, less their mean, over four of their standard deviations.

    Before :meth:`fit` the mean is 0 and the deviation 1. Both are buffers: a file of the module's
    weights has them, too.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))

    @torch.no_grad()
    def fit(self, features: Tensor) -> Self:
        """Take mean and deviation of `features` [n, F], such as of samples of the pre-training.

        A feature that does not vary is only centred.
        """
        self.mean.copy_(features.mean(0))
        deviation = features.std(0, correction=0)
        self.deviation.copy_(torch.where(deviation > 0, deviation, 1))
        return self

    def forward(self, features: Tensor) -> Tensor:
        """Return the scaled features."""
        return (features - self.mean) / (DEVIATIONS * self.deviation)
