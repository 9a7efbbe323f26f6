"""Layers of the papers' models."""

from fedsub_papers.models.images import mobilenet_v2, resnet18
from fedsub_papers.tests.again import again
from tests.fedsub_core.models import test_module_layers as house

test_all_that_is_trained_of_these_is_some_units_once = again(
    house.test_all_that_is_trained_of_these_is_some_units_once,
    ("build", "shape"),
    [(build, (3, 32, 32)) for build in (resnet18, mobilenet_v2)],
)
