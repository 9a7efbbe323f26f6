"""Fetching a data set's official files: terms first, checked, and whole or not at all."""

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pooch
import requests

from fedsub_core.errors import DataError
from fedsub_core.options import suggestion
from fedsub_data.catalogue.dataset_card import DatasetCard, OfficialFile

TRIES = 3
PAUSE_S = 2.0
_CHUNK = 1 << 16
# Full: the disk, the user's share of it, the largest file that the file system or a limit allows.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
Report = Callable[[str], None]


def terms(card: DatasetCard) -> str:
    """Return the terms that a person must agree to before the files of `card` are fetched."""
    source = card.source
    lines = [
        f"{card.name}: {card.task}, {card.holds}",
        f"  page:     {source.page}",
        f"  licence:  {source.licence}",
        f"  terms:    {source.terms}",
        f"  cite:     {source.citation}",
    ]
    if source.apply is not None:
        lines.append(f"  apply at: {source.apply}")
    lines += [f"  file:     {f.name}, {_size(f.bytes)}, from {f.url}" for f in card.files]
    return "\n".join(lines)


def fetch(
    card: DatasetCard,
    folder: Path,
    accept_terms: bool,
    progress_bar: bool = True,
    files: Sequence[str] | None = None,
    report: Report = print,
    timeout_s: float = 30.0,
) -> list[Path]:
    """Return the official files of `card`, downloaded into `folder` where they are not there yet.

    A file appears under its name only when it is whole and fits the card's checksum, or its size
    where no checksum is known. `report` gets a line on each file, with its sha256 where the card
    has none to compare with. A broken connection is tried three times, each from the beginning.

    Parameters
    ----------
    accept_terms : whether the person has accepted what :func:`terms` says.
    progress_bar : draws a bar on standard error.
    files : names of the card's files to fetch; None: all.
    timeout_s : seconds without a byte after which the connection counts as broken.

    Raises DataError where access must be applied for, nothing is to be fetched, the terms are not
    accepted, a file is unknown, refused by the server, broken off, not the official one, or does
    not fit on the disk, or where another file of its name is in the way. No part of it is left.
    """
    _check_access(card, accept_terms)
    wanted = [_named(card, name) for name in files] if files is not None else list(card.files)
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot be made a folder: {error.strerror}. Choose another."
        ) from error
    return [_fetched(file, folder, progress_bar, report, timeout_s) for file in wanted]


def _check_access(card: DatasetCard, accept_terms: bool) -> None:
    source, name = card.source, card.name
    if source.access == "installed":
        raise DataError(
            f"{name}: there is nothing to fetch: it comes with FedSub. Use it as it is: "
            f"data = '{name}'."
        )
    if source.access == "by-hand":
        raise DataError(
            f"{name}: there is no address to fetch its files from. Download them by hand from "
            f"{source.page}, and go on with `fedsub data prepare {name} --source FOLDER --out "
            f"{name}`."
        )
    if source.access == "credentialed":
        raise DataError(
            f"{name}: its owner gives the files only to people who have applied. Apply at "
            f"{source.apply}, download the files from there, and go on with "
            f"`fedsub data prepare {name} --source FOLDER --out {name}`."
        )
    if not accept_terms:
        raise DataError(
            f"{name}: its terms are not accepted: {source.licence}. Read them at "
            f"{source.page}, and pass --accept-terms if you agree."
        )


def _named(card: DatasetCard, name: str) -> OfficialFile:
    known = {file.name: file for file in card.files}
    if name not in known:
        raise DataError(
            f"{card.name}: no file {name!r}; there are {', '.join(known)}.{suggestion(name, known)}"
        )
    return known[name]


def _fetched(
    file: OfficialFile, folder: Path, progress_bar: bool, report: Report, timeout_s: float
) -> Path:
    path = folder / file.name
    try:
        if os.path.lexists(path):
            digest = _verified(path, file, f"{path}: is there already, and was left as it is")
            report(f"{path}: there already, {_judged(file, digest)}")
            return path
        if file.bytes is not None and shutil.disk_usage(folder).free < file.bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # Beside the final place, so that the move is one step; removed whatever happens.
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as draft:
            part = Path(draft) / file.name
            _download(file, part, progress_bar, report, timeout_s)
            digest = _verified(part, file, f"{file.url}: was fetched, and nothing was kept")
            part.replace(path)
    except OSError as error:
        raise _disk_error(file, folder, error) from error
    report(f"{path}: fetched, {_judged(file, digest)}")
    return path


def _download(
    file: OfficialFile, part: Path, progress_bar: bool, report: Report, timeout_s: float
) -> None:
    """Write what is at the address to `part`; errors of the disk pass through."""
    downloader = pooch.HTTPDownloader(
        progressbar=progress_bar,
        chunk_size=_CHUNK,
        timeout=timeout_s,
        # As the file is: a server must not pack what is packed already.
        headers={"Accept-Encoding": "identity"},
    )
    for attempt in range(1, TRIES + 1):
        try:
            downloader(file.url, str(part), None)
            return
        except requests.HTTPError as error:
            raise DataError(
                f"{file.url}: the server refused: {error}. The file may have moved: look at the "
                "data set's page, or try again later."
            ) from error
        except requests.RequestException as error:
            if attempt == TRIES:
                raise DataError(
                    f"{file.url}: the connection failed {TRIES} times, at last with: {error}. "
                    "Check the network, or try again later; nothing was kept."
                ) from error
            report(f"{file.url}: the connection failed; trying again ({attempt + 1} of {TRIES})")
            time.sleep(PAUSE_S)


def _verified(path: Path, file: OfficialFile, what: str) -> str:
    """Return a file's sha256, or raise a DataError that starts with `what`."""
    if not path.is_file():
        raise DataError(f"{what}: it is no file, expected {file.name}. Move it away.")
    size = path.stat().st_size
    digest: str = pooch.file_hash(str(path), alg="sha256")
    wrong = ""
    if file.sha256 is not None and digest != file.sha256:
        wrong = f"got sha256 {digest} ({_size(size)}), expected {file.sha256}"
    elif file.sha256 is None and file.bytes is not None and size != file.bytes:
        wrong = f"got {_size(size)}, expected {_size(file.bytes)}"
    if wrong:
        raise DataError(
            f"{what}: {wrong}, so it is not the file that the data set's card describes. Move away "
            "or delete a file that is there and fetch again; where a fresh one is wrong, look at "
            "the data set's page for what has changed."
        )
    return digest


def _judged(file: OfficialFile, digest: str) -> str:
    if file.sha256 is not None:
        return f"sha256 as expected, {digest}"
    known = "its size is as expected, but" if file.bytes is not None else "but"
    return f"{known} no official checksum is known to compare with: sha256 {digest}"


def _disk_error(file: OfficialFile, folder: Path, error: OSError) -> DataError:
    if error.errno not in _FULL:
        return DataError(
            f"{folder}: {file.name} cannot be read or written there: {error.strerror}. "
            "Choose another folder."
        )
    needed = f"it needs {_size(file.bytes)}" if file.bytes is not None else "its size is not known"
    return DataError(
        f"{folder}: {file.name} does not fit ({error.strerror}): {needed}, "
        f"{_size(shutil.disk_usage(folder).free)} are free. Make space or choose another folder; "
        "nothing was kept."
    )


def _size(size: int | None) -> str:
    return "size not known" if size is None else f"{size:,} bytes"
