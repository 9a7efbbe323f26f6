"""A run's values chosen on validation data before it begins: the grid of one method.

It is what a study does for each of its rows (:mod:`fedsub.studies.runner`), for the run's method:
each candidate is trained on a part of the training samples and judged on the rest of them, never on
a tested sample.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from fedsub.studies.engine import train_run
from fedsub.studies.kept_runs import RUNS, summary
from fedsub.studies.run import new_folder
from fedsub.studies.runner import choose, row_key
from fedsub.studies.study import INDIFFERENT, Entry, Study, concerns, tuning_tasks
from fedsub.studies.study_file import TESTED, check_study
from fedsub.studies.study_parts import listed_values
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.data.federation import Federation
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import write_whole
from fedsub_server.tuned import TUNED_FILE

#: Told of a candidate: its number from 0, of how many, and its rounds that are done.
Tell = Callable[[int, int, int], None]
Grid = Mapping[str, Sequence[Any]]
_WHERE = Path("--tune")


def study_of(config: RunConfig, grid: Grid) -> Study:
    """Return the study of one row that chooses a run's values.

    Raises ConfigError if a key is not one of the run's method, or a value is none of it.
    """
    entry = Entry(config.method, config.method, {})
    decided = ("data", "method", "beside", "seed", "out", "folder", "on-round")
    run = {key: value for key, value in to_flat(config).items() if key not in decided}
    own = {k: v for k, v in run.items() if "." not in k or k.startswith(f"{config.method}.")}
    for key, values in grid.items():
        if key in INDIFFERENT or key in TESTED or key == "rounds":
            raise ConfigError(
                f"--tune: {key}: got it as a key to choose, expected one of training or of "
                f"{config.method}: it changes no model, or decides what is tested or for how long"
            )
        listed_values(_WHERE, "values", key, list(values))
        if key in decided or not concerns(key, entry):
            raise ConfigError(
                f"tune: {key}: got a key that {config.method} does not have, expected one of its "
                f"own or of its training: `fedsub compare` chooses for each of several methods"
            )
    study = Study(
        f"tuning of {config.method}", "", (config.seed,), "rounds", {**own, "data": config.data},
        ((),), (entry,), dict(grid),
    )  # fmt: skip
    check_study(_WHERE, study)
    return study


def tuned(
    config: RunConfig, federation: Federation, grid: Grid, tell: Tell
) -> tuple[RunConfig, dict[str, Any]]:
    """Return the run's configuration with the values that were chosen, and what was tried.

    Raises ConfigError or DataError as :func:`study_of`; if samples are too few to choose on. Raises
    RunError if no candidate could be trained.
    """
    study = study_of(config, grid)
    tasks, failed, score = list(tuning_tasks(study)), dict[str, str](), study.scores.name
    with tempfile.TemporaryDirectory(prefix="fedsub-tuning-") as place:
        folder = Path(place)
        for i, task in enumerate(tasks):
            here = replace(task, config=replace(task.config, threads=config.threads))
            try:
                train_run(here, federation, folder / RUNS / task.name, partial(tell, i, len(tasks)))
            except RunError as error:  # with too large a rate no upload can be used
                failed[task.name] = str(error)
        if tasks and len(failed) == len(tasks):
            raise RunError(f"tune: no candidate could be trained: {next(iter(failed.values()))}")
        chosen = dict(choose(study, folder, failed)[row_key(study.entries[0], ())])
        tried = [
            {
                "values": dict(task.tuned),
                score: None
                if task.name in failed
                else _finite(getattr(summary(folder, task), score)),
            }
            for task in tasks
        ]
    found = {"method": config.method, "chosen": chosen, "tried": tried}
    found["grid"] = {key: list(values) for key, values in grid.items()}
    return read_config(None, {**to_flat(config), **chosen}), found


def _finite(score: float | None) -> float | None:
    """Return a score; None of a candidate that diverged, or was never tested."""
    return score if score is not None and isfinite(score) else None


def tuned_folder(config: RunConfig, found: Mapping[str, Any]) -> Path:
    """Make the run's folder (:func:`new_folder`), with what was tried and chosen, if anything."""
    folder = new_folder(config)
    if found:
        write_whole(folder / TUNED_FILE, (json.dumps(found, indent=1) + "\n").encode())
    return folder
