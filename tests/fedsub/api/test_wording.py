"""Errors in Python name arguments, not the command line's options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedsub
from fedsub.api.wording import python_words
from fedsub.testing.runs import people
from fedsub_core.errors import DataError, RunError


@pytest.mark.parametrize(
    ("command_line", "python"),
    [
        ("Name it with --subject COLUMN, or not", "Name it with subject=COLUMN, or not"),
        ("--missing drop leaves rows out", "missing='drop' leaves rows out"),
        ("Check --label and --no-label, or", "Check label= and no_label=, or"),
        ("Guessed: --window 2.56s, as", "Guessed: window='2.56s', as"),
        ("Guessed: --rate 50, as", "Guessed: rate=50, as"),
        ("Guessed: --features ax,ay.", "Guessed: features='ax,ay'."),
        ("run with --split blocked.", "run with split='blocked'."),
        ("Choose another name, or add --force", "Choose another name, or add force=True"),
        ("expected --model net.py:Net, which", "expected model='net.py:Net', which"),
        ("`fedsub models` takes --vocabulary", "`fedsub models` takes --vocabulary"),
        ("no option -- at all --", "no option -- at all --"),
    ],
)
def test_an_option_is_said_as_an_argument(command_line: str, python: str) -> None:
    assert python_words(command_line) == python


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
