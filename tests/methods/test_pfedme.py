"""pFedMe: numbers by hand, and when it is another method."""

from typing import Any

import pytest
import torch

from fedsub.testing.one_number import Slope, filled, one_number, samples, weights
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod
from fedsub_core.errors import ConfigError
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle

TURN = Turn(1, 1, 0)


def test_one_step_of_both_models() -> None:
    """p = 1, slope 2, K = 1, personal-lr 0.1, lam 15, lr 0.005: theta = 0.8, w = 0.985."""
    settings = TrainingSettings(lr=0.005, momentum=0.9)
    learner = one_number("pfedme", Slope(2.0), settings, personal_steps=1, personal_lr=0.1)
    state = filled(learner, 1, local=1.0, personal=5.0)
    state, (upload,), _ = learner.fit(state, [Bundle()], samples(3), TURN)
    assert weights(learner, state, "personal") == [pytest.approx(0.8)]
    assert weights(learner, state, "local") == [pytest.approx(0.985)]
    assert upload.floats("linear1.weight").item() == pytest.approx(0.985)


def test_the_pull_is_felt_from_the_second_inner_step_on() -> None:
    """p = 1, slope 2, K = 2, personal-lr 0.1, lam 5, lr 0.005: theta 0.8, then 0.7; w = 0.9925."""
    keys: dict[str, Any] = {"personal_steps": 2, "personal_lr": 0.1, "lam": 5.0}
    learner = one_number("pfedme", Slope(2.0), TrainingSettings(lr=0.005), **keys)
    state = filled(learner, 1, local=1.0, personal=5.0)
    state, _, _ = learner.fit(state, [Bundle()], samples(3), TURN)
    assert weights(learner, state, "personal") == [pytest.approx(0.7)]
    assert weights(learner, state, "local") == [pytest.approx(0.9925)]


def test_the_personal_model_goes_on_from_batch_to_batch() -> None:
    """Two batches, lam 0: theta takes two steps, w none."""
    settings = TrainingSettings(lr=0.005)
    keys: dict[str, Any] = {"personal_steps": 1, "personal_lr": 0.1, "lam": 0.0}
    learner = one_number("pfedme", Slope(2.0), settings, **keys)
    state = filled(learner, 1, local=1.0, personal=5.0)
    state, _, _ = learner.fit(state, [Bundle()], samples(33), TURN)
    assert weights(learner, state, "personal") == [pytest.approx(0.6)]
    assert weights(learner, state, "local") == [1.0]


def test_a_device_remembers_that_it_has_its_first_model(run_method: RunMethod) -> None:
    """Only the first goes into the personal model, too: later ones must not replace it."""
    run = run_method("pfedme", rounds=2)
    assert int(run.client_state("p1")["met"]) == 1


def test_without_a_pull_the_global_model_never_moves(run_method: RunMethod) -> None:
    run = run_method("pfedme", hyper={"lam": 0.0})
    start = run.strategy.model.init(1, seed=0)
    for key, tensor in run.states[-1].items():
        torch.testing.assert_close(tensor, start[key][0], atol=1e-6, rtol=0)  # but for the mean


def test_one_step_on_one_batch_is_fedavg_at_a_smaller_rate(run_method: RunMethod) -> None:
    """K = 1, one batch: w moves by lr * lam * personal-lr times the gradient."""
    hyper = {"personal_steps": 1, "lam": 2.0, "personal_lr": 0.5}
    pfedme = run_method("pfedme", hyper=hyper, lr=0.1, batch_size=256)
    fedavg = run_method("fedavg", lr=0.1 * 2.0 * 0.5, momentum=0.0, batch_size=256)
    for key, tensor in fedavg.states[-1].items():
        torch.testing.assert_close(pfedme.states[-1][key], tensor, atol=1e-6, rtol=0)


def test_the_server_moves_by_beta(run_method: RunMethod) -> None:
    half, whole = (
        run_method("pfedme", hyper={"beta": beta}, rounds=1).states[-1] for beta in (0.5, 1.0)
    )
    start = run_method("fedavg", rounds=1).strategy.model.init(1, seed=0)
    for key, tensor in whole.items():
        torch.testing.assert_close(half[key], (start[key][0] + tensor) / 2)


def test_rates_that_overshoot_are_refused() -> None:
    for lr, personal_lr in ((0.07, 0.01), (0.001, 0.14)):
        with refused(ConfigError, "pfedme.lam", expected=[1, 2]):
            one_number("pfedme", Slope(1.0), TrainingSettings(lr=lr), personal_lr=personal_lr)
