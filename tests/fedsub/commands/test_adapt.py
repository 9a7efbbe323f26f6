"""``fedsub adapt`` and ``fedsub export --newcomers`` as a person meets them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.data.federation import Federation, write_federation

from ...methods.made_target import made
from .calls import Call, assert_refused

OPTIONS = ("--beside", "", "--rounds", 4, "--encoder", "relu:8")


@pytest.fixture
def new(town: Callable[..., Federation], tmp_path: Path) -> Path:
    """Two people who come later, one of them without labels."""
    crowd = town(6)
    clients = {name: crowd.clients[name] for name in ("p5", "p6")}
    write_federation(tmp_path / "new", replace(crowd, clients=clients))
    file = tmp_path / "new" / "clients" / "p6.npz"
    np.savez(file, x=np.load(file)["x"])
    return tmp_path / "new"


@pytest.fixture
def run(fedsub: Call, town_folder: Path) -> Path:
    assert fedsub("run", "--data", town_folder, "--method", "fedsub-ridge", *OPTIONS)[0] == 0
    (folder,) = Path("runs").iterdir()
    return folder


def test_newcomers_get_models_that_predict(fedsub: Call, run: Path, new: Path) -> None:
    code, out, err = fedsub("adapt", run, "--data", new, "--samples-per-class", 4, "--out", "got")
    assert code == 0, err
    (first,) = [line.split() for line in out.splitlines() if line.strip().startswith("p5")]
    assert first[:3] == ["p5", "no", "4/4/4"] and float(first[4]) > 0.5
    (second,) = [line.split() for line in out.splitlines() if line.strip().startswith("p6")]
    assert second == ["p6", "no", "0/0/0", "0", "-", "-", "-"]
    assert sorted(path.name for path in Path("got").iterdir()) == [
        "p5.safetensors",
        "p6.safetensors",
    ]
    file = new / "clients" / "p6.npz"
    code, out, err = fedsub("predict", "--state", "got/p6.safetensors", "--input", file)
    assert code == 0 and out.count("\n") == 1 + len(np.load(file)["x"]), err
    exported = "export", "--state", "got/p5.safetensors", "--format", "torchscript"
    assert fedsub(*exported, "--output", "p5.pt")[0] == 0
    assert_refused(fedsub("adapt", run, "--data", new, "--out", "got"), "got", "already holds")
    code, out, _ = fedsub("adapt", run, "--data", new, "--person", "p5", "--json")
    found = json.loads(out)
    assert code == 0 and [one["person"] for one in found["people"]] == ["p5"]
    assert Path(found["folder"], "p5.safetensors").is_file()
    assert set(found["people"][0]["labels"]) == {"sit", "walk", "run"}


def test_the_file_for_newcomers_stands_for_the_folder(fedsub: Call, run: Path, new: Path) -> None:
    code, out, err = fedsub("export", "--newcomers", "--run", run, "--output", "new.st")
    assert code == 0 and "4 people" in out and err == ""
    for place, source in (("a", "new.st"), ("b", run)):
        asked = "adapt", source, "--data", new, "--samples-per-class", 1, "--out", place
        assert fedsub(*asked)[0] == 0
    for name in ("p5.safetensors", "p6.safetensors"):
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()
    taken = "export", "--newcomers", "--run", run, "--output", "new.st"
    assert_refused(fedsub(*taken), "new.st", "already exists")
    assert fedsub(*taken, "--force")[0] == 0
    assert_refused(fedsub("export", "--newcomers", "--output", "x"), "--run")
    with_client = "export", "--newcomers", "--run", run, "--client", "p1", "--output", "x"
    assert_refused(fedsub(*with_client), "--client")
    code, _, err = fedsub("export", "--client", "p1", "--output", "x")
    assert code == 2 and "--format" in err


def test_a_class_of_few_people_is_named(
    fedsub: Call, town: Callable[..., Federation], tmp_path: Path
) -> None:
    crowd = town()
    walks = {
        name: data if name == "p1" else data.part(np.flatnonzero(data.y != 1))
        for name, data in crowd.clients.items()
    }
    write_federation(tmp_path / "few", replace(crowd, clients=walks))
    assert fedsub("run", "--data", "few", "--method", "fedsub-ridge", *OPTIONS)[0] == 0
    (folder,) = Path("runs").iterdir()
    code, _, err = fedsub("export", "--newcomers", "--run", folder, "--output", "new.st")
    assert code == 0 and "fewer than 3 people" in err and "'walk'" in err and "'run'" not in err


def test_of_a_target_errors_are_printed(fedsub: Call, tmp_path: Path) -> None:
    write_federation(tmp_path / "sums", made(noise=0.5, people=6))
    asked = ("--method", "fedsub-ridge", "--beside", "", "--rounds", 2, "--loss", "squared")
    code, _, err = fedsub("run", "--data", tmp_path / "sums", *asked)
    assert code == 0, err
    (folder,) = Path("runs").iterdir()
    code, out, err = fedsub("adapt", folder, "--data", tmp_path / "sums", "--out", "got")
    assert code == 0, err
    assert "MAE" in out and "R2" in out and "F1" not in out
    assert "Labels are those that were used, of sum." in out
