"""A person's model as a file for other programs: ONNX, TorchScript, or plain safetensors.

ONNX and TorchScript map ``x [batch, *features]``, float32 in the card's units, images of bytes as
uint8 and token ids as int64, to ``probabilities [batch, classes]``: what ``fedsub predict`` prints,
with standardisation, encoder and softmax inside, for any batch. Safetensors is the file of
:mod:`fedsub_client.model_file`, which says how to compute with its parameters. Classes, features
and architecture travel in every format. A file gets its name only after it was read back and gave
the same probabilities.
"""

import io
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedsub.export.encoder_module import encoder_module
from fedsub.export.onnx_file import encode_onnx, run_onnx
from fedsub_client.loaded_model import load_model
from fedsub_client.model_file import FACTS, facts, feature_tensors, model_bytes, scaling_tensors
from fedsub_client.personal_model import PersonalModel
from fedsub_core.data.samples import LEVELS, Nodes, Pixels, Tokens
from fedsub_core.data.target import predicted
from fedsub_core.encoders.module_encoder import ModuleEncoder
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import check_new, write_whole

#: Largest difference of a probability that a runtime's own arithmetic may make; and where it may
#: round a feature of a module of one's own to the next level.
TOLERANCE, TOLERANCE_OF_LEVELS = 1e-4, 1e-2

Run = Callable[..., NDArray[np.float32]]


@dataclass(frozen=True)
class Format:
    """One format.

    Parameters
    ----------
    encode : makes the file's bytes.
    run : reads a model's file back, as a function from raw features to probabilities; None where
        what that takes is not installed.
    """

    encode: Callable[[PersonalModel], bytes]
    run: Callable[[Path, PersonalModel], Run | None]


def export(model: PersonalModel, format: str, path: Path, force: bool = False) -> float | None:
    """Write the model to `path`, whole or not at all.

    Returns
    -------
    float or None
        Largest difference between the file's probabilities and the model's on random samples;
        None where nothing is installed that could run the file.

    Raises ConfigError where the format is unknown or its packages are not installed. Raises
    RunError where `path` exists and not `force`, it cannot be written, or the file does not compute
    what the model does; `path` then stays as it was.
    """
    if format not in FORMATS:
        raise ConfigError(f"format {format!r}: expected {', '.join(FORMATS)}")
    if isinstance(model.shape, Nodes) and format != "safetensors":
        raise ConfigError(
            f"format {format!r}: got a model of a graph's nodes, expected safetensors, which alone "
            "says how it sees edges"
        )
    check_new(path, force)
    data = FORMATS[format].encode(model)
    differences: list[float] = []

    def check(new: Path) -> None:
        run = FORMATS[format].run(new, model)
        if run is None:
            return
        differences.extend(_difference(model, run, samples) for samples in (1, 7))
        rounds = isinstance(model.encoder, ModuleEncoder)
        tolerance = TOLERANCE_OF_LEVELS if rounds else TOLERANCE
        if model.card.target is not None:  # probabilities are of 0 to 1
            tolerance *= 2 * model.card.target.half
        # Written so that NaN fails as well.
        if not max(differences) <= tolerance:
            raise RunError(
                f"{path}: client {model.client!r}: got probabilities that differ by "
                f"{max(differences):.2g} from the model's, expected {tolerance:g} at most; not "
                "written. Choose another format, or another version of its packages"
            )

    write_whole(path, data, check)
    return max(differences) if differences else None


def _told(model: PersonalModel) -> str:
    """Return the facts that a reader needs beside the tensors, as JSON.

    ONNX keeps it in its metadata, TorchScript as ``torch.jit.load(f, _extra_files={FACTS: ""})``.
    """
    return json.dumps(facts(model))


def _difference(model: PersonalModel, run: Run, samples: int) -> float:
    x = _random_samples(model, samples).numpy()
    if isinstance(model.shape, Nodes):
        nodes = np.arange(len(x))
        edges = np.stack([nodes[1:], nodes[:-1]])  # joined in a row
        found, own = run(x, edges=edges), model.probabilities(x, edges=edges)
    else:
        found, own = run(x), model.probabilities(x)
    return float(np.abs(found - own).max())


