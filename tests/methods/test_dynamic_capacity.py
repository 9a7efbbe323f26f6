"""Capacities drawn anew in each round: everybody knows them, in every engine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_core.capacity import Capacity
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import ConfigError

SHARES = (1.0, 0.5, 0.25)
KEYS: dict[str, Any] = {"capacities": "1,1/2,1/4", "capacity_mode": "dynamic", "batch_size": 16}
CLIENTS = ("p1", "p2", "p3", "p4")


def expected(client: str, round: int, seed: int = 0) -> float:
    return Capacity(0.25, SHARES).at(seed, client, round)


@pytest.mark.parametrize("name", ["heterofl"])
def test_each_round_everybody_sends_what_it_drew_for_it(name: str, run_method: RunMethod) -> None:
    run = run_method(name, rounds=4, **KEYS)
    said, sent = run.metric("capacity"), run.metric("bytes_up_sent")
    assert not run.metric("refused_replies")
    assert said == {(r, c): expected(c, r) for r in range(1, 5) for c in CLIENTS}
    assert len(set(said.values())) == 3
    by_share = {share: {sent[key] for key, own in said.items() if own == share} for share in SHARES}
    assert max(by_share[0.25]) < min(by_share[0.5]) and max(by_share[0.5]) < min(by_share[1.0])


def test_who_keeps_what_it_trained_holds_the_least_share(run_method: RunMethod) -> None:
    run = run_method("local", rounds=2, **KEYS)
    assert {len(m["linear1.bias"]) for m in run.models().values()} == {32}
    assert set(run.metric("capacity").values()) == {0.25}


@pytest.mark.parametrize("name", ["heterofl"])
def test_a_device_of_its_own_draws_as_a_stack_does(
    name: str, run_method: RunMethod, tmp_path: Path
) -> None:
    write_federation(tmp_path / "data", people())
    keys = KEYS | {"data": str(tmp_path / "data"), "rounds": 4, "upload_encoding": "delta"}
    config = RunConfig(method=name, beside="", device="cpu", threads=1, **keys)
    grid, strategy = DeviceGrid(config, 4), build_strategy(config, name)
    strategy.start(grid)
    assert not strategy.transport.refusals
    stacks, stacked = build_grid(config, name, people()), build_strategy(config, name)
    stacked.start(stacks)
    stacks.close()
    assert_equal(strategy.lasting_state(), stacked.lasting_state())
    for i, client in enumerate(CLIENTS):
        saved = grid.saved(i)
        assert saved.model is not None
        assert len(saved.model.params["linear1.bias"]) == 128 * expected(client, 4)


@pytest.mark.parametrize("name", ["heterofl"])
def test_a_run_goes_on_to_the_same_numbers(name: str, run_method: RunMethod) -> None:
    whole = run_method(name, rounds=4, **KEYS)
    half = run_method(name, rounds=4, until=2, **KEYS)
    resumed = run_method(name, rounds=4, after=half, **KEYS)
    assert_equal(resumed.states[-1], whole.states[-1])
    assert resumed.metric("macro_f1") == {
        key: value for key, value in whole.metric("macro_f1").items() if key[0] > 2
    }


def test_few_of_many_draw_as_all_do(run_method: RunMethod) -> None:
    run = run_method("heterofl", rounds=4, clients_per_round=2, **KEYS)
    assert not run.metric("refused_replies") and len(run.metric("bytes_up_sent")) == 8
    again = run_method("heterofl", rounds=4, clients_per_round=2, threads=2, **KEYS)
    assert_equal(run.states[-1], again.states[-1])


@pytest.mark.parametrize(
    ("keys", "got"),
    [
        ({"heterofl.smooth": "0.5"}, "heterofl.smooth = 0.5"),
        ({"best-by": "validation"}, "best-by = validation"),
        ({"norm": "local"}, "norm = local"),
    ],
)
def test_what_a_device_keeps_over_rounds_has_one_size(keys: dict[str, str], got: str) -> None:
    given = {"method": "heterofl", "beside": "", "capacity-mode": "dynamic", "rounds": "9"}
    read_config(None, given)
    with refused(ConfigError, "capacity-mode = dynamic", got=got):
        read_config(None, given | keys)


def test_who_is_held_out_by_capacity_has_one() -> None:
    given = {"split": "unseen", "unseen-by": "smallest", "capacity-mode": "dynamic"}
    with refused(ConfigError, "unseen-by = smallest", got="capacity-mode = dynamic"):
        read_config(None, given)


def test_whose_share_is_said_draws_none() -> None:
    given = {"capacities": "p1=0.5", "capacity-mode": "dynamic"}
    with refused(ConfigError, "capacity-mode", got=["dynamic", "'p1=0.5'"]):
        read_config(None, given)
    assert replace(read_config(None, {"capacities": "p1=0.5"})).capacity_mode == "fixed"
