"""Models as plain PyTorch modules: the inverse of reading one."""

import pytest
import torch
from torch import nn

from fedsub_core.models.from_torch import from_torch
from fedsub_core.models.to_torch import chain_to_torch


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ([nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)], (5,)),
        (
            [
                nn.Conv1d(2, 4, 5, stride=2, padding=1),
                nn.ReLU(),
                nn.MaxPool1d(3, stride=2, padding=1),
                nn.AvgPool1d(2),
                nn.AdaptiveAvgPool1d(3),
                nn.Flatten(),
                nn.Linear(12, 3),
            ],
            (2, 41),
        ),
        (
            [
                nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(0, 1)),
                nn.MaxPool2d(2),
                nn.AvgPool2d((1, 2), stride=1),
                nn.AdaptiveAvgPool2d((2, 1)),
                nn.Flatten(),
                nn.Linear(8, 3),
            ],
            (2, 11, 12),
        ),
    ],
)
def test_it_is_the_inverse_of_from_torch(layers: list[nn.Module], shape: tuple[int, ...]) -> None:
    module = nn.Sequential(*layers)
    model, params = from_torch(module, shape)
    back = chain_to_torch(model, {name: tensor[0] for name, tensor in params.items()})
    assert [type(layer) for layer in back] == [type(layer) for layer in layers]
    assert not any(p.requires_grad for p in back.parameters())
    x = torch.randn(6, *shape, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(back(x), module(x).detach(), rtol=0, atol=0)
    again, kept = from_torch(back, shape)
    assert again == model
    for name, tensor in params.items():
        assert torch.equal(kept[name], tensor)
