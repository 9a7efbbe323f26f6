"""Where the official files of WISDM v1.1 are: in the archive, in its folder, or by themselves."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from fedsub_data.preparing.preparation import refused
from fedsub_data.preparing.tars import damaged, each_file
from fedsub_data.preparing.unpacking import DAMAGED, unpacked

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
            with closing(each_file(path, [official])) as files:
                if (found := next(files, None)) is None:
                    expected = f"{ARCHIVE}, which has it"
                    raise refused(path, f"an archive without {official}", expected)
                _, where, member, _ = found
                yield where, member
        else:
            with unpacked(path) as file:
                yield str(path), io.BufferedReader(file)
    except DAMAGED as error:
        raise damaged(path, error) from error


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
