"""docs/models.md: the model that stands there trains and leaves, by the lines that stand there."""

import re
import shlex
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.models.kinds import build_model
from fedsub_core.models.names import CNN1D, LINEAR, MLP, PUBLISHED

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text("utf-8")


def test_the_pages_kinds_have_as_many_numbers_as_it_says() -> None:
    check_kinds({MLP, LINEAR, CNN1D, *PUBLISHED})


def check_kinds(kinds: set[str]) -> None:
    """Check the page's rows of these kinds: each has one."""
    found = re.findall(r"\| `(\S+)` \| .+? \| ([\d,]+) \| (.+?), (\d+) classes", PAGE)
    rows = [row for row in found if row[0] in kinds]
    assert {kind for kind, *_ in rows} == kinds
    for kind, numbers, of, classes in rows:
        sizes = tuple(int(size.replace(",", "")) for size in re.findall(r"[\d,]+", of))
        of_kind = {"fasttext": Tokens((48,), sizes[0], 0), "gcn": Nodes(sizes)}
        model = build_model(kind, of_kind.get(kind, sizes), int(classes))
        counted = sum(prod(model.tensor_shapes[name]) for name in model.trained)
        assert f"{counted:,}" == numbers, kind


@pytest.mark.slow
def test_the_pages_model_trains_and_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ((name, code),) = re.findall(r"```python file=(\S+)\n(.+?)```", PAGE, re.DOTALL)
    Path(name).write_text(code)
    (block,) = re.findall(r"```console\n(.+?)```", PAGE, re.DOTALL)
    lines = [line.removeprefix("$ fedsub ") for line in block.splitlines()]
    assert len(lines) == 2
    for line in lines:
        done = CliRunner().invoke(cli, shlex.split(line), catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert Path("own.pt").stat().st_size > 1000


def test_the_pages_smaller_model_is_made(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert "lstm 64 ['lstm.weight_ih_l0'" in capsys.readouterr().out
    assert names["part"]["lstm.weight_hh_l1"].shape == (1, 12, 3)
    assert names["small"].forward(names["part"], torch.zeros(1, 2, 3, 128)).shape == (1, 2, 6)
