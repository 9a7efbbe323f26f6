"""Reads a study from its TOML file; ``studies/README.md`` says what a file holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from fedsub.report.comparing import LOCAL
from fedsub.studies.study import (
    BUDGETS,
    INDIFFERENT,
    STUDY_FILE,
    Cell,
    Entry,
    Printed,
    Study,
    concerns,
    name_of,
    shown,
    task_of,
    tasks,
)
from fedsub_core.config.toml import flatten, read_toml
from fedsub_core.data.sources import WATCH, absolute_source
from fedsub_core.errors import ConfigError, RunError, cut
from fedsub_core.files import write_whole
from fedsub_core.options import suggestion
from fedsub_server.summaries import MethodSummary

_KEYS = (
    "title", "about", "seeds", "tune-seeds", "budget", "made", "run", "vary", "methods", "tune",
    "show", "paper",
)  # fmt: skip
#: Keys of a run that a study says elsewhere.
_DECIDED = {"method": "[methods]", "beside": "[methods]", "seed": "seeds"}
#: Keys that decide which samples are tested, and by whom they may be trained.
_TESTED = frozenset({
    "data", "split", "test-share", "train-share", "unlabelled", "unlabelled-classes",
    "unseen-by", "unseen-share", "unseen-rounds",
})  # fmt: skip
#: In a study's folder, beside its file.
ASKED_FILE = "asked.json"
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .:+-]{0,39}")
_MEASURE = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")
#: Measures of how long it took until the mean over people first was as much.
TO_TARGET = (
    r"(?P<unit>rounds|seconds)-to-(?P<metric>macro-f1|weighted-f1|accuracy)-(?P<value>0?\.\d+|[01])"
)
#: Of a summary words, and what takes a second method in the same run.
_UNMEASURED = ("method", "tested", "encoding", "worse-than-local")
#: The other numbers of a summary, as files spell them.
SUMMARY = {
    key: f.name
    for f in fields(MethodSummary)
    if (key := f.name.replace("_", "-")) not in _UNMEASURED
}


def keep_study(folder: Path, file: Path, data: Path | None, asked: Mapping[str, Any]) -> None:
    """Keep in a study's folder what it was started with, for :func:`kept_study`."""
    places = [str(place.resolve()) for place in (data, file.parent) if place is not None]
    write_whole(folder / STUDY_FILE, file.read_bytes())
    kept = {"name": file.stem, "places": places, **asked}
    write_whole(folder / ASKED_FILE, (json.dumps(kept) + "\n").encode())


def kept_study(folder: Path) -> Study:
    """Return the study whose folder this is.

    Raises
    ------
    ConfigError, RunError
        If its file is no study any more, or what it was started with cannot be read.
    """
    try:
        asked = json.loads((folder / ASKED_FILE).read_text("utf-8"))
        name, places = asked.pop("name", folder.name), [Path(p) for p in asked.pop("places")]
        study = _read(folder / STUDY_FILE, places, name)
        return shortened(study, **asked)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{folder / ASKED_FILE}: cannot be read ({type(error).__name__}: {cut(error)})"
        ) from error


def read_study(path: Path, data: Path | None = None) -> Study:
    """Return the study in a file; federations it names lie in the folder `data`, or beside it.

    Raises
    ------
    ConfigError
        Where the file cannot be read, or a key or value is none; it names the file and the key.
    """
    places = [folder for folder in (data, path.parent) if folder is not None]
    return _read(path, places, path.stem)


def _read(path: Path, places: Sequence[Path], name: str) -> Study:
    table = read_toml(path)
    for key in table:
        if key not in _KEYS:
            raise ConfigError(
                f"{path}: unknown key {key!r}.{suggestion(key, _KEYS)} Known: {', '.join(_KEYS)}"
            )
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
        {k: _absolute(k, v, places) for k, v in _keys_of_runs(path, "run", table.get("run", {}))},
        _cells(path, table.get("vary", {}), places),
        entries := tuple(_entries(path, table.get("methods", {}))),
        {k: _listed(path, "tune", k, v) for k, v in flatten(table.get("tune", {}))},
        tuple(_measure(path, name) for name in table.get("show", ())),
        tuple(_printed(path, one, entries) for one in _papers(path, table.get("paper", []))),
        choose,
        made=dict(table.get("made", {})),
    )
    _check_given_once(path, study)
    _check_tuned(path, study)
    for printed in study.papers:
        if not any(printed.of(cell) for cell in study.cells):
            raise ConfigError(
                f"{path}: paper: where: got {dict(printed.where)!r}, expected what [vary] has"
            )
    sources: dict[str, str] = {}
    for task in tasks(study, lambda entry, cell: study.candidates(entry)[0]):
        # Each was checked when it was made.
        source = task.config.data
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
            task_of(study, entry, study.cells[0], study.seeds[0], tuned, tuning=True)
    return study


