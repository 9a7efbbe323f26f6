"""A real Prometheus reads the endpoint, alerts, and has answers to the dashboard's questions."""

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from fedsub.deploy.flower_process import free_ports
from fedsub.status import reading
from fedsub.status.openmetrics import metrics_text
from fedsub.status.reading import read_status

from .made_deployments import make_deployment, served
from .test_monitoring import MONITORING, STATUS, expressions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("promtool") and shutil.which("prometheus")),
        reason="no promtool and prometheus on the path",
    ),
]
#: Seconds until it has started, scraped and judged.
PATIENCE = 60.0
#: What it then says of a deployment in which one person is silent and one is refused.
EXPECTED = {
    "FedSubSilentPeople": "pending",
    "FedSubRefusedUploads": "pending",
    "FedSubQuorum": "firing",
}


def promtool(*arguments: str, stdin: str = "") -> str:
    told = subprocess.run(
        ["promtool", *arguments], input=stdin, capture_output=True, text=True, timeout=60
    )
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout + told.stderr


def test_promtool_finds_nothing_wrong() -> None:
    assert "SUCCESS: 8 rules found" in promtool(
        "check", "rules", "--lint-fatal", str(MONITORING / "alerts.yml")
    )
    assert promtool("check", "metrics", stdin=metrics_text(STATUS, names=True)) == ""


def test_prometheus_scrapes_alerts_and_answers_the_dashboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "holder", lambda files: 1)
    made = make_deployment(tmp_path / "run", missing=("cyd",), refused=("bob",), live={})
    made.close()
    (port,) = free_ports(1)
    with served(lambda: read_status(tmp_path / "run"), names=True) as url:
        target = url.removeprefix("http://")
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(MONITORING / "alerts.yml")],
            "scrape_configs": [{"job_name": "fedsub", "static_configs": [{"targets": [target]}]}],
        }
        # JSON is YAML, too.
        (tmp_path / "prometheus.yml").write_text(json.dumps(config))
        promtool("check", "config", str(tmp_path / "prometheus.yml"))
        command = ["prometheus", f"--config.file={tmp_path / 'prometheus.yml'}",
                   f"--storage.tsdb.path={tmp_path / 'series'}",
                   f"--web.listen-address=127.0.0.1:{port}"]  # fmt: skip
        with (tmp_path / "prometheus.log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
        try:
            states = until_expected(port)
            lacking = [text for text in expressions() if not series(port, text, target)]
        finally:
            process.terminate()
            process.wait(20)
    assert states == EXPECTED
    # Of this run no certificate is known, nor what training alone gives; it has no target.
    known = ("fedsub_certificate_left", "fedsub_worse_than_alone", "fedsub_mae")
    assert [text for text in lacking if not text.startswith(known)] == []
    assert len(lacking) == len(known)


def series(port: int, text: str, target: str) -> list[Any]:
    """Return what Prometheus answers to one of the dashboard's questions."""
    query = {"query": text.replace("$instance", target)}
    found: list[Any] = asked(port, f"query?{urlencode(query)}")["result"]
    return found


def asked(port: int, what: str) -> Any:
    with urlopen(f"http://127.0.0.1:{port}/api/v1/{what}", timeout=10) as answer:
        return json.load(answer)["data"]


def until_expected(port: int) -> dict[str, str]:
    """Return the alerts' states as soon as they are the expected ones, or when patience ends.

    Before the first scrape Prometheus has a pending alert that nobody says how the run is.
    """
    end, states = time.monotonic() + PATIENCE, dict[str, str]()
    while states != EXPECTED and time.monotonic() < end:
        time.sleep(0.2)
        try:
            alerts = asked(port, "alerts")["alerts"]
        except OSError:  # it does not listen yet
            continue
        states = {alert["labels"]["alertname"]: alert["state"] for alert in alerts}
    return states
