"""Layers over stacks of clients: every tensor has a leading client axis.

``x [clients, samples, *features]``, ``weight [clients, units, *kernel]``, ``bias [clients,
units]``. A convolution is a linear layer on the patches of its input, so both share one set of
matrix products: forward and (in ``fedsub_client.methods.fedsub.relevance``) relevance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from fedsub_core.models.architecture import FullyConnected, LayerWithUnits, Shape
from fedsub_core.pytorch import F, Tensor, torch


class Layer(ABC):
    """A layer without parameters."""

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """Shape of one sample's output, given the shape of one sample's input."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Map ``x [clients, samples, *in]`` to ``[clients, samples, *out]``."""


@dataclass(frozen=True)
class ReLU(Layer):
    """max(x, 0)."""

    def output_shape(self, shape: Shape) -> Shape:
        """Unchanged."""
        return shape

    def forward(self, x: Tensor) -> Tensor:
        """Element-wise."""
        return x.relu()


@dataclass(frozen=True)
class Flatten(Layer):
    """All feature axes into one."""

    def output_shape(self, shape: Shape) -> Shape:
        """One axis."""
        return (prod(shape),)

    def forward(self, x: Tensor) -> Tensor:
        """``[clients, samples, *in]`` to ``[clients, samples, in]``."""
        return x.flatten(2)


@dataclass(frozen=True)
class Pool(Layer):
    """Max, average or adaptive average pooling over the one or two axes after the channels.

    `size` is the window for ``"max"`` and ``"avg"`` and the output size for ``"adaptive-avg"``.
    """

    kind: str
    size: Shape
    stride: Shape = ()
    padding: Shape = ()

    def output_shape(self, shape: Shape) -> Shape:
        """Channels stay, the other axes shrink."""
        return tuple(self.forward(torch.zeros(1, 1, *shape)).shape[2:])

    def forward(self, x: Tensor) -> Tensor:
        """Pool each client's each sample alone."""
        flat = x.flatten(0, 1)
        name = f"{self.kind.replace('-', '_')}_pool{len(self.size)}d"
        pool: Callable[..., Tensor] = getattr(F, name)
        if self.kind == "adaptive-avg":
            out = pool(flat, self.size)
        else:
            out = pool(flat, self.size, self.stride or self.size, self.padding or 0)
        return out.reshape(*x.shape[:2], *out.shape[1:])

    def window(self, length: int) -> int:
        """Return the size of windows that divide a series into equal parts; 0 if there are none."""
        if len(self.size) > 1 or any(self.padding):
            return 0
        asked = self.size[0]
        if self.kind == "adaptive-avg":
            return length // asked if length % asked == 0 else 0
        return asked if (self.stride or self.size) == self.size and length % asked == 0 else 0


@dataclass(frozen=True)
class Affine(LayerWithUnits):
    """A layer with units: ``out = patches(x) @ weight.T + bias``, one matrix product a client."""

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """Shape of one sample's output, given the shape of one sample's input."""

    @abstractmethod
    def patches(self, x: Tensor) -> Tensor:
        """Return the inputs of each unit: ``[clients, samples * positions, fan_in]``."""

    @abstractmethod
    def of_patches(self, patches: Tensor, weight: Tensor, bias: Tensor, shape: Shape) -> Tensor:
        """Return the output ``[clients, samples, units, *positions]`` for an input of `shape`."""

    def matrix(self, weight: Tensor) -> Tensor:
        """Return weights ``[clients, units, fan_in]``, in the order of :meth:`patches`."""
        return weight

    @abstractmethod
    def unpatch(self, grad: Tensor, shape: Shape) -> Tensor:
        """Transpose of :meth:`patches`: add each patch's numbers onto an input of `shape`."""

    @abstractmethod
    def units_last(self, out: Tensor) -> Tensor:
        """Reshape an output to ``[clients, samples * positions, units]``."""


