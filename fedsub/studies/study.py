"""A study: methods, what varies between their runs, seeds, and what is tuned.

A study is resolved to tasks, each one run of one method, known by all that decides its outcome:
what a file changes is run anew, and nothing else.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from fedsub.studies.folds import Fold, Folds, folds_of
from fedsub_core.config.own_training import of_target
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS
from fedsub_server.task_scores import CLASSES, TARGET, TaskScores

Values = Mapping[str, Any]
#: A combination of what varies: keys with their values, in the order of the file.
Cell = tuple[tuple[str, Any], ...]
BUDGETS = ("rounds", "compute")
#: In a study's folder.
STUDY_FILE = "study.toml"
#: What a run is computed on and where it is kept, which does not change what comes out.
INDIFFERENT = frozenset(
    {"device", "threads", "out", "checkpoint-seconds", "whole-rounds", "beside"}
)
#: Settings of local training, as a file spells them.
TRAINING = frozenset(f.name.replace("_", "-") for f in fields(TrainingSettings))


@dataclass(frozen=True)
class Entry:
    """A row of the study's tables: a method with hyperparameters of its own."""

    label: str
    method: str
    hyper: Values


@dataclass(frozen=True)
class Printed:
    """What a paper prints: where, for which cells, and its numbers by measure and label."""

    source: str
    where: Values
    numbers: Mapping[str, Mapping[str, float]]

    def of(self, cell: Cell) -> bool:
        """Return whether the numbers are of a cell."""
        here = {key: shown(value) for key, value in cell}
        return all(here.get(key) == shown(value) for key, value in self.where.items())


@dataclass(frozen=True, eq=False)
class Study:
    """A study as its file says.

    Parameters
    ----------
    title, about : what it is, and which figure or table of which paper it is held against.
    budget : ``rounds``: all train for as many; ``compute``: all for as many epochs in all.
    run : keys of a run, common to all.
    cells : what varies between the study's tables; of one table, one empty cell.
    tune : keys with values, of which the best on a validation part is taken.
    show : measures that the tables have beyond those of all studies.
    papers : what papers print, to stand beside what comes out.
    tune_seeds : of the seeds, so many, the first ones, choose values.
    missing : rows, by cell and label, that the tables do without, as runs of them failed.
    made : how federations are made, by name, for who has not made them yet.
    folds : how what is tested changes between runs of a row.
    """

    title: str
    about: str
    seeds: tuple[int, ...]
    budget: str
    run: Values
    cells: tuple[Cell, ...]
    entries: tuple[Entry, ...]
    tune: Mapping[str, Sequence[Any]]
    show: tuple[str, ...] = ()
    papers: tuple[Printed, ...] = ()
    tune_seeds: int = 1
    missing: frozenset[tuple[Cell, str]] = frozenset()
    made: Mapping[str, str] = field(default_factory=dict)
    folds: Folds = 0

    @property
    def choosing(self) -> tuple[int, ...]:
        """The seeds whose validation parts choose values."""
        return self.seeds[: self.tune_seeds]

    @property
    def scores(self) -> TaskScores:
        """The scores of its tables; a study is of classes or of a target."""
        return TARGET if any(of_target(loss) for _, loss in self.values_of(["loss"])) else CLASSES

    def values_of(self, options: Iterable[str]) -> list[tuple[str, str]]:
        """Return the values that the study gives to some options, each beside its option, once."""
        found = set()
        for option in options:
            own = [self.run.get(option), *(dict(cell).get(option) for cell in self.cells)]
            found |= {(option, str(one)) for one in (*own, *self.tune.get(option, ())) if one}
        return sorted(found)

    def rows(self) -> Iterator[tuple[Cell, Entry]]:
        """Yield every table's rows, without what is missing."""
        for cell, entry in product(self.cells, self.entries):
            if (cell, entry.label) not in self.missing:
                yield cell, entry

    def folds_of(self, cell: Cell) -> list[Fold]:
        """Return the folds of a table's runs: :func:`fedsub.studies.folds.folds_of`."""
        keys = {"data": "watch", "split": "auto", **self.run, **dict(cell)}
        return folds_of(self.folds, str(keys["data"]), str(keys["split"]))

    def candidates(self, entry: Entry) -> list[Values]:
        """Return the combinations of tuned values that an entry is tried with; one if none."""
        own = {key: values for key, values in self.tune.items() if concerns(key, entry)}
        return [dict(zip(own, values, strict=True)) for values in product(*own.values())]


