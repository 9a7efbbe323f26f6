"""A chain of layers: sizes, the common start, body and head."""

import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain, Step
from fedsub_core.models.kinds import cnn1d, mlp


def test_parameters_of_the_papers_model() -> None:
    assert mlp(3, 6).full_bytes == 4 * 69_638  # 3-128-512-6, FedSub's "Full Chain": 272 KiB


def test_clients_start_from_one_model_that_the_seed_decides() -> None:
    params = mlp(3, 6).init(3, seed=5)
    for name, tensor in params.items():
        assert torch.equal(tensor[0], tensor[2])
        assert torch.equal(tensor, mlp(3, 6).init(3, seed=5)[name])
        assert not torch.equal(tensor, mlp(3, 6).init(3, seed=6)[name])


def test_body_and_head() -> None:
    model = mlp(3, 6)
    assert (model.body(), model.head()) == (("linear1", "linear2"), ("linear3",))
    assert (model.body(2), model.head(2)) == (("linear1",), ("linear2", "linear3"))
    assert model.parameters_of(model.head()) == ("linear3.weight", "linear3.bias")
    assert cnn1d(3, 128, 6).head(2) == ("linear1", "linear2")
    for layers in (0, 3, -1):
        with refused(ConfigError, "head", got=layers, expected="1 to 2"):
            model.head(layers)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("model", [mlp(3, 6), cnn1d(3, 128, 6)], ids=["mlp", "cnn"])
def test_a_head_on_its_body_is_the_model(model: Chain, layers: int) -> None:
    body, head = model.cut(layers)
    assert tuple(layer.name for layer in head.affine) == model.head(layers)
    assert tuple(layer.name for layer in body.affine) == model.body(layers)
    params, x = model.init(2, seed=0), torch.randn(2, 3, *model.input_shape)
    seen = body.forward(params, x)
    assert seen.shape[2:] == head.input_shape
    assert torch.equal(head.forward(params, seen), model.forward(params, x))


def test_the_embedding_is_what_the_last_layer_sees() -> None:
    for model, size in ((mlp(3, 6), 512), (cnn1d(3, 128, 6), 128)):
        assert model.embedding_size == size
        tape: list[Step] = []
        x = torch.randn(1, 2, *model.input_shape)
        model.forward(model.init(1, seed=0), x, tape)
        assert tape[model.embedding_at].x.shape == (1, 2, size)
