"""SubFLOT: numbers by hand, what its switches leave out, and when it is FedAvg."""

from typing import Any

import pytest
import torch

from fedsub.testing.one_number import Slope, filled, one_number, samples, weights
from fedsub.testing.runs import RunMethod, assert_equal
from fedsub_core.errors import ConfigError
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle

SHARES = "p2=0.5,p3=0.25"
TURN = Turn(1, 1, 0)


def test_the_pull_grows_with_what_a_device_lacks() -> None:
    """W - a = .2 and p = .5: the gradient is 2 * mu * p * (w - a) = .2, the term .02."""
    settings = TrainingSettings(lr=1.0, momentum=0.0)
    moved = {}
    for share in (0.5, 1.0):
        learner = one_number("subflot", Slope(0.0), settings, mu=1.0)
        data = samples(2)
        data = type(data)(data.clients, data.x, data.y, data.counts, (share,))
        # A step of slope -.2 brings w to a + .2, the next one pulls.
        learner.loss = Slope(-0.2)
        learner.settings = TrainingSettings(lr=1.0, momentum=0.0, epochs=2, batch_size=64)
        state, _, _ = learner.fit(filled(learner, 1, model=0.0), [Bundle()], data, TURN)
        moved[share] = weights(learner, state, "model")[0]
    assert moved[1.0] == pytest.approx(0.4), "whole devices are not pulled"
    assert moved[0.5] == pytest.approx(0.4 - 0.2)


def test_without_its_parts_and_with_whole_devices_it_is_fedavg(run_method: RunMethod) -> None:
    off = {"otp": False, "ota": False}
    ours, theirs = run_method("subflot", hyper=off), run_method("fedavg")
    for name, tensor in theirs.states[-1].items():
        torch.testing.assert_close(ours.states[-1][name], tensor, atol=1e-6, rtol=0)


@pytest.mark.parametrize("off", [{}, {"otp": False}, {"sar": False}, {"ota": False}])
def test_each_part_can_be_switched_off(off: dict[str, bool], run_method: RunMethod) -> None:
    run = run_method("subflot", hyper=off, capacities=SHARES)
    assert [len(run.models()[f"p{i}"]["linear1.bias"]) for i in (1, 2, 3)] == [128, 64, 32]
    assert not run.metric("refused_replies")
    if off:
        whole = run_method("subflot", capacities=SHARES)
        assert not torch.equal(run.states[-1]["linear1.weight"], whole.states[-1]["linear1.weight"])


@pytest.mark.parametrize("hyper", [{"alpha": 1.0}, {"alpha": 0.0, "alpha_of": "global"}])
def test_all_of_alpha_is_the_clients_own_last_model(
    hyper: dict[str, Any], run_method: RunMethod
) -> None:
    run = run_method("subflot", hyper=hyper, capacities=SHARES)
    for client, model in run.models().items():
        upload = run.uploads[-1][client]
        for name, tensor in model.items():
            torch.testing.assert_close(tensor, torch.from_numpy(upload.floats(name)))


def test_it_goes_on_as_if_it_had_not_been_interrupted(run_method: RunMethod) -> None:
    whole = run_method("subflot", capacities=SHARES)
    first = run_method("subflot", capacities=SHARES, until=2)
    assert_equal(run_method("subflot", capacities=SHARES, after=first).states[-1], whole.states[-1])


def test_whoever_is_forgotten_leaves_no_model(run_method: RunMethod) -> None:
    run = run_method("subflot", capacities=SHARES)
    strategy, state = run.strategy, run.states[-1]
    assert any("/p2/" in name for name in state)
    assert not any("/p2/" in name for name in strategy.half.without(state, "p2"))


def test_exact_plans_name_the_extra_that_brings_them(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsub_core.extras.find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"subflot.plan = exact needs ot.*fedsub\[transport\]"
    ) as no:
        run_method("subflot")
    assert "or set subflot.plan=sinkhorn, which needs no package" in str(no.value)
