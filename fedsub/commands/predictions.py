"""``fedsub predictions``: every tested sample of a run, its parts, and scores beyond F1."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedsub.commands.as_json import AS_JSON, console_beside, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from fedsub.predictions.tables import Row


@click.command(short_help="Write what models say of each tested sample; AUROC, calibration.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--method", "methods", multiple=True, metavar="NAME", help="only this one")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="such as auroc, or my.py:function of true classes [n] and probabilities [n, classes], or "
    "of a target's true values [n] and predicted ones [n, 1] [default: all that are known]",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="folder of the files [default: FOLDER]"
)
@click.option("--parquet", is_flag=True, help="write Parquet instead of CSV")
@AS_JSON
def predictions(
    folder: Path,
    methods: tuple[str, ...],
    metrics: tuple[str, ...],
    out: Path | None,
    parquet: bool,
    as_json: bool,
) -> None:
    """Write predictions.csv and splits.csv of the run or study in FOLDER, and print their scores.

    predictions.csv has a row for each tested sample: person, method, seed, fold, round, index in
    the person's file, time, true class, predicted class, and each class's probability. splits.csv
    says of each sample whether it is in the training, validation or test part. The printed scores
    are means over people. AUROC and kappa are of people with two classes or more; the table says of
    how many where it is not all. Of a target there are its true and its predicted value instead of
    classes, and the errors.

    Of a study the files have its rows' names, too, and a person's score is the mean over seeds and
    folds. A report of a run that is there is renewed, with a picture of calibration. Where models
    stay on devices, so do their predictions. The data have to lie where the run found them, the
    same to the last bit.
    """
    from fedsub.predictions.files import write_rows
    from fedsub.predictions.scores import scores_named
    from fedsub.predictions.several import tested_in
    from fedsub.predictions.tables import mean_rows, score_rows
    from fedsub.report.report import REPORT_FILE, write_report
    from fedsub.studies.study import STUDY_FILE

    ending = "parquet" if parquet else "csv"
    tested = list(tested_in(folder, methods))
    scores = scores_named(metrics, any(one.run.config.regression for one in tested))
    people = [row for one in tested for row in score_rows(one.predicted, scores, one.label)]
    means, names = mean_rows(people), [name for name, _ in scores]
    to = out or folder
    files = [to / f"predictions.{ending}", to / f"splits.{ending}"]
    write_rows(files[0], (row for one in tested for row in one.predictions()))
    write_rows(files[1], (row for one in tested for row in one.parts()))
    if (folder / REPORT_FILE).is_file() and not (folder / STUDY_FILE).is_file():
        write_report(folder)
    console = console_beside(as_json)
    console.print(_table(means, names))
    for text in (f"Predictions: {files[0]}", f"Parts: {files[1]}"):
        console.print(text, soft_wrap=True, markup=False, highlight=False)
    if as_json:
        print_json({"files": [str(one) for one in files], "methods": means, "people": people})


def _table(means: Sequence[Row], names: Sequence[str]) -> Table:
    """Return the table of methods: each score, and over how many where it is not all."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    table.add_column("method", no_wrap=True)
    table.add_column("people", justify="right")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=True)
    for row in means:
        cells = []
        for name in names:
            mean, of = row[name], row[f"{name}: people"]
            few = f" of {of}" if of < row["people"] else ""
            cells.append("-" if mean is None else f"{mean:.3f}{few}")
        table.add_row(row["method"], str(row["people"]), *cells)
    return table
