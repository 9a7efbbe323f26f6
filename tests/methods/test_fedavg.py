"""FedAvg and its nearest kin: numbers by hand, and when one is another."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from fedsub.testing.one_number import (
    BIAS,
    TWO,
    WEIGHT,
    Parabola,
    Slope,
    filled,
    one_number,
    samples,
    weights,
)
from fedsub.testing.runs import RunMethod, assert_equal
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle, Floats

TURN = Turn(1, 1, 0)
PLAIN = TrainingSettings(lr=0.1, momentum=0.0)


def download(value: float) -> Bundle:
    """Return a global model of one number."""
    weight, bias = torch.full((1, 1), value).numpy(), torch.zeros(1).numpy()
    return Bundle(tensors={WEIGHT: Floats(weight), BIAS: Floats(bias)})


def test_one_step_from_the_model_received() -> None:
    learner = one_number("fedavg", Slope(4.0), PLAIN)
    state = filled(learner, 1, model=7.0)
    state, (upload,), _ = learner.fit(state, [download(0.0)], samples(3), TURN)
    assert weights(learner, state, "model") == [pytest.approx(-0.4)]
    assert (upload.examples, upload.floats(WEIGHT).item()) == (3, pytest.approx(-0.4))


def test_without_a_pull_fedprox_is_fedavg(run_method: RunMethod) -> None:
    plain, same, pulled = (
        run_method("fedavg"),
        run_method("fedprox", hyper={"mu": 0.0}),
        run_method("fedprox", hyper={"mu": 0.5}),
    )
    assert_equal(same.states[-1], plain.states[-1])
    assert not torch.equal(pulled.states[-1][WEIGHT], plain.states[-1][WEIGHT])


def test_fedprox_adds_mu_times_the_distance_to_what_was_received() -> None:
    """A second step from p = -0.4 with w = 0, mu = 0.5: -0.4 - 0.1 * (4 - 0.2)."""
    settings = TrainingSettings(lr=0.1, momentum=0.0, epochs=2)
    learner = one_number("fedprox", Slope(4.0), settings, mu=0.5)
    state, _, _ = learner.fit(filled(learner, 1, model=7.0), [download(0.0)], samples(3), TURN)
    assert weights(learner, state, "model") == [pytest.approx(-0.4 - 0.1 * (4 - 0.5 * 0.4))]


def test_a_pull_of_one_over_the_rate_returns_to_what_was_received() -> None:
    """mu * lr = 1: every step starts from w again, so two end where one does: w - lr * slope."""
    for epochs in (1, 2):
        settings = TrainingSettings(lr=0.1, momentum=0.0, epochs=epochs)
        learner = one_number("fedprox", Slope(4.0), settings, mu=10.0)
        state, _, _ = learner.fit(filled(learner, 1, model=7.0), [download(2.0)], samples(3), TURN)
        assert weights(learner, state, "model") == [pytest.approx(2.0 - 0.4)]


def test_fine_tuning_happens_after_the_download_and_is_not_kept() -> None:
    """w = 0, gradient 4, one batch, lr 0.1: tested at -0.4."""
    learner = one_number("fedavg-finetune", Slope(4.0), PLAIN)
    state = filled(learner, 1, model=7.0)
    tested = learner.personalise(state, [download(0.0)], samples(3), TURN)
    assert weights(learner, tested, "model") == [pytest.approx(-0.4)]
    assert weights(learner, state, "model") == [7.0]


def test_without_an_epoch_fine_tuning_is_fedavg(run_method: RunMethod) -> None:
    plain = run_method("fedavg")
    none, one = (
        run_method("fedavg-finetune", hyper={"finetune_epochs": epochs}) for epochs in (0, 1)
    )
    for client, model in plain.models().items():
        assert_equal(none.models()[client], model)
        assert not torch.equal(one.models()[client][WEIGHT], model[WEIGHT])
    # Uploads are FedAvg's, however long a device fine-tunes.
    assert_equal(one.states[-1], plain.states[-1])


@pytest.mark.parametrize(
    ("layers", "expected"),
    [("all", [-0.2, -0.2]), ("head", [0.0, -0.2]), ("head-then-all", [-0.2, -0.4])],
)
def test_layers_that_are_fine_tuned(layers: str, expected: list[float]) -> None:
    settings = TrainingSettings(lr=0.1, momentum=0.0)
    learner = one_number("fedavg-finetune", Slope(2.0), settings, TWO, finetune=layers)
    tested = learner.personalise(filled(learner, 1, model=0.0), [Bundle()], samples(3), TURN)
    found = [float(tested[f"model.linear{i}.weight"]) for i in (1, 2)]
    assert found == pytest.approx(expected)


def test_fedsgd_is_fedavg_of_one_full_batch(run_method: RunMethod) -> None:
    sgd = run_method("fedsgd", lr=0.5, momentum=0.9, epochs=3, batch_size=4)
    avg = run_method("fedavg", lr=0.5, momentum=0.0, epochs=1, batch_size=256)
    for key, tensor in avg.states[-1].items():
        # Batches differ in how much they are padded, and so does the order of a sum.
        torch.testing.assert_close(sgd.states[-1][key], tensor, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    "changed", [{"optimiser": "adam"}, {"weight_decay": 0.3}, {"clip_norm": 0.01}]
)
def test_fedsgds_step_is_plain_whatever_the_optimiser(changed: dict[str, Any]) -> None:
    learner = one_number("fedsgd", Slope(4.0), replace(PLAIN, **changed))
    state, _, _ = learner.fit(filled(learner, 1, model=7.0), [download(0.0)], samples(3), TURN)
    assert weights(learner, state, "model") == [pytest.approx(-0.4)]


def test_fedsgd_takes_one_step_on_the_weighted_mean_gradient() -> None:
    """n = 1, 3, gradients 0, 4, lr 0.1, w = 0: -0.3."""
    means = []
    for slope, count in ((0.0, 1), (4.0, 3)):
        learner = one_number("fedsgd", Slope(slope), TrainingSettings(lr=0.1, epochs=5))
        _, (upload,), _ = learner.fit(
            filled(learner, 1, model=9.0), [download(0.0)], samples(count), TURN
        )
        means.append(upload.examples * upload.floats(WEIGHT).item())
    assert sum(means) / 4 == pytest.approx(-0.3)


def test_a_parabola_for_the_record() -> None:
    """The loss of other tests: its slope at p is p."""
    learner = one_number("fedavg", Parabola(), PLAIN)
    state, _, _ = learner.fit(filled(learner, 1, model=1.0), [Bundle()], samples(3), TURN)
    assert weights(learner, state, "model") == [pytest.approx(0.9)]
