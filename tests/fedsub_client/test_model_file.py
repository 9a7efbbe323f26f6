"""A model's file says itself how to use it; what is damaged or of another kind is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from fedsub.testing.refusals import refused
from fedsub_client.checksum import checksum
from fedsub_client.loaded_model import check_usable, load_model
from fedsub_client.methods.fedsub_gated.mixture import Mixture
from fedsub_client.model_file import (
    FACTS,
    FEATURE_MEAN,
    FEATURE_STD,
    MEAN,
    STD,
    facts,
    is_model_file,
    model_bytes,
    model_of,
)
from fedsub_client.personal_model import PersonalModel
from fedsub_core.data.card import Card
from fedsub_core.data.sensors import Windows
from fedsub_core.data.standardise import Scaling, apply
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.standardised import of_person
from fedsub_core.errors import RunError
from fedsub_core.methods import table
from fedsub_core.methods.table import METHODS
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.models.layers import Conv, Flatten, Linear, Pool, ReLU

CARD = Card("toy", "test", ("a", "ß"), ("u", "v"), "m/s^2", 50.0, 2.0, 0.5, True)
SCALING = Scaling(np.array([20, -3], np.float32), np.array([4, 0.5], np.float32))
IMAGE = Chain(
    (
        Conv("first", 3, 2, (3, 2), (1, 2), (1, 0)),
        Pool("max", (2, 2), (1, 1), (1, 1)),
        ReLU(),
        Pool("avg", (2, 1)),
        Pool("adaptive-avg", (2, 2)),
        Flatten(),
        Linear("last", 2, 12),
    ),
    (2, 9, 8),
)
CHAINS = {"mlp": mlp(2, 2, (5,)), "cnn1d": cnn1d(2, 40, 2), "an installed one": IMAGE}
WINDOWS = Windows((2, 40), ((0, 1),))


def model(kind: str = "mlp", scaling: Scaling | None = SCALING) -> PersonalModel:
    chain = CHAINS[kind]
    params = {name: tensor[0] for name, tensor in chain.init(1, seed=7).items()}
    return PersonalModel("p", "fedsub", 4, params, chain, kind, CARD, scaling)


@pytest.mark.parametrize("scaling", [SCALING, None])
@pytest.mark.parametrize("kind", CHAINS)
def test_the_file_alone_suffices(kind: str, scaling: Scaling | None, tmp_path: Path) -> None:
    """Even where the package that brought the kind of model is not installed."""
    before, file = model(kind, scaling), tmp_path / "model.safetensors"
    file.write_bytes(model_bytes(before))
    after = load_model(file)
    assert facts(after) == facts(before) and after.architecture == before.architecture
    x = np.random.default_rng(0).normal(size=(9, *before.shape))
    x = (x.swapaxes(1, -1) * SCALING.std + SCALING.mean).swapaxes(1, -1)
    found = after.probabilities(x)
    assert np.array_equal(found, before.probabilities(x)) and np.ptp(found) > 0.01
    assert model_bytes(after) == file.read_bytes()


def test_an_older_release_reads_the_file_where_overlap_is_unknown() -> None:
    """It knows numbers alone, and of one person's model it is no matter."""
    told = facts(replace(model(), card=replace(CARD, overlap=None)))
    assert "overlap" not in told and "overlap" in facts(model())
    assert model_of(model_bytes(replace(model(), card=replace(CARD, overlap=None)))).client == "p"


@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("kernels:4", (2, 40)),
        ("kernels:4+statistics", WINDOWS),
        ("relu:9", (2,)),
        ("ranks:9", (2,)),
    ],
)
def test_an_encoder_is_in_the_file(text: str, shape: tuple[int, ...], standardised: bool) -> None:
    """With what its features are standardised with; files of before that are read, too."""
    encoder = build_encoder(text, 2**62 + 1, shape)
    assert encoder is not None
    some = np.random.default_rng(1).standard_normal((7, *shape), np.float32)
    encoder = of_person(encoder, some, None)
    chain = mlp(encoder.features, 2, (5,))
    params = {name: tensor[0] for name, tensor in chain.init(1, seed=7).items()}
    spread = np.linspace(0.1, 2, encoder.features, dtype=np.float32)
    own = Scaling(-spread, spread) if standardised else None
    scaling = replace(SCALING, features=own)
    before = replace(model(), params=params, architecture=chain, encoder=encoder, scaling=scaling)
    before = replace(before, stay_s=12.5)
    after = model_of(model_bytes(before))
    assert after.stay_s == 12.5
    check_usable(after, "here")
    assert after.encoder == encoder and after.shape == shape == before.shape
    told = facts(before)
    plain = f"encode((x - {MEAN}) / {STD})"
    if standardised:
        plain = f"({plain} - {FEATURE_MEAN}) / {FEATURE_STD}"
    assert (told["format"], told["encoder"], told["shape"]) == ("fedsub-model 7", text, shape)
    assert f"layers({plain})" in told["computes"]
    assert after.scaling is not None and after.scaling.bits == scaling.bits
    x = np.random.default_rng(0).standard_normal((9, *shape), np.float32)
    x = (x.swapaxes(1, -1) * SCALING.std + SCALING.mean).swapaxes(1, -1)
    found = after.probabilities(x)
    features = encoder.encode(apply(SCALING, x))
    seen = torch.from_numpy(features if own is None else (features - own.mean) / own.std)[None]
    with torch.inference_mode():
        logits = chain.forward({n: t[None] for n, t in params.items()}, seen)[0]
    assert np.array_equal(found, logits.softmax(1).numpy()) and np.ptp(found) > 0.01
    assert np.array_equal(found, before.probabilities(x))


