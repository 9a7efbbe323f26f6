"""Whether a module begins as PyTorch's layers do: then a run's seed can draw the like of it.

All people of a run start from weights that follow from its seed
(:meth:`fedsub_core.models.chain.Chain.init`). What a builder set itself, such as weights that were
trained before, would be lost in silence.
"""

from __future__ import annotations

from math import isclose, sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fedsub_core.errors import ConfigError


class Writes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While a module is built: what wrote to each tensor's memory last."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._last: dict[int, tuple[Any, Any, tuple[Any, ...]]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Leave PyTorch's compiler alone, which else is loaded here: 75 MB and seconds."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Note what an operation wrote to, after it did."""
        made = func(*args, **(kwargs or {}))
        given = dict(zip((a.name for a in func._schema.arguments), args, strict=False))
        given |= kwargs or {}
        for argument in func._schema.arguments:
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            written = given.get(argument.name)
            for tensor in written if isinstance(written, (list, tuple)) else [written]:
                if isinstance(tensor, Tensor):
                    # Kept, so that no other memory gets its number.
                    memory = tensor.untyped_storage()
                    self._last[memory._cdata] = memory, func, args[1:]
        return made

    def drawn(self, tensor: Tensor, bound: float) -> bool:
        """Return whether all of `tensor` was last drawn, uniformly in +-`bound`."""
        _, func, limits = self._last.get(tensor.untyped_storage()._cdata, (None, None, ()))
        return func is torch.ops.aten.uniform_.default and all(
            isclose(got, expected, rel_tol=1e-6)
            for got, expected in zip(limits, (-bound, bound), strict=True)
        )


def check_initial(module: nn.Module, writes: Writes) -> None:
    """Refuse a module of supported layers that begins otherwise, or is not trained as a whole.

    Raises ConfigError; it names the layer and its parameter.
    """
    for where, layer in module.named_modules():
        own = dict(layer.named_parameters(recurse=False))
        for name, tensor in own.items():
            what = f"layer {where} ({type(layer).__name__}): its {name}"
            if not tensor.requires_grad:
                raise ConfigError(f"{what} is frozen; expected requires_grad: all layers train")
            if tensor.dtype != torch.float32:
                raise ConfigError(f"{what} is {tensor.dtype}; expected torch.float32")
            if not writes.drawn(tensor, 1 / sqrt(own["weight"][0].numel())):
                raise ConfigError(
                    f"{what} was set by the model's builder; expected it as PyTorch draws it. "
                    "Every run draws first weights so, from its seed: what was set would be lost"
                )
