"""A study as it was started, shortened or whole, and kept in its folder."""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedsub.studies.folds import read_folds
from fedsub.studies.study import STUDY_FILE, Study, shown
from fedsub.studies.study_file import check_study, read_in
from fedsub.studies.study_parts import DECIDED, listed_values, run_keys
from fedsub_core.errors import ConfigError, RunError, cut
from fedsub_core.files import write_whole
from fedsub_core.options import key_values

#: A value among others with commas, which may have commas of its own in brackets.
_VALUE = re.compile(r"(?:[^,()]|\((?:[^()]|\([^()]*\))*\))+")
#: In a study's folder, beside its file.
ASKED_FILE = "asked.json"


def keep_study(folder: Path, file: Path, data: Path | None, asked: Mapping[str, Any]) -> None:
    """Keep in a study's folder what it was started with, for :func:`kept_study`."""
    places = [str(place.resolve()) for place in (data, file.parent) if place is not None]
    write_whole(folder / STUDY_FILE, file.read_bytes())
    kept = {"name": file.stem, "places": places, **asked}
    write_whole(folder / ASKED_FILE, (json.dumps(kept) + "\n").encode())


def kept_study(folder: Path) -> Study:
    """Return the study whose folder this is.

    Raises ConfigError or RunError if its file is no study any more, or what it was started with
    cannot be read.
    """
    try:
        asked = json.loads((folder / ASKED_FILE).read_text("utf-8"))
        name, places = asked.pop("name", folder.name), [Path(p) for p in asked.pop("places")]
        study = read_in(folder / STUDY_FILE, places, name)
        return as_asked(study, asked)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{folder / ASKED_FILE}: cannot be read ({type(error).__name__}: {cut(error)})"
        ) from error


def as_asked(study: Study, asked: Mapping[str, Any]) -> Study:
    """Return the study as its command asks for it: ``folds``, and what :func:`shortened` takes."""
    others = {key: value for key, value in asked.items() if key != "folds"}
    study = shortened(study, **others)
    if (folds := asked.get("folds")) is not None:
        study = replace(study, folds=read_folds(where := Path("--folds"), folds))
        check_study(where, study)
    return study


def shortened(
    study: Study,
    seeds: str | None,
    rounds: int | None,
    only: Sequence[str] = (),
    row: Sequence[str] = (),
    settings: Sequence[str] = (),
    tune: Sequence[str] = (),
    lr: str | None = None,
) -> Study:
    """Return the study with other seeds, such as ``0,1,2``, rounds, fewer tables, fewer rows.

    `only` are keys of [vary] with a value, such as ``data=wisdm``, `row` names of [methods].
    `settings` are keys of a run with a value, such as ``lr=0.1`` or ``ditto.lam=0.5``, which
    replace the file's, also where that varies or tunes them. `tune` are keys with several, such as
    ``epochs=1,5``, and `lr` several rates: of these each row takes the best on validation data.

    Raises ConfigError if one of them is none, or a row of [methods] fixes a key that is set.
    """
    if seeds is not None:
        numbers = [text.strip() for text in seeds.split(",")]
        if not all(text.isascii() and text.isdigit() for text in numbers):
            raise ConfigError(f"seeds: got {seeds!r}, expected whole numbers, such as 0,1,2")
        study = replace(study, seeds=tuple(dict.fromkeys(map(int, numbers))))
    given = key_values(settings, "--set", "lr=0.1")
    given |= {} if rounds is None else {"rounds": str(rounds)}
    grid = grid_of([*tune, *([] if lr is None else [f"lr={lr}"])])
    if given or grid:
        study = _set(study, given, grid)
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


def grid_of(texts: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values by key of texts such as ``lr=0.01,0.1``; raises ConfigError."""
    pairs = key_values(texts, "--tune", "lr=0.01,0.1")
    split = {key: _VALUE.findall(text) for key, text in pairs.items()}
    listed = {key: [_value(one.strip()) for one in values] for key, values in split.items()}
    return {key: listed_values(Path("--tune"), "values", key, v) for key, v in listed.items()}


def _set(study: Study, given: Mapping[str, str], grid: Mapping[str, list[Any]]) -> Study:
    """Return the study with values for some keys of a run, as text, and others to choose among."""
    where = Path("--set")
    values = dict(run_keys(where, "run", {key: _value(text) for key, text in given.items()}))
    if both := given.keys() & grid.keys():
        raise ConfigError(f"--tune: got {', '.join(sorted(both))}, expected no key that is set")
    given = {**given, **dict.fromkeys(grid, "")}
    for key in given:
        fixed = [
            one.label for one in study.entries if key in {f"{one.method}.{k}" for k in one.hyper}
        ]
        if key in (*DECIDED, "data") or fixed:
            why = f"the row {fixed[0]!r} has its own" if fixed else "the study's file names it"
            raise ConfigError(f"--set: got {key!r}, expected a key that rows share: {why}")
    others = (tuple(pair for pair in cell if pair[0] not in given) for cell in study.cells)
    study = replace(
        study,
        run={**study.run, **values},
        cells=tuple(dict.fromkeys(others)),
        tune={**{k: v for k, v in study.tune.items() if k not in given}, **grid},
    )
    check_study(where, study)
    return study


def _value(text: str) -> object:
    """Return a value as a study's file would have it: a number, true or false, else text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
