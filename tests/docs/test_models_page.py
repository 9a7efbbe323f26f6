"""docs/models.md: the model that stands there trains and leaves, by the lines that stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedsub.cli import cli

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "models.md").read_text("utf-8")


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
