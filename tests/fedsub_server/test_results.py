"""Results of a run folder, with numbers worked out by hand, by numpy and by scipy."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from fedsub.report.results import (
    OverClients,
    export_csv,
    humanise_bytes,
    method_summaries,
    summarise,
    summarise_method,
    summarise_run,
    table,
)
from rich.console import Console
from scipy import stats

from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb import RunDatabase

FEDSUB = [0.5, 0.6, 0.7, 0.8, 0.9]
LOCAL = [0.6, 0.6, 0.65, 0.7, 0.95]


def write(
    folder: Path, method: str, f1: dict[int, list[float]], up: float = 500.0, rounds: int = 4
) -> Path:
    """Write a run of `rounds` rounds; `f1` is macro F1 of every client by evaluated round."""
    path = folder / method / "state.db"
    path.parent.mkdir(parents=True)
    with RunDatabase(path, {"method": method}) as db:
        for round in range(rounds + 1):
            rows = []
            for client in range(5):
                name = f"{client:02}"
                # The opening exchange is large and must not count as a round.
                sent = 1e9 if round == 0 else up * (1 + client + 10 * round)
                for metric, value in (
                    ("bytes_up_sent", sent),
                    ("bytes_up_papers", 4 * sent),
                    ("bytes_up_union", 1.5 * sent),
                    ("bytes_full_model", 1000.0),
                ):
                    rows.append(MetricRow(round, name, None, metric, value))
                if round in f1:
                    for metric, value in (
                        ("macro_f1", f1[round][client]),
                        ("weighted_f1", f1[round][client] / 2),
                        ("loss", 2 * f1[round][client]),
                        ("examples", 30.0),
                    ):
                        rows.append(MetricRow(round, name, None, metric, value))
                    rows.append(MetricRow(round, name, 2, "f1", 0.125))
            db.commit(round, {}, rows)
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write(tmp_path, "local", {2: [0.1] * 5, 4: LOCAL}, up=0.0)
    write(tmp_path, "fedsub", {2: [0.9] * 5, 4: FEDSUB})
    (tmp_path / "models").mkdir()
    return tmp_path


def test_summarise_by_hand() -> None:
    # t(0.975, 4) = 2.776445; s = 0.1581139; s / sqrt(5) = 0.0707107.
    assert summarise(FEDSUB) == OverClients(
        pytest.approx(0.7), pytest.approx(2.776445 * 0.0707107, rel=1e-6), pytest.approx(0.54), 5
    )


@pytest.mark.parametrize("n", [2, 3, 30, 200])
def test_summarise_equals_scipy(n: int) -> None:
    x = np.random.default_rng(n).random(n)
    low, high = stats.t.interval(0.95, n - 1, loc=x.mean(), scale=stats.sem(x))
    found = summarise(x.tolist())
    assert found.ci95 is not None
    assert (found.mean - found.ci95, found.mean + found.ci95) == pytest.approx((low, high))
    assert found.p10 == pytest.approx(np.percentile(x, 10))


def test_one_client_has_no_interval_and_none_is_refused() -> None:
    assert summarise([0.25]) == OverClients(0.25, None, 0.25, 1)
    with pytest.raises(ValueError, match="got no values"):
        summarise([])


def test_a_diverged_client_shows() -> None:
    assert math.isnan(summarise([0.5, math.nan]).mean)


def test_a_methods_numbers(run: Path) -> None:
    local, fedsub = method_summaries(run)[::-1]
    assert (fedsub.method, local.method) == ("fedsub", "local")
    assert (fedsub.rounds, fedsub.evaluated_round, fedsub.clients) == (4, 4, 5)
    assert fedsub.macro_f1 == pytest.approx(0.7)
    assert fedsub.macro_f1_ci95 == pytest.approx(0.1963243, rel=1e-5)
    assert fedsub.macro_f1_p10 == pytest.approx(0.54)
    assert fedsub.weighted_f1 == pytest.approx(0.35)
    assert fedsub.loss == pytest.approx(1.4)
    # 500 * (1 + mean of 0..4 + 10 * mean of 1..4)
    assert fedsub.bytes_up == pytest.approx(500 * 28)
    assert fedsub.full_models_up_sent == pytest.approx(14)
    assert fedsub.full_models_up_papers == pytest.approx(56)
    assert fedsub.full_models_up_union == pytest.approx(21)
    # Clients 0 and 4 are worse than alone; client 1 is equal, not worse.
    assert fedsub.worse_than_local == pytest.approx(2 / 5)
    assert (local.worse_than_local, local.bytes_up) == (None, 0.0)
    assert fedsub.seconds > 0


def test_without_local_there_is_no_share_worse_than_it(tmp_path: Path) -> None:
    with RunDatabase(write(tmp_path, "fedsub", {4: FEDSUB})) as db:
        assert summarise_method(db, None).worse_than_local is None


def test_methods_are_compared_in_the_last_round_both_evaluated(tmp_path: Path) -> None:
    write(tmp_path, "local", {2: LOCAL, 4: [0.0] * 5})
    write(tmp_path, "fedsub", {2: FEDSUB, 3: FEDSUB}, rounds=3)
    assert method_summaries(tmp_path)[0].worse_than_local == pytest.approx(2 / 5)


def test_a_client_without_test_samples_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "fedsub" / "state.db"
    path.parent.mkdir()
    with RunDatabase(path, {}) as db:
        rows = [
            MetricRow(1, client, None, metric, value)
            for client, f1, examples in (("a", 0.5, 3), ("b", math.nan, 0), ("c", 0.75, 9))
            for metric, value in (("macro_f1", f1), ("loss", f1), ("examples", examples))
        ]
        db.commit(1, {}, rows)
        found = summarise_method(db, None)
    assert (found.clients, found.macro_f1, found.loss) == (2, 0.625, 0.625)


def test_a_run_that_was_not_evaluated_yet(tmp_path: Path) -> None:
    write(tmp_path, "fedsub", {})
    (found,) = method_summaries(tmp_path)
    assert (found.rounds, found.evaluated_round, found.clients) == (4, None, 0)
    assert found.macro_f1 is found.macro_f1_ci95 is found.loss is found.weighted_f1 is None
    assert found.bytes_up == pytest.approx(14_000)


def test_summary_json_holds_what_is_returned_with_units(run: Path) -> None:
    found = summarise_run(run)
    assert json.loads((run / "summary.json").read_text()) == found
    assert list(found["methods"]) == ["fedsub", "local"]
    assert found["methods"]["fedsub"]["macro_f1"] == pytest.approx(0.7)
    assert found["methods"]["local"]["worse_than_local"] is None
    assert found["units"].keys() == found["methods"]["fedsub"].keys()
    assert "mean over clients" in found["units"]["macro_f1"]
    assert "client and round" in found["units"]["bytes_up"]
    assert not list(run.glob(".*"))


def test_a_nan_is_null_in_summary_json(tmp_path: Path) -> None:
    write(tmp_path, "fedsub", {4: [math.nan, *FEDSUB[1:]]})
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


def test_the_table_shows_a_row_per_method(run: Path) -> None:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(table(method_summaries(run)))
    lines = capture.get().splitlines()
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines]
    assert cells[-3:-1] == [
        ["fedsub", "0.700 ± 0.196", "0.540", "0.350", "1.400", "13.7 KiB", "40%"],
        ["local", "0.700 ± 0.181", "0.600", "0.350", "1.400", "0 B", "-"],
    ]
    for title in ("macro F1", "± 95 %", "10th", "bytes up,", "than local"):
        assert title in capture.get()


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
