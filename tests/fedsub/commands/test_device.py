"""``fedsub predict`` and ``fedsub export`` as a person meets them."""

import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click import Command
from click.testing import CliRunner, Result

from fedsub.cli import cli
from fedsub.commands.device import export, predict
from fedsub_client.file_history import FileHistory
from fedsub_client.loaded_model import load_model
from fedsub_client.model_file import model_bytes
from fedsub_client.personal_model import PersonalModel
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.data.card import Card
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import ConfigError, DataError, RunError
from fedsub_core.models.kinds import build_model

# Names that could be taken for columns, or break one.
CARD = Card("toy", "test", ("row", "b, c", "class"), ("u", "v"))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A device's folder, its model drawn large enough to say different things."""
    chain = build_model("auto", (2,), 3)
    drawn = chain.init(1, seed=7)
    params = {name: 4 * tensor[0] for name, tensor in drawn.items()}
    scaling = Scaling(np.array([20, -3], np.float32), np.array([4, 0.5], np.float32))
    model = PersonalModel("p", "fedsub", 4, params, chain, "mlp", CARD, scaling)
    saved = Saved("p", "run", "fedsub", 4, FileHistory((60,), b"0"), model=model)
    folder = tmp_path / "state" / "p"
    folder.mkdir(parents=True)
    (folder / STATE_FILE).write_bytes(saved.to_bytes())
    return folder