@dataclass(frozen=True)
class Linear(FullyConnected, Affine):
    """A fully connected layer; its units are its output neurons."""

    def output_shape(self, shape: Shape) -> Shape:
        """``[units]``."""
        return (self.units,)

    def patches(self, x: Tensor) -> Tensor:
        """Return the input itself."""
        return x

    def of_patches(self, patches: Tensor, weight: Tensor, bias: Tensor, shape: Shape) -> Tensor:
        """Multiply samples by weights."""
        if isinstance(weight, np.ndarray):
            return patches @ weight.swapaxes(1, 2) + bias[:, None]
        if weight.requires_grad:  # in this order the gradient has the layout of the weights
            out = torch.baddbmm(bias.unsqueeze(2), weight, patches.transpose(1, 2))
            return out.transpose(1, 2)
        return torch.baddbmm(bias.unsqueeze(1), patches, weight.transpose(1, 2))

    def unpatch(self, grad: Tensor, shape: Shape) -> Tensor:
        """Return the gradient itself."""
        return grad

    def units_last(self, out: Tensor) -> Tensor:
        """Return the output itself: a linear layer has one position."""
        return out


@dataclass(frozen=True)
class Conv(Affine):
    """A convolution over one or two axes; its units are its output channels."""

    channels: int
    kernel: Shape
    stride: Shape
    padding: Shape

    @property
    def weight_shape(self) -> Shape:
        """``[units, channels, *kernel]``."""
        return (self.units, self.channels, *self.kernel)

    def output_shape(self, shape: Shape) -> Shape:
        """``[units, *positions]``."""
        axes = zip(shape[1:], self.kernel, self.stride, self.padding, strict=True)
        return (self.units, *((s + 2 * p - k) // t + 1 for s, k, t, p in axes))

    def patches(self, x: Tensor) -> Tensor:
        """Cut the input into overlapping windows, channels last: each is a few runs of memory."""
        image = F.pad(x.movedim(2, -1), self._around)
        return torch.cat(self._by_place(image), -1).view(len(x), -1, self.fan_in)

    def unpatch(self, grad: Tensor, shape: Shape) -> Tensor:
        """Add overlapping windows up, one place of the kernel after another."""
        image = F.pad(grad.new_zeros(*shape[:2], *shape[3:], self.channels), self._around)
        seen = self._by_place(image)
        each = grad.view(*seen[0].shape[:-1], len(seen), self.channels).unbind(-2)
        for place, one in zip(seen, each, strict=True):
            place += one
        return F.pad(image, [-p for p in self._around]).movedim(-1, 2)

    @property
    def _around(self) -> list[int]:
        """The padding of an image with channels last, as PyTorch orders it."""
        return [0, 0, *(p for padding in reversed(self.padding) for p in (padding, padding))]

    def _by_place(self, image: Tensor) -> list[Tensor]:
        """Return, for each place of the kernel, what it sees of a padded image, as views."""
        axes = list(zip(image.shape[2:-1], self.kernel, self.stride, strict=True))
        found = []
        for place in product(*map(range, self.kernel)):
            starts = zip(place, axes, strict=True)
            seen = (slice(at, n - size + at + 1, step) for at, (n, size, step) in starts)
            found.append(image[:, :, *seen])
        return found

    def of_patches(self, patches: Tensor, weight: Tensor, bias: Tensor, shape: Shape) -> Tensor:
        """Multiply windows by weights; in memory units stay last, as :meth:`patches` wants them."""
        z = torch.baddbmm(bias.unsqueeze(1), patches, self.matrix(weight).transpose(1, 2))
        positions = self.output_shape(tuple(shape[2:]))[1:]
        return z.view(*shape[:2], *positions, self.units).movedim(-1, 2)

    def matrix(self, weight: Tensor) -> Tensor:
        """Put channels last."""
        return weight.movedim(2, -1).flatten(2)

    def units_last(self, out: Tensor) -> Tensor:
        """Move units last and join samples and positions."""
        return out.movedim(2, -1).reshape(len(out), -1, self.units)
