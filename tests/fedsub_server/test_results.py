"""What a run folder's results are written as: a summary, CSV, tables of plain text."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedsub_core.config.run_config import dump_toml, read_config
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_server.results import export_csv, method_summaries, summarise_run
from fedsub_server.run_folder import humanise_bytes
from fedsub_server.rundb import RunDatabase
from fedsub_server.tables import BYTES, FAIRNESS, encodings, legend, reached, text_table

FEDSUB = [0.5, 0.6, 0.7, 0.8, 0.9]


def test_methods_come_in_the_order_of_the_runs_configuration(run: Path, write: Any) -> None:
    write("fedavg", {4: FEDSUB})
    write("of-a-package", {4: FEDSUB})
    found = [summary.method for summary in method_summaries(run)]
    assert found == ["fedavg", "fedsub", "local", "of-a-package"], "without one: the table's"
    config = read_config(None, {"method": "local", "beside": "fedsub,ditto,fedavg"})
    (run / "run.toml").write_text(dump_toml(config))
    found = [summary.method for summary in method_summaries(run)]
    assert found == ["local", "fedsub", "fedavg", "of-a-package"]


def test_summary_json_holds_what_is_returned_with_units(run: Path) -> None:
    found = summarise_run(run)
    assert json.loads((run / "summary.json").read_text()) == found
    assert list(found["methods"]) == ["fedsub", "local"]
    assert found["methods"]["fedsub"]["macro_f1"] == pytest.approx(0.7)
    assert found["methods"]["fedsub"]["tested"] == "trained"
    assert found["methods"]["local"]["worse_than_twin"] is None
    assert found["units"].keys() == found["methods"]["fedsub"].keys()
    assert found["methods"]["local"]["accuracy_min"] == pytest.approx(0.05)
    assert found["methods"]["local"]["sparsity_all"] is None
    assert "mean over clients" in found["units"]["macro_f1"]
    assert "population standard deviation" in found["units"]["accuracy_std"]
    assert "share of zeros" in found["units"]["sparsity_weights"]
    assert "client and round" in found["units"]["bytes_up"]
    assert not list(run.glob(".*"))


def test_a_nan_is_null_in_summary_json(tmp_path: Path, write: Any) -> None:
    write("fedsub", {4: [math.nan, *FEDSUB[1:]]})
    assert summarise_run(tmp_path)["methods"]["fedsub"]["macro_f1"] is None
    assert json.loads((tmp_path / "summary.json").read_text())["methods"]["fedsub"]["loss"] is None


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no state\.db of a method"):
        summarise_run(tmp_path)
    assert not (tmp_path / "summary.json").exists()


def test_csv_reads_back_exactly(run: Path) -> None:
    path = run / "fedsub" / "metrics.csv"
    path.write_text("old")
    with RunDatabase(run / "fedsub" / "state.db") as db:
        export_csv(db, path)
        expected = list(db.metrics())
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["round", "client", "class", "metric", "value"]
    assert [
        MetricRow(int(r), client, int(label) if label else None, metric, float(value))
        for r, client, label, metric, value in lines
    ] == expected
    assert ["4", "00", "2", "f1", "0.125"] in lines
    assert ["4", "00", "", "macro_f1", "0.5"] in lines
    assert ["4", "", "", "clusters", "3.0"] in lines, "of the run as a whole"


def test_a_csv_that_fails_leaves_the_old_one(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run / "fedsub" / "metrics.csv"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", full)
    with RunDatabase(run / "fedsub" / "state.db") as db, pytest.raises(RunError, match="disk full"):
        export_csv(db, path)
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.glob("*.csv*")] == ["metrics.csv"]


def test_plain_tables_have_a_row_per_method(run: Path) -> None:
    summaries = method_summaries(run)
    assert text_table(summaries, reached(summaries)).splitlines() == [
        "                      macro F1   10th  weighted         worse than",
        "method  tested          ± 95 %  perc.        F1   loss       local",
        "fedsub  trained  0.700 ± 0.196  0.540     0.350  1.400         40%",
        "local   trained  0.700 ± 0.181  0.600     0.350  1.400           -",
    ]
    assert text_table(summaries, FAIRNESS).splitlines() == [
        "         macro              accu-                      zeros:",
        "method  F1 std   min   max   racy    std   min   max  weights  all",
        "fedsub   0.141  0.50  0.90  0.300  0.141  0.10  0.50        -    -",
        "local    0.130  0.60  0.95  0.300  0.130  0.05  0.40        -    -",
    ]
    assert text_table(summaries, BYTES).splitlines() == [
        "        bytes up,  models    (union  papers'           down to",
        "method    a round      up  of rows,    wire)    down  evaluate",
        "fedsub   13.7 KiB  14.000    21.000   56.000  28.000     7.000",
        "local         0 B   0.000     0.000    0.000   0.000     0.000",
    ]
    assert text_table([], reached([])).count("\n") == 1, "no method yet: the titles alone"


def test_the_line_of_encodings_names_who_used_which(tmp_path: Path, write: Any) -> None:
    def config(upload: str) -> dict[str, str]:
        return {"upload-encoding": upload, "download-encoding": "float32"}

    write("fedsub", {4: FEDSUB}, config=config("int8"))
    write("fedavg", {4: FEDSUB}, config=config("float32"))
    write("local", {4: FEDSUB}, config=config("int8"))
    found = encodings(method_summaries(tmp_path))
    assert found == "float32 up and down: fedavg; int8 up, float32 down: fedsub, local"


@pytest.mark.parametrize(
    ("method", "config", "client", "said"),
    [
        ("fedavg", {"dp-noise": 2.0, "dp-delta": 1e-5}, "", "of all of one person, in the means"),
        (
            "fedsub-ridge",
            {"fedsub-ridge.noise": 2.0, "fedsub-ridge.noise-delta": 1e-5, "dp-noise": 0.0},
            "",
            "of one sample, in the sums",
        ),
        (
            "fedsub",
            {"fedsub.prototype-noise": "gaussian", "fedsub.prototype-delta": 1e-5},
            "01",
            "of one person's samples of a class",
        ),
        (
            "fedsub-gated",
            {"fedsub-gated.prototype-noise": "gaussian"},
            "01",
            "of one person's samples of a class",
        ),
        ("fedsub", {"fedsub.prototype-noise": "none", "dp-noise": 0.0}, "01", ""),
        ("fedsub", {"fedsub-ridge.noise": 2.0}, "01", ""),
        ("fedavg", {}, "", ""),
    ],
)
def test_what_noise_has_spent_is_said(
    method: str, config: dict[str, Any], client: str, said: str, tmp_path: Path, write: Any
) -> None:
    path = write(method, {4: FEDSUB}, config=config)
    with RunDatabase(path) as db:
        # Who spent most was silent in the last round, and one says what is no number.
        spent = [(5, client, 3.0), (6, client, 4.0), (7, "03", 1.5), (7, "04", math.inf)]
        for round in (5, 6, 7):
            rows = [MetricRow(r, c, None, "epsilon", value) for r, c, value in spent if r == round]
            db.commit(round, {}, rows)
    (summary,) = method_summaries(tmp_path)
    lines = [line for line in legend([summary]) if "epsilon" in line]
    assert bool(lines) == (summary.epsilon is not None) == bool(said)
    assert all(f"{method}: epsilon 4 at delta 1e-05, {said}" in line for line in lines)
    assert summarise_run(tmp_path)["methods"][method]["epsilon_delta"] == (1e-5 if said else None)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (278_552, "272.0 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (3.5 * 2**30, "3.5 GiB"),
        (5000 * 2**40, "5000.0 TiB"),
    ],
)
def test_bytes_for_people(count: float, text: str) -> None:
    assert humanise_bytes(count) == text
