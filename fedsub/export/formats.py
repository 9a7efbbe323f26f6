"""A person's model as a file for other programs: ONNX, TorchScript, or plain safetensors.

ONNX and TorchScript map ``x [batch, *features]``, float32 in the card's units, to
``probabilities [batch, classes]``: what ``fedsub predict`` prints, with standardisation and
softmax inside, for any batch. Safetensors holds the parameters (which give logits), and in its
metadata all that is needed to compute with them. Classes, features and architecture travel in
every format. A file gets its name only after it was read back and gave the same probabilities.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save as save_tensors
from torch import Tensor

from fedsub.export.onnx_file import encode_onnx, run_onnx
from fedsub.export.torch_module import PersonalModule, scaling_tensors
from fedsub_client.loaded_model import LoadedModel
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import check_new, write_whole

#: Largest difference of a probability that a runtime's own arithmetic may make.
TOLERANCE = 1e-4
MEAN, STD = "standardise.mean", "standardise.std"
#: Where a TorchScript file keeps :func:`facts`: ``torch.jit.load(f, _extra_files={FACTS: ""})``.
FACTS = "fedsub.json"

#: What a mixture computes; the formulas stand with ``fedsub_core.models.mixture.Mixture``.
MIXED = (
    f"each expert's probabilities are softmax(layers((x - {MEAN}) / {STD})) with its parameters "
    "<expert>.<layer>, of head with fused's but for the last layer, of nearest by the distances "
    "of fused's embedding from nearest.means, each dimension by its nearest.spread; to the power "
    "1 / gate.temperature, over their sum, gate.weights mix them; gate.open says how much "
    "fused counts for classes that gate.held lacks; "
    "x [batch, *shape] in units, mean and std along its second axis"
)

Run = Callable[[NDArray[np.float32]], NDArray[np.float32]]


@dataclass(frozen=True)
class Format:
    """One format.

    Parameters
    ----------
    encode : makes the file's bytes.
    run : reads a file back, as a function from raw features to probabilities; None where what
        that takes is not installed.
    """

    encode: Callable[[LoadedModel], bytes]
    run: Callable[[Path, LoadedModel], Run | None]


def export(loaded: LoadedModel, format: str, path: Path, force: bool = False) -> float | None:
    """Write the model to `path`, whole or not at all.

    Returns
    -------
    float or None
        Largest difference between the file's probabilities and the model's on random samples;
        None where nothing is installed that could run the file.

    Raises
    ------
    ConfigError
        Where the format is unknown or its packages are not installed.
    RunError
        Where `path` exists and not `force`, it cannot be written, or the file does not compute
        what the model does; `path` then stays as it was.
    """
    if format not in FORMATS:
        raise ConfigError(f"format {format!r}: expected {', '.join(FORMATS)}")
    check_new(path, force)
    data = FORMATS[format].encode(loaded)
    differences: list[float] = []

    def check(new: Path) -> None:
        run = FORMATS[format].run(new, loaded)
        if run is None:
            return
        differences.extend(_difference(loaded, run, samples) for samples in (1, 7))
        # Written so that NaN fails as well.
        if not max(differences) <= TOLERANCE:
            raise RunError(
                f"{path}: client {loaded.client!r}: got probabilities that differ by "
                f"{max(differences):.2g} from the model's, expected {TOLERANCE:g} at most; not "
                "written. Choose another format, or another version of its packages"
            )

    write_whole(path, data, check)
    return max(differences) if differences else None


def facts(loaded: LoadedModel) -> dict[str, str]:
    """Return what a reader needs beside the tensors, as texts; lists are JSON."""
    card, layers = loaded.model.card, loaded.architecture.layers
    chain: list[Any] = [*layers]
    return {
        "format": "fedsub-model 1",
        "client": loaded.client,
        "method": loaded.method,
        "round": str(loaded.round),
        "task": card.task,
        "classes": json.dumps(card.classes),
        "features": json.dumps(card.features),
        "units": card.units,
        "sampling_rate_hz": "" if card.sampling_rate_hz is None else f"{card.sampling_rate_hz:g}",
        "shape": json.dumps(loaded.model.shape),
        "kind": loaded.model.kind,
        "layers": json.dumps([{"type": type(layer).__name__, **asdict(layer)} for layer in chain]),
        "experts": json.dumps(loaded.model.experts),
        "computes": MIXED
        if loaded.model.experts
        else f"probabilities = softmax(layers((x - {MEAN}) / {STD})), x [batch, *shape] in "
        "units; mean and std along the second axis of x",
    }


def _difference(loaded: LoadedModel, run: Run, samples: int) -> float:
    x = _random_samples(loaded, samples).numpy()
    return float(np.abs(run(x) - loaded.probabilities(x)).max())


def _random_samples(loaded: LoadedModel, samples: int) -> Tensor:
    """Return made-up features ``[samples, *features]`` of the scale that the model knows."""
    axes = (-1,) + (1,) * (len(loaded.model.shape) - 1)
    mean, std = (tensor.reshape(axes) for tensor in scaling_tensors(loaded))
    stream = torch.Generator().manual_seed(0)
    return mean + std * torch.randn(samples, *loaded.model.shape, generator=stream)


def _onnx(loaded: LoadedModel) -> bytes:
    return encode_onnx(PersonalModule(loaded), _random_samples(loaded, 2), facts(loaded))


def _torchscript(loaded: LoadedModel) -> bytes:
    file = io.BytesIO()
    # PyTorch advises its newer formats instead, which programs without Python cannot read.
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        traced: Any = torch.jit.trace(  # type: ignore[no-untyped-call]
            PersonalModule(loaded), _random_samples(loaded, 2)
        )
        torch.jit.save(traced, file, _extra_files={FACTS: json.dumps(facts(loaded))})
    return file.getvalue()


def _run_torchscript(path: Path, loaded: LoadedModel) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: Any = torch.jit.load(path)  # type: ignore[no-untyped-call]

    def run(x: NDArray[np.float32]) -> NDArray[np.float32]:
        with torch.no_grad():
            probabilities: NDArray[np.float32] = module(torch.from_numpy(x)).numpy()
        return probabilities

    return run


def _safetensors(loaded: LoadedModel) -> bytes:
    tensors = {name: tensor.contiguous() for name, tensor in loaded.model.params.items()}
    mean, std = scaling_tensors(loaded)
    return save_tensors(tensors | {MEAN: mean, STD: std}, facts(loaded))


def _run_safetensors(path: Path, loaded: LoadedModel) -> Run:
    """Compute with what the file says, not with what `loaded` knows."""
    with safe_open(path, "pt") as file:
        told = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    scaling = Scaling(tensors.pop(MEAN).numpy(), tensors.pop(STD).numpy())
    card = replace(loaded.model.card, classes=tuple(json.loads(told["classes"])))
    shape = tuple(json.loads(told["shape"]))
    model = replace(
        loaded.model,
        params=tensors,
        kind=told["kind"],
        shape=shape,
        card=card,
        scaling=scaling,
        experts=tuple(json.loads(told["experts"])),
    )
    return replace(loaded, file=path, model=model).probabilities


FORMATS = {
    "onnx": Format(_onnx, lambda path, _: run_onnx(path)),
    "torchscript": Format(_torchscript, _run_torchscript),
    "safetensors": Format(_safetensors, _run_safetensors),
}
