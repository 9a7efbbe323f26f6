"""Recordings for ``fedsub predict``: rows, a summary in minutes, a picture of the day."""

from __future__ import annotations

import csv
import io
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsub.commands.as_json import print_json
from fedsub.commands.declared import with_options
from fedsub_core.errors import ConfigError

if TYPE_CHECKING:
    from fedsub.recordings.answers import RecordingAnswers
    from fedsub.recordings.day import Day
    from fedsub.recordings.spread import Spread
    from fedsub_client.personal_model import PersonalModel

#: The name of standard input, and of the file into which it is read.
STANDARD_INPUT = "-"
_SPOOLED = "standard-input.csv"


@dataclass(frozen=True)
class AnswersAsked:
    """Options of answers for recordings."""

    unknown_below: float | None
    smooth: str | None
    row_rate: float | None
    page: Path | None

    @property
    def given(self) -> list[str]:
        """Options that were given, as the command line has them."""
        return [f"--{k.replace('_', '-')}" for k, v in vars(self).items() if v is not None]


#: Adds the options of answers for recordings.
answers_asked = with_options(
    "asked",
    AnswersAsked,
    click.option(
        "--unknown-below",
        type=float,
        metavar="SHARE",
        help="recordings: a window whose class is less probable, such as 0.6, is unknown",
    ),
    click.option(
        "--smooth",
        metavar="TIME",
        help="recordings: smooth answers over time by the past; TIME, such as 10s, is how long a "
        "class lasts on average; training: as long as in the training samples",
    ),
    click.option(
        "--row-rate",
        type=float,
        metavar="RATE",
        help="recordings without times: rows a second [default: the model's rate]",
    ),
    click.option(
        "--page",
        type=click.Path(path_type=Path),
        help="recordings: also write a picture of the day as an HTML page",
    ),
)


def is_recording(inputs: Sequence[str]) -> bool:
    """Return whether recordings are meant, and not one npz file of samples."""
    from fedsub_data.importing.files import NUMPY, ending, kind_of

    path = Path(inputs[0])
    if (
        len(inputs) > 1
        or inputs[0] == STANDARD_INPUT
        or path.is_dir()
        or set("*?") & set(str(path))
    ):
        return True
    return ending(path) is not None and kind_of([path]) != NUMPY


@contextmanager
def spooled(inputs: Sequence[str]) -> Iterator[list[str]]:
    """Yield the inputs as files; standard input is read into one that goes at the end."""
    if STANDARD_INPUT not in inputs:
        yield list(inputs)
        return
    with tempfile.TemporaryDirectory(prefix="fedsub-import-") as folder:
        file = Path(folder, _SPOOLED)
        with open(file, "wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield [str(file) if name == STANDARD_INPUT else name for name in inputs]


def predict_recordings(
    model: PersonalModel,
    inputs: Sequence[str],
    asked: AnswersAsked,
    reading: Mapping[str, str],
    output: Path | None,
    as_json: bool,
    force: bool,
) -> None:
    """Print or write the answers of a person's model for recordings."""
    from fedsub.recordings.answers import Asked, RecordingAnswers, open_recordings
    from fedsub.recordings.day import Day
    from fedsub.recordings.picture import day_page, strips
    from fedsub.recordings.reading import reading_options, smoothing_seconds
    from fedsub.recordings.table import summary_of
    from fedsub_core.files import check_new, write_whole

    if output is not None and output.suffix != ".csv":
        raise ConfigError(f"{output}: got ending {output.suffix!r}, expected .csv for recordings")
    if asked.page is not None:
        if model.card.target is not None:
            raise ConfigError(
                f"page: got it for the target {model.card.target.name!r}, expected a model of "
                "classes, whose day it draws"
            )
        check_new(asked.page, force)
    options, smooth = reading_options(reading), smoothing_seconds(asked.smooth or "", model)
    what = Asked(asked.unknown_below or 0.0, smooth, asked.row_rate)
    day = summary_of(model.card)
    with (
        spooled(inputs) as files,
        closing(open_recordings(files, model.card.features, options)) as source,
    ):
        answers = RecordingAnswers(model, source, options, what)
        if as_json:
            print_json(_document(answers, day))
        elif output is None:
            for line in _lines(answers, day):
                click.echo(line, nl=False)
        else:
            write_whole(output, b"", lambda draft: _write(draft, _lines(answers, day)))
    about = f"client {model.client}, {model.method}'s model of round {model.round}"
    if asked.page is not None and isinstance(day, Day):
        title = f"The day of client {model.client}"
        page = day_page(title, day, [f"Answered by {about}.", *answers.notes])
        write_whole(asked.page, page.encode())
    beside = as_json or output is None  # rows alone stand on standard output
    for note in answers.notes:
        click.echo(note, err=True)
    click.echo(strips(day) if isinstance(day, Day) else day.words, err=beside)
    where = f": {output}" if output is not None else ""
    click.echo(f"{about}: {day.windows:,} windows answered{where}", err=beside)


def _write(file: Path, lines: Iterable[str]) -> None:
    with open(file, "a", encoding="utf-8", newline="") as out:
        out.writelines(lines)


def _lines(answers: RecordingAnswers, day: Day | Spread) -> Iterator[str]:
    """Yield the rows of the table of answers, as they are found, behind its head."""
    from fedsub.recordings.table import head, rows_of_answers

    for answered in answers.blocks():
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        if not day.windows:
            table.writerow(head(answers.model.card))
        table.writerows(rows_of_answers(answered, answers.model.card))
        day.add(answered)
        yield text.getvalue()


def _document(answers: RecordingAnswers, day: Day | Spread) -> dict[str, Any]:
    """Return all answers, and their summary, as JSON has them."""
    from fedsub.recordings.day import Day
    from fedsub.recordings.table import rows_of_answers

    windows, model = [], answers.model
    for answered in answers.blocks():
        day.add(answered)
        for name, begin, end, *said in rows_of_answers(answered, model.card):
            row = {"recording": name, "start": begin, "end": end}
            if isinstance(day, Day):
                row |= {"class": said[0], "probabilities": list(map(float, said[2:]))}
            else:
                row |= {"value": float(said[0])}
            windows.append(row)
    about = {"client": model.client, "method": model.method, "round": model.round, **day.about}
    return {**about, "notes": answers.notes, "windows": windows}
