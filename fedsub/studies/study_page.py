"""The page of a study: a part for each of its tables, with curves, people, classes and groups."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsub.report import comparison_rows, method_rows, people_rows, rows
from fedsub.report.capacity_maps import CAPACITIES_EXPLAINED, capacity_maps
from fedsub.report.comparing import Pair, pairs, twin
from fedsub.report.csv_tables import csv_files
from fedsub.report.curves import (
    curves,
    curves_explained,
    gain_strip,
    metrics_by_round,
    strip_explained,
)
from fedsub.report.frame import Frame
from fedsub.report.group_maps import group_maps
from fedsub.report.maps import prediction_maps, score_maps
from fedsub.report.page import Section, how_compared, page
from fedsub.report.protocol import Fact, protocol
from fedsub.report.reading import read_run, run_config
from fedsub.report.recovery import recoveries
from fedsub.report.report import write_files
from fedsub.studies.folds import name_of_fold
from fedsub.studies.kept_runs import RUNS
from fedsub.studies.kept_study import kept_study
from fedsub.studies.latex import LATEX_FILE, write_latex
from fedsub.studies.runner import CHOSEN_FILE, choose, unfinished_tuning
from fedsub.studies.study import INDIFFERENT, Cell, Study, name_of
from fedsub.studies.study_results import Row, Run, finished, tables
from fedsub.studies.study_tables import how_measured, of_runs, table
from fedsub_core.errors import RunError
from fedsub_server.data_notes import DataNotes

_NAMED = 3  # people whom a row names who are worse off; all stand in a folded table
#: How a run was done, in which a study's tables differ; and what only one run of a study has.
_OF_A_TABLE = ("data", "split", "rounds")
_OF_A_RUN = frozenset({*_OF_A_TABLE, "seed", "other than the defaults"})
#: How the line on learning says keys that a study may tune.
_LEARNING = {"lr": "rate {}", "momentum": "momentum {}", "batch-size": "batches of {}",
             "epochs": "epochs in a round {}", "steps": "steps in a round {}"}  # fmt: skip
_NUMBER = r"[0-9.]+(e[-+]?[0-9]+)?"


def write_study_page(study: Study, folder: Path, runs: Sequence[Run]) -> Path:
    """Write report.html, figures/, tables/ and tables.tex into a finished study's folder.

    Returns the path of the first.

    Raises RunError if a run cannot be read, or the page cannot be written.
    """
    parts: list[Section] = []
    leads: list[str] = []
    files: dict[str, str] = {}
    done: list[Fact] = []
    common: dict[str, list[str]] = {}
    all_found = tables(study, runs)
    for place, (cell, found) in enumerate(all_found, start=1):
        order = [row.entry for row in found]
        mine = [run for run in runs if run.task.cell == cell]
        mine.sort(key=lambda run: order.index(run.task.entry))
        frame = _frame(folder, mine, f"{place:02d}_" if len(study.cells) > 1 else "")
        compared = pairs(frame)
        came = [one for trace in frame.traces for one in recoveries(trace)]
        parts.append(_part(study, cell, found, mine, frame, compared))
        leads.append(_lead(study, cell, found, compared, twin(frame)))
        named = dict(protocol(frame, run_config(folder / RUNS / mine[0].task.name)))
        for key in study.tune.keys() & _LEARNING.keys():
            ran, chosen = (_LEARNING[key].format(text) for text in (_NUMBER, "as chosen"))
            named["learning"] = re.sub(ran, chosen, named["learning"])
        for key in named.keys() - _OF_A_RUN:
            common.setdefault(key, []).append(named[key])
        done += [(f"{key} ({name_of(cell)})" if cell else key, named[key]) for key in _OF_A_TABLE]
        for name, text in csv_files(frame, compared, came).items():
            files[f"{frame.key}{name}"] = text
    # In a page's order; what tables differ in is said of all.
    done += [(key, "; ".join(dict.fromkeys(common[key]))) for key in named if key in common]
    own = {e.label: ", ".join(f"{k} = {v}" for k, v in e.hyper.items()) for e in study.entries}
    of_all = [f"{k} = {v}" for k, v in study.run.items() if k not in (*_OF_A_TABLE, *INDIFFERENT)]
    done += [("settings of all", ", ".join(of_all))] if of_all else []
    said = [f"{label}: {hyper}" for label, hyper in own.items() if hyper]
    done += [("rows' own settings", "; ".join(said))] if said else []
    parts.append(Section("protocol", "How it was done", how_measured(study, runs), facts=done))
    about = study.about.replace("`", "")  # the file's are for Markdown
    lead = [text for text in (about, *leads) if text]
    html = page(study.title, lead, parts, None, files, [LATEX_FILE])
    write_latex(study, folder, all_found, runs)
    return write_files(folder, html, [one for part in parts for one in part.figures], files)


def renew_study_page(folder: Path) -> tuple[Path, list[Path]]:
    """Write the page of the study whose folder this is; return its path, and all its runs'.

    Raises RunError if the study has not finished, or what it left cannot be read.
    """
    study = kept_study(folder)
    try:
        # Once values were chosen, a tuning run that is not there has failed.
        failed = unfinished_tuning(study, folder) if (folder / CHOSEN_FILE).is_file() else ()
        runs = finished(study, folder, choose(study, folder, failed))
    except (OSError, ValueError, KeyError, RunError) as error:
        raise RunError(
            f"{folder}: the study has runs to do ({error}); expected a finished one: start it "
            "again, it goes on where it was"
        ) from error
    folders = [folder / RUNS / run.task.name for run in runs]
    return write_study_page(study, folder, runs), folders


def _frame(folder: Path, runs: Sequence[Run], key: str) -> Frame:
    """Return the runs of a table as a frame, methods called as the study's file calls them."""
    traces = []
    classes: tuple[str, ...] = ()
    notes: DataNotes | None = None
    warned: tuple[str, ...] = ()
    for run in runs:
        read = read_run(folder / RUNS / run.task.name)
        traces.append(
            replace(
                read.traces[0],
                method=run.task.entry.label,
                seed=run.task.config.seed,
                fold=name_of_fold(run.task.fold),
            )
        )
        classes = classes or read.classes
        warned += read.notes.warnings
        notes = notes or read.notes
    notes = replace(notes or DataNotes(), warnings=tuple(dict.fromkeys(warned)))
    return Frame(traces, classes, key=key, notes=notes)


