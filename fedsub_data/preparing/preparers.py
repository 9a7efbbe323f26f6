"""Preparing a data set: its official files become a federation, by the module of its name."""

import hashlib
import json
import time
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from fedsub_core.data.federation import write_federation
from fedsub_core.errors import DataError
from fedsub_core.files import check_new_folder
from fedsub_core.options import option_values, suggestion
from fedsub_core.version import VERSION
from fedsub_data.catalogue.installed import installed, installed_data_set
from fedsub_data.preparing.options import PREPARERS
from fedsub_data.preparing.preparation import REPORT_FILE, Prepared, Progress


class Preparer(Protocol):
    """The function of a preparer's module."""

    def prepare(self, source: Path, options: Any, workers: int, progress: Progress) -> Prepared:
        """Return the federation in the official files at `source`."""
        ...


def preparer(name: str) -> Preparer:
    """Return the preparer of data set `name`, or raise DataError with the nearest name."""
    if name in PREPARERS:
        return cast(Preparer, import_module(PREPARERS[name][0]))
    if name in installed():
        return cast(Preparer, import_module(installed_data_set(name).preparer))
    known = [*PREPARERS, *installed()]
    raise DataError(
        f"unknown data set {name!r}; known are {', '.join(known)}.{suggestion(name, known)}"
    )


def prepare(
    name: str, source: Path, out: Path, options: Any, workers: int, progress: Progress
) -> Prepared:
    """Prepare data set `name` from `source` and write it to the new folder `out`, or nothing.

    Raises DataError where `out` holds something, or `source` is not what the data set's official
    files are.
    """
    check_new_folder(out, DataError)
    if not source.exists():
        raise DataError(
            f"{source}: no such file or folder; expected {name}'s official files. Get them with "
            f"`fedsub data fetch {name}`, or see `fedsub data show {name}`."
        )
    start = time.monotonic()
    prepared = preparer(name).prepare(source, options, workers, progress)
    report = {
        "data set": name,
        "source": source.name,
        "source sha256": _sha256(source) if source.is_file() else None,
        "fedsub": VERSION,
        "options": option_values(options),
        "counts": prepared.counts,
        "seconds": round(time.monotonic() - start, 1),
    }
    files = {REPORT_FILE: json.dumps(report, indent=2) + "\n"}
    write_federation(out, prepared.federation, files)
    return prepared


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
