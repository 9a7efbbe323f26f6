"""Nets of layers drawn at random: any choice of units computes what the masked whole does."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedsub_core.models.torch_model import TorchModel

from ..parts import held, some_units, taken

#: What a layer does to ``x [batch, channels, time]``, given the layer.
DOES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "plain": lambda layer, x: layer(x),
    "around": lambda layer, x: x + layer(x),
    "beside": lambda layer, x: torch.cat([layer(x), x], 1),
    "weighed": lambda layer, x: x * layer(x.mean(-1)).sigmoid()[..., None],
    "recurrent": lambda layer, x: layer(x.transpose(1, 2))[0].mT,
    "last axis": lambda layer, x: layer(x.permute(0, 2, 1)).movedim(2, 1),
    "gated": lambda layer, x: F.glu(layer(x), 1),
    "halves": lambda layer, x: sum((part.tanh() for part in layer(x).chunk(2, 1)), torch.zeros(1)),
    "pooled": lambda layer, x: F.gelu(F.avg_pool1d(x, 3, 1, 1)),
}


def drawn(stream: np.random.Generator, channels: int) -> tuple[str, nn.Module, int]:
    """Return what is done, with which layer, and the channels that come out."""
    wide = int(stream.choice([4, 6, 8, 12]))
    both = bool(stream.random() < 0.5)
    even = 2 if channels % 2 == 0 else 1
    narrow = nn.Sequential(nn.Conv1d(channels, 7, 1), nn.ReLU(), nn.Conv1d(7, channels, 1))
    weights = nn.Sequential(nn.Linear(channels, 5), nn.ReLU(), nn.Linear(5, channels))
    lstm = nn.LSTM(channels, 4, 2, batch_first=True, bidirectional=both)
    choices: list[tuple[str, nn.Module, int]] = [
        ("plain", nn.Conv1d(channels, wide, 3, padding=1), wide),
        ("plain", nn.Conv1d(channels, 2 * channels, 3, padding=1, groups=channels), 2 * channels),
        ("plain", nn.Conv1d(channels, wide, 1, groups=even), wide),
        ("plain", nn.BatchNorm1d(channels), channels),
        ("plain", nn.InstanceNorm1d(channels, affine=True), channels),
        ("plain", nn.GroupNorm(max(even, channels // even), channels), channels),
        ("plain", nn.PReLU(channels), channels),
        ("around", narrow, channels),
        ("beside", nn.Conv1d(channels, 3, 1), channels + 3),
        ("weighed", weights, channels),
        ("recurrent", lstm, 8 if both else 4),
        ("recurrent", nn.GRU(channels, 5, batch_first=True), 5),
        ("last axis", nn.Linear(channels, wide), wide),
        ("gated", nn.Conv1d(channels, wide, 1), wide // 2),
        ("halves", nn.Conv1d(channels, wide, 1), wide // 2),
        ("pooled", nn.Identity(), channels),
    ]
    return choices[stream.integers(len(choices))]


class Net(nn.Module):
    """Up to seven layers, and what is done with them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        stream, channels = np.random.default_rng(seed), 3
        self.does: list[str] = []
        self.layers = nn.ModuleList()
        for _ in range(stream.integers(2, 8)):
            does, layer, channels = drawn(stream, channels)
            self.does.append(does)
            self.layers.append(layer)
        self.last = nn.Linear(4 * channels, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of ``x [batch, 3, time]``."""
        for does, layer in zip(self.does, self.layers, strict=True):
            x = DOES[does](layer, x)
        logits: Tensor = self.last(F.adaptive_avg_pool1d(x, 4).flatten(1))
        return logits


@pytest.mark.parametrize("seed", range(40))
def test_any_part_of_any_net_is_the_masked_whole(seed: int) -> None:
    model = TorchModel.of(lambda *_: Net(seed), (3, 12), 4)
    params = {
        name: tensor + (torch.rand_like(tensor) if "running" in name else 0.0)
        for name, tensor in model.init(1, seed).items()
    }
    small, places = model.narrow(some_units(model, seed, share=0.1 + seed % 10 / 10))
    masks = held(model, places)
    masked = {name: tensor * masks[name] for name, tensor in params.items()}
    x = torch.randn(1, 5, 3, 12)
    found, expected = small.forward(taken(params, places), x), model.forward(masked, x)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
