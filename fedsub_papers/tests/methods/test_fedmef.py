"""FedMef: how its mask moves, by hand, and when it is FedAvg."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.halves import HalfAlone, next_from, next_round
from fedsub.testing.one_number import BIAS, WEIGHT, Slope, one_number, samples
from fedsub.testing.runs import RunMethod, assert_equal, assert_equal_models
from fedsub_core.errors import MessageRefused
from fedsub_core.models.chain import Chain
from fedsub_core.models.layers import Linear, ReLU
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.methods.fedmef import FedMefHyperparameters, adjusts
from fedsub_papers.strategies.methods.fedmef import FedMefServer

#: Two layers of 2,048 and 192 weights, as those that CA-AFP's comparison prunes.
TWO_DENSE = Chain((Linear("linear1", 32, 64), ReLU(), Linear("linear2", 6, 32)), (64,))


def masks(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {n.removeprefix("mask."): t for n, t in state.items() if n.startswith("mask.")}


def test_a_whole_mask_without_a_pull_is_fedavg(run_method: RunMethod) -> None:
    fedmef = run_method("fedmef", hyper={"sparsity": 0.0, "lam": 0.0})
    fedavg = run_method("fedavg")
    for ours, theirs in zip(fedmef.states, fedavg.states, strict=True):
        assert_equal({name: ours[name] for name in theirs}, theirs)
    assert_equal_models(fedmef, fedavg)


def test_sparsity_stays_while_the_mask_moves(run_method: RunMethod) -> None:
    run = run_method("fedmef", rounds=5)
    found = [masks(state) for state in run.states]
    for before, after, moves in zip(found, found[1:], [True, True, False, False], strict=False):
        for name, mask in after.items():
            assert (
                int(mask.sum()) == int(before[name].sum()) == mask.numel() - int(0.8 * mask.numel())
            )
            assert torch.equal(mask, before[name]) != moves, name
    for state, held in zip(run.states, found, strict=True):
        assert all(not state[name][~kept].any() for name, kept in held.items())
    for client, model in run.models().items():
        assert all(not model[name][~kept].any() for name, kept in found[-1].items()), client
    weights = sum(mask.numel() for mask in found[-1].values())
    zeros = sum(int((~mask).sum()) for mask in found[-1].values())
    assert run.metric("sparsity_weights")[5, ""] == pytest.approx(zeros / weights)
    numbers = sum(t.numel() for n, t in run.states[-1].items() if not n.startswith("mask."))
    assert run.metric("sparsity_all")[5, ""] == pytest.approx(zeros / numbers)


@pytest.mark.parametrize(
    ("grow", "expected"),
    [(True, [(410, 39)] * 4), (False, [(410, 39), (328, 32), (263, 26), (211, 21)])],
)
def test_without_growth_the_comparisons_sparsity_comes_out(
    grow: bool, expected: list[tuple[int, int]], run_method: RunMethod
) -> None:
    """232 of 2,240 weights are left: 89.64 % of zeros, as printed."""
    strategy = HalfAlone.of("fedmef", TWO_DENSE, grow=grow)
    state, found = strategy.half.init(strategy.start()), []
    stream = torch.Generator().manual_seed(0)
    for _ in range(4):
        model, held = strategy.half._parts(state)
        found.append(tuple(int(mask.sum()) for mask in held.values()))
        drawn = {n: torch.randn(m.shape, generator=stream) for n, m in held.items()}
        gradients = {f"gradient.{name}": tensor for name, tensor in drawn.items()}
        state = strategy.half._masked(model, strategy.half._moved(model, held, gradients))
    assert found == expected
    if not grow:
        assert 1 - sum(found[-1]) / 2240 == pytest.approx(0.8964, abs=5e-5)


def test_the_smallest_go_and_the_largest_gradients_come_at_zero(run_method: RunMethod) -> None:
    strategy: Any = run_method("fedmef", hyper={"rate": 0.5}, until=1).strategy
    model = {"w": torch.tensor([5.0, -1.0, 0.0, 0.0, -2.0, 3.0])}
    held = {"w": torch.tensor([True, True, False, False, True, True])}
    gradients = {"gradient.w": torch.tensor([9.0, 9.0, -2.0, 1.0, 9.0, 9.0])}
    moved = strategy.half._moved(model, held, gradients)
    assert moved["w"].tolist() == [True, False, True, True, False, True]
    assert strategy.half._masked(model, moved)["w"].tolist() == [5.0, 0.0, 0.0, 0.0, 0.0, 3.0]


def test_what_is_about_to_be_pruned_is_pulled_to_zero() -> None:
    """No slope, no momentum, 2 * lam * lr = 1: the smallest of five weights is 0 after a step."""
    model = Chain((Linear("linear1", 1, 5),), (5,))
    settings = TrainingSettings(lr=0.5, momentum=0.0)
    learner = one_number("fedmef", Slope(0.0), settings, model, lam=1.0, adjust_every=2)
    start = torch.tensor([[[4.0, -1.0, 2.0, -3.0, 5.0]]])
    data = samples(2)
    data = type(data)(data.clients, data.x.expand(1, 2, 5), data.y, data.counts)
    for round, expected in ((1, -1.0), (2, 0.0)):
        state = learner.init(1, 0) | {"model.linear1.weight": start.clone()}
        state, _, _ = learner.fit(state, [Bundle()], data, Turn(round, 9, 0))
        assert state["model.linear1.weight"].flatten().tolist() == [4.0, expected, 2.0, -3.0, 5.0]


def test_gradients_of_all_weights_are_sent_before_a_move_and_only_then() -> None:
    learner = one_number("fedmef", Slope(3.0), TrainingSettings(lr=0.1), lam=0.0, adjust_every=2)
    state = learner.init(1, 0)
    nothing = Bundle(
        tensors={
            WEIGHT: Floats.elements(np.zeros((1, 1), np.bool_), np.zeros(0, np.float32)),
            BIAS: Floats(np.zeros(1, np.float32)),
        }
    )
    for round, sent in ((1, set()), (2, {f"gradient.{WEIGHT}"})):
        after, (upload,), _ = learner.fit(state, [nothing], samples(3), Turn(round, 9, 0))
        assert set(upload.tensors) - {WEIGHT, BIAS} == sent
        assert after[f"model.{WEIGHT}"].item() == 0.0 and upload.floats(WEIGHT).size == 0
    assert upload.floats(f"gradient.{WEIGHT}").item() == 3.0


@pytest.mark.parametrize(
    ("every", "rounds", "expected"),
    [(0, 50, [10, 20, 30]), (10, 25, [10, 20]), (0, 3, [1, 2, 3]), (7, 100, [7, 14, 21])],
)
def test_the_mask_moves_three_times(every: int, rounds: int, expected: list[int]) -> None:
    hyper = FedMefHyperparameters(adjust_every=every)
    assert [r for r in range(1, rounds + 1) if adjusts(hyper, r, rounds)] == expected


def test_uploads_of_another_mask_or_without_gradients_are_refused(run_method: RunMethod) -> None:
    run = run_method("fedmef", until=1)
    strategy, upload = run.strategy, run.uploads[0]["p1"]
    assert isinstance(strategy.half, FedMefServer)
    strategy.finished_rounds, state = 0, strategy.begin()
    strategy.half.check(state, next_round(strategy), next_from(strategy, "p1"), upload)
    name = "linear1.weight"
    part = upload.part(name)
    assert part.at.elements is not None
    other = Floats.elements(np.roll(part.at.elements, 1), part.values)
    with pytest.raises(MessageRefused, match=r"client 'p1'.*masks of \['linear1.weight'\]"):
        strategy.half.check(
            state,
            next_round(strategy),
            next_from(strategy, "p1"),
            Bundle(9, tensors={**upload.tensors, name: other}),
        )
    bare = {n: p for n, p in upload.tensors.items() if not n.startswith("gradient.")}
    with pytest.raises(MessageRefused, match=r"round 1.*gradients.*expected \['gradient.linear1"):
        strategy.half.check(
            state, next_round(strategy), next_from(strategy, "p1"), Bundle(9, tensors=bare)
        )
