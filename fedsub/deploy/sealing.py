"""Sealing of what lies there already: a run's folder on the server, a device's state-dir."""

import logging
from collections.abc import Iterator
from pathlib import Path

from fedsub_client.store import LEAVING_FILE, FolderStore
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.files import remove_drafts, replace_file
from fedsub_core.sealing import FILE, Locked, NotOpened, passphrase, seal, seals, unseal
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE
from fedsub_server.rundb import RunDatabase

log = logging.getLogger("fedsub")

#: Files of a device that tell of its person.
_OF_DEVICES = ("*.safetensors", "sums*.json", "opened-sums.json")


def seal_folder(folder: Path, plain: bool) -> list[str]:
    """Seal what a folder holds of people, or make it plain again; return what was changed.

    Each database is changed in one transaction, each file as a whole: stopped half-way, each is
    the old one or the new, and both can be read with the passphrase.

    Raises ConfigError if no passphrase is named. Raises Locked if the passphrase cannot be read, or
    something is sealed by another one. Raises RunError if the folder is no run's and no state-dir,
    or cannot be written.
    """
    if not seals():
        raise ConfigError(f"{FILE}: got nothing, expected the name of a file with a passphrase")
    passphrase()
    changed = list(_run(folder, plain) if (folder / RUN_FILE).is_file() else _states(folder, plain))
    if not changed:
        raise RunError(f"{folder}: nothing to seal, expected a run's folder or a state-dir")
    return changed


def _run(folder: Path, plain: bool) -> Iterator[str]:
    for path in sorted(folder.glob(f"*/{DATABASE_FILE}")):
        with RunDatabase(path) as database:
            database.seal_anew(plain)
        yield str(path.relative_to(folder))


def _states(folder: Path, plain: bool) -> Iterator[str]:
    for own in sorted(path for path in folder.iterdir() if path.is_dir()):
        if (own / LEAVING_FILE).exists():
            continue
        with FolderStore(folder, own.name).lock():
            remove_drafts(own)  # of killed processes: in plain, or torn
            for path in sorted({p for pattern in _OF_DEVICES for p in own.glob(pattern)}):
                try:
                    opened = unseal(path.read_bytes(), own.name)
                    replace_file(path, opened if plain else seal(opened, own.name))
                except Locked as error:
                    raise Locked(f"{path}: {error}; what was changed stays so") from error
                except NotOpened as error:  # as what a device set aside
                    log.warning("%s: %s: left as it is; delete it if nobody needs it", path, error)
                    continue
                except OSError as error:
                    raise RunError(f"{path}: {error}; what was changed stays so") from error
                yield str(path.relative_to(folder))
