"""A device is a cohort of one: the same numbers alone and in a stack, for every method."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing import battery
from fedsub.testing.cohort_tests import SCALING, CohortTests, cohort, people, turn
from fedsub_client.cohort_messages import NOTHING
from fedsub_core.capacity import Capacity
from fedsub_core.data.stacks import Stack
from fedsub_core.data.standardise import moments, pool, scaling
from fedsub_core.methods.table import HOUSE
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_core.wire.handshake import Facts

TestStacks = battery(*HOUSE, parts=(CohortTests,), cover=True)


def test_clients_that_are_not_addressed_stay_as_they_are() -> None:
    some = cohort("fedsub", people())
    before = {name: tensor.clone() for name, tensor in some.state.items()}
    some.fit(turn(1), SCALING, [2, 0], [NOTHING, NOTHING])
    for name, tensor in some.state.items():
        assert torch.equal(tensor[1], before[name][1])
        assert not torch.equal(tensor[0], before[name][0])


def test_clients_are_addressed_in_any_order() -> None:
    ordered, turned = (cohort("ditto", people()) for _ in range(2))
    found = []
    for some, index in ((ordered, [0, 1, 2]), (turned, [2, 0, 1])):
        some.fit(turn(1), SCALING, index, [NOTHING] * 3)
        state = some.personalised(turn(1), SCALING, index, [NOTHING] * 3)
        loss = some.evaluate(turn(1), SCALING, index, state).loss
        found.append(dict(zip(index, map(float, loss), strict=True)))
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    for name, tensor in ordered.state.items():
        torch.testing.assert_close(turned.state[name], tensor)


@pytest.mark.parametrize("method", ["fedavg", "fedavg-finetune", "perfedavg"])
def test_the_state_that_is_tested_is_not_kept(method: str) -> None:
    one = cohort(method, people()[:1])
    before = {name: tensor.clone() for name, tensor in one.state.items()}
    ones = {n: Floats(np.ones(d.shape, np.float32)) for n, d in one.receives.items()}
    losses = []
    for received in (Bundle(tensors=ones), NOTHING):
        state = one.personalised(turn(1), SCALING, [0], [received])
        losses.append(float(one.evaluate(turn(1), SCALING, [0], state).loss[0]))
    assert losses[0] != losses[1]
    adapted = not torch.equal(state["model.linear1.bias"], before["model.linear1.bias"])
    assert adapted == (method != "fedavg")
    assert all(torch.equal(before[name], tensor) for name, tensor in one.state.items())


@pytest.mark.parametrize("mode", ["federation", "client", "none"])
def test_standardisation_is_of_training_parts_alone(mode: str) -> None:
    clients = people()
    shared = scaling(pool([moments(c.train_x) for c in clients])) if mode == "federation" else None
    some = cohort("local", clients, mode)
    train, test = some.data.at(1, shared)
    whole = np.concatenate([c.train_x for c in clients])
    for i, c in enumerate(clients):
        basis = {"federation": whole, "client": c.train_x, "none": None}[mode]
        mean, std = (0, 1) if basis is None else (basis.mean(0), basis.std(0))
        for data, x in ((train, c.train_x), (test, c.test_x)):
            np.testing.assert_allclose(
                data.x[i, : len(x)].numpy(), (x - mean) / std, rtol=1e-4, atol=1e-4
            )
            assert not data.x[i, len(x) :].any(), "padding is zero"
        used = some.data.scaling(i, 1, shared)
        assert (used is None) == (basis is None)
        if used is not None:
            np.testing.assert_allclose(used.mean, mean, rtol=1e-4)
            np.testing.assert_allclose(used.std, std, rtol=1e-4)


def test_capacities_reach_the_handshake_and_the_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    some = cohort("fedavg", people(capacity=(0.25, 1.0, 0.5)))
    said = [introduction.facts for introduction in some.introductions()]
    assert said == [Facts(63, Capacity(0.25)), Facts(28), Facts(45, Capacity(0.5))]
    seen: list[tuple[float, ...]] = []
    fit = some.learner.fit

    def noted(state: Any, received: Any, data: Stack, turn: Turn) -> Any:
        seen.append(data.capacities)
        return fit(state, received, data, turn)

    monkeypatch.setattr(some.learner, "fit", noted)
    some.fit(turn(1), SCALING, range(3), [NOTHING] * 3)
    some.fit(turn(2), SCALING, [2, 0], [NOTHING] * 2)
    assert seen == [(0.25, 1.0, 0.5), (0.5, 0.25)]
    assert some.data.at(2, SCALING)[1].capacities == (0.25, 1.0, 0.5)


def test_a_clients_state_is_taken_out_and_put_back() -> None:
    stack, other = cohort("ditto", people()), cohort("ditto", people())
    stack.fit(turn(1), SCALING, range(3), [NOTHING] * 3)
    kept = [stack.client_state(i) for i in range(3)]
    assert kept[0]["personal.linear1.bias"].shape == (128,)
    other.load_states(kept)
    for one in (stack, other):
        one.fit(turn(2), SCALING, range(3), [NOTHING] * 3)
    assert all(torch.equal(stack.state[name], tensor) for name, tensor in other.state.items())
