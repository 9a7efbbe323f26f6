"""Local work counted in steps: of everybody as many, by every trainer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.errors import ConfigError

#: Of three batches of 16 each, people's training parts; of one batch.
SAMPLES, FEW = 60, 20
#: One that trains by the whole loop, by batches of its own, in pairs, and twice.
TRAINERS = ["fedavg", "apfl", "perfedavg", "ditto"]


def alike(samples: int) -> Federation:
    """Return people of whom each has as many samples."""
    whole = people()
    chosen = {c: d.part(torch.arange(samples).numpy()) for c, d in whole.clients.items()}
    return replace(whole, clients=chosen)


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("name", TRAINERS)
def test_as_many_steps_as_an_epoch_has_are_an_epoch(name: str, run_method: RunMethod) -> None:
    federation, keys = alike(SAMPLES), {"rounds": 2, "split": "stratified"}
    epoch = run_method(name, federation, **keys)
    every = 2 if name == "perfedavg" else 3
    steps = run_method(name, federation, steps=every, **keys)
    assert_equal(steps.states[-1], epoch.states[-1])
    fewer = run_method(name, federation, steps=1, **keys)
    assert any(not torch.equal(fewer.states[-1][n], t) for n, t in epoch.states[-1].items())


def test_who_has_few_samples_goes_through_them_again(run_method: RunMethod) -> None:
    """Of one full batch three steps are three epochs, but for the order of the sums."""
    keys: dict[str, Any] = {"rounds": 1, "batch_size": FEW, "split": "stratified"}
    steps = run_method("fedavg", alike(FEW), steps=3, **keys)
    epochs = run_method("fedavg", alike(FEW), epochs=3, **keys)
    for name, tensor in epochs.states[-1].items():
        torch.testing.assert_close(steps.states[-1][name], tensor, atol=1e-5, rtol=0)


def test_a_device_of_its_own_takes_the_steps_of_a_stack(
    run_method: RunMethod, tmp_path: Path
) -> None:
    write_federation(tmp_path / "data", people())
    keys: dict[str, Any] = {"data": str(tmp_path / "data"), "rounds": 2, "steps": 7}
    keys |= {"lr": 0.05, "batch_size": 16, "capacities": "p2=0.5"}
    stacked = run_method("heterofl", people(), **keys)
    config = RunConfig(method="heterofl", beside="", device="cpu", threads=1, **keys)
    grid, strategy = DeviceGrid(config, 4), build_strategy(config, "heterofl")
    strategy.start(grid)
    assert strategy.state is not None
    assert_equal(strategy.state, stacked.states[-1])


def test_steps_and_epochs_exclude_each_other() -> None:
    assert read_config(None, {"steps": "100"}).steps == 100
    with refused(ConfigError, "steps", got=[100, "epochs = 5"]):
        read_config(None, {"steps": "100", "epochs": "5"})
