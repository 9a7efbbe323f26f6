"""A study: methods, what varies between their runs, seeds, and what is tuned; read from TOML.

``studies/README.md`` says what a file holds. A study is resolved to tasks, each one run of one
method, known by all that decides its outcome: what a file changes is run anew, and nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.config.toml import flatten, read_toml
from fedsub_core.data.sources import WATCH, absolute_source
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS
from fedsub_core.options import suggestion

Values = Mapping[str, Any]
#: A combination of what varies: keys with their values, in the order of the file.
Cell = tuple[tuple[str, Any], ...]
BUDGETS = ("rounds", "compute")
_KEYS = ("title", "about", "seeds", "budget", "run", "vary", "methods", "tune")
#: What a run is computed on, which does not change what comes out.
_INDIFFERENT = frozenset({"device", "threads", "out", "checkpoint-seconds", "beside"})
#: Keys of a run that a study says elsewhere.
_DECIDED = {"method": "[methods]", "beside": "[methods]", "seed": "seeds"}
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .:+-]{0,39}")


@dataclass(frozen=True)
class Entry:
    """A row of the study's tables: a method with hyperparameters of its own."""

    label: str
    method: str
    hyper: Values


@dataclass(frozen=True, eq=False)
class Study:
    """A study as its file says.

    Parameters
    ----------
    title, about : what it is, and which figure or table of which paper it is held against.
    seeds : of the runs of each entry.
    budget : ``rounds``: all train for as many; ``compute``: all for as many epochs in all.
    run : keys of a run, common to all.
    vary : keys with values, of which every combination is a cell.
    entries : the rows.
    tune : keys with values, of which the best on a validation part is taken.
    """

    title: str
    about: str
    seeds: tuple[int, ...]
    budget: str
    run: Values
    vary: Mapping[str, Sequence[Any]]
    entries: tuple[Entry, ...]
    tune: Mapping[str, Sequence[Any]]

    @property
    def cells(self) -> list[Cell]:
        """All combinations of what varies, the first key slowest."""
        return [
            tuple(zip(self.vary, values, strict=True)) for values in product(*self.vary.values())
        ]

    def candidates(self, entry: Entry) -> list[Values]:
        """Return the combinations of tuned values that an entry is tried with; one if none."""
        own = {key: values for key, values in self.tune.items() if _concerns(key, entry)}
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
    """

    entry: Entry
    cell: Cell
    config: RunConfig
    tuned: Values = field(default_factory=dict)
    tuning: bool = False

    @property
    def name(self) -> str:
        """Folder of the run: for people, and a digest of all that decides what comes out."""
        flat = to_flat(self.config)
        mine = {
            key: value
            for key, value in sorted(flat.items())
            if key not in _INDIFFERENT and key.partition(".")[0] not in set(METHODS) - {self.method}
        }
        mine["data"] = Path(self.config.data).name  # its content is checked when it is read
        digest = hashlib.blake2b(repr((mine, self.tuning)).encode(), digest_size=5).hexdigest()
        kind = "tuning-" if self.tuning else ""
        label = self.entry.label.replace(" ", "-").replace(":", "-")
        return f"{kind}{label}-seed{self.config.seed}-{digest}"

    @property
    def method(self) -> str:
        """The method that is run."""
        return self.entry.method


def read_study(path: Path, data: Path | None = None) -> Study:
    """Return the study in a file; federations it names lie in the folder `data`, or beside it.

    Raises
    ------
    ConfigError
        Where the file cannot be read, or a key or value is none; it names the file and the key.
    """
    table = read_toml(path)
    for key in table:
        if key not in _KEYS:
            raise ConfigError(
                f"{path}: unknown key {key!r}.{suggestion(key, _KEYS)} Known: {', '.join(_KEYS)}"
            )
    seeds = table.get("seeds", [0])
    if (
        not seeds
        or not all(type(s) is int and s >= 0 for s in seeds)
        or len(set(seeds)) < len(seeds)
    ):
        raise ConfigError(f"{path}: seeds: got {seeds!r}, expected whole numbers >= 0, each once")
    budget = table.get("budget", BUDGETS[0])
    if budget not in BUDGETS:
        raise ConfigError(f"{path}: budget: got {budget!r}, expected {' or '.join(BUDGETS)}")
    for name in ("run", "vary"):
        for key in _DECIDED.keys() & table.get(name, {}).keys():
            got, place = table[name][key], _DECIDED[key]
            raise ConfigError(f"{path}: {name}: {key}: got {got!r}, expected it among {place}")
    places = [folder for folder in (data, path.parent) if folder is not None]
    study = Study(
        str(table.get("title", path.stem)),
        str(table.get("about", "")).strip(),
        tuple(seeds),
        budget,
        {k: _absolute(k, v, places) for k, v in flatten(table.get("run", {}))},
        {
            key: [_absolute(key, value, places) for value in _listed(path, "vary", key, values)]
            for key, values in flatten(table.get("vary", {}))
        },
        tuple(_entries(path, table.get("methods", {}))),
        {k: _listed(path, "tune", k, v) for k, v in flatten(table.get("tune", {}))},
    )
    for task in tasks(study, lambda entry, cell: study.candidates(entry)[0]):
        del task  # each was checked when it was made
    for entry in study.entries:
        for tuned in study.candidates(entry):
            task_of(study, entry, study.cells[0], study.seeds[0], tuned, tuning=True)
    return study


def shortened(study: Study, seeds: str | None, rounds: int | None) -> Study:
    """Return the study with other seeds, such as ``0,1,2``, or another number of rounds."""
    if seeds is not None:
        numbers = [text.strip() for text in seeds.split(",")]
        if not all(text.isascii() and text.isdigit() for text in numbers):
            raise ConfigError(f"seeds: got {seeds!r}, expected whole numbers, such as 0,1,2")
        study = replace(study, seeds=tuple(dict.fromkeys(map(int, numbers))))
    if rounds is not None:
        study = replace(study, run={**study.run, "rounds": rounds})
    return study


def tasks(study: Study, best: Any) -> Iterator[Task]:
    """Yield the runs that the tables are made of; `best(entry, cell)` gives the tuned values."""
    for cell in study.cells:
        for entry in study.entries:
            for seed in study.seeds:
                yield task_of(study, entry, cell, seed, best(entry, cell))


def tuning_tasks(study: Study) -> Iterator[Task]:
    """Yield the runs that choose values, all with the first seed; none where there is no choice."""
    for cell in study.cells:
        for entry in study.entries:
            candidates = study.candidates(entry)
            if len(candidates) > 1:
                for tuned in candidates:
                    yield task_of(study, entry, cell, study.seeds[0], tuned, tuning=True)


def task_of(
    study: Study, entry: Entry, cell: Cell, seed: int, tuned: Values, tuning: bool = False
) -> Task:
    """Return one run.

    Raises
    ------
    ConfigError
        If what it would be configured with is no configuration of a run.
    """
    own = {f"{entry.method}.{key}": value for key, value in entry.hyper.items()}
    keys = {"threads": 1, **study.run, **dict(cell), **own, **tuned}
    keys |= {"method": entry.method, "beside": "", "seed": seed}
    try:
        config = read_config(None, keys)
        if study.budget == "compute":
            config = _equal_compute(config, entry.method)
    except ConfigError as error:
        raise ConfigError(f"study {study.title!r}: {entry.label}: {error}") from error
    return Task(entry, cell, config, tuned, tuning)


def _equal_compute(config: RunConfig, method: str) -> RunConfig:
    """Return the configuration with as many rounds as plain training's epochs pay for."""
    cost = METHODS[method].cost(config.hyper[method], config.epochs).round / config.epochs
    return replace(config, rounds=max(1, int(config.rounds / max(cost, 1e-9))))