def shortened(
    study: Study,
    seeds: str | None,
    rounds: int | None,
    only: Sequence[str] = (),
    row: Sequence[str] = (),
) -> Study:
    """Return the study with other seeds, such as ``0,1,2``, rounds, fewer tables, fewer rows.

    `only` are keys of [vary] with a value, such as ``data=wisdm``, `row` names of [methods].
    """
    if seeds is not None:
        numbers = [text.strip() for text in seeds.split(",")]
        if not all(text.isascii() and text.isdigit() for text in numbers):
            raise ConfigError(f"seeds: got {seeds!r}, expected whole numbers, such as 0,1,2")
        study = replace(study, seeds=tuple(dict.fromkeys(map(int, numbers))))
    if rounds is not None:
        others = (tuple(pair for pair in cell if pair[0] != "rounds") for cell in study.cells)
        run = {**study.run, "rounds": rounds}
        study = replace(study, run=run, cells=tuple(dict.fromkeys(others)))
    for text in only:
        has = {cell: [f"{key}={shown(value)}" for key, value in cell] for cell in study.cells}
        kept = tuple(cell for cell in study.cells if text in has[cell])
        if not kept:
            there = ", ".join(dict.fromkeys(one for each in has.values() for one in each))
            raise ConfigError(f"only: got {text!r}, expected one of {there or 'none'}")
        study = replace(study, cells=kept)
    for label in row:
        if label not in (labels := [entry.label for entry in study.entries]):
            raise ConfigError(f"row: got {label!r}, expected one of {', '.join(labels)}")
    if row:
        study = replace(study, entries=tuple(e for e in study.entries if e.label in row))
    return study


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
        if lists := [key for key, value in hyper.items() if isinstance(value, list)]:
            raise ConfigError(
                f"{path}: methods: {label}: {lists[0]}: got {hyper[lists[0]]!r}, expected one "
                "value. Give each a row of its own, or the list under [tune], which chooses one"
            )
        method = str(hyper.pop("method", label))
        if (method == LOCAL) != (label == LOCAL):
            raise ConfigError(
                f"{path}: methods: got {label!r} for the method {method}; expected that `local`, "
                "which all gains are counted against, is called so, and nothing else is"
            )
        yield Entry(label, method, hyper)


def _check_given_once(path: Path, study: Study) -> None:
    """Refuse a key of [vary] that [tune] or a method would override: its table would be called so.

    Raises
    ------
    ConfigError
        It names the file and the key.
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
        if key in _DECIDED or key in _TESTED:
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


def _papers(path: Path, given: Any) -> list[Mapping[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ConfigError(f"{path}: paper: got {given!r}, expected tables, each [[paper]]")
    return given


def _cells(path: Path, given: Any, places: Sequence[Path]) -> tuple[Cell, ...]:
    """Return all combinations of a table of lists, the first key slowest; or of each of several."""
    several = isinstance(given, list)
    if several and not given:
        raise ConfigError(f"{path}: vary: got {given!r}, expected a table, or several: [[vary]]")
    found: list[Cell] = []
    for table in given if several else [given]:
        lists = {}
        for key, values in _keys_of_runs(path, "vary", table):
            if several and not isinstance(values, list):
                values = [values]
            listed = _listed(path, "vary", key, values)
            lists[key] = [_absolute(key, value, places) for value in listed]
        found += [tuple(zip(lists, one, strict=True)) for one in product(*lists.values())]
    if twice := next((cell for cell in found if found.count(cell) > 1), None):
        raise ConfigError(f"{path}: vary: got {name_of(twice)} twice, expected each table once")
    return tuple(found)


def _keys_of_runs(path: Path, name: str, table: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {name}: got {table!r}, expected a table")
    for key in INDIFFERENT & table.keys() if name == "vary" else ():
        raise ConfigError(f"{path}: vary: {key}: expected it in [run]: no number depends on it")
    for key in _DECIDED.keys() & table.keys():
        got, place = table[key], _DECIDED[key]
        raise ConfigError(f"{path}: {name}: {key}: got {got!r}, expected it among {place}")
    for key, value in flatten(table):
        if name == "run" and isinstance(value, list):
            raise ConfigError(
                f"{path}: run: {key}: got {value!r}, expected one value. Give the list under "
                "[[vary]], which makes a table for each of its values, or under [tune], which "
                "chooses one"
            )
        yield key, value


def _printed(path: Path, given: Mapping[str, Any], entries: Sequence[Entry]) -> Printed:
    """Return what a [[paper]] says."""
    labels = {entry.label for entry in entries}
    numbers = {key: value for key, value in given.items() if key not in ("source", "where")}
    for name, values in numbers.items():
        _measure(path, name)
        if not isinstance(values, dict) or not all(
            label in labels and type(value) in (int, float) for label, value in values.items()
        ):
            raise ConfigError(
                f"{path}: paper: {name}: got {values!r}, expected numbers by name of [methods]"
            )
    if not numbers or not isinstance(given.get("source"), str):
        raise ConfigError(
            f"{path}: paper: got {dict(given)!r}, expected a source and numbers, such as "
            'source = "Fig. 4", macro-f1 = { fedavg = 0.5 }'
        )
    return Printed(given["source"], dict(flatten(given.get("where", {}))), numbers)


def _measure(path: Path, name: Any) -> str:
    """Return the name of a number of a summary, or of a metric that methods report."""
    if not isinstance(name, str) or not _MEASURE.fullmatch(name) or name in _UNMEASURED:
        raise ConfigError(
            f"{path}: got the measure {name!r}, expected one of {', '.join(SUMMARY)} or a metric "
            "of a method, such as davies-bouldin"
        )
    if name.startswith(("rounds-to-", "seconds-to-")) and not re.fullmatch(TO_TARGET, name):
        raise ConfigError(
            f"{path}: got the measure {name!r}, expected rounds or seconds to a macro-f1, "
            "weighted-f1 or accuracy from 0 to 1, such as rounds-to-macro-f1-0.8"
        )
    return name


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
