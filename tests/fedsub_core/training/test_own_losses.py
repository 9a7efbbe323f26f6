"""Losses that a run names equal PyTorch's on each client alone; what is no loss is refused."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from fedsub_core.backend import for_training
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import build_model
from fedsub_core.training import CE, Gradient, Turn, train
from fedsub_core.training.named import run_loss
from fedsub_core.training.objectives import Pull
from fedsub_core.training.own_losses import OwnLoss, loss_of

MODEL = build_model("mlp", (5,), 3, hidden="4")
TURN = Turn(2, 9, 7)
PLAIN = TrainingSettings(lr=0.1, batch_size=8)


def stack(counts: tuple[int, ...] = (11, 3, 16)) -> Stack:
    own = torch.Generator().manual_seed(4)
    x = torch.randn(len(counts), max(counts), 5, generator=own)
    y = torch.randint(0, 3, (len(counts), max(counts)), generator=own)
    for i, count in enumerate(counts):
        x[i, count:], y[i, count:] = 0, 0
    return Stack(tuple("abc"[: len(counts)]), x, y, counts)


def trained(loss: Any, data: Stack, **changed: Any) -> dict[str, torch.Tensor]:
    settings = TrainingSettings(**{"lr": 0.1, "batch_size": 8, **changed})
    start = MODEL.init(len(data.clients), 3)
    return train(MODEL, start, data, TURN, settings, objective=loss).params


@pytest.fixture
def given() -> Any:
    """A module of losses, as a package has them."""
    module = ModuleType("losses_of_a_test")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_a_loss_equals_the_kernels_and_any_company(given: Any) -> None:
    given.mean = lambda logits, y: F.cross_entropy(logits, y)
    given.each = lambda logits, y: F.cross_entropy(logits, y, reduction="none")
    data = stack()
    expected = trained(CE, data)
    for name in ("mean", "each"):
        own = trained(loss_of(f"losses_of_a_test:{name}"), data)
        for key, tensor in expected.items():
            torch.testing.assert_close(own[key], tensor, atol=1e-5, rtol=1e-4)
        alone = trained(loss_of(f"losses_of_a_test:{name}"), data.select([1]))
        assert all(torch.allclose(own[key][1], alone[key][0], atol=1e-6) for key in alone)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("cross-entropy(smoothing=0.2)", {"label_smoothing": 0.2}),
        ("cross-entropy(weights=(1, 2, 0.5))", {"weight": torch.tensor([1, 2, 0.5])}),
        (
            "cross-entropy(weights=(1, 2, 0.5), smoothing=0.3)",
            {"weight": torch.tensor([1, 2, 0.5]), "label_smoothing": 0.3},
        ),
        ("focal(gamma=0)", {}),
    ],
)
def test_built_in_losses_are_pytorchs(text: str, options: dict[str, Any]) -> None:
    loss, own = loss_of(text), torch.Generator().manual_seed(1)
    assert isinstance(loss, OwnLoss)
    logits = torch.randn(9, 3, generator=own, requires_grad=True)
    y = torch.randint(0, 3, (9,), generator=own)
    found = loss.of(logits, y, torch.ones(3), "here")
    torch.testing.assert_close(found, F.cross_entropy(logits, y, **options))


def test_focal_loss_is_its_formula_and_learns_of_hard_samples_alone() -> None:
    loss = loss_of("focal(gamma=2)")
    assert isinstance(loss, OwnLoss)
    logits = torch.tensor([[9.0, 0, 0], [0, 1, 0]], requires_grad=True)
    found = loss.of(logits, torch.tensor([0, 0]), torch.ones(3), "here")
    p = logits.softmax(-1)[:, 0]
    torch.testing.assert_close(found, (-((1 - p) ** 2) * p.log()).mean())
    (slope,) = torch.autograd.grad(found, logits)
    assert slope[0].abs().max() < 1e-4 < slope[1].abs().max()


def test_balanced_weights_are_of_each_clients_own_samples() -> None:
    data = stack((12, 8))
    data.y[0, :12] = torch.tensor([0] * 9 + [1] * 3)
    data.y[1, :8] = torch.tensor([0, 1] * 4)
    balanced = trained(loss_of("cross-entropy(weights=balanced)"), data, batch_size=4)
    alike, other = trained(CE, data, batch_size=4), "cross-entropy(weights=(0.6667, 2, 1))"
    torch.testing.assert_close(
        balanced["linear1.weight"][1], alike["linear1.weight"][1], atol=1e-5, rtol=0
    )
    fixed = trained(loss_of(other), data, batch_size=4)  # 12 / (2 * 9) and 12 / (2 * 3)
    torch.testing.assert_close(
        balanced["linear1.weight"][0], fixed["linear1.weight"][0], atol=1e-4, rtol=0
    )
    assert (balanced["linear1.weight"][0] - alike["linear1.weight"][0]).abs().max() > 1e-3


def test_methods_add_their_terms_to_it_and_pytorch_computes() -> None:
    loss = loss_of("focal")
    gradient = Gradient(MODEL, loss + Pull({}, 0.5))
    said = for_training(gradient.layers, gradient.terms, torch.zeros(1), PLAIN)
    assert said.kernels is None and said.why == "the kernels do not know the loss focal"
    anchor = {name: tensor + 1 for name, tensor in MODEL.init(3, 3).items()}
    pulled, free = (trained(one, stack()) for one in (loss + Pull(anchor, 5.0), loss))
    assert (pulled["linear1.weight"] > free["linear1.weight"]).float().mean() > 0.9
    assert loss_of("cross-entropy") is CE, "the kernels' own"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda logits, y: logits, "got a tensor of shape [2, 3]"),
        (lambda logits, y: 3.0, "got a float"),
        (lambda logits, y: logits.detach().sum(), "got a tensor without a gradient"),
        (lambda logits, y: logits.sum() / 0, "got nan"),
        (lambda logits: logits.sum(), "got TypeError"),
        (lambda logits, y: logits[9].sum(), "got IndexError"),
    ],
)
def test_what_is_no_loss_is_refused_before_the_first_round(
    given: Any, function: Any, expected: str
) -> None:
    given.wrong = function
    settings = TrainingSettings(loss="losses_of_a_test:wrong")
    with pytest.raises(ConfigError) as error:
        run_loss(settings, MODEL)
    assert expected in str(error.value) and "tried on 3 classes" in str(error.value)


def test_a_loss_that_fails_later_names_client_and_round(given: Any) -> None:
    given.late = lambda logits, y: logits.sum() / (0 if len(y) == 3 else 1)
    with pytest.raises(ConfigError, match=r"client 'b', round 2: got -?inf, expected a finite"):
        trained(loss_of("losses_of_a_test:late"), stack())


def test_training_that_diverged_is_no_fault_of_a_loss() -> None:
    data = stack()
    data.x[1, 0, 0] = float("nan")
    assert trained(loss_of("focal"), data)["linear1.weight"][1].isnan().any()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cross-entropy(weights=(1, 2))", "got 2: 1, 2; expected balanced, or 3 numbers above 0"),
        ("focal(weights=(1, 2, 0))", "expected balanced"),
        ("focal(weights=even)", "expected balanced"),
        ("cross-entropy(smoothing=1)", "smoothing: got 1"),
        ("focal(gamma=-1)", "gamma: got -1"),
        ("fokal", "Did you mean 'focal'?"),
        ("absent.py:f", "absent.py cannot be imported"),
        ("focal,focal", "expected one name"),
    ],
)
def test_arguments_are_refused_by_name(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        run_loss(TrainingSettings(loss=text), MODEL)
    assert expected in str(error.value)


def test_a_class_of_losses_is_made_with_its_arguments() -> None:
    made, ours = (
        trained(loss_of(text), stack())
        for text in (
            "torch.nn:CrossEntropyLoss(label_smoothing=0.2)",
            "cross-entropy(smoothing=0.2)",
        )
    )
    for name, tensor in made.items():
        torch.testing.assert_close(tensor, ours[name], atol=1e-5, rtol=1e-4)
