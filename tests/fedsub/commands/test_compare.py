"""`fedsub compare`, and `fedsub report` of a study's folder."""

import json
import re
from pathlib import Path

import pytest

from fedsub.studies import local_engine

from ..studies.in_this_process import in_this_process
from .calls import Call, assert_refused

STUDY = """
title = "Small"
about = "Of which one row fails."
seeds = [0]
[run]
data = "{data}"
rounds = 1
[methods]
local = {{}}
fedavg = {{}}
deep = {{ method = "fedper", head-layers = {layers} }}
[tune]
lr = [0.01, 0.05]
"""


@pytest.mark.usefixtures("blank_figures")
def test_rows_of_which_a_run_failed_are_missing_and_said(
    fedsub: Call, town_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the study goes on, and has its tables and page."""
    # Each process takes longer to start than all runs do; tests of studies start some.
    monkeypatch.setattr(local_engine, "local_engine", lambda jobs: in_this_process)
    file, folder = Path("small.toml").resolve(), Path("runs/small").resolve()
    file.write_text(STUDY.format(data=town_folder, layers=9))
    assert_refused(fedsub("compare", file, "--csv", "none/small.csv"), "none/small.csv")
    code, out, err = fedsub("compare", file, "--csv", "small.csv")
    assert "small.csv is not written" in out and not Path("small.csv").exists()
    assert code == 2 and "2 runs failed, the others are kept" in err
    # No terminal, no bar.
    assert re.match(r"tuning: 0 of 6 runs ended, 0%\n(tuning: .+\n)*runs: 0 of 2 runs", out)
    assert len(re.findall(r"tuning-deep-seed0-\w+: .*head: got 9 layers", err)) == 2
    assert f"Study folder: {folder} (tables.md)" in out
    for name in ("tables.md", "report.html"):
        assert "Missing, as runs failed: deep." in (folder / name).read_text("utf-8")
    rows = re.findall(r"^\| (\w+) \|", (folder / "tables.md").read_text("utf-8"), re.MULTILINE)
    assert {"local", "fedavg"} <= set(rows) and "deep" not in rows
    assert_refused(fedsub("report", folder), "the study has runs to do")
    # Corrected, it goes on as if it never had been wrong.
    file.write_text(STUDY.format(data=town_folder, layers=1))
    code, out, err = fedsub("compare", file, "--json", "--csv", "small.csv")
    assert code == 0, err
    tables = (folder / "tables.md").read_text("utf-8")
    said = json.loads(out)
    assert (said["folder"], said["report"]) == (str(folder), str(folder / "report.html"))
    (table,) = said["tables"]
    assert table["of"] == {} and len(table["rows"]) == 3
    for row in table["rows"]:
        line = f"| {row['label']} | {row['tested']} | {row['macro_f1']:.3f} | {row['p10']:.3f} |"
        assert line in tables and row["tuned"]["lr"] in (0.01, 0.05)
        in_csv = f"\n{row['label']},{row['tested']},{row['macro_f1']:.3f},-,-,{row['p10']:.3f},"
        assert in_csv in Path("small.csv").read_text("utf-8")
    assert "Missing" not in tables and "\n| deep |" in tables
    page = folder / "report.html"
    before = page.read_bytes()
    page.unlink()
    assert fedsub("report", folder)[:2] == (0, f"Report: {page}\n")
    assert page.read_bytes() == before
    code, _, err = fedsub("report", folder, "--watch")
    assert code == 2 and "got a study's" in err
