"""Which files are meant, and that nobody writes them meanwhile."""

import glob
from collections.abc import Sequence
from pathlib import Path

from fedsub_core.errors import DataError
from fedsub_core.options import suggestion

#: What is read, by ending.
TEXT, PARQUET, TS, NUMPY, MAT, ZIP = "text", "parquet", "ts", "numpy", "mat", ".zip"
_TEXTS = (".csv", ".tsv", ".txt", ".dat", ".csv.gz", ".tsv.gz", ".txt.gz", ".dat.gz")
_ENDINGS = dict.fromkeys(_TEXTS, TEXT) | {
    **{".parquet": PARQUET, ".pq": PARQUET},
    **{".ts": TS, ".npz": NUMPY, ".npy": NUMPY, ".mat": MAT},
    ZIP: ZIP,
}


def find_files(patterns: Sequence[str]) -> list[Path]:
    """Return the files that are meant, each once, by name; a folder means all files below it.

    Raises DataError where a pattern finds nothing.
    """
    files: dict[Path, None] = {}
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            these = [p for p in sorted(path.rglob("*")) if ending(p) and not _is_hidden(p, path)]
        else:
            found = [pattern] if path.is_file() else glob.glob(pattern, recursive=True)
            these = sorted(map(Path, found))
        if not these:
            raise DataError(
                f"{pattern}: no such file; expected a file, a folder, or a pattern in quotes such "
                "as 'data/*.csv', of " + ", ".join(_ENDINGS)
            )
        files |= dict.fromkeys(these)
    return list(files)


def _is_hidden(path: Path, folder: Path) -> bool:
    """Return whether a file below a folder is hidden, or in a folder that is."""
    parts = path.relative_to(folder).parts
    return path.is_dir() or any(part[0] == "." or part == "__MACOSX" for part in parts)


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


def people_of(files: Sequence[Path]) -> list[str]:
    """Return each file's name without its ending; with its folder's where names come twice."""
    stems = [path.name[: len(path.name) - len(ending(path) or "")] for path in files]
    return [
        f"{path.absolute().parent.name}-{stem}" if stems.count(stem) > 1 else stem
        for path, stem in zip(files, stems, strict=True)
    ]


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
