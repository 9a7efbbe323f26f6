"""What a method predicts with beside its model: tested, kept, used and exported by its own rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedsub.engines.saved_models import save_models
from fedsub.export.formats import export
from fedsub.testing.runs import RunMethod
from fedsub.testing.tested_model_tests import FEDERATION, assert_predicts_what_was_measured
from fedsub_client.learner import Fitted, Received, State
from fedsub_client.loaded_model import load_model
from fedsub_client.methods.ditto import DittoLearner
from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_client.predictor import Predictor
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import RunError
from fedsub_core.methods.card_parts import Prediction
from fedsub_core.methods.table import METHODS
from fedsub_core.models.architecture import Shape
from fedsub_core.models.model import Model, Params
from fedsub_core.models.to_torch import to_torch
from fedsub_core.turn import Turn

from ..fedsub_core.models.modules import MODULES

HEAT = "heat"
MODULES_FILE = Path(__file__).parents[1] / "fedsub_core/models/modules.py"


@dataclass(frozen=True)
class Softened(Predictor):
    """Logits over a heat of the person's own, to the power of `power`."""

    power: int = 2

    @classmethod
    def described(cls, model: Model, facts: Mapping[str, Any]) -> Softened:
        """Inverse of :meth:`describe`."""
        return cls(model, facts["power"])

    def describe(self) -> dict[str, Any]:
        """Return the power."""
        return {"power": self.power}

    @property
    def tensor_shapes(self) -> Mapping[str, Shape]:
        """The model's, and the heat ``[]``."""
        return {**self.model.tensor_shapes, HEAT: ()}

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Return logits ``[clients, samples, classes]``."""
        return super().forward(params, x) / params[HEAT].view(-1, 1, 1) ** self.power

    def to_torch(self, params: Params) -> nn.Module:
        """Return a module of one person's model and heat."""
        module = to_torch(self.model, params)
        last = module[-1]  # type: ignore[index]
        for tensor in (last.weight, last.bias):
            tensor.div_(params[HEAT] ** self.power)
        return module


class SoftenedLearner(FedAvgLearner):
    """FedAvg's, with everybody's own heat: 1 for whoever has two classes, 2 for three."""

    def init(self, clients: int, seed: int) -> State:
        """Return FedAvg's state, and a heat of 1."""
        return super().init(clients, seed) | {HEAT: torch.ones(clients)}

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Do FedAvg's round, and count one's classes."""
        state, uploads, reports = super().fit(state, received, data, turn)
        return state | {HEAT: data.holds(3).sum(1) - 1.0}, uploads, reports

    def personal(self, state: State) -> Params:
        """Return the model and the heat."""
        return super().personal(state) | {HEAT: state[HEAT]}


@dataclass(frozen=True)
class Both(Predictor):
    """The mean of two models' probabilities."""

    def describe(self) -> dict[str, Any]:
        """Return which."""
        return {"models": DittoLearner.models}

    @property
    def tensor_shapes(self) -> Mapping[str, Shape]:
        """Either's, behind its name."""
        shapes = self.model.tensor_shapes.items()
        return {f"{of}.{name}": shape for of in DittoLearner.models for name, shape in shapes}

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Return log probabilities ``[clients, samples, classes]``."""
        names = self.model.tensor_shapes
        each = [{n: params[f"{of}.{n}"] for n in names} for of in DittoLearner.models]
        return torch.stack([self.model.forward(one, x).softmax(2) for one in each]).mean(0).log()


class BothLearner(DittoLearner):
    """Ditto's, of which both models predict."""

    predict_by = DittoLearner.models

    def personal(self, state: State) -> Params:
        """Return both."""
        return {name: state[name] for name in self.predictor.tensor_shapes}


