"""Passes through a hollow module, whose trained tensors repeat one number and take no memory."""

from __future__ import annotations

from typing import Any

from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class Repeated(TorchFunctionMode):
    """Computes Linear layers whose weights repeat one number, without a copy as large as these."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Compute Linear layers so, all else as it is."""
        if func is F.linear and len(args) == 3 and not any(args[1].stride()):
            x, weight, bias = args
            sums = x.sum(-1, keepdim=True) * weight.flatten()[:1]
            made = sums.expand(*x.shape[:-1], len(weight))
            return made.clone() if bias is None else made + bias
        return func(*args, **kwargs or {})
