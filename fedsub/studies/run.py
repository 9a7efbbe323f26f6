"""A run: several methods on the same federation, splits and seeds, in one folder."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedsub.engines.cohort_grid import resolve_device
from fedsub.engines.simulation import (
    MakeGrid,
    build_grid,
    build_strategy,
    split_clients,
    train_method,
    unseen_people,
)
from fedsub.studies.grown_card import go_on_with_data
from fedsub_client.new_cohort import make_cohort
from fedsub_core.config.idle import named_idle
from fedsub_core.config.named_code import check_named, note_named
from fedsub_core.config.run_config import RunConfig, differences, dump_toml, read_config
from fedsub_core.config.toml import flatten, read_toml
from fedsub_core.data.federation import Federation
from fedsub_core.data.findings import findings, sides_warning, without_validation
from fedsub_core.data.sources import load_federation
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import remove_drafts, stamped_folder, write_whole
from fedsub_core.methods.table import method
from fedsub_core.models.held import why_unfit
from fedsub_core.models.names import installed, is_place
from fedsub_core.models.record import ModelRecord
from fedsub_core.training.precision import check_precision
from fedsub_server.beginning import earlier_run
from fedsub_server.data_notes import DataNotes, write_notes
from fedsub_server.forgotten import read_forgotten
from fedsub_server.results import export_csv, summarise_run
from fedsub_server.resuming import may_change, why_rounds_stay
from fedsub_server.run_folder import DATABASE_FILE, METRICS_FILE, RUN_FILE
from fedsub_server.rundb import RunDatabase

#: What `fedsub run --resume` may change: how long and on what a run computes, and where the data
#: lie, which are known by what they hold (:func:`go_on`).
RESUMABLE = frozenset(
    {
        "rounds",
        "evaluate-every",
        "device",
        "threads",
        "checkpoint-seconds",
        "whole-rounds",
        "data",
        "standardise-anew",
    }
)
MethodProgress = Callable[[str, int], None]


def load_data(config: RunConfig, resumed: Path | None = None) -> Federation:
    """Return the run's federation, or raise what would stop the run before its first round.

    To be called before the run's folder is made, so that bad data leave none behind. Of a run that
    is `resumed` in a folder it has nobody whom that was told to forget.
    """
    federation = load_federation(config.data)
    if resumed is not None:
        federation = read_forgotten(resumed).without_them(federation)
    check_data(config, federation)
    if resumed is None:
        for name in config.methods:
            earlier_run(config, name, federation.card)
    return federation


def check_data(config: RunConfig, federation: Federation) -> None:
    """Raise what would stop a run on a federation before its first round."""
    unseen_people(config, federation)
    check_precision(config.precision, resolve_device(config.device))
    most = len(federation.clients)
    for key, asked in (
        ("min-clients", config.min_clients),
        ("clients-per-round", config.clients_per_round),
    ):
        if asked > most:
            raise ConfigError(
                f"{key}: got {asked}, expected at most {most}: as many people as {config.data} has"
            )
    people = split_clients(config.split_settings, federation, config.capacity_settings)
    if config.best_by == "validation" and not any(one.holds_back for one in people):
        raise ConfigError(
            "best-by = validation: got nobody with enough training samples for a validation part, "
            "expected at least one person. Set best-by = last, or give people more samples"
        )
    for name in config.methods:
        settings = config.device_settings(name)
        cohort = make_cohort(settings, federation.card, [people[0].holding(1.0)])
        for person in people:
            least = person.can_hold.share
            model, encoder = cohort.learner.model, cohort.encoder
            if why := why_unfit(method(name), settings.wire, model, least, encoder):
                raise ConfigError(f"{name}: client {person.client!r}: {why}")
        build_strategy(config, name)


def new_folder(config: RunConfig) -> Path:
    """Make the run's folder, ``<out>/<data>-<method>-<time>``, with its resolved run.toml.

    Raises RunError if the folder cannot be made.
    """
    note_named(config)
    data = Path(config.data).resolve().name if config.data != "watch" else "watch"
    folder = stamped_folder(Path(config.out), f"{data}-{config.method}")
    write_whole(folder / RUN_FILE, dump_toml(config).encode())
    return folder


def resumed_config(folder: Path, overrides: dict[str, Any]) -> RunConfig:
    """Return the configuration of a run to be resumed, which may be given more rounds.

    Nothing is written into `folder` before :func:`go_on`.

    Raises ConfigError if the folder names code that is not in `overrides`, and that the user does
    not know (:mod:`fedsub_core.models.known_code`). Raises RunError if `folder` is no run, or
    `overrides` ask for what does not continue the run: another configuration, or fewer rounds than
    it was given.
    """
    if not (folder / RUN_FILE).is_file():
        raise RunError(f"{folder}: no {RUN_FILE} there: not a run's folder")
    keys = {key for key, _ in flatten(read_toml(folder / RUN_FILE))}
    if missing := sorted({"data", "method", "rounds", "seed"} - keys):
        raise RunError(
            f"{folder / RUN_FILE}: got no {', '.join(missing)}, expected all keys of the run's "
            "start: without them it would resume as a different run. Restore the file"
        )
    config = read_config(folder / RUN_FILE)
    wanted = read_config(folder / RUN_FILE, overrides)
    free = may_change(config) & RESUMABLE
    why = f" Rounds stay: {reason}." if (reason := why_rounds_stay(config)) else ""
    if changed := [text for key, text in differences(config, wanted).items() if key not in free]:
        raise RunError(
            f"{folder}: a run resumes with its own configuration, but other values were given "
            f"({'; '.join(changed)}). Leave them out, or start a new run. May change: "
            f"{', '.join(sorted(free))}.{why}"
        )
    if wanted.rounds < config.rounds:
        raise RunError(
            f"{folder}: rounds: got {wanted.rounds}, expected {config.rounds} or more: a "
            "run can get more rounds, not fewer. Leave rounds out, or start a new run."
        )
    check_named(wanted, folder / RUN_FILE, overrides)
    note_named(wanted)
    return wanted


def go_on(folder: Path, config: RunConfig, federation: Federation) -> None:
    """Check that a run's data are what they were, and note what it is resumed with.

    Raises RunError or ConfigError; as :func:`go_on_with_data`.
    """
    go_on_with_data(folder, config, federation)
    text = dump_toml(config).encode()
    if (folder / RUN_FILE).read_bytes() != text:
        write_whole(folder / RUN_FILE, text)


def train_methods(
    config: RunConfig,
    federation: Federation,
    folder: Path,
    progress: MethodProgress,
    make_grid: MakeGrid = build_grid,
) -> dict[str, Any]:
    """Train every method of the run, one after another, and return the summary.

    Methods that had finished are left as they are. Writes, for each method, ``<method>/state.db``,
    ``metrics.csv`` and ``models/``, and for all ``summary.json`` and ``data.json``, how everybody's
    samples were split and what bends the results.
    """
    write_notes(folder, data_notes(config, federation))
    for name in config.methods:
        own = folder / name
        train_method(config, name, federation, own, partial(progress, name), make_grid)
        with RunDatabase(own / DATABASE_FILE) as database:
            export_csv(database, own / METRICS_FILE)
        remove_drafts(own)
    return summarise_run(folder)


def data_notes(config: RunConfig, federation: Federation) -> DataNotes:
    """Return the notes of a run's data: its kind of split, and what bends its results.

    Raises DataError where somebody's cannot be split.
    """
    card = federation.card
    people = {one.client: one for one in split_clients(config.split_settings, federation)}
    splits = {name: one.note for name, one in people.items() if one.note is not None}
    tested = unseen_people(config, federation) or list(people)
    trained, seen = set[int](), set[int]()
    if card.target is None:  # else they are places in its range
        trained = {int(label) for one in people.values() for label in np.unique(one.train_y)}
        seen = {int(label) for name in tested for label in np.unique(people[name].test_y)}
    found = findings(federation, config.split)
    if config.best_by == "validation" and (lacking := without_validation(splits)):
        found.append(lacking)
    if sides := sides_warning({name: note.split for name, note in splits.items()}):
        found.append(sides)
    if untested := [card.classes[label] for label in sorted(trained - seen)]:
        found.append(
            f"Trained on, but tested by nobody: {', '.join(map(repr, untested))}. No score shows "
            "how well it is recognised. A class needs two samples that can be split in time."
        )
    found += [*named_idle(config), *endings(config, federation)]
    return DataNotes(splits, tuple(found))


def endings(config: RunConfig, federation: Federation) -> list[str]:
    """Return in sentences what a user's own model ends with that training suffers from."""
    if not (is_place(config.model) or config.model in installed()):
        return []  # of ours none does
    card = federation.card
    x = next(iter(federation.clients.values())).x
    shape = card.shape_of(x)
    found = {}
    for name in config.methods:
        settings = config.device_settings(name)
        record = ModelRecord.of(settings, config.seed, shape, len(card.classes))
        if record.ending:
            found[record.ending] = f"model {record.kind}: {record.ending}."
    return list(found.values())
