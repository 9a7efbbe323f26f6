"""A study's tables as Markdown, and its runs and people as CSV.

Nothing in them tells when, where or in how many goes the study ran, unless it asks for times: a
study that was killed and went on ends in the same bytes.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from fedsub.report.comparing import RESAMPLES
from fedsub.report.markdown import markdown_table
from fedsub.studies.folds import folds_in_words, name_of_fold
from fedsub.studies.latex import write_latex
from fedsub.studies.measures import SUMMARY, asked, number, printed
from fedsub.studies.study import Cell, Study, Values, name_of, shown
from fedsub.studies.study_results import Row, Run, tables, twins_in_words
from fedsub_core.data.findings import gap_warning, split_warning
from fedsub_core.files import write_whole
from fedsub_server.remarks import remarks
from fedsub_server.tuned import at_end

RUNS_FILE, PEOPLE_FILE, TABLES_FILE = "runs.csv", "people.csv", "tables.md"
#: What is left out of ``runs.csv``: what depends on the machine.
_TIMES = ("seconds", "server_milliseconds", "memory", "backend")
#: And what takes all methods of a table: a run of a study has one.
_OF_TWINS = ("twin", "gain_over_twin", "worse_than_twin")


def write_tables(study: Study, folder: Path, runs: Sequence[Run]) -> str:
    """Write ``tables.md``, ``tables.tex``, ``runs.csv`` and ``people.csv``; return the first."""
    found = tables(study, runs)
    text = markdown(study, found, runs)
    write_latex(study, folder, found, runs)
    write_whole(folder / TABLES_FILE, text.encode())
    write_whole(folder / RUNS_FILE, _runs_csv(study, runs).encode())
    write_whole(folder / PEOPLE_FILE, _people_csv(study, runs).encode())
    return text


def markdown(study: Study, found: Sequence[tuple[Cell, Sequence[Row]]], runs: Sequence[Run]) -> str:
    """Return the tables as Markdown."""
    parts = [
        f"# {study.title}",
        *([study.about] if study.about else []),
        *how_measured(study, runs),
    ]
    for cell, rows in found:
        if cell:
            parts.append(f"## {name_of(cell)}")
        titles, lines = table(study, cell, rows)
        parts.append("\n".join(markdown_table(titles, lines)))
        parts += of_runs(study, [run for run in runs if run.task.cell == cell])
    return "\n\n".join(parts) + "\n"


def plain_tables(study: Study, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the tables as plain values: what each is ``of``, and its ``rows``."""
    return [
        {
            "of": {key: shown(value) for key, value in cell},
            "rows": [plain_row(study, row) for row in rows],
        }
        for cell, rows in tables(study, runs)
    ]


def plain_row(study: Study, row: Row) -> dict[str, Any]:
    """Return a row's numbers by the names of :class:`Row`'s, scores by their own."""
    values = {one.name: getattr(row, one.name) for one in fields(row)}
    entry, tuned = values.pop("entry"), dict(values.pop("tuned"))
    about = {"label": entry.label, "method": entry.method, "tested": values.pop("tested")}
    reached = {study.scores.name: values.pop("score"), "interval": values.pop("interval")}
    reached |= {**values.pop("means"), study.scores.worst_name: values.pop("worst")}
    return {**about, **reached, **values, "tuned": tuned}


def of_runs(study: Study, runs: Sequence[Run]) -> list[str]:
    """Return in sentences what a cell's runs are held against, and what bends their numbers.

    That is who is left out, whose training went astray or was tuned on too small a grid, what
    leaks.
    """
    said = remarks([replace(run.summary, method=run.task.entry.label) for run in runs])
    splits = {client: how for run in runs for client, how in run.splits.items()}
    leaks = filter(None, [split_warning(list(splits.values())), gap_warning(splits)])
    return [*twins_in_words(study, runs), *said, *ends_in_words(study, runs), *leaks]


def how_measured(study: Study, runs: Sequence[Run]) -> list[str]:
    """Return paragraphs on how the tables' numbers were measured."""
    tuned = "; nothing was tuned"
    if study.tune:
        values = "; ".join(f"{k} from {', '.join(map(str, v))}" for k, v in study.tune.items())
        several = len(study.choosing)
        by = "the first seed" if several == 1 else f"the first {several} seeds"
        tuned = f"; chosen on a validation part of the training data, with {by}: {values}"
        tuned += ", in each fold for itself" if study.folds else ""
        if len(study.seeds) > 1:
            tuned += " (where splits are drawn at random, other seeds test samples that were there)"
    budget = {
        "rounds": "all train for as many rounds",
        "compute": "all compute as many epochs in all, so that costly methods have fewer rounds; "
        "what adapts a model before a test is not counted",
    }[study.budget]
    builds = Counter(run.trained_by for run in runs)
    mixed = "; ".join(f"{count} by fedsub {build}" for build, count in builds.items())
    # A package's code is that of its own method's runs alone.
    codes = {part for build in builds for part in f"fedsub {build}".split(" with ")}
    packages = {code.partition(" ")[0] for code in codes}
    own = (
        "; alone: the model that a person's device has without others, beside what the method "
        "gives (not `local`); beyond noise: the 95 % interval over the person's own test samples "
        "excludes 0, which chance does for some 3 % either way; a person counts in each seed"
    )
    folds = folds_in_words(list(dict.fromkeys(run.task.fold for run in runs)))
    scores = study.scores
    score = scores.title[0].upper() + scores.title[1:]
    of, over = ("seeds and folds", ", ") if folds else ("seeds", " and ")
    warning = f"Not all runs are by the same code, which may tell in these numbers: {mixed}."
    return [
        *([warning] if len(codes) > len(packages) else []),
        f"Seeds {', '.join(map(str, study.seeds))}{folds}; {budget}{tuned}. {score} is the mean "
        f"over people{over}{of} of each person's own test part after the last round, with the 95 % "
        f"interval over people ({RESAMPLES:,} resamples, each person's mean over {of}; it speaks "
        f"of other people like these, not of other {of}); {scores.worst_title}: the "
        f"{scores.worst}th percentile over people, mean over {of}; gain: how much {scores.gain} "
        "than people have without others, by own heads or `local`, whichever is better in the "
        "mean of a table; worse: people who are worse off than with it"
        f"{own * any(run.beyond for run in runs)}. "
        "Up and down: full models in float32 a client and round, as really sent; to evaluate: a "
        "client and evaluation.",
    ]


def table(
    study: Study, cell: Cell, rows: Sequence[Row], travels: bool = True
) -> tuple[list[str], list[list[str]]]:
    """Return the titles of a table's columns and its lines; `travels`: with what is sent."""
    theirs, also = printed(study, cell), asked(study, cell)
    over = next((f"gain over {row.twin}" for row in rows if row.twin), "gain")
    scores = study.scores
    titles = ["method", "tested", scores.title, scores.worst_title, over, "worse"]
    alone = any(row.beyond for row in rows)
    titles += [*scores.others.values(), *(["better / worse than alone beyond noise"] * alone)]
    titles += ["up / down / to evaluate"] * travels
    titles += [*also, *theirs, *study.tune]
    lines = []
    for row in rows:
        gain = "-"
        if row.gain is not None:
            gain = f"{scores.text(row.gain, '+')}{scores.ends(row.gain_interval, '+')}"
        ways = (row.up, row.down, row.evaluation)
        sent = " / ".join("-" if way is None else f"{way:.2f}" for way in ways)
        cells = [
            row.entry.label,
            row.tested,
            f"{scores.text(row.score)}{scores.ends(row.interval)}",
            scores.text(row.worst),
            gain,
            "-" if row.worse is None else f"{row.worse:.0%}",
            *(number(name, row.means[name]) for name in scores.others),
            *([_beyond(row.beyond)] * alone),
            *([sent] * travels),
            *(number(name, row.measures[name]) for name in also),
            *(number(name, numbers.get(row.entry.label)) for name, numbers in theirs.values()),
            *(tuned(study, key, row.tuned) for key in study.tune),
        ]
        lines.append(cells)
    return titles, lines


def _beyond(people: tuple[int, int, int] | None) -> str:
    return "-" if people is None else "{} / {} of {}".format(*people)


def _about(run: Run) -> dict[str, object]:
    """Return the columns that say which run a row is of."""
    of = {key: shown(value) for key, value in run.task.cell} | {"seed": run.task.config.seed}
    of |= {"fold": name_of_fold(run.task.fold)} if run.task.fold else {}
    return {"label": run.task.entry.label, **of}


def _runs_csv(study: Study, runs: Sequence[Run]) -> str:
    score = study.scores.name
    left_out = (*_TIMES, *_OF_TWINS, "by_capacity")
    rows = [
        {
            **_about(run),
            "tuned": json.dumps(dict(run.task.tuned), sort_keys=True),
            **{k: v for k, v in asdict(run.summary).items() if k not in left_out},
            **{f"{score}_at_{s}": f.get(score) for s, f in run.summary.by_capacity.items()},
            **{
                name: value
                for name, value in run.measures.items()
                if name not in SUMMARY and not name.startswith("seconds-to-")
            },
        }
        for run in runs
    ]
    return _csv(rows)


def _people_csv(study: Study, runs: Sequence[Run]) -> str:
    rows = [
        {**_about(run), "client": client, study.scores.name: value}
        for run in runs
        for client, value in sorted(run.people.items())
    ]
    return _csv(rows)


def _csv(rows: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    # Not every table of a study varies the same, nor do all methods report the same.
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def tuned(study: Study, key: str, values: Values) -> str:
    """Return a row's tuned value as a table's cell."""
    own = values.get(key)
    return "-" if own is None else f"{own}{' (end of the grid)' * at_end(own, study.tune[key])}"


def ends_in_words(study: Study, runs: Sequence[Run]) -> list[str]:
    """Return a sentence on tuned values at an end of their grid; [] without any."""
    ends = dict.fromkeys(
        f"{run.task.entry.label} {key} = {value}"
        for run in runs
        for key, value in run.task.tuned.items()
        if key in study.tune and at_end(value, study.tune[key])
    )
    said = f"At an end of the grid, where a wider one might give more: {', '.join(ends)}."
    return [said] * bool(ends)
