"""Lines above a table's rows: Excel's separator, units below the names."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.importing.dropped import Why

from .made_tables import as_parquet, imported, lines, written

UNITS = "no units,no units,s,m/s^2,m/s^2"


def test_the_line_that_tells_excel_the_separator_is_skipped(tmp_path: Path) -> None:
    text = [line.replace(",", "|") for line in lines()]
    text[9] = "01|walk|0.800||1"
    for name, first in (("quoted", '"sep=|"'), ("plain", "sep=|")):
        for encoding in ("utf-8", "utf-8-sig", "utf-16"):
            path = written(tmp_path / f"{name}.csv", [first, *text], encoding)
            if name == "quoted" and encoding != "utf-8":
                with refused(DataError, "line 1", expected="quotes"):
                    imported(path, tmp_path / "out")
                continue
            for given in ("", "|"):
                out = tmp_path / f"{name}-{encoding}-{given != ''}"
                made = imported(path, out, delimiter=given)
                assert made.samples == 18
                assert f"{path}, line 11, column 'ax'" in made.dropped.first[Why.MISSING]


def test_a_separator_that_separates_nothing_is_not_advised_again(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", lines())
    with refused(DataError, "--delimiter ';'"):
        imported(path, tmp_path / "out", delimiter=";")


def test_a_row_of_units_is_named_and_skipped_when_told(tmp_path: Path) -> None:
    head, *rest = lines()
    path = written(tmp_path / "a.csv", [head, UNITS, *rest])
    said = re.escape(
        f"a.csv: got {UNITS.replace(',', ', ')} below the names of columns, which seems to be a "
        "row of units, expected numbers. --skip 1 --time-unit s leaves it out"
    )
    for way in (path, as_parquet(path)):
        with pytest.raises(DataError, match=said.replace("a\\.csv", r"a\.(csv|parquet)")):
            imported(way, tmp_path / "out", not_numbers="drop")
    made = imported(path, tmp_path / "csv", skip=1, time_unit="s")
    assert made.samples == 18 and made.card.classes == ("sit", "walk") and made.people == 3
    assert not made.dropped.counts
    frame = pd.read_csv(path)
    with pytest.raises(DataError, match="skip=1 time_unit='s' leaves it out"):
        fedsub.federation(frame)
    people = fedsub.federation(frame, skip=1, window="2s", overlap=0)
    assert people.clients["03"].x.shape == (6, 2, 20)


def test_a_row_behind_those_that_were_skipped_keeps_its_place(tmp_path: Path) -> None:
    head, *rest = lines()
    rest[7] = "01,walk,0.7,,1"
    path = written(tmp_path / "a.csv", [head, UNITS, "-,-,-,-,-", *rest])
    with pytest.raises(DataError, match="--skip 2 "):
        imported(path, tmp_path / "out")
    made = imported(path, tmp_path / "out", skip=2)
    first = made.dropped.first[Why.MISSING]
    assert first == f"{path}, line 11, column 'ax': got nothing, person '01'"
    frame = pd.read_csv(path)
    with pytest.raises(DataError, match="row 10, column 'ax': got None"):
        fedsub.federation(frame, skip=2, missing="stop")


def test_one_text_in_the_first_row_is_no_row_of_units(tmp_path: Path) -> None:
    head, *rest = lines()
    rest[0] = "01,walk,0.000,error,1"
    path = written(tmp_path / "a.csv", [head, *rest])
    with refused(DataError, "line 2", "column 'ax'", "--not-numbers drop", got="'error'"):
        imported(path, tmp_path / "out")
