"""Errors in Python name arguments, not the command line's options."""

from pathlib import Path

import numpy as np
import pytest

import fedsub
from fedsub.testing.runs import people
from fedsub_core.errors import DataError, RunError
from fedsub_core.spelling import python, spelling, spelt, toml


@pytest.mark.parametrize(
    ("key", "value", "by_command_line", "by_toml", "by_python"),
    [
        ("subject", "COLUMN", "--subject COLUMN", "subject = COLUMN", "subject=COLUMN"),
        ("no-label", "", "--no-label", "no-label", "no_label="),
        ("window", "2.56s", "--window 2.56s", 'window = "2.56s"', "window='2.56s'"),
        ("rate", 50, "--rate 50", "rate = 50", "rate=50"),
        ("features", "ax,ay", "--features ax,ay", 'features = "ax,ay"', "features='ax,ay'"),
        ("delimiter", "';'", "--delimiter ';'", "delimiter = ';'", "delimiter=';'"),
        ("force", "", "--force", "force", "force=True"),
    ],
)
def test_an_option_is_spelt_as_the_front_does(
    key: str, value: object, by_command_line: str, by_toml: str, by_python: str
) -> None:
    assert spelt(key, value) == by_command_line
    for front, expected in ((toml, by_toml), (python, by_python)):
        with spelling(front):
            assert spelt(key, value) == expected
    assert spelt(key, value) == by_command_line


def test_what_a_table_lacks_is_asked_for_by_arguments(tmp_path: Path) -> None:
    table = tmp_path / "walks.csv"
    table.write_text("a,b,label\n1,2,x\n3,4,y\n")
    with pytest.raises(DataError, match="subject=COLUMN") as caught:
        fedsub.federation(table)
    assert "--" not in str(caught.value)


def test_a_file_that_is_there_asks_for_force(tmp_path: Path) -> None:
    run = fedsub.run(people(), "fedavg", 1, beside="", progress=False, out=str(tmp_path / "runs"))
    model, file = run.model(run.persons()[0]), tmp_path / "own.pt"
    file.write_bytes(b"mine")
    with pytest.raises(RunError, match="add force=True"):
        model.export(file)
    assert file.read_bytes() == b"mine"
    assert model.export(file, force=True) == file and file.read_bytes() != b"mine"
    assert np.isfinite(model(np.zeros((2, *model.shape), np.float32))).all()
