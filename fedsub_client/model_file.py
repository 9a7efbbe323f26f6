"""A person's model as one safetensors file that says itself what it is and how to compute with it.

The same file lies in a simulation's ``models/`` and inside a device's state, and is what
``fedsub export --format safetensors`` writes. Tensors are the parameters and what samples, and
features of an encoder, are standardised with; the metadata's one key, ``fedsub``, says the rest as
JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from fedsub_client.personal_model import PersonalModel
from fedsub_core.data.card import Card, card_table, parse_card
from fedsub_core.data.samples import Nodes, Tokens, facts_of, shape_with
from fedsub_core.data.standardise import Scaling
from fedsub_core.encoders.build import build_encoder, model_shape
from fedsub_core.errors import FedSubError, OtherRelease, RunError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.chain import Chain, describe, described
from fedsub_core.models.model import Model
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.unbuilt import Unbuilt

#: What is written, and what is read. Before 6, which says what a method's own predictor said of
#: itself, a number stood for what a file has: nothing more than layers, an encoder, a module, an
#: encoder's features that are standardised.
FORMAT = "fedsub-model 6"
FORMATS = *(f"fedsub-model {number}" for number in range(2, 6)), FORMAT
#: What goes before the name of a number that a module has for everybody.
CONSTANT = "constant."
MEAN, STD = "standardise.mean", "standardise.std"
FEATURE_MEAN, FEATURE_STD = "standardise.features.mean", "standardise.features.std"
#: Under which the facts are kept in a file's metadata.
FACTS = "fedsub"


def computes(model: PersonalModel) -> str:
    """Return in words what a reader computes with the tensors."""
    if isinstance(model.shape, Tokens):
        said = model.predicts.computes.format(seen="x")
        return f"{said}; x [batch, length] token ids, int64"
    seen, more = f"(x - {MEAN}) / {STD}", ""
    if isinstance(model.shape, Nodes):
        said = model.predicts.computes.format(seen=f"rows({seen}, edges)")
        return f"{said}; x [nodes, features] in units, edges [2, m]; rows as FedSub's docs/data.md"
    if model.encoder is not None:
        seen = f"encode({seen})"
        more = "; encode as encoder says, drawn from encoder_seed: FedSub's docs/wire-format.md, "
        more += "Encoders"
    if feature_tensors(model):
        seen = f"({seen} - {FEATURE_MEAN}) / {FEATURE_STD}"
    said = model.predicts.computes.format(seen=seen)
    return f"{said}; x [batch, *shape] in units, mean and std along its second axis{more}"


def facts(model: PersonalModel) -> dict[str, Any]:
    """Return what a reader needs beside the tensors, as values of JSON."""
    encoder = model.encoder
    encoded = {} if encoder is None else {"encoder": encoder.text, "encoder_seed": encoder.seed}
    card = card_table(replace(model.card, capacities=None))  # it is no matter of one person's model
    if model.card.overlap is None:
        del card["overlap"]  # an older release reads numbers alone
    return {
        "format": FORMAT,
        "client": model.client,
        "method": model.method,
        "round": model.round,
        **card,
        "shape": model.shape,
        **facts_of(model.shape),
        **encoded,
        "kind": model.kind,
        **_architecture(model.architecture),
        "predictor": model.described,
        "standardised": model.scaling is not None,
        "computes": computes(model),
    }


def _architecture(model: Model | Unbuilt) -> dict[str, Any]:
    """Return how to compute: a chain's layers, or that the kind's builder makes the module."""
    if isinstance(model, Chain):
        return {"layers": describe(model)}
    assert isinstance(model, (TorchModel, Unbuilt))
    return {"layers": None, "norm": model.norm}


def scaling_tensors(model: PersonalModel) -> tuple[Tensor, Tensor]:
    """Return what samples are standardised with, float32 [F]: 0 and 1 where they are not."""
    if model.scaling is None:
        return torch.zeros(model.shape[0]), torch.ones(model.shape[0])
    return torch.from_numpy(model.scaling.mean.copy()), torch.from_numpy(model.scaling.std.copy())


def feature_tensors(model: PersonalModel) -> dict[str, Tensor]:
    """Return what an encoder's features are standardised with, by its name in the file.

    Both are float32 [features]; {} where they are not.
    """
    if model.scaling is None or (own := model.scaling.features) is None:
        return {}
    return {FEATURE_MEAN: torch.tensor(own.mean), FEATURE_STD: torch.tensor(own.std)}


def _standard_tensors(model: PersonalModel) -> dict[str, Tensor]:
    """Return all that a file holds beside the parameters, by name; nothing of token ids."""
    if isinstance(model.shape, Tokens):
        return {}
    mean, std = scaling_tensors(model)
    return {MEAN: mean, STD: std, **feature_tensors(model)}


def model_bytes(model: PersonalModel) -> bytes:
    """Return the file's bytes; the same for the same model."""
    tensors = {name: tensor.contiguous() for name, tensor in model.params.items()}
    if isinstance(model.architecture, (TorchModel, Unbuilt)):
        own = model.architecture.constants.items()
        tensors |= {CONSTANT + name: tensor.contiguous() for name, tensor in own}
    tensors |= _standard_tensors(model)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
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
        if of["format"] not in FORMATS:
            known = ", ".join(map(repr, FORMATS))
            raise OtherRelease(f"written as {of['format']!r}, expected one of {known}")
        if bytes.fromhex(of.pop("digest")) != checksum(tensors, json.dumps(of)):
            raise ValueError("its checksum is wrong")
        card = {f.name: of[f.name] for f in fields(Card) if f.name in of}
        shape, encoder = shape_with(tuple(of["shape"]), of), None
        if "encoder" in of:
            encoder = build_encoder(of["encoder"], of["encoder_seed"], shape)
        scaling = _scaling(tensors, MEAN, STD) if MEAN in tensors else None
        if scaling is not None and FEATURE_MEAN in tensors:
            features = _scaling(tensors, FEATURE_MEAN, FEATURE_STD)
            scaling = replace(scaling, features=features)
        seen = model_shape(encoder, shape)
        architecture: Model | Unbuilt
        if of["layers"] is None:
            architecture = _unbuilt(of, seen, tensors)
        else:
            architecture = described(of["layers"], seen)
        return PersonalModel(
            of["client"],
            of["method"],
            of["round"],
            tensors,
            architecture,
            of["kind"],
            parse_card(card, Path("the model's file")),
            scaling if of["standardised"] else None,
            _described(of),
            encoder,
        )
    except RunError:
        raise
    except Exception as error:  # safetensors has errors of its own for each kind of damage
        raise RunError(f"damaged ({type(error).__name__}: {error})") from error


