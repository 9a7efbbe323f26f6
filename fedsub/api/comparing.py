"""``fedsub.compare``: methods over seeds, tuned without test data, as tables."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w
from rich.console import Console

from fedsub.api.data import federation as as_federation
from fedsub.api.modules import is_given, places_in
from fedsub.api.settings import flat_settings
from fedsub.api.shown import Report, shown_with_place, table
from fedsub.commands.progress import study_progress
from fedsub.predictions.several import tested_in
from fedsub.studies.engine import Underway, federation_of, train_run, what_went_wrong
from fedsub.studies.folds import name_of_fold
from fedsub.studies.kept_study import keep_study, kept_study
from fedsub.studies.local_engine import local_engine
from fedsub.studies.runner import choose, run_study
from fedsub.studies.study import Study, Task
from fedsub.studies.study_file import read_study
from fedsub.studies.study_page import write_study_page
from fedsub.studies.study_results import Run, finished, tables
from fedsub.studies.study_tables import plain_row, write_tables
from fedsub_core.config.named_code import ALL_CODE, note_option
from fedsub_core.cores import usable_cores
from fedsub_core.data.federation import write_federation
from fedsub_core.data.sources import WATCH, absolute_source
from fedsub_core.files import make_folder, stamped_folder
from fedsub_core.spelling import python, spelling

if TYPE_CHECKING:
    import pandas as pd

#: Columns that a notebook shows.
_SHOWN = ["{}", "{}_low", "{}_high", "twin", "gain", "gain_low", "gain_high", "loss"]


class Comparison:
    """A study's folder, and what its rows reached as pandas tables; ids of people are text."""

    def __init__(self, folder: Path, study: Study, runs: Sequence[Run]) -> None:
        self.folder, self._study, self._runs = folder, study, list(runs)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row by method: means over people and seeds, intervals, gain over ``twin``."""
        rows, score = [], self._study.scores.name
        for cell, found in tables(self._study, self._runs):
            for row in found:
                values = plain_row(self._study, row)
                values = {
                    k: v for k, v in values.items() if k not in ("label", "method", "measures")
                }
                low, high = values.pop("interval") or (None, None)
                ends = values.pop("gain_interval") or (None, None)
                better, worse, of = values.pop("beyond") or (None, None, None)
                values |= {f"{score}_low": low, f"{score}_high": high}
                values |= {"gain_low": ends[0], "gain_high": ends[1]}
                values |= {"better_beyond_noise": better, "worse_beyond_noise": worse, "of": of}
                values["tuned"] = ", ".join(f"{k}={v}" for k, v in row.tuned.items())
                rows.append({"row": row.entry.label, **dict(cell), **values})
        return table(rows, "row")

    @cached_property
    def people(self) -> pd.DataFrame:
        """Score of each person by row and seed: ``row``, ``seed``, ``person``, then ``macro_f1``.

        Of a target it is ``mae``.
        """
        return table(
            {
                "row": run.task.entry.label,
                "seed": run.task.config.seed,
                **({"fold": name_of_fold(run.task.fold)} if run.task.fold else {}),
                "person": person,
                self._study.scores.name: score,
            }
            for run in self._runs
            for person, score in sorted(run.people.items())
        )

    @cached_property
    def predictions(self) -> pd.DataFrame:
        """Each tested sample of each run: ``row``, what varies, then as ``run.predictions``.

        Raises RunError where the data do not lie where the study found them.
        """
        return table(row for one in tested_in(self.folder) for row in one.predictions())

    @property
    def report(self) -> Report:
        """The study's page; a notebook shows it."""
        return Report(write_study_page(self._study, self.folder, self._runs))

    def _repr_html_(self) -> str:
        return shown_with_place(
            self.table[[name.format(self._study.scores.name) for name in _SHOWN]], self.folder
        )

    def __repr__(self) -> str:
        """Return where the study lies and what it compares."""
        rows = tuple(entry.label for entry in self._study.entries)
        return f"Comparison({str(self.folder)!r}, rows={rows}, seeds={self._study.seeds})"


