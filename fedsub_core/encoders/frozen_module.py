"""A module as its name says it: built, its weights loaded, frozen and tried with random samples."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from fedsub_core.encoders.module_names import NamedModule
from fedsub_core.encoders.names import LARGEST
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.builders import builder_at
from fedsub_core.models.drawing import built, check_numbers, drawing
from fedsub_core.seeds import derive_seed

#: What a builder takes.
TAKES = "(input_shape)"
#: Modules that a process keeps.
KEPT = 8
#: Random samples that a new module is tried with, and the amplitudes that they have in turn.
TRIED, AMPLITUDES = 8, (1.0, 0.1, 3.0)
#: The largest difference of a feature between two calls, or alone and in a batch, of a full scale
#: or of the feature, whichever is larger: rounding makes less of it.
TOLERANCE = 1e-3


@lru_cache(maxsize=KEPT)
def frozen(name: str, seed: int, shape: Shape) -> tuple[nn.Module, int]:
    """Return the module of that name and its number of features, built, loaded and tried.

    Parameters
    ----------
    seed : of the run, from which weights are drawn that the builder draws.
    shape : of one sample.

    Raises ConfigError if the files are others than the digest says, there is no such builder, it
    makes no module of float32, the weights do not fit, or its outputs are no features.
    """
    named = NamedModule.parse(name)
    assert named is not None
    try:
        here = named.digest_here()
        if named.digest and here != named.digest:
            raise ConfigError(
                f"got files with the digest {here or 'of none'}, expected {named.digest}, as the "
                "run has it: the code or its weights are others"
            )
        with drawing(derive_seed(seed, "", 0, "encoder module")):
            module = built(builder_at(named.place, "encoder", TAKES), (shape,), TAKES)
            if not isinstance(module, nn.Module):
                raise ConfigError(f"got {type(module).__name__}, expected a torch.nn.Module")
            module.eval().requires_grad_(False)
            check_numbers(module)
            _load(module, named.weights)
            return module, _tried(module, seed, shape)
    except ConfigError as error:
        if str(error).startswith("encoder "):
            raise
        raise ConfigError(f"encoder {named.given!r}: {error}") from error


def _load(module: nn.Module, weights: str) -> None:
    """Load a file of weights into a module, in float32; "": nothing is loaded."""
    if not weights:
        return
    try:
        tensors = load_file(Path(weights))
    except (OSError, SafetensorError) as error:
        raise ConfigError(
            f"{weights}: got {error}, expected a safetensors file of the module's state_dict"
        ) from error
    own = module.state_dict()
    wrong = [
        f"{name}: got {_shape_in(tensors, name)}, expected {_shape_in(own, name)}"
        for name in sorted(own.keys() | tensors.keys())
        if _shape_in(own, name) != _shape_in(tensors, name)
    ]
    if wrong:
        more = f" (and {len(wrong) - 3} more tensors)" if len(wrong) > 3 else ""
        raise ConfigError(f"{weights}: {'; '.join(wrong[:3])}{more}")
    module.load_state_dict(tensors)


def _shape_in(tensors: dict[str, Tensor], name: str) -> object:
    """Return a tensor's shape, or that there is none."""
    return tuple(tensors[name].shape) if name in tensors else "none"


def _tried(module: nn.Module, seed: int, shape: Shape) -> int:
    """Return how many features a module makes, once it has made some of random samples.

    Raises ConfigError if it fails, or its outputs are no features, draw at random, or depend on the
    batch.
    """
    stream = np.random.default_rng(derive_seed(seed, "", 0, "encoder trial"))
    x = stream.standard_normal((TRIED, *shape)).astype(np.float32)
    for i, amplitude in enumerate(AMPLITUDES):
        x[i :: len(AMPLITUDES)] *= amplitude
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    first = _called(module, x)
    if moved := [n for n, t in module.state_dict().items() if not torch.equal(t, before[n])]:
        raise ConfigError(f"its {moved[0]} changed in a call, expected a module without a state")
    _check_equal(first, _called(module, x), "twice, of the same samples", "draws nothing")
    alone = np.concatenate([_called(module, one[None]) for one in x])
    _check_equal(first, alone, "of a sample in a batch and alone", "looks at one sample at a time")
    return int(first.shape[1])


def _called(module: nn.Module, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the features of samples as a module makes them, checked."""
    try:
        with torch.no_grad():
            of: Any = module(torch.from_numpy(x))
    except Exception as error:  # whatever somebody's module raises
        raise ConfigError(
            f"got {type(error).__name__}: {error}; expected features of {len(x)} samples of shape "
            f"{x.shape[1:]}"
        ) from error
    if not isinstance(of, Tensor) or of.dtype != torch.float32 or of.ndim != 2 or not of.shape[1]:
        got = f"{of.dtype} {tuple(of.shape)}" if isinstance(of, Tensor) else type(of).__name__
        raise ConfigError(f"got {got}, expected features torch.float32 [{len(x)}, F]")
    if len(of) != len(x):
        raise ConfigError(f"got {tuple(of.shape)} of {len(x)} samples, expected [{len(x)}, F]")
    if of.shape[1] > LARGEST:
        raise ConfigError(f"got {of.shape[1]:,} features, expected {LARGEST:,} at most")
    if not torch.isfinite(of).all():
        raise ConfigError("got NaN or infinite features of random samples, expected finite ones")
    return np.array(of.numpy())


def _check_equal(
    one: NDArray[np.float32], other: NDArray[np.float32], how: str, expected: str
) -> None:
    """Refuse features that differ by more than rounding."""
    difference = np.abs(one - other) / np.maximum(1, np.abs(one))
    if one.shape != other.shape or difference.max() > TOLERANCE:
        raise ConfigError(
            f"got features {how}, that differ by {difference.max():.2g}; expected a module that "
            f"{expected}, such as without Dropout or a norm over the batch"
        )
