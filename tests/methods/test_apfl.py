"""APFL: numbers by hand, and when its models are another method's."""

import pytest

from fedsub.testing.one_number import Slope, filled, one_number, samples, weights
from fedsub.testing.runs import RunMethod, assert_equal, assert_equal_models
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle

TURN = Turn(1, 1, 0)


def test_alone_it_is_local(run_method: RunMethod) -> None:
    own = run_method("apfl", hyper={"alpha": 1.0, "adaptive": False})
    local = run_method("local")
    assert_equal_models(own, local)


def test_without_a_share_it_is_fedavg(run_method: RunMethod) -> None:
    none = run_method("apfl", hyper={"alpha": 0.0, "adaptive": False})
    fedavg = run_method("fedavg")
    assert_equal_models(none, fedavg)


@pytest.mark.parametrize("adaptive", [True, False])
def test_uploads_are_fedavgs(adaptive: bool, run_method: RunMethod) -> None:
    apfl, fedavg = run_method("apfl", hyper={"adaptive": adaptive}), run_method("fedavg")
    assert_equal(apfl.states[-1], fedavg.states[-1])


def test_a_step_of_own_model_and_alpha() -> None:
    """v = 1, slope 2, alpha 0.5, rate 0.1; the global model moves first, from 0.2 to p = 0.

    Then alpha is 0.5 - 0.1 * (v - p) * 2 = 0.3.
    """
    settings = TrainingSettings(lr=0.1, momentum=0.0)
    learner = one_number("apfl", Slope(2.0), settings)
    state = filled(learner, 1, **{"global": 0.2, "own": 1.0})
    state, (upload,), (report,) = learner.fit(state, [Bundle()], samples(3), TURN)
    assert upload.floats("linear1.weight").item() == pytest.approx(0.0)
    assert report["alpha"] == pytest.approx(0.3)
    # One's own model takes alpha times the gradient.
    assert weights(learner, state, "own") == [pytest.approx(1 - 0.1 * 0.5 * 2)]


def test_alpha_moves_with_the_first_batch_alone_and_stays_a_share() -> None:
    settings = TrainingSettings(lr=0.1, momentum=0.0, epochs=3)
    learner = one_number("apfl", Slope(2.0), settings)
    state = filled(learner, 2, **{"global": 0.0, "own": 1.0})
    state["own.linear1.weight"][1] = 90.0
    state, _, reports = learner.fit(state, [Bundle(), Bundle()], samples(70, 3), TURN)
    assert reports[0]["alpha"] == pytest.approx(0.26)
    assert reports[1]["alpha"] == 0.0


def test_alpha_is_a_clients_own_and_is_reported(run_method: RunMethod) -> None:
    run = run_method("apfl", lr=0.2)
    alphas = run.metric("alpha")
    assert len(alphas) == 3 * 4 and len(set(alphas.values())) > 4
    for (round, client), alpha in alphas.items():
        if round == 3:
            assert run.client_state(client)["alpha"].item() == pytest.approx(alpha)
