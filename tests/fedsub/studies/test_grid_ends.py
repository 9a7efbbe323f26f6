"""Tuned values at an end of their grid."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsub.studies.study import Study
from fedsub.studies.study_file import read_study
from fedsub.studies.study_tables import tuned
from fedsub_server.tuned import at_end

from .made_studies import STUDY


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "two.toml").write_text(STUDY)
    return read_study(tmp_path / "two.toml")


@pytest.mark.parametrize(
    ("grid", "value", "end"),
    [
        ((0.05, 0.2, 0.5), 0.5, True),
        ((0.5, 0.05, 0.2), 0.05, True),
        ((0.05, 0.2, 0.5), 0.2, False),
        ((0.2,), 0.2, False),
        ((True, False), True, False),
        (("avg", "leadership"), "avg", False),
    ],
)
def test_a_value_at_an_end_of_its_grid_is_named(
    study: Study, grid: tuple[Any, ...], value: Any, end: bool
) -> None:
    of = replace(study, tune={"lr": grid})
    assert at_end(value, grid) == end
    assert tuned(of, "lr", {"lr": value}) == f"{value}" + " (end of the grid)" * end
    assert tuned(of, "lr", {}) == "-"
