"""Ditto: numbers by hand, and when its models are another method's."""

import pytest
import torch

from fedsub.testing.one_number import Slope, filled, one_number, samples, weights
from fedsub.testing.runs import RunMethod, assert_equal
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle

TURN = Turn(1, 1, 0)


@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
def test_uploads_are_fedavgs(lam: float, run_method: RunMethod) -> None:
    ditto, fedavg = run_method("ditto", hyper={"lam": lam}), run_method("fedavg")
    for ours, theirs in zip(ditto.states, fedavg.states, strict=True):
        assert_equal(ours, theirs)


def test_without_a_pull_the_personal_model_is_local(run_method: RunMethod) -> None:
    ditto, local = run_method("ditto", hyper={"lam": 0.0}), run_method("local")
    for client, model in local.models().items():
        assert_equal(ditto.models()[client], model)
    pulled = run_method("ditto", hyper={"lam": 1.0}).models()
    assert not torch.equal(pulled["p1"]["linear1.weight"], local.models()["p1"]["linear1.weight"])


def test_the_pull_is_to_the_model_received_not_to_the_one_trained() -> None:
    """No momentum, lam * lr = 1 and no slope: v = w, though the copy of w moved on."""
    settings = TrainingSettings(lr=0.5, momentum=0.0)
    learner = one_number("ditto", Slope(0.0), settings, lam=2.0)
    state = filled(learner, 1, **{"global": 3.0, "personal": 8.0})
    state, _, _ = learner.fit(state, [Bundle()], samples(3), TURN)
    assert weights(learner, state, "personal") == [3.0]
    sloped = one_number("ditto", Slope(4.0), settings, lam=2.0)
    state, (upload,), _ = sloped.fit(
        filled(sloped, 1, **{"global": 3.0, "personal": 8.0}), [Bundle()], samples(3), TURN
    )
    # The global copy went to 3 - 0.5 * 4 = 1; the personal model to 8 - 0.5 * (4 + 2 * (8 - 3)).
    assert upload.floats("linear1.weight").item() == 1.0
    assert weights(sloped, state, "personal") == [1.0]
    assert weights(sloped, state, "global") == [1.0]


def test_the_personal_model_may_train_longer() -> None:
    settings = TrainingSettings(lr=0.1, momentum=0.0)
    learner = one_number("ditto", Slope(1.0), settings, lam=0.0, personal_epochs=3)
    state = filled(learner, 1, **{"global": 0.0, "personal": 0.0})
    state, _, _ = learner.fit(state, [Bundle()], samples(3), TURN)
    assert weights(learner, state, "global") == [pytest.approx(-0.1)]
    assert weights(learner, state, "personal") == [pytest.approx(-0.3)]
