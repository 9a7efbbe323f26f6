"""Pooling over stacks of clients: windows that cut a series into equal parts go by slices of it.

PyTorch's pooling wants channels before positions in memory, and finds a window's maximum anew for
its gradient; slices take a convolution's output as it lies, and keep the maximum's place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from fedsub_core.models.architecture import Shape
from fedsub_core.models.layers import Layer


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

    def forward_keeping(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Pool series in whole windows by slices of them, whatever their layout in memory."""
        size = self.window(x.shape[-1]) if x.ndim == 4 else 0
        if not size:
            return self.forward(x), None
        if self.kind != "max":
            return _windows(x, size).mean(3).movedim(-1, 2), None
        out, place = x[..., ::size], None
        for i in range(1, size):
            other = x[..., i::size]
            if place is None:  # the first of equal ones, as PyTorch has it
                place = torch.gt(other, out, out=torch.empty_like(out))
            else:
                place.masked_fill_(other > out, i)
            out = torch.maximum(out, other)
        return out, place

    def input_gradient(self, x: Tensor, out: Tensor, kept: Tensor | None, grad: Tensor) -> Tensor:
        """Send each gradient to where its maximum was, or to its whole window."""
        size = self.window(x.shape[-1]) if x.ndim == 4 else 0
        if not size:
            return super().input_gradient(x, out, kept, grad)
        into = torch.empty_like(x)
        if kept is None:
            # Whole runs of memory are copied.
            share = (grad / size).movedim(2, -1).contiguous()
            _windows(into, size).copy_(share.unsqueeze(3))
            return into
        rest = grad
        for i in range(1, size):
            # Products of floats are several times as fast as those with truth values.
            here = kept if size == 2 else (kept == i).to(kept.dtype)
            there = torch.mul(grad, here, out=into[..., i::size])
            rest = torch.sub(rest, there, out=into[..., ::size])
        return into

    def window(self, length: int) -> int:
        """Return how long windows are that cut series into equal parts; 0 where they do not."""
        if len(self.size) > 1 or any(self.padding):
            return 0
        asked = self.size[0]
        if self.kind == "adaptive-avg":
            return length // asked if length % asked == 0 else 0
        return asked if (self.stride or self.size) == self.size and length % asked == 0 else 0


def _windows(x: Tensor, size: int) -> Tensor:
    """View series ``[clients, samples, channels, n * size]`` as ``[..., n, size, channels]``."""
    last = x.movedim(2, -1)
    return last.view(*last.shape[:2], -1, size, last.shape[-1])


_POOLS: dict[tuple[str, int], Callable[..., Tensor]] = {
    ("max", 1): F.max_pool1d,
    ("max", 2): F.max_pool2d,
    ("avg", 1): F.avg_pool1d,
    ("avg", 2): F.avg_pool2d,
    ("adaptive-avg", 1): F.adaptive_avg_pool1d,
    ("adaptive-avg", 2): F.adaptive_avg_pool2d,
}
