"""Results of a run folder: its summary, its metrics as CSV, and tables of them.

A run folder holds ``run.toml``, ``summary.json`` and a subfolder per method with its ``state.db``,
``metrics.csv`` and ``models/``.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
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
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE, SUMMARY_FILE, humanise_bytes
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method
from fedsub_server.twin_rows import twin_in_words, twin_of, with_own_heads


def method_summaries(folder: Path) -> list[MethodSummary]:
    """Summarise every method of a run folder, in the order of its configuration.

    Raises
    ------
    RunError
        If the folder holds no method's database, or one that cannot be read.
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
    notes = read_notes(folder)
    splits = Counter(one.split for one in notes.splits.values())
    data = {"splits": dict(sorted(splits.items())), "remarks": data_in_words(notes)}
    summary_of_run: dict[str, Any] = {"units": units, "methods": methods, "data": data}
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
    values read back exactly.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("round", "client", "class", "metric", "value"))
    writer.writerows(db.metrics())
    write_whole(path, text.getvalue().encode())


@dataclass(frozen=True)
class Column:
    """One column of a table of methods: its title of two lines, and what stands in it."""

    title: str
    cell: Callable[[MethodSummary], str]
    is_text: bool = False


def _number(name: str, spec: str) -> Callable[[MethodSummary], str]:
    def cell(summary: MethodSummary) -> str:
        value = getattr(summary, name)
        return "-" if value is None else format(value, spec)

    return cell


def _macro_f1(summary: MethodSummary) -> str:
    interval = "" if summary.macro_f1_ci95 is None else f" ± {summary.macro_f1_ci95:.3f}"
    # The column would be wide in every table; only where somebody is missing does it matter.
    of = f" ({summary.clients} of {summary.people})" if summary.clients < summary.people else ""
    return _number("macro_f1", ".3f")(summary) + interval + (of if summary.clients else "")


def _tested(summary: MethodSummary) -> str:
    """Return which model is tested, short: a table of a terminal is narrow."""
    chosen = "" if summary.best_round is None else f", round {summary.best_round:g}*"
    return (summary.tested or "-") + chosen


METHOD = Column("\nmethod", lambda s: s.method, is_text=True)
#: What methods reached.
REACHED = (
    METHOD,
    Column("\ntested", _tested, is_text=True),
    Column("macro F1\n± 95 %", _macro_f1),
    Column("10th\nperc.", _number("macro_f1_p10", ".3f")),
    Column("weighted\nF1", _number("weighted_f1", ".3f")),
    Column("\nloss", _number("loss", ".3f")),
)
#: How evenly clients are served, and how many of their model's numbers are zero.
FAIRNESS = (
    METHOD,
    Column("macro\nF1 std", _number("macro_f1_std", ".3f")),
    Column("\nmin", _number("macro_f1_min", ".2f")),
    Column("\nmax", _number("macro_f1_max", ".2f")),
    Column("accu-\nracy", _number("accuracy", ".3f")),
    Column("\nstd", _number("accuracy_std", ".3f")),
    Column("\nmin", _number("accuracy_min", ".2f")),
    Column("\nmax", _number("accuracy_max", ".2f")),
    Column("zeros:\nweights", _number("sparsity_weights", ".1%")),
    Column("\nall", _number("sparsity_all", ".1%")),
)
#: What clients sent and received a round: in bytes, and in full float32 models.
BYTES = (
    METHOD,
    Column(
        "bytes up,\na round", lambda s: "-" if s.bytes_up is None else humanise_bytes(s.bytes_up)
    ),
    Column("models\nup", _number("full_models_up_sent", ".3f")),
    Column("(union\nof rows,", _number("full_models_up_union", ".3f")),
    Column("papers'\nwire)", _number("full_models_up_papers", ".3f")),
    Column("\ndown", _number("full_models_down_sent", ".3f")),
    Column("down to\nevaluate", _number("full_models_evaluation_sent", ".3f")),
)