@pytest.fixture
def new(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal((20, -3), (40, 5), (12, 2))
    np.savez(tmp_path / "new.npz", x=x, y=np.zeros(12))
    return tmp_path / "new.npz"


def call(command: Command, *args: object) -> Result:
    return CliRunner().invoke(cli, [str(command.name), *map(str, args)])


def test_predictions_as_csv(state: Path, new: Path, tmp_path: Path) -> None:
    printed = call(predict, "--state", state, "--input", new)
    assert printed.exit_code == 0, printed.output
    header, *rows = csv.reader(io.StringIO(printed.stdout))
    names = ["row", "b, c", "class"]
    assert header == ["row", "class", *(f"probability {name}" for name in names)]
    expected = load_model(state).probabilities(np.load(new)["x"])
    assert [row[0] for row in rows] == [str(i) for i in range(12)]
    assert [row[1] for row in rows] == [names[i] for i in expected.argmax(1)]
    assert len({row[1] for row in rows}) > 1
    assert np.array_equal(np.array([row[2:] for row in rows], np.float32), expected)

    file = tmp_path / "predictions.csv"
    written = call(predict, "--state", state.parent, "--input", new, "--output", file)
    assert file.read_text("utf-8") == printed.stdout
    assert written.stdout == f"client p, fedsub's model of round 4: 12 predictions: {file}\n"


def test_predictions_as_npz(state: Path, new: Path, tmp_path: Path) -> None:
    file = tmp_path / "predictions.npz"
    assert call(predict, "--state", state, "--input", new, "--output", file).exit_code == 0
    expected = load_model(state).probabilities(np.load(new)["x"])
    with np.load(file) as found:
        assert np.array_equal(found["probabilities"], expected)
        assert np.array_equal(found["label"], expected.argmax(1))
        assert found["classes"].tolist() == list(CARD.classes)


def test_predict_refuses_what_it_cannot_use(state: Path, new: Path, tmp_path: Path) -> None:
    before = new.read_bytes()
    for args, kind, words in (
        (("--state", tmp_path / "x", "--input", new), RunError, "x: no such folder"),
        (("--state", state, "--input", tmp_path / "x"), DataError, "x: no such file"),
        (("--state", state, "--input", new, "--output", "a.txt"), ConfigError, ".csv or .npz"),
        (("--state", state, "--input", new, "--output", new), RunError, "already exists"),
    ):
        result = call(predict, *args)
        assert isinstance(result.exception, kind) and words in str(result.exception)
        assert "\n" not in str(result.exception) and result.stdout == ""
    assert new.read_bytes() == before
    assert (
        call(predict, "--state", state, "--input", new, "--output", new, "--force").exit_code == 0
    )
    assert "probabilities" in np.load(new).files


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_export_says_what_it_wrote(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    args = ("--state", state, "--format", "torchscript", "--output", file)
    done = call(export, *args)
    assert done.exit_code == 0, done.output
    said = "client p, fedsub's model of round 4, x [batch, 2]: read back, probabilities differ by "
    assert done.stdout.startswith(said) and done.stdout.endswith(f"{file}\n")
    x = np.array([[20, -3], [30, -2]], np.float32)
    module = torch.jit.load(file)  # type: ignore[no-untyped-call]
    found = module(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, load_model(state).probabilities(x), atol=1e-6)
    again = call(export, *args)
    assert isinstance(again.exception, RunError) and "--force" in str(again.exception)
    assert call(export, *args, "--force").exit_code == 0


def made_run(out: Path, name: str, client: str, method: str = "ditto") -> Path:
    """Write a run's folder with a model of `client`, as a simulation leaves it."""
    chain = build_model("mlp", (2,), 3)
    params = {name: tensor[0] for name, tensor in chain.init(1, seed=len(name)).items()}
    model = PersonalModel(client, method, 4, params, chain, "mlp", CARD, None)
    models = out / name / method / "models"
    models.mkdir(parents=True, exist_ok=True)
    (out / name / "run.toml").write_text(f'method = "{method}"\nbeside = "local"\n')
    (models / f"{client}.safetensors").write_bytes(model_bytes(model))
    return out / name


def test_a_simulated_persons_model_is_found_by_its_client(
    new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nothing = call(predict, "--client", "a", "--input", new)
    assert "got no run with saved models" in str(nothing.exception)
    old, newer = (made_run(Path("runs"), name, "a") for name in ("z-old", "a-newer"))
    os.utime(old / "ditto" / "models", (1, 1))
    for args, folder in (((), newer), (("--run", old), old)):
        file = folder / "ditto" / "models" / "a.safetensors"
        found = call(predict, "--client", "a", *args, "--input", new)
        assert found.exit_code == 0 and found.stderr == f"Model: {file}\n"
        by_file = call(predict, "--state", file, "--input", new)
        assert by_file.stdout == found.stdout and by_file.stderr == ""
        done = call(export, "--client", "a", *args, "--format", "safetensors", "--output", "m")
        assert done.exit_code == 0 and Path("m").read_bytes() == file.read_bytes()
        Path("m").unlink()
    assert len({(f / "ditto/models/a.safetensors").read_bytes() for f in (old, newer)}) == 2


def test_the_model_of_another_of_its_methods(new: Path, tmp_path: Path) -> None:
    folder = made_run(tmp_path, "one", "a")
    other = made_run(tmp_path, "other", "a") / "ditto"
    other.rename(folder / "local")
    for options, method in (((), "ditto"), (("--method", "local"), "local")):
        found = call(predict, "--client", "a", "--run", folder, *options, "--input", new)
        file = folder / method / "models" / "a.safetensors"
        assert found.exit_code == 0 and found.stderr == f"Model: {file}\n"
    none = call(predict, "--client", "a", "--run", folder, "--method", "fedavg", "--input", new)
    said = "got method 'fedavg', expected one that left models: ditto, local"
    assert isinstance(none.exception, RunError) and said in str(none.exception)


def test_a_rehearsals_device_is_found_by_its_client(
    state: Path, new: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "deploy-1"
    folder.mkdir(parents=True)
    state.parent.rename(folder / "state")
    for args in ((), ("--run", folder)):
        found = call(predict, "--client", "p", *args, "--input", new)
        assert found.exit_code == 0 and "deploy-1/state/p" in found.stderr


@pytest.mark.parametrize(
    ("asked", "kept"),
    [("Müller", "M-ller"), ("Åsa", "p-sa"), ("Ana", "Anna"), ("山田", None)],
)
def test_a_person_whom_an_import_renamed_is_suggested(
    asked: str, kept: str | None, new: Path, tmp_path: Path
) -> None:
    for name in ("M-ller", "p-sa", "Anna"):
        folder = made_run(tmp_path, "one", name)
    result = call(predict, "--client", asked, "--run", folder, "--input", new)
    hint = f" Did you mean {kept!r}?" if kept else ""
    said = f"client {asked!r}, expected one of: Anna, M-ller, p-sa.{hint} Models are written"
    assert said in str(result.exception)


@pytest.mark.parametrize(
    ("args", "kind", "words"),
    [
        ((), ConfigError, "got no --client, expected --client ID"),
        (("--client", "a", "--state", "x"), ConfigError, "got --state with --client, --run or"),
        (("--run", "runs/one", "--state", "x"), ConfigError, "got --state with --client, --run or"),
        (("--method", "local", "--state", "x"), ConfigError, "or --method, expected --client ID"),
        (("--client", "b", "--run", "runs/one"), RunError, "no model of client 'b', .* one of: a"),
        (("--client", "a", "--run", "runs"), RunError, r"runs: got no run\.toml, expected a run"),
    ],
)
def test_whose_model_must_be_said(
    args: tuple[str, ...],
    kind: type[Exception],
    words: str,
    new: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    made_run(Path("runs"), "one", "a")
    result = call(predict, *args, "--input", new)
    assert isinstance(result.exception, kind), result.output
    assert re.search(words, str(result.exception))


#: `fedsub` where only what a device needs is installed: the packages of extras are not found.
BARE = """
import sys
from importlib.abc import MetaPathFinder

EXTRA = {"matplotlib", "pandas", "sklearn", "threadpoolctl", "zstandard"}

class Lacking(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in EXTRA:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Lacking())
from fedsub.cli import main
main()
"""


@pytest.mark.parametrize(
    "form",
    ["", *(pytest.param(one, marks=pytest.mark.slow) for one in ("safetensors", "torchscript"))],
)
def test_a_device_predicts_and_exports_without_any_extra(
    state: Path, new: Path, tmp_path: Path, form: str
) -> None:
    asked = ["export", "--format", form, "--output", str(tmp_path / "own")]
    if not form:
        asked = ["predict", "--input", str(new), "--output", str(tmp_path / "own.csv")]
    command = [sys.executable, "-c", BARE, *asked, "--state", str(state)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
