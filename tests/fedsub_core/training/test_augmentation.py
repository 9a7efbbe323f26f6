"""Augmentation: what each change keeps, whose randomness it is, and what is refused."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch

from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import build_model
from fedsub_core.training import CE, Gradient, Turn, train
from fedsub_core.training.augmentation import (
    CHANGES,
    channel_drop,
    check_augment,
    jitter,
    rotate,
    scale,
    time_warp,
)
from fedsub_core.training.passes import Passes, each_batch
from fedsub_core.training.precision import mixed

MODEL = build_model("cnn1d", (3, 32), 2)
TURN = Turn(2, 9, 7)
FIRST = next(iter(MODEL.tensor_shapes))
PLAIN = {"lr": 0.1, "batch_size": 4, "epochs": 2}


def own(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def stack(counts: tuple[int, ...] = (9, 5)) -> Stack:
    x = torch.randn(len(counts), max(counts), 3, 32, generator=own(3))
    y = torch.randint(0, 2, (len(counts), max(counts)), generator=own(4))
    return Stack(tuple("ab"[: len(counts)]), x, y, counts)


def test_changes_keep_what_they_should() -> None:
    x = torch.randn(200, 6, 32, generator=own(1))
    for change in CHANGES.values():
        assert change(x, own()).shape == x.shape and torch.equal(change(x, own()), change(x, own()))
        assert not torch.equal(change(x, own(1)), change(x, own(2)))
    assert (jitter(x, own(), 0.3) - x).std().item() == pytest.approx(0.3, rel=0.02)
    factor = scale(x, own(), 0.2) / x
    assert factor.std(2).max() < 1e-3 and factor[:, :, 0].std().item() == pytest.approx(
        0.2, rel=0.1
    )
    turned = rotate(x, own())
    for axes in (slice(0, 3), slice(3, 6)):  # lengths of the vectors, and angles between moments
        torch.testing.assert_close(turned[:, axes].norm(dim=1), x[:, axes].norm(dim=1))
    mean = rotate(torch.ones(2000, 3, 1), own()).mean(0)
    assert mean.abs().max() < 0.1, "no direction is likelier"
    dropped = channel_drop(x, own(), 0.25)
    zero = (dropped == 0).all(2)
    assert zero.float().mean().item() == pytest.approx(0.25, abs=0.03)
    torch.testing.assert_close(dropped[~zero], x[~zero])
    ramp = torch.linspace(0, 1, 32).expand(50, 1, 32)
    warped = time_warp(ramp, own())
    assert (warped.diff(dim=2) >= -1e-6).all(), "time never runs backwards"
    torch.testing.assert_close(warped[:, :, [0, -1]], ramp[:, :, [0, -1]])
    assert (warped - ramp).abs().max() > 0.05
    torch.testing.assert_close(time_warp(x, own(), sigma=0), x, atol=1e-4, rtol=1e-4)


def test_what_a_client_trains_on_follows_from_itself_alone() -> None:
    data = stack()
    how = TrainingSettings(augment="jitter(0.5),rotate,time-warp", **PLAIN)  # type: ignore[arg-type]
    start = MODEL.init(2, 3)
    both = train(MODEL, start, data, TURN, how).params
    alone = train(MODEL, MODEL.init(1, 3), data.select([1]), TURN, how).params
    plain = train(MODEL, start, data, TURN, TrainingSettings(**PLAIN)).params  # type: ignore[arg-type]
    for name, tensor in alone.items():
        torch.testing.assert_close(both[name][1], tensor[0], atol=1e-6, rtol=1e-5)
        assert not torch.allclose(both[name][1], plain[name][1], atol=1e-4)
    again = train(MODEL, start, data, TURN, how).params
    assert all(torch.equal(again[name], tensor) for name, tensor in both.items())
    other = train(MODEL, start, data, Turn(3, 9, 7), how).params
    assert not torch.allclose(other[FIRST], both[FIRST])


def test_samples_are_drawn_anew_in_each_step_and_stay_as_they_are() -> None:
    data, seen = stack((4,)), []
    kept = data.x.clone()

    def step(params: Any, batches: Any) -> Any:
        seen.append(batches[0].x.clone())
        return Gradient(MODEL, CE).value(params, batches[0])[1]

    passes = Passes(3, 4, augment="scale(sigma=0)")
    each_batch(MODEL.init(1, 3), data, TURN, step, passes)
    assert all(torch.equal(one.sort(1).values, kept.sort(1).values) for one in seen)
    seen.clear()
    each_batch(MODEL.init(1, 3), data, TURN, step, Passes(3, 4, augment="jitter"))
    noise = [one.sum().item() for one in seen]
    assert len(set(noise)) == 3 and torch.equal(data.x, kept)


def test_a_frozen_body_sees_changed_samples_in_every_epoch() -> None:
    how = TrainingSettings(augment="jitter(2.0)", **PLAIN)  # type: ignore[arg-type]
    head = MODEL.head()
    start = MODEL.init(2, 3)
    changed = train(MODEL, start, stack(), TURN, how, only=head).params
    plain = train(MODEL, start, stack(), TURN, TrainingSettings(**PLAIN), only=head).params  # type: ignore[arg-type]
    name = f"{head[0]}.weight"
    assert not torch.allclose(changed[name], plain[name], atol=1e-3)


@pytest.fixture
def given() -> Any:
    """A module of changes, as a package has them."""
    module = ModuleType("changes_of_a_test")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, g: x[:, :1], "got float32 [2, 1, 32], expected finite numbers"),
        (lambda x, g: x[:1], "got float32 [1, 3, 32]"),
        (lambda x, g: x.double(), "got float64 [2, 3, 32]"),
        (lambda x, g: x / 0, "got numbers that are not finite"),
        (lambda x, g: None, "got a NoneType"),
        (lambda x: x, "got TypeError"),
    ],
)
def test_what_changes_shape_or_type_is_refused(given: Any, function: Any, expected: str) -> None:
    given.wrong = function
    with pytest.raises(ConfigError) as error:
        check_augment("changes_of_a_test:wrong", (3, 32))
    assert expected in str(error.value) and "tried on samples [3, 32]" in str(error.value)


def test_a_change_that_fails_later_names_client_and_round(given: Any) -> None:
    given.late = lambda x, g: x if len(x) > 1 else x.squeeze(0)
    how = TrainingSettings(augment="changes_of_a_test:late", **PLAIN)  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match=r"client '[ab]', round 2: got float32 \[3, 32\], expected"
    ):
        train(MODEL, MODEL.init(2, 3), stack(), TURN, how)


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("rotate", (4, 32), "rotate: got 4 channels, expected a multiple of 3"),
        ("rotate", (561,), "rotate: got samples of shape [561], expected windows"),
        ("time-warp", (3, 8, 8), "time-warp: got samples of shape [3, 8, 8]"),
        ("jiter", (3, 32), "Did you mean 'jitter'?"),
        ("jitter(sigm=2)", (3, 32), "Did you mean 'sigma'?"),
    ],
)
def test_changes_that_do_not_fit_samples_are_refused(
    text: str, shape: tuple[int, ...], expected: str
) -> None:
    with pytest.raises(ConfigError) as error:
        check_augment(text, shape)
    assert expected in str(error.value)


def test_mixed_precision_is_a_gpus_alone() -> None:
    how = TrainingSettings(precision="bfloat16", **PLAIN)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="precision: got bfloat16 on cpu, expected a GPU"):
        train(MODEL, MODEL.init(2, 3), stack(), TURN, how)
    with pytest.raises(ConfigError, match="expected a GPU"):
        mixed("bfloat16", torch.device("cpu"))