@spelling(python)
def compare(
    data: Any = WATCH,
    methods: str | Iterable[str] | Mapping[str, Mapping[str, Any]] = "local,fedavg,fedsub-ridge",
    rounds: int | None = None,
    *,
    seeds: Sequence[int] = (0,),
    tune: Mapping[str, Sequence[Any]] | None = None,
    folder: Path | str | None = None,
    jobs: int | None = None,
    progress: bool = True,
    **settings: Any,
) -> Comparison:
    """Train methods on the same splits and seeds, and return how they compare.

    Parameters
    ----------
    data, rounds, settings
        As `fedsub.run` takes them, and ``folds``: how many, ``"person"``, or whom each leaves out.
        A `model` or `encoder` in memory is used in this process, one run after another.
    methods
        Names, also as one text with commas; or rows by a label, each with ``method`` and
        hyperparameters of its own.
    seeds
        Of the runs; means are over all.
    tune
        Values to choose among for each row, on a part of the training samples that is held back:
        ``tune={"lr": [0.01, 0.05]}``.
    folder
        The study's; given again, what is finished stays and the rest goes on. None: a new one.
    jobs
        Runs at a time; None: as many as there are cores.

    Raises
    ------
    ConfigError, DataError, RunError
        As ``fedsub compare`` does.
    """
    places = places_in(settings)
    told = {"seeds": list(seeds), "folds": settings.pop("folds", 0)}
    keys = flat_settings(settings) | places
    keys |= {"rounds": rounds} if rounds is not None else {}
    names = methods.split(",") if isinstance(methods, str) else methods
    own = names if isinstance(names, Mapping) else {name: {} for name in names}
    to = Path(folder) if folder is not None else stamped_folder(Path("runs"), "compare")
    make_folder(to)
    with _lying(data) as source, tempfile.TemporaryDirectory(prefix="fedsub-study-") as draft:
        file = Path(draft, "comparison.toml")
        told |= {"run": {**keys, "data": source}, "methods": {k: dict(v) for k, v in own.items()}}
        told["tune"] = {key: list(values) for key, values in (tune or {}).items()}
        file.write_text(tomli_w.dumps(told), "utf-8")
        study = read_study(file)
        keep_study(to, file, None, {"seeds": None, "rounds": None, "only": [], "row": []})
        for option, value in study.values_of(ALL_CODE):
            note_option(option, value)
        here = any(map(is_given, places.values()))
        engine = _here if here else local_engine(jobs or usable_cores())
        with study_progress(Console()) if progress else nullcontext(lambda stage: None) as tell:
            runs = finished(study, to, run_study(study, to, engine, tell))
        write_tables(study, to, runs)
    return Comparison(to, study, runs)


def kept(folder: Path) -> Comparison:
    """Return the comparison whose folder this is; raises RunError where a run has not finished."""
    study = kept_study(folder)
    return Comparison(folder, study, finished(study, folder, choose(study, folder)))


def _here(
    tasks: Sequence[Task], folder: Path, underway: Underway
) -> Generator[tuple[Task, str | None], None, None]:
    """Train tasks in this process, one by one: an engine, for models that lie in its memory."""
    for task in tasks:
        try:
            people = federation_of(task.config.data)
            train_run(task, people, folder / task.name, partial(underway, task))
        except Exception as error:  # as other engines do: the others are trained first
            yield task, what_went_wrong(error)
        else:
            yield task, None


@contextmanager
def _lying(data: Any) -> Iterator[str]:
    """Yield the folder in which the data lie, for processes to read; a passing one if none."""
    if isinstance(data, str | Path) and (str(data) == WATCH or Path(data).is_dir()):
        yield absolute_source(str(data))
        return
    people = as_federation(data)
    with tempfile.TemporaryDirectory(prefix="fedsub-data-") as place:
        folder = Path(place, people.card.name.replace("/", "-"))
        write_federation(folder, people)
        yield str(folder)
