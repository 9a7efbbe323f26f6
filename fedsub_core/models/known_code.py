"""Code of models that this user has named before, known by its digest.

Files say where a model's builder stands: a run's folder, a configuration, a study. They may be
somebody else's, and to import a builder runs its code. So code that a file names runs only if the
user names it, too, or has named the very same code before. What was named is noted in the user's
own state directory, ``$XDG_STATE_HOME/fedsub/known-code``, as empty files called by digests. No
other folder is believed, least of all the one that names the code.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from fedsub_core.errors import ConfigError
from fedsub_core.files import make_folder, private
from fedsub_core.models.names import is_place
from fedsub_core.spelling import spelt

log = logging.getLogger("fedsub")


def note_code(place: str) -> None:
    """Note that the user named a builder's place, with the code that stands there now.

    Names of models that are no place, and code that lies in no file, are not noted. Where nothing
    can be written, it is logged.
    """
    if not is_place(place) or (digest := digest_of(place)) is None:
        return
    try:
        make_folder(_noted(digest).parent)
        with open(_noted(digest), "ab", opener=private):
            pass
    except (OSError, RuntimeError) as error:  # a read-only home, or none
        log.warning("code of %s: not noted (%s): name it again to resume", place, error)


def check_code(
    place: str,
    where: Path | str,
    named: Collection[str] = (),
    give: str = "",
    option: str = "model",
) -> None:
    """Refuse a builder's place that a file names, unless the user named that code.

    Parameters
    ----------
    where : the file or folder that names it.
    named : places that the user names now.
    give : how to name it, for the message; "" is the command line's option.
    option : that has the place.

    Raises ConfigError if the code was never named, or was changed since, or there is none at the
    place.
    """
    if not is_place(place) or place in named:
        return
    digest = digest_of(place)
    try:
        known = digest is not None and _is_ours(_noted(digest))
    except (OSError, RuntimeError):
        known = False
    if not known:
        got = "code that you have not named before, or that was changed since"
        got = got if digest else "code that is in no file here"
        raise ConfigError(
            f"{where}: {option}: got {place!r}, {got}; expected a name that is no code, or code "
            f"that you know. Read the code first. If it may run, name it: "
            f"{give or spelt(option, place)}"
        )


def _noted(digest: str) -> Path:
    """Return the path of the note on a digest.

    Raises RuntimeError if the user has no home.
    """
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    # A relative one depends on where a command is called, such as in somebody's folder.
    state = given if given.is_absolute() else Path.home() / ".local" / "state"
    return state / "fedsub" / "known-code" / digest


def _is_ours(file: Path) -> bool:
    """Return whether a file is there that only the user or root can write, and its folder, too."""
    if not file.is_file():
        return False
    mine = {os.getuid(), 0} if hasattr(os, "getuid") else None
    found = [path.stat() for path in (file, file.parent)]
    return mine is None or all(one.st_uid in mine and not one.st_mode & 0o022 for one in found)


def digest_of(place: str, beside: Sequence[Path] = ()) -> str | None:
    """Return a digest of a builder's name and of the files that its import runs.

    None where one cannot be read. Nothing is imported.

    Parameters
    ----------
    beside : further files, such as of weights.
    """
    where, _, builder = place.rpartition(":")
    digest = hashlib.blake2b(builder.encode(), digest_size=20)
    files = [Path(where)] if where.endswith(".py") else _files(where)
    try:
        for file in (*files, *beside):
            digest.update(hashlib.blake2b(file.read_bytes()).digest())
    except OSError:
        return None
    return digest.hexdigest() if files else None


def _files(module: str) -> list[Path]:
    """Return the files of a module and of the packages around it; [] where one has none."""
    files: list[Path] = []
    name, places = "", None
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        # Not `find_spec` of importlib: it imports the packages around a module.
        specs = (finder.find_spec(name, places) for finder in sys.meta_path)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None:
            return []
        if spec.has_location and spec.origin is not None:
            files.append(Path(spec.origin))
        elif name == module or spec.submodule_search_locations is None:
            return []  # only a package around it may have no file
        places = spec.submodule_search_locations
    return files
