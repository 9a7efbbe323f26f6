"""`fedsub run` refuses data and values that it cannot use, and leaves nothing behind."""

from pathlib import Path

import numpy as np
import pytest

from .calls import Call, assert_refused

QUICK = ("--rounds", "1", "--threads", "1", "--device", "cpu")


def spoil(folder: Path, client: str, **arrays: object) -> None:
    """Replace arrays of a client's file."""
    path = folder / "clients" / f"{client}.npz"
    with np.load(path) as file:
        kept = dict(file)
    np.savez(path, **kept | {name: np.asarray(array) for name, array in arrays.items()})


def test_more_clients_than_there_are_people(fedsub: Call, town_folder: Path) -> None:
    said = fedsub("run", "--data", town_folder, "--min-clients", "99", *QUICK)
    assert_refused(said, "min-clients: got 99, expected at most 4")
    assert not Path("runs").exists()


def test_a_file_where_runs_should_go(fedsub: Call, town_folder: Path) -> None:
    Path("afile").touch()
    said = fedsub("run", "--data", town_folder, "--out", "afile", *QUICK)
    assert_refused(said, "afile: is a file, expected a folder")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--capacities", "0"),
            ["capacities: share 1 of '0': got '0', expected a share"],
        ),
        (("--capacities", "p1=1.5"), ["capacities: client 'p1': got '1.5', expected a share"]),
        (("--capacities", "p9=1/2"), ["capacities: got client 'p9', expected one of 4"]),
        (
            ("--capacities", "p2=1/600"),
            [
                "heterofl: client 'p2': capacity: got 0.00166667, expected 1/512 at least",
                "one unit",
            ],
        ),
        (
            ("--capacities", "p2=1/2", "--upload-encoding", "delta,top-k:0.5"),
            ["heterofl: client 'p2': upload-encoding: got top-k with a capacity of 0.5, expected"],
        ),
        (("--steps", "9", "--epochs", "2"), ["steps: got 9 with epochs = 2, expected one of them"]),
    ],
)
def test_what_no_weak_device_can_do(
    fedsub: Call, town_folder: Path, options: tuple[str, ...], words: list[str]
) -> None:
    of = ("--method", "heterofl", "--beside", "", "--data", town_folder)
    assert_refused(fedsub("run", *of, *options, *QUICK), *words)
    assert not Path("runs").exists()


def test_who_is_on_the_card_is_in_the_data(fedsub: Call, town_folder: Path) -> None:
    card = town_folder / "federation.toml"
    card.write_text(card.read_text() + "\n[capacities]\np2 = 0.5\nghost = 0.25\n")
    words = ("data card: capacities: got client 'ghost', expected one of 4 in the data",)
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), *words)


# Data that cannot be used.


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.full((36, 4), np.nan)}, ["p1.npz", "row 0", "nan", "finite"]),
        ({"y": np.full(36, 3)}, ["p1.npz", "label 3", "0 to 2"]),
        ({"y": np.full(36, -1)}, ["p1.npz", "label -1", "0 to 2"]),
        ({"y": np.zeros(35, int)}, ["p1.npz", "35 labels", "36"]),
        ({"x": np.zeros((36, 5))}, ["p1.npz", "(36, 5)", "[n, 4]"]),
        ({"x": np.zeros((36, 4, 64))}, ["'p2'", "(4,)", "'p1'", "(4, 64)", "alike"]),
        ({"x": np.zeros((1, 4)), "y": [1]}, ["'p1'", "1 samples", "Leave this client out"]),
        ({"x": np.zeros((0, 4)), "y": np.zeros(0, int)}, ["p1.npz", "no sample"]),
    ],
)
def test_a_clients_arrays_that_cannot_be_used(
    fedsub: Call, town_folder: Path, arrays: dict[str, object], words: list[str]
) -> None:
    spoil(town_folder, "p1", **arrays)
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), *words)
    assert not Path("runs").exists()


@pytest.mark.parametrize("size", [0, 20, 400])
def test_a_truncated_file(fedsub: Call, town_folder: Path, size: int) -> None:
    path = town_folder / "clients" / "p2.npz"
    path.write_bytes(path.read_bytes()[:size])
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "p2.npz", "damaged")
    assert not Path("runs").exists()