@dataclass(frozen=True, eq=False)
class Task:
    """One run of one method.

    Parameters
    ----------
    entry, cell : which row of which table it is for.
    tuned : the values that it tries, or that were found best.
    config : all that the run needs.
    tuning : whether it trains on a part of the training data and is tested on the rest of that.
    fold : what it sets beyond other runs of its seed.
    """

    entry: Entry
    cell: Cell
    config: RunConfig
    tuned: Values = field(default_factory=dict)
    tuning: bool = False
    fold: Fold = ()

    @property
    def name(self) -> str:
        """Folder of the run: for people, and a digest of all that decides what comes out."""
        flat = to_flat(self.config)
        mine = {
            key: value
            for key, value in sorted(flat.items())
            if key not in INDIFFERENT and key.partition(".")[0] not in set(METHODS) - {self.method}
        }
        mine["data"] = Path(self.config.data).name  # its content is checked before a run
        digest = hashlib.blake2b(repr((mine, self.tuning)).encode(), digest_size=5).hexdigest()
        kind = "tuning-" if self.tuning else ""
        label = self.entry.label.replace(" ", "-").replace(":", "-")
        return f"{kind}{label}-seed{self.config.seed}-{digest}"

    @property
    def method(self) -> str:
        """The method that is run."""
        return self.entry.method


def shown(value: object) -> str:
    """Return a value as people know it: as in the file, but of a path the folder's name."""
    if isinstance(value, bool):
        return str(value).lower()
    # Not every slash is a path's: a capacity may be 1/4.
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else str(value)


def name_of(cell: Cell) -> str:
    """Return a table's name, in words; "" of a study's only one."""
    return ", ".join(f"{key} {shown(value)}" for key, value in cell)


def tasks(study: Study, best: Any) -> Iterator[Task]:
    """Yield the runs that the tables are made of.

    `best(entry, cell)` gives the tuned values, where the cell ends in what the fold sets: each
    fold has values of its own, as the others train on what it tests.
    """
    for cell, entry in study.rows():
        for seed, fold in product(study.seeds, study.folds_of(cell)):
            yield task_of(study, entry, cell, seed, best(entry, cell + fold), fold=fold)


def tuning_tasks(study: Study) -> Iterator[Task]:
    """Yield the runs that choose values; none where there is no choice."""
    for cell, entry in study.rows():
        candidates = study.candidates(entry)
        if len(candidates) > 1:
            folds = study.folds_of(cell)
            for tuned, seed, fold in product(candidates, study.choosing, folds):
                yield task_of(study, entry, cell, seed, tuned, tuning=True, fold=fold)


def task_of(
    study: Study,
    entry: Entry,
    cell: Cell,
    seed: int,
    tuned: Values,
    tuning: bool = False,
    fold: Fold = (),
) -> Task:
    """Return one run.

    Raises ConfigError if what it would be configured with is no configuration of a run.
    """
    own = {f"{entry.method}.{key}": value for key, value in entry.hyper.items()}
    keys = {"threads": 1, **study.run, **dict(cell), **dict(fold), **own, **tuned}
    keys |= {"method": entry.method, "beside": "", "seed": seed}
    try:
        config = read_config(None, keys)
        if study.budget == "compute":
            config = _equal_compute(config, entry.method)
    except ConfigError as error:
        raise ConfigError(f"study {study.title!r}: {entry.label}: {error}") from error
    return Task(entry, cell, config, tuned, tuning, fold)


def _equal_compute(config: RunConfig, method: str) -> RunConfig:
    """Return the configuration with as many rounds as plain training's epochs pay for."""
    if config.steps:
        raise ConfigError(
            f"budget = compute: got steps = {config.steps}, expected 0: what methods cost is "
            "said in epochs. Set epochs, or budget = rounds"
        )
    cost = METHODS[method].cost(config.hyper[method], config.epochs).round / config.epochs
    return replace(config, rounds=max(1, int(config.rounds / max(cost, 1e-9))))


def concerns(key: str, entry: Entry) -> bool:
    """Return whether a tuned key is the run's, or the entry's method's and not fixed by it.

    Settings of training do not concern a method that trains nothing.
    """
    method, dot, own = key.rpartition(".")
    if not dot:
        known = METHODS.get(entry.method)  # an unknown one is refused where its run is made
        return known is None or known.trains or key not in TRAINING
    return method == entry.method and own not in entry.hyper