def _part(
    study: Study,
    cell: Cell,
    found: Sequence[Row],
    runs: Sequence[Run],
    frame: Frame,
    compared: Sequence[Pair],
) -> Section:
    best = found[0].entry.label
    head, cells = table(study, cell, found, travels=False)
    reached = rows.Rows(f"What methods reached, {_whose(runs)}", head, cells)
    printed = {
        metric: {
            label: number
            for paper in study.papers
            if paper.of(cell)
            for label, number in paper.numbers.get(metric.replace("_", "-"), {}).items()
        }
        for metric in metrics_by_round(frame)
    }
    rounds = {r for trace in frame.traces for r in trace.people[frame.score].rounds}
    drawn = [curves(frame, metric, printed[metric]) for metric in printed if len(rounds) > 1]
    strip = gain_strip(frame)
    texts = [curves_explained(frame, any(printed.values()))] if any(drawn) else []
    texts += [strip_explained(frame)] if strip else []
    by_size = list(capacity_maps(frame))
    texts += [CAPACITIES_EXPLAINED] if by_size else []
    drawn += [strip, *by_size, *score_maps(frame), *group_maps(frame), *prediction_maps(frame)]
    worse = comparison_rows.against_twin(frame, _NAMED)
    everybody = comparison_rows.against_twin(frame)
    came = [one for name in frame.methods for one in recoveries(frame.of(name)[0])]
    with_best = [pair for pair in compared if best in (pair.first, pair.second)]
    shown = [
        reached,
        comparison_rows.beats_twin(frame, compared),
        _costs(found, runs),
        comparison_rows.compared(frame, with_best, best) if with_best else None,
        worse,
        comparison_rows.against_own(frame, _NAMED),
        method_rows.recovered(came, frame.of_seed) if came else None,
    ]
    folded = [
        people_rows.people(frame),
        people_rows.classes(frame),
        people_rows.people_classes(frame),
    ]
    folded += [comparison_rows.compared(frame, compared), everybody]
    return Section(
        f"{frame.key}results",
        name_of(cell) or "Results",
        [*of_runs(study, runs), *frame.notes.warnings, *how_compared(compared), *texts],
        [one for one in shown if one],
        [one for one in drawn if one],
        [one for one in folded if one and one.rows],
    )


def _whose(runs: Sequence[Run]) -> str:
    seeds, people = {run.task.config.seed for run in runs}, max(len(run.people) for run in runs)
    known = max(run.summary.people for run in runs)
    folds = {run.task.fold for run in runs} - {()}
    if folds:
        people = len({person for run in runs for person in run.people})
    of = f" of {known}" if known > people else ""
    runs_of = f"{len(seeds)} seed{'s' * (len(seeds) > 1)}" + f", {len(folds)} folds" * bool(folds)
    return f"{people}{of} people, {runs_of}, the best first"


def _costs(found: Sequence[Row], runs: Sequence[Run]) -> rows.Rows:
    """Return bytes, time and memory, means over seeds."""
    cells = []
    for row in found:
        mine = [run.summary for run in runs if run.task.entry == row.entry]
        most = [one.memory for one in mine if one.memory is not None]
        sent = (rows.number(value) for value in (row.up, row.down, row.evaluation))
        seconds = f"{np.mean([one.seconds for one in mine]):,.1f}"
        took = [o.server_milliseconds for o in mine if o.server_milliseconds is not None]
        own = rows.milliseconds(float(np.mean(took)) if took else None)
        memory = rows.memory(max(most, default=None))
        cells.append((row.entry.label, *sent, seconds, own, memory))
    head = ("method", "models up", "models down", "down to evaluate", "seconds", "server, ms",
            "memory")  # fmt: skip
    caption = (
        "What it costs: full float32 models of a client in a round, as really sent; seconds of a "
        "run's rounds, which depend on what else the machine did; milliseconds of a round that the "
        "method's own server half took; the most memory of its process"
    )
    return rows.Rows(caption, head, cells)


def _lead(
    study: Study, cell: Cell, found: Sequence[Row], compared: Sequence[Pair], twin: str
) -> str:
    """Return a sentence on the first method, and on those that differ from the twin."""
    best, scores = found[0], study.scores
    most = "greatest" if scores.sign > 0 else "least"
    said = f"{most} {scores.title}: {best.entry.label}, {scores.text(best.score)}"
    over = {
        pair.first if pair.second == twin else pair.second: pair
        for pair in compared
        if twin in (pair.first, pair.second) and pair.judged
    }
    if over:
        better = [name for name, pair in over.items() if pair.better == name]
        lower = [name for name, pair in over.items() if pair.better == twin]
        said += f"; better than {twin}, by the interval: {', '.join(better) or 'none'}"
        said += f"; worse: {', '.join(lower) or 'none'}"
    return f"{name_of(cell)}: {said}." if cell else f"{said[0].upper()}{said[1:]}."
