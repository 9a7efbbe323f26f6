"""Modules and their passes, drawn from PyTorch's stream of the process at a seed of the run's."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from fedsub_core.errors import ConfigError, FedSubError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.builders import TAKES
from fedsub_core.models.traced import Trace, traced

#: Makes a module for ``(input_shape, classes)``.
Builder = Callable[[Shape, int], nn.Module]
_CPU = torch.device("cpu")
#: Held by the thread whose pass draws: modules draw from the one stream that the process has.
_STREAM = threading.Lock()


@contextmanager
def drawing(seed: int, device: torch.device = _CPU) -> Iterator[None]:
    """Let PyTorch's streams of the process stand at `seed`, for one thread at a time."""
    devices = [device] if device.type == "cuda" else []
    with _STREAM, torch.random.fork_rng(devices):
        # Not torch.manual_seed, which notes for every kind of device where it was called: 1 ms.
        torch.default_generator.manual_seed(seed)
        for one in devices:
            torch.cuda.default_generators[one.index or 0].manual_seed(seed)
        yield


def check_numbers(module: nn.Module) -> None:
    """Raise a ConfigError where a parameter is not of float32, or has no axis."""
    for name, tensor in module.named_parameters():
        if tensor.dtype != torch.float32:
            raise ConfigError(f"parameter {name}: got {tensor.dtype}, expected torch.float32")
        if tensor.requires_grad and not tensor.ndim:
            raise ConfigError(
                f"parameter {name}: got a number without an axis, expected one axis at least, such "
                "as torch.ones(1)"
            )


def built(build: Callable[..., Any], given: tuple[Any, ...], takes: str) -> object:
    """Return a builder's module; its own error is told with the line in which it came up.

    Parameters
    ----------
    given : what it is called with, which the text `takes` names.
    """
    try:
        return build(*given)
    except FedSubError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise ConfigError(
            f"the builder ended in {type(error).__name__}: {error} ({last.filename}, line "
            f"{last.lineno}); it takes {takes}"
        ) from error


def drawn(build: Builder, input_shape: Shape, classes: int, seed: int) -> tuple[nn.Module, Trace]:
    """Return a module as its builder makes it with PyTorch's stream at `seed`, and its trace.

    That stream is put back as it was.

    Raises ConfigError if the builder fails, makes no module, or one that does not make a logit a
    class of such samples.
    """
    with drawing(seed), torch.enable_grad():
        module = built(build, (input_shape, classes), TAKES)
        if not isinstance(module, nn.Module):
            raise ConfigError(
                f"got {type(module).__name__}, expected a torch.nn.Module: a builder takes {TAKES}"
            )
        check_numbers(module)
        # Before anything else looks at it: lazy layers get their parameters here.
        trace = traced(module, input_shape, classes)
    return module, trace
