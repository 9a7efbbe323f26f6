"""A federation's folder that is replaced as a whole: one process at a time, or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fedsub_core.data.card import CARD_FILE
from fedsub_core.errors import DataError
from fedsub_core.files import PRIVATE, PRIVATE_FOLDER, lock


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let nobody else add to a folder; one that a killed process had put aside comes back.

    Raises DataError where another process adds to it now.
    """
    aside = _aside(folder)
    if aside.is_dir() and not folder.exists():
        os.replace(aside, folder)
    if not (card := folder / CARD_FILE).is_file():
        yield  # whoever reads it says what is wrong
        return
    with open(card, "rb") as file:
        try:
            lock(file, wait=False)
        except OSError as error:
            raise DataError(
                f"{folder}: another import adds to it now, expected one at a time. Wait for it"
            ) from error
        if not os.path.samestat(os.fstat(file.fileno()), card.stat()):
            raise DataError(f"{folder}: another import has added to it just now. Try again")
        yield


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Yield a draft folder; at the block's end it takes the folder's place, with its other files.

    Whatever is raised in the block, the folder stays as it was.

    Raises DataError where something cannot be written.
    """
    folder, aside = folder.resolve(), _aside(folder)
    draft = None
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        yield draft
        _keep(folder, draft)
        if aside.is_dir():
            shutil.rmtree(aside)  # of a process that was killed when all was done
        os.replace(folder, aside)
        try:
            os.replace(draft, folder)
        except OSError:
            os.replace(aside, folder)
            raise
    except OSError as error:
        raise DataError(
            f"{folder}: could not be replaced ({error}); nothing of it was changed. Make room, or "
            "see who may write there"
        ) from error
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
    with suppress(OSError):
        shutil.rmtree(aside)


def _aside(folder: Path) -> Path:
    folder = folder.resolve()
    return folder.with_name(f".{folder.name}.before")


def _keep(folder: Path, draft: Path) -> None:
    """Put the files of a folder that are not new into its draft, as links where that can be."""
    shutil.copymode(folder, draft)
    for path in draft.rglob("*"):
        there = folder / path.relative_to(draft)
        if there.exists():
            shutil.copymode(there, path)
        else:
            path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE)
    for path in folder.rglob("*"):
        target = draft / path.relative_to(folder)
        if path.is_dir() and not path.is_symlink():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copymode(path, target)
        elif not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, target, follow_symlinks=False)
            except OSError:
                shutil.copy2(path, target, follow_symlinks=False)
