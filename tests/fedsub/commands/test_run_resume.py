"""`fedsub run --resume`: a run goes on as it was, and may be given more rounds."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub_core.config.run_config import read_config
from fedsub_core.files import DRAFT
from fedsub_server.rundb import RunDatabase

from .calls import Call, assert_refused

ARGS = ("run", "--data", "town", "--threads", 1, "--device", "cpu", "--out")
#: Round, client, class and metric of a measured number.
Row = tuple[str, ...]


def run(fedsub: Call, out: str, *args: object) -> Path:
    """Run to a good end; return the run's folder."""
    code, _, err = fedsub(*ARGS, out, *args)
    assert (code, err) == (0, "")
    (folder,) = Path(out).iterdir()
    return folder


def left_behind(own: Path) -> dict[str, Any]:
    """What a method's folder holds beside its metrics: last round, all state, all models."""
    with RunDatabase(own / "state.db") as database:
        last, state = database.load()
    held: dict[str, Any] = {"round": last}
    for group, tensors in state.items():
        for name, tensor in tensors.items():
            held[f"{group}/{name}"] = (tensor.dtype, tensor.shape, tensor.numpy().tobytes())
    models = sorted((own / "models").iterdir())
    return held | {path.name: path.read_bytes() for path in models}


def metrics(own: Path) -> dict[Row, str]:
    with (own / "metrics.csv").open() as file:
        return {tuple(row[:4]): row[4] for row in csv.reader(file)}


def test_rounds_of_all_methods_can_be_raised(fedsub: Call, town_folder: Path) -> None:
    # That each method goes on is the battery's; here one of each kind of state does.
    name, *others = ("fedavg", "fedsub", "apfl", "fedproto", "local")
    methods = ("--method", name, "--beside", ",".join(others), "--hidden", "24,32")
    folder = run(fedsub, "raised", "--rounds", 1, *methods)
    first = {name: metrics(folder / name) for name in (name, *others)}
    assert fedsub("run", "--resume", folder, "--rounds", 2)[0] == 0
    whole = run(fedsub, "whole", "--rounds", 2, *methods)
    for name in first:
        raised, expected = left_behind(folder / name), left_behind(whole / name)
        assert raised["round"] == expected["round"] == 2
        assert raised == expected, name
        ours = metrics(folder / name)
        assert ours == metrics(whole / name), name
        assert first[name].items() <= ours.items() and len(first[name]) < len(ours)
    assert read_config(folder / "run.toml").rounds == 2
    # And now that number is the run's own.
    before = (folder / "run.toml").read_bytes()
    assert fedsub("run", "--resume", folder)[0] == 0
    assert (folder / "run.toml").read_bytes() == before
    assert left_behind(folder / "fedsub") == left_behind(whole / "fedsub")


@pytest.mark.parametrize("encoding", ["float32", "delta,int8,zstd"])
def test_raised_rounds_leave_the_evaluations_of_before(
    fedsub: Call, town_folder: Path, encoding: str
) -> None:
    """A run's last round is evaluated whatever `evaluate-every` says; that stays."""
    keys = ("--evaluate-every", 2, "--beside", "fedavg", "--upload-encoding", encoding)
    folder = run(fedsub, "raised", "--rounds", 3, *keys)
    assert fedsub("run", "--resume", folder, "--rounds", 4)[0] == 0
    whole = run(fedsub, "whole", "--rounds", 4, *keys)
    for name in ("fedsub", "fedavg"):
        assert left_behind(folder / name) == left_behind(whole / name)
        ours, theirs = metrics(folder / name), metrics(whole / name)
        assert theirs.keys() <= ours.keys()
        assert {row[0] for row in ours.keys() - theirs.keys()} == {"3"}
        # Of the third round's messages more is told to Flower and by it.
        same = {row for row in theirs if not (row[0] == "3" and row[3].endswith("_flower"))}
        assert {row: ours[row] for row in same} == {row: theirs[row] for row in same}
        assert {row[0] for row in theirs if row[3] == "loss"} == {"2", "4"}


def test_a_run_resumes_only_as_it_was(fedsub: Call, town_folder: Path) -> None:
    folder = run(fedsub, "runs", "--rounds", 2, "--beside", "")
    config = (folder / "run.toml").read_bytes()
    before = (folder / "fedsub" / "metrics.csv").read_bytes()

    def refused(*args: object) -> tuple[int, str, str]:
        said = fedsub("run", "--resume", folder, *args)
        assert (folder / "run.toml").read_bytes() == config
        return said

    fewer = ("rounds: got 1, expected 2 or more", "more rounds, not fewer", "start a new run")
    assert_refused(refused("--rounds", 1), str(folder), *fewer)
    words = ("lr: 0.005 -> 0.01", "own configuration", "start a new run", "May change", "rounds")
    assert_refused(refused("--lr", 0.01, "--rounds", 3), str(folder), *words)
    hyper = refused("--set", "fedsub.fusion=avg")
    assert_refused(hyper, "fedsub.fusion: 'overlapping' -> 'avg'")
    assert_refused(refused("--beside", "local"), "beside: '' -> 'local'")
    assert_refused(refused("--capacities", "1/2"), "capacities: '1' -> '1/2'")
    again = fedsub("run", folder / "run.toml", "--resume", folder)
    assert_refused(again, "leave the file out")

    assert fedsub("run", "--resume", folder, "--rounds", 2)[0] == 0
    assert (folder / "fedsub" / "metrics.csv").read_bytes() == before
    (folder / "fedsub" / "state.db").write_bytes(b"no database" * 500)
    code, _, err = fedsub("run", "--resume", folder)
    assert_refused((code, "", err), "state.db", "damaged", "restore a copy")


