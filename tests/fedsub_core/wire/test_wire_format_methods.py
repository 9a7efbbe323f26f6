"""docs/wire-format.md says what the code does: methods' tensors, models, first weights, limits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any, get_args

import numpy as np
import pytest

from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.parts import body
from fedsub_core.methods.table import METHODS
from fedsub_core.models.chain import Model
from fedsub_core.models.kinds import build_model, cnn1d, mlp
from fedsub_core.models.layers import Conv, Linear
from fedsub_core.models.pooling import Pool
from fedsub_core.wire.bundles import Bits, Declaration, Declared, Part, dense, elements, most_bytes
from fedsub_core.wire.bundles import rows as part_rows
from fedsub_core.wire.encoding import WireSettings
from fedsub_core.wire.envelope import Envelope

from .wire_format_page import DOCUMENT, code, part_of_page, rows

MODEL = mlp(6, 4, hidden=(5, 3))


def parameters(model: Model, hyper: Any) -> Declaration:
    return {name: dense(shape) for name, shape in model.parameter_shapes.items()}


def optional(declared: Declaration, before: str = "") -> Declaration:
    return {before + name: replace(one, optional=True) for name, one in declared.items()}


def gains(model: Model, hyper: Any) -> Declaration:
    return {**parameters(model, hyper), "gains": dense((hyper.peer_models,), exact=True)}


def peers(model: Model, hyper: Any) -> Declaration:
    own = parameters(model, hyper)
    each = (optional(own, f"peer{k}.") for k in range(hyper.peer_models))
    return {name: one for peer in each for name, one in peer.items()}


def prototypes(model: Model, hyper: Any) -> Declaration:
    return {"prototypes": part_rows((model.classes, model.affine[-1].fan_in))}


def body_and_prototypes(model: Model, hyper: Any) -> Declaration:
    return {**body(model, hyper), **prototypes(model, hyper)}


def sparse(model: Model, hyper: Any) -> Declaration:
    """Weights as elements; how many usually travel is no matter of the wire."""
    return {
        name: elements(shape) if name.endswith(".weight") else dense(shape)
        for name, shape in model.parameter_shapes.items()
    }


def sparse_and_gradients(model: Model, hyper: Any) -> Declaration:
    weights = {n: d for n, d in parameters(model, hyper).items() if n.endswith(".weight")}
    return {**sparse(model, hyper), **optional(weights, "gradient.")}


Meaning = Callable[[Model, Any], Declaration]
#: Up and down.
MEANINGS: dict[str, tuple[Meaning, Meaning]] = {
    "every parameter": (parameters, parameters),
    "every parameter, until the last rounds": (
        lambda model, hyper: optional(parameters(model, hyper)),
        parameters,
    ),
    "every parameter, and gains; others' models": (gains, peers),
    "the body's parameters": (body, body),
    "prototypes": (
        prototypes,
        lambda model, hyper: optional(prototypes(model, hyper)),
    ),
    "the body's parameters and prototypes": (
        body_and_prototypes,
        lambda model, hyper: {**body(model, hyper), **optional(prototypes(model, hyper))},
    ),
    "the sparse model; at times gradients, too": (sparse_and_gradients, sparse),
    "FedSub's tensors, shares and the gate's": (
        lambda model, hyper: {
            **METHODS["fedsub"].sends(model, hyper),
            **{
                f"{layer.name}.shares": dense((model.classes, layer.units))
                for layer in model.affine[:-1]
            },
            "gate": dense((len(hyper.experts.split(",")) + 1,), exact=True),
            "gate.curves": dense((len(hyper.experts.split(",")), 7), exact=True),
        },
        lambda model, hyper: {
            **METHODS["fedsub"].receives(model, hyper),
            "gate": dense((len(hyper.experts.split(",")),), optional=True, exact=True),
            "gate.temperature": dense((len(hyper.experts.split(",")),), optional=True, exact=True),
        },
    ),
    "nothing": (lambda model, hyper: {}, lambda model, hyper: {}),
}


def on_the_wire(declared: Declaration) -> Declaration:
    return {name: replace(one, share=1.0) for name, one in declared.items()}


def stated_methods() -> list[tuple[str, str, list[str]]]:
    table = rows(part_of_page("## Methods", "\nParameters"))
    return [(name, row[1], code(row[2])) for row in table for name in code(row[0])]


def test_every_method_is_in_the_table() -> None:
    ours = {name for name, card in METHODS.items() if card.learner.startswith("fedsub_client.")}
    assert {name for name, _, _ in stated_methods()} == ours


@pytest.mark.parametrize(("name", "tensors", "report"), stated_methods())
def test_methods_declare_what_the_table_says(name: str, tensors: str, report: list[str]) -> None:
    card: MethodCard = METHODS[name]
    hyper = card.hyperparameters()
    assert list(card.reports) == report
    if name not in ("fedsub", "fedsub-ridge"):  # they have tables of their own
        up, down = MEANINGS[tensors]
        assert on_the_wire(card.sends(MODEL, hyper)) == up(MODEL, hyper)
        assert on_the_wire(card.receives(MODEL, hyper)) == down(MODEL, hyper)


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize(("prototype", "d"), [("input", 6), ("embedding", 3)])
@pytest.mark.parametrize("depth", [0, 1])
def test_fedsub_declares_what_its_table_says(way: str, prototype: str, d: int, depth: int) -> None:
    card = METHODS["fedsub"]
    hyper = card.hyperparameters(prototype=prototype, depth=depth)
    stated: dict[str, Declared] = {}
    kinds = {kind.__name__: kind for kind in get_args(Part)}
    for row in rows(part_of_page("**FedSub.**", "\n\nThe row")):
        if row[0] != way:
            continue
        (name,), (shape,) = code(row[1]), code(row[3])
        kind, *words = row[2].split(", ")
        for layer in MODEL.affine[: depth or None] if "<layer>" in name else MODEL.affine[:1]:
            sizes = {"classes": 4, "d": d, "units": layer.units, "fan_in + 1": layer.fan_in + 1}
            stated[name.replace("<layer>", layer.name)] = Declared(
                kinds[kind],
                tuple(sizes[axis] for axis in shape.strip("[]").split(", ")),
                optional="optional" in words,
                exact="exact" in words,
            )
    declare = card.sends if way == "up" else card.receives
    assert stated == declare(MODEL, hyper)


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("groups", ["none", "nearest", "class"])
def test_fedsub_ridge_declares_what_its_table_says(way: str, groups: str) -> None:
    card = METHODS["fedsub-ridge"]
    hyper = card.hyperparameters(groups=groups)
    part = part_of_page("**fedsub-ridge.**", "## What a receiver")
    few, with_groups = map(int, re.findall(r"K is (\d+), or\n(\d+) with groups", part)[0])
    count = few if groups == "none" else with_groups
    sizes = {"triangle": 7 * 8 // 2, "D + 1": 7, "D + 2": 8, "classes": 4}
    sizes["equations"] = count * (count + 1) // 2 + count + 14
    kinds = {kind.__name__: kind for kind in get_args(Part)}
    stated: dict[str, Declared] = {}
    for row in rows(part):
        if row[0] != way:
            continue
        (name,), (shape,) = code(row[1]), code(row[3])
        kind, *words = row[2].split(", ")
        axes = shape.strip("[]").split(", ")
        lengths = tuple(int(axis) if axis.isdigit() else sizes[axis] for axis in axes)
        stated[name] = Declared(kinds[kind], lengths, optional=True, exact="exact" in words)
    if way == "down":
        for i in range({"none": 0, "nearest": 1, "class": 4}[groups]):
            each = [n for n in stated if n.startswith("everybody.")]
            stated |= {n.replace("everybody", f"group{i}"): stated[n] for n in each}
    declare = card.sends if way == "up" else card.receives
    assert stated == declare(MODEL, hyper)


def test_all_kinds_are_described() -> None:
    table = rows(part_of_page("A tensor is of one of six kinds", "\nA Sliced"))
    assert [row[0] for row in table] == [kind.__name__ for kind in get_args(Part)]
    cards = [METHODS[name] for name, _, _ in stated_methods()]
    ours = [(card, card.hyperparameters()) for card in cards]
    declared = [d for c, h in ours for d in (c.sends(MODEL, h), c.receives(MODEL, h))]
    used = {one.kind.__name__ for tensors in declared for one in tensors.values()}
    assert "No method of the table below sends Sliced;" in DOCUMENT
    assert used == {"Dense", "Rows", "Bits", "Elements", "Whole"}


# What a receiver knows, and what all begin with.


def test_the_limit_is_as_stated() -> None:
    words = part_of_page("message-limit`); otherwise, in bytes, it", ";\n")
    base, name, numbers, axis, for_bits, instead = map(int, re.findall(r"\b\d+", words))
    assert "`length of name +" in words and "* numbers +" in words and "* leading axis`" in words
    assert instead == numbers
    card = METHODS["fedsub"]
    for declared in (card.sends(MODEL, card.hyperparameters()), parameters(MODEL, None), {}):
        stated = base
        for key, one in declared.items():
            factor = for_bits if one.kind is Bits else numbers
            stated += len(key) + name + factor * int(np.prod(one.shape)) + axis * one.shape[0]
        assert Envelope("ann", 1, declared).most_bytes == stated
        assert stated == base + most_bytes(declared)
    assert f"`largest-number` ({WireSettings().largest:g})".replace("e+0", "e") in DOCUMENT


def test_models_are_as_stated() -> None:
    text = part_of_page("- **the model**", "\n- ")
    features, others = text.replace("\n ", "").split("`cnn1d`")
    windows, linear = others.split("`linear`:")
    stated = [(mlp(4, 3), features), (cnn1d(3, 64, 5), windows)]
    for model, words in [*stated, (build_model("linear", (9,), 3), linear)]:
        hidden = [x for x in model.affine if isinstance(x, Linear)][:-1]
        for layer in hidden:
            assert f"`{layer.name}` of {layer.units}" in words
        assert f"`{model.affine[-1].name}` of one a class" in words
        convolutions = [x for x in model.affine if isinstance(x, Conv)]
        for conv in convolutions:
            said = f"{conv.units} channels, kernel {conv.kernel[0]}, "
            said += f"stride {conv.stride[0]}, " * (conv.stride[0] > 1)
            assert f"`{conv.name}` ({said}padding {conv.padding[0]})" in words
        for pool in (x for x in model.layers if isinstance(x, Pool)):
            name = {"max": "max-pool", "adaptive-avg": "adaptive mean-pool to"}[pool.kind]
            assert f"{name} {pool.size[0]}" in words
        named = re.findall(r"`((?:conv|linear)\d)`", words)
        assert named == [layer.name for layer in model.affine]


@pytest.mark.parametrize("model", [mlp(4, 3), cnn1d(3, 64, 5)], ids=["mlp", "cnn1d"])
@pytest.mark.parametrize("seed", [0, 7, 2**40])
def test_the_first_weights_are_drawn_as_stated(model: Model, seed: int) -> None:
    digest = hashlib.blake2b(f"{seed}\x1f\x1f0\x1fmodel".encode(), digest_size=8).digest()
    s = int.from_bytes(digest, "little") >> 1
    stream = np.random.RandomState(s & 0xFFFFFFFF)
    ours = model.init(1, seed)
    for layer in model.affine:
        b = np.float32(1 / sqrt(layer.fan_in))
        for name, shape in (("weight", layer.weight_shape), ("bias", (layer.units,))):
            r = stream.randint(0, 2**32, size=int(np.prod(shape)), dtype=np.uint32)
            u = (r % 2**24).astype(np.float32) / np.float32(2**24)
            wanted = ((2 * u - 1) * b).reshape(shape)
            np.testing.assert_array_equal(ours[f"{layer.name}.{name}"][0].numpy(), wanted)
