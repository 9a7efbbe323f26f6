"""What ends a model where the loss expects logits is known, as a layer and as a function."""

from collections.abc import Callable
from math import prod

import pytest
import torch
from torch import Tensor, nn

from fedsub.commands.models import example
from fedsub_core.models.kinds import build_model
from fedsub_core.models.names import PUBLISHED
from fedsub_core.models.record import ending_of
from fedsub_core.models.torch_model import TorchModel

SHAPE, CLASSES = (3, 8), 4


class Ends(nn.Module):
    """A network that ends with any function of its logits."""

    def __init__(self, end: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.end = nn.Linear(prod(SHAPE), CLASSES), end

    def forward(self, x: Tensor) -> Tensor:
        """Return what the function makes of logits."""
        return self.end(self.body(x.flatten(1)))


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (nn.Softmax(1), "probabilities that sum to 1"),
        (lambda z: torch.softmax(z, 1), "probabilities that sum to 1"),
        (nn.LogSoftmax(1), "logarithms of probabilities"),
        (lambda z: z.log_softmax(-1), "logarithms of probabilities"),
        (nn.Sigmoid(), "numbers between 0 and 1, as it ends with Sigmoid"),
        (nn.ReLU(), "numbers that are 0 or more, as it ends with ReLU"),
        (nn.Identity(), ""),
        (lambda z: z * 2, ""),
    ],
)
def test_what_a_module_ends_with(end: Callable[[Tensor], Tensor], said: str) -> None:
    model = TorchModel.of(lambda shape, classes: Ends(end), SHAPE, CLASSES)
    found = ending_of(model)
    assert said in found if said else found == ""
    assert not said or "Leave it out" in found


@pytest.mark.parametrize("kind", ["mlp", "linear", *PUBLISHED])
def test_none_of_ours_ends_so(kind: str) -> None:
    assert ending_of(build_model(kind, example(kind), CLASSES)) == ""
