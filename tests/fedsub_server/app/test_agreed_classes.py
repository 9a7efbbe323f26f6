"""Classes are called what people's devices agreed on, whatever the server takes for the data."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsub.api.running import Run
from fedsub.report.report import write_report
from fedsub.status.reading import who_is_with_whom
from fedsub_core.data.watch import CARD
from fedsub_core.errors import RunError
from fedsub_server.rundb import RunDatabase
from fedsub_server.rundb_glance import glance


@pytest.fixture
def run(data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any) -> Path:
    """A deployed run's folder: the server's `data` is the built-in one, as when nobody says it."""
    config = configuration(data, tmp_path / "run", rounds=2)
    serve(devices(config, tmp_path / "home"), replace(config, data="watch"))
    return tmp_path / "run"


def test_no_page_table_or_status_names_the_servers_classes(run: Path) -> None:
    page, _ = write_report(run)
    for name in ("classes.csv", "people_classes.csv", "confusion.csv", "clusters.csv"):
        with (run / "tables" / name).open(newline="") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        assert cells & {"a", "b", "c"} and not cells & set(CARD.classes), name
    text = page.read_text("utf-8")
    assert not any(f">{name}<" in text or f"{name} is" in text for name in CARD.classes)
    assert "classes: a, b, c" in text
    alike = who_is_with_whom(glance(run / "fedsub" / "state.db"))
    assert {one.of for one in alike} <= {"a", "b", "c"}
    assert set(Run(run).metrics["class"]) == {"", "a", "b", "c"}


def test_names_that_are_not_as_they_were_written_are_refused(run: Path) -> None:
    path = run / "fedsub" / "state.db"
    names, others = b'"classes": ["a", "b", "c"]', b'"classes": ["a", "b", "d"]'
    damaged = path.read_bytes().replace(names, others)
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)
    with pytest.raises(RunError, match="checksum of state 'server' is wrong"):
        RunDatabase(path).classes()
    with pytest.raises(RunError, match="checksum of state 'server' is wrong"):
        glance(path)
