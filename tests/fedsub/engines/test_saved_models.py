"""Files of people's models: what many have alike lies once beside them, and each is read whole."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsub.engines import saved_models
from fedsub.engines.saved_models import save_models
from fedsub.testing.refusals import refused
from fedsub.testing.runs import HIDDEN, Run, RunMethod, assert_equal, people, running
from fedsub_client.common_tensors import COMMON
from fedsub_client.loaded_model import load_model
from fedsub_client.model_file import model_bytes
from fedsub_core.errors import RunError

FIVE = people(((0, 1, 2),) * 5)


@pytest.fixture
def run_method(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunMethod]:
    """Run a method's rounds, with models that are too small to be worth a file else."""
    monkeypatch.setattr(saved_models, "WORTH", 1000)
    with running(hidden=HIDDEN) as run:
        yield run


def saved(run: Run, folder: Path) -> tuple[int, set[str]]:
    """Save people's models; return how many common files there are, and who lacks them else."""
    save_models(run.grid, run.strategy, folder)
    plain = folder.with_name(f"{folder.name}-alone")
    shutil.copytree(folder, plain, ignore=lambda *_: [COMMON])
    lacking = set[str]()
    for client, expected in run.models().items():
        assert_equal(dict(load_model(folder / f"{client}.safetensors").params), expected)
        try:
            load_model(plain / f"{client}.safetensors")
        except RunError:
            lacking.add(client)
    shutil.rmtree(plain)
    return len(list((folder / COMMON).glob("*"))), lacking


@pytest.mark.parametrize(
    ("method", "files", "lacking"),
    [("fedavg", 1, 5), ("fedper", 1, 5), ("ditto", 0, 0), ("local", 0, 0), ("fedsub", 0, 0)],
)
def test_what_all_were_sent_is_stored_once(
    method: str, files: int, lacking: int, run_method: RunMethod, tmp_path: Path
) -> None:
    found, without = saved(run_method(method, FIVE), tmp_path / "models")
    assert (found, len(without)) == (files, lacking)


def test_a_run_that_goes_on_leaves_no_older_file(run_method: RunMethod, tmp_path: Path) -> None:
    folder, first = tmp_path / "models", run_method("fedavg", FIVE, until=2)
    saved(first, folder)
    before = {path.name for path in (folder / COMMON).glob("*")}
    saved(run_method("fedavg", FIVE), folder)
    after = {path.name for path in (folder / COMMON).glob("*")}
    assert len(before) == len(after) == 1 and before != after


def test_few_people_have_whole_files(
    run_method: RunMethod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_models, "WORTH", 2**22)
    assert saved(run_method("fedavg", FIVE), tmp_path / "models") == (0, set())


def test_a_file_alone_says_what_it_lacks_and_an_export_is_whole(
    run_method: RunMethod, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    saved(run_method("fedavg", FIVE), folder)
    file = folder / "p1.safetensors"
    whole = load_model(file)
    (tmp_path / "whole.safetensors").write_bytes(model_bytes(whole))
    assert_equal(dict(load_model(tmp_path / "whole.safetensors").params), dict(whole.params))
    (common,) = (folder / COMMON).glob("*")
    data = common.read_bytes()
    common.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with refused(RunError, "p1.safetensors", "its checksum is wrong"):
        load_model(file)
    common.write_bytes(data[:100])
    with refused(RunError, "p1.safetensors", "lacks what many people's models have alike"):
        load_model(file)
    common.unlink()
    with refused(RunError, "p1.safetensors", "No such file", expected=f"{COMMON}/{common.name}"):
        load_model(file)
