"""FedPer and FedRep: a common body under everybody's own head."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.studies.run import load_data
from fedsub.testing.one_number import TWO, Slope, filled, one_number, samples
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import write_federation
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.kinds import mlp
from fedsub_core.training import CE, Gradient, TrainingSettings, Turn, train
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.averaging import weighted_mean

BODY, HEAD = "linear1.weight", "linear2.weight"
TURN = Turn(1, 2, 0)
PLAIN = TrainingSettings(lr=0.1, momentum=0.0)


def bodies(*values: float) -> dict[str, Bundle]:
    """Return uploads of 1, 3, 5, ... samples whose body is one number."""
    one = [Floats(np.full((1, 1), value, np.float32)) for value in values]
    return {f"c{i}": Bundle(2 * i + 1, tensors={BODY: part}) for i, part in enumerate(one)}


def test_bodies_are_averaged_by_samples() -> None:
    """n = 1, 3, bodies 0 and 4: 3."""
    start = {BODY: torch.zeros(1, 1)}
    assert weighted_mean(bodies(0.0, 4.0), start, [0.25, 0.75])[BODY].item() == 3.0


@pytest.mark.parametrize("name", ["fedper", "fedrep"])
def test_only_the_body_travels_and_a_download_leaves_the_head(name: str) -> None:
    learner = one_number(name, Slope(0.0), PLAIN, TWO)
    state = filled(learner, 2, model=7.0)
    sent = bodies(1.0, 2.0).values()
    received = learner.receive(state, list(sent))
    assert received[f"model.{BODY}"].flatten().tolist() == [1.0, 2.0]
    assert torch.equal(received[f"model.{HEAD}"], state[f"model.{HEAD}"])
    _, uploads, _ = learner.fit(received, [Bundle(), Bundle()], samples(2, 3), Turn(1, 1, 0))
    assert all(set(upload.tensors) == {BODY, "linear1.bias"} for upload in uploads)


@pytest.mark.parametrize("name", ["fedper", "fedrep"])
def test_models_share_a_body_and_not_a_head(name: str, run_method: RunMethod) -> None:
    models = list(run_method(name).models().values())
    for other in models[1:]:
        assert torch.equal(models[0]["linear2.weight"], other["linear2.weight"])
        assert not torch.equal(models[0]["linear3.weight"], other["linear3.weight"])
    deeper = run_method(name, hyper={"head_layers": 2})
    assert set(deeper.states[-1]) == {"linear1.weight", "linear1.bias"}


@pytest.mark.parametrize("name", ["fedper", "fedrep", "fedavg-finetune"])
def test_a_head_of_nothing_or_everything_is_refused(name: str, tmp_path_factory: object) -> None:
    with refused(ConfigError, "head-layers", got=0):
        read_config(None, {"method": name, f"{name}.head-layers": "0"})


@pytest.mark.parametrize(
    ("name", "other"),
    [("fedper", {}), ("fedrep", {}), ("fedavg-finetune", {"fedavg-finetune.finetune": "head"})],
)
def test_a_head_of_everything_is_refused_before_the_first_round(
    name: str, other: dict[str, str], tmp_path: Path
) -> None:
    write_federation(tmp_path / "data", people())
    keys = {"data": str(tmp_path / "data"), "method": "local", "beside": name}
    keys |= other | {f"{name}.head-layers": "3"}
    with refused(ConfigError, "head", got="3 layers", expected=["1 to 2", 3]):
        load_data(read_config(None, keys))


def test_a_last_round_in_which_nothing_would_be_trained_is_refused() -> None:
    hyper: dict[str, Any] = {"finetune": True, "head_epochs": 0}
    with refused(ConfigError, "finetune = true", "head-epochs = 0"):
        one_number("fedrep", Slope(2.0), PLAIN, TWO, **hyper)


def test_heads_alone_leave_the_body_to_the_bit_and_many_epochs_see_it_once() -> None:
    """Epochs above a body computed once are those of passing through it every time."""
    model = mlp(4, 3)
    held = Stack(("a", "b"), torch.randn(2, 70, 4), torch.randint(0, 3, (2, 70)), (70, 41))
    start, settings = model.init(2, 0), TrainingSettings(lr=0.3)
    many = train(model, start, held, TURN, settings, only=model.head(), epochs=3)
    slow: dict[str, Any] = {"gradient": Gradient(model, CE, model.head()), "epochs": 3}
    slowly, loss = train(model, start, held, TURN, settings, only=model.head(), **slow)
    for name, tensor in many.params.items():
        assert torch.equal(tensor, start[name]) == (not name.startswith(model.head()[0]))
        torch.testing.assert_close(tensor, slowly[name], atol=1e-6, rtol=0)
    torch.testing.assert_close(many.loss, loss)
    # Who else is in the stack changes nothing.
    alone = {name: tensor[1:] for name, tensor in start.items()}
    other = replace(held.select([1]), x=held.x[1:, :41], y=held.y[1:, :41])
    found, _ = train(model, alone, other, TURN, settings, only=model.head(), epochs=3)
    for name, tensor in found.items():
        assert torch.equal(tensor[0], many.params[name][1])


def test_fedrep_trains_first_the_head_then_the_body() -> None:
    learner = one_number("fedrep", Slope(2.0), PLAIN, TWO, head_epochs=3, head_lr_factor=10.0)
    state, (upload,), _ = learner.fit(
        filled(learner, 1, model=0.0), [Bundle()], samples(4), Turn(1, 2, 0)
    )
    # The head: 3 epochs of one batch at rate 1; the body: one at rate 0.1.
    assert state[f"model.{HEAD}"].item() == pytest.approx(-6.0)
    assert state[f"model.{BODY}"].item() == upload.floats(BODY).item() == pytest.approx(-0.2)


def test_without_head_epochs_the_head_never_changes(run_method: RunMethod) -> None:
    run = run_method("fedrep", hyper={"head_epochs": 0})
    start = run.strategy.model.init(1, seed=0)
    for model in run.models().values():
        assert torch.equal(model["linear3.weight"], start["linear3.weight"][0])
        assert not torch.equal(model["linear1.weight"], start["linear1.weight"][0])


def test_the_last_round_may_train_heads_alone_of_everybody(run_method: RunMethod) -> None:
    hyper = {"finetune": True}
    run = run_method("fedrep", hyper=hyper, clients_per_round=2)
    assert [len(uploads) for uploads in run.uploads] == [2, 2, 4]
    # Bodies came back as they went, so that their mean is what it was.
    before, after = run.states[-2], run.states[-1]
    for name in after.keys() - {"trained.clients"}:
        torch.testing.assert_close(after[name], before[name], atol=1e-6, rtol=0)
    assert_equal(run.states[0], run_method("fedrep", clients_per_round=2).states[0])
