"""Models of papers have as many numbers as they should, and train."""

from __future__ import annotations

import pytest
import torch

from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.data.stacks import stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import build_model
from fedsub_core.models.names import PUBLISHED
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.training import TrainingSettings, Turn, train

#: Kind, samples, classes, trained numbers, whether it is a chain.
SIZES = [
    ("har-cnn", (9, 128), 6, 2_253_958, True),
    ("lstm", (3, 128), 6, 53_222, False),
    ("cnn2d", (1, 8, 8), 10, 38_282, True),
    ("digit5-cnn", (3, 28, 28), 10, 14_219_210, False),
    ("vgg11", (3, 32, 32), 10, 9_225_610, True),
    ("resnet18", (3, 32, 32), 10, 11_173_962, False),
    ("mobilenet-v2", (3, 32, 32), 10, 2_236_682, False),
    ("fasttext", Tokens((48,), 4096, 0), 4, 41_004, False),
    ("gcn", Nodes((1433,)), 7, 100_551, False),
]


def test_every_published_model_is_here() -> None:
    assert {kind for kind, *_ in SIZES} == PUBLISHED.keys()


@pytest.mark.parametrize(("kind", "shape", "classes", "numbers", "chain"), SIZES)
def test_a_published_model_has_its_number_of_parameters(
    kind: str, shape: tuple[int, ...], classes: int, numbers: int, chain: bool
) -> None:
    model = build_model(kind, shape, classes)
    assert isinstance(model, Chain if chain else TorchModel)
    params = model.init(1, seed=0)
    assert sum(params[name].numel() for name in model.trained) == numbers
    assert model.embedding_size > 0 and len(model.layer_names) > 1


@pytest.mark.parametrize("kind", ["lstm", "cnn2d"])
def test_a_published_model_trains(kind: str) -> None:
    _, shape, classes, *_ = next(one for one in SIZES if one[0] == kind)
    model = build_model(kind, shape, classes)
    x, y = torch.randn(24, *shape), torch.arange(24) % 3
    x[..., :4] += y.view(-1, *[1] * len(shape))
    data = stack(["a"], [x.numpy()], [y.numpy()])
    settings = TrainingSettings(epochs=8, lr=0.05, batch_size=8)
    first, last = (
        train(model, model.init(1, 0), data, Turn(1, 1, 0), settings, epochs=n).loss for n in (1, 8)
    )
    assert last < first


def test_samples_of_another_shape_are_refused() -> None:
    for kind, words in (
        ("resnet18", "wants images"),
        ("lstm", "wants windows"),
        ("fasttext", "wants token ids, .* says sample = 'tokens'"),
    ):
        with pytest.raises(ConfigError, match=words):
            build_model(kind, (4,), 3)
    for kind in ("mlp", "linear", "cnn1d"):
        with pytest.raises(ConfigError, match=f"'{kind}' takes numbers, got .* token ids below 9"):
            build_model(kind, Tokens((4,), 9, 0), 3)


def test_padding_counts_nothing() -> None:
    """The mean of the tokens' vectors, and one layer (Joulin et al. 2017)."""
    long, short = (build_model("auto", Tokens((n,), 9, 2), 3) for n in (6, 3))
    params = long.init(1, seed=1)
    assert params["vectors.weight"].abs().max() <= 0.1
    words = torch.tensor([[[4, 2, 7, 2, 2, 2]]]), torch.tensor([[[4, 7, 2]]])
    logits, same = long.forward(params, words[0]), short.forward(params, words[1])
    torch.testing.assert_close(logits, same)
    mean = params["vectors.weight"][0, [4, 7]].mean(0)
    expected = params["last.weight"][0] @ mean + params["last.bias"][0]
    torch.testing.assert_close(logits[0, 0], expected)
    shuffled = words[0][..., [3, 2, 1, 0, 5, 4]]
    torch.testing.assert_close(long.forward(params, shuffled), logits)
