"""Zips of tables and arrays, unpacked with a bound into a temporary folder."""

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from fedsub_core.errors import DataError, cut, listed
from fedsub_data.importing.files import ZIP, ending
from fedsub_data.preparing.unpacking import DAMAGED, opened_zip


def without_zips(files: Sequence[Path], folder: Path) -> tuple[list[Path], list[str]]:
    """Return the files with those in zips in their place, and what of zips is left out.

    `folder`: where zips are unpacked, each into a folder of its name.

    Raises DataError where a zip is damaged, holds nothing that is read, or is too large when
    unpacked.
    """
    made, notes = list[Path](), list[str]()
    for number, path in enumerate(files):
        if ending(path) != ZIP:
            made.append(path)
            continue
        try:
            own, others = _unpacked(path, folder / str(number) / path.name)
        except DAMAGED as error:
            raise DataError(f"{path}: cannot be read ({cut(error)}). Check the file") from error
        if not own:
            raise DataError(
                f"{path}: got {listed(others, 5) or 'no files'}, expected tables. Unpack it "
                "yourself and import what is in it"
            )
        made += own
        if others:
            notes.append(f"Left out, as they are no tables: {listed(others, 5)} in {path}.")
    return made, notes


def _unpacked(path: Path, folder: Path) -> tuple[list[Path], list[str]]:
    """Return the unpacked files of one zip in the order of their names, and names of others."""
    made, others = list[Path](), list[str]()
    with opened_zip(path, path, path.stat().st_size) as archive:
        for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
            name = PurePosixPath(entry.filename)
            if name.is_absolute() or ".." in name.parts or "\\" in entry.filename:
                raise DataError(f"{path}: got a file {entry.filename!r} outside it, expected none")
            hidden = any(part[0] == "." or part == "__MACOSX" for part in name.parts)
            if entry.is_dir() or hidden:
                continue
            if ending(Path(name)) in (None, ZIP):
                others.append(entry.filename)
                continue
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with archive.open(entry) as packed, open(target, "xb") as file:
                    shutil.copyfileobj(packed, file)
            except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
                raise DataError(
                    f"{path}: {entry.filename} cannot be read ({cut(error)}). Unpack it yourself"
                ) from error
            made.append(target)
    return made, others
