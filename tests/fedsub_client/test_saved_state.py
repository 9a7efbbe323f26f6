"""A device's state as bytes: what goes in comes out, and damage never goes unnoticed."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from fedsub_client import saved_state as module
from fedsub_client.checksum import checksum
from fedsub_client.file_history import FileHistory
from fedsub_client.personal_model import PersonalModel
from fedsub_client.saved_state import LAYOUT, Saved
from fedsub_core.data.card import Card
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import OtherRelease, RunError
from fedsub_core.models.kinds import mlp
from fedsub_core.version import VERSION

CARD = Card("toy", "test", ("a", "b"), ("ü", "v"), "m/s^2", 50.0, 2.0, 0.5, True)
SCALING = Scaling(np.array([0.5, -2], np.float32), np.array([1, 3], np.float32))
FILE = FileHistory((40, 60), bytes(range(16)))
REPORT = {"training_loss": 0.1 + 0.2, "epsilon": 1e-300}


def model(scaling: Scaling | None = SCALING) -> PersonalModel:
    stream = torch.Generator().manual_seed(1)
    params = {
        "linear1.weight": torch.randn(4, 2, generator=stream),
        "linear1.bias": torch.randn(4, generator=stream),
    }
    return PersonalModel("p", "fedsub", 3, params, mlp(2, 4, ()), "mlp", CARD, scaling)


@cache
def example() -> Saved:
    state = {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(2**62)}
    return Saved("p", "run", "fedsub", 3, FILE, state, b"the reply", REPORT, model())


def assert_same(one: Saved, other: Saved) -> None:
    facts = [replace(s, state={}, model=None) for s in (one, other)]
    assert facts[0] == facts[1]
    assert_same_tensors(one.state, other.state)
    assert (one.model is None) == (other.model is None)
    if one.model is None or other.model is None:
        return
    assert_same_tensors(one.model.params, other.model.params)
    plain = [vars(replace(m, params={}, scaling=None)) for m in (one.model, other.model)]
    assert plain[0] == plain[1]
    assert (one.model.scaling is None) == (other.model.scaling is None)
    if one.model.scaling is not None and other.model.scaling is not None:
        for name in ("mean", "std"):
            mine, theirs = getattr(one.model.scaling, name), getattr(other.model.scaling, name)
            assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)


def assert_same_tensors(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.dtype == other[name].dtype
        assert torch.equal(tensor, other[name]), name


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"state": {}, "reply": b"", "report": {}, "model": None, "round": 0, "run": ""},
        {"model": model(None)},
        {"client": "p-1_x.Y", "run": "läuft\n\0", "file": FileHistory((1,), b"")},
        {"reply": bytes(range(256)) * 100, "round": 2**40},
        {"report": {"training_loss": 3.0, "ü": -0.0}},
    ],
)
def test_what_goes_in_comes_out(change: dict[str, Any]) -> None:
    before = replace(example(), **change)
    after = Saved.of_bytes(before.to_bytes())
    assert_same(before, after)
    assert after.to_bytes() == before.to_bytes()


def test_tensors_of_every_kind() -> None:
    whole = torch.randn(3, 4)
    odd = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    state = {
        "half": torch.randn(2).bfloat16(),
        "double": torch.randn(2, dtype=torch.float64),
        "flags": torch.tensor([True, False]),
        "small": torch.tensor([-128, 127], dtype=torch.int8),
        "none": torch.zeros(0, 3),
        "scalar": torch.tensor(7),
        "column": whole[:, 1],
        "turned": whole.T,
        "wire.round": torch.tensor(3),
        "state/nested": torch.ones(1),
    }
    after = Saved.of_bytes(replace(example(), state=state).to_bytes()).state
    assert_same_tensors({name: t.contiguous() for name, t in state.items()}, after)
    kept = Saved.of_bytes(replace(example(), state={"odd": odd}).to_bytes()).state["odd"]
    assert torch.equal(kept.view(torch.int32), odd.view(torch.int32))


def test_a_model_may_be_the_learners_own_tensors() -> None:
    whole = example()
    assert whole.model is not None
    shared = replace(whole, state=dict(whole.model.params))
    after = Saved.of_bytes(shared.to_bytes())
    assert after.model is not None
    assert_same_tensors(after.state, after.model.params)


def test_the_bytes_are_the_same_whenever_they_are_written() -> None:
    assert example().to_bytes() == replace(example()).to_bytes()


def read(data: bytes) -> Saved | None:
    """Return what is read, None where the damage is noticed."""
    try:
        return Saved.of_bytes(data)
    except RunError as error:
        assert str(error).startswith("damaged (")
        return None


def assert_noticed(data: bytes) -> None:
    """What is read in spite of a change is all that was written: a blank in the header, say."""
    found = read(data)
    if found is not None:
        assert_same(found, example())


def test_every_flipped_bit_is_noticed() -> None:
    whole = example().to_bytes()
    for i in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[i] ^= 1 << bit
            assert read(bytes(data)) is None, (i, bit)


def test_every_truncation_is_noticed() -> None:
    whole = example().to_bytes()
    for length in range(len(whole)):
        assert read(whole[:length]) is None, length
        assert_noticed(whole[:length] + bytes(len(whole) - length))  # as power loss leaves it
    assert read(whole + b"\0") is None and read(whole + whole) is None


@given(st.data())
def test_any_damage_is_noticed(data: Any) -> None:
    whole = bytearray(example().to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(whole)))
        stop = data.draw(st.integers(start, min(start + 600, len(whole))))
        whole[start:stop] = data.draw(
            st.one_of(st.binary(max_size=20), st.just(bytes(stop - start)))
        )
    if bytes(whole) != example().to_bytes():
        assert_noticed(bytes(whole))


@given(st.binary(max_size=400))
def test_what_is_no_state_is_refused(data: bytes) -> None:
    assert read(data) is None
    assert read(len(data).to_bytes(8, "little") + data) is None


def test_two_states_mixed_are_noticed() -> None:
    """A file of old and new blocks, all of them whole."""
    old = example().to_bytes()
    new = replace(example(), round=4, reply=b"ylper eht").to_bytes()
    assert len(old) == len(new)
    for cut in range(1, len(old)):
        mixed = old[:cut] + new[cut:]
        assert mixed in (old, new) or read(mixed) is None


def rewritten(change: Any) -> bytes:
    """Return the example with other facts and a right checksum: another program's file."""
    tensors = load_tensors(example().to_bytes())
    facts = json.loads(bytes(tensors["facts"].numpy()))
    change(facts, tensors)
    tensors["facts"] = module._tensor(json.dumps(facts).encode())
    del tensors["digest"]
    tensors["digest"] = module._tensor(checksum(tensors))
    return save_tensors(tensors)


def test_another_layout_is_not_guessed() -> None:
    data = rewritten(lambda facts, _: facts.update(layout=LAYOUT + 1, client=None))
    said = rf"^written in layout {LAYOUT + 1} by fedsub {VERSION}, expected {LAYOUT} as fedsub "
    with pytest.raises(OtherRelease, match=said):
        Saved.of_bytes(data)
    assert_same(Saved.of_bytes(rewritten(lambda *_: None)), example())


@pytest.mark.parametrize(
    "change",
    [
        lambda facts, _: facts.pop("layout"),
        lambda facts, _: facts.pop("run"),
        lambda facts, _: facts.pop("report"),
        lambda facts, _: facts.update(sizes=3),
        lambda facts, _: facts.update(digest="zz"),
        lambda _, tensors: tensors.pop("reply"),
        lambda _, tensors: tensors.update(model=tensors["model"][:-1].clone()),
    ],
)
def test_facts_that_cannot_be_used_are_damage(change: Any) -> None:
    assert read(rewritten(change)) is None
