"""Reads a study from its TOML file; ``studies/README.md`` says what a file holds."""

from collections.abc import Sequence
from pathlib import Path

from fedsub.studies.folds import SET_BY_FOLDS, read_folds
from fedsub.studies.measures import check_measure
from fedsub.studies.study import BUDGETS, Study, Task, concerns, shown, task_of, tasks
from fedsub.studies.study_parts import (
    DECIDED,
    listed_values,
    paper_tables,
    place_of,
    read_cells,
    read_entries,
    read_printed,
    run_keys,
)
from fedsub_core.config.toml import flatten, read_toml
from fedsub_core.errors import ConfigError
from fedsub_core.options import nearest
from fedsub_server.task_scores import TARGET

_KEYS = (
    "title", "about", "seeds", "tune-seeds", "folds", "budget", "made", "run", "vary", "methods",
    "tune", "show", "paper",
)  # fmt: skip


def read_study(path: Path, data: Path | None = None) -> Study:
    """Return the study in a file; federations it names lie in the folder `data`, or beside it.

    Raises ConfigError where the file cannot be read, or a key or value is none; it names the file
    and the key.
    """
    places = [folder for folder in (data, path.parent) if folder is not None]
    return read_in(path, places, path.stem)


def read_in(path: Path, places: Sequence[Path], name: str) -> Study:
    """Return the study called `name` in a file; federations it names lie in one of `places`."""
    table = read_toml(path)
    for key in table:
        if key not in _KEYS:
            raise ConfigError(f"{path}: unknown key {key!r}.{nearest(key, _KEYS, 'Known keys')}")
    kinds = {key: dict for key in ("made", "run", "methods", "tune")} | {"show": list}
    for key, kind in kinds.items():
        if not isinstance(table.get(key, kind()), kind):
            expected = "a list" if kind is list else f"a table, [{key}]"
            raise ConfigError(f"{path}: {key}: got {table[key]!r}, expected {expected}")
    seeds = table.get("seeds", [0])
    if (
        not isinstance(seeds, list)
        or not seeds
        or not all(type(s) is int and s >= 0 for s in seeds)
        or len(set(seeds)) < len(seeds)
    ):
        raise ConfigError(f"{path}: seeds: got {seeds!r}, expected whole numbers >= 0, each once")
    choose = table.get("tune-seeds", 1)
    if type(choose) is not int or not 1 <= choose <= len(seeds):
        raise ConfigError(
            f"{path}: tune-seeds: got {choose!r}, expected how many of the {len(seeds)} seeds, the "
            "first ones, choose values: a whole number of at least 1"
        )
    budget = table.get("budget", BUDGETS[0])
    if budget not in BUDGETS:
        raise ConfigError(f"{path}: budget: got {budget!r}, expected {' or '.join(BUDGETS)}")
    study = Study(
        str(table.get("title", name)),
        str(table.get("about", "")).strip(),
        tuple(seeds),
        budget,
        {k: place_of(k, v, places) for k, v in run_keys(path, "run", table.get("run", {}))},
        read_cells(path, table.get("vary", {}), places),
        entries := tuple(read_entries(path, table.get("methods", {}))),
        {k: listed_values(path, "tune", k, v) for k, v in flatten(table.get("tune", {}))},
        tuple(check_measure(path, name) for name in table.get("show", ())),
        tuple(
            read_printed(path, one, entries) for one in paper_tables(path, table.get("paper", []))
        ),
        choose,
        made=dict(table.get("made", {})),
        folds=read_folds(path, table.get("folds", 0)),
    )
    check_study(path, study)
    return study


#: Keys that decide which samples are tested, and by whom they may be trained.
TESTED = frozenset({
    "data", "split", "test-share", "train-share", "unlabelled", "unlabelled-classes",
    "unseen-by", "unseen-share", "unseen-rounds", "unseen-people", "unseen-labels", "fold",
})  # fmt: skip


def check_study(path: Path, study: Study) -> None:
    """Refuse a study whose parts are right each, and wrong together.

    `path`: of its file, which messages begin with.

    Raises ConfigError; it names the file and the key.
    """
    _check_given_once(path, study)
    _check_tuned(path, study)
    keys = {*study.run, *(key for cell in study.cells for key, _ in cell)} if study.folds else set()
    if doubled := sorted(keys.intersection(SET_BY_FOLDS)):
        raise ConfigError(f"{path}: {doubled[0]}: got it beside folds, expected one of them")
    for printed in study.papers:
        if not any(printed.of(cell) for cell in study.cells):
            raise ConfigError(
                f"{path}: paper: where: got {dict(printed.where)!r}, expected what [vary] has"
            )
    sources: dict[str, str] = {}
    for task in tasks(study, lambda entry, cell: study.candidates(entry)[0]):
        # Each was checked when it was made.
        source = task.config.data
        _check_scored(path, study, task)
        if (other := sources.setdefault(shown(source), source)) != source:
            raise ConfigError(
                f"{path}: data: got {other} and {source}, expected folders of different names: "
                "runs and tables are called by these"
            )
    for name, how in study.made.items():
        if name not in sources or not isinstance(how, str):
            raise ConfigError(
                f"{path}: made: {name}: got {how!r}, expected how one of {', '.join(sources)} is "
                "made, in words"
            )
    for entry in study.entries:
        for tuned in study.candidates(entry):
            _check_scored(
                path,
                study,
                task_of(study, entry, study.cells[0], study.seeds[0], tuned, tuning=True),
            )


def _check_scored(path: Path, study: Study, task: Task) -> None:
    """Refuse a run of classes in a study of a target: macro F1 and errors do not compare.

    Raises ConfigError; it names the file and the loss.
    """
    if study.scores == TARGET and not task.config.regression:
        raise ConfigError(
            f"{path}: loss: got {task.config.loss} for {task.entry.label} beside a loss of a "
            "target, expected one kind: tables compare by macro F1 or by MAE"
        )


def _check_given_once(path: Path, study: Study) -> None:
    """Refuse a key of [vary] that [tune] or a method would override: its table would be called so.

    Raises ConfigError; it names the file and the key.
    """
    fixed = {f"{e.method}.{key}": e.label for e in study.entries for key in e.hyper}
    for key in dict.fromkeys(key for cell in study.cells for key, _ in cell):
        if key in study.tune or key in fixed:
            other = f"[methods] of {fixed[key]!r}" if key in fixed else "[tune]"
            raise ConfigError(
                f"{path}: vary: {key}: got it in {other}, too; expected it in one of them"
            )


def _check_tuned(path: Path, study: Study) -> None:
    """Refuse a key of [tune] that no row has, or that decides what is tested; raises as above."""
    for key in study.tune:
        if key in DECIDED or key in TESTED:
            raise ConfigError(
                f"{path}: tune: {key}: got {study.tune[key]!r}, expected it in [run] or [vary]: "
                "rows that differ in what they are tested on cannot be compared"
            )
        if key == "rounds" or (key == "epochs" and study.budget == "compute"):
            raise ConfigError(
                f"{path}: tune: {key}: got {study.tune[key]!r}, expected it in [run] or [vary]: "
                f"rows would not be equal in {study.budget}"
            )
        if not any(concerns(key, entry) for entry in study.entries):
            has = ", ".join(dict.fromkeys(entry.method for entry in study.entries))
            raise ConfigError(
                f"{path}: tune: {key}: no row of [methods] has it. Expected a key of a run, or one "
                f"of {has}, which the row itself does not fix"
            )
