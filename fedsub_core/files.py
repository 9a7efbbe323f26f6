"""Writing files and folders new and whole, or not at all: the one place that does it.

What is written tells of people. Whatever the umask, only its owner can read it, unless it is made
to be shown, as a certificate is.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from fedsub_core.errors import FedSubError, RunError, cut
from fedsub_core.spelling import spelt

#: How a file's name begins before it is whole.
DRAFT = ".new-"
#: Modes of what only its owner may read, a file and a folder; the umask that keeps others out.
PRIVATE, PRIVATE_FOLDER, UMASK = 0o600, 0o700, 0o077


def check_new(path: Path, force: bool) -> None:
    """Raise RunError where `path` is taken: before long work, not after.

    With `force` a file there is replaced, a folder never.
    """
    if path.is_dir():
        raise RunError(f"{path}: got a folder, expected the name of a file. Add a name")
    if path.exists() and not force:
        add = spelt("force")
        raise RunError(f"{path}: already exists; it is kept. Choose another name, or add {add}")


def private(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file that, if it is made, only its owner can read: an ``opener`` of :func:`open`."""
    return os.open(path, flags, PRIVATE)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where there is none; only their owner can read them.

    Raises OSError where it cannot be made.
    """
    if not folder.is_dir():
        if folder.parent != folder:
            make_folder(folder.parent)
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)


def replace_file(
    path: Path,
    data: bytes | Iterable[bytes],
    check: Callable[[Path], object] | None = None,
    sync: bool = True,
) -> None:
    """Write `data` beside `path`, let `check` see it there, and only then give it its name.

    Parts of `data` may be made as they are written. What stands at `path` is at any moment the old
    content or the new, also after power loss; without `sync` only once :func:`sync_all` returned.

    Raises OSError where it cannot be written. Then, and where `check` raises, `path` stays as it
    was.
    """
    # The suffix stays last: readers go by it.
    new = path.with_name(f"{DRAFT}{os.getpid()}-{path.name}")
    try:
        new.unlink(missing_ok=True)  # of a process that was killed and had the same number
        with open(new, "xb", opener=private) as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        if check is not None:
            check(new)
        os.replace(new, path)
        if sync:
            _sync_folder(path.parent)
    finally:
        with suppress(OSError):
            new.unlink()


def remove_drafts(folder: Path) -> None:
    """Remove what processes that were killed left of :func:`replace_file`, not in folders below.

    For who alone writes there: else it would be another's.
    """
    for left in folder.glob(f"{DRAFT}*"):
        left.unlink(missing_ok=True)


def lock(file: IO[Any], wait: bool = True) -> bool:
    """Lock a file until it is closed; False where the system has no such call, as Windows.

    Raises OSError where another process has locked it and `wait` is false.
    """
    try:
        import fcntl
    except ImportError:
        return False
    fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def sync_all() -> None:
    """Wait until all files that were written survive power loss: for many small ones at once."""
    if hasattr(os, "sync"):
        os.sync()


def write_whole(
    path: Path,
    data: bytes | Iterable[bytes],
    check: Callable[[Path], object] | None = None,
    sync: bool = True,
) -> None:
    """Do as :func:`replace_file`, with an error that says what to do.

    Raises RunError where it cannot be written.
    """
    try:
        replace_file(path, data, check, sync)
    except OSError as error:
        raise RunError(
            f"{path}: could not be written ({_why(error)}); nothing of it was kept. Make its "
            "folder, make room, or choose another place"
        ) from error


def write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a new file that from its first moment has the permissions `mode`.

    Raises RunError if it exists already or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error}); choose another folder") from error


def check_new_folder(folder: Path, refusal: type[FedSubError]) -> None:
    """Raise `refusal` where `folder` exists and holds something: before long work, not after."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise refusal(
            f"{folder}: already holds something; expected a new or empty folder. Choose another "
            "name or remove it."
        )


@contextmanager
def whole_folder(folder: Path, refusal: type[FedSubError]) -> Iterator[Path]:
    """Yield a draft folder to write into; at the block's end it becomes `folder`.

    Raises refusal where `folder` already holds something or something cannot be written. Whatever
    is raised in the block, nothing of it is kept.
    """
    check_new_folder(folder, refusal)
    try:
        make_folder(folder.parent)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise refusal(f"{folder}: cannot be made ({_why(error)}). Choose another place.") from error
    try:
        yield draft
        for path in draft.rglob("*"):  # mkdtemp's own folder is its owner's alone
            path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE)
        if folder.exists():
            folder.rmdir()  # only some systems let os.replace take an empty folder's place
        os.replace(draft, folder)
    except OSError as error:
        raise refusal(
            f"{folder}: could not be written ({error}); nothing of it was kept. Make room or "
            "choose another place."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def stamped_folder(out: Path, name: str) -> Path:
    """Make the folder ``<out>/<name>-<time>``, numbered where there is one of this second.

    Raises RunError where it cannot be made.
    """
    if out.exists() and not out.is_dir():
        raise RunError(f"{out}: is a file, expected a folder; choose another {spelt('out')}")
    stem = f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
    for attempt in range(100):
        folder = out / (stem if attempt == 0 else f"{stem}-{attempt}")
        try:
            make_folder(out)
            folder.mkdir(PRIVATE_FOLDER)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(
                f"{folder}: cannot be made ({error.strerror}); choose another {spelt('out')}"
            ) from error
        return folder
    another = spelt("out")
    raise RunError(f"{out}: a hundred folders of this name and second; choose another {another}")


def _why(error: OSError) -> str:
    """Return what went wrong, without the draft's name, which nobody knows."""
    return error.strerror or str(error)


def _sync_folder(folder: Path) -> None:
    # The new name survives power loss once its folder is synced; Windows has no such call.
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def read_table(path: Path) -> dict[str, Any]:
    """Return the object of a JSON file; empty where there is no file.

    Raises RunError if it cannot be read, or holds something else.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: got {cut(error)}, expected JSON; restore or remove it") from error
    if not isinstance(found, dict):
        raise RunError(f"{path}: got {cut(found)}, expected an object; restore or remove it")
    return found
