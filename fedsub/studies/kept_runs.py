"""Runs that a study's folder keeps: which have finished, by which code and on which data."""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fedsub.studies.engine import SECONDS_FILE, federation_of
from fedsub.studies.study import Task, shown
from fedsub_core.config.toml import read_toml
from fedsub_core.data.fingerprint import fingerprints
from fedsub_core.errors import FedSubError, RunError, cut
from fedsub_core.files import make_folder, write_whole
from fedsub_core.packages import build_with
from fedsub_server.method_summary import MethodSummary
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method

log = logging.getLogger("fedsub")

RUNS, DATA_FILE = "runs", "data.json"


def summary(folder: Path, task: Task) -> MethodSummary:
    """Return the summary of a finished run; raise RunError where it is not finished."""
    with RunDatabase(database_of(folder, task)) as database:
        return summarise_method(database, None)


def database_of(folder: Path, task: Task) -> Path:
    """Return the database of a run; raise RunError where the run has not finished."""
    if not (folder / RUNS / task.name / SECONDS_FILE).is_file():
        raise RunError(f"{task.name} has not finished")
    return folder / RUNS / task.name / task.method / DATABASE_FILE


def check_same_data(todo: Sequence[Task], folder: Path) -> None:
    """Note what the data of runs are; raise RunError where runs there are had others."""
    kept = folder / DATA_FILE
    try:
        before = dict(json.loads(kept.read_text("utf-8"))) if kept.is_file() else {}
    except (OSError, ValueError, TypeError) as error:
        raise RunError(
            f"{kept}: cannot be read ({cut(error)}), so nothing says which data its runs had; "
            "restore it, or choose another --out"
        ) from error
    known = dict(before)
    for source in {task.config.data for task in todo}:
        try:
            federation = federation_of(source)
        except FedSubError:
            continue  # the runs say it themselves
        found = repr(sorted(fingerprints(federation).items()))
        digest = hashlib.blake2b(found.encode(), digest_size=12).hexdigest()
        if known.setdefault(shown(source), digest) != digest and _trained_on(folder, source):
            raise RunError(
                f"{folder}: {source}: the data are other than those of runs that are kept there; "
                "one table would mix both. Restore them, or choose another --out"
            )
        known[shown(source)] = digest
    if known != before:
        make_folder(folder)
        write_whole(kept, (json.dumps(known, indent=2) + "\n").encode())


def _trained_on(folder: Path, source: str) -> bool:
    """Return whether a finished run had data of that name."""
    runs = (path.parent for path in (folder / RUNS).glob(f"*/{SECONDS_FILE}"))
    return any(shown(str(read_toml(run / RUN_FILE)["data"])) == shown(source) for run in runs)


def warn_of_other_code(kept: Sequence[Task], folder: Path) -> None:
    """Tell of runs that stay although the code that trained them is not this one."""
    builds: Counter[tuple[str, str]] = Counter()
    for task in kept:
        with RunDatabase(database_of(folder, task)) as database:
            builds[database.trained_by(), build_with(task.method)] += 1
    for (found, now), count in builds.items():
        if found != now:
            log.warning(
                "%s: %d of its runs are by fedsub %s, not by %s: they stay. Another --out trains "
                "them anew",
                *(folder, count, found, now),
            )
