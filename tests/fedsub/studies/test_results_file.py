"""A study's tables as one file: a column for each key that differs, numbers apart, the day."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fedsub.studies import results_file
from fedsub.studies.results_file import columns, write_results
from fedsub.studies.study_file import read_study
from fedsub.studies.study_results import finished, tables
from fedsub_core.errors import RunError

from .made_studies import STUDY, made, nothing_tuned


def test_all_tables_are_rows_of_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "two.toml").write_text(STUDY)
    study = read_study(tmp_path / "two.toml")
    made(study, tmp_path)
    runs = finished(study, tmp_path, nothing_tuned(study))
    # Three people are too few for intervals.
    ends = [
        (cell, [replace(r, interval=(0.1, 0.9), gain_interval=(-0.5, 0.5)) for r in rows])
        for cell, rows in tables(study, runs)
    ]
    monkeypatch.setattr(results_file, "tables", lambda *_: ends)
    write_results(study, runs, file := tmp_path / "two.csv")
    with file.open(newline="", encoding="utf-8") as text:
        head, *lines = csv.reader(text)
    assert head == columns(study) and head[:3] == ["lr", "epochs", "method"]
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    assert [(row["lr"], row["epochs"]) for row in rows] == [("0.05", "-")] * 3 + [("-", "2")] * 3
    best, local, worst = rows[:3]
    assert [row["method"] for row in rows[:3]] == ["fedsub mixing", "local", "fedavg"]
    assert (best["macro F1"], best["gain"], best["gain over"]) == ("0.795", "+0.250", "local")
    assert [best[name] for name in ("gain: low", "gain: high")] == ["-0.500", "+0.500"]
    assert [best[name] for name in ("macro F1: low", "macro F1: high")] == ["0.100", "0.900"]
    assert (local["gain"], local["worse"], worst["worse"]) == ("-", "-", "100%")
    assert (best["clusters"], local["clusters"]) == ("2.500", "-")
    assert [row["macro-f1: Fig. 4"] for row in rows] == ["0.870", "-", "0.500"] + ["-"] * 3
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", best["written"])
    one = columns(replace(study, cells=study.cells[:1]))
    assert one[0] == "method", "a study of one table has no keys that differ"
    with pytest.raises(RunError, match=re.escape(str(tmp_path / "none"))):
        write_results(study, runs, tmp_path / "none" / "two.csv")
