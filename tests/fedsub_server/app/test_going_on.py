"""The same folder goes on after its last finished round, or says why not."""

from pathlib import Path
from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import read_config, to_flat
from fedsub_core.errors import RunError
from fedsub_server.resuming import MAY_CHANGE


@pytest.mark.parametrize("method", ["fedsub", "fedavg", "local", "pfedme", "fedrep"])
def test_the_same_folder_goes_on_after_the_last_finished_round(
    tmp_path: Path,
    cohort: Any,
    method: str,
    configuration: Any,
    serve: Any,
    result: Any,
    assert_same: Any,
) -> None:
    whole = configuration("town", tmp_path / "whole", method=method)
    serve(cohort(whole), whole)
    parts = tmp_path / "parts"
    grid = cohort(whole)
    for rounds in (1, 3, 4):
        config = configuration("town", parts, method=method, rounds=rounds)
        serve(grid, config)
        assert result(config)[0] == rounds
        assert read_config(parts / "run.toml") == config
    one, other = result(whole), result(config)
    assert_same(one[1], other[1])
    assert one[2] == other[2]


def test_the_card_in_the_runs_data_decides_what_devices_must_have(
    tmp_path: Path, data: str, cohort: Any, configuration: Any, serve: Any, result: Any
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    card = Path(data, "federation.toml").read_text().replace('"town"', '"another"')
    (other / "federation.toml").write_text(card.replace('"c"', '"d"'))
    config = configuration(str(other), tmp_path / "run", rounds=1, **{"join-timeout": 0.3})
    with refused(RunError, "another", expected="('a', 'b', 'd')"):
        serve(cohort(config), config)
    config = configuration(data, tmp_path / "run", rounds=1)
    serve(cohort(config), config)
    assert result(config)[0] == 1


def test_a_finished_run_stays_as_it_is(
    tmp_path: Path, cohort: Any, configuration: Any, serve: Any, result: Any, assert_same: Any
) -> None:
    config = configuration("town", tmp_path / "run", rounds=2)
    grid = cohort(config)
    serve(grid, config)
    before = result(config)
    devices = grid.state()
    for rounds in (2, 1):
        serve(grid, configuration("town", tmp_path / "run", rounds=rounds))
        after = result(config)
        assert_same(before[1], after[1])
        assert (before[0], before[2], before[3]) == (after[0], after[2], after[3])
    for client, state in grid.state().items():
        assert_same(state, devices[client])


OTHERWISE: dict[str, Any] = {
    "ask": 1.5,
    "late-hours": 2.0,
    "pause-hours": 0.5,
    "rounds": 3,
    "round-timeout": 7.0,
    "quorum": 0.9,
    "min-clients": 2,
    "join-timeout": 7.0,
    "identity": "open",
    "evaluate-every": 2,
    "data": "elsewhere",
    "device": "auto",
    "threads": 2,
    "out": "elsewhere",
    "checkpoint-seconds": 1.0,
    "whole-rounds": 64,
    "standardise-anew": 3,
}


def test_keys_that_may_change_do_not_hinder(
    tmp_path: Path, cohort: Any, configuration: Any, serve: Any, result: Any
) -> None:
    assert set(OTHERWISE) == MAY_CHANGE - {"folder", "method", "beside"}
    few = {"clients-per-round": 2}
    first = configuration("town", tmp_path / "run", rounds=1, **few)
    grid = cohort(first)
    serve(grid, first)
    second = configuration("town", tmp_path / "run", **few, **OTHERWISE)
    flat = to_flat(first)
    assert all(flat[key] != value for key, value in OTHERWISE.items())
    serve(grid, second)
    assert result(second)[0] == 3 and read_config(tmp_path / "run" / "run.toml") == second


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("seed", 1, "seed was 0 and is now 1"),
        ("lr", 0.01, "lr was 0.005 and is now 0.01"),
        ("clients-per-round", 2, "clients-per-round was 0 and is now 2"),
        ("upload-encoding", "int8", "upload-encoding was 'float32' and is now 'int8'"),
        ("fedsub.depth", 1, "fedsub.depth was 0 and is now 1"),
        ("split", "stratified", "split was 'auto' and is now 'stratified'"),
        ("train-share", 0.5, "train-share was 1.0 and is now 0.5"),
        ("fedsub.tested", "received", "fedsub.tested was 'trained' and is now 'received'"),
    ],
)
def test_a_decisive_key_that_differs_is_refused(
    tmp_path: Path,
    cohort: Any,
    key: str,
    value: Any,
    said: str,
    configuration: Any,
    serve: Any,
    result: Any,
    assert_same: Any,
) -> None:
    first = configuration("town", tmp_path / "run", rounds=1)
    grid = cohort(first)
    serve(grid, first)
    before, written = result(first), (tmp_path / "run" / "run.toml").read_bytes()
    with pytest.raises(RunError, match=said):
        serve(grid, configuration("town", tmp_path / "run", **{key: value}))
    after = result(first)
    assert_same(before[1], after[1])
    assert (after[0], after[2:]) == (1, before[2:])
    assert (tmp_path / "run" / "run.toml").read_bytes() == written


def test_a_method_has_a_folder_and_a_name_of_its_own(
    tmp_path: Path, cohort: Any, configuration: Any, serve: Any, result: Any
) -> None:
    names = set()
    for method in ("fedsub", "local"):
        config = configuration("town", tmp_path / "run", method=method, rounds=1)
        serve(cohort(config), config)
        names.add(result(config)[3])
    assert len(names) == 2


def test_a_run_without_a_folder_makes_one(
    tmp_path: Path, cohort: Any, configuration: Any, serve: Any
) -> None:
    config = configuration("town", Path("later"), folder="", out=str(tmp_path / "out"), rounds=1)
    serve(cohort(config), config)
    (folder,) = (tmp_path / "out").iterdir()
    assert folder.name.startswith("flower-")
    assert sorted(path.name for path in folder.iterdir()) == [
        "data.json",
        "fedsub",
        "live.json",
        "run.toml",
        "summary.json",
    ]
    assert read_config(folder / "run.toml") == config
