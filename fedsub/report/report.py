"""A run's report: report.html in its folder, figures/ as PNG and tables/ as CSV beside it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedsub.report import comparison_rows, method_rows, people_rows
from fedsub.report.attendance import ATTENDANCE_EXPLAINED, attendance_maps
from fedsub.report.calibration import calibration
from fedsub.report.capacity_maps import CAPACITIES_EXPLAINED, capacity_maps
from fedsub.report.comparing import Pair, pairs
from fedsub.report.csv_tables import csv_files
from fedsub.report.curves import (
    curves,
    curves_explained,
    gain_strip,
    metrics_by_round,
    strip_explained,
)
from fedsub.report.frame import Frame
from fedsub.report.group_maps import PROTOTYPES_EXPLAINED, group_maps, prototype_maps
from fedsub.report.maps import (
    CONFUSION_EXPLAINED,
    confusion_maps,
    person_class_maps,
    prediction_maps,
    score_maps,
)
from fedsub.report.page import FIGURES, TABLES, Section, how_compared, lead, page, warnings
from fedsub.report.protocol import protocol, runs_of
from fedsub.report.reading import read_run, run_config
from fedsub.report.recovery import Recovery, recoveries
from fedsub.report.svg import Drawn
from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import RunError
from fedsub_core.files import make_folder, write_whole
from fedsub_server.methods_paragraph import methods_paragraph

REPORT_FILE = "report.html"
_MOST_PAIRS = 10
_NAMED = 5  # people a row names; who else there is stands in a folded table


def write_report(folder: Path, again: int | None = None) -> tuple[Path, bool]:
    """Write the report into a run's folder; return its path, and whether the run has finished.

    `again`: seconds after which the page of a run that goes on loads itself anew; None for never.

    Raises RunError if the folder holds no method's database or one that cannot be read, or cannot
    be written.
    """
    frame, config = read_run(folder), run_config(folder)
    compared = pairs(frame)
    came = [one for trace in frame.traces for one in recoveries(trace)]
    parts = _sections(frame, config, compared, came)
    parts[-1:-1] = calibration(folder)
    again = None if frame.finished else again
    tables = csv_files(frame, compared, came)
    html = page(f"Run {folder.resolve().name}", lead(frame, compared), parts, again, tables)
    figures = [figure for part in parts for figure in part.figures]
    path = write_files(folder, html, figures, tables)
    return path, frame.finished


def write_files(
    folder: Path, html: str, figures: Iterable[Drawn], tables: Mapping[str, str]
) -> Path:
    """Write a page, its figures as PNG and its tables as CSV, by name; return the page's path.

    Raises RunError if the folder cannot be written.
    """
    for name in (FIGURES, TABLES):
        try:
            make_folder(folder / name)
        except OSError as error:
            raise RunError(f"{folder / name}: cannot be made ({error})") from error
    drawn = {f"{figure.name}.png": figure.png for figure in figures}
    # What an earlier report had besides would look as new as the rest.
    for old in (*(folder / FIGURES).glob("*.png"), *(folder / TABLES).glob("*.csv")):
        if old.name not in drawn.keys() | tables.keys():
            old.unlink()
    for name, image in drawn.items():
        write_whole(folder / FIGURES / name, image)
    for name, text in tables.items():
        write_whole(folder / TABLES / name, text.encode())
    write_whole(folder / REPORT_FILE, html.encode())
    return folder / REPORT_FILE


def remove_report(folder: Path) -> bool:
    """Remove the report with its figures and tables; return whether there was one."""
    files = [
        folder / REPORT_FILE,
        *(folder / FIGURES).glob("*.png"),
        *(folder / TABLES).glob("*.csv"),
    ]
    found = [path for path in files if path.is_file()]
    for path in found:
        path.unlink()
    for name in (FIGURES, TABLES):
        with suppress(OSError):  # none there, or it holds somebody's own files
            (folder / name).rmdir()
    return bool(found)


def _sections(
    frame: Frame, config: RunConfig | None, compared: Sequence[Pair], came: Sequence[Recovery]
) -> list[Section]:
    return [
        *_of_methods(frame, compared),
        *_of_people(frame),
        *_of_models(frame),
        Section(
            "data-came",
            "When data came",
            _text(came, "Macro F1 before is the mean over people in the evaluation before; the "
                  "drop is to the lowest until data came again; it is back where it reaches what "
                  "it was."),
            [method_rows.recovered(came, frame.of_seed)] if came else [],
        ),
        Section(
            "protocol",
            "How it was done",
            methods_paragraph(runs_of(frame, config), frame.notes),
            folded=[split] if (split := people_rows.splits(frame)) else [],
            facts=protocol(frame, config),
        ),
    ]  # fmt: skip


def _text(there: Sequence[object] | Drawn | str | None, *texts: str) -> tuple[str, ...]:
    return texts if there else ()


def _of_methods(frame: Frame, compared: Sequence[Pair]) -> list[Section]:
    """Return the sections on what methods reach and cost, one beside the other."""
    lower = comparison_rows.against_twin(frame, _NAMED)
    all_lower = comparison_rows.against_twin(frame)
    beats = comparison_rows.beats_twin(frame, compared)
    own = comparison_rows.against_own(frame, _NAMED)
    reached, by_capacity = method_rows.reached(frame), method_rows.by_capacity(frame)
    longer = lower is not None and all_lower is not None and lower.rows != all_lower.rows
    # Of many pairs, those of the run's own method; the rest is folded.
    fewer = frame.methods[0] if len(compared) > _MOST_PAIRS else ""
    first = [pair for pair in compared if not fewer or fewer in (pair.first, pair.second)]
    by_round = [one for name in metrics_by_round(frame) if (one := curves(frame, name))]
    strip, by_size = gain_strip(frame), list(capacity_maps(frame))
    return [
        Section(
            "alone",
            "Does it beat training alone?",
            _text(strip, strip_explained(frame)),
            [one for one in (beats, lower) if one],
            [strip] if strip else [],
            [all_lower] if longer and all_lower else [],
        ),
        Section(
            "methods",
            "Methods",
            warnings(frame),
            tables=[one for one in (reached, by_capacity, own) if one],
        ),
        Section(
            "capacities",
            "People by capacity",
            _text(by_size, CAPACITIES_EXPLAINED),
            figures=by_size,
        ),
        Section("cost", "What it costs", tables=[method_rows.costs(frame)]),
        Section(
            "differences",
            "Which method is better",
            how_compared(compared),
            [comparison_rows.compared(frame, first, fewer)] if first else [],
            folded=[comparison_rows.compared(frame, compared)] if fewer else [],
        ),
        Section(
            "rounds", "Round by round", _text(by_round, curves_explained(frame)), figures=by_round
        ),
    ]


def _of_people(frame: Frame) -> list[Section]:
    """Return the sections on who took part, and what people and classes reach."""
    there, confused = list(attendance_maps(frame)), list(confusion_maps(frame))
    scores = {one.name: one for one in score_maps(frame)}
    return [
        Section(
            "attendance",
            "Who took part",
            _text(there, ATTENDANCE_EXPLAINED),
            figures=there,
            folded=[people_rows.absent(frame)] if there else [],
        ),
        Section(
            "people",
            "People",
            figures=[scores["people"]] if "people" in scores else [],
            folded=[people_rows.people(frame)] if "people" in scores else [],
        ),
        Section(
            "classes",
            "Classes",
            _text(frame.explained, f"{frame.explained}."),
            figures=[scores["classes"]] if "classes" in scores else [],
            folded=[people_rows.classes(frame)] if "classes" in scores else [],
        ),
        Section(
            "confusion",
            "Which class is taken for which",
            _text(confused, CONFUSION_EXPLAINED),
            figures=confused,
            folded=people_rows.confusions(frame),
        ),
    ]


def _of_models(frame: Frame) -> list[Section]:
    """Return the sections on who is with whom, and what a person's predictions are made of."""
    both, groups = list(person_class_maps(frame)), list(group_maps(frame))
    owed, lying = list(prediction_maps(frame)), list(prototype_maps(frame))
    return [
        Section(
            "people-classes",
            "People and classes",
            _text(both, "F1 in the last evaluated round; grey where a person neither has the "
                  "class in the test samples nor was predicted it."),
            figures=both,
        ),
        Section("groups", "Clusters and groups", figures=groups),
        Section(
            "prototypes",
            "Where prototypes lie",
            _text(lying, PROTOTYPES_EXPLAINED),
            figures=lying,
        ),
        Section(
            "shares",
            "What a person's predictions are made of",
            _text(owed, "A row is a person: how much its predictions owe to each of several "
                  "models, in shares that sum to 1."),
            figures=owed,
        ),
    ]  # fmt: skip
