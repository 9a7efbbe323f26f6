"""Means of models over rounds: for every method, and by hand for FedAvg and Ditto."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub.testing import battery
from fedsub.testing.cohort_tests import CohortTests
from fedsub.testing.engine_tests import by_deployment, check_engine
from fedsub.testing.one_number import BIAS, WEIGHT, Slope, filled, one_number, samples, weights
from fedsub.testing.round_tests import RoundTests
from fedsub.testing.runs import RunMethod
from fedsub.testing.tested_model_tests import BestRoundTests, MeanTests, PredictionTests
from fedsub_client.learner import Learner
from fedsub_core.methods.card import Hyperparameters, smooth
from fedsub_core.methods.table import HOUSE, METHODS
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle, Floats

from ..fedsub_core.models.modules import MODULES

TestEveryMethod = battery(*HOUSE, parts=(MeanTests,), cover=True)

#: One that adapts what it receives, one that keeps two models, one that mixes two.
UNLIKE = ("fedavg-finetune", "ditto", "apfl")


def with_means(hyperparameters: type[Hyperparameters]) -> type[Hyperparameters]:
    """Return hyperparameters of which means over rounds are the default."""

    @dataclass(frozen=True)
    class WithMeans(hyperparameters):  # type: ignore[valid-type, misc]
        smooth: float = smooth(0.8)

    return WithMeans


class TestWithMeans(battery(*UNLIKE, parts=(CohortTests, PredictionTests, BestRoundTests))):  # type: ignore[misc]
    """What holds for methods whose models predict holds for those whose means do."""

    @pytest.fixture(autouse=True)
    def smooth(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        card = METHODS[name]
        made = replace(card, hyperparameters=with_means(card.hyperparameters))
        monkeypatch.setitem(METHODS, name, made)

    def test_devices_keep_their_means(self, name: str, tmp_path: Path) -> None:
        """By messages and saved state, as in one stack."""
        assert METHODS[name].agreed().smooth == 0.8
        RoundTests().test_a_device_is_a_cohort_of_one(name, tmp_path)


def mean(tested: list[Any], most: float) -> Any:
    """Return the mean of what was tested in rounds 1, 2, ..., one after the other."""
    found = tested[0]
    for round, value in enumerate(tested[1:], 2):
        kept = min(most, (round - 1) / (round + 9))
        found = kept * found + (1 - kept) * value
    return found


def models(run_method: RunMethod, name: str, **hyper: Any) -> list[dict[str, dict[str, Tensor]]]:
    """Return everybody's tested models after each of five rounds."""
    keys: dict[str, Any] = {"rounds": 5, "hyper": hyper}
    return [run_method(name, until=round, **keys).models() for round in range(1, 6)]


def test_dittos_means_are_of_its_personal_models(run_method: RunMethod) -> None:
    plain, means = (models(run_method, "ditto", smooth=smooth) for smooth in (0.0, 0.2))
    for round in range(1, 6):
        for client, found in means[round - 1].items():
            for name, tensor in found.items():
                expected = mean([own[client][name] for own in plain[:round]], 0.2)
                torch.testing.assert_close(tensor, expected, atol=1e-6, rtol=0)


def test_fedavgs_means_are_of_what_it_received(run_method: RunMethod) -> None:
    """Of the first model, too; the newest counts as the round's."""
    plain, means = (models(run_method, "fedavg", smooth=smooth) for smooth in (0.0, 0.2))
    start = run_method("fedavg", until=1).strategy.model.init(1, 0)
    for round in range(1, 6):
        kept = min(0.2, (round - 1) / (round + 9))
        for client, found in means[round - 1].items():
            for name, tensor in found.items():
                came = [start[name][0], *(own[client][name] for own in plain[:round])]
                expected = kept * mean(came[:-1], 0.2) + (1 - kept) * came[-1]
                torch.testing.assert_close(tensor, expected, atol=1e-6, rtol=0)


SETTINGS = TrainingSettings(lr=1.0, momentum=0.0)


def came(weight: float) -> Bundle:
    one = {WEIGHT: np.full((1, 1), weight), BIAS: np.zeros(1)}
    return Bundle(tensors={name: Floats(value.astype(np.float32)) for name, value in one.items()})


def answer(learner: Learner, state: dict[str, Tensor]) -> list[float]:
    return learner.predicted_by(state)[WEIGHT].flatten().tolist()