def _concerns(key: str, entry: Entry) -> bool:
    """Return whether a tuned key is the run's, or the entry's method's and not fixed by it."""
    method, dot, own = key.rpartition(".")
    return not dot or (method == entry.method and own not in entry.hyper)


def _entries(path: Path, table: Mapping[str, Any]) -> Iterator[Entry]:
    if not table:
        raise ConfigError(
            f"{path}: methods: got none, expected at least one, such as [methods.local]"
        )
    for label, given in table.items():
        if not _LABEL.fullmatch(label) or not isinstance(given, dict):
            raise ConfigError(
                f"{path}: methods: got {label!r}, expected a table of a name of letters, digits, "
                "blanks and . : + -"
            )
        hyper = dict(given)
        yield Entry(label, str(hyper.pop("method", label)), hyper)


def _listed(path: Path, table: str, key: str, values: Any) -> list[Any]:
    if not isinstance(values, list) or not values or len(set(map(repr, values))) < len(values):
        raise ConfigError(
            f"{path}: {table}: {key}: got {values!r}, expected a list of values, each once"
        )
    return values


def _absolute(key: str, value: Any, places: Sequence[Path]) -> Any:
    """Return a federation's folder as found in one of `places`; other values as they are."""
    if key != "data" or not isinstance(value, str) or value == WATCH:
        return value
    near = (str((place / value).resolve()) for place in places if (place / value).is_dir())
    return next(near, absolute_source(value))
