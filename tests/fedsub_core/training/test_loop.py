"""Local training on a stack equals PyTorch's optimisers on each client alone."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from fedsub_core.data.stacks import Stack
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.seeds import generator
from fedsub_core.training import TrainingSettings, Turn, train

MakeStack = Callable[..., Stack]
pytestmark = pytest.mark.usefixtures("either")
COUNTS = (5, 100, 33, 64)
TURN = Turn(4, 9, seed=3)

OPTIMISERS: dict[str, tuple[TrainingSettings, Callable[..., torch.optim.Optimizer]]] = {
    "momentum": (TrainingSettings(epochs=2), lambda p: torch.optim.SGD(p, 0.005, 0.9)),
    "plain": (TrainingSettings(epochs=2, momentum=0), lambda p: torch.optim.SGD(p, 0.005)),
    "weight decay": (
        TrainingSettings(epochs=2, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, 0.005, 0.9, weight_decay=0.1),
    ),
    # The rate of round 4 is 0.04 * 0.5 ** 3.
    "falling rate": (
        TrainingSettings(epochs=2, lr=0.04, lr_decay=0.5),
        lambda p: torch.optim.SGD(p, 0.005, 0.9),
    ),
    "clipped": (
        TrainingSettings(epochs=2, clip_norm=0.2),
        lambda p: torch.optim.SGD(p, 0.005, 0.9),
    ),
    "adam": (
        TrainingSettings(epochs=2, optimiser="adam", weight_decay=0.01),
        lambda p: torch.optim.Adam(p, 0.005, weight_decay=0.01),
    ),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_equals_pytorch_on_each_client_alone(
    name: str, model: Chain, random_stack: MakeStack
) -> None:
    settings, make = OPTIMISERS[name]
    data, params = random_stack(model), model.init(len(COUNTS), seed=3)
    if settings.optimiser == "adam":
        # Adam divides by a gradient's size: where that is rounding alone, float32 says nothing.
        data = replace(data, x=data.x.double())
        params = {key: tensor.double() for key, tensor in params.items()}
    trained, loss = train(model, params, data, TURN, settings)
    for i, count in enumerate(COUNTS):
        own = {key: t[i : i + 1].clone().requires_grad_() for key, t in params.items()}
        optimiser, losses = make(own.values()), []
        for epoch in range(settings.epochs):
            stream = generator(3, f"c{i}", 4, f"batches of epoch {epoch}")
            for batch in torch.split(torch.randperm(count, generator=stream), 32):
                optimiser.zero_grad()
                logits = model.forward(own, data.x[i : i + 1, batch])[0]
                found = F.cross_entropy(logits, data.y[i, batch])
                torch.autograd.backward(found)
                if settings.clip_norm:
                    torch.nn.utils.clip_grad_norm_(own.values(), settings.clip_norm)
                optimiser.step()
                losses.append(float(found.detach()))
        assert float(loss[i]) == pytest.approx(sum(losses) / len(losses), rel=1e-4)
        for key, tensor in own.items():
            expected = tensor[0].detach()
            torch.testing.assert_close(trained[key][i], expected, atol=2e-6, rtol=1e-4)
            assert not torch.equal(trained[key][i], params[key][i]), "nothing was learned"


def test_clipping_bounds_what_a_step_moves(random_stack: MakeStack) -> None:
    model = mlp(3, 6)
    data, params = random_stack(model, (32,)), model.init(1, seed=0)
    settings = TrainingSettings(lr=1.0, momentum=0, clip_norm=0.01)
    moved, _ = train(model, params, data, TURN, settings)
    squares = [(moved[name] - params[name]).square().sum() for name in params]
    assert float(torch.stack(squares).sum().sqrt()) == pytest.approx(0.01, rel=1e-3)


def test_a_client_trains_alike_whoever_shares_its_stack(
    model: Chain, random_stack: MakeStack
) -> None:
    data, params = random_stack(model), model.init(len(COUNTS), seed=0)
    together, _ = train(model, params, data, TURN, TrainingSettings())
    for i in range(len(COUNTS)):
        own = {name: tensor[i : i + 1] for name, tensor in params.items()}
        alone, _ = train(model, own, data.select([i]), TURN, TrainingSettings())
        for name, tensor in alone.items():
            torch.testing.assert_close(tensor[0], together[name][i], atol=1e-6, rtol=0)


def test_leaves_its_input_as_it_is(random_stack: MakeStack) -> None:
    model = mlp(3, 6)
    params = model.init(2, seed=0)
    before = {name: tensor.clone() for name, tensor in params.items()}
    train(model, params, random_stack(model, (10, 40)), TURN, TrainingSettings())
    assert all(torch.equal(before[name], params[name]) for name in params)


def test_no_epoch_and_no_step_leave_everything(random_stack: MakeStack) -> None:
    model = mlp(3, 6)
    data, params = random_stack(model, (10, 40)), model.init(2, seed=0)
    for work in (partial(train, epochs=0), partial(train, steps=0)):
        trained, loss = work(model, params, data, TURN, TrainingSettings())
        assert all(torch.equal(trained[name], params[name]) for name in params)
        assert loss.isnan().all(), "there was no loss to be met"


def test_only_some_layers_train_and_the_others_stay_to_the_bit(
    model: Chain, random_stack: MakeStack
) -> None:
    data, params = random_stack(model), model.init(len(COUNTS), seed=0)
    for only in (model.head(), model.body()):
        trained, _ = train(model, params, data, TURN, TrainingSettings(), only=only)
        names = model.parameters_of(only)
        for name, tensor in trained.items():
            assert torch.equal(tensor, params[name]) == (name not in names), name


def test_a_phase_has_batches_of_its_own(random_stack: MakeStack) -> None:
    model = mlp(3, 6)
    data, params = random_stack(model, (100,)), model.init(1, seed=0)
    main, again, other = (
        train(model, params, data, TURN, TrainingSettings(), phase=phase).params
        for phase in ("", "", "head")
    )
    assert torch.equal(main["linear1.weight"], again["linear1.weight"])
    assert not torch.equal(main["linear1.weight"], other["linear1.weight"])