def test_one_number_by_hand() -> None:
    """It falls by 1 a round, from 8; in round 11 half of the past is kept, with most = 0.4 less."""
    learner = one_number("local", Slope(1.0), SETTINGS, smooth=0.4)
    state, data = filled(learner, 1, model=8.0), samples(3)
    for round, expected in ((1, 7.0), (2, 6 * 10 / 11 + 7 / 11)):
        state, _, _ = learner.work(state, [Bundle()], data, Turn(round, 20, 0))
        assert answer(learner, state) == pytest.approx([expected])
        assert weights(learner, state, "model") == [8.0 - round], "training goes on from the last"
    before = answer(learner, state)[0]
    state, _, _ = learner.work(state, [Bundle()], data, Turn(11, 20, 0))
    assert answer(learner, state) == pytest.approx([0.4 * before + 0.6 * 5])
    tested = learner.personalise(state, [Bundle()], data, Turn(11, 20, 0))
    assert answer(learner, tested) == answer(learner, state), "a test adds nothing"


def test_who_joins_late_or_gets_a_class_begins_anew() -> None:
    learner = one_number("fedavg", Slope(1.0), SETTINGS, smooth=0.4, tested="trained")
    state, turn = filled(learner, 1, model=8.0), Turn(50, 60, 0)
    # Never trained, it is tested with what it starts from.
    tested = learner.personalise(state, [came(3.0)], samples(3), turn)
    assert answer(learner, tested) == [3.0]
    state, _, _ = learner.work(state, [came(3.0)], samples(3), turn)
    assert answer(learner, state) == [2.0], "what it was drawn with counts for nothing"
    state, _, _ = learner.work(state, [came(3.0)], samples(3), Turn(51, 60, 0))
    assert answer(learner, state) == [2.0]
    state, _, _ = learner.work(state, [came(6.0)], samples(3), Turn(52, 60, 0))
    assert answer(learner, state) == pytest.approx([0.4 * 2 + 0.6 * 5])
    forgot = state | {"known classes": torch.zeros(1, 1)}
    state, _, _ = learner.work(forgot, [came(6.0)], samples(3), Turn(53, 60, 0))
    assert answer(learner, state) == [5.0], "a class came that the mean knew nothing of"


def test_what_is_adapted_is_the_mean_and_what_is_adapted_answers() -> None:
    settings = replace(SETTINGS, batch_size=3)
    learner = one_number("fedavg-finetune", Slope(1.0), settings, smooth=0.4, finetune_epochs=2)
    state, turn = filled(learner, 1, model=8.0), Turn(50, 60, 0)
    state, _, _ = learner.work(state, [came(10.0)], samples(3), turn)
    assert answer(learner, state) == [10.0], "as it was received"
    tested = learner.personalise(state, [came(20.0)], samples(3), turn)
    assert answer(learner, tested) == pytest.approx([0.4 * 10 + 0.6 * 20 - 2])


def test_static_norms_use_statistics_of_the_mean_model(run_method: RunMethod) -> None:
    file = Path(__file__).parents[1] / "fedsub_core/models/modules.py"
    module = f"{file}:{MODULES['normalised'].__name__}"
    keys: dict[str, Any] = {"rounds": 3, "model": module, "norm": "static"}
    run = run_method("ditto", hyper={"smooth": 0.8}, **keys)
    tested, strategy = run.models(), run.strategy
    (cohort,) = run.grid.cohorts
    turn, scaling = strategy.turn(3), strategy.population.agreed.scaling
    train, _ = cohort.data.at(3, scaling)
    state = cohort.personalised(turn, scaling, range(4), [Bundle()] * 4)
    learner = cohort.learner
    mean, last = learner.predicted_by(state), learner.personal(cohort.state)
    ours, others = (learner.model.settled(own, train) for own in (mean, last))
    assert ours.keys() == {"1.running_mean", "1.running_var"}
    for name, statistic in ours.items():
        assert torch.equal(mean[name], statistic) and not torch.equal(statistic, others[name])
        for i, client in enumerate(cohort.clients):
            torch.testing.assert_close(tested[client.client][name], statistic[i])


@pytest.mark.slow
@pytest.mark.release
def test_a_deployment_gives_what_one_process_gives(tmp_path: Path) -> None:
    names = ["fedavg", "ditto"]
    check_engine(by_deployment, names, tmp_path, *(f"{name}.smooth=0.8" for name in names))
