"""Reads a study from its TOML file; ``studies/README.md`` says what a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedsub.studies.measure_names import check_measure
from fedsub.studies.study import BUDGETS, Study
from fedsub.studies.study_checks import check_study
from fedsub.studies.study_parts import (
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

_KEYS = (
    "title", "about", "seeds", "tune-seeds", "budget", "made", "run", "vary", "methods", "tune",
    "show", "paper",
)  # fmt: skip


def read_study(path: Path, data: Path | None = None) -> Study:
    """Return the study in a file; federations it names lie in the folder `data`, or beside it.

    Raises
    ------
    ConfigError
        Where the file cannot be read, or a key or value is none; it names the file and the key.
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
    )
    check_study(path, study)
    return study
