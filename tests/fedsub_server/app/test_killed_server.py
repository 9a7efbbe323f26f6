"""A server that is killed at any moment goes on with devices that were not, or half."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import MessageType

WAYS: list[dict[str, Any]] = [
    {"method": "fedsub", "upload-encoding": "delta,int8", "download-encoding": "delta"},
    {"method": "fedavg", "clients-per-round": 2},
    {"method": "fedsub", "split": "unseen", "unseen-share": 0.3, "unseen-rounds": 2},
    {"method": "fedavg-finetune", "upload-encoding": "delta", "download-encoding": "delta"},
]


@pytest.mark.parametrize(
    ("way", "kills"),
    [(WAYS[0], [1]), (WAYS[0], [8, 1, 2]), (WAYS[1], [3, 6, 2]), (WAYS[2], [2, 7]), (WAYS[3], [9])],
    ids=str,
)
def test_a_killed_server_goes_on_as_if_it_had_not_been(
    data: str,
    tmp_path: Path,
    way: dict[str, Any],
    kills: list[int],
    configuration: Any,
    serve: Any,
    result: Any,
    assert_same: Any,
    devices: Any,
    killed: Any,
) -> None:
    calm, broken = (configuration(data, tmp_path / n, **way) for n in ("calm", "killed"))
    undisturbed = devices(calm, tmp_path / "calm devices")
    serve(undisturbed, calm)
    runs: list[str] = []
    for kill in kills:
        grid = devices(broken, tmp_path / "devices", kill)
        with pytest.raises(killed):
            serve(grid, broken)
        runs += [asked[0] for asked in grid.asked]
    last = devices(broken, tmp_path / "devices")
    serve(last, broken)
    round, state, metrics, run = result(broken)
    expected = result(calm)
    assert round == expected[0] == 4
    assert_same(state, expected[1])
    assert metrics == expected[2]
    # By its name the devices know that it is still the same run.
    assert {*runs, *(asked[0] for asked in last.asked)} == {run} and run != expected[3]
    for client, saved in last.states().items():
        other = undisturbed.states()[client]
        assert (saved.round, saved.reply, saved.file) == (other.round, other.reply, other.file)
        assert saved.report == other.report
        assert_same(saved.state, other.state)
        assert_same(saved.model.params, other.model.params)
    assert not list((tmp_path / "devices").glob("*/previous*"))


def test_a_round_that_devices_had_finished_is_not_trained_again(
    data: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    configuration: Any,
    serve: Any,
    devices: Any,
    killed: Any,
) -> None:
    config = configuration(data, tmp_path / "run", rounds=2)
    with pytest.raises(killed):
        serve(devices(config, tmp_path / "devices", kill=6), config)  # before cleo's second round
    caplog.clear()
    grid = devices(config, tmp_path / "devices")
    serve(grid, config)
    assert [asked[1:] for asked in grid.asked] == [(MessageType.TRAIN, "fedsub", 2)] * 3
    said = [f"client {c}: round 2 was done before" in caplog.text for c in ("anna", "ben", "cleo")]
    assert said == [True, True, False]
    assert f"{tmp_path / 'run' / 'fedsub'}: going on after round 1" in caplog.text
