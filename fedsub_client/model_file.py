"""A person's model as one safetensors file that says itself what it is and how to compute with it.

The same file lies in a simulation's ``models/`` and inside a device's state, and is what
``fedsub export --format safetensors`` writes. Tensors are the parameters and what features are
standardised with; the metadata's one key, ``fedsub``, says the rest as JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from fedsub_client.personal_model import PersonalModel
from fedsub_core.data.card import Card, card_table, parse_card
from fedsub_core.data.standardise import Scaling
from fedsub_core.encoders.build import build_encoder, model_shape
from fedsub_core.errors import FedSubError, RunError
from fedsub_core.models.described import describe, described
from fedsub_core.models.mixture import Mixture

#: Without an encoder, and with one, whose numbers a reader draws from the seed.
FORMAT, ENCODED = "fedsub-model 2", "fedsub-model 3"
MEAN, STD = "standardise.mean", "standardise.std"
#: Under which the facts are kept in a file's metadata.
FACTS = "fedsub"

COMPUTES = (
    f"probabilities = softmax(layers((x - {MEAN}) / {STD})), x [batch, *shape] in units; mean and "
    "std along the second axis of x"
)
#: What a mixture computes; the formulas stand with ``fedsub_core.models.mixture.Mixture``.
MIXED = (
    f"each expert's probabilities are softmax(layers((x - {MEAN}) / {STD})) with its parameters "
    "<expert>.<layer>, of head with fused's but for the last layer, of nearest by the distances "
    "of fused's embedding from nearest.means, each dimension by its nearest.spread; to the power "
    "1 / gate.temperature, over their sum, gate.weights mix them; gate.open says how much "
    "fused counts for classes that gate.held lacks; "
    "x [batch, *shape] in units, mean and std along its second axis"
)


def computes(model: PersonalModel) -> str:
    """Return in words what a reader computes with the tensors."""
    said = MIXED if model.experts else COMPUTES
    if model.encoder is None:
        return said
    plain = f"(x - {MEAN}) / {STD}"
    return said.replace(plain, f"encode({plain})") + (
        "; encode as encoder says, drawn from encoder_seed: FedSub's docs/wire-format.md, Encoders"
    )


def facts(model: PersonalModel) -> dict[str, Any]:
    """Return what a reader needs beside the tensors, as values of JSON."""
    encoder = model.encoder
    encoded = {} if encoder is None else {"encoder": encoder.text, "encoder_seed": encoder.seed}
    return {
        "format": FORMAT if encoder is None else ENCODED,
        "client": model.client,
        "method": model.method,
        "round": model.round,
        **card_table(model.card),
        "shape": model.shape,
        **encoded,
        "kind": model.kind,
        "layers": describe(model.architecture),
        "experts": model.experts,
        "standardised": model.scaling is not None,
        "lacks": model.lacks,
        "computes": computes(model),
    }


def scaling_tensors(model: PersonalModel) -> tuple[Tensor, Tensor]:
    """Return what features are standardised with, float32 [F]: 0 and 1 where they are not."""
    if model.scaling is None:
        return torch.zeros(model.shape[0]), torch.ones(model.shape[0])
    return torch.from_numpy(model.scaling.mean.copy()), torch.from_numpy(model.scaling.std.copy())


def model_bytes(model: PersonalModel) -> bytes:
    """Return the file's bytes; the same for the same model."""
    mean, std = scaling_tensors(model)
    tensors = {name: tensor.contiguous() for name, tensor in model.params.items()}
    tensors = {name: tensor.clone() for name, tensor in (tensors | {MEAN: mean, STD: std}).items()}
    told = facts(model)
    told["digest"] = checksum(tensors, json.dumps(told)).hex()
    return save_tensors(tensors, {FACTS: json.dumps(told)})


def is_model_file(data: bytes) -> bool:
    """Return whether `data` begin as a model's file does, whole or not."""
    return FACTS in _metadata(data)


def model_of(data: bytes) -> PersonalModel:
    """Inverse of :func:`model_bytes`.

    Raises
    ------
    RunError
        Where the bytes are no such file, are damaged, or were written in another format.
    """
    try:
        of, tensors = json.loads(_metadata(data)[FACTS]), load_tensors(data)
        if of["format"] not in (FORMAT, ENCODED):
            raise RunError(f"written as {of['format']!r}, expected {FORMAT!r} or {ENCODED!r}")
        if bytes.fromhex(of.pop("digest")) != checksum(tensors, json.dumps(of)):
            raise ValueError("its checksum is wrong")
        card = {f.name: of[f.name] for f in fields(Card) if f.name in of}
        shape, encoder = tuple(of["shape"]), None
        if of["format"] == ENCODED:
            encoder = build_encoder(of["encoder"], of["encoder_seed"], shape)
        mean, std = tensors.pop(MEAN).numpy(), tensors.pop(STD).numpy()
        return PersonalModel(
            of["client"],
            of["method"],
            of["round"],
            tensors,
            described(of["layers"], model_shape(encoder, shape)),
            of["kind"],
            parse_card(card, Path("the model's file")),
            Scaling(mean, std) if of["standardised"] else None,
            tuple(of["experts"]),
            of["lacks"],
            encoder,
        )
    except RunError:
        raise
    except Exception as error:  # safetensors has errors of its own for each kind of damage
        raise RunError(f"damaged ({type(error).__name__}: {error})") from error


def check_usable(model: PersonalModel, where: str) -> None:
    """Refuse parameters of another architecture than the file says, or that diverged.

    So is a model that was tested with something beside it.

    Raises
    ------
    RunError
        It begins with `where`.
    """
    if model.lacks:
        raise RunError(
            f"{where}: got a model without {model.lacks}, expected all that it was tested with: it "
            "would answer otherwise. Train with another setting"
        )
    try:
        expected = dict(model.predictor.parameter_shapes)
    except FedSubError as error:
        raise RunError(f"{where}: {error}. Use the version of FedSub that saved it") from error
    tensors = dict(model.params)
    for name, tensor in zip((MEAN, STD), scaling_tensors(model), strict=True):
        tensors[name], expected[name] = tensor, (model.shape[0],)
    got = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if got != expected:
        raise RunError(
            f"{where}: got parameters {got}, expected {expected}. Use the version of FedSub that "
            "saved it"
        )
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if isinstance(model.predictor, Mixture):
        broken = model.predictor.fatal(model.params, broken)
    if broken:
        raise RunError(
            f"{where}: {broken[0]}: got numbers that are not finite, expected a trained model: "
            "training diverged. Train again with a lower lr"
        )


def checksum(tensors: Mapping[str, Tensor], text: str = "") -> bytes:
    """Return a digest of named tensors, and of a text beside them."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.digest()


def _metadata(data: bytes) -> dict[str, str]:
    """Return a safetensors file's metadata; {} where there is none to be read."""
    length = int.from_bytes(data[:8], "little")
    try:
        told = json.loads(data[8 : 8 + length])["__metadata__"]
    except (ValueError, KeyError, TypeError):
        return {}
    return told if isinstance(told, dict) else {}
