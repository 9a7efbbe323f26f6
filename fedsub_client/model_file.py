"""A person's model as one safetensors file that says itself what it is and how to compute with it.

The same file lies in a simulation's ``models/`` and inside a device's state, and is what
``fedsub export --format safetensors`` writes. Tensors are the parameters and what samples, and
features of an encoder, are standardised with; the metadata's one key, ``fedsub``, says the rest as
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from fedsub_client.checksum import checksum
from fedsub_client.common_tensors import APART, CommonTensors, own_of, with_common
from fedsub_client.personal_model import PersonalModel
from fedsub_core.data.card import Card, card_table, parse_card
from fedsub_core.data.samples import Nodes, Tokens, facts_of, shape_with
from fedsub_core.data.standardise import Scaling
from fedsub_core.encoders.build import build_encoder, model_shape
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.module_encoder import ModuleEncoder
from fedsub_core.encoders.ranks_encoder import RanksEncoder
from fedsub_core.errors import OtherRelease, RunError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.chain import Chain, describe, described
from fedsub_core.models.model import Model
from fedsub_core.models.unbuilt import Unbuilt
from fedsub_core.pytorch import Tensor, as_numpy, as_tensor, copied, load_tensors, save_tensors

#: What is written (8 where some tensors lie elsewhere), and what is read. Since 7 there are a
#: person's places, since 6 a predictor's own facts. Before: layers alone, an encoder, a module, an
#: encoder's features that are standardised.
FORMAT = "fedsub-model 7"
FORMATS = *(f"fedsub-model {number}" for number in range(2, 7)), FORMAT, APART
#: What goes before the name of a number that a module has for everybody.
CONSTANT = "constant."
MEAN, STD = "standardise.mean", "standardise.std"
FEATURE_MEAN, FEATURE_STD = "standardise.features.mean", "standardise.features.std"
#: Under which the facts are kept in a file's metadata.
FACTS = "fedsub"
#: The places of a person's ranks, int16 [places, inputs], where its encoder has some.
OWN_PLACES = "encoder.places"
#: The fact how many features an encoder makes that is a module.
FEATURES = "encoder_features"


def computes(model: PersonalModel) -> str:
    """Return in words what a reader computes with the tensors."""
    if isinstance(model.shape, Tokens):
        words = model.predicts.computes.format(seen="x")
        return f"{words}; x [batch, length] token ids, int64"
    seen, more = f"(x - {MEAN}) / {STD}", ""
    if isinstance(model.shape, Nodes):
        words = model.predicts.computes.format(seen=f"rows({seen}, edges)")
        return f"{words}; x [nodes, features] in units, edges [2, m]; rows as FedSub's docs/data.md"
    if model.encoder is not None:
        seen = f"encode({seen})"
        more = "; encode as encoder says, drawn from encoder_seed: FedSub's docs/wire-format.md, "
        more += "Encoders"
    if isinstance(model.encoder, RanksEncoder):
        more += f"; ranks of this person are among {OWN_PLACES}"
    if isinstance(model.encoder, ModuleEncoder):
        more = "; encode by the module that encoder names, in levels of 1/128"
    if feature_tensors(model):
        seen = f"({seen} - {FEATURE_MEAN}) / {FEATURE_STD}"
    words = (model.card.target or model.predicts).computes.format(seen=seen)
    return f"{words}; x [batch, *shape] in units, mean and std along its second axis{more}"


def facts(model: PersonalModel) -> dict[str, Any]:
    """Return the facts that a reader needs beside the tensors, as values of JSON."""
    encoded: dict[str, Any] = {}
    if (encoder := model.encoder) is not None:
        encoded = {"encoder": encoder.text, "encoder_seed": encoder.seed}
    if isinstance(encoder, ModuleEncoder):
        encoded[FEATURES] = encoder.features
    card = card_table(replace(model.card, capacities=None))  # it is no matter of one person's model
    card["classes"] = model.card.classes
    if model.card.overlap is None:  # an older release reads numbers alone
        del card["overlap"]
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
        "stay_s": model.stay_s,
        "computes": computes(model),
    }


def _architecture(model: Model | Unbuilt) -> dict[str, Any]:
    """Return the architecture's facts: a chain's layers, or the norm of a module."""
    if isinstance(model, Chain):
        return {"layers": describe(model)}
    return {"layers": None, "norm": cast(Any, model).norm}


def scaling_tensors(model: PersonalModel) -> tuple[Tensor, Tensor]:
    """Return mean and deviation of samples, float32 [F]: 0 and 1 where none are standardised."""
    if model.scaling is None:
        n = model.shape[0]
        return as_tensor(np.zeros(n, np.float32)), as_tensor(np.ones(n, np.float32))
    return as_tensor(model.scaling.mean.copy()), as_tensor(model.scaling.std.copy())


def feature_tensors(model: PersonalModel) -> dict[str, Tensor]:
    """Return mean and deviation of an encoder's features, by their names in the file.

    Both are float32 [features]; {} where they are not.
    """
    if model.scaling is None or (own := model.scaling.features) is None:
        return {}
    return {FEATURE_MEAN: as_tensor(own.mean.copy()), FEATURE_STD: as_tensor(own.std.copy())}


def standard_tensors(model: PersonalModel) -> dict[str, Tensor]:
    """Return the tensors of a file beside the parameters, by name; none of token ids."""
    if isinstance(model.shape, Tokens):
        return {}
    mean, std = scaling_tensors(model)
    tensors = {MEAN: mean, STD: std, **feature_tensors(model)}
    if isinstance(model.encoder, RanksEncoder) and model.encoder.places is not None:
        tensors[OWN_PLACES] = as_tensor(model.encoder.places)
    return tensors


def model_bytes(model: PersonalModel, common: CommonTensors | None = None) -> bytes:
    """Return the file's bytes, without what is `common`; the same for the same model."""
    tensors = dict(model.params)
    tensors |= {CONSTANT + name: t for name, t in model.architecture.constants.items()}
    tensors |= standard_tensors(model)
    tensors = {name: copied(tensor) for name, tensor in tensors.items()}
    stated = facts(model)
    stated |= {} if common is None else common.stated(tensors)
    stated["digest"] = checksum(tensors, json.dumps(stated)).hex()
    return save_tensors(own_of(stated, tensors), {FACTS: json.dumps(stated)})


