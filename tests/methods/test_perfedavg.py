"""Per-FedAvg: numbers by hand, and when it is another method."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from fedsub.testing.one_number import Curve, Parabola, Slope, filled, one_number, samples, weights
from fedsub.testing.runs import RunMethod
from fedsub_core.seeds import generator
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle

TURN = Turn(1, 1, 0)
PLAIN = TrainingSettings(lr=0.1, momentum=0.0)


@pytest.mark.parametrize(("first_order", "expected"), [(True, 0.91), (False, 0.919)])
def test_gradients_are_those_after_an_inner_step(first_order: bool, expected: float) -> None:
    """f = p**2 / 2, p = 1, alpha = lr = 0.1: p' = 0.9."""
    learner = one_number("perfedavg", Parabola(), PLAIN, alpha=0.1, first_order=first_order)
    state, _, _ = learner.fit(filled(learner, 1, model=1.0), [Bundle()], samples(3), TURN)
    assert weights(learner, state, "model") == [pytest.approx(expected, abs=1e-4)]


@pytest.mark.parametrize(
    ("count", "first_order", "steps"),
    [(3, True, 1), (64, True, 1), (65, True, 2), (160, True, 3), (64, False, 1), (97, False, 2)],
)
def test_batches_go_in_pairs_or_threes(count: int, first_order: bool, steps: int) -> None:
    learner = one_number("perfedavg", Slope(1.0), PLAIN, first_order=first_order)
    state, _, _ = learner.fit(filled(learner, 1, model=0.0), [Bundle()], samples(count), TURN)
    assert weights(learner, state, "model") == [pytest.approx(-0.1 * steps)]


def test_without_an_inner_step_it_is_sgd_on_every_second_batch(run_method: RunMethod) -> None:
    """One batch a client pairs with itself: then it is FedAvg."""
    meta, plain = (
        run_method(name, hyper=hyper, batch_size=256)
        for name, hyper in (("perfedavg", {"alpha": 0.0}), ("fedavg", {}))
    )
    for key, tensor in plain.states[-1].items():
        assert torch.equal(meta.states[-1][key], tensor), key
    for client, model in plain.models().items():
        adapted = meta.models()[client]
        assert all(torch.equal(adapted[key], tensor) for key, tensor in model.items())


def test_the_first_batch_makes_the_inner_step_and_the_second_the_outer_one() -> None:
    """Two batches with slopes of their own; whichever is drawn first, only the second's counts."""
    settings = TrainingSettings(lr=0.1, momentum=0.0, batch_size=1)
    held = replace(samples(2), x=torch.tensor([[[1.0], [3.0]]]))
    order = torch.randperm(2, generator=generator(0, "c0", 1, "batches of epoch 0"))
    first, second = (held.x.flatten()[i].item() for i in order)
    for alpha in (0.0, 0.5):
        learner = one_number("perfedavg", Curve(), settings, alpha=alpha)
        state, _, _ = learner.fit(filled(learner, 1, model=1.0), [Bundle()], held, TURN)
        # The slope of x * p**2 / 2 is x * p, at p' = 1 - alpha * first.
        expected = 1 - 0.1 * second * (1 - alpha * first)
        assert weights(learner, state, "model") == [pytest.approx(expected)]


@pytest.mark.parametrize(
    "changed", [{"optimiser": "adam"}, {"weight_decay": 0.3}, {"clip_norm": 0.01}]
)
def test_adaptation_is_plain_whatever_the_optimiser(changed: dict[str, Any]) -> None:
    learner = one_number("perfedavg", Slope(2.0), replace(PLAIN, **changed), alpha=0.1)
    tested = learner.personalise(filled(learner, 1, model=1.0), [Bundle()], samples(3), TURN)
    assert weights(learner, tested, "model") == [pytest.approx(0.8)]


def test_adaptation_takes_plain_steps_of_alpha_and_is_not_kept() -> None:
    settings = TrainingSettings(lr=9.0, momentum=0.9, lr_decay=0.5)
    learner = one_number("perfedavg", Slope(2.0), settings, alpha=0.1, adapt_steps=3)
    state = filled(learner, 2, model=1.0)
    # The first client has three batches, the second one alone, which it sees three times.
    tested = learner.personalise(state, [Bundle(), Bundle()], samples(96, 5), Turn(4, 9, 0))
    assert weights(learner, tested, "model") == [pytest.approx(0.4)] * 2
    assert weights(learner, state, "model") == [1.0, 1.0]
