"""docs/data.md: a federation that is written as the page says can be read."""

import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub_core.data.federation import read_federation

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "data.md").read_text("utf-8")

CARDS = re.findall(r"```toml\n(.+?)```", PAGE, re.DOTALL)


def test_data_of_one_s_own_are_read(tmp_path: Path) -> None:
    card, _ = CARDS
    (tmp_path / "federation.toml").write_text(card, encoding="utf-8")
    (tmp_path / "clients").mkdir()
    x, y, t = np.zeros((6, 3, 128), np.float32), np.array([0, 1] * 3), np.arange(6) * 1.28
    np.savez(tmp_path / "clients" / "anna.npz", x=x, y=y, t=t)
    federation = read_federation(tmp_path)
    assert federation.card.overlap == 0.5 and federation.card.features == ("ax", "ay", "az")
    assert federation.clients["anna"].x.shape == (6, 3, 128)


def test_texts_of_one_s_own_are_read(tmp_path: Path) -> None:
    _, card = CARDS
    (tmp_path / "federation.toml").write_text(card, encoding="utf-8")
    (tmp_path / "clients").mkdir()
    x, y = np.array([[7, 4095, 0], [1, 0, 0]]), np.array([0, 1])
    np.savez(tmp_path / "clients" / "anna.npz", x=x, y=y)
    federation = read_federation(tmp_path)
    assert federation.card.features == ("token",)
    assert federation.clients["anna"].x.dtype == np.int32


@pytest.mark.slow
def test_the_pages_encoder_makes_features_and_is_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in re.findall(r"```python file=(\S+)\n(.+?)```", PAGE, re.DOTALL):
        Path(name).write_text(code)
    runpy.run_path("weights.py")
    part = PAGE.partition("### A module of your own")[2]
    block = re.findall(r"```console\n(.+?)```", part, re.DOTALL)[0]
    lines = [line.removeprefix("$ fedsub ") for line in block.splitlines()]
    assert len(lines) == 2
    for line in lines:
        done = CliRunner().invoke(cli, shlex.split(line), catch_exceptions=False)
        assert done.exit_code == 0, done.output
    assert Path("own.pt").stat().st_size > 1000