def test_what_a_killed_run_was_writing_does_not_stay(fedsub: Call, town_folder: Path) -> None:
    folder = run(fedsub, "killed", "--rounds", 1, "--beside", "")
    own = folder / "fedsub"
    before = left_behind(own)
    left = [own / f"{DRAFT}1-metrics.csv", own / "models" / f"{DRAFT}1-p0.safetensors"]
    for path in left:
        path.write_bytes(b"half of it")
    assert fedsub("run", "--resume", folder)[0] == 0
    assert not any(path.exists() for path in left)
    assert left_behind(own) == before


def reversed_labels(arrays: dict[str, Any]) -> None:
    arrays["y"] = 2 - arrays["y"]


def a_hundred_times(arrays: dict[str, Any]) -> None:
    arrays["x"] = 100 * arrays["x"]


def reordered(arrays: dict[str, Any]) -> None:
    arrays.update({name: array[::-1] for name, array in arrays.items()})


@pytest.mark.parametrize("change", [reversed_labels, a_hundred_times, reordered])
def test_data_that_are_not_those_of_before_are_refused_and_named(
    fedsub: Call, town_folder: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    folder = run(fedsub, "runs", "--rounds", 1, "--beside", "")
    path = town_folder / "clients" / "p2.npz"
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    np.savez(path, **arrays)
    said = fedsub("run", "--resume", folder, "--rounds", 2)
    assert_refused(said, "other data", "clients (p2) has other samples")
    assert "p1" not in said[2]


def test_a_person_less_or_more_is_refused_and_named(fedsub: Call, town_folder: Path) -> None:
    folder = run(fedsub, "runs", "--rounds", 1, "--beside", "")
    gone = town_folder / "clients" / "p3.npz"
    gone.rename(town_folder / "clients" / "p9.npz")
    said = fedsub("run", "--resume", folder, "--rounds", 2)
    assert_refused(said, "clients (p9) is new", "clients (p3) is gone")
    (town_folder / "clients" / "p9.npz").rename(gone)
    assert fedsub("run", "--resume", folder, "--rounds", 2)[0] == 0


def test_data_that_were_moved_are_known_by_what_they_hold(
    fedsub: Call, town_folder: Path, tmp_path: Path
) -> None:
    folder = run(fedsub, "moved", "--rounds", 1, "--beside", "")
    whole = run(fedsub, "whole", "--rounds", 2, "--beside", "")
    moved = tmp_path / "elsewhere" / "named otherwise"
    moved.parent.mkdir()
    town_folder.rename(moved)
    said = fedsub("run", "--resume", folder, "--rounds", 2)
    assert_refused(said, str(town_folder), "are not there", "--data")
    assert fedsub("run", "--resume", folder, "--rounds", 2, "--data", moved)[0] == 0
    assert left_behind(folder / "fedsub") == left_behind(whole / "fedsub")
    assert read_config(folder / "run.toml").data == str(moved)

    config = (folder / "run.toml").read_bytes()
    (moved / "clients" / "p3.npz").unlink()
    said = fedsub("run", "--resume", folder, "--data", moved)
    assert_refused(said, "other data", "clients (p3) is gone")
    assert (folder / "run.toml").read_bytes() == config


@pytest.mark.parametrize("text", ["", "rounds = 3\n"])
def test_a_run_file_that_lost_its_keys_is_refused(
    fedsub: Call, town_folder: Path, text: str
) -> None:
    folder = run(fedsub, "runs", "--rounds", 1, "--beside", "")
    (folder / "run.toml").write_text(text)
    assert_refused(fedsub("run", "--resume", folder), "run.toml: got no data, method", "Restore")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            ("--split", "unseen", "--unseen-rounds", 1),
            "the last rounds are those in which held-out",
        ),
        (
            ("--method", "fedrep", "--set", "fedrep.finetune=true"),
            "what fedrep does in a round depends on how many there are",
        ),
    ],
)
def test_a_last_round_of_its_own_cannot_be_put_off(
    fedsub: Call, town_folder: Path, given: tuple[object, ...], why: str
) -> None:
    """More rounds would leave a run whose middle was its end."""
    folder = run(fedsub, "runs", "--rounds", 2, "--beside", "", *given)
    config = (folder / "run.toml").read_bytes()
    said = fedsub("run", "--resume", folder, "--rounds", 3)
    assert_refused(said, str(folder), "rounds: 2 -> 3", "start a new run", why)
    free = said[2].partition("May change: ")[2].partition(". ")[0]
    assert "threads" in free.split(", ") and "rounds" not in free.split(", ")
    assert (folder / "run.toml").read_bytes() == config
    assert fedsub("run", "--resume", folder, "--evaluate-every", 2)[0] == 0


def test_a_folder_that_is_no_run(fedsub: Call, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert_refused(fedsub("run", "--resume", empty), str(empty), "run.toml", "not a run")
    assert not list(empty.iterdir())
