"""The single samples of a run, or of all the runs that a study's tables are of."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fedsub.predictions.tables import Row, prediction_rows, split_rows
from fedsub.predictions.tested import Predicted, RunSamples
from fedsub.studies.engine import federation_of
from fedsub.studies.kept_runs import RUNS
from fedsub.studies.kept_study import kept_study
from fedsub.studies.runner import choose, final_tasks, unfinished_tuning
from fedsub.studies.study import STUDY_FILE, name_of, shown


@dataclass(frozen=True, eq=False)
class Tested:
    """A run with its predictions, and where a study's tables have it.

    Parameters
    ----------
    of : columns that say the row and table of a study; {} of a run alone.
    label : the row, with its table where there are several; "" of a run alone.
    """

    run: RunSamples
    predicted: list[Predicted]
    of: Row = field(default_factory=dict)
    label: str = ""

    def predictions(self) -> Iterator[Row]:
        """Yield a row for each tested sample: :func:`.tables.prediction_rows`."""
        return (self.of | row for row in prediction_rows(self.run, self.predicted))

    def parts(self) -> Iterator[Row]:
        """Yield a row for each sample: :func:`.tables.split_rows`."""
        seed = {"seed": self.run.config.seed} if self.of else {}
        return (self.of | seed | row for row in split_rows(self.run))


def tested_in(folder: Path, methods: tuple[str, ...] = ()) -> Iterator[Tested]:
    """Yield the run in a folder, or a study's runs in the order of its file.

    Parameters
    ----------
    methods : some of them; (): all.

    Raises RunError; as :class:`.tested.RunSamples`; if a study's run has not finished.
    """
    if not (folder / STUDY_FILE).is_file():
        run = RunSamples(folder)
        yield Tested(run, list(run.predictions(methods)))
        return
    study = kept_study(folder)
    for task in final_tasks(study, choose(study, folder, unfinished_tuning(study, folder))):
        if methods and task.method not in methods:
            continue
        run = RunSamples(folder / RUNS / task.name, federation_of(task.config.data))
        of = {"row": task.entry.label, **{key: shown(value) for key, value in task.cell}}
        label = f"{task.entry.label} ({name_of(task.cell)})" if task.cell else task.entry.label
        yield Tested(run, list(run.predictions()), of, label)
