"""The model that a weak device would get: by the method's own rule, or a part of a person's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import Tensor

from fedsub.cli import cli
from fedsub.engines.simulation import train_method
from fedsub.export.formats import export
from fedsub.export.weak import weak_model
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_client.loaded_model import load_model
from fedsub_client.personal_model import PersonalModel
from fedsub_core.config.run_config import RunConfig, dump_toml
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.models.known_code import note_code
from fedsub_server.rundb import RunDatabase

ROUNDS = 2


def trained(folder: Path, name: str, **keys: Any) -> PersonalModel:
    """Run a method into a folder; return the first person's model."""
    given: dict[str, Any] = {"rounds": ROUNDS, "device": "cpu", "threads": 1, "lr": 0.05}
    config = RunConfig(method=name, beside="", **given | keys)
    (folder / "run.toml").write_text(dump_toml(config))
    note_code(config.model)
    train_method(config, name, people(), folder / name, lambda round: None)
    return load_model(folder / name / "models" / "p1.safetensors", keys.get("model", ""))


def server_state(folder: Path, name: str) -> dict[str, Tensor]:
    with RunDatabase(folder / name / "state.db") as database:
        return dict(database.load()[1]["server"])


@pytest.mark.parametrize("name, first", [("heterofl", 0)])
def test_a_weak_device_gets_the_units_that_the_method_would_send(
    name: str, first: int, tmp_path: Path
) -> None:
    """The `first` of them is what a device holds in the round after the last."""
    own = trained(tmp_path, name, capacities="p1=1/8")
    weak, state = weak_model(own, 0.25, tmp_path), server_state(tmp_path, name)
    assert own.params["linear1.bias"].shape == (16,) and weak.params["linear1.bias"].shape == (32,)
    torch.testing.assert_close(
        weak.params["linear1.bias"], state["linear1.bias"][first : first + 32]
    )
    whole = weak_model(own, 1.0, tmp_path)
    torch.testing.assert_close(whole.params["linear2.weight"], state["linear2.weight"])
    assert export(weak, "torchscript", tmp_path / "weak.pt") is not None


@pytest.mark.parametrize("name", ["local", "fedavg"])
def test_without_a_rule_it_gets_the_first_units_of_the_persons_model(
    name: str, tmp_path: Path
) -> None:
    own = trained(tmp_path, name)
    for run in (tmp_path, None):
        weak = weak_model(own, 0.25, run)
        assert torch.equal(weak.params["linear1.weight"], own.params["linear1.weight"][:32])
        columns = own.params["linear2.weight"][:128, :32]
        assert torch.equal(weak.params["linear2.weight"], columns)
    data = people().clients["p1"].x
    np.testing.assert_allclose(weak.probabilities(data).sum(1), 1, atol=1e-5)


def test_a_part_that_a_person_never_held_is_refused(tmp_path: Path) -> None:
    own = trained(tmp_path, "local", capacities="p1=1/4")
    assert weak_model(own, 0.125, tmp_path).params["linear1.bias"].shape == (16,)
    with refused(ConfigError, "client 'p1'", "capacity", got=[0.5, "64 units of linear1"]):
        weak_model(own, 0.5, tmp_path)


def test_a_model_that_is_solved_has_no_part(tmp_path: Path) -> None:
    own = replace(trained(tmp_path, "local"), method="fedsub-ridge")
    with refused(ConfigError, "capacity", got=[0.25, "fedsub-ridge"]):
        weak_model(own, 0.25, tmp_path)


def test_a_run_without_a_finished_round_is_refused(tmp_path: Path) -> None:
    own = trained(tmp_path, "heterofl")
    (tmp_path / "heterofl" / "state.db").unlink()
    RunDatabase(tmp_path / "heterofl" / "state.db", {"method": "heterofl"}).close()
    with refused(RunError, got="heterofl", expected="one"):
        weak_model(own, 0.25, tmp_path)


def test_the_command_says_which_device_it_is_for(tmp_path: Path) -> None:
    trained(tmp_path, "heterofl")
    told = ["export", "--run", str(tmp_path), "--client", "p1", "--format", "safetensors"]
    output = str(tmp_path / "weak.safetensors")
    done = CliRunner().invoke(cli, [*told, "--output", output, "--capacity", "1/4"])
    assert done.exit_code == 0, done.output
    assert "p1, heterofl's model of round 2 for a device of capacity 0.25" in done.output
    assert load_model(output).params["linear1.bias"].shape == (32,)
    done = CliRunner().invoke(cli, [*told, "--output", output, "--capacity", "2"])
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == "--capacity: got '2', expected a share in (0, 1]"
