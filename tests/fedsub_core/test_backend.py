"""Who computes is decided in one place, named once in the log, and kept with the run."""

import logging
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fedsub.engines.simulation import train_method
from fedsub_core import backend
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.kernels import library
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.models.layers import Linear, ReLU
from fedsub_core.models.model import Params
from fedsub_core.training import CE, Gradient, Objective, Pull, Term
from fedsub_core.training.objectives import Forward
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method

MODEL, X, SGD = mlp(3, 2), torch.zeros(1, 4, 3), TrainingSettings()
FEATURES = Chain((Linear("one", 4, 3), ReLU()), (3,))


class Other(Term):
    """A term of somebody's own."""

    def loss(self, forward: Forward, own: Params) -> Tensor:
        return forward.outputs[-1].sum()


@pytest.mark.parametrize(
    ("model", "objective", "settings", "gradients", "training"),
    [
        (MODEL, CE, SGD, "kernels", "kernels"),
        (MODEL, CE + Pull({}, 0.5), SGD, "kernels", "kernels"),
        (MODEL, CE, TrainingSettings(optimiser="adam"), "kernels", "the optimiser is adam"),
        (MODEL, CE, TrainingSettings(clip_norm=1.0), "kernels", "gradients are clipped"),
        (
            MODEL,
            CE + Other(),
            SGD,
            "the kernels do not know Other",
            "the kernels do not know Other",
        ),
        (FEATURES, CE, SGD, "the last layer makes no logits", "the last layer makes no logits"),
    ],
)
def test_the_choice_follows_from_model_objective_and_settings(
    model: Chain,
    objective: Term | Objective,
    settings: TrainingSettings,
    gradients: str,
    training: str,
    kernels: library.Kernels,
) -> None:
    gradient = Gradient(model, objective)
    for answer, expected in (
        (gradient.backend(X), gradients),
        (gradient.trained_by(X, settings), training),
    ):
        assert answer.kernels is (kernels if expected == "kernels" else None)
        assert (answer.name, answer.why) == (
            ("kernels", "") if expected == "kernels" else ("pytorch", expected)
        )


def test_a_gradient_of_a_methods_own_takes_its_own_steps(kernels: library.Kernels) -> None:
    class Own(Gradient):
        """A method's own."""

    answer = Own(MODEL, CE).trained_by(X, SGD)
    assert str(answer) == "pytorch (the method takes gradients of its own)"


def test_a_gpu_is_pytorchs() -> None:
    assert backend.for_passes(MODEL.known, X.to("meta")).why == "it computes on meta"


def test_the_log_names_it_once(kernels: library.Kernels, caplog: pytest.LogCaptureFixture) -> None:
    backend._say.cache_clear()
    with caplog.at_level(logging.INFO, "fedsub"):
        for _ in range(3):
            Gradient(MODEL, CE).trained_by(X, SGD)
            Gradient(MODEL, CE).trained_by(X, TrainingSettings(optimiser="adam"))
    assert [record.message for record in caplog.records] == [
        "training by kernels",
        "training by pytorch (the optimiser is adam)",
    ]


def config(method: str, rounds: int) -> RunConfig:
    return read_config(None, {"method": method, "beside": "", "rounds": rounds, "device": "cpu"})


def few() -> Federation:
    """Two people."""
    whole = load_federation("watch")
    return Federation(whole.card, dict(list(whole.clients.items())[:2]))


def test_a_run_keeps_who_trained(kernels: library.Kernels, tmp_path: Path) -> None:
    """And where it went on by another, both."""
    people, folder = few(), tmp_path / "fedavg"

    def go_on(rounds: int) -> str | None:
        train_method(config("fedavg", rounds), "fedavg", people, folder, lambda round: None)
        with RunDatabase(folder / "state.db") as database:
            return summarise_method(database, None).backend

    assert go_on(1) == "kernels"
    with library.switched_off():
        assert go_on(2) == "kernels, pytorch (there are no compiled kernels here)"
    assert go_on(3) == "kernels, pytorch (there are no compiled kernels here), kernels"


def test_what_trains_nothing_has_nobody_who_does(tmp_path: Path) -> None:
    name = "fedsub-ridge"
    train_method(config(name, 1), name, few(), tmp_path / name, lambda round: None)
    with RunDatabase(tmp_path / name / "state.db") as database:
        assert summarise_method(database, None).backend is None
