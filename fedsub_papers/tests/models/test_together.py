"""The papers' models pass together."""

from fedsub_core.data.samples import Tokens
from fedsub_papers.tests.again import again
from tests.fedsub_core.models import test_together as house

IMAGE = (3, 32, 32)
test_published_models_pass_together_in_tests = again(
    house.test_published_models_pass_together_in_tests,
    ("name", "shape"),
    [
        ("resnet18", IMAGE),
        ("mobilenet-v2", IMAGE),
        ("digit5-cnn", IMAGE),
        ("fasttext", Tokens((12,), 50, 0)),
    ],
)
