"""The files of parts hold what encoders, the closed form, splits and imports make."""

import json
from pathlib import Path

import numpy as np
import pytest

from . import heads
from .files import PARTS, RECORDED, write


def test_the_files_are_written_anew(tmp_path: Path) -> None:
    write(tmp_path)
    for name in RECORDED.keys() - {"heads"}:  # whole numbers, and decimals that are exact
        there = (PARTS / f"{name}.json").read_text("utf-8")
        assert (tmp_path / f"{name}.json").read_text("utf-8") == there


@pytest.mark.parametrize("name", heads.CASES)
def test_heads_are_those_of_the_file(name: str) -> None:
    kept = json.loads((PARTS / "heads.json").read_text("utf-8"))
    assert kept.keys() == heads.CASES.keys()
    found = heads.recorded(heads.CASES[name])
    assert found.keys() == kept[name].keys()
    assert found["rounded"] == kept[name]["rounded"]
    for part in ("weight", "bias", "squares", "target", "losses"):
        np.testing.assert_allclose(found[part], kept[name][part], atol=1e-9, err_msg=part)