def _described(of: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what a file says of the method's own predictor; None: the model predicts alone.

    Before format 6 it was what a mixture mixes, or what a model lacks without which it answers
    otherwise than it was tested: its predictor finds its tensors missing.
    """
    if "predictor" in of:
        said: Mapping[str, Any] | None = of["predictor"]
        return said
    older = {key: of[key] for key in ("experts", "lacks") if of[key]}
    return older or None


def _unbuilt(of: Mapping[str, Any], seen: Shape, tensors: dict[str, Tensor]) -> Unbuilt:
    """Return what the file says of a module; takes its constants out of the `tensors`."""
    names = [name for name in tensors if name.startswith(CONSTANT)]
    constants = {name.removeprefix(CONSTANT): tensors.pop(name) for name in names}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    return Unbuilt(of["kind"], seen, len(of["classes"]), shapes, constants, of["norm"])


def built(model: PersonalModel, named: str = "") -> PersonalModel:
    """Return the model with its module built, where it is one; see :meth:`Unbuilt.build`."""
    if not isinstance(model.architecture, Unbuilt):
        return model
    return replace(model, architecture=model.architecture.build(named))


def check_usable(model: PersonalModel, where: str) -> None:
    """Refuse parameters of another architecture than the file says, or that diverged.

    Raises
    ------
    RunError
        It begins with `where`.
    """
    try:
        expected = dict(model.predictor.tensor_shapes)
    except FedSubError as error:
        raise RunError(f"{where}: {error}. Use the version of FedSub that saved it") from error
    tensors = dict(model.params)
    for name, tensor in _standard_tensors(model).items():
        of_features = name in (FEATURE_MEAN, FEATURE_STD)
        seen = model.architecture.input_shape if of_features else model.shape
        tensors[name], expected[name] = tensor, (seen[0],)
    got = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if got != expected:
        raise RunError(
            f"{where}: got parameters {got}, expected {expected}. Use the version of FedSub that "
            "saved it"
        )
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
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


def _scaling(tensors: dict[str, Tensor], mean: str, std: str) -> Scaling:
    """Take a standardisation out of a file's tensors."""
    return Scaling(tensors.pop(mean).numpy(), tensors.pop(std).numpy())


def _metadata(data: bytes) -> dict[str, str]:
    """Return a safetensors file's metadata; {} where there is none to be read."""
    length = int.from_bytes(data[:8], "little")
    try:
        told = json.loads(data[8 : 8 + length])["__metadata__"]
    except (ValueError, KeyError, TypeError):
        return {}
    return told if isinstance(told, dict) else {}
