"""An encoder as a plain ``torch.nn.Module``: the same bits as ours, in any runtime.

All sums are of integers, below 2**24 where float32 holds them: neither their order nor fused
products matter. What is rounded, a runtime rounds as IEEE 754 says. Only the last digits of a
module of one's own are the runtime's.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedsub.export.statistics_module import StatisticsModule
from fedsub_core.encoders.encoder import CLIP, FULL, GREATEST, UNIT, Encoder
from fedsub_core.encoders.kernels_encoder import LENGTH, Kernel, KernelsEncoder
from fedsub_core.encoders.module_encoder import ModuleEncoder
from fedsub_core.encoders.ranks_encoder import HALF_PLACE, PLACES, RanksEncoder
from fedsub_core.encoders.relu_encoder import INPUT_LEVEL, UNIT_LEVEL, ReluEncoder
from fedsub_core.encoders.statistics_encoder import StatisticsEncoder


def encoder_module(encoder: Encoder) -> nn.Module:
    """Return ``x [batch, *input_shape]``, standardised, to ``features [batch, features]``."""
    if isinstance(encoder, StatisticsEncoder):
        return WindowsModule(encoder)
    if isinstance(encoder, KernelsEncoder):
        return KernelsModule(encoder)
    if isinstance(encoder, ModuleEncoder):
        return OwnModule(encoder)
    assert isinstance(encoder, ReluEncoder)
    return RanksModule(encoder) if isinstance(encoder, RanksEncoder) else ReluModule(encoder)


def steps_of(x: Tensor) -> Tensor:
    """Return standardised samples in steps: :func:`fedsub_core.encoders.encoder.quantised`."""
    return (x.clamp(-CLIP, CLIP) * UNIT).round().clamp(max=GREATEST)


class KernelsModule(nn.Module):
    """``kernels:N``: a convolution for each dilation, then what all sums have in common."""

    thresholds: Tensor
    level: Tensor
    order: Tensor

    def __init__(self, encoder: KernelsEncoder) -> None:
        super().__init__()
        kernels = sorted(encoder.kernels, key=lambda kernel: kernel.dilation)
        self.dilations = sorted({kernel.dilation for kernel in kernels})
        for dilation in self.dilations:
            some = [kernel for kernel in kernels if kernel.dilation == dilation]
            self.register_buffer(f"weight{dilation}", _weight(some, encoder.input_shape[0]))
        thresholds = torch.tensor([kernel.thresholds for kernel in kernels], dtype=torch.float32)
        self.register_buffer("thresholds", thresholds.T.unsqueeze(2).contiguous())
        self.register_buffer("level", torch.tensor([kernel.level for kernel in kernels]))
        # Sorting is stable both times: where each kernel stands among those sorted by dilation.
        by_dilation = np.argsort([kernel.dilation for kernel in encoder.kernels], kind="stable")
        self.register_buffer("order", torch.from_numpy(np.argsort(by_dilation)))

    def forward(self, x: Tensor) -> Tensor:
        """Return features, kernel after kernel."""
        return self.of_steps(steps_of(x))

    def of_steps(self, steps: Tensor) -> Tensor:
        """Return features of samples in steps."""
        time = steps.shape[2]
        sums = torch.cat([self._sums(steps, dilation) for dilation in self.dilations], 1)
        above = torch.stack([(sums > of).to(torch.int64).sum(2) for of in self.thresholds], 2)
        shares = (2 * (2 * FULL - 1) * above + time) // (2 * time) - FULL
        # What is divided is never negative: some runtimes round to 0, others down.
        most = torch.maximum(sums.amax(2).to(torch.int64), -FULL * self.level)
        level = (2 * most + (2 * FULL + 1) * self.level) // (2 * self.level) - FULL
        levels = torch.cat([shares, level.clamp(max=FULL - 1).unsqueeze(2)], 2)
        return levels.index_select(1, self.order).flatten(1).to(torch.float32) / FULL

    def _sums(self, steps: Tensor, dilation: int) -> Tensor:
        weight = self.get_buffer(f"weight{dilation}")
        return F.conv1d(steps, weight, padding=LENGTH // 2 * dilation, dilation=dilation)


def _weight(kernels: Sequence[Kernel], channels: int) -> Tensor:
    """Return kernels as a convolution's weight ``[kernels, channels, 9]``."""
    weight = torch.zeros(len(kernels), channels, LENGTH)
    for of, kernel in zip(weight, kernels, strict=True):
        of[list(kernel.channels)] = -1
        for place in kernel.places:
            of[list(kernel.channels), place] = 2
    return weight


