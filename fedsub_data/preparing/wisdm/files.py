"""Where the official files of WISDM v1.1 are: in the archive, in its folder, or by themselves."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fedsub_core.errors import DataError
from fedsub_data.preparing.preparation import refused

ARCHIVE = "WISDM_ar_latest.tar.gz"
FOLDER = "WISDM_ar_v1.1"
RAW = "WISDM_ar_v1.1_raw.txt"
TRANSFORMED = "WISDM_ar_v1.1_transformed.arff"

_TAR = (".tar.gz", ".tgz", ".tar")
_FEATURES = {RAW: "mean, stats or raw", TRANSFORMED: "transformed"}


@contextmanager
def opened(source: Path, official: str) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the name and the lines, in bytes, of the `official` file in `source`.

    Parameters
    ----------
    source : Path
        The archive as downloaded, a folder that holds it or its unpacked folder, or the file
        itself, whatever its name before ``.txt`` or ``.arff``; ``.xz`` may follow.
    official : {RAW, TRANSFORMED}
        Nothing of an archive is written anywhere.

    Raises
    ------
    DataError
        Where the file is not there, or is damaged or truncated, also while its lines are read.
    """
    path = _located(source, official)
    try:
        if path.name.lower().endswith(_TAR):
            with tarfile.open(path, "r:*") as archive:
                name, file = _member(archive, path, official)
                yield f"{path}/{name}", file
        elif path.suffix.lower() == ".xz":
            with lzma.open(path, "rb") as unpacked:
                yield str(path), unpacked
        else:
            with open(path, "rb") as plain:
                yield str(path), plain
    except (EOFError, OSError, lzma.LZMAError, tarfile.TarError, zlib.error) as error:
        raise DataError(
            f"{path}: cannot be read to its end ({type(error).__name__}: {error}); it is damaged "
            "or was truncated. Fetch it again."
        ) from error


def _located(source: Path, official: str) -> Path:
    expected = f"{ARCHIVE}, its folder {FOLDER} or {official} for features = {_FEATURES[official]}"
    if source.is_dir():
        names = (official, f"{official}.xz", f"{FOLDER}/{official}", ARCHIVE)
        for path in (source / name for name in names):
            if path.is_file():
                return path
        raise refused(source, "a folder without it", expected)
    if not source.is_file():
        raise refused(source, "no such file or folder", expected)
    name = source.name.lower()
    if name.endswith(_TAR) or name.removesuffix(".xz").endswith(Path(official).suffix):
        return source
    raise refused(source, f"a file that ends in {source.suffix!r}", expected)


def _member(archive: tarfile.TarFile, path: Path, official: str) -> tuple[str, IO[bytes]]:
    for member in archive:
        if member.isfile() and member.name.rsplit("/", 1)[-1] == official:
            file = archive.extractfile(member)
            assert file is not None  # only links and folders have none
            return member.name, file
    raise refused(path, f"an archive without {official}", f"{ARCHIVE}, which has it")