def by_capacity(summaries: Sequence[MethodSummary]) -> tuple[Column, ...]:
    """Return the table of macro F1 by capacity; no column where all hold everything."""
    people: dict[str, set[str]] = {}
    for share, facts in (one for summary in summaries for one in summary.by_capacity.items()):
        people.setdefault(share, set()).add(f"{facts['people']:g}")

    def at(share: str) -> Callable[[MethodSummary], str]:
        def cell(summary: MethodSummary) -> str:
            found = summary.by_capacity.get(share, {}).get("macro_f1")
            return "-" if found is None else f"{found:.3f}"

        return cell

    shares = sorted(people, key=float, reverse=True)
    columns = [Column(f"F1 at {s},\nof {' or '.join(sorted(people[s]))}", at(s)) for s in shares]
    return (METHOD, *columns) if columns else ()


def reached(summaries: Sequence[MethodSummary]) -> tuple[Column, ...]:
    """Return :data:`REACHED`, and how many people are worse off than with the run's twin."""
    twin = twin_of(summaries)
    worse = Column(f"worse than\n{twin}", _number("worse_than_twin", ".0%"))
    return REACHED if twin is None else (*REACHED, worse)


#: A table of a run: its columns, and who has a row.
Table = tuple[tuple[Column, ...], Sequence[MethodSummary]]


def tables_of(summaries: Sequence[MethodSummary]) -> list[Table]:
    """Return what is printed of a run, in its order, without columns that hold dashes alone."""
    tables: list[Table] = [(reached(summaries), with_own_heads(summaries))]
    tables += [(each, summaries) for each in (FAIRNESS, BYTES, by_capacity(summaries))]
    filled = [
        (tuple(c for c in columns if c is METHOD or any(c.cell(one) != "-" for one in rows)), rows)
        for columns, rows in tables
    ]
    return [(columns, rows) for columns, rows in filled if columns]


def text_table(summaries: Sequence[MethodSummary], columns: Sequence[Column]) -> str:
    """Return a table as plain text, for a log; a row per method."""
    titles = [column.title.split("\n") for column in columns]
    rows = [[title[line] for title in titles] for line in (0, 1)]
    rows += [[column.cell(summary) for column in columns] for summary in summaries]
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column.is_text else cell.rjust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in rows
    )


def encodings(summaries: Sequence[MethodSummary]) -> str:
    """Return in a line how each method's messages were encoded: bytes compare only within one."""
    users: dict[str, dict[str, None]] = {}
    for summary in summaries:
        users.setdefault(summary.encoding or "unknown", {})[summary.method] = None
    return "; ".join(f"{encoding}: {', '.join(names)}" for encoding, names in users.items())


def legend(summaries: Sequence[MethodSummary]) -> list[str]:
    """Return in lines what a run's tables leave unsaid: what is counted, and what a star means."""
    lines = ["Models up and down: full models in float32, a person and round, as sent."]
    if any(one.full_models_up_union is not None for one in summaries):
        lines[0] += (
            " In parentheses, never sent: each selected row once; each class's subnetwork on its "
            "own, as the papers write it."
        )
    lines += [said for said in (twin_in_words(summaries),) if said]
    lines += spent_by_noise(summaries)
    if any(one.best_round is not None for one in summaries):
        lines.append(
            "* Tested is each person's best round so far by macro F1 on a validation part of the "
            "training samples, never by tested ones; the round is the median over people."
        )
    return lines


def spent_by_noise(summaries: Sequence[MethodSummary]) -> list[str]:
    """Return in lines what each method's noise has spent; none without noise."""
    lines = [
        f"{one.method}: epsilon {one.epsilon:.3g} at delta {one.epsilon_delta:g}, of "
        f"{one.epsilon_of}."
        for one in summaries
        if one.epsilon is not None
    ]
    if len(lines) > 1:
        lines.append("Who sees numbers of several methods or runs learns more: epsilons add up.")
    return lines


def _config(folder: Path) -> RunConfig | None:
    try:
        return read_config(folder / RUN_FILE)
    except ConfigError:  # no run of ours, or one of another version: still worth reading
        return None


def _order(folder: Path) -> tuple[str, ...]:
    config = _config(folder)
    return tuple(METHODS) if config is None else config.methods
