"""Results of a run folder: its summary, and its metrics as CSV.

A run folder holds ``run.toml``, ``summary.json`` and a subfolder per method with its ``state.db``,
``metrics.csv`` and ``models/``.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import write_whole
from fedsub_core.methods.table import METHODS
from fedsub_server.data_notes import data_in_words, read_notes
from fedsub_server.method_runs import method_runs
from fedsub_server.method_summary import MethodSummary
from fedsub_server.methods_paragraph import methods_paragraph
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE, SUMMARY_FILE
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method
from fedsub_server.tuned import read_tuned


def method_summaries(folder: Path) -> list[MethodSummary]:
    """Summarise every method of a run folder, in the order of its configuration.

    Raises RunError if the folder holds no method's database, or one that cannot be read.
    """
    names = {path.parent.name for path in folder.glob(f"*/{DATABASE_FILE}")}
    if not names:
        raise RunError(
            f"{folder}: got no {DATABASE_FILE} of a method, expected one in a subfolder such as "
            f"{folder / 'fedsub'}; give the folder of a run"
        )
    known = [name for name in _order(folder) if name in names]
    with ExitStack() as stack:
        dbs = {
            name: stack.enter_context(RunDatabase(folder / name / DATABASE_FILE))
            for name in (*known, *sorted(names.difference(known)))
        }
        return [summarise_method(db, dbs.get("local")) for db in dbs.values()]


def summarise_run(folder: Path) -> dict[str, Any]:
    """Write ``summary.json`` into a run folder and return what it holds.

    ``units`` says what each number averages over; ``methods`` holds a :class:`MethodSummary` by
    method, with null for a number that does not exist or is not finite; ``data`` how many people's
    samples were divided in which way, and what bends the numbers (``data.json`` names everybody);
    ``done`` a paragraph of how it was done, and each method's resolved model.

    Raises RunError if the folder holds no method's database, or one that cannot be read.
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
    notes = read_notes(folder)
    splits = Counter(one.split for one in notes.splits.values())
    data = {"splits": dict(sorted(splits.items())), "remarks": data_in_words(notes)}
    summary_of_run: dict[str, Any] = {"units": units, "methods": methods, "data": data}
    if tuned := read_tuned(folder):
        summary_of_run["tuned"] = tuned
    runs = method_runs(folder, _config(folder), methods)
    summary_of_run["done"] = {
        "paragraph": " ".join(methods_paragraph(runs, notes)),
        "models": {run.name: asdict(run.model) for run in runs if run.model is not None},
    }
    text = json.dumps(summary_of_run, indent=2, allow_nan=False) + "\n"
    write_whole(folder / SUMMARY_FILE, text.encode())
    return summary_of_run


def export_csv(db: RunDatabase, path: Path) -> None:
    """Write all metrics as CSV (round, client, class, metric, value), whole or not at all.

    The class is empty for a metric that is not per class, the client for one of the whole run;
    values read back exactly. Of a long run, whose metrics are thinned, there is no second copy: the
    file is removed.
    """
    if db.thinned():
        path.unlink(missing_ok=True)
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("round", "client", "class", "metric", "value"))
    writer.writerows(db.metrics())
    write_whole(path, text.getvalue().encode())


def _config(folder: Path) -> RunConfig | None:
    try:
        return read_config(folder / RUN_FILE)
    except ConfigError:  # no run of ours, or one of another version: still worth reading
        return None


def _order(folder: Path) -> tuple[str, ...]:
    config = _config(folder)
    return tuple(METHODS) if config is None else config.methods
