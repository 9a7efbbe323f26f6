"""Data sets that installed packages offer, each under the entry point group ``fedsub.data``."""

from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from fedsub_core.errors import DataError

GROUP = "fedsub.data"


@dataclass(frozen=True)
class DataSet:
    """A data set of a package.

    Parameters
    ----------
    folder : of its ``card.toml`` and ``README.md``; the data set has its name.
    preparer : the module that prepares it, ``package.module``, loaded when it is used.
    options : a dataclass, what can be chosen.
    """

    folder: Path
    preparer: str
    options: type[Any]


@cache
def installed() -> dict[str, EntryPoint]:
    """Return the data sets of installed packages, by name; no package is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def installed_data_set(name: str) -> DataSet:
    """Return a package's data set.

    Raises DataError where its package cannot be loaded, or offers something else.
    """
    point = installed()[name]
    try:
        offered = point.load()
    except Exception as error:  # whatever another package's import raises
        raise DataError(
            f"data set {name!r}: its package cannot be loaded: {type(error).__name__}: {error}. "
            "Reinstall or remove it."
        ) from error
    if not isinstance(offered, DataSet):
        raise DataError(f"data set {name!r}: got {point.value}, expected a DataSet")
    return offered
