"""Which files are meant, whose they are by their names, and that nobody writes them meanwhile."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence
from pathlib import Path

from fedsub_core.errors import ConfigError, DataError
from fedsub_core.options import suggestion

#: What is read, by ending.
TEXT, PARQUET, TS, NUMPY = "text", "parquet", "ts", "numpy"
_TEXTS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")
_ENDINGS = dict.fromkeys(_TEXTS, TEXT) | {
    **{".parquet": PARQUET, ".pq": PARQUET},
    **{".ts": TS, ".npz": NUMPY, ".npy": NUMPY},
}


def find_files(patterns: Sequence[str]) -> list[Path]:
    """Return the files that are meant, each once, by name; a folder means all files in it.

    Raises
    ------
    DataError
        Where a pattern finds nothing.
    """
    files: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            these = [p for p in sorted(path.iterdir()) if ending(p) and p.name[0] != "."]
        else:
            these = [path] if path.is_file() else sorted(map(Path, glob.glob(pattern)))
        if not these:
            raise DataError(
                f"{pattern}: no such file; expected a file, a folder, or a pattern in quotes such "
                "as 'data/*.csv', of " + ", ".join(_ENDINGS)
            )
        files |= dict.fromkeys(these)
    return list(files)


def ending(path: Path) -> str | None:
    """Return a file's ending that is known, None for any other."""
    name = path.name.lower()
    return next((end for end in sorted(_ENDINGS, key=len)[::-1] if name.endswith(end)), None)


def kind_of(files: Sequence[Path]) -> str:
    """Return the kind of all files; raise DataError where there are several or an unknown one."""
    kinds: dict[str, Path] = {}
    for path in files:
        end = ending(path)
        if end is None:
            hint = suggestion(path.suffix, _ENDINGS)
            raise DataError(
                f"{path}: got ending {path.suffix!r}, expected {', '.join(_ENDINGS)}.{hint}"
            )
        kinds.setdefault(_ENDINGS[end], path)
    if len(kinds) > 1:
        named = " and ".join(map(str, kinds.values()))
        raise DataError(f"{named}: got files of several kinds, expected one. Import one kind alone")
    return next(iter(kinds))


def people_of(files: Sequence[Path], pattern: str) -> list[str]:
    """Return the person of each file: the pattern's first group, else its name without ending.

    Raises
    ------
    ConfigError
        Where the pattern finds nothing in a file's name.
    """
    if not pattern:
        return [path.name.removesuffix(ending(path) or "") for path in files]
    people = []
    for path in files:
        match = re.search(pattern, path.name)
        if match is None or not match[1]:
            raise ConfigError(
                f"subject-from-name: got {pattern!r}, which finds nobody in {path.name!r}; "
                "expected a group that is there in every file's name"
            )
        people.append(match[1])
    return people


class Unchanged:
    """Holds files against what they were when the import began; ``with`` does so at the end.

    Then a file that changed is what is said, and no fault that half of it seems to have.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._before = {path: self._seen(path) for path in files}

    def __enter__(self) -> None:
        """Begin to read."""

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None or issubclass(kind, DataError):
            self.check()

    def check(self) -> None:
        """Raise DataError where a file was written, replaced or removed since."""
        for path, before in self._before.items():
            if self._seen(path) != before:
                raise DataError(
                    f"{path}: changed while it was read; expected a file that stays as it is. "
                    "Nothing was written. Import again when it is whole, or import a copy"
                )

    @staticmethod
    def _seen(path: Path) -> tuple[int, ...] | None:
        try:
            seen = path.stat()
        except FileNotFoundError:
            return None
        return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns
