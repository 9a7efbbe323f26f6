"""A study's tables as one CSV file, as `studies/results/` keeps them."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from fedsub.studies.measures import asked, number, printed
from fedsub.studies.study import Cell, Study, shown
from fedsub.studies.study_results import Row, Run, tables
from fedsub.studies.study_tables import tuned
from fedsub_core.files import write_whole

#: What a row does not have.
_MISSING = "-"
_ENDS = ("", ": low", ": high")


def columns(study: Study) -> list[str]:
    """Return the titles of the file's columns: those of all tables, and the keys that differ."""
    cells = study.cells
    values: dict[str, set[str]] = {key: set() for cell in cells for key, _ in cell}
    for key, found in values.items():
        found |= {shown(dict(cell).get(key, _MISSING)) for cell in cells}
    keys = [key for key, found in values.items() if len(found) > 1]
    measures = dict.fromkeys(name for cell in cells for name in asked(study, cell))
    theirs = dict.fromkeys(title for cell in cells for title in printed(study, cell))
    scores = study.scores
    of_all = [*_ends(scores.title), scores.worst_title, *_ends("gain"), "gain over", "worse"]
    of_all = ["method", "tested", *of_all, *scores.others.values(), "up", "down", "to evaluate"]
    return [*keys, *of_all, *measures, *theirs, *study.tune, "written"]


def write_results(study: Study, runs: Sequence[Run], path: Path) -> None:
    """Write a finished study's tables into one file, with today's date (UTC) in each row.

    Raises RunError if it cannot be written.
    """
    text = io.StringIO()
    writer = csv.DictWriter(
        text, columns(study), restval=_MISSING, extrasaction="ignore", lineterminator="\n"
    )
    writer.writeheader()
    day = {"written": datetime.now(UTC).date().isoformat()}
    for cell, rows in tables(study, runs):
        writer.writerows(_values(study, cell, row) | day for row in rows)
    write_whole(path, text.getvalue().encode())


def _values(study: Study, cell: Cell, row: Row) -> dict[str, str]:
    """Return a row's cells by title, without those that it does not have."""
    scores, none = study.scores, (None, None)
    score, gain = (row.score, *(row.interval or none)), (row.gain, *(row.gain_interval or none))
    numbers: dict[str, float | None] = {
        **row.measures,
        **{title: of.get(row.entry.label) for title, (_, of) in printed(study, cell).items()},
    }
    other = {
        **dict(zip(_ends(scores.title), (_text(end, scores.form) for end in score), strict=True)),
        scores.worst_title: _text(row.worst, scores.form),
        **dict(zip(_ends("gain"), (_text(end, f"+{scores.form}") for end in gain), strict=True)),
        **{title: number(name, row.means[name]) for name, title in scores.others.items()},
        "worse": _text(row.worse, ".0%"),
        "up": _text(row.up, ".2f"),
        "down": _text(row.down, ".2f"),
        "to evaluate": _text(row.evaluation, ".2f"),
    }
    return {
        **{key: shown(value) for key, value in cell},
        "method": row.entry.label,
        "tested": row.tested,
        "gain over": row.twin or _MISSING,
        **{title: number(title, of) for title, of in numbers.items() if of is not None},
        **other,
        **{key: tuned(study, key, row.tuned) for key in study.tune},
    }


def _ends(title: str) -> list[str]:
    """Return the titles of a number and of its interval's ends."""
    return [f"{title}{end}" for end in _ENDS]


def _text(value: float | None, form: str) -> str:
    return _MISSING if value is None else f"{value:{form}}"
