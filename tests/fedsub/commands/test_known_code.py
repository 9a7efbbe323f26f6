"""Code of models runs where the user names it, or knows it; files that name it do not run it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsub import load
from fedsub.api.running import Run
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError
from fedsub_core.models.known_code import check_code, note_code

from .calls import Call, assert_refused

#: A builder that leaves a trace where it is imported or called.
CODE = """
from pathlib import Path
from torch import nn
Path("ran").touch()
def net(input_shape, classes):
    Path("ran").touch()
    return nn.Sequential(nn.Flatten(), nn.Linear({width}, classes))
"""
PLACE = "net.py:net"
ARGS = ("run", "--data", "town", "--threads", 1, "--device", "cpu", "--out", "runs")
SMALL = (*ARGS, "--method", "heterofl", "--beside", "", "--rounds", 1)


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder in which a user who named nothing yet notes what it names."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    return tmp_path / "mine" / "fedsub" / "known-code"


@pytest.fixture
def run(fedsub: Call, town_folder: Path) -> Path:
    """A run whose model the command line named; the trace of its import is removed."""
    Path("net.py").write_text(CODE.format(width=4))
    code, _, err = fedsub(*SMALL, "--model", PLACE)
    assert (code, err) == (0, "")
    Path("ran").unlink()
    (folder,) = Path("runs").iterdir()
    return folder


@pytest.fixture
def somebody_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """Become a user with another state directory."""

    def become() -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))

    return become


def test_ones_own_run_resumes_without_a_word(fedsub: Call, run: Path) -> None:
    code, _, err = fedsub("run", "--resume", run, "--rounds", 2)
    assert (code, err) == (0, "") and Path("ran").exists()


def test_changed_code_is_refused_and_not_run(fedsub: Call, run: Path) -> None:
    with Path("net.py").open("a") as file:
        file.write("# no other layer\n")
    refused = fedsub("run", "--resume", run, "--rounds", 2)
    assert_refused(refused, str(run / "run.toml"), PLACE, "changed since", f"--model {PLACE}")
    assert not Path("ran").exists()
    assert fedsub("run", "--resume", run, "--rounds", 2, "--model", PLACE)[0] == 0
    assert fedsub("run", "--resume", run, "--rounds", 3)[0] == 0


def test_the_state_of_nobody_else_is_believed(
    fedsub: Call,
    run: Path,
    noted: Path,
    somebody_else: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (digest,) = noted.iterdir()
    somebody_else()
    for place in (run, run / "state", Path(), run / ".local" / "state"):
        copy = place / "fedsub" / "known-code" / digest.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.touch()
    assert_refused(fedsub("run", "--resume", run), PLACE)
    # A state directory below the folder in which a command is called is anybody's.
    monkeypatch.setenv("XDG_STATE_HOME", ".")
    monkeypatch.setenv("HOME", "/nonexistent")
    assert_refused(fedsub("run", "--resume", run), PLACE)
    monkeypatch.setenv("XDG_STATE_HOME", str(Path().absolute()))
    Path("fedsub", "known-code").chmod(0o777)
    assert_refused(fedsub("run", "--resume", run), PLACE)
    assert not Path("ran").exists()


def test_no_other_command_runs_what_a_folder_names(
    fedsub: Call, town_folder: Path, somebody_else: Callable[[], None]
) -> None:
    assert fedsub(*SMALL)[0] == 0
    (run,) = Path("runs").iterdir()
    config = run / "run.toml"
    config.write_text(config.read_text().replace('model = "auto"', f'model = "{PLACE}"'))
    Path("net.py").write_text(CODE.format(width=4))
    np.savez("new.npz", x=np.zeros((1, 4), np.float32))
    somebody_else()
    person = ("--run", run, "--client", "p1")
    assert_refused(fedsub("run", "--resume", run), PLACE)
    quarter = ("--format", "safetensors", "--output", "weak.safetensors", "--capacity", "1/4")
    code, _, err = fedsub("export", *person, *quarter)
    assert code == 2 and f"name it: --model {PLACE}" in err
    with refused(ConfigError, "fedsub.load(", "model='net.py:net'"):
        Run(run).model("p1")
    whole = ("--format", "safetensors", "--output", "whole.safetensors")
    for call in (
        ("status", run),
        ("report", run),
        ("predict", *person, "--input", "new.npz"),
        ("export", *person, *whole),
        ("forget", run, "p2", "--yes"),
    ):
        assert fedsub(*call)[0] in (0, 1), call
    assert not Path("ran").exists()


def test_python_names_code_of_a_folder(run: Path, somebody_else: Callable[[], None]) -> None:
    somebody_else()
    with pytest.raises(ConfigError, match="not named before"):
        Run(run).model("p1")
    assert not Path("ran").exists()
    load(run, model=PLACE)
    assert Run(run).model("p1").classes == ("sit", "walk", "run")


def test_files_of_settings_name_code_that_the_command_line_must_name(
    fedsub: Call, town_folder: Path
) -> None:
    Path("net.py").write_text(CODE.format(width=4))
    Path("my.toml").write_text(f'model = "{PLACE}"\n')
    assert_refused(fedsub(*SMALL[:1], "my.toml", *SMALL[1:]), "my.toml", f"--model {PLACE}")
    said = fedsub("deploy", "local", "my.toml", "--data", "town")
    assert_refused(said, "my.toml", f"--set model={PLACE}")
    study = (
        f'seeds = [0]\n[run]\ndata = "town"\nrounds = 1\nmodel = "{PLACE}"\n[methods]\nlocal = {{}}'
    )
    Path("study.toml").write_text(study)
    assert_refused(fedsub("compare", "study.toml", "--jobs", 1), "study.toml", f"--model {PLACE}")
    assert not Path("ran").exists() and not Path("runs").exists()
    assert fedsub("compare", "study.toml", "--jobs", 1, "--model", PLACE)[0] == 0
    assert fedsub("compare", "study.toml", "--jobs", 1)[0] == 0


def test_code_is_known_with_its_packages_and_its_name(
    tmp_path: Path, noted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "known_here"
    package.mkdir()
    for name in ("__init__", "nets"):
        (package / f"{name}.py").write_text("raise RuntimeError('it was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    note_code("known_here.nets:net")
    check_code("known_here.nets:net", "run.toml")
    for place in ("known_here.nets:other", "known_here:net", "os:system", "sys:exit", "no.such:x"):
        with pytest.raises(ConfigError, match="Read the code first"):
            check_code(place, "run.toml")
    check_code("os:system", "run.toml", ["os:system"])
    (package / "__init__.py").write_text("")
    with pytest.raises(ConfigError, match="changed since"):
        check_code("known_here.nets:net", "run.toml")
    assert [path.stat().st_mode & 0o777 for path in (noted, *noted.iterdir())] == [0o700, 0o600]


def test_a_home_that_cannot_be_written_stops_no_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path(tmp_path, "net.py").write_text(CODE.format(width=4))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    note_code(f"{tmp_path}/net.py:net")
    assert "not noted" in caplog.text


def test_code_of_an_encoder_is_named_as_a_models(fedsub: Call, town_folder: Path) -> None:
    Path("net.py").write_text(CODE.format(width=4))
    Path("my.toml").write_text(f'encoder = "{PLACE}"\n')
    said = fedsub(*SMALL[:1], "my.toml", *SMALL[1:])
    assert_refused(said, "my.toml", "encoder", f"--encoder {PLACE}")
    said = fedsub("deploy", "local", "my.toml", "--data", "town")
    assert_refused(said, "my.toml", f"--set encoder={PLACE}")
    study = f'seeds = [0]\n[run]\ndata = "town"\nencoder = "{PLACE}"\n[methods]\nlocal = {{}}'
    Path("study.toml").write_text(study)
    said = fedsub("compare", "study.toml", "--jobs", 1)
    assert_refused(said, "study.toml", f"--encoder {PLACE}")
    assert not Path("ran").exists()
    said = fedsub("compare", "study.toml", "--jobs", 1, "--encoder", f"{PLACE}@w.safetensors")
    assert said[0] != 0 and Path("ran").exists(), "it runs, and its builder takes two arguments"