class WindowsModule(nn.Module):
    """``kernels:N+statistics``: statistics, then the kernels' features."""

    def __init__(self, encoder: StatisticsEncoder) -> None:
        super().__init__()
        self.statistics, self.kernels = StatisticsModule(encoder), KernelsModule(encoder)

    def forward(self, x: Tensor) -> Tensor:
        """Return features ``[batch, features]``."""
        steps = steps_of(x)
        levels = self.statistics(steps).to(torch.float32)
        return torch.cat([levels / FULL, self.kernels.of_steps(steps)], 1)


class ReluModule(nn.Module):
    """``relu:N`` as one fully connected layer beside the inputs."""

    weight: Tensor
    bias: Tensor

    def __init__(self, encoder: ReluEncoder) -> None:
        super().__init__()
        weight = torch.zeros(encoder.size, encoder.input_shape[0])
        for of, unit in zip(weight, encoder.units, strict=True):
            of[list(unit.inputs)] = torch.tensor(unit.weights, dtype=torch.float32)
        self.register_buffer("weight", weight)
        biases = torch.tensor([unit.bias for unit in encoder.units], dtype=torch.float32)
        self.register_buffer("bias", biases)

    def forward(self, x: Tensor) -> Tensor:
        """Return the inputs' features, then unit after unit."""
        steps = steps_of(x)
        inputs = ((steps + INPUT_LEVEL // 2) / INPUT_LEVEL).floor()
        units = self.sums(steps).relu()
        units = ((units + UNIT_LEVEL // 2) / UNIT_LEVEL).floor()
        return torch.cat([inputs, units], 1).clamp(max=FULL - 1) / FULL

    def sums(self, steps: Tensor) -> Tensor:
        """Return the units' sums."""
        return F.linear(steps, self.weight, self.bias)


class RanksModule(ReluModule):
    """``ranks:N`` of a person: one unit of everybody's ranks, the next of the person's."""

    everybodys: Tensor
    places: Tensor

    def __init__(self, encoder: RanksEncoder) -> None:
        super().__init__(encoder)
        own = encoder.everybodys if encoder.places is None else encoder.places
        self.register_buffer("everybodys", torch.from_numpy(encoder.everybodys).float())
        self.register_buffer("places", torch.from_numpy(own).float())

    def sums(self, steps: Tensor) -> Tensor:
        """Return the units' sums."""
        of_own = torch.arange(len(self.weight)) % 2 == 1
        everybody, own = (
            super(RanksModule, self).sums(_ranks(steps, places))
            for places in (self.everybodys, self.places)
        )
        return torch.where(of_own, own, everybody)


def _ranks(steps: Tensor, places: Tensor) -> Tensor:
    passed = (steps.unsqueeze(1) > places).sum(1) + (steps.unsqueeze(1) >= places).sum(1)
    return HALF_PLACE * (passed - PLACES).to(steps.dtype)


class OwnModule(nn.Module):
    """A module of one's own, with its outputs rounded to levels."""

    def __init__(self, encoder: ModuleEncoder) -> None:
        super().__init__()
        self.module = encoder.copied()

    def forward(self, x: Tensor) -> Tensor:
        """Return its features in steps of 1/128."""
        features: Tensor = self.module(x)
        return (features * FULL).clamp(-FULL, FULL - 1).round() / FULL
