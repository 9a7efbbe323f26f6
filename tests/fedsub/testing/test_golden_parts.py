"""Golden levels, heads and splits are what encoders, the closed form and splits make."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing import golden_encoders, golden_heads, golden_splits, golden_windows


def test_levels_of_encoders_are_those_of_the_file() -> None:
    found = json.loads(json.dumps(golden_encoders.recorded()))
    assert found == json.loads(golden_encoders.FILE.read_text("utf-8"))


@pytest.mark.parametrize("name", golden_heads.CASES)
def test_heads_are_those_of_the_file(name: str) -> None:
    kept = json.loads(golden_heads.FILE.read_text("utf-8"))[name]
    found = golden_heads.recorded(golden_heads.CASES[name])
    assert found.keys() == kept.keys()
    assert found["rounded"] == kept["rounded"]
    for part in ("weight", "bias", "squares", "target", "losses"):
        np.testing.assert_allclose(found[part], kept[part], atol=1e-9, err_msg=part)


def test_the_files_are_written_anew(tmp_path: Path) -> None:
    golden_encoders.main(tmp_path / "encoders.json")
    assert (tmp_path / "encoders.json").read_text("utf-8") == golden_encoders.FILE.read_text()
    golden_splits.main(tmp_path / "splits.json")
    assert (tmp_path / "splits.json").read_text("utf-8") == golden_splits.FILE.read_text("utf-8")
    golden_windows.main(tmp_path / "windows.json")
    assert (tmp_path / "windows.json").read_text("utf-8") == golden_windows.FILE.read_text("utf-8")
    golden_heads.main(tmp_path / "heads.json")
    assert json.loads((tmp_path / "heads.json").read_bytes()).keys() == golden_heads.CASES.keys()
