"""A rehearsal with a page: a person's windows come to it as a phone's sensors would give them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedsub.cli import cli
from fedsub.engines import page_rehearsal
from fedsub.engines.page_rehearsal import demand_page
from fedsub.engines.replayed_person import check_measurable
from fedsub_core.data.watch import watch_federation
from fedsub_core.errors import DataError, RunError
from fedsub_core.flower.modules import GRPC, HTTP, demand_deployable
from fedsub_server.rundb import RunDatabase


def test_features_are_what_a_phone_measures() -> None:
    card = watch_federation().card
    assert check_measurable(card)[0] == ("accelerationIncludingGravity", "x", 9.80665)
    named = replace(card, features=("lin_acc_x", "gyro_z"), units="m/s^2, deg/s", sensors=None)
    assert check_measurable(named) == [("acceleration", "x", 1.0), ("rotationRate", "gamma", 1.0)]
    with pytest.raises(DataError, match="pulse"):
        check_measurable(replace(card, features=("pulse",), sensors=None))
    with pytest.raises(DataError, match="overlap"):
        check_measurable(replace(card, overlap=None))


@pytest.mark.parametrize("lacking", ["flower", "browser", "page"])
def test_what_lacks_is_named_with_what_to_do(
    lacking: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    release = GRPC if lacking == "flower" else HTTP
    monkeypatch.setattr(page_rehearsal, "demand_deployable", lambda: release)
    monkeypatch.setattr(page_rehearsal, "PAGE", tmp_path)
    programs = tmp_path / "chromium"
    programs.write_text("#!/bin/sh\n")
    programs.chmod(0o755)
    monkeypatch.setenv("PATH", "" if lacking == "browser" else str(tmp_path))
    command = {
        "flower": "constraints-http.txt",
        "browser": "apt-get install chromium",
        "page": "make web",
    }[lacking]
    with pytest.raises(RunError, match=command):
        demand_page()


@pytest.mark.slow
@pytest.mark.skipif(demand_deployable() != HTTP, reason="a page needs Flower 1.42")
@pytest.mark.parametrize("sums", [False, pytest.param(True, marks=pytest.mark.release)])
def test_one_of_three_people_has_the_page(sums: bool, tmp_path: Path) -> None:
    """In sums it signs its keys as the others do, in whose roster it is by its joining."""
    settings = ["rounds=2", "method=fedsub-ridge", "quorum=1", f"out={tmp_path}"]
    if sums:
        settings += ["secure-aggregation=true", "robust=none", "standardise=federation"]
    command = ["deploy", "local", "--clients", "3", "--browser", "1"]
    for setting in settings:
        command += ["--set", setting]
    ended = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    assert "with its recordings replayed" in ended.output
    if sums:
        assert "leaves your phone masked" in ended.output.replace("\n", " ")
        (transcript,) = tmp_path.glob("deploy-*/run/fedsub-ridge/transcript.jsonl")
        entries = [json.loads(line)["entry"] for line in transcript.read_text("utf-8").splitlines()]
        added = [entry for entry in entries if entry["kind"] == "sum"]
        assert len(added) >= 2 and all(len(entry["views"]) == 3 for entry in added)
    assert "means of products of features" in ended.output.replace("\n", " ")
    (database,) = tmp_path.glob("deploy-*/run/fedsub-ridge/state.db")
    people = list(watch_federation().clients.items())[:3]
    with RunDatabase(database) as opened:
        last = {row.client: row for row in opened.metrics() if row.metric == "examples"}
    assert last.keys() == {name for name, _ in people}
