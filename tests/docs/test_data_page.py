"""docs/data.md: a federation that is written as the page says can be read."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

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