def _random_samples(model: PersonalModel, samples: int) -> Tensor:
    """Return made-up samples ``[samples, *features]`` of the scale and type that it knows."""
    stream = torch.Generator().manual_seed(0)
    if isinstance(model.shape, Tokens):
        of, padding = model.shape.vocabulary, model.shape.padding
        ids = torch.randint(of, (samples, *model.shape), generator=stream)
        ids[:, 0] = (padding + 1) % of  # none is empty
        ids[:, 1:][torch.rand(ids[:, 1:].shape, generator=stream) < 0.5] = padding
        return ids
    if isinstance(model.shape, Pixels):
        pixels = (samples, *model.shape)
        return torch.randint(LEVELS, pixels, generator=stream, dtype=torch.uint8)
    axes = (-1,) + (1,) * (len(model.shape) - 1)
    mean, std = (tensor.reshape(axes) for tensor in scaling_tensors(model))
    return mean + std * torch.randn(samples, *model.shape, generator=stream)


def _onnx(model: PersonalModel) -> bytes:
    return encode_onnx(PersonalModule(model), _random_samples(model, 2), {FACTS: _told(model)})


def _torchscript(model: PersonalModel) -> bytes:
    file = io.BytesIO()
    # PyTorch advises its newer formats instead, which programs without Python cannot read.
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        traced: Any = torch.jit.trace(  # type: ignore[no-untyped-call]
            PersonalModule(model), _random_samples(model, 2)
        )
        torch.jit.save(traced, file, _extra_files={FACTS: _told(model)})
    return file.getvalue()


def _run_torchscript(path: Path, model: PersonalModel) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: Any = torch.jit.load(path)  # type: ignore[no-untyped-call]

    def run(x: NDArray[Any]) -> NDArray[np.float32]:
        with torch.no_grad():
            probabilities: NDArray[np.float32] = module(torch.from_numpy(x)).numpy()
        return probabilities

    return run


def _run_safetensors(path: Path, model: PersonalModel) -> Run:
    encoder = "" if model.encoder is None else model.encoder.text
    return load_model(path, model.kind, encoder).probabilities


def _run_onnx(path: Path, model: PersonalModel) -> Run | None:
    return run_onnx(path)


FORMATS = {
    "onnx": Format(_onnx, _run_onnx),
    "torchscript": Format(_torchscript, _run_torchscript),
    "safetensors": Format(model_bytes, _run_safetensors),
}


class PersonalModule(nn.Module):
    """``x [batch, *features]`` in the card's units to ``probabilities [batch, classes]``.

    `x` is float32, images of bytes uint8, token ids int64. Standardisation, encoder and softmax are
    inside. Where the model was trained without standardisation, the mean is 0 and the standard
    deviation 1, which changes no number.

    Parameters
    ----------
    model : the person's model; its parameters are copied.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, model: PersonalModel) -> None:
        super().__init__()
        mean, std = scaling_tensors(model)
        axes = (1, -1) + (1,) * (len(model.shape) - 1)
        self.register_buffer("mean", mean.reshape(axes))
        self.register_buffer("std", std.reshape(axes))
        self.ids = isinstance(model.shape, Tokens)
        self.encoder = nn.Identity() if model.encoder is None else encoder_module(model.encoder)
        of_features = feature_tensors(model)
        self.features = Standardised(*of_features.values()) if of_features else nn.Identity()
        self.layers = model.predictor.to_torch(model.params)
        self.target = model.card.target
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return the probability of every class; of a target its values, [batch, 1]."""
        logits: Tensor = self.layers(self.seen(x))
        if self.target is not None:
            place: Tensor = predicted(logits)
            return (self.target.low + self.target.half * (1 + place))[:, None]
        return logits.softmax(1)

    def seen(self, x: Tensor) -> Tensor:
        """Return the features of samples `[batch, *shape]` that the first layer reads."""
        if self.ids:
            return x
        found: Tensor = self.features(self.encoder((x.to(self.mean.dtype) - self.mean) / self.std))
        return found


class Standardised(nn.Module):
    """An encoder's features ``[batch, F]``, less a mean ``[F]``, over a deviation ``[F]``."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, features: Tensor) -> Tensor:
        """Return the features, standardised."""
        return (features - self.mean) / self.std
