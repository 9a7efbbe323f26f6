"""PyTorch where it is installed, and NumPy's arrays in the place of tensors where it is not.

``pip install fedsub`` brings no PyTorch. A device whose methods solve (:attr:`MethodCard.trains` is
false) works without: stacks, states and files then hold NumPy's arrays under the same names, of the
same shapes and numbers. What both libraries have is written once, by :func:`library`. What needs
PyTorch itself names the extra that brings it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.extras import lacking

__all__ = [
    "HERE",
    "F",
    "Tensor",
    "as_numpy",
    "as_tensor",
    "copied",
    "library",
    "load_tensors",
    "nn",
    "save_tensors",
    "softmax",
    "torch",
    "without_gradients",
    "zeros",
]


class _Lacking:
    """PyTorch, or a part of it, where it is not installed: any use is refused."""

    def __getattr__(self, name: str) -> Any:
        raise lacking(f"torch.{name}, as of training a model,", "torch")


try:
    import torch
    from safetensors.torch import load as load_tensors
    from safetensors.torch import save as _save
    from torch import Tensor, nn
    from torch.nn import functional as F
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    from safetensors.numpy import load as load_tensors  # type: ignore[assignment]
    from safetensors.numpy import save as _save  # type: ignore[assignment]

    Tensor: Any = np.ndarray  # type: ignore[no-redef]
    torch = nn = F = _Lacking()  # type: ignore[assignment]

#: Whether PyTorch is installed.
HERE = not isinstance(torch, _Lacking)


def library(array: Tensor) -> Any:
    """Return the module with an array's functions: ``torch``, or ``numpy``."""
    return np if isinstance(array, np.ndarray) else torch


def as_tensor(values: NDArray[Any]) -> Tensor:
    """Return the tensor that shares an array's memory; the array itself without PyTorch."""
    return torch.from_numpy(values) if HERE else values  # type: ignore[return-value]


def as_numpy(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor's numbers, in its own memory where that is the CPU's."""
    if isinstance(tensor, np.ndarray):
        return tensor
    values: NDArray[Any] = tensor.cpu().numpy()
    return values


def softmax(logits: Tensor) -> Tensor:
    """Return probabilities of logits, along their last axis."""
    if not isinstance(logits, np.ndarray):
        return logits.softmax(-1)
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def without_gradients() -> AbstractContextManager[Any]:
    """Return a context in which autograd follows nothing; without PyTorch it never does."""
    return torch.no_grad() if HERE else nullcontext()


def zeros(shape: tuple[int, ...], kind: Any = np.float32) -> Tensor:
    """Return zeros of a kind that NumPy names; an array without PyTorch."""
    if not HERE:
        return np.zeros(shape, kind)  # type: ignore[return-value]
    return torch.zeros(shape, dtype=torch.from_numpy(np.empty(0, kind)).dtype)


def save_tensors(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return one safetensors file."""
    if HERE:
        return _save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata)
    arrays: dict[str, Any] = {name: np.array(t, order="C") for name, t in tensors.items()}
    return _save(arrays, metadata)


def copied(tensor: Tensor) -> Tensor:
    """Return a tensor, or an array, of its own memory."""
    return tensor.copy() if isinstance(tensor, np.ndarray) else tensor.clone()
