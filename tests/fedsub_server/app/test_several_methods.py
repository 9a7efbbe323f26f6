"""One run of several methods: a folder of their own each, one summary, tables in the log."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import RunError
from fedsub_server.app import write_reports
from fedsub_server.results import method_summaries
from fedsub_server.tables import encodings, legend, tables_of, text_table

METHODS = ["fedsub", "local", "fedavg-finetune"]
TWO: dict[str, Any] = {"rounds": 2, "beside": "local,fedavg-finetune"}


def test_methods_run_one_after_another_into_one_folder(
    data: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    configuration: Any,
    serve: Any,
    devices: Any,
    result: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedsub_server.app.write_reports", write_reports)
    folder = tmp_path / "run"
    config = configuration(data, folder, **TWO)
    grid = devices(config)
    serve(grid, config)
    order = list(dict.fromkeys((run, method) for run, kind, method, _ in grid.asked if run))
    assert [method for _, method in order] == METHODS, "none begins before the last has ended"
    assert len({run for run, _ in order}) == 3, "devices tell them apart by a name for each"
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        [
            *METHODS,
            "run.toml",
            "data.json",
            "live.json",
            "summary.json",
            "report.html",
            "figures",
            "tables",
        ]
    )
    assert read_config(folder / "run.toml") == config
    for method in METHODS:
        assert sorted(p.name for p in (folder / method).iterdir()) == [
            "metrics.csv",
            "models",
            "state.db",
        ]
        round, _, metrics, run = result(config, method)
        assert round == 2 and (run, method) in order
        with (folder / method / "metrics.csv").open(newline="") as file:
            assert len(list(csv.reader(file))) == 1 + len(metrics)
    summary = json.loads((folder / "summary.json").read_text())["methods"]
    assert list(summary) == METHODS
    assert all(0 < summary[method]["macro_f1"] <= 1 for method in METHODS)
    assert [summary[method]["tested"] for method in METHODS] == ["trained", "trained", "received"]
    # Devices report what their own heads reach, whatever the method.
    assert len({summary[method]["own_heads_macro_f1"] for method in METHODS}) == 1
    assert None not in {summary[method]["own_heads_macro_f1"] for method in METHODS}
    summaries = method_summaries(folder)
    for columns, rows in tables_of(summaries):
        assert text_table(rows, columns) in caplog.text
    assert f"note: {legend(summaries)[0]}" in caplog.text
    assert f"encoding: {encodings(summaries)}" in caplog.text
    assert f"run folder: {folder}" in caplog.text
    assert caplog.messages[-1] == f"report: {folder / 'report.html'}"
    page = (folder / "report.html").read_text("utf-8")
    assert "Without others: " in page and "own heads" in page
    assert "fedavg-finetune" in page and "Not finished" not in page


def test_a_method_gives_beside_others_what_it_gives_alone(
    data: str,
    tmp_path: Path,
    configuration: Any,
    serve: Any,
    devices: Any,
    result: Any,
    assert_same: Any,
) -> None:
    several = configuration(data, tmp_path / "several", **TWO)
    serve(devices(several), several)
    for method in METHODS:
        alone = configuration(data, tmp_path / "alone", method=method, rounds=2)
        serve(devices(alone), alone)
        one, other = result(several, method), result(alone, method)
        assert_same(one[1], other[1])
        assert one[2] == other[2] and one[3] != other[3]


@pytest.mark.parametrize("kill", [9, 14])
def test_a_run_goes_on_after_the_methods_it_had_finished(
    data: str,
    tmp_path: Path,
    kill: int,
    caplog: pytest.LogCaptureFixture,
    configuration: Any,
    serve: Any,
    devices: Any,
    killed: Any,
    result: Any,
    assert_same: Any,
) -> None:
    calm, broken = (configuration(data, tmp_path / n, **TWO) for n in ("calm", "broken"))
    serve(devices(calm, tmp_path / "calm devices"), calm)
    with pytest.raises(killed):
        serve(devices(broken, tmp_path / "devices", kill), broken)
    assert not (tmp_path / "broken" / "summary.json").exists()
    finished = ["fedsub"] if kill < 13 else ["fedsub", "local"]
    before = {method: result(broken, method) for method in finished}
    caplog.clear()
    last = devices(broken, tmp_path / "devices")
    serve(last, broken)
    assert not {method for *_, method, _ in last.asked} & set(finished)
    for method in METHODS:
        one, other = result(broken, method), result(calm, method)
        assert_same(one[1], other[1])
        assert one[2] == other[2]
        if method in finished:
            assert one[3] == before[method][3] and one[2] == before[method][2]
            assert f"{tmp_path / 'broken' / method}: going on after round 2" in caplog.text
    assert (
        list(json.loads((tmp_path / "broken" / "summary.json").read_text())["methods"]) == METHODS
    )


def test_a_method_may_be_added_to_a_run_that_has_finished(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any, result: Any
) -> None:
    first = configuration(data, tmp_path / "run", method="local", rounds=1)
    serve(devices(first), first)
    before = result(first)
    more = configuration(data, tmp_path / "run", rounds=1, beside="local", **{"fedsub.depth": 1})
    serve(devices(more), more)
    after = result(more, "local")
    assert (after[0], after[2], after[3]) == (before[0], before[2], before[3])
    assert result(more, "fedsub")[0] == 1
    methods = json.loads((tmp_path / "run" / "summary.json").read_text())["methods"]
    assert list(methods) == ["fedsub", "local"]


def test_one_methods_decisive_key_that_differs_stops_all_before_any_round(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any, result: Any
) -> None:
    first = configuration(data, tmp_path / "run", **TWO | {"rounds": 1})
    serve(devices(first), first)
    written = (tmp_path / "run" / "run.toml").read_bytes()
    other = configuration(data, tmp_path / "run", **TWO, **{"fedavg-finetune.finetune": "head"})
    grid = devices(other)
    with refused(RunError, "fedavg-finetune.finetune", "'all'", "'head'"):
        serve(grid, other)
    assert grid.asked == [] and result(first)[0] == 1
    assert (tmp_path / "run" / "run.toml").read_bytes() == written


def test_fewer_simulated_nodes_than_people_are_refused_with_the_command(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any
) -> None:
    config = configuration(data, tmp_path / "run")
    with refused(RunError, "3 people", "2 SuperNodes", "'num-supernodes=3'"):
        serve(devices(config, nodes=2), config)
    assert not (tmp_path / "run" / "fedsub" / "metrics.csv").exists()