def test_a_file_that_is_a_folder_or_not_there(fedsub: Call, town_folder: Path) -> None:
    path = town_folder / "clients" / "p2.npz"
    path.unlink()
    path.symlink_to(town_folder / "gone.npz")
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "p2.npz", "no such file")
    path.unlink()
    path.mkdir()
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "p2.npz", "no such file")
    path.rmdir()
    for file in (town_folder / "clients").iterdir():
        file.unlink()
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "no client", "Put the files there")
    (town_folder / "federation.toml").unlink()
    assert_refused(fedsub("run", "--data", town_folder, *QUICK), "federation.toml", "no such file")
    assert_refused(fedsub("run", "--data", "nowhere", *QUICK), "nowhere", "Check the path")
    assert not Path("runs").exists()


def test_a_federation_of_one_class(fedsub: Call, town_folder: Path) -> None:
    for i, client in enumerate(("p1", "p2", "p3", "p4")):
        spoil(town_folder, client, y=np.ones(3 * (12 + i), int))
    refused = fedsub("run", "--data", town_folder, *QUICK)
    assert_refused(refused, "hold 1 class ('walk')", "two at least")
    assert not Path("runs").exists()


def test_a_client_alone_cannot_be_held_out(fedsub: Call, town_folder: Path) -> None:
    for client in ("p2", "p3", "p4"):
        (town_folder / "clients" / f"{client}.npz").unlink()
    unseen = ("--split", "unseen", "--rounds", "2", "--unseen-rounds", "1")
    refused = fedsub("run", "--data", town_folder, *unseen)
    assert_refused(refused, "got 1 client(s)", "blocked")
    assert not Path("runs").exists()


# Values that cannot be used.


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--rounds", "0"], ["rounds", "got 0", "at least 1"]),
        (["--rounds", "many"], ["rounds", "got 'many'", "whole number"]),
        (["--lr", "nan"], ["lr", "nan", "above 0"]),
        (["--method", "fedsup"], ["unknown method 'fedsup'", "Did you mean 'fedsub'?"]),
        (["--beside", "local,fedavgg"], ["unknown method 'fedavgg'", "Did you mean 'fedavg'?"]),
        (["--set", "fedsub.fusoin=avg"], ["unknown key", "Did you mean 'fedsub.fusion'?"]),
        (["--set", "fedsub.fusion=averge"], ["fusion", "got 'averge'", "leadership, avg"]),
        (["--set", "fedavg.mu=1"], ["unknown key 'fedavg.mu'"]),
        (["--set", "fusion"], ["--set fusion", "expected KEY=VALUE", "fedsub.fusion=avg"]),
        (["--model", "cnn1d"], ["cnn1d", "windows"]),
        (["--out", "a file"], ["a file", "choose another --out"]),
    ],
)
def test_values_that_cannot_be_used(
    fedsub: Call, town_folder: Path, args: list[str], words: list[str]
) -> None:
    Path("a file").touch()
    quick = QUICK if args[0] != "--rounds" else QUICK[2:]
    assert_refused(fedsub("run", "--data", town_folder, *quick, *args), *words)
    assert not Path("runs").exists()


def test_a_file_with_an_unknown_key(fedsub: Call) -> None:
    Path("run.toml").write_text("round = 3\n")
    assert_refused(fedsub("run", "run.toml"), "run.toml", "'round'", "Did you mean 'rounds'?")
    Path("run.toml").write_text("[fedsub]\ndeepth = 3\n")
    assert_refused(fedsub("run", "run.toml"), "Did you mean 'fedsub.depth'?")
    Path("run.toml").write_text("rounds = \n")
    assert_refused(fedsub("run", "run.toml"), "run.toml", "TOML")


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--model", "lstm", "the model that is solved for is linear"),
        ("--lr", "0.1", "nothing is trained in steps"),
    ],
)
def test_an_option_that_does_nothing(
    fedsub: Call, town_folder: Path, option: str, value: str, why: str
) -> None:
    alone = ("--method", "fedsub-ridge", "--beside", "")
    said = fedsub("run", "--data", town_folder, *alone, option, value, *QUICK)
    assert_refused(said, f"{option[2:]}: got {value} with fedsub-ridge", f"does nothing: {why}")
    assert not Path("runs").exists()
