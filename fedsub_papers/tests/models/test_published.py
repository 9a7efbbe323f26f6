"""The papers' models of pictures, texts and graphs: their sizes, and that they train."""

import pytest
import torch

from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import build_model
from fedsub_core.models.names import installed
from fedsub_core.packages import title_of
from fedsub_papers.tests.again import again
from tests.fedsub_core.models import test_published as house

#: Kind, samples, classes, trained numbers, whether it is a chain.
SIZES = [
    ("cnn2d", (1, 8, 8), 10, 38_282, True),
    ("digit5-cnn", (3, 28, 28), 10, 14_219_210, False),
    ("vgg11", (3, 32, 32), 10, 9_225_610, True),
    ("resnet18", (3, 32, 32), 10, 11_173_962, False),
    ("mobilenet-v2", (3, 32, 32), 10, 2_236_682, False),
    ("fasttext", Tokens((48,), 4096, 0), 4, 41_004, False),
    ("gcn", Nodes((1433,)), 7, 100_551, False),
]
test_a_published_model_has_its_number_of_parameters = again(
    house.test_a_published_model_has_its_number_of_parameters,
    ("kind", "shape", "classes", "numbers", "chain"),
    SIZES,
)


def test_every_published_model_is_here() -> None:
    ours = [name for name, point in installed().items() if title_of(point) == "fedsub_papers"]
    assert {kind for kind, *_ in SIZES} == set(ours)


def test_a_published_model_trains() -> None:
    house.check_trains("cnn2d", (1, 8, 8), 10)


def test_samples_of_another_shape_are_refused() -> None:
    for kind, words in (
        ("resnet18", "wants images"),
        ("fasttext", "wants token ids, .* says sample = 'tokens'"),
    ):
        with pytest.raises(ConfigError, match=words):
            build_model(kind, (4,), 3)


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
