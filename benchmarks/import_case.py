"""A case of an import: small files with one fault, and what should come of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fedsub_data.importing.ways_in import TABLES, Recordings

#: Forms that only text can have, and those of windows without names and times.
TEXT = ("csv",)
WINDOWS = ("npz of windows", "ts", "arrays")
REFUSED, NAMED, READ = "refused", "refused or named", "read"


@dataclass(frozen=True)
class Case:
    """Files of one fault.

    Parameters
    ----------
    kind, variant : of the fault.
    right : what should come: refused, refused or named, or read.
    made : columns of each file, by its name without ending; the file is a person where no column
        says whose a row is.
    options : of ``fedsub data import``.
    forms : in which the files can be written.
    edit : changes a file's text.
    """

    kind: str
    variant: str
    right: str
    made: Recordings
    options: Sequence[str] = ()
    forms: Sequence[str] = TABLES
    edit: Callable[[str], str] | None = None


def with_columns(made: Recordings, **columns: Callable[[str, dict[str, Any]], Any]) -> Recordings:
    """Return recordings with more columns, each a function of person and columns."""
    for person, own in made.items():
        n = len(own["time"])
        for name, of in columns.items():
            own[name] = np.broadcast_to(of(person, own), n).copy()
        own["activity"] = own.pop("activity")
    return made
