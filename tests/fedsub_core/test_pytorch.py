"""NumPy's arrays in the place of PyTorch's tensors: the same numbers by the same functions."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_client.best_so_far import better_of, nothing_yet, used
from fedsub_core.errors import ConfigError
from fedsub_core.evaluation import evaluate
from fedsub_core.extras import lacking
from fedsub_core.models.kinds import build_model
from fedsub_core.pytorch import _Lacking, as_numpy, softmax
from fedsub_core.seeds import Shares, generator


@pytest.mark.parametrize("seed", [0, 3, 2**31, 2**40 + 7])
def test_shares_are_those_of_pytorchs_stream(seed: int) -> None:
    ours, theirs = Shares(seed, "p", 2, "model"), generator(seed, "p", 2, "model")
    for shape in ((3,), (7, 16), (700, 33)):
        assert np.array_equal(ours.draw(shape), torch.rand(shape, generator=theirs).numpy())


def test_a_model_computes_of_arrays_what_it_does_of_tensors(either: str) -> None:
    model = build_model("linear", (50,), 6)
    params, x = model.init(2, 0), np.random.default_rng(1).normal(size=(2, 64, 50))
    of_arrays = {name: tensor.numpy() for name, tensor in params.items()}
    with torch.no_grad():
        logits = model.forward(params, torch.from_numpy(x.astype(np.float32)))
    found = model.forward(of_arrays, x.astype(np.float32))  # type: ignore[arg-type]
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, logits.numpy(), rtol=1e-5, atol=1e-5)
    assert either != "kernels" or np.array_equal(found, logits.numpy())
    np.testing.assert_allclose(softmax(found), logits.softmax(2).numpy(), atol=1e-6)


def test_a_deep_model_computes_of_arrays_by_the_kernels_alone(either: str) -> None:
    model = build_model("mlp", (5,), 3)
    params, x = model.init(1, 0), np.ones((1, 4, 5), np.float32)
    of_arrays: Any = {name: tensor.numpy() for name, tensor in params.items()}
    if either == "kernels":
        with torch.no_grad():
            logits = model.forward(params, torch.from_numpy(x))
        assert np.array_equal(model.forward(of_arrays, x), logits)  # type: ignore[arg-type]
        return
    with refused(ConfigError, "torch", "pip install 'fedsub[train]'"):
        model.forward(of_arrays, x)  # type: ignore[arg-type]


def test_an_evaluation_of_arrays_is_one_of_tensors() -> None:
    stream = np.random.default_rng(2)
    logits = stream.normal(size=(4, 33, 6)).astype(np.float32) * 5
    y, valid = stream.integers(0, 5, (4, 33)), stream.random((4, 33)) < 0.7
    valid[3] = False  # who has no sample
    ours = evaluate(logits, y, valid)  # type: ignore[arg-type]
    theirs = evaluate(*map(torch.from_numpy, (logits, y, valid)))
    some = stream.random((4, 6)) < 0.4
    ours = ours.with_class_mean("some", some)  # type: ignore[arg-type]
    theirs = theirs.with_class_mean("some", torch.from_numpy(some))
    for own, other in zip(ours.clients(), theirs.clients(), strict=True):
        assert own.f1 == other.f1 and own.confusion == other.confusion
        assert own.examples == other.examples and own.class_means == other.class_means
        numbers = ("macro_f1", "weighted_f1", "accuracy", "loss")
        both = [[getattr(one, name) for name in numbers] for one in (own, other)]
        assert both[0] == pytest.approx(both[1], rel=1e-6, nan_ok=True)


def test_the_best_of_arrays_is_the_best_of_tensors() -> None:
    stream = np.random.default_rng(3)
    y, valid = stream.integers(0, 3, (3, 20)), np.ones((3, 20), np.bool_)
    kept, kinds = list[Any](), list[Any]([np.asarray, torch.from_numpy])
    for kind in kinds:
        state = {"model.w": kind(np.zeros((3, 2), np.float32))}
        best = {n: kind(as_numpy(t)) for n, t in nothing_yet(state).items()}
        for round in (1, 2, 3):
            logits = np.random.default_rng(round).normal(size=(3, 20, 3)).astype(np.float32)
            now = {"model.w": kind(np.full((3, 2), round, np.float32))}
            judged = evaluate(kind(logits), kind(y), kind(valid))
            best = better_of(best, now, (judged.macro_f1, judged.loss), round)
        kept.append(as_numpy(used(state | best)["model.w"]))
    assert np.array_equal(*kept) and len(np.unique(kept[0])) > 1


def test_what_needs_pytorch_names_the_extra() -> None:
    with refused(ConfigError, "torch", "pip install 'fedsub[train]'"):
        _Lacking().randn(3)
    assert "fedsub[train]" in str(lacking("this command", "torch"))