def test_features_of_another_number_or_not_finite_are_not_used() -> None:
    encoder = build_encoder("relu:3", 0, (2,))
    chain = mlp(5, 2, (4,))
    params = {name: tensor[0] for name, tensor in chain.init(1, seed=7).items()}
    like = replace(model(), params=params, architecture=chain, encoder=encoder)
    four, ones = np.ones(4, np.float32), np.ones(5, np.float32)
    for own, words in (
        (Scaling(four, four), rf"got parameters .*{FEATURE_MEAN}.*\(4,\).*expected"),
        (Scaling(ones * np.float32(np.nan), ones), f"{FEATURE_MEAN}: got numbers that are not fin"),
    ):
        with pytest.raises(RunError, match=words):
            check_usable(replace(like, scaling=replace(SCALING, features=own)), "here")


def test_every_flipped_bit_is_noticed() -> None:
    whole = model_bytes(model())
    stream = np.random.default_rng(0)
    for i in stream.choice(8 * len(whole), 2000, replace=False):
        data = bytearray(whole)
        data[i // 8] ^= 1 << (i % 8)
        try:
            found = model_of(bytes(data))
        except RunError:
            continue
        # Another way to write the same, such as a capital in an escape.
        assert model_bytes(found) == whole, i


def rewritten(**changes: Any) -> bytes:
    """Return the file with other facts and a right checksum: another program's file."""
    tensors, told = load_tensors(model_bytes(model())), facts(model()) | changes
    told["digest"] = checksum(tensors, json.dumps(told)).hex()
    return save_tensors(tensors, {FACTS: json.dumps(told)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"format": "fedsub-model 1"},
            "written as 'fedsub-model 1', expected one of 'fedsub-model 2', ",
        ),
        ({"layers": [{"type": "GRU", "name": "g"}]}, "got layer .*GRU.*Use the version that wrote"),
        ({"classes": ["a"]}, "damaged .*at least 2 names"),
        ({"shape": 3}, "damaged"),
    ],
)
def test_what_is_not_known_is_not_guessed(changes: dict[str, Any], words: str) -> None:
    assert model_bytes(model()) == rewritten()
    with pytest.raises(RunError, match=words):
        model_of(rewritten(**changes))


def of_before(before: PersonalModel, format: int, **changes: Any) -> bytes:
    """Return the file as it was written before format 6."""
    tensors, told = load_tensors(model_bytes(before)), facts(before)
    del told["predictor"]
    told |= {"format": f"fedsub-model {format}", "experts": [], "lacks": ""} | changes
    told["digest"] = checksum(tensors, json.dumps(told)).hex()
    return save_tensors(tensors, {FACTS: json.dumps(told)})


def test_files_of_before_are_read() -> None:
    plain = model()
    for format in (2, 3, 4, 5):
        found = model_of(of_before(plain, format))
        check_usable(found, "here")
        assert model_bytes(found) == model_bytes(plain)
    mixed = Mixture(CHAINS["mlp"], ("local", "fused"))
    params = {name: torch.full(shape, 0.5) for name, shape in mixed.tensor_shapes.items()}
    gated = replace(plain, method="fedsub-gated", params=params, described=mixed.describe())
    found = model_of(of_before(gated, 2, experts=["local", "fused"]))
    check_usable(found, "here")
    assert found.predictor == mixed
    # Not all that it was tested with was in the file.
    nearest = model_of(of_before(replace(plain, method="fedproto"), 2, lacks="the prototypes"))
    with refused(RunError, got="parameters", expected="'nearest.prototypes': (2,"):
        check_usable(nearest, "here")


def test_a_predictor_of_a_method_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = model_bytes(replace(model(), method="fedsub-gated", described={"experts": ["local"]}))
    # Of a copy: a card that is deleted and put back stands at the table's end ever after.
    others = {name: card for name, card in METHODS.items() if name != "fedsub-gated"}
    monkeypatch.setattr(table, "METHODS", others)
    found = model_of(data)
    assert found.described == {"experts": ["local"]}
    with pytest.raises(RunError, match="here: unknown method 'fedsub-gated'"):
        check_usable(found, "here")


def test_parameters_alone_are_no_model(tmp_path: Path) -> None:
    """As simulations wrote them once: what they are standardised with cannot be known."""
    file = tmp_path / "01.safetensors"
    file.write_bytes(save_tensors(model().params))
    assert not is_model_file(file.read_bytes())
    with pytest.raises(RunError, match="tensors alone, without a checksum and facts"):
        load_model(file)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"linear2.bias": torch.full((2,), torch.nan)}, "linear2.bias: got numbers that are not"),
        (
            {"linear2.bias": torch.zeros(3)},
            r"'linear2.bias': \(3,\).*expected .*bias': \(2,",
        ),
    ],
)
def test_what_cannot_compute_is_refused(
    params: dict[str, torch.Tensor], words: str, tmp_path: Path
) -> None:
    broken = replace(model(), params=model().params | params)
    (tmp_path / "m.safetensors").write_bytes(model_bytes(broken))
    with pytest.raises(RunError, match=words):
        load_model(tmp_path / "m.safetensors")
