"""What a command writes: new, whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from fedsub_core.errors import RunError


def check_new(path: Path, force: bool) -> None:
    """Raise RunError where `path` is taken: before long work, not after.

    With `force` a file there is replaced, a folder never.
    """
    if path.is_dir():
        raise RunError(f"{path}: got a folder, expected the name of a file. Add a name")
    if path.exists() and not force:
        raise RunError(f"{path}: already exists; it is kept. Choose another name, or add --force")


def write_whole(path: Path, data: bytes, check: Callable[[Path], None] | None = None) -> None:
    """Write `data` beside `path`, let `check` read it there, and only then give it its name.

    Raises
    ------
    RunError
        Where it cannot be written. Then, and where `check` raises, `path` stays as it was.
    """
    # The suffix stays last: readers go by it.
    new = path.with_name(f".new-{os.getpid()}-{path.name}")
    try:
        with new.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if check is not None:
            check(new)
        os.replace(new, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise RunError(
            f"{path}: could not be written ({error}); nothing of it was kept. Make its folder, "
            "make room, or choose another place"
        ) from error
    finally:
        with suppress(OSError):
            new.unlink()


def stamped_folder(out: Path, name: str) -> Path:
    """Make the folder ``<out>/<name>-<time>``, numbered where there is one of this second.

    Raises
    ------
    RunError
        Where it cannot be made.
    """
    stem = f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    for attempt in range(100):
        folder = out / (stem if attempt == 0 else f"{stem}-{attempt}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(
                f"{folder}: cannot be made ({error.strerror}); choose another --out"
            ) from error
        return folder
    raise RunError(f"{out}: a hundred folders of this name and second; choose another --out")


def _sync_folder(folder: Path) -> None:
    # The new name survives power loss once its folder is synced; Windows has no such call.
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
