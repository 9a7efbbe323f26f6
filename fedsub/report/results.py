"""Results of a run folder: its summary, its metrics as CSV, and a table for the terminal.

A run folder holds ``run.toml``, ``summary.json`` and a subfolder per method with its ``state.db``
and ``metrics.csv``.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedsub_core.errors import RunError
from fedsub_core.files import write_whole
from fedsub_core.methods.table import METHODS
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import MethodSummary, OverClients, summarise, summarise_method

__all__ = [
    "MethodSummary",
    "OverClients",
    "export_csv",
    "humanise_bytes",
    "method_summaries",
    "summarise",
    "summarise_method",
    "summarise_run",
    "table",
]


def method_summaries(folder: Path) -> list[MethodSummary]:
    """Summarise every method of a run folder, in the order of the table of methods.

    Raises
    ------
    RunError
        If the folder holds no method's database, or one that cannot be read.
    """
    names = {path.parent.name for path in folder.glob("*/state.db")}
    if not names:
        raise RunError(
            f"{folder}: got no state.db of a method, expected one in a subfolder such as "
            f"{folder / 'fedsub'}; give the folder of a run"
        )
    known = [name for name in METHODS if name in names]
    with ExitStack() as stack:
        dbs = {
            name: stack.enter_context(RunDatabase(folder / name / "state.db"))
            for name in (*known, *sorted(names - METHODS.keys()))
        }
        return [summarise_method(db, dbs.get("local")) for db in dbs.values()]


def summarise_run(folder: Path) -> dict[str, Any]:
    """Write ``summary.json`` into a run folder and return what it holds.

    ``units`` says what each number averages over; ``methods`` holds a :class:`MethodSummary` by
    method, with null for a number that does not exist or is not finite.

    Raises
    ------
    RunError
        If the folder holds no method's database, or one that cannot be read.
    """
    # JSON has no nan and no infinity.
    methods = {
        summary.method: {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(summary).items()
            if key != "method"
        }
        for summary in method_summaries(folder)
    }
    units = {f.name: f.metadata["unit"] for f in fields(MethodSummary) if f.metadata}
    summary_of_run: dict[str, Any] = {"units": units, "methods": methods}
    text = json.dumps(summary_of_run, indent=2, allow_nan=False) + "\n"
    write_whole(folder / "summary.json", text.encode())
    return summary_of_run


def export_csv(db: RunDatabase, path: Path) -> None:
    """Write all metrics as CSV (round, client, class, metric, value), whole or not at all.

    The class is empty for a metric that is not per class; values read back exactly.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("round", "client", "class", "metric", "value"))
    writer.writerows(db.metrics())
    write_whole(path, text.getvalue().encode())


def table(summaries: Iterable[MethodSummary]) -> Table:
    """Return a table for the terminal, a row per method; a dash is what a run does not hold."""
    result = Table(box=SIMPLE_HEAD)
    result.add_column("\nmethod", no_wrap=True)
    for title in (
        "macro F1\n± 95 %",
        "10th\nperc.",
        "weighted\nF1",
        "\nloss",
        "bytes up,\na round",
        "worse\nthan local",
    ):
        result.add_column(title, justify="right", no_wrap=True)
    for s in summaries:
        interval = "" if s.macro_f1_ci95 is None else f" ± {s.macro_f1_ci95:.3f}"
        result.add_row(
            s.method,
            _text(s.macro_f1, ".3f") + interval,
            _text(s.macro_f1_p10, ".3f"),
            _text(s.weighted_f1, ".3f"),
            _text(s.loss, ".3f"),
            "-" if s.bytes_up is None else humanise_bytes(s.bytes_up),
            _text(s.worse_than_local, ".0%"),
        )
    return result


def bytes_table(summaries: Iterable[MethodSummary]) -> Table:
    """Return a table of what a client sends and receives a round, in full float32 models."""
    result = Table(box=SIMPLE_HEAD)
    result.add_column("full models\na round", no_wrap=True)
    for title in (
        "up, papers'\nencoding",
        "up,\nunion",
        "up, sent:\npayload",
        "up, sent:\nFlower",
        "down:\npayload",
        "down:\nFlower",
    ):
        result.add_column(title, justify="right", no_wrap=True)
    for s in summaries:
        numbers = (
            s.full_models_up_papers,
            s.full_models_up_union,
            s.full_models_up_sent,
            s.full_models_up_flower,
            s.full_models_down_sent,
            s.full_models_down_flower,
        )
        result.add_row(s.method, *(_text(number, ".3f") for number in numbers))
    return result


def humanise_bytes(count: float) -> str:
    """Return bytes in the unit (powers of 1024) that leaves 1 to 1023 of them, as ``272.0 KiB``."""
    power = 0
    # 1023.95 would be printed as 1024.0.
    while count >= 1023.95 and power < 4:
        count, power = count / 1024, power + 1
    return f"{count:.1f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}" if power else f"{count:.0f} B"


def _text(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)
