"""``fedsub compare``: a study of methods, data, seeds and settings, from a TOML file."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fedsub.commands.as_json import AS_JSON, console_beside, print_json
from fedsub.commands.declared import with_options
from fedsub.commands.engines import EngineAsked, engine_options
from fedsub.commands.interruption import told_how_to_go_on
from fedsub_core.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from fedsub.studies.study import Study
    from fedsub.studies.study_results import Run


@dataclass(frozen=True)
class StudyAsked:
    """What is asked for instead of, or of, what a study's file says."""

    seeds: str | None
    rounds: int | None
    only: tuple[str, ...]
    row: tuple[str, ...]
    settings: tuple[str, ...]
    tune: tuple[str, ...]
    lr: str | None
    folds: str | None


@dataclass(frozen=True)
class StudyWritten:
    """Where a study is written to: its folder, and a file of its tables.

    Raises ConfigError if the file's folder is not there.
    """

    out: Path | None
    csv: Path | None

    def __post_init__(self) -> None:
        if self.csv is not None and not self.csv.resolve().parent.is_dir():
            raise ConfigError(f"csv: got {self.csv}, expected a file in a folder that is there")


@dataclass(frozen=True)
class CodeNamed:
    """The code that the user names, by the option that it is of."""

    model: tuple[str, ...]
    encoder: tuple[str, ...]
    loss: tuple[str, ...]
    augment: tuple[str, ...]


@click.command(short_help="Run a study: methods x data x seeds x settings.")
@click.argument("study", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@with_options(
    "written",
    StudyWritten,
    click.option(
        "--out",
        type=click.Path(file_okay=False, path_type=Path),
        help="folder of the study [default: runs/<name of the file>]",
    ),
    click.option(
        "--csv",
        type=click.Path(dir_okay=False, path_type=Path),
        help="also write the tables into this file, with today's date in each row",
    ),
)
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="folder with the federations that the study names [default: the file's, then this one]",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="how many runs at a time, one thread each [default: as many as there are cores]",
)
@engine_options("runs")
@with_options(
    "asked",
    StudyAsked,
    click.option("--seeds", help="seeds to use instead of the file's, such as 0,1,2"),
    click.option("--rounds", type=click.IntRange(min=1), help="rounds instead of the file's"),
    click.option(
        "--only", multiple=True, metavar="KEY=VALUE", help="make only tables with this value"
    ),
    click.option("--row", multiple=True, metavar="NAME", help="make only this row of the tables"),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="a key of its runs, such as lr=0.1 or ditto.lam=0.5, instead of the file's values",
    ),
    click.option(
        "--tune",
        multiple=True,
        metavar="KEY=VALUE,VALUE",
        help="values of a key of which each row takes the best on validation data, such as "
        "epochs=1,5, instead of the file's",
    ),
    click.option("--lr", metavar="FLOATS", help="learning rates to choose among so: lr=FLOATS"),
    click.option(
        "--folds",
        metavar="N",
        help="runs of each seed that test one fold each, of samples, or with split=unseen of "
        "people; 'person': each leaves one person out [default: the file's]",
    ),
)
@with_options(
    "code",
    CodeNamed,
    click.option(
        "--model",
        multiple=True,
        metavar="PLACE",
        help="package.module:builder or file.py:builder, if the file names one: it names code that "
        "you have not run before, or that was changed",
    ),
    click.option(
        "--encoder", multiple=True, metavar="NAME", help="the same of an encoder that is a module"
    ),
    click.option("--loss", multiple=True, metavar="NAME", help="the same of a loss"),
    click.option("--augment", multiple=True, metavar="NAME", help="the same of an augmentation"),
)
@AS_JSON
def compare(
    study: Path,
    written: StudyWritten,
    data: Path | None,
    jobs: int | None,
    engine: EngineAsked,
    asked: StudyAsked,
    code: CodeNamed,
    as_json: bool,
) -> None:
    """Train all runs of the file STUDY and print how the methods compare.

    Every finished run is kept in the study's folder. So an interrupted study can be resumed with
    the same command. If the file was changed, only the runs that changed are trained again.
    """
    from fedsub.commands.progress import study_progress
    from fedsub.studies.absent_data import check_some_data
    from fedsub.studies.kept_study import as_asked, keep_study
    from fedsub.studies.local_engine import local_engine
    from fedsub.studies.ray_engine import ray_engine
    from fedsub.studies.runner import RunsFailedError, run_study
    from fedsub.studies.study_file import read_study
    from fedsub.studies.study_page import write_study_page
    from fedsub.studies.study_results import finished
    from fedsub.studies.study_tables import plain_tables
    from fedsub_core.config.named_code import check_option, note_option
    from fedsub_core.cores import usable_cores
    from fedsub_core.files import make_folder

    console = console_beside(as_json)
    wanted = as_asked(read_study(study, data), asdict(asked))
    for option, value in wanted.values_of(asdict(code)):
        check_option(option, value, study, getattr(code, option))
        note_option(option, value)
    folder = (written.out or Path("runs") / study.stem).resolve()
    if not folder.exists():
        check_some_data(wanted)
    here = nullcontext(local_engine(jobs or usable_cores()))
    spread = ray_engine(engine.ray_address, jobs) if engine.on_ray else here
    # A cluster that refuses leaves no folder behind.
    with spread as over, told_how_to_go_on(lambda: sys.argv[1:]), study_progress(console) as tell:
        make_folder(folder)
        keep_study(folder, study, data, asdict(asked))
        failed = None
        try:
            runs = finished(wanted, folder, run_study(wanted, folder, over, tell))
        except RunsFailedError as error:
            failed, wanted = error, error.rest
            if not any(wanted.rows()):
                raise
            runs = finished(wanted, folder, error.chosen)
    _print_study(console, wanted, folder, runs)
    _write_csv(console, wanted, runs, written.csv, failed is not None)
    report = write_study_page(wanted, folder, runs)
    console.print(f"Report: {report}", soft_wrap=True, markup=False)
    if as_json:
        found = {"title": wanted.title, "seeds": wanted.seeds, "tables": plain_tables(wanted, runs)}
        print_json({"folder": str(folder), "report": str(report), **found})
    if failed is not None:
        raise failed


def _write_csv(
    console: Console, study: Study, runs: list[Run], path: Path | None, failed: bool
) -> None:
    """Write the tables into one file; of a study that failed, say that they are not."""
    from fedsub.studies.results_file import write_results

    if path is not None and failed:
        console.print(f"{path} is not written: some runs failed", markup=False)
    elif path is not None:
        write_results(study, runs, path)


def _print_study(console: Console, study: Study, folder: Path, runs: list[Run]) -> None:
    """Write the tables; print them, and where they lie."""
    from fedsub.studies.study_tables import TABLES_FILE, write_tables

    console.print(write_tables(study, folder, runs), markup=False, soft_wrap=True)
    times: dict[str, float] = {}
    # Tables may have runs in common.
    for run in {run.task.name: run for run in runs}.values():
        label = run.task.entry.label
        times[label] = times.get(label, 0) + run.summary.seconds
    took = ", ".join(f"{label} {time:.0f}" for label, time in times.items())
    console.print(f"Seconds of rounds, tuning left out: {took}", markup=False)
    console.print(f"Study folder: {folder} ({TABLES_FILE})", soft_wrap=True, markup=False)