def is_model_file(data: bytes) -> bool:
    """Return whether `data` begin as a model's file does, whole or not."""
    return FACTS in _metadata(data)


def model_of(data: bytes, folder: Path | None = None) -> PersonalModel:
    """Inverse of :func:`model_bytes`, of a file in a `folder`.

    Raises RunError where the bytes are no such file, are damaged, or were written in another
    format.
    """
    try:
        stated, tensors = json.loads(_metadata(data)[FACTS]), load_tensors(data)
        if stated["format"] not in FORMATS:
            known = ", ".join(map(repr, FORMATS))
            raise OtherRelease(f"written as {stated['format']!r}, expected one of {known}")
        tensors = with_common(stated, tensors, folder)
        if bytes.fromhex(stated.pop("digest")) != checksum(tensors, json.dumps(stated)):
            raise ValueError("its checksum is wrong")
        card = {f.name: stated[f.name] for f in fields(Card) if f.name in stated}
        shape, encoder = shape_with(tuple(stated["shape"]), stated), None
        if "encoder" in stated:
            encoder = _encoder(stated, shape, tensors.pop(OWN_PLACES, None))
        scaling = _scaling(tensors, MEAN, STD) if MEAN in tensors else None
        if scaling is not None and FEATURE_MEAN in tensors:
            features = _scaling(tensors, FEATURE_MEAN, FEATURE_STD)
            scaling = replace(scaling, features=features)
        seen = model_shape(encoder, shape)
        architecture: Model | Unbuilt
        if stated["layers"] is None:
            architecture = _unbuilt(stated, seen, tensors)
        else:
            architecture = described(stated["layers"], seen)
        return PersonalModel(
            stated["client"],
            stated["method"],
            stated["round"],
            tensors,
            architecture,
            stated["kind"],
            parse_card(card, Path("the model's file")),
            scaling if stated["standardised"] else None,
            _described(stated),
            encoder,
            stated.get("stay_s"),
        )
    except RunError:
        raise
    except Exception as error:  # safetensors has errors of its own for each kind of damage
        raise RunError(f"damaged ({type(error).__name__}: {error})") from error


def _encoder(stated: Mapping[str, Any], shape: Shape, places: Tensor | None) -> Encoder | None:
    """Return the encoder that a file describes; a module's code does not run."""
    text, seed = stated["encoder"], stated["encoder_seed"]
    if FEATURES in stated:
        return ModuleEncoder(stated[FEATURES], seed, shape, text)
    encoder = build_encoder(text, seed, shape)
    if isinstance(encoder, RanksEncoder) and places is not None:
        encoder = replace(encoder, places=as_numpy(places))
    return encoder


def _described(stated: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return a file's facts on the method's own predictor; None: the model predicts alone.

    Before format 6 it was what a mixture mixes, or what a model lacks without which it answers
    otherwise than it was tested: its predictor finds its tensors missing.
    """
    older = {key: stated[key] for key in ("experts", "lacks") if stated.get(key)}
    found: Mapping[str, Any] | None = stated.get("predictor", older or None)
    return found


def _unbuilt(stated: Mapping[str, Any], seen: Shape, tensors: dict[str, Tensor]) -> Unbuilt:
    """Return the module that a file describes; takes its constants out of the `tensors`."""
    names = [name for name in tensors if name.startswith(CONSTANT)]
    constants = {name.removeprefix(CONSTANT): tensors.pop(name) for name in names}
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    return Unbuilt(stated["kind"], seen, len(stated["classes"]), shapes, constants, stated["norm"])


def _scaling(tensors: dict[str, Tensor], mean: str, std: str) -> Scaling:
    """Take a standardisation out of a file's tensors."""
    return Scaling(as_numpy(tensors.pop(mean)), as_numpy(tensors.pop(std)))


def _metadata(data: bytes) -> dict[str, str]:
    """Return a safetensors file's metadata; {} where there is none to be read."""
    length = int.from_bytes(data[:8], "little")
    try:
        metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    except (ValueError, KeyError, TypeError):
        return {}
    return metadata if isinstance(metadata, dict) else {}
