"""The dashboard and the alerts ask for what the endpoint answers, and for nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsub.status.facts import Person, Status
from fedsub.status.openmetrics import metrics_text

from .open_metrics import samples

MONITORING = Path(__file__).parents[3] / "docs" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
#: Of which everything is known.
STATUS = Status(
    *("x", "run", "going on"), seconds_left=1.0, round_seconds=1.0, phase_seconds=1.0, bytes_up=1.0,
    bytes_down=1.0, disk_free=1, memory=1, certificate_days=1.0,
    people=[Person("ann", "trained", usable=1, macro_f1=0.5, mae=2.0, alone=0.6)],
)  # fmt: skip
EXPORTED = samples(metrics_text(STATUS, names=True))


def expressions() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def selected(text: str) -> list[tuple[str, list[str]]]:
    """Return each metric that is named in a text, and what its labels must be."""
    found = []
    for name, labels in re.findall(r"\b(fedsub_[a-z0-9_]+)(?:\{([^}]*)\})?", text):
        wanted = []
        for key, values in re.findall(r'([a-z]+)=~?"([^"]*)"', labels or ""):
            if key != "instance":  # which Prometheus adds
                wanted += [f'{name}{{{key}="{value}"}}' for value in values.split("|")]
        found.append((name, wanted))
    return found


@pytest.mark.parametrize("text", [*expressions(), (MONITORING / "alerts.yml").read_text("utf-8")])
def test_every_metric_that_is_asked_for_is_exported(text: str) -> None:
    names = {sample.partition("{")[0] for sample in EXPORTED}
    asked = selected(text)
    assert asked
    for name, wanted in asked:
        assert name in names and {*wanted} <= EXPORTED.keys()


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {name for text in expressions() for name, _ in selected(text)}
    assert shown == {sample.partition("{")[0] for sample in EXPORTED}


def test_the_dashboard_asks_for_one_server_and_no_panels_overlap() -> None:
    variables = {one["name"] for one in DASHBOARD["templating"]["list"]}
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        assert panel["description"] and panel["datasource"]["uid"] == "${source}"
        for text in (target["expr"] for target in panel["targets"]):
            assert text.count("fedsub_") == text.count('{instance=~"$instance"}')
        at: dict[str, Any] = panel["gridPos"]
        cells = {(at["x"] + i, at["y"] + j) for i in range(at["w"]) for j in range(at["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24
        taken |= cells
    asked = set(re.findall(r"\$\{?([a-z]+)", json.dumps(DASHBOARD["panels"])))
    assert asked == variables == {"source", "instance"}
