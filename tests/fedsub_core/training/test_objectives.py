"""Terms of objectives, with numbers worked out by hand."""

from collections.abc import Callable

import pytest
import torch

from fedsub_core.data.stacks import Stack, stack
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.models.layers import Linear
from fedsub_core.training import (
    CE,
    Batch,
    Masked,
    PrototypePull,
    Pull,
    TrainingSettings,
    Turn,
    batch_gradient,
    train,
)
from fedsub_core.training.objectives import Forward

TURN = Turn(1, 1, 0)
#: One number and its bias: logits are x * w + b, two classes.
TINY = Chain((Linear("linear1", 2, 1),), (1,))


def one_client(x: list[float], y: list[int]) -> Stack:
    columns = torch.tensor(x).unsqueeze(1).numpy()
    return stack(["anna"], [columns], [torch.tensor(y).numpy()])


def whole(data: Stack) -> Batch:
    return Batch(data.x, data.y, torch.full(data.y.shape, 1 / data.counts[0]), 0)


def test_a_pull_adds_its_weight_times_the_distance() -> None:
    """FedProx's p = 1, w = 0, mu = 0.5 adds exactly 0.5 to the gradient."""
    params = {"linear1.weight": torch.ones(1, 2, 1), "linear1.bias": torch.zeros(1, 2)}
    anchor = {name: torch.zeros_like(p) for name, p in params.items()}
    batch = whole(one_client([1.0], [0]))
    plain = batch_gradient(TINY, params, batch)
    pulled = batch_gradient(TINY, params, batch, CE + Pull(anchor, 0.5))
    assert torch.equal(
        pulled["linear1.weight"] - plain["linear1.weight"], torch.full((1, 2, 1), 0.5)
    )
    assert torch.equal(pulled["linear1.bias"], plain["linear1.bias"])


def test_a_pull_of_one_over_the_rate_lands_on_the_anchor() -> None:
    """Without a gradient of cross-entropy, a * lr = 1 and no momentum: p = w after one step."""
    params = {"linear1.weight": torch.full((1, 2, 1), 3.0), "linear1.bias": torch.zeros(1, 2)}
    anchor = {name: torch.full_like(p, 0.25) for name, p in params.items()}
    # Equal logits and one sample of each class at x = 1 and -1 would still push; x = 0 with equal
    # counts does not: softmax is (0.5, 0.5) and the two labels cancel.
    data = one_client([0.0, 0.0], [0, 1])
    settings = TrainingSettings(lr=0.5, momentum=0.0)
    found, _ = train(TINY, params, data, TURN, settings, objective=CE + Pull(anchor, 2.0))
    assert torch.equal(found["linear1.weight"], anchor["linear1.weight"])
    assert torch.equal(found["linear1.bias"], anchor["linear1.bias"])


@pytest.mark.parametrize("term", ["pull", "prototype"])
def test_a_term_of_weight_zero_adds_no_operation(
    term: str, random_stack: Callable[..., Stack]
) -> None:
    model = mlp(3, 6)
    data, params = random_stack(model, (40, 9)), model.init(2, seed=0)
    nan = {name: torch.full_like(p, torch.nan) for name, p in params.items()}
    prototypes = torch.full((2, 6, 512), torch.nan)
    added = {
        "pull": Pull(nan, 0.0),
        "prototype": PrototypePull(prototypes, torch.ones(2, 6, dtype=torch.bool), 0.0),
    }[term]
    plain, _ = train(model, params, data, TURN, TrainingSettings())
    # Were anything of it computed, it would be NaN.
    found, _ = train(model, params, data, TURN, TrainingSettings(), objective=CE + added)
    assert all(torch.equal(found[name], plain[name]) for name in params)


def test_a_mask_keeps_what_it_leaves_out(random_stack: Callable[..., Stack]) -> None:
    model = mlp(3, 6)
    data, params = random_stack(model, (40, 9)), model.init(2, seed=0)
    mask = {name: (p > 0).float() for name, p in params.items()}
    found, _ = train(model, params, data, TURN, TrainingSettings(), objective=CE + Masked(mask))
    for name, p in params.items():
        off = mask[name] == 0
        assert torch.equal(found[name][off], p[off])
        assert not torch.equal(found[name], p)


def test_a_prototype_pulls_the_embedding() -> None:
    """One sample h = 1, prototype 0, d = 2, weight 1: the gradient on h is 1 in each component."""
    embedding = torch.ones(1, 1, 2, requires_grad=True)
    batch = Batch(embedding, torch.tensor([[1]]), torch.ones(1, 1), 0)
    term = PrototypePull(torch.zeros(1, 3, 2), torch.tensor([[False, True, False]]), 1.0)
    term.loss(Forward({}, batch, (), embedding), term.stacked()).backward()  # type: ignore[no-untyped-call]
    assert embedding.grad is not None and embedding.grad.tolist() == [[[1.0, 1.0]]]


def test_samples_without_a_prototype_count_zero_in_the_mean() -> None:
    embedding = torch.tensor([[[2.0], [2.0]]])
    batch = Batch(embedding, torch.tensor([[0, 1]]), torch.full((1, 2), 0.5), 0)
    term = PrototypePull(torch.zeros(1, 2, 1), torch.tensor([[True, False]]), 1.0)
    assert float(term.loss(Forward({}, batch, (), embedding), term.stacked())) == 2.0
