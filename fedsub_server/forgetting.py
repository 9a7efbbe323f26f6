"""Forgetting a person: what a run's folder keeps of one client is removed from it."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.errors import RunError
from fedsub_core.options import suggestion
from fedsub_server.data_notes import forget_notes
from fedsub_server.forgotten import alias, note_forgotten
from fedsub_server.live_file import forget_live
from fedsub_server.results import export_csv, summarise_run
from fedsub_server.resuming import SERVER
from fedsub_server.run_folder import (
    DATABASE_FILE,
    METRICS_FILE,
    MODELS,
    RUN_FILE,
    SUMMARY_FILE,
    TRANSCRIPT_FILE,
)
from fedsub_server.rundb import RunDatabase, State
from strategies.protections.sum_transcript import forget_in_transcript
from strategies.strategy import PersonalizedStrategy

#: Group of a simulated client's own state.
CLIENT = "client/"


class CannotForget(RunError):
    """Nothing of such a client is in the run, or a method keeps what cannot be taken apart."""


def forget(folder: Path, client: str) -> str:
    """Remove a client from a run: rows, prototypes, scores, key, its model and its name.

    Its metrics stay, under the name that is returned, so that means over clients stay true. A run
    that is going on ends at its next round, and goes on without the client when it is started
    again: by :mod:`fedsub_server.forgotten` it knows whom to leave out. Whatever stops this
    half-way, it can be done again.

    Raises CannotForget if nothing in it is of such a client, or a method cannot forget it. Raises
    RunError if the folder is no run's, or cannot be written.
    """
    if not (folder / RUN_FILE).is_file():
        raise RunError(f"{folder}: no {RUN_FILE} there: not a run's folder")
    # Also of methods that the run had once, and has no longer.
    names = sorted(path.parent.name for path in folder.glob(f"*/{DATABASE_FILE}"))
    databases = {name: RunDatabase(folder / name / DATABASE_FILE) for name in names}
    try:
        known = {person for database in databases.values() for person in database.clients()}
        kept = {path.stem for name in names for path in (folder / name / MODELS).glob("*.*")}
        if client not in known | kept and not _told(folder, names, client):
            hint = suggestion(client, sorted(known))
            raise CannotForget(f"{folder}: nothing in this run is of a client {client!r}.{hint}")
        name_then = alias(1 + max(database.forgotten() for database in databases.values()))
        for name, database in databases.items():
            _without(folder, name, database, client)  # who cannot says so before anything changes
        note_forgotten(folder, client)
        for name, database in databases.items():
            forget_in_transcript(folder / name / TRANSCRIPT_FILE, client)
            database.forget(client, name_then, *_without(folder, name, database, client))
            (folder / name / MODELS / f"{client}.safetensors").unlink(missing_ok=True)
            if (folder / name / METRICS_FILE).is_file():
                export_csv(database, folder / name / METRICS_FILE)
    finally:
        for database in databases.values():
            database.close()
    forget_notes(folder, client)
    forget_live(folder, client)
    if (folder / SUMMARY_FILE).is_file():
        summarise_run(folder)
    return name_then


def _told(folder: Path, names: Sequence[str], client: str) -> bool:
    """Return whether metrics.csv of a method still names a client.

    Whom no database knows any longer, where a first try was stopped before it made the file anew.
    """
    for path in (folder / name / METRICS_FILE for name in names):
        if path.is_file():
            # What is damaged is made anew; it is only asked whether it names somebody.
            with path.open(encoding="utf-8", errors="replace", newline="") as file:
                if any(row.get("client") == client for row in csv.DictReader(file)):
                    return True
    return False


def _config(folder: Path, name: str, database: RunDatabase) -> RunConfig:
    """Return the run's configuration, with what the method was started with."""
    known = to_flat(read_config(None, {"method": name, "beside": ""}))
    started = json.loads(database.meta()["config"])
    kept = {key: value for key, value in started.items() if key in known}
    return read_config(folder / RUN_FILE, {**kept, "method": name, "beside": ""})


def _without(folder: Path, name: str, database: RunDatabase, client: str) -> tuple[int, State]:
    """Return a method's last round, and the state after it without a client."""
    strategy = PersonalizedStrategy(_config(folder, name, database).server_settings(name))
    round, state = database.load()
    left = {name: tensors for name, tensors in state.items() if name != f"{CLIENT}{client}"}
    if SERVER in left:
        strategy.resume(round, left[SERVER])
        try:
            strategy.forget(client)
        except RunError as error:
            raise CannotForget(str(error)) from error
        left[SERVER] = strategy.lasting_state()
    return round, left
