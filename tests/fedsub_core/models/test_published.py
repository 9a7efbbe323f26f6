"""Models of papers have as many numbers as they should, and train."""

import pytest
import torch

from fedsub_core.data.samples import Tokens
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


@pytest.mark.parametrize("kind", ["lstm"])
def test_a_published_model_trains(kind: str) -> None:
    _, shape, classes, *_ = next(one for one in SIZES if one[0] == kind)
    check_trains(kind, shape, classes)


def check_trains(kind: str, shape: tuple[int, ...], classes: int) -> None:
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
    for kind, words in (("lstm", "wants windows"),):
        with pytest.raises(ConfigError, match=words):
            build_model(kind, (4,), 3)
    for kind in ("mlp", "linear", "cnn1d"):
        with pytest.raises(ConfigError, match=f"'{kind}' takes numbers, got .* token ids below 9"):
            build_model(kind, Tokens((4,), 9, 0), 3)
