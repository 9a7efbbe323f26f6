"""docs/wire-format.md says what the code does: methods' tensors, models, first weights, limits."""

import hashlib
import re
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.report.wire_table import BEGIN, END, renew_page, wire_table
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError
from fedsub_core.method_parts.layers import HeadHyperparameters, body
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import HOUSE, METHODS
from fedsub_core.models.architecture import Architecture
from fedsub_core.models.chain import Chain, require_chain
from fedsub_core.models.kinds import build_model, cnn1d, mlp
from fedsub_core.models.layers import Conv, Linear, Pool
from fedsub_core.wire.bundles import Declaration, Declared, Kind, dense, most_bytes
from fedsub_core.wire.bundles import rows as part_rows
from fedsub_core.wire.encoding import WireSettings
from fedsub_core.wire.envelope import Envelope

from .wire_format_page import DOCUMENT, code, part_of_page, rows

MODEL = mlp(6, 4, hidden=(5, 3))


def parameters(model: Chain, hyper: Any) -> Declaration:
    return {name: dense(shape) for name, shape in model.parameter_shapes.items()}


def test_the_table_is_what_the_cards_declare() -> None:
    found = part_of_page(BEGIN, END)
    if not found.startswith(wire_table(HOUSE.values())):
        pytest.fail(
            "its table is not the cards'; renew it: fedsub methods --wire docs/wire-format.md"
        )
    assert {name for row in rows(found) for name in code(row[0])} >= HOUSE.keys()


def test_a_page_is_renewed_between_its_marks_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}an old table\n{END}behind\n", "utf-8")
    renew_page(page, {"": [METHODS["local"]]})
    expected = f"before\n{BEGIN}{wire_table([METHODS['local']])}{END}behind\n"
    assert page.read_text("utf-8") == expected
    page.write_text("another page\n", "utf-8")
    with refused(ConfigError, got="table", expected="docs/wire-format.md"):
        renew_page(page, {"": [METHODS["local"]]})


def declared(model: Architecture, hyper: Any) -> Declaration:
    """Declare a tensor of every kind of name and shape that a row can tell."""
    return {
        **body(model, hyper),
        "peer0.linear1.weight": dense(model.parameter_shapes["linear1.weight"], optional=True),
        **{f"{layer.name}.sums": dense((layer.units, 3)) for layer in model.affine},
        "centres": part_rows((model.classes, model.embedding_size), optional=True),
        "share": dense((model.affine[0].fan_in, model.full_bytes), exact=True),
    }


def test_a_row_tells_names_kinds_and_shapes() -> None:
    card = MethodCard("m", "i", "p", "l", "s", HeadHyperparameters, sends=declared)
    (row,) = rows(wire_table([card]))
    assert row[1].split("; ") == [
        "`<parameter>` of the body (Dense)",
        "`peer<k>.<parameter>` of linear1.weight (Dense, optional)",
        "`<layer>.sums` (Dense, `[units, 3]`)",
        "`centres` (Rows, optional, `[classes, d]`)",
        "`share` (Dense, exact, `[features, ...]`)",
    ]
    assert row[2:] == ["`<parameter>` (Dense)", "`training_loss`"]


@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize(("prototype", "d"), [("input", 6), ("embedding", 3)])
@pytest.mark.parametrize("depth", [0, 1])
def test_fedsub_declares_what_its_table_says(way: str, prototype: str, d: int, depth: int) -> None:
    card = METHODS["fedsub"]
    hyper = card.hyperparameters(prototype=prototype, depth=depth)
    stated: dict[str, Declared] = {}
    kinds = {kind.value: kind for kind in Kind}
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
    sizes = {"triangle": 7 * 8 // 2, "D + 1": 7, "D + 2": 8, "classes": 4, "classes + 1": 5}
    sizes["equations"] = count * (count + 1) // 2 + count + 14
    kinds = {kind.value: kind for kind in Kind}
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
    assert [row[0] for row in table] == [kind.value for kind in Kind]


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
            factor = for_bits if one.kind is Kind.BITS else numbers
            stated += len(key) + name + factor * int(np.prod(one.shape)) + axis * one.shape[0]
        assert Envelope("ann", 1, declared).most_bytes == stated
        assert stated == base + most_bytes(declared)
    assert f"`largest-number` ({WireSettings().largest:g})".replace("e+0", "e") in DOCUMENT


def test_models_are_as_stated() -> None:
    text = part_of_page("- **the model**", "\n- ")
    features, others = text.replace("\n ", "").split("`cnn1d`")
    windows, linear = others.split("`linear`:")
    stated = [(mlp(4, 3), features), (cnn1d(3, 64, 5), windows)]
    for model, words in [*stated, (require_chain(build_model("linear", (9,), 3)), linear)]:
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
def test_the_first_weights_are_drawn_as_stated(model: Chain, seed: int) -> None:
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