def test_each_of_several_models_has_its_own_statistics(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module with static norms; with means over rounds, too."""
    card = replace(METHODS["ditto"], name="both", learner=f"{__name__}:BothLearner")
    monkeypatch.setitem(METHODS, "both", replace(card, prediction=Prediction(f"{__name__}:Both")))
    module = f"{MODULES_FILE}:{MODULES['normalised'].__name__}"
    for smooth in (0.0, 0.8):
        keys: dict[str, Any] = {"model": module, "norm": "static", "hyper": {"smooth": smooth}}
        run = run_method("both", rounds=2, **keys)
        for model in run.models().values():
            for name in ("1.running_mean", "1.running_var"):
                assert not torch.equal(model[f"global.{name}"], model[f"personal.{name}"])
        assert all(np.isfinite(loss) for loss in run.metric("loss").values())


@pytest.fixture
def softened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offer a method whose card names a predictor, as a package does."""
    card = replace(
        METHODS["fedavg"],
        name="softened",
        learner=f"{__name__}:SoftenedLearner",
        prediction=Prediction(f"{__name__}:Softened"),
    )
    monkeypatch.setitem(METHODS, "softened", card)


@pytest.mark.usefixtures("softened")
def test_of_a_packages_method(
    run_method: RunMethod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tested with it, kept with it, exported with it: the same probabilities everywhere."""
    run, plain = run_method("softened", FEDERATION), run_method("fedavg", FEDERATION)
    assert assert_predicts_what_was_measured(run, tmp_path) > 100
    losses, accuracies = run.metric("loss"), run.metric("accuracy")
    assert accuracies == plain.metric("accuracy"), "a heat changes no answer"
    same = {key for key, loss in plain.metric("loss").items() if losses[key] == loss}
    assert {client for _, client in same} == {"p2", "p4"}, "whose heat is 1"
    file = tmp_path / "p3.safetensors"
    loaded = load_model(file)
    assert loaded.params[HEAT] == 2 and loaded.described == {"power": 2}
    for format in ("torchscript", "safetensors"):
        difference = export(loaded, format, tmp_path / f"p3.{format}", force=True)
        assert difference is not None and difference < 1e-5
    monkeypatch.delitem(METHODS, "softened")
    with pytest.raises(RunError, match="client 'p3': unknown method 'softened'"):
        load_model(file)


def test_prototypes_beside_a_module_are_kept_and_used(
    run_method: RunMethod, tmp_path: Path
) -> None:
    module = f"{MODULES_FILE}:{MODULES['normalised'].__name__}"
    run = run_method("fedproto", FEDERATION, hyper={"predict": "nearest"}, model=module)
    save_models(run.grid, run.strategy, tmp_path)
    loaded = load_model(tmp_path / "p2.safetensors", module)
    x = np.random.default_rng(0).standard_normal((9, *loaded.shape), np.float32)
    assert loaded.probabilities(x).shape == (9, 3)


def test_prototypes_are_a_part_of_whom_they_predict_for(
    run_method: RunMethod, tmp_path: Path
) -> None:
    run = run_method("fedproto", FEDERATION, hyper={"predict": "nearest"})
    assert assert_predicts_what_was_measured(run, tmp_path) > 100
    loaded = load_model(tmp_path / "p2.safetensors")
    assert loaded.params["nearest.held"].tolist() == [1, 1, 1]
    some, none = (loaded.params | {"nearest.held": torch.tensor(held)} for held in (
        [1.0, 0, 1], [0.0, 0, 0]))  # fmt: skip
    answers = []
    for i, params in enumerate((loaded.params, some, none)):
        one = replace(loaded, params=params)
        for format in ("torchscript", *["onnx"] * (params is some)):  # ONNX takes seconds
            difference = export(one, format, tmp_path / f"{i}.{format}")
            assert difference is not None and difference < 1e-5
        x = np.random.default_rng(0).standard_normal((40, *one.shape), np.float32)
        answers.append(one.probabilities(x))
    assert not any(np.allclose(a, b) for a, b in pairwise(answers))
