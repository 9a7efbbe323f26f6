"""Relevance of the papers' models."""

from fedsub_papers.models.images import resnet18
from fedsub_papers.tests.again import again
from tests.fedsub_client.methods.fedsub import test_module_relevance as house

test_agrees_with_zennit = again(
    house.test_agrees_with_zennit, ("build", "shape"), [(resnet18, (3, 8, 8))]
)
