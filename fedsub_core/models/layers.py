"""Layers over stacks of clients: every tensor has a leading client axis.

``x [clients, samples, *features]``, ``weight [clients, units, *kernel]``, ``bias [clients,
units]``. A convolution is a linear layer on the patches of its input, so both share one set of
matrix products: forward, gradient and (in ``fedsub_client.methods.fedsub.relevance``) relevance.

The gradients are written out rather than left to autograd because they then land in the
momentum buffer without a copy: half the time of a round (``benchmarks/simulation.py``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import product
from math import prod

import torch
from torch import Tensor

from fedsub_core.models.architecture import FullyConnected, LayerWithUnits, Shape


class Layer(ABC):
    """A layer without parameters; gradients by autograd unless a subclass knows better."""

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """Shape of one sample's output, given the shape of one sample's input."""

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Map ``x [clients, samples, *in]`` to ``[clients, samples, *out]``."""

    def forward_keeping(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return what :meth:`forward` does, and what :meth:`input_gradient` wants kept."""
        return self.forward(x), None

    def input_gradient(self, x: Tensor, out: Tensor, kept: Tensor | None, grad: Tensor) -> Tensor:
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

    def input_gradient(self, x: Tensor, out: Tensor, kept: Tensor | None, grad: Tensor) -> Tensor:
        """Pass where the unit was active."""
        passed: Tensor = torch.ops.aten.threshold_backward(grad, out, 0)
        return passed


@dataclass(frozen=True)
class Flatten(Layer):
    """All feature axes into one."""

    def output_shape(self, shape: Shape) -> Shape:
        """One axis."""
        return (prod(shape),)

    def forward(self, x: Tensor) -> Tensor:
        """``[clients, samples, *in]`` to ``[clients, samples, in]``."""
        return x.flatten(2)

    def input_gradient(self, x: Tensor, out: Tensor, kept: Tensor | None, grad: Tensor) -> Tensor:
        """Reshape back."""
        return grad.reshape(x.shape)


@dataclass(frozen=True)
class Affine(LayerWithUnits):
    """A layer with units: ``out = patches(x) @ weight.T + bias``, one matrix product a client."""

    @abstractmethod
    def output_shape(self, shape: Shape) -> Shape:
        """Shape of one sample's output, given the shape of one sample's input."""

    @abstractmethod
    def patches(self, x: Tensor) -> Tensor:
        """Return what each unit sees: ``[clients, samples * positions, fan_in]``."""

    def matrix(self, weight: Tensor) -> Tensor:
        """Return weights ``[clients, units, fan_in]``, in the order of :meth:`patches`."""
        return weight

    def add_gradient(self, into: Tensor, rows: Tensor, patches: Tensor, keep: float) -> None:
        """Set ``into = keep * into + gradient`` of weights, of that with respect to `rows`."""
        into.baddbmm_(rows.transpose(1, 2), patches, beta=keep)

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
        """Cut the input into overlapping windows, channels last: each is a few runs of memory."""
        image, inside = self._padded(x, x.shape)
        inside.copy_(x.movedim(2, -1))
        positions = self.output_shape(tuple(x.shape[2:]))[1:]
        ahead, steps = image.stride()[:2], image.stride()[2:-1]
        strides = (*ahead, *(s * t for s, t in zip(steps, self.stride, strict=True)), *steps, 1)
        shape = (*x.shape[:2], *positions, *self.kernel, self.channels)
        return image.as_strided(shape, strides).reshape(x.shape[0], -1, self.fan_in)

    def matrix(self, weight: Tensor) -> Tensor:
        """Put channels last."""
        return weight.movedim(2, -1).flatten(2)

    def add_gradient(self, into: Tensor, rows: Tensor, patches: Tensor, keep: float) -> None:
        """Put channels first again."""
        gradient = rows.transpose(1, 2).bmm(patches)
        gradient = gradient.view(*into.shape[:2], *self.kernel, self.channels)
        into.mul_(keep).add_(gradient.movedim(-1, 2))

    def unpatch(self, grad: Tensor, shape: torch.Size) -> Tensor:
        """Add overlapping windows up, one place of the kernel after another."""
        image, inside = self._padded(grad, shape)
        positions = self.output_shape(tuple(shape[2:]))[1:]
        windows = grad.view(*shape[:2], *positions, prod(self.kernel), self.channels)
        for i, place in enumerate(product(*map(range, self.kernel))):
            seen = image
            for axis, (start, n, step) in enumerate(
                zip(place, positions, self.stride, strict=True)
            ):
                seen = seen.narrow(2 + axis, start, (n - 1) * step + 1)
                seen = seen[(slice(None),) * (2 + axis) + (slice(None, None, step),)]
            seen += windows[..., i, :]
        return inside.movedim(-1, 2)

    def _padded(self, like: Tensor, shape: torch.Size) -> tuple[Tensor, Tensor]:
        """Return zeros for an input of `shape`, channels last, and the view inside the padding."""
        around = [n + 2 * p for n, p in zip(shape[3:], self.padding, strict=True)]
        image = inside = like.new_zeros(*shape[:2], *around, self.channels)
        for axis, (n, p) in enumerate(zip(shape[3:], self.padding, strict=True)):
            inside = inside.narrow(2 + axis, p, n)
        return image, inside

    def positions_last(self, z: Tensor, shape: torch.Size) -> Tensor:
        """Move units before positions, as PyTorch orders images and series."""
        positions = self.output_shape(tuple(shape[2:]))[1:]
        out = z.reshape(shape[0], shape[1], prod(positions), self.units).transpose(2, 3)
        return out.reshape(shape[0], shape[1], self.units, *positions)

    def units_last(self, out: Tensor) -> Tensor:
        """Move units last and join samples and positions."""
        return out.flatten(3).transpose(2, 3).reshape(out.shape[0], -1, self.units)
