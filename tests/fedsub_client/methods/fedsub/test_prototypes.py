"""Prototypes are class means over real samples; hashes follow the data and nothing else."""

import numpy as np
import pytest
import torch

from fedsub_client.methods.fedsub.prototypes import content_hash, prototype_features, prototypes
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import build_model, mlp

CLASSES = 4


def example(shape: tuple[int, ...] = (3,)) -> Stack:
    rng = np.random.default_rng(2)
    ys = [rng.integers(0, CLASSES, 30), rng.integers(0, 3, 17)]
    xs = [rng.normal(size=(len(y), *shape)).astype(np.float32) for y in ys]
    return stack(["a", "b"], xs, ys)


@pytest.mark.parametrize("shape", [(3,), (2, 5)])
def test_class_means_of_valid_samples(shape: tuple[int, ...]) -> None:
    data = example(shape)
    data.x[1, 17:] = 1e6
    rho, counts = prototypes(data.x, data, CLASSES)
    assert rho.shape == (2, CLASSES, int(np.prod(shape)))
    for u, n in enumerate(data.counts):
        x, y = data.x[u, :n].flatten(1).numpy(), data.y[u, :n].numpy()
        for c in range(CLASSES):
            assert counts[u, c] == (y == c).sum()
            if (y == c).any():
                np.testing.assert_allclose(rho[u, c], x[y == c].mean(0), rtol=1e-5, atol=1e-6)
    assert counts[1, 3] == 0
    assert not rho[1, 3].any()


def test_embedding_is_the_input_of_the_last_layer() -> None:
    data, model = example(), mlp(3, CLASSES, (8, 6))
    params = model.init(2, 0)
    phi = prototype_features(model, params, data, "embedding")
    assert phi.shape == (2, 30, 6)
    last = params["linear3.weight"], params["linear3.bias"]
    logits = phi @ last[0].transpose(1, 2) + last[1].unsqueeze(1)
    torch.testing.assert_close(logits, model.forward(params, data.x))
    assert prototype_features(model, params, data, "input") is data.x
    windows = example((2, 40))
    cnn = build_model("cnn1d", (2, 40), CLASSES)
    assert prototype_features(cnn, cnn.init(2, 0), windows, "embedding").shape == (2, 30, 128)


def test_an_unknown_feature_is_refused() -> None:
    model = mlp(3, CLASSES)
    with pytest.raises(ConfigError, match="pixels"):
        prototype_features(model, model.init(2, 0), example(), "pixels")


def test_the_hash_follows_the_clients_own_data() -> None:
    data = example()
    before = content_hash(data)
    assert before.dtype == torch.int64
    assert before[0] != before[1]
    assert torch.equal(content_hash(data.select([1, 0])), before[[1, 0]])

    assert not (content_hash(data, b"secret") == before).any()

    data.x[1, 17:] += 3  # padding
    assert torch.equal(content_hash(data), before)
    longer = Stack(("b",), data.x[1:, :17], data.y[1:, :17], (17,))
    assert content_hash(longer)[0] == before[1]

    data.y[0, 3] = (data.y[0, 3] + 1) % CLASSES
    assert content_hash(data)[0] != before[0]
    assert content_hash(data)[1] == before[1]
    data.x[1, 0, 0] += 1e-3
    assert content_hash(data)[1] != before[1]


def test_what_a_model_makes_of_padding_does_not_count() -> None:
    """Of a sample of zeros some models make no number; a device alone has no padding."""
    data = stack(["a", "b"], [np.ones((2, 1), np.float32), np.ones((1, 1), np.float32)],
                 [np.array([0, 0]), np.array([0])])  # fmt: skip
    features = data.x / data.x  # 0 / 0 where padded
    rho, counts = prototypes(features, data, 1)
    assert rho.flatten().tolist() == [1.0, 1.0] and counts.flatten().tolist() == [2, 1]
