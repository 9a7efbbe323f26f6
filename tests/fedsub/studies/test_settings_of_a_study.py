"""Values of one's own for keys of a study: for all its runs, in place of the file's."""

import json
from pathlib import Path

import pytest

from fedsub.studies.kept_study import keep_study, kept_study, shortened
from fedsub.studies.study import tasks
from fedsub.studies.study_file import read_study
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError

TEXT = """
[run]
data = "watch"
rounds = 4
lr = 0.05
[[vary]]
epochs = [1, 2]
train-share = 0.5
[methods]
local = {}
ditto = {}
"ditto 2" = { method = "ditto", lam = 2.0 }
[tune]
"ditto.personal-epochs" = [1, 2]
lr = [0.1, 0.2]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a study's file that varies one key and tunes another."""
    (tmp_path / "some.toml").write_text(TEXT)
    return tmp_path / "some.toml"


def test_a_key_that_is_set_holds_in_all_runs(file: Path) -> None:
    given = ["lr=0.3", "epochs=3", "ditto.personal-epochs=4", "momentum=0.5"]
    study = shortened(read_study(file), None, 2, settings=given)
    assert study.cells == ((("train-share", 0.5),),) and study.tune == {}
    for task in tasks(study, lambda entry, cell: study.candidates(entry)[0]):
        config = task.config
        assert (config.lr, config.epochs, config.rounds, config.momentum) == (0.3, 3, 2, 0.5)
        if task.method == "ditto":
            assert config.hyper["ditto"].personal_epochs == 4


def test_what_was_set_is_kept(file: Path, tmp_path: Path) -> None:
    asked = {"seeds": None, "rounds": None, "only": (), "row": (), "settings": ("lr=0.3",)}
    keep_study(tmp_path, file, None, asked)
    assert kept_study(tmp_path).run["lr"] == 0.3
    older = json.loads((tmp_path / "asked.json").read_text())
    del older["settings"]
    (tmp_path / "asked.json").write_text(json.dumps(older))
    assert kept_study(tmp_path).run["lr"] == 0.05


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ditto.lam=1", ["ditto.lam", "ditto 2"]),
        ("data=watch", ["data"]),
        ("method=fedavg", ["method"]),
        ("lr=fast", ["lr", "fast"]),
        ("lrs=1", ["lrs", "lr"]),
        ("lam=1", ["lam", "ditto.lam"]),
        ("lr", ["lr"]),
    ],
)
def test_what_cannot_be_set_is_refused(file: Path, text: str, named: list[str]) -> None:
    with refused(ConfigError, *named):
        shortened(read_study(file), None, None, settings=[text])
