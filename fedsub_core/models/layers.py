"""Layers over stacks of clients: every tensor has a leading client axis.

``x [clients, samples, *features]``, ``weight [clients, units, *kernel]``, ``bias [clients,
units]``. A convolution is a linear layer on the patches of its input, so both share one set of
matrix products: forward, gradient and (in ``fedsub_client.learners.fedsub.relevance``) relevance.

The gradients are written out rather than left to autograd because they then land in the
momentum buffer without a copy: half the time of a round (``benchmarks/simulation.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

from fedsub_core.models.architecture import FullyConnected, LayerWithUnits, Shape


class Layer(ABC):
    """A layer without parameters; gradients by autograd unless a subclass knows better."""

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """Shape of one sample's output, given the shape of one sample's input."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Map ``x [clients, samples, *in]`` to ``[clients, samples, *out]``."""

    def input_gradient(self, x: Tensor, out: Tensor, grad: Tensor) -> Tensor:
        """Return the gradient with respect to `x`, given that with respect to `out`."""
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            return torch.autograd.grad(self.forward(leaf), leaf, grad)[0]


@dataclass(frozen=True)
class ReLU(Layer):
    """max(x, 0)."""

    def output_shape(self, shape: Shape) -> Shape:
        """Unchanged."""
        return shape

    def forward(self, x: Tensor) -> Tensor:
        """Element-wise."""
        return x.relu()

    def input_gradient(self, x: Tensor, out: Tensor, grad: Tensor) -> Tensor:
        """Pass where the unit was active."""
        return grad * (out > 0)


@dataclass(frozen=True)
class Flatten(Layer):
    """All feature axes into one."""

    def output_shape(self, shape: Shape) -> Shape:
        """One axis."""
        return (prod(shape),)

    def forward(self, x: Tensor) -> Tensor:
        """``[clients, samples, *in]`` to ``[clients, samples, in]``."""
        return x.flatten(2)

    def input_gradient(self, x: Tensor, out: Tensor, grad: Tensor) -> Tensor:
        """Reshape back."""
        return grad.reshape(x.shape)


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
        pool = _POOLS[self.kind, len(self.size)]
        if self.kind == "adaptive-avg":
            out = pool(flat, self.size)
        else:
            out = pool(flat, self.size, self.stride or self.size, self.padding or 0)
        return out.reshape(*x.shape[:2], *out.shape[1:])


_POOLS: dict[tuple[str, int], Callable[..., Tensor]] = {
    ("max", 1): F.max_pool1d,
    ("max", 2): F.max_pool2d,
    ("avg", 1): F.avg_pool1d,
    ("avg", 2): F.avg_pool2d,
    ("adaptive-avg", 1): F.adaptive_avg_pool1d,
    ("adaptive-avg", 2): F.adaptive_avg_pool2d,
}


@dataclass(frozen=True)
class Affine(LayerWithUnits):
    """A layer with units: ``out = patches(x) @ weight.T + bias``, one matrix product a client."""

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """Shape of one sample's output, given the shape of one sample's input."""

    @abstractmethod
    def patches(self, x: Tensor) -> Tensor:
        """Return what each unit sees: ``[clients, samples * positions, fan_in]``."""

    @abstractmethod
    def unpatch(self, grad: Tensor, shape: torch.Size) -> Tensor:
        """Transpose of :meth:`patches`: add each patch's gradient back onto an input of `shape`."""

    @abstractmethod
    def positions_last(self, z: Tensor, shape: torch.Size) -> Tensor:
        """``[clients, samples * positions, units]`` to ``[clients, samples, units, *positions]``.

        `shape` is that of the layer's input.
        """

    @abstractmethod
    def units_last(self, out: Tensor) -> Tensor:
        """Inverse of :meth:`positions_last`."""


@dataclass(frozen=True)
class Linear(FullyConnected, Affine):
    """A fully connected layer; its units are its output neurons."""

    def output_shape(self, shape: Shape) -> Shape:
        """``[units]``."""
        return (self.units,)

    def patches(self, x: Tensor) -> Tensor:
        """Return the input itself."""
        return x

    def unpatch(self, grad: Tensor, shape: torch.Size) -> Tensor:
        """Return the gradient itself."""
        return grad

    def positions_last(self, z: Tensor, shape: torch.Size) -> Tensor:
        """Return it as it is: a linear layer has one position."""
        return z

    def units_last(self, out: Tensor) -> Tensor:
        """Return it as it is."""
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
        """Cut the input into overlapping windows (im2col)."""
        image = x.flatten(0, 1).reshape(-1, *self._image(x.shape[2:]))
        kernel, stride, padding = self._two_axes()
        columns = F.unfold(image, kernel, padding=padding, stride=stride)
        return columns.transpose(1, 2).reshape(x.shape[0], -1, self.fan_in)

    def unpatch(self, grad: Tensor, shape: torch.Size) -> Tensor:
        """Add overlapping windows up (col2im)."""
        image = self._image(shape[2:])
        kernel, stride, padding = self._two_axes()
        columns = grad.reshape(shape[0] * shape[1], -1, self.fan_in).transpose(1, 2)
        folded = F.fold(columns, image[1:], kernel, padding=padding, stride=stride)
        return folded.reshape(shape)

    def positions_last(self, z: Tensor, shape: torch.Size) -> Tensor:
        """Move units before positions, as PyTorch orders images and series."""
        positions = self.output_shape(tuple(shape[2:]))[1:]
        out = z.reshape(shape[0], shape[1], prod(positions), self.units).transpose(2, 3)
        return out.reshape(shape[0], shape[1], self.units, *positions)

    def units_last(self, out: Tensor) -> Tensor:
        """Move units last and join samples and positions."""
        return out.flatten(3).transpose(2, 3).reshape(out.shape[0], -1, self.units)

    def _image(self, shape: Shape) -> tuple[int, int, int]:
        channels, *axes = shape
        height, width = (1, *axes) if len(axes) == 1 else axes
        return channels, height, width

    def _two_axes(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        def pair(values: Shape, missing: int) -> tuple[int, int]:
            return (missing, values[0]) if len(values) == 1 else (values[0], values[1])

        return pair(self.kernel, 1), pair(self.stride, 1), pair(self.padding, 0)
