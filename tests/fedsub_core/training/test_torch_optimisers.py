"""Optimisers of PyTorch on a stack equal those on each client alone, step by step."""

import pytest
import torch
from torch.nn import functional as F

from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import build_model
from fedsub_core.training import Turn, train
from fedsub_core.training.optimisers import SGD, optimiser_of
from fedsub_core.training.passes import Passes, order_of_epoch
from fedsub_core.training.torch_optimisers import TorchOptimiser

MODEL = build_model("mlp", (5,), 3, hidden="4")
TURN = Turn(2, 9, 7)


def data() -> Stack:
    own, counts = torch.Generator().manual_seed(4), (11, 3, 16)
    x = torch.randn(3, 16, 5, generator=own)
    y = torch.randint(0, 3, (3, 16), generator=own)
    return Stack(("a", "b", "c"), x, y, counts)


@pytest.mark.parametrize(
    ("text", "settings", "arguments"),
    [
        (
            "AdamW(weight_decay=0.1, betas=(0.8, 0.9))",
            {},
            {"weight_decay": 0.1, "betas": (0.8, 0.9)},
        ),
        ("sgd(nesterov=True)", {"momentum": 0.5}, {"nesterov": True, "momentum": 0.5}),
        ("RMSprop", {"weight_decay": 0.2}, {"weight_decay": 0.2}),
        ("Adafactor", {}, {}),
        ("NAdam(momentum_decay=0.01)", {"clip_norm": 0.05}, {"momentum_decay": 0.01}),
    ],
)
def test_each_client_has_an_optimiser_of_its_own(
    text: str, settings: dict[str, float], arguments: dict[str, object]
) -> None:
    stack, size = data(), 4
    how = TrainingSettings(lr=0.05, epochs=2, batch_size=size, optimiser=text, **settings)  # type: ignore[arg-type]
    found = train(MODEL, MODEL.init(3, 5), stack, TURN, how).params
    kind = getattr(torch.optim, {"sgd": "SGD"}.get(text.partition("(")[0], text.partition("(")[0]))
    for i, count in enumerate(stack.counts):
        own = {n: t[i].clone().requires_grad_() for n, t in MODEL.init(3, 5).items()}
        optimiser = kind(list(own.values()), lr=0.05, **arguments)
        for stream in Passes.of(how).streams:
            order, _ = order_of_epoch(stack, size, TURN, stream)
            for batch in torch.split(order[i, :count], size):
                stacked = {n: t.unsqueeze(0) for n, t in own.items()}
                logits = MODEL.forward(stacked, stack.x[i, batch].unsqueeze(0))[0]
                optimiser.zero_grad()
                torch.autograd.backward(F.cross_entropy(logits, stack.y[i, batch]))
                if most := settings.get("clip_norm"):
                    torch.nn.utils.clip_grad_norm_(own.values(), most)
                optimiser.step()
        for name, tensor in own.items():
            torch.testing.assert_close(found[name][i], tensor.detach(), atol=2e-5, rtol=1e-4)


def test_names_in_any_case_are_ours_where_they_have_no_arguments() -> None:
    assert isinstance(optimiser_of(TrainingSettings(optimiser="SGD"), 1), SGD)
    made = optimiser_of(TrainingSettings(optimiser="adamw", lr=0.5, schedule="linear(3)"), 2)
    assert isinstance(made, TorchOptimiser) and made.kind is torch.optim.AdamW
    assert made.arguments == {"lr": 0.25}


@pytest.mark.parametrize(
    ("text", "decay", "expected"),
    [
        ("AdamV", 0.0, "unknown 'AdamV'. Did you mean 'Adam"),
        ("AdamW(betaz=(0.1, 0.2))", 0.0, "unknown argument 'betaz'. Did you mean 'betas'?"),
        ("AdamW(betas=(3, 4))", 0.0, "Invalid beta parameter"),
        ("AdamW(lr=1)", 0.0, "expected the rate as lr of the run"),
        ("LBFGS", 0.0, "calls the loss several times in a step"),
        ("SparseAdam", 0.0, "needs sparse gradients"),
        ("Optimizer", 0.0, "unknown 'Optimizer'"),
        ("Rprop", 0.5, "weight-decay: got 0.5 with Rprop, which has none"),
        ("sgd(nesterov=True, momentum=0)", 0.0, "Nesterov momentum requires a momentum"),
    ],
)
def test_what_pytorch_has_not_is_refused_by_name(text: str, decay: float, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        optimiser_of(TrainingSettings(optimiser=text, weight_decay=decay), 1)
    assert expected in str(error.value)


def test_an_optimiser_that_does_not_take_the_model_says_so() -> None:
    how = TrainingSettings(optimiser="Muon")
    with pytest.raises(ConfigError, match=r"Muon: got .*2D parameters"):
        train(MODEL, MODEL.init(3, 5), data(), TURN, how)
