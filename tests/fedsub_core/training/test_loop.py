"""Local SGD on a stack equals PyTorch's SGD on each client alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedsub_core.data.stacks import Stack, stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Model, build_model, cnn1d, mlp
from fedsub_core.models.layers import Conv, Flatten, Layer, Linear, Pool, ReLU
from fedsub_core.seeds import generator
from fedsub_core.training.loop import TrainingSettings, train

IMAGE = Model(
    (
        Conv("conv1", 5, 2, (3, 2), (2, 1), (1, 0)),
        ReLU(),
        Pool("avg", (2, 2)),
        Flatten(),
        Linear("linear1", 3, 5 * 2 * 3),
    ),
    (2, 7, 8),
)
MODELS = [mlp(3, 6), cnn1d(2, 40, 4), IMAGE]
COUNTS = (5, 100, 33, 64)


def random_stack(model: Model, counts: tuple[int, ...] = COUNTS) -> Stack:
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal((n, *model.input_shape), np.float32) for n in counts]
    ys = [rng.integers(0, model.classes, n) for n in counts]
    return stack([f"c{i}" for i in range(len(counts))], xs, ys)


@pytest.mark.parametrize("model", MODELS)
def test_equals_pytorch_sgd_on_each_client_alone(model: Model) -> None:
    data, params = random_stack(model), model.init(len(COUNTS), seed=3)
    settings = TrainingSettings(epochs=2, seed=3)
    trained = train(model, params, data, settings, round=4)
    for i, count in enumerate(COUNTS):
        own = {name: t[i : i + 1].clone().requires_grad_() for name, t in params.items()}
        sgd = torch.optim.SGD(own.values(), lr=0.005, momentum=0.9)
        for epoch in range(2):
            stream = generator(3, f"c{i}", 4, f"batches of epoch {epoch}")
            for batch in torch.randperm(count, generator=stream).split(32):
                sgd.zero_grad()
                F.cross_entropy(
                    model.forward(own, data.x[i : i + 1, batch])[0], data.y[i, batch]
                ).backward()
                sgd.step()
        for name, tensor in own.items():
            torch.testing.assert_close(trained[name][i], tensor[0].detach(), atol=1e-6, rtol=1e-5)
            assert not torch.equal(trained[name][i], params[name][i]), "nothing was learned"


@pytest.mark.parametrize("model", MODELS)
def test_a_client_trains_alike_whoever_shares_its_stack(model: Model) -> None:
    data, params = random_stack(model), model.init(len(COUNTS), seed=0)
    together = train(model, params, data, TrainingSettings(), round=1)
    for i in range(len(COUNTS)):
        own = {name: tensor[i : i + 1] for name, tensor in params.items()}
        alone = train(model, own, data.select([i]), TrainingSettings(), round=1)
        for name, tensor in alone.items():
            torch.testing.assert_close(tensor[0], together[name][i], atol=1e-6, rtol=0)


def test_leaves_its_input_as_it_is() -> None:
    model = mlp(3, 6)
    params = model.init(2, seed=0)
    before = {name: tensor.clone() for name, tensor in params.items()}
    train(model, params, random_stack(model, (10, 40)), TrainingSettings(), round=1)
    assert all(torch.equal(before[name], params[name]) for name in params)


def test_parameters_of_the_papers_model() -> None:
    assert mlp(3, 6).full_bytes == 4 * 69_638  # 3-128-512-6, FedSub's "Full Model": 272 KiB


def test_clients_start_from_one_model_that_the_seed_decides() -> None:
    params = mlp(3, 6).init(3, seed=5)
    for name, tensor in params.items():
        assert torch.equal(tensor[0], tensor[2])
        assert torch.equal(tensor, mlp(3, 6).init(3, seed=5)[name])
        assert not torch.equal(tensor, mlp(3, 6).init(3, seed=6)[name])


def test_models_refuse_data_they_cannot_take() -> None:
    with pytest.raises(ConfigError, match=r"cnn1d wants windows.*\(18,\)"):
        build_model("cnn1d", (18,), 4)
    with pytest.raises(ConfigError, match="windows of 32 samples or more, got 8"):
        build_model("cnn1d", (3, 8), 4)
    assert isinstance(build_model("mlp", (3, 128), 6).layers[0], Layer)
    assert build_model("auto", (3, 128), 6) == cnn1d(3, 128, 6)
